"""Cluster scenarios: load tenants, kill parts during stores and searches, then compare the stores with what clients were told."""

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any

import dagster as dg
import httpx
from dagster._core.storage.tags import PARTITION_NAME_TAG

from memory_assets.defs.workers import WorkerLauncher
from memory_assets_tests.cluster import Cluster, Host

if TYPE_CHECKING:
    from celery.result import AsyncResult

_STORE_PAUSE_SECONDS = 0.3
_TIMEOUT_SECONDS = 60.0
_SETTLE_SECONDS = 1500.0
ENDED = (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)


@dataclass(slots=True)
class Traffic:
    """Requests of the clients and the answers they got."""

    keys: dict[str, str]
    urls: Sequence[str]
    acknowledged: dict[str, set[str]] = field(default_factory=dict)
    """Texts that a replica acknowledged, by tenant."""
    unanswered: dict[str, set[str]] = field(default_factory=dict)
    """Texts whose store request failed, by tenant: each may be stored once or not at all."""
    searches: list[tuple[float, str, bool]] = field(default_factory=list)
    """Start time, replica, and whether the answer was 200."""
    failures: Counter[str] = field(default_factory=Counter)
    _lock: Lock = field(default_factory=Lock)

    def post(self, url: str, tenant: str, path: str, body: Any, timeout: float = _TIMEOUT_SECONDS) -> httpx.Response:
        """Send a request to a replica."""
        return httpx.post(f"{url}/api/v1/{tenant}/{path}", json=body, headers={"X-API-Key": self.keys[tenant]}, timeout=timeout)

    def store(self, url: str, tenant: str, text: str) -> None:
        """Store a text and record whether the replica acknowledged it."""
        try:
            answer = self.post(url, tenant, "store", {"content": text})
            said = str(answer.status_code)
        except httpx.HTTPError as error:
            said = type(error).__name__
        with self._lock:
            told = self.acknowledged if said == "200" else self.unanswered
            told.setdefault(tenant, set()).add(text)
            if said != "200":
                self.failures[f"store: {said}"] += 1

    def search(self, url: str, tenant: str) -> None:
        """Search and record whether the replica answered."""
        begun = time.monotonic()
        try:
            answer = self.post(url, tenant, "search", {"query": "who reviewed the harbour report"}, timeout=15)
            said = str(answer.status_code)
        except httpx.HTTPError as error:
            said = type(error).__name__
        with self._lock:
            self.searches.append((begun, url, said == "200"))
            if said != "200":
                self.failures[f"search: {said}"] += 1

    def answered(self, url: str, since: float, until: float) -> tuple[int, int]:
        """Count the answered and the failed searches of a replica in a span of time."""
        found = [ok for begun, where, ok in self.searches if where == url and since <= begun < until]
        return sum(found), len(found) - sum(found)

    @contextmanager
    def flowing(self) -> Iterator[None]:
        """Store and search through every replica until the block ends."""
        stop = Event()
        tenants = sorted(self.keys)

        def store(url: str, number: int) -> None:
            chance = random.Random(number)
            for count in range(1_000_000):
                if stop.wait(_STORE_PAUSE_SECONDS):
                    return
                tenant = chance.choice(tenants)
                self.store(
                    url, tenant, f"Carol reviewed harbour report {number}-{count} and asked Emil about ticket {count * 7}."
                )

        def search(url: str, number: int) -> None:
            chance = random.Random(number)
            while not stop.wait(_STORE_PAUSE_SECONDS):
                self.search(url, chance.choice(tenants))

        threads = [Thread(target=work, args=(url, n)) for n, url in enumerate(self.urls) for work in (store, search)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            for thread in threads:
                thread.join()


def load(cluster: Cluster, tenants: Sequence[str], lines: str) -> Traffic:
    """Create tenants and import the same memories into each, through the replicas in turn."""
    traffic = Traffic(cluster.create_tenants(tenants), cluster.urls)
    for number, tenant in enumerate(tenants):
        url = cluster.urls[number % len(cluster.urls)]
        answer = httpx.post(
            f"{url}/api/v1/{tenant}/import",
            content=lines,
            headers={"X-API-Key": traffic.keys[tenant], "Content-Type": "application/x-ndjson"},
            timeout=_TIMEOUT_SECONDS,
        )
        assert answer.status_code == 200, answer.text
        traffic.acknowledged[tenant] = {json.loads(line)["content"] for line in lines.splitlines()}
    return traffic


def find_losses(traffic: Traffic, url: str) -> list[str]:
    """Return the losses: acknowledged texts that are missing or stored twice, and unacknowledged texts that are stored twice."""
    found: list[str] = []
    for tenant, key in traffic.keys.items():
        answer = httpx.get(f"{url}/api/v1/{tenant}/export", headers={"X-API-Key": key}, timeout=_TIMEOUT_SECONDS)
        assert answer.status_code == 200, answer.text
        rows = (json.loads(line) for line in answer.text.splitlines())
        counts = Counter(row["content"] for row in rows if row.get("content"))
        found += [f"{tenant}: {counts[text]} x {text!r}" for text in traffic.acknowledged.get(tenant, ()) if counts[text] != 1]
        found += [f"{tenant}: {counts[text]} x {text!r}" for text in traffic.unanswered.get(tenant, ()) if counts[text] > 1]
    return found


def settle(cluster: Cluster, tenants: Sequence[str], *, quiet: bool = True) -> None:
    """Wait until every tenant's newest run has succeeded and, if `quiet`, the sensor requests no more runs."""
    with cluster.instance() as instance:

        def is_settled() -> bool:
            runs = instance.get_runs()
            if any(not run.is_finished for run in runs):
                return False
            newest: dict[str, dg.DagsterRun] = {}
            for run in runs:
                newest.setdefault(run.tags.get(PARTITION_NAME_TAG, ""), run)
            return all(name in newest and newest[name].is_success for name in tenants) and (
                not quiet or _has_nothing_to_do(instance)
            )

        cluster.wait_for("every tenant's newest run is a success", _steadily(is_settled), _SETTLE_SECONDS, pause=2)


def _has_nothing_to_do(instance: dg.DagsterInstance) -> bool:
    from dagster._core.scheduler.instigation import TickStatus

    for state in instance.all_instigator_state():
        if state.name == "stored_memories_sensor":
            ticks = instance.get_ticks(state.origin.get_id(), state.selector_id, limit=2)
            return len(ticks) == 2 and all(tick.status == TickStatus.SKIPPED for tick in ticks)
    return False


def _steadily(look: Callable[[], bool]) -> Callable[[], bool]:
    def calm() -> bool:
        try:
            return look()
        except Exception:  # noqa: BLE001 - PostgreSQL may just have been killed
            return False

    return calm


def runs_of(cluster: Cluster, *, started: bool = False) -> list[dg.DagsterRun]:
    """Return all runs, or only the running ones."""
    wanted = dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]) if started else None
    with cluster.instance() as instance:
        return list(instance.get_runs(wanted))


def task_of(instance: dg.DagsterInstance, run: dg.DagsterRun) -> "AsyncResult":
    """Return Celery's result object of a run."""
    launcher = instance.run_launcher
    assert isinstance(launcher, WorkerLauncher)
    return launcher.celery.AsyncResult(run.tags.get("dagster-celery/task_id", ""))


def kill_busy_worker(cluster: Cluster) -> str:
    """Wait for a worker with a run, kill it and return the run's id."""
    found: list[tuple[Host, str]] = []

    with cluster.instance() as instance:

        def look() -> bool:
            for run in instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])):
                task = task_of(instance, run)
                if task.state == "STARTED":
                    found.append((cluster.hosts[task.info["hostname"].partition("@")[0]], run.run_id))
            return bool(found)

        cluster.wait_for("a worker has a run", look)
    host, run_id = found[0]
    host.kill()
    return run_id


def where_runs_ran(cluster: Cluster) -> tuple[Counter[str], Counter[str], list[str]]:
    """Return finished runs by the worker that had them, all runs by status, and the runs that were taken over or repeated."""
    by_worker: Counter[str] = Counter()
    by_status: Counter[str] = Counter()
    again: list[str] = []
    with cluster.instance() as instance:
        for run in instance.get_runs():
            by_status[run.status.value] += 1
            if run.is_finished and (worker := task_of(instance, run).worker):
                by_worker[worker.partition("@")[0]] += 1
            resumed = sum(
                "Resuming run" in (record.message or "")
                for record in instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ENGINE_EVENT)
            )
            if resumed or run.parent_run_id:
                again.append(f"{run.tags.get(PARTITION_NAME_TAG)}: {'resumed' if resumed else 'retried'}, {run.status.value}")
    return by_worker, by_status, again
