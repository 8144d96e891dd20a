"""A restore inserts the rows into tables that exist, with the vectors of the backup."""

from pathlib import Path

from memory_assets.keeping.copying import take_backup
from memory_assets.keeping.repository import Repository
from memory_assets.keeping.restoring import restore_backup
from memory_assets.models import NewMemory, Source
from memory_assets.operations.store import store
from memory_assets.settings import load_settings
from memory_assets.tenants import Tenant
from memory_assets_tests.keeping.test_backup import add, rows


def test_a_restore_into_an_empty_table_of_another_embedder_brings_the_vectors_of_the_backup(
    tenant: Tenant, tmp_path: Path
) -> None:
    add(tenant, 50)
    take_backup(tenant, repository := Repository(str(tmp_path / "backups")))
    settings = load_settings(data_dir=tmp_path / "other", vectors_uri=str(tmp_path / "tables"))
    emptied = Tenant(settings)
    number = store(emptied, NewMemory("Mira owns the export.", Source.CLI)).id
    emptied.memories.stored.writing.delete(f"id = {number}")
    restore_backup(repository, repository.require("main"), Tenant(settings))
    restored = Tenant(settings)
    assert rows(restored) == rows(tenant)
    assert restored.memories.columns.embedder == "test"
