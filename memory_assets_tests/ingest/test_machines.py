"""Of each memory it is known on which machine its text was first stored, and no row is written for that alone."""

import json
import socket
from dataclasses import replace

import pytest

from memory_assets.ingest.direct import store_once
from memory_assets.models import MACHINE, Kind, NewMemory, Source
from memory_assets.operations.answers import LocalTime
from memory_assets.operations.changes import edit, tag
from memory_assets.operations.show import show
from memory_assets.operations.store import store
from memory_assets.stores.memories import MemoryStore
from memory_assets.tenants import Tenant
from memory_assets_tests.conftest import WriteSilo
from memory_assets_tests.ingest.runs import by_title, changed, ingest
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
