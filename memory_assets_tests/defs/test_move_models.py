"""The job that moves all tenants to other models: a resumable backfill of the partitions, never half swapped."""

import os
import signal
from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest

from memory_assets.defs.partitions import PARTITION_SET
from memory_assets.errors import StoreError
from memory_assets.ingest import backfill
from memory_assets.ingest.direct import store_memories
from memory_assets.language.embedders.e5 import E5_INSTALL_COMMAND, E5_NAME, e5_is_installed
from memory_assets.models import NewMemory, Source
from memory_assets.operations.search import search
from memory_assets.settings import load_settings
from memory_assets.stores.memories import MemoryStore
from memory_assets.tenants import Tenant
from memory_assets_tests.conftest import IS_LONG
from memory_assets_tests.defs.conftest import metadata, run
from memory_assets_tests.defs.deployment import Deployment, wait_for

_LAUNCH = """mutation ($asked: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $asked) {
    __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }"""
_BACKFILL = """query ($id: String!) { partitionBackfillOrError(backfillId: $id) { ... on PartitionBackfill {
    status numPartitions partitionStatusCounts { runStatus count } } } }"""
_RUNS = """query ($id: String!) { runsOrError(filter: {tags: [{key: "dagster/backfill", value: $id}]}) { ... on Runs { results {
    status tags { key value } eventConnection { events { ... on LogMessageEvent { message } ... on MaterializationEvent {
    assetKey { path } metadataEntries { label ... on IntMetadataEntry { intValue } } } } } } } } }"""
_COMMITTED = 512

pytestmark = pytest.mark.skipif(not e5_is_installed(), reason=f"needs `{E5_INSTALL_COMMAND}`")


def test_a_move_that_fails_leaves_the_old_vectors_and_the_next_run_goes_on(
    instance: dg.DagsterInstance, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance.add_dynamic_partitions(PARTITION_SET, ["bob"])
    facts = ("Priya owns the billing export.", "Tomasz keeps the rota.", "Leila mended the lock.", "The boiler leaks.")
    for name in ("main", "bob"):
        store_memories(Tenant(tenant.settings, name), [NewMemory(fact, Source.CLI) for fact in facts])
    old = tenant.memories.columns.embedder
    monkeypatch.setenv("MEMORY_EMBEDDER", "e5-multilingual")
    monkeypatch.setattr(backfill, "_CHUNK", 2)
    update, calls = MemoryStore.update, iter(range(100))

    def fail_once(*given: object) -> int:
        if next(calls) == 1:
            raise StoreError("The disk is full; make room.")
        return update(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(MemoryStore, "update", fail_once)
    failed = run(instance, "move_models")
    assert not failed.success
    (failure,) = [event.step_failure_data for event in failed.all_events if event.is_step_failure]
    assert failure.user_failure_data and failure.user_failure_data.description == "The disk is full; make room."
    assert Tenant(tenant.settings).memories.columns.embedder == old
    assert search(Tenant(tenant.settings), "who owns the billing export").memories
    assert metadata(run(instance, "move_models"), "memories")["embedded_anew"] == 2
    assert metadata(run(instance, "move_models", "bob"), "memories")["embedded_anew"] == 4
    for name in ("main", "bob"):
        moved = Tenant(load_settings(), name)
        assert moved.memories.columns.embedder == E5_NAME
        assert sum(column.startswith("embedding_") for column in moved.memories.table.schema.names) == 1
        assert search(moved, "who owns the billing export").memories[0].content == facts[0]


class Backfill:
    """A backfill of `move_models` over all tenants, launched and watched as the UI does it."""

    def __init__(self, deployment: Deployment, number: str) -> None:
        self.ask, self.id = deployment.ask, number

    @classmethod
    def launch(cls, deployment: Deployment, tenants: list[str]) -> "Backfill | None":
        """None before a sensor has made each tenant a partition."""
        repository = {"repositoryLocationName": "memory_assets", "repositoryName": "__repository__"}
        selector = {"partitionSetName": "move_models_partition_set", "repositorySelector": repository}
        asked = {"selector": selector, "partitionNames": tenants}
        launched = deployment.ask(_LAUNCH, asked=asked)["launchPartitionBackfill"]
        return cls(deployment, launched["backfillId"]) if "backfillId" in launched else None

    def progress(self) -> tuple[str, dict[str, int]]:
        found = self.ask(_BACKFILL, id=self.id)["partitionBackfillOrError"]
        return found["status"], {each["runStatus"]: each["count"] for each in found["partitionStatusCounts"]}

    def runs(self) -> list[dict[str, Any]]:
        return self.ask(_RUNS, id=self.id)["runsOrError"]["results"]

    def messages(self) -> list[str]:
        return [event["message"] for run in self.runs() for event in run["eventConnection"]["events"] if "message" in event]

    def embedded_anew(self, tenant: str) -> list[int]:
        """Return the value that a tenant's finished runs reported, newest first."""
        return [
            entry["intValue"]
            for run in self.runs()
            if {"key": "dagster/partition", "value": tenant} in run["tags"]
            for event in run["eventConnection"]["events"]
            if event.get("assetKey") == {"path": ["memories"]}
            for entry in event["metadataEntries"]
            if entry["label"] == "embedded_anew"
        ]


@pytest.fixture
def deployment(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    many = [f"Priya keeps ledger {number} of the quarry." for number in range(_COMMITTED)]
    sentences = [f"The pump at gate {number} was mended by Tomasz after the flood." for number in range(6)]
    slow = [" ".join([f"Page {number} of the logbook.", *sentences]) for number in range(60)]
    for name, facts in (("main", [*many, *slow]), ("bob", ["Leila mended the lock."])):
        store_memories(Tenant(tenant.settings, name), [NewMemory(fact, Source.CLI) for fact in facts])
    monkeypatch.setenv("MEMORY_EMBEDDER", "e5-multilingual")
    made = Deployment("--no-service")
    try:
        yield made
    finally:
        made.kill()


@pytest.mark.skipif(not IS_LONG, reason="a dead run is started again after minutes: `make long` waits for it")
@pytest.mark.timeout(1500)
def test_a_backfill_of_all_tenants_goes_on_by_itself_after_it_was_killed_in_the_middle(
    deployment: Deployment, tenant: Tenant
) -> None:
    old = tenant.memories.columns.embedder
    wait_for("the start", deployment.running)
    backfill = wait_for("the launch", lambda: Backfill.launch(deployment, ["main", "bob"]))
    total = len(tenant.memories)
    wait_for("the first commit", lambda: f"embedded {_COMMITTED} of {total} memories" in backfill.messages(), 0.1)
    for part in ("code location", "daemon"):
        os.killpg(deployment.pid(part), signal.SIGKILL)
    assert backfill.progress()[0] == "REQUESTED"
    killed = Tenant(load_settings())
    assert killed.memories.columns.embedder == old, "searches use the old vectors until all new ones are made"
    assert search(killed, "who keeps ledger 7").memories
    wait_for("the end", lambda: backfill.progress()[0] == "COMPLETED_SUCCESS")
    assert (backfill.progress()[1]["SUCCESS"], [each["status"] for each in backfill.runs()]) == (2, ["SUCCESS", "SUCCESS"])
    assert (backfill.embedded_anew("main"), backfill.embedded_anew("bob")) == ([total - _COMMITTED], [1])
    for name in ("main", "bob"):
        moved = Tenant(load_settings(), name)
        assert moved.memories.columns.embedder == E5_NAME
        assert sum(column.startswith("embedding_") for column in moved.memories.table.schema.names) == 1
    assert search(Tenant(load_settings(), "bob"), "who mended the lock").memories
