"""Several machines on S3, DuckLake and PostgreSQL: other clocks, other settings, and machines that die."""

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from memory_assets.defs import workers
from memory_assets.errors import ConflictError, MemoryAssetsError, SettingsError, StoreError
from memory_assets.ingest.backfill import catch_up
from memory_assets.keeping import restoring
from memory_assets.keeping.copying import take_backup
from memory_assets.keeping.repository import Repository
from memory_assets.language.embedders import EmbedderError
from memory_assets.models import NewMemory, RelationType, Source
from memory_assets.operations import tenants
from memory_assets.operations.answers import LocalTime
from memory_assets.operations.backup import restore_backup as restore
from memory_assets.operations.erase import erase
from memory_assets.operations.store import store
from memory_assets.settings import Settings
from memory_assets.stores.lance import facts_of
from memory_assets.stores.relations import StatedRelation
from memory_assets.stores.tombstones import Tombstones
from memory_assets.stores.upkeep import REWRITTEN_FACT, drop_older_versions
from memory_assets.tenants import Tenant, open_states, sweep_deleted, tenant_names
from memory_assets_tests.services import ObjectStorage, PostgreSQL
from memory_assets_tests.stores.manifests import set_clock_of_writer
from memory_assets_tests.stores.objects import object_storage, objects
from memory_assets_tests.torture import zygote

pytestmark = pytest.mark.timeout(600)
_LATE = 2**52 + 9


def test_a_host_with_another_place_refuses_with_the_place_that_the_others_use(elsewhere: Settings) -> None:
    store(Tenant(elsewhere), NewMemory("Mira owns the xylophone.", Source.CLI))
    other = elsewhere.model_copy(update={"vectors_uri": f"{elsewhere.vectors_uri}-other"})
    for work in (
        lambda: tenant_names(other),
        lambda: tenants.create(Tenant(other, "bob")),
        lambda: len(Tenant(other).memories),
        lambda: store(Tenant(other, "bob"), NewMemory("Tomasz owns the boiler.", Source.CLI)),
        lambda: store(Tenant(other), NewMemory("Tomasz owns the boiler.", Source.CLI)),
        lambda: tenants.delete(Tenant(other)),
    ):
        mend = f"are in {elsewhere.vectors_uri}; this host looks in {other.vectors_uri}: set MEMORY_VECTORS_URI={elsewhere.vectors_uri} "
        with pytest.raises(MemoryAssetsError, match=mend):
            work()
    assert (tenant_names(elsewhere), len(Tenant(elsewhere).memories), objects(other, "main")) == (["main"], 1, [])


def test_a_host_with_another_embedder_than_the_memories_moves_none_and_says_so(
    elsewhere: Settings, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(Tenant(elsewhere), NewMemory("Mira owns the xylophone.", Source.CLI))
    behind = Tenant(elsewhere.model_copy(update={"embedder": "ollama:none"}))
    assert catch_up(behind, lambda *_: None) == 0
    assert "while MEMORY_EMBEDDER of this host is ollama:none; give all hosts the same, and to move" in caplog.text
    monkeypatch.setattr(type(behind.memories.columns), "embedder", "openai:m")
    with pytest.raises(EmbedderError, match="; set MEMORY_EMBEDDER=openai:m, or launch"):
        _ = Tenant(elsewhere).embedder


def test_a_host_that_looks_in_object_storage_for_memories_in_a_folder_is_told_what_to_unset(elsewhere: Settings) -> None:
    here = elsewhere.model_copy(update={"vectors_uri": None})
    state = open_states(here).open("ann")
    state.claim()
    state.note_commit()
    with pytest.raises(
        SettingsError,
        match=f"in {elsewhere.vectors_uri}: unset MEMORY_VECTORS_URI here, or set it to {elsewhere.vectors_uri} on all",
    ):
        tenant_names(elsewhere)


def test_a_host_with_another_place_leaves_the_remains_of_deleted_tenants_to_the_others(elsewhere: Settings) -> None:
    store(Tenant(elsewhere), NewMemory("Mira owns the xylophone.", Source.CLI))
    other = elsewhere.model_copy(update={"vectors_uri": f"{elsewhere.vectors_uri}-other"})
    state = Tenant(elsewhere).state
    state.claim()
    state.delete()
    assert sweep_deleted(other) == {}
    assert [each.is_swept for each in open_states(elsewhere).deleted()] == [False]
    sweep_deleted(elsewhere)
    assert objects(elsewhere, "main") == []


def test_a_database_that_was_replaced_by_an_empty_one_is_told(
    elsewhere: Settings, servers: tuple[ObjectStorage, PostgreSQL]
) -> None:
    store(Tenant(elsewhere), NewMemory("Mira owns the xylophone.", Source.CLI))
    servers[1].create_database(f"{elsewhere.state_uri}_empty".rpartition("/")[2])
    there = elsewhere.model_copy(update={"state_uri": f"{elsewhere.state_uri}_empty"})
    for _ in range(2):
        with pytest.raises(StoreError, match=f"is empty, while {elsewhere.vectors_uri} holds memories; restore"):
            store(Tenant(there), NewMemory("Tomasz owns the boiler.", Source.CLI))
    assert tenant_names(there.model_copy(update={"vectors_uri": f"{elsewhere.vectors_uri}-new"})) == []


def test_an_empty_database_beside_what_a_deleted_tenant_left_is_new(
    elsewhere: Settings, servers: tuple[ObjectStorage, PostgreSQL]
) -> None:
    store(Tenant(elsewhere), NewMemory("Mira owns the xylophone.", Source.CLI))
    tenants.delete(Tenant(elsewhere))
    servers[1].create_database(f"{elsewhere.state_uri}_empty".rpartition("/")[2])
    assert tenant_names(elsewhere.model_copy(update={"state_uri": f"{elsewhere.state_uri}_empty"})) == []


def test_a_worker_has_no_connection_to_postgresql_when_it_forks(elsewhere: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    open_states(elsewhere).close()
    threads = set(threading.enumerate())

    def fork() -> None:
        assert set(threading.enumerate()) <= threads
        raise StoreError("forked")

    monkeypatch.setattr("memory_assets.settings.load_settings", lambda: elsewhere)
    monkeypatch.setattr(workers.dg.DagsterInstance, "get", fork)
    with pytest.raises(SystemExit, match="forked"):
        workers.work()
    assert tenant_names(elsewhere) == []


def test_threads_that_connect_first_share_one_pool(elsewhere: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    import psycopg

    both, connect, threads = threading.Barrier(2), psycopg.connect, set(threading.enumerate())

    def meet(*given: Any, **named: Any) -> Any:
        both.wait(60)
        return connect(*given, **named)

    monkeypatch.setattr(psycopg, "connect", meet)
    with ThreadPoolExecutor(2) as callers:
        assert list(callers.map(tenant_names, [elsewhere] * 2)) == [[], []]
    open_states(elsewhere).close()
    assert set(threading.enumerate()) <= threads


def objects_with(settings: Settings, word: bytes) -> list[str]:
    storage = object_storage(settings)
    return [path for path in objects(settings, "main") if word in storage.open_input_file(path).read()]


def test_an_erasure_that_is_repeated_after_it_was_finished_removes_what_stayed_in_the_bucket(elsewhere: Settings) -> None:
    tenant = Tenant(elsewhere)
    store(tenant, NewMemory("Mira owns the xylophone.", Source.CLI, id=2**52 + 1))
    set_clock_of_writer(tenant.memories.stored, 600, elsewhere)
    with pytest.raises(StoreError, match="set the clock"):
        erase(Tenant(elsewhere), [2**52 + 1], confirm=True)
    Tombstones.change(tenant.state, Tombstones.finish)  # as earlier releases did
    assert objects_with(elsewhere, b"xylophone")
    set_clock_of_writer(tenant.memories.stored, -600, elsewhere)
    done = erase(Tenant(elsewhere), [2**52 + 1], confirm=True)
    assert objects_with(elsewhere, b"xylophone") == []
    assert "`memory run` builds the graph again." in done.text(LocalTime(UTC))


def test_older_versions_go_with_their_files_though_the_clock_of_every_machine_is_behind_that_of_the_bucket(
    elsewhere: Settings,
) -> None:
    stored = Tenant(elsewhere).memories.stored
    store(Tenant(elsewhere), NewMemory("Mira owns the xylophone.", Source.CLI, id=2**52 + 1))
    stored.writing.delete(f"id = {2**52 + 1}")
    set_clock_of_writer(stored, -600, elsewhere)
    drop_older_versions(Tenant(elsewhere).memories.stored)
    assert objects_with(elsewhere, b"xylophone") == []
    assert REWRITTEN_FACT not in facts_of(Tenant(elsewhere).memories.stored.writing.schema)


def _restore_until(settings: Settings, place: str, readings: int) -> None:
    """Restore into a tenant in which another machine stores a text meanwhile, and die at the reading of a table after so many."""
    from lancedb.query import LanceEmptyQueryBuilder

    refuse, scan, checks, left = restoring._refuse_filled, LanceEmptyQueryBuilder.__init__, iter(range(2)), iter(range(readings))
    is_stored = False

    def refuse_and_store(*given: Any) -> None:
        nonlocal is_stored
        refuse(*given)
        if next(checks, None) is None:
            store(Tenant(settings), NewMemory("Tomasz owns the boiler.", Source.CLI, id=_LATE))
            is_stored = True

    def scan_or_die(*given: Any) -> None:
        if is_stored and next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        scan(*given)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(restoring, "_refuse_filled", refuse_and_store)
        patched.setattr(LanceEmptyQueryBuilder, "__init__", scan_or_die)
        restore(Tenant(settings), place, source="main")


def test_a_restore_that_is_killed_loses_nothing_that_another_machine_stored_meanwhile(
    elsewhere: Settings, settings: Settings, tmp_path: Path
) -> None:
    here, place, copied = Tenant(settings), str(tmp_path / "backups"), {2**52 + number for number in range(3)}
    for number in copied:
        store(here, NewMemory(f"Note {number} is about the crane.", Source.CLI, id=number))
    here.relations.state(StatedRelation(2**52, 2**52 + 1, RelationType.LEADS_TO))
    take_backup(here, Repository.of(settings, place))
    readings = 0
    while True:
        tenants.create(there := Tenant(elsewhere))
        ended = zygote.shared().call(_restore_until, elsewhere, place, readings).wait()
        found = set(Tenant(elsewhere).memories.scan(("id",))["id"].to_pylist())
        assert found in ({_LATE}, {*copied, _LATE}), readings
        with pytest.raises(
            ConflictError, match="all 3 of this backup among them" if copied <= found else "restore into a new one"
        ):
            restore(Tenant(elsewhere), place, source="main")
        if not ended.killed:
            break
        tenants.delete(there)
        readings += 1
    assert (ended.code, readings > 2, found) == (0, True, {*copied, _LATE})
    assert len(Tenant(elsewhere).relations) == 1
