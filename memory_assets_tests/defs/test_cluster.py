"""A small cluster on real servers, and a worker that is killed during a run. `make cluster-test` is the large form."""

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import dagster as dg
import pytest

from memory_assets.defs.upkeep import PARTITION_TAG, forget_tenant
from memory_assets.defs.workers import TASK_TAG
from memory_assets_tests.cluster import Cluster
from memory_assets_tests.cluster_history import find_losses, kill_busy_worker, load, runs_of, settle, task_of, where_runs_ran
from memory_assets_tests.services import NoServerError
from memory_assets_tests.torture import zygote

TENANTS = ["alpha", "beta"]
LINES = "\n".join(
    json.dumps({"id": 1000 + n, "content": f"Alice moved billing export {n} to Atlas; Bob checks ticket {7 * n}."})
    for n in range(4)
)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    if not find_spec("dagster_celery") or not find_spec("dagster_postgres"):
        pytest.skip("the extra [cluster] is not installed")
    try:
        with Cluster(tmp_path / "cluster", workers=1, answering=1, webserver=False) as running:
            yield running
    except NoServerError as error:
        pytest.skip(str(error))


@pytest.mark.long
def test_a_run_whose_worker_is_killed_goes_on_nothing_acknowledged_is_lost_and_a_deleted_tenant_waits_for_its_worker(
    cluster: Cluster,
):
    traffic = load(cluster, TENANTS, LINES)
    killed = kill_busy_worker(cluster)
    (kept,) = (run.tags[PARTITION_TAG] for run in runs_of(cluster) if run.run_id == killed)
    (deleted,) = {*TENANTS} - {kept}
    for number, url in enumerate(cluster.urls):
        traffic.store(url, kept, f"Stored while a worker was dead, through replica {number}.")
        traffic.search(url, deleted)
    traffic.store(cluster.urls[0], deleted, "Stored for a run that the new worker shall have.")
    assert not traffic.failures
    with cluster.instance() as instance:  # the run of the other tenant is the first of the new worker
        cluster.wait_for("the new worker has a run", lambda: is_worked_on(instance, deleted))
        done = zygote.shared().start(cluster.replicas[0].environment, "tenant", "delete", deleted, "--yes").wait()
        assert done.code == 0, done.err
        assert instance.get_runs(dg.RunsFilter(tags={PARTITION_TAG: deleted})), "a worker writes to a run that was deleted"
        cluster.wait_for("the worker has ended", lambda: not is_worked_on(instance, deleted))
        cluster.wait_for("the tenant is forgotten", lambda: is_forgotten(instance, deleted), pause=2)
    del traffic.keys[deleted]
    settle(cluster, [kept], quiet=False)
    assert not find_losses(traffic, cluster.urls[1])
    (run,) = (run for run in runs_of(cluster) if run.run_id == killed)
    assert run.is_success, "the run of the killed worker was not resumed"
    by_worker, _, _ = where_runs_ran(cluster)
    assert by_worker.keys() <= {host.name for host in cluster.workers}
    assert not list((cluster.folder / "worker1" / "data").glob("*/vectors")), "a worker keeps a tenant on its disk"


def is_worked_on(instance: dg.DagsterInstance, tenant: str) -> bool:
    """Return whether a worker has a run of a tenant, according to Celery."""
    runs = instance.get_runs(dg.RunsFilter(tags={PARTITION_TAG: tenant}))
    return any(TASK_TAG in run.tags and task_of(instance, run).state == "STARTED" for run in runs)


def is_forgotten(instance: dg.DagsterInstance, tenant: str) -> bool:
    forget_tenant(instance, tenant)
    return not instance.get_runs(dg.RunsFilter(tags={PARTITION_TAG: tenant}))
