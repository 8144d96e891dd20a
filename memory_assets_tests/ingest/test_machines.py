"""Each memory records the machine on which its text was first stored; no row is rewritten for that alone."""

import json
import shutil
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from memory_assets.ingest.direct import store_once
from memory_assets.ingest.scans import drop_path, read_source, record_scan, refresh_source
from memory_assets.invariants import INVARIANTS
from memory_assets.models import MACHINE, Kind, Memory, NewMemory, Source
from memory_assets.operations.answers import LocalTime
from memory_assets.operations.changes import edit, forget, tag
from memory_assets.operations.erase import allow_again, erase
from memory_assets.operations.exchange import Imported, export_lines, import_lines
from memory_assets.operations.show import show
from memory_assets.operations.store import store
from memory_assets.stores.catalog import Catalog
from memory_assets.stores.memories import MemoryStore
from memory_assets.stores.rows import COLUMNS, from_arrow
from memory_assets.tenants import Tenant
from memory_assets_tests.conftest import WriteSilo
from memory_assets_tests.ingest.runs import by_title, changed, ignore, ingest
from memory_assets_tests.ingest.test_import import LINE, imported, memory


@pytest.fixture(autouse=True)
def otter(monkeypatch: pytest.MonkeyPatch) -> None:
    be_on(monkeypatch, "otter")


def be_on(monkeypatch: pytest.MonkeyPatch, machine: str) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: machine)


def test_a_stored_text_is_of_its_machine_and_show_says_so(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    number = store(tenant, NewMemory("Priya owns the billing export.", Source.CLI, metadata={"page": 3})).id
    be_on(monkeypatch, "heron")
    tag(tenant, number, add=["export"])
    shown = show(tenant, number)
    assert json.loads(shown.model_dump_json())["metadata"] == {"page": 3, "machine": "otter"}
    assert "machine=otter" in shown.text(LocalTime.of(tenant.settings))
    newer = edit(tenant, number, "Tomasz owns the billing export.", source=Source.CLI)
    assert newer.metadata[MACHINE] == "heron"
    assert show(tenant, number).metadata[MACHINE] == "otter"


def test_a_request_that_is_repeated_elsewhere_is_the_same(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    given = NewMemory("Priya owns the billing export.", Source.HTTP, id=1 << 52)
    first = store_once(tenant, given).memory
    be_on(monkeypatch, "heron")
    assert store_once(tenant, given).memory == first


def test_an_entry_keeps_its_machine_until_its_text_changes(
    tenant: Tenant, write_silo: WriteSilo, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_silo("owner", "Priya owns the billing export.")
    ingest(tenant)
    assert by_title(tenant)["owner"].metadata[MACHINE] == "otter"
    be_on(monkeypatch, "heron")
    version = tenant.memories.version
    assert changed(tenant) == 0
    assert tenant.memories.version == version
    path.write_text(path.read_text().replace("type: project", "type: reference"))
    assert ingest(tenant).updated == 1
    assert (by_title(tenant)["owner"].kind, by_title(tenant)["owner"].metadata[MACHINE]) == ("reference", "otter")
    path.write_text(path.read_text().replace("Priya owns", "Tomasz owns"))
    assert ingest(tenant).superseded == 1
    assert by_title(tenant)["owner"].metadata[MACHINE] == "heron"


def test_a_run_reads_no_whole_row_of_what_was_imported_from_another_machines_files(
    tenant: Tenant, write_silo: WriteSilo, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_silo("owner", "Priya owns the billing export.")
    theirs = NewMemory(
        "Tomasz owns the parking garage.",
        Source.CLAUDE_SILO,
        id=9,
        source_key="claude_silo:heron/garage.md",
        metadata={MACHINE: "heron", "path": "/srv/heron/memory/garage.md"},
    )
    imported(tenant, theirs)
    ingest(tenant)
    monkeypatch.setattr(MemoryStore, "get", lambda _store, ids: pytest.fail(f"whole rows were read: {list(ids)}"))
    assert changed(tenant) == 0


def test_an_import_says_no_machine_of_its_own(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    imported(tenant, LINE, exported := replace(LINE, id=8, metadata={MACHINE: "vole"}))
    assert (memory(tenant).metadata, memory(tenant, 8).metadata) == ({}, {MACHINE: "vole"})
    be_on(monkeypatch, "heron")
    assert imported(tenant, LINE, exported).unchanged == 2
    stored = store(tenant, NewMemory("Priya owns the billing export.", Source.CLI))
    assert imported(tenant, NewMemory(stored.content, Source.CLI, id=stored.id, kind=Kind.PROJECT)).updated == 1
    assert memory(tenant, stored.id).metadata == {MACHINE: "heron"}


@dataclass
class Machine:
    """A machine with a home of its own."""

    name: str
    tenant: Tenant
    monkeypatch: pytest.MonkeyPatch

    def file(self, name: str = "owner") -> Path:
        return self.tenant.settings.claude_projects_dir / "-srv-atlas" / "memory" / f"{name}.md"

    def write(self, text: str, name: str = "owner", kind: str = "project") -> None:
        self.file(name).parent.mkdir(parents=True, exist_ok=True)
        self.file(name).write_text(f"---\nname: {name}\ntype: {kind}\n---\n\n{text}\n", encoding="utf-8")
        self.run()

    def run(self) -> int:
        be_on(self.monkeypatch, self.name)
        return changed(self.tenant)

    def check(self) -> None:
        """Assert that a run, or the one after it, changes nothing, and that every invariant of the memories holds."""
        assert self.run() == 0 or self.run() == 0
        assert not {each.name: found for each in INVARIANTS if each.asset == "memories" if (found := each.find(self.tenant))}

    def take_in(self, other: "Machine") -> Imported:
        be_on(self.monkeypatch, self.name)
        lines = [line.encode() for text in export_lines(other.tenant) for line in text.splitlines()]
        return import_lines(self.tenant, other.name, lines, skip_invalid=False, on_fault=pytest.fail, on_progress=ignore)

    def memories(self) -> list[Memory]:
        return from_arrow(self.tenant.memories.scan(COLUMNS, "state = 'active'"))

    @property
    def texts(self) -> set[str]:
        """Return the recalled memories."""
        said = [each.content for each in self.memories()]
        assert len(said) == len(set(said))
        return set(said)


@pytest.fixture
def machines(
    request: pytest.FixtureRequest, tenant: Tenant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loaded_pipeline: None
) -> Iterator[tuple[Machine, Machine]]:
    """Two machines, each with its own stores and files; unless a test names them, only their folders tell them apart."""
    homes = (tmp_path / "one", tmp_path / "other")
    places: list[Mapping[str, Path]] = [{"data_dir": home / "data", "claude_projects_dir": home / "projects"} for home in homes]
    one, other = (
        Machine(name, Tenant(tenant.settings.model_copy(update=place)), monkeypatch)
        for name, place in zip(getattr(request, "param", ("localhost", "localhost")), places, strict=True)
    )
    yield one, other
    one.check()
    other.check()


def exchanged(one: Machine, other: Machine) -> None:
    """Let each import the other's memories and run; importing them again changes nothing."""
    for here, there in ((other, one), (one, other)):
        here.take_in(there)
        assert here.run() == 0
    for here, there in ((other, one), (one, other)):
        done = here.take_in(there)
        assert (done.added, done.updated, done.retired) == (0, 0, 0)


def test_two_machines_keep_their_files_of_one_name_apart(machines: tuple[Machine, Machine]) -> None:
    one, other = machines
    one.write("Priya owns the export.")
    other.write("Tomasz owns the import.")
    exchanged(one, other)
    assert one.texts == other.texts == {"Priya owns the export.", "Tomasz owns the import."}
    one.write("Mira owns the export.")
    exchanged(one, other)
    assert one.texts == other.texts == {"Mira owns the export.", "Tomasz owns the import."}
    other.write("Tomasz owns the archive.")
    exchanged(other, one)
    assert one.texts == other.texts == {"Mira owns the export.", "Tomasz owns the archive."}
    other.file().unlink()
    assert other.run() == 1
    assert other.texts == {"Mira owns the export."}
    exchanged(one, other)
    assert one.texts == {"Mira owns the export.", "Tomasz owns the archive."}


@pytest.mark.parametrize("machines", [("otter", "heron")], indirect=True)
def test_a_text_that_files_of_both_machines_say_is_one_memory_while_one_says_it(machines: tuple[Machine, Machine]) -> None:
    one, other = machines
    one.write("Priya owns the export.")
    other.write("Priya owns the export.", kind="reference")
    exchanged(one, other)
    assert [[each.kind for each in machine.memories()] for machine in machines] == [["project"], ["reference"]]
    other.write("Tomasz owns the export.")
    exchanged(one, other)
    assert one.texts == {"Priya owns the export.", "Tomasz owns the export."}
    assert other.texts == {"Tomasz owns the export."}


def test_what_was_forgotten_on_one_machine_stays_so_beside_the_file_of_the_other(machines: tuple[Machine, Machine]) -> None:
    one, other = machines
    one.write("Priya owns the export.")
    other.write("Tomasz owns the import.")
    exchanged(one, other)
    (number,) = (each.id for each in one.memories() if each.content.startswith("Tomasz"))
    forget(one.tenant, number)
    assert one.run() == 0
    exchanged(one, other)
    assert one.texts == other.texts == {"Priya owns the export."}
    other.write("Mira owns the import.")
    exchanged(other, one)
    assert one.texts == other.texts == {"Priya owns the export.", "Mira owns the import."}


def test_what_was_erased_on_one_machine_stays_out_of_the_other_though_its_file_came_later(
    machines: tuple[Machine, Machine],
) -> None:
    one, other = machines
    one.write("Priya owns the export.")
    (number,) = (each.id for each in one.memories())
    erase(one.tenant, [number], confirm=True)
    assert other.take_in(one).removed == 0
    other.write("Priya owns the export.")
    assert other.texts == set()
    assert other.take_in(one).removed == 0
    allow_again(one.tenant, [str(number)])
    one.run()
    assert one.take_in(other).removed == 0
    assert one.texts == {"Priya owns the export."}
    erase(one.tenant, [number], confirm=True)
    allow_again(other.tenant, [str(number)])
    other.run()
    assert other.take_in(one).removed == 0
    assert other.texts == {"Priya owns the export."}
    assert one.take_in(other).erased == 1


def test_an_erasure_beside_other_lines_leaves_what_files_say(machines: tuple[Machine, Machine]) -> None:
    one, other = machines
    for each in machines:
        each.write("Priya owns the export.")
    one.write("Tomasz owns the export.")
    number = store(one.tenant, NewMemory("The boiler is in the attic.", Source.CLI)).id
    other.take_in(one)
    erase(one.tenant, [number], confirm=True)
    done = other.take_in(one)
    assert (done.removed, done.retired, done.updated) == (1, 0, 0)
    assert other.texts == {"Priya owns the export.", "Tomasz owns the export."}


@pytest.fixture
def hosts(
    tenant: Tenant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loaded_pipeline: None
) -> Iterator[tuple[Machine, Machine]]:
    """Two machines that share all stores, each with its own files."""
    monkeypatch.setattr(Catalog, "is_shared", True)
    one, other = (
        Machine(name, Tenant(tenant.settings.model_copy(update={"claude_projects_dir": tmp_path / name})), monkeypatch)
        for name in ("otter", "heron")
    )
    yield one, other
    one.check()
    other.check()


def test_two_hosts_of_one_store_leave_each_others_files_alone_and_say_so(
    hosts: tuple[Machine, Machine], caplog: pytest.LogCaptureFixture
) -> None:
    one, other = hosts
    one.write("Priya owns the export.")
    one.write("The portal is due in May.", "deadline")
    other.write("Tomasz owns the import.")
    assert f"{other.file()} is not read, because otter has a file of that name in this store; rename it" in caplog.text
    assert "does not exist" not in caplog.text
    other.write("The boiler is in the attic.", "boiler")
    both = {"Priya owns the export.", "The portal is due in May.", "The boiler is in the attic."}
    assert [machine.run() for machine in (one, other, one)] == [0, 0, 0]
    assert one.texts == both
    one.write("Mira owns the export.")
    assert other.run() == 0
    assert one.texts == both - {"Priya owns the export."} | {"Mira owns the export."}
    drop_path(other.tenant.catalog, one.file())
    other.run()
    assert other.texts == both - {"Priya owns the export."} | {"Tomasz owns the import."}


def test_of_two_hosts_that_read_a_name_at_once_the_later_to_write_leaves_it_and_says_so(hosts: tuple[Machine, Machine]) -> None:
    one, other = hosts
    one.file().parent.mkdir(parents=True)
    one.file().write_text("---\ntype: project\n---\nPriya owns the export.\n", encoding="utf-8")
    read = read_source(one.tenant, Source.CLAUDE_SILO, {})
    other.write("Tomasz owns the import.")
    be_on(one.monkeypatch, one.name)
    (note,) = record_scan(one.tenant.catalog, read, {}).notes
    assert note.startswith(f"{one.file()} is not read, because heron has a file of that name in this store")
    assert [machine.run() for machine in hosts] == [0, 0]
    assert one.texts == {"Tomasz owns the import."}
    other.file().unlink()
    other.run()
    one.run()
    assert one.texts == {"Priya owns the export."}


def test_a_text_that_one_host_reads_and_another_stores_is_of_the_one_that_read_it(hosts: tuple[Machine, Machine]) -> None:
    one, other = hosts
    one.file().parent.mkdir(parents=True)
    one.file().write_text("---\ntype: project\n---\nPriya owns the export.\n", encoding="utf-8")
    refresh_source(one.tenant, Source.CLAUDE_SILO)
    other.write("The boiler is in the attic.", "boiler")
    assert {each.content: each.metadata[MACHINE] for each in other.memories()} == {
        "Priya owns the export.": one.name,
        "The boiler is in the attic.": other.name,
    }


def test_a_file_that_names_anew_what_another_hosts_file_names_keeps_what_it_said(hosts: tuple[Machine, Machine]) -> None:
    one, other = hosts
    export, portal = "## Export\n\nPriya owns the billing export.\n", "## Portal\n\nThe portal is due in May.\n"
    for machine, text in ((one, export), (other, portal)):
        machine.file().parent.mkdir(parents=True)
        machine.file("MEMORY").write_text(text, encoding="utf-8")
        assert machine.run() == 1
    both = one.texts
    other.file("MEMORY").write_text(portal + export.replace("Priya", "Tomasz"), encoding="utf-8")
    assert [machine.run() for machine in (other, one, other)] == [0, 0, 0]
    assert one.texts == both


def test_what_is_gone_from_one_host_stays_if_another_read_it_in_a_folder_of_that_path(hosts: tuple[Machine, Machine]) -> None:
    one, there = hosts
    other = replace(one, name=there.name)
    one.write("Priya owns the export.")
    one.file().rename(there.tenant.settings.claude_projects_dir)
    other.write("The boiler is in the attic.", "boiler")
    shutil.rmtree(folder := one.file().parent)
    be_on(one.monkeypatch, one.name)
    drop_path(one.tenant.catalog, folder)
    assert one.run() == 1
    assert one.texts == {"The boiler is in the attic."}
    drop_path(one.tenant.catalog, folder)
    assert one.run() == 1
    assert one.texts == set()
