"""The counts of `health`, and its report on a full disk."""

import asyncio
import errno
import os
import resource
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from memory_assets.api.app import create_app
from memory_assets.errors import StoreError
from memory_assets.models import NewMemory, Source
from memory_assets.operations.health import diagnose, health
from memory_assets.operations.store import store
from memory_assets.settings import Settings
from memory_assets.stores.memories import MemoryStore
from memory_assets.stores.records import explain_failure
from memory_assets.tenants import Tenant


@contextmanager
def limited_files() -> Iterator[None]:
    """Limit the size of files, so that LanceDB loses the end of larger ones."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_health_counts_the_memories_that_have_a_vector(tenant: Tenant) -> None:
    first = store(tenant, NewMemory("Alice sails.", Source.CLI))
    store(tenant, NewMemory("Ben rows.", Source.CLI))
    live = tenant.memories.columns.live
    table = tenant.memories.stored.writing
    row = table.search().where(f"id = {first.id}").to_arrow()
    place = row.schema.get_field_index(live)
    row = row.set_column(place, row.schema.field(place), pa.nulls(1, row.schema.field(place).type))
    table.merge_insert("id").when_matched_update_all().execute(row, on_bad_vectors="null")
    found = health(Tenant(tenant.settings))
    assert (found.memory_count, found.embedding_count) == (2, 1)


def test_health_names_the_oldest_and_the_newest_without_reading_all_times(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime(2026, 3, 14, tzinfo=UTC)
    for days in (3, 9, 1, 7, 5):
        store(tenant, NewMemory(f"Day {days}.", Source.CLI, created_at=now - timedelta(days=days)))
    read: list[int] = []
    scan = MemoryStore.scan

    def counting(self: MemoryStore, *given: object, **named: object) -> pa.Table:
        rows = scan(self, *given, **named)  # type: ignore[arg-type]
        read.append(rows.num_rows)
        return rows

    monkeypatch.setattr(MemoryStore, "scan", counting)
    found = health(tenant)
    assert (found.oldest_memory, found.newest_memory) == (now - timedelta(days=9), now - timedelta(days=1))
    assert sum(read) <= 1


def test_a_catalog_that_cannot_be_read_and_that_searches_do_without_is_no_fault(tenant: Tenant) -> None:
    store(tenant, NewMemory("Alice sails.", Source.CLI))
    with tenant.catalog.write() as connection:
        connection.execute("UPDATE schema_version SET version = 9")
    assert health(tenant).faults == []


def test_a_limit_of_the_size_of_files_is_unhealthy_everywhere_and_nothing_is_stored(tenant: Tenant, settings: Settings) -> None:
    mend = "start a new shell, or the service, without this limit."
    with limited_files(), pytest.raises(StoreError, match=mend):
        store(tenant, NewMemory("Alice sails.", Source.CLI))
    assert not tenant.memories.stored.exists
    with limited_files():
        assert mend in health(tenant).faults[0]
    store(tenant, NewMemory("Alice sails.", Source.CLI))

    async def status() -> int:
        transport = httpx.ASGITransport(create_app(settings))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return (await client.get("/api/v1/health")).status_code

    before = sorted(settings.data_dir.iterdir())
    assert asyncio.run(status()) == 200
    with limited_files():
        found = health(tenant)
        assert (found.status, found.store_healthy) == ("unhealthy", False)
        assert mend in found.faults[0]
        assert asyncio.run(status()) == 503
        told = diagnose(tenant)
        assert told.is_failure and told.findings[0].mend == mend
        with pytest.raises(StoreError, match=mend):
            store(tenant, NewMemory("LanceDB would store half of it.", Source.CLI))
    assert sorted(settings.data_dir.iterdir()) == before


def test_a_disk_that_can_only_be_read_needs_no_room(
    tenant: Tenant, settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store(tenant, NewMemory("Alice sails.", Source.CLI))

    def refuse(**_: Any) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    (fault,) = health(tenant).faults
    first = diagnose(tenant).findings[0]
    unwritable = sqlite3.OperationalError("unable to open database file")
    unwritable.sqlite_errorname, unwritable.sqlite_errorcode = "SQLITE_CANTOPEN", sqlite3.SQLITE_CANTOPEN
    for told in (fault, f"{first.what}; {first.mend}", explain_failure(tmp_path / "none yet", unwritable)):
        assert "it can only be read, so mount it for writing" in told
        assert "room" not in told
    assert str(settings.data_dir) in first.what
