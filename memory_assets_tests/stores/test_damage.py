"""Damaged tables and catalogs: derived data is rebuilt, losses are reported, and the doctor survives all of it."""

import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from click.testing import CliRunner

from memory_assets.cli.main import cli
from memory_assets.doctor import Finding, _brief, _run_check, examine
from memory_assets.errors import StoreError
from memory_assets.graph.edges import refresh_graph
from memory_assets.learn.brief import FORMAT, read_brief
from memory_assets.models import Kind, Memory, NewMemory, RelationType, Source, State
from memory_assets.operations.backup import backup, verify
from memory_assets.operations.exchange import export
from memory_assets.operations.search import search
from memory_assets.operations.show import recent
from memory_assets.operations.store import store
from memory_assets.settings import load_settings
from memory_assets.stores import lance, tables
from memory_assets.stores.keys import KeyStore
from memory_assets.stores.memories import Filters, MemoryStore
from memory_assets.stores.relations import StatedRelation
from memory_assets.stores.rows import content_hash, new_id, to_arrow
from memory_assets.stores.state import FileState
from memory_assets.stores.tables import session
from memory_assets.tenants import Tenant, delete_tenant

NOW = datetime.now(UTC)
QUESTION = np.full(4, 0.5, np.float32)


@pytest.fixture
def table(tenant: Tenant) -> Path:
    """The folder of a table of thirty-one memories, of which thirty are indexed."""
    store = tenant.memories
    store.put([memory(number) for number in range(30)], np.eye(4, dtype=np.float32)[[n % 4 for n in range(30)]], "test")
    store.stored.writing.optimize()
    store.put([memory(30)], QUESTION[None], "test")
    return Path(store.uri) / "memories.lance"


def memory(number: int) -> Memory:
    return Memory(new_id(), f"note {number} about locks", Kind.NOTE, Source.CLI, "", NOW, NOW)


def faults(tenant: Tenant) -> list[str]:
    return [finding.what for finding in examine(Tenant(tenant.settings)) if finding.level == "fault"]


def test_a_hint_of_the_newest_version_that_a_full_disk_cut_off_is_passed_over(table: Path, tenant: Tenant) -> None:
    (table / "_versions" / tables._HINT).write_bytes(b"")
    again = Tenant(tenant.settings)
    assert len(again.memories) == 31 and not again.memories.stored.find_loss()
    again.memories.put([memory(31)], QUESTION[None], "test")
    assert len(Tenant(tenant.settings).memories) == 32


def test_a_changed_letter_of_a_text_is_found_by_the_doctor_and_in_a_backup(tenant: Tenant, tmp_path: Path) -> None:
    text = "The crew has nine people."
    whole = Memory(new_id(), text, Kind.NOTE, Source.CLI, "", NOW, NOW, content_hash=content_hash(text))
    tenant.memories.put([whole], QUESTION[None], "test")
    assert backup(tenant, str(tmp_path / "good")).backup.memories == 1
    (file,) = Path(tenant.memories.uri, "memories.lance", "data").iterdir()
    held = file.read_bytes()
    assert text.encode() in held
    file.write_bytes(held.replace(b"nine people", b"five people"))
    assert f"the texts of 1 memory are not those that were stored ({whole.id})" in " ".join(faults(tenant))
    session.cache_clear()  # as a process that has read nothing yet
    damaged = Tenant(tenant.settings)
    backup(damaged, str(tmp_path / "bad"))
    (bad,), (good,) = (verify(damaged.settings, str(tmp_path / place), None).backups for place in ("bad", "good"))
    assert str(whole.id) in " ".join(bad.damage)
    assert good.damage == []


def lose_indices(table: Path) -> None:
    for index in (table / "_indices").iterdir():
        shutil.rmtree(index)
    session.cache_clear()  # as a process that has read nothing yet


def test_lost_indices_are_rebuilt_by_the_search_that_misses_them(
    tenant: Tenant, table: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lose_indices(table)
    store = MemoryStore(tenant.memories.uri)
    assert store.matching("locks", 50, Filters()).num_rows == 31
    assert "rebuilt" in caplog.text
    assert store.nearest(QUESTION, "test", 50, Filters()).num_rows == len(store.recent(50, Filters())) == 31
    assert not store.stored.lost_indices()
    store.transition([store.recent(1, Filters())[0].id], (State.ACTIVE,), State.FORGOTTEN)


def test_an_index_that_outgrows_the_cache_is_not_lost(tenant: Tenant, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory_assets.stores.tables._INDEX_CACHE_BYTES", 1)
    session.cache_clear()
    store = MemoryStore(tenant.memories.uri)
    with pytest.raises(RuntimeError, match="cache"):
        cast("Any", store.table).prewarm_index("indexed_text_idx")
    assert not store.stored.lost_indices()
    postings = next((table / "_indices").glob("*/part_*_invert.lance"))
    postings.write_bytes(bytes(postings.stat().st_size))
    session.cache_clear()
    assert MemoryStore(tenant.memories.uri).stored.lost_indices() == ["indexed_text_idx"]


def test_the_doctor_removes_files_of_killed_writes_and_keeps_those_of_lost_commits(tenant: Tenant, table: Path) -> None:
    orphan = table / "data" / "0101.lance"
    shutil.copy(next((table / "data").iterdir()), orphan)
    (found,) = (each for each in examine(tenant) if "killed left 1 file that nothing uses" in each.what)
    newest = tenant.memories.stored.location.manifests("memories", tenant.memories.version)[0]
    content = newest.read_bytes()
    assert found.repair
    newest.unlink()
    found.repair()
    assert orphan.exists()
    newest.write_bytes(content)
    found.repair()
    assert not orphan.exists()
    assert not [each for each in examine(tenant) if "nothing uses" in each.what]


def test_writing_without_its_indices_names_the_command_that_mends_it(tenant: Tenant, table: Path) -> None:
    lose_indices(table)
    store = MemoryStore(tenant.memories.uri)
    rows = store.columns.fill(to_arrow([memory(31)]), QUESTION[None], "test")
    with pytest.raises(StoreError, match="memory doctor --mend"):
        lance.insert(store.stored, rows)
    assert mended()
    MemoryStore(tenant.memories.uri).put([memory(31)], QUESTION[None], "test")


def test_lost_commits_are_said_and_neither_read_nor_written_over(tenant: Tenant, table: Path) -> None:
    newest = min((table / "_versions").glob("*.manifest"))
    newest.unlink()
    store = MemoryStore(tenant.memories.uri)
    for use in (len, MemoryStore.prepare):
        with pytest.raises(StoreError, match=r"last commits .* are lost.*memory doctor --mend"):
            use(store)
    assert any("last commits" in fault for fault in faults(tenant))
    assert mended()
    assert len(MemoryStore(tenant.memories.uri)) == 30


def test_a_table_that_is_gone_is_told_and_not_made_again_until_the_doctor_accepts_it(tenant: Tenant) -> None:
    store(tenant, NewMemory("Quentin rewrites the ledger.", Source.CLI))
    refresh_graph(tenant.catalog, tenant.memories, tenant.relations)
    shutil.rmtree(Path(tenant.memories.uri, "memories.lance"))
    for use in (
        lambda fresh: store(fresh, NewMemory("Mira wants short answers.", Source.CLI)),
        lambda fresh: refresh_graph(fresh.catalog, fresh.memories, fresh.relations),
        lambda fresh: search(fresh, "Who rewrites the ledger?"),
        recent,
    ):
        with pytest.raises(StoreError, match=r"lost, with 1 memory, of which 1 came from no file; .*restore.*doctor --mend"):
            use(Tenant(tenant.settings))
    assert any("is lost, with 1 memory" in fault for fault in faults(tenant))
    assert mended()
    store(Tenant(tenant.settings), NewMemory("Mira wants short answers.", Source.CLI))


def test_a_table_that_is_gone_is_neither_backed_up_nor_exported_and_the_backup_brings_it_back(
    tenant: Tenant, tmp_path: Path
) -> None:
    place, file = tmp_path / "stick", tmp_path / "memories.jsonl"
    store(tenant, NewMemory("Quentin rewrites the ledger.", Source.CLI))
    backup(tenant, str(place))
    refresh_graph(tenant.catalog, tenant.memories, tenant.relations)
    export(tenant, file)
    exported = file.read_bytes()
    shutil.rmtree(Path(tenant.memories.uri, "memories.lance"))
    for use in (lambda lost: backup(lost, str(place)), lambda lost: export(lost, file)):
        with pytest.raises(StoreError, match="is lost, with 1 memory"):
            use(Tenant(tenant.settings))
    assert file.read_bytes() == exported
    restored = CliRunner().invoke(cli, ["restore", str(place)])
    assert not restored.exit_code, restored.stderr
    assert len(Tenant(tenant.settings).memories) == 1


def test_the_mend_of_damaged_memories_brings_them_back_from_a_backup(tenant: Tenant, table: Path, tmp_path: Path) -> None:
    backup(tenant, str(tmp_path / "stick"))
    refresh_graph(tenant.catalog, tenant.memories, tenant.relations)
    for file in (table / "data").iterdir():
        file.write_bytes(file.read_bytes()[:100])
    session.cache_clear()
    damaged = Tenant(tenant.settings)
    with pytest.raises(StoreError, match=f"move the folder {table.parent} out of the data folder and run `memory restore`"):
        damaged.memories.scan(("content",))
    table.parent.rename(tmp_path / "moved")
    restored = CliRunner().invoke(cli, ["restore", str(tmp_path / "stick")])
    assert not restored.exit_code, restored.stderr
    assert len(Tenant(tenant.settings).memories) == 31


def mended() -> bool:
    """Return whether `memory doctor --mend` leaves no loss and no damaged catalog."""
    done = CliRunner().invoke(cli, ["doctor", "--mend", "--json"])
    findings = json.loads(done.stdout)["findings"]
    whats = [each["what"] for each in findings if each["level"] == "fault"]
    return not any("lost" in what or "catalog" in what for what in whats)


@pytest.mark.parametrize("damage", ["cut", "zeroed"])
def test_the_doctor_survives_damaged_rows_and_exits_with_1(tenant: Tenant, table: Path, damage: str) -> None:
    file = max((table / "data").iterdir(), key=lambda path: path.stat().st_size)
    whole = file.read_bytes()
    file.write_bytes(whole[:100] if damage == "cut" else bytes(len(whole)))
    done = CliRunner().invoke(cli, ["doctor"])
    assert done.exit_code == 1
    assert "memory restore" in done.stdout
    assert "ok    31 memories" not in done.stdout
    assert "Checking memories" not in done.stdout
    with pytest.raises(StoreError, match="cannot be read") as error:
        MemoryStore(tenant.memories.uri).scan(("content",))
    assert ".rs:" not in str(error.value)


def test_a_damaged_catalog_is_set_aside_by_the_doctor(tenant: Tenant, table: Path) -> None:
    tenant.catalog.path.write_bytes(b"no database" * 1_000)
    assert any("catalog" in fault for fault in faults(tenant))
    assert not any(fault.startswith("Checking") for fault in faults(tenant))
    assert mended()
    assert not tenant.catalog.exists
    assert tenant.catalog.damaged_path.exists()


def test_the_doctor_names_a_key_that_cannot_be_read_and_what_to_do(tenant: Tenant, table: Path) -> None:
    key, _ = KeyStore(tenant.state).create("laptop")
    file = tenant.folder / "keys" / f"{key.id}.json"
    file.write_bytes(b"{")
    (fault,) = [finding for finding in examine(Tenant(tenant.settings)) if "key file" in finding.what]
    assert fault.level == "fault"
    assert str(file) in fault.what
    assert fault.mend == "remove it and create a new key."


def test_a_key_that_may_not_be_read_is_not_to_be_removed(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    _, secret = KeyStore(tenant.state).create("laptop")

    def get(_state: FileState, name: str) -> bytes:
        raise PermissionError(13, "Permission denied", name)

    monkeypatch.setattr(FileState, "get", get)
    with pytest.raises(StoreError, match=r"cannot be read \(Permission denied\); give yourself read and write access to it\.$"):
        KeyStore(tenant.state).find(secret)
    (found,) = _run_check(_brief, tenant)
    assert found.what == "brief.json cannot be used (Permission denied)"


def test_the_doctor_takes_no_part_of_an_unknown_error_for_its_mend(tenant: Tenant) -> None:
    def fail(_: Tenant) -> Iterator[Finding]:
        raise ValueError("row 7; column 3")

    assert _run_check(fail, tenant) == [Finding("fault", "Checking fail failed: ValueError: row 7; column 3.")]


def test_a_damaged_id_of_the_store_is_mended_by_the_doctor_which_looks_at_all_else(tenant: Tenant, table: Path) -> None:
    file = tenant.folder / "store.json"
    file.write_bytes(b"{")
    lose_indices(table)
    done = CliRunner().invoke(cli, ["doctor", "--tenant", "main", "--json"])
    found = {each["what"]: each["mend"] for each in json.loads(done.stdout)["findings"] if each["level"] == "fault"}
    (told,) = [what for what in found if what.startswith(f"{file} cannot be read (")]
    assert found[told] == "Run `memory doctor --mend`, which removes it; the next writing makes another."
    assert any(what.startswith("Indices of the table 'memories'") for what in found)
    assert done.exit_code == 1
    with pytest.raises(StoreError, match="`memory doctor` says what mends it"):
        delete_tenant(Tenant(tenant.settings))
    assert mended()
    assert not any("store.json" in fault for fault in faults(tenant))
    MemoryStore(Tenant(tenant.settings).location).put([memory(31)], QUESTION[None], "test")
    assert json.loads(file.read_bytes())["id"]
    delete_tenant(Tenant(tenant.settings))
    assert not list(tenant.settings.data_dir.glob("*/vectors"))


def test_a_damaged_id_of_a_store_in_object_storage_is_told_and_kept(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_VECTORS_URI", "s3://none/memories")
    tenant.folder.mkdir(parents=True)
    file = tenant.folder / "store.json"
    file.write_bytes(b"{")
    (fault,) = [each for each in examine(Tenant(load_settings())) if str(file) in each.what]
    assert fault.mend == 'Write {"id": "ID"} into it: the folder of the tables is s3://none/memories/main/vectors-ID.'
    assert not fault.repair


def test_a_table_whose_manifests_are_damaged_is_told_in_one_sentence(tenant: Tenant, table: Path) -> None:
    for manifest in (table / "_versions").iterdir():
        manifest.write_bytes(b"nothing")
    session.cache_clear()
    store = MemoryStore(tenant.memories.uri)
    for use in (len, lambda store: store.scan(("id",)), lambda store: store.delete([1])):
        with pytest.raises(StoreError) as told:
            use(store)
        assert str(told.value).count("cannot be") == 1
    found = [what for what in faults(tenant) if "LanceError" in what]
    assert not [what for what in found if what.startswith("Checking")]
    assert len(found) == len(set(found)) == 2


def test_a_table_that_was_never_committed_counts_as_none_and_costs_no_time(
    tenant: Tenant, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(tables, "sleep", waits.append)
    unmade = table.parent / "relations.lance"
    for folder in (unmade, unmade / "_versions"):  # like on a full disk
        folder.mkdir()
        assert not [fault for fault in faults(tenant) if "relations" in fault]
        waits.clear()
        fresh = Tenant(tenant.settings)
        assert len(fresh.relations) == 0
        assert not fresh.relations.stored.exists
        assert fresh.relations.stored.lost_indices() == []
        assert not waits, "it waits for another process to make the table"
    state_relation(tenant)
    assert len(Tenant(tenant.settings).relations) == 1


def state_relation(tenant: Tenant) -> None:
    first, second = (row["id"] for row in tenant.memories.scan(("id",)).slice(0, 2).to_pylist())
    tenant.relations.state(StatedRelation(first, second, RelationType.LEADS_TO, 1.0, "", "cli"))


def test_a_brief_of_another_release_is_a_note_and_no_damage(tenant: Tenant) -> None:
    store(tenant, NewMemory("Mira wants short answers.", Source.CLI, Kind.USER))
    path = tenant.folder / "brief.json"
    whole = path.read_bytes()
    for other in (FORMAT - 1, FORMAT + 1):
        path.write_bytes(whole.replace(b'{"format":%d,' % FORMAT, b'{"format":%d,' % other))
        assert read_brief(tenant.folder) is None
        (found,) = (each for each in examine(Tenant(tenant.settings)) if str(path) in each.what)
        assert (found.level, found.mend) == ("note", "Run `memory run`.")
        assert "is of another release; until it is written anew sessions are told nothing at their start" in found.what
    CliRunner().invoke(cli, ["doctor", "--mend"])
    assert path.read_bytes() == whole


@pytest.mark.parametrize(("german", "english", "is_named"), [(20, 0, True), (10, 10, True), (10, 11, False), (19, 0, False)])
def test_the_doctor_names_the_embedder_for_memories_in_other_languages(
    tenant: Tenant, german: int, english: int, is_named: bool
) -> None:
    texts = ["Leila setzt die Datenbank nicht mehr zurück."] * german + ["The harbour is closed in March."] * english
    memories = [Memory(new_id(), text, Kind.NOTE, Source.CLI, "", NOW, NOW) for text in texts]
    tenant.memories.put(memories, np.tile(QUESTION, (len(texts), 1)), "test")
    found = [each for each in examine(Tenant(tenant.settings)) if "`e5-multilingual`" in each.what]
    assert [each.level for each in found] == ["note"] * is_named
    assert all(each.mend.endswith("et MEMORY_EMBEDDER=e5-multilingual, and run `memory backfill`.") for each in found)


def test_a_damaged_brief_is_named_and_written_anew(tenant: Tenant) -> None:
    store(tenant, NewMemory("Mira wants short answers.", Source.CLI, Kind.USER))
    path = tenant.folder / "brief.json"
    whole = path.read_bytes()
    path.write_bytes(whole[:40])
    assert f"{path} cannot be read, so sessions are told nothing at their start." in faults(tenant)
    CliRunner().invoke(cli, ["doctor", "--mend"])
    assert path.read_bytes() == whole


def test_an_index_that_object_storage_lacks_is_not_called_a_refusal() -> None:
    error = RuntimeError("NotFound (permanent) at stat, path: memories.lance/_indices/1f/page")
    assert lance.reason_of(error) == str(error)
    assert "an index is lost" in (lance.advice_for(error) or "")
