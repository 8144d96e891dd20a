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
def test_a_run_whose_worker_is_killed_goes_on_and_nothing_acknowledged_is_lost(cluster: Cluster):
    traffic = load(cluster, TENANTS, LINES)
    killed = kill_busy_worker(cluster)
    for number, url in enumerate(cluster.urls):
        traffic.store(url, "alpha", f"Stored while a worker was dead, through replica {number}.")
        traffic.search(url, "beta")
    assert not traffic.failures
    settle(cluster, TENANTS, quiet=False)
    assert not find_losses(traffic, cluster.urls[1])
    (run,) = (run for run in runs_of(cluster) if run.run_id == killed)
    assert run.is_success, "the run of the killed worker was not resumed"
    by_worker, _, _ = where_runs_ran(cluster)
    assert by_worker.keys() <= {host.name for host in cluster.workers}
    assert not list((cluster.folder / "worker1" / "data").glob("*/vectors")), "a worker keeps a tenant on its disk"
    traffic.store(cluster.urls[0], "beta", "Stored for a run that another machine shall have.")
    with cluster.instance() as instance:
        cluster.wait_for("a worker has a run of beta", lambda: is_worked_on(instance, "beta"))
        forget_tenant(instance, "beta")
        assert instance.get_runs(dg.RunsFilter(tags={PARTITION_TAG: "beta"})), "a worker writes to a run that was deleted"
        cluster.wait_for("the worker has ended", lambda: not is_worked_on(instance, "beta"))
        cluster.wait_for("beta is forgotten", lambda: is_forgotten(instance, "beta"))


def is_worked_on(instance: dg.DagsterInstance, tenant: str) -> bool:
    """Return whether a worker has a run of a tenant, according to Celery."""
    runs = instance.get_runs(dg.RunsFilter(tags={PARTITION_TAG: tenant}))
    return any(TASK_TAG in run.tags and task_of(instance, run).state == "STARTED" for run in runs)


def is_forgotten(instance: dg.DagsterInstance, tenant: str) -> bool:
    forget_tenant(instance, tenant)
    return not instance.get_runs(dg.RunsFilter(tags={PARTITION_TAG: tenant}))
