"""The layout of a tenant's folder, which backup, erase and the doctor use."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from memory_assets.cli.main import cli
from memory_assets.doctor import examine
from memory_assets.errors import StoreError
from memory_assets.learn.noted import Noted, note
from memory_assets.models import NewMemory, RelationType, Source
from memory_assets.operations.backup import backup
from memory_assets.operations.context import context
from memory_assets.operations.erase import erase
from memory_assets.operations.relate import relate
from memory_assets.operations.store import store
from memory_assets.stores.access_log import AccessLog
from memory_assets.stores.keys import KeyStore
from memory_assets.stores.layout import FOLDERS, Care, care_of, kept_entries, unlisted_files
from memory_assets.tana.state import SyncRecord
from memory_assets.tenants import Tenant
from memory_assets_tests.conftest import WriteSilo
from memory_assets_tests.ingest.runs import ingest


def test_every_file_of_a_used_tenant_is_listed_as_kept_or_derived(tenant: Tenant, write_silo: WriteSilo, tmp_path):
    write_silo("billing", "The billing export moved.")
    ingest(tenant)
    first, second = (store(tenant, NewMemory(f"Fact {n} about billing.", Source.CLI)).id for n in range(2))
    relate(tenant, first, RelationType.RELATES_TO, second, stated_by=Source.CLI)
    context(tenant, ["billing"])
    AccessLog(tenant.state).record([first], datetime.now(UTC))
    KeyStore(tenant.state).create()
    note(tenant.folder, [Noted("Always lint first.", "", "", "s1")])
    SyncRecord(queue={"a": "create"}).save(tenant.folder)
    backup(tenant, str(tmp_path / "backups"))
    erase(tenant, [second], confirm=True)
    assert unlisted_files(tenant.folder) == []
    assert {"noted.json", "tana/sync.json", "erased.json", "backups.json"} <= set(kept_entries(tenant.state, tenant.folder))
    assert care_of("vectors/memories.lance/data/a.lance") is Care.TABLE


def test_the_doctor_names_a_file_that_no_backup_would_hold(tenant: Tenant):
    tenant.memories.prepare()
    (tenant.folder / "diary.txt").write_text("mine")
    assert unlisted_files(tenant.folder) == ["diary.txt"]
    assert [found.what for found in examine(tenant) if "diary.txt" in found.what]
    asked = CliRunner().invoke(cli, ["tenant", "delete", tenant.name], input="n\n")
    assert "diary.txt" in asked.output
    assert tenant.exists


@pytest.mark.parametrize("name", FOLDERS)
def test_no_folder_of_a_tenant_may_be_a_link(name: str, tenant: Tenant, tmp_path: Path):
    tenant.folder.mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tenant.folder / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="is a link"):
        Tenant(tenant.settings)
