"""A run of an unchanged world opens nothing, and whatever changes is looked at."""

from collections.abc import Callable
from datetime import UTC, datetime

import dagster as dg
import pytest

from memory_assets.defs.runner import run_remember
from memory_assets.defs.settled import Settling
from memory_assets.errors import MemoryAssetsError
from memory_assets.graph import edges
from memory_assets.graph.relevance import explain, refresh_relevance
from memory_assets.ingest import entries
from memory_assets.ingest.direct import store_memories
from memory_assets.models import NewMemory, Source, State
from memory_assets.operations.run import Ran
from memory_assets.settings import load_settings
from memory_assets.stores.access_log import AccessLog
from memory_assets.stores.catalog import Catalog
from memory_assets.stores.tables import StoredTable
from memory_assets.tenants import Tenant
from memory_assets_tests.conftest import WriteSilo
from memory_assets_tests.defs.test_checks import spoil_vectors

NOTE = NewMemory("Alice debugged the DuckDB lock in Atlas.", Source.CLI)


def run_once(on_message: Callable[[str, str], None] = lambda *_: None) -> Ran:
    """As a process of its own would."""
    return run_remember(Tenant(load_settings()), on_message, lambda _: None)


def is_settled() -> bool:
    return Settling(Tenant(load_settings())).report("silo_files") is not None


def settle() -> None:
    """Leave a note, as a run does that has looked."""
    settling = Settling(Tenant(load_settings()))
    settling.report("silo_files")
    settling.keep_report("silo_files", dg.MaterializeResult(metadata={"files_read": 1, "files_unchanged": 0}))
    settling.close()
    assert is_settled()


def test_a_second_run_opens_nothing_and_says_what_stands(write_silo: WriteSilo, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        write_silo(f"owner-{number}", f"Priya Vendakar owns the billing export {number}.")
    first = run_once().assets

    def fail(*_: object) -> None:
        raise AssertionError("a store was opened")

    monkeypatch.setattr(Catalog, "_connect", fail)
    monkeypatch.setattr(StoredTable, "_connected", fail)
    second = run_once()
    assert not second.failed_checks
    assert second.assets.keys() == first.keys()
    assert (first["silo_files"]["files_read"], second.assets["silo_files"]["files_read"]) == (3, 0)
    assert second.assets["silo_files"]["files_unchanged"] == 3
    assert (first["memories"]["added"], second.assets["memories"]["added"]) == (3, 0)
    assert second.assets["memories"]["lance_version"] == first["memories"]["lance_version"]
    assert second.assets["graph_edges"]["edges_by_type"] == first["graph_edges"]["edges_by_type"]
    assert second.assets["relevance_scores"]["dagster/partition_row_count"] == 3


def test_what_was_recalled_reaches_the_scores_and_nothing_else_is_looked_at(
    write_silo: WriteSilo, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_silo("owner", "Priya owns the billing export.")
    run_once()
    (number,) = tenant.memories.scan(("id",))["id"].to_pylist()
    AccessLog(tenant.folder).record([number], datetime.now(UTC))

    def fail(*_: object) -> None:
        raise AssertionError("the graph was looked at")

    monkeypatch.setattr(edges, "find_changes", fail)
    assert run_once().assets["relevance_scores"]["written"] == 1
    assert (found := explain(tenant.catalog, number))
    assert found.accesses == 1
    assert run_once().assets["relevance_scores"]["written"] == 0
    settling = Settling(Tenant(load_settings()))
    assert all(settling.report(step) for step in ("silo_files", "memories", "graph_edges", "relevance_scores"))
    assert settling.holds("no_edge_dangles")
    assert settling.holds("scores_within_bounds")


def test_a_step_that_failed_after_others_have_looked_looks_again(
    write_silo: WriteSilo, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    silo = write_silo("owner", "Priya owns the billing export.")
    run_once()
    silo.write_text(silo.read_text() + "It was checked twice.\n")
    with monkeypatch.context() as broken, pytest.raises(MemoryAssetsError):
        broken.setattr(entries, "refresh_entries", lambda *_: 1 / 0)
        run_once()
    found = run_once().assets
    assert (found["silo_files"]["files_read"], found["memory_entries"]["changed"]) == (0, 1)
    assert is_settled()


def test_a_source_that_is_as_it_was_is_not_read_because_another_one_is_not(write_silo: WriteSilo) -> None:
    silo = write_silo("owner", "Priya owns the billing export.")
    run_once()
    silo.write_text(silo.read_text() + "It was checked twice.\n")
    settling = Settling(Tenant(load_settings()))
    assert settling.report("seed_entries")
    assert not settling.report("silo_files")
    assert not settling.report("memory_entries")


def test_each_change_is_looked_at(write_silo: WriteSilo, tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    silo = write_silo("owner", "Priya owns the billing export.")
    store_memories(tenant, [NOTE])
    run_once()
    (number, *_) = tenant.memories.scan(("id",))["id"].to_pylist()
    changes: dict[str, Callable[[], object]] = {
        "a file is written": lambda: silo.write_text(silo.read_text() + "It was checked twice.\n"),
        "a file goes": silo.unlink,
        "a memory is stored": lambda: store_memories(tenant, [NewMemory("Leila moved the rota.", Source.CLI)]),
        "a memory is forgotten": lambda: tenant.memories.transition([number], (State.ACTIVE,), State.FORGOTTEN),
        "a setting": lambda: monkeypatch.setenv("MEMORY_DECAY_RATE", "0.5"),
        "names of the user's own": lambda: (tenant.folder / "gazetteer.toml").write_text('[PROJECT]\n"Atlas" = []\n'),
        "the brief is lost": lambda: (tenant.folder / "brief.json").unlink(),
        "scores are computed elsewhere": lambda: refresh_relevance(
            tenant.catalog, tenant.memories, datetime.now(UTC), rate=0.7, archive_threshold=0.2
        ),
        "the catalog is lost": tenant.catalog.path.unlink,
        "a file of a table is overwritten": lambda: next((tenant.folder / "vectors").glob("*.lance/data/*")).write_bytes(b"0"),
    }
    for what, change in changes.items():
        settle()
        change()
        assert not is_settled(), what


def test_what_is_written_beside_a_run_is_looked_at_by_the_next(write_silo: WriteSilo, tenant: Tenant) -> None:
    write_silo("owner", "Priya owns the billing export.")

    def store_meanwhile(step: str, said: str) -> None:
        if (step, said) == ("relevance_scores", "started"):
            store_memories(tenant, [NOTE])

    assert run_once(store_meanwhile).assets["graph_edges"]["memories"] == 1
    assert run_once().assets["graph_edges"]["memories"] == 2


def test_a_derivation_beside_a_run_is_noticed(tenant: Tenant) -> None:
    settling = Settling(tenant)
    for catalog in (Catalog(str(tenant.catalog.path), 1.0), tenant.catalog):
        with catalog.write() as connection:
            connection.execute("INSERT INTO graph_touched VALUES (1, 2)")
    settling.keep_report("silo_files", dg.MaterializeResult())
    settling.close()
    assert not is_settled()


def test_a_failed_check_fails_again(write_silo: WriteSilo, tenant: Tenant) -> None:
    write_silo("owner", "Priya owns the billing export.")
    run_once()
    spoil_vectors(tenant)
    assert [check.faults for check in run_once().failed_checks] == [1]
    assert [check.faults for check in run_once().failed_checks] == [1]


def test_one_step_that_looks_lets_all_after_it_look(tenant: Tenant) -> None:
    settle()
    settling = Settling(tenant)
    assert settling.report("memories") is None
    assert settling.report("silo_files") is None
