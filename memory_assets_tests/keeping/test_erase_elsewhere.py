"""Erasures and what lies elsewhere: other machines, exports and backups."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

from memory_assets.cli.main import cli
from memory_assets.graph.edges import refresh_graph
from memory_assets.ingest.scans import refusals
from memory_assets.keeping.copying import take_backup
from memory_assets.keeping.erasing import files_holding
from memory_assets.keeping.repository import Repository
from memory_assets.keeping.restoring import restore_backup
from memory_assets.language.process import ProcessingError
from memory_assets.models import Source
from memory_assets.operations.backup import backup
from memory_assets.operations.erase import allow_again, erase
from memory_assets.operations.exchange import Imported, export_lines, import_lines
from memory_assets.settings import load_settings
from memory_assets.stores.tombstones import Tombstones
from memory_assets.tenants import Tenant
from memory_assets_tests.conftest import WriteSilo
from memory_assets_tests.ingest.runs import ignore, ingest
from memory_assets_tests.keeping.test_erase import holding, remember, token


def test_an_erasure_travels_with_an_export_without_the_text(tenant: Tenant):
    text = f"The office Wi-Fi is called {token()}."
    there, third = Tenant(tenant.settings, "there"), Tenant(tenant.settings, "third")

    def exported(of: Tenant) -> list[bytes]:
        return [line.encode() for text in export_lines(of) for line in text.splitlines()]

    def taken_in(by: Tenant, lines: list[bytes]) -> Imported:
        return import_lines(by, "x", lines, skip_invalid=False, on_fault=pytest.fail, on_progress=ignore)

    number, kept = remember(tenant, text), remember(tenant, "The boiler is in the attic.")
    assert taken_in(there, before := exported(tenant)).added == 2
    erase(tenant, [number], confirm=True)
    after = exported(tenant)
    assert text.encode() not in b"".join(after)
    for each in (there, third):
        taken_in(each, after)
        assert taken_in(each, before).erased == 1
        assert taken_in(each, exported(there)).removed == 0
        assert each.memories.scan(("id",))["id"].to_pylist() == [kept]
    assert holding(there, text) == []
    allow_again(there, [str(number)])
    assert taken_in(there, before).added == 1


def test_an_erasure_elsewhere_leaves_what_is_remembered_here_under_an_id_of_its_own(tenant: Tenant):
    there, text = Tenant(tenant.settings, "there"), f"It was {token()}."
    kept = remember(there, text)
    erase(tenant, [remember(tenant, text)], confirm=True)
    lines = [line.encode() for part in export_lines(tenant) for line in part.splitlines()]
    assert import_lines(there, "x", lines, skip_invalid=False, on_fault=pytest.fail, on_progress=ignore).removed == 0
    assert Tombstones(there.state).without(there.memories.scan(("id", "content")))["id"].to_pylist() == [kept]


def test_an_erasure_elsewhere_keeps_out_a_file_that_is_read_only_later(tenant: Tenant, write_silo: WriteSilo, tmp_path: Path):
    write_silo("billing", text := f"It was {token()}.")
    ingest(tenant)
    (memory,) = erase(tenant, source=Source.CLAUDE_SILO, confirm=True).memories
    lines = [line.encode() for text in export_lines(tenant) for line in text.splitlines()]
    without_digests = json.dumps({"id": memory.id, "erased_at": "2026-01-01T00:00:00+00:00"}).encode()
    there = Tenant(load_settings(data_dir=tmp_path / "there"))
    for read in ([without_digests], lines, lines):
        import_lines(there, "x", read, skip_invalid=False, on_fault=pytest.fail, on_progress=ignore)
    assert [len(stone.digests) > 0 for stone in Tombstones(there.state).all] == [False, True]
    ingest(there)
    assert len(there.memories) == 0 and files_holding(there.settings.data_dir, [text]) == []
    assert f"as memory {memory.id}" in refusals(there.catalog)[0].reason
    write_silo("billing", "It is something else now.")
    ingest(there)
    assert len(there.memories) == 1


def test_a_restored_backup_is_without_what_another_machine_erased_until_it_is_allowed(tenant: Tenant):
    stones, later = Tombstones(tenant.state), Tombstones(tenant.state)
    stones.add({5: ()})
    stones.finish()
    rows = pa.table({"id": [5, 6], "content": ["Frank sails.", "Grace sails."]})
    assert stones.without(rows)["id"].to_pylist() == [6]
    later.joined(stones).lift([5])
    assert later.without(rows) == rows
    assert (later.allowed, later.all) == ({5}, [])
    assert later.joined(stones).without(rows)["id"].to_pylist() == stones.joined(later).without(rows)["id"].to_pylist() == [6]


def test_backups_that_hold_it_are_named_and_restoring_them_leaves_it_out(tenant: Tenant, tmp_path: Path):
    text = f"Frank said {token()}."
    number = remember(tenant, text)
    remember(tenant, "Grace sails.")
    place = str(tmp_path / "backups")
    assert CliRunner().invoke(cli, ["backup", place]).exit_code == 0
    done = erase(tenant, [number], confirm=True)
    (named,) = done.backups
    assert named.startswith(f"{place}/snapshots/main/")
    take_backup(tenant, Repository(place))
    other = Tenant(tenant.settings, "other")
    repository = Repository(place)
    restored = restore_backup(repository, repository.snapshots("main")[0], other)
    assert (restored.erased, len(other.memories)) == (1, 1)
    assert holding(tenant, text) == []
    with pytest.raises(ProcessingError, match="was erased"):
        remember(other, text)


def test_a_repeated_erasure_names_the_backups_again_and_asks_nothing(tenant: Tenant, tmp_path: Path):
    number = remember(tenant, "Frank sails.")
    backup(tenant, str(tmp_path / "stick"))
    (named,) = erase(tenant, [number], confirm=True).backups
    again = CliRunner().invoke(cli, ["erase", str(number)])
    assert again.exit_code == 0, again.output
    assert f"Memory {number} was erased on 20" in again.output and f"Still in the backup {named}" in again.output


def test_a_repeated_erasure_leaves_the_graph_and_the_tables_as_they_are(tenant: Tenant):
    number = remember(tenant, "Frank sails.")
    remember(tenant, "Grace sails.")
    erase(tenant, [number], confirm=True)
    refresh_graph(tenant.catalog, tenant.memories, tenant.relations)
    version = Tenant(tenant.settings).memories.stored.reading.version
    again = CliRunner().invoke(cli, ["erase", str(number)])
    with tenant.catalog.read() as connection:
        assert connection.execute("SELECT count(*) FROM graph_memories").fetchall() == [(1,)]
    assert Tenant(tenant.settings).memories.stored.reading.version == version
    assert "builds the graph again" not in again.output


def test_a_backup_that_cannot_be_found_is_named(tenant: Tenant, tmp_path: Path):
    number = remember(tenant, "Frank sails.")
    stick = tmp_path / "stick"
    backup(tenant, str(stick))
    stick.rename(tmp_path / "unplugged")
    assert erase(tenant, [number]).backups == [f"{stick}, perhaps: it cannot be found"]


def test_the_backup_that_a_tenant_was_restored_from_is_named(tenant: Tenant, tmp_path: Path):
    number = remember(tenant, "Frank sails.")
    backup(tenant, str(tmp_path / "stick"))
    (tmp_path / "stick").rename(tmp_path / "plugged in elsewhere")
    repository = Repository(str(tmp_path / "plugged in elsewhere"))
    new = Tenant(tenant.settings, "new")
    restore_backup(repository, repository.require("main"), new)
    assert erase(new, [number]).backups == [
        f"{repository.target}/snapshots/{repository.require('main').name}",
        f"{tmp_path}/stick, perhaps: it cannot be found",
    ]
