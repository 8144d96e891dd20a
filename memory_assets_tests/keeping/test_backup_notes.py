"""A backup that lacks something says so and never takes the place of a complete one."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from memory_assets.errors import StoreError
from memory_assets.keeping.copying import select_kept, take_backup
from memory_assets.keeping.repository import Repository, Snapshot
from memory_assets.operations.answers import LocalTime
from memory_assets.operations.backup import backup, verify
from memory_assets.stores.access_log import AccessLog, fold_accesses
from memory_assets.tenants import Tenant, delete_tenant
from memory_assets_tests.keeping.test_backup import add

_BLOCK, _HEADER = 262_144, 12_288
_KEEP, _UTC = (1, 1, 1), ZoneInfo("UTC")


@pytest.fixture
def recalled(tenant: Tenant) -> Tenant:
    """A tenant with a recall in its catalog and one in its log."""
    first, second = add(tenant, 2)
    for number in (first, second):
        fold_accesses(tenant.catalog, AccessLog(tenant.state), datetime.now(UTC))
        AccessLog(tenant.state).record([number], datetime.now(UTC))
    return tenant


def fill(tenant: Tenant) -> None:
    with tenant.catalog.write() as connection:
        connection.execute("INSERT INTO memory_first_seen SELECT range, now() FROM range(100000)")
        connection.execute("INSERT INTO graph_nodes (id, kind, label) SELECT range, 'memory', hash(range) FROM range(100000)")


def corrupt(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    for block in range(_HEADER + _BLOCK, len(whole), _BLOCK):
        whole[block + 1_000 : block + 200_000] = b"\xff" * 199_000
    path.write_bytes(whole)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: _HEADER + _BLOCK])


def test_a_backup_fails_while_the_catalogs_database_is_away_and_the_last_one_stays(recalled: Tenant, tmp_path: Path) -> None:
    pytest.importorskip("psycopg_pool", reason="the extra [cluster] is not installed")
    place = str(tmp_path / "backups")
    backup(recalled, place)
    away = "ducklake:postgres:host=127.0.0.1 port=9 dbname=memory"
    with pytest.raises(StoreError, match=r"PostgreSQL failed .* check MEMORY_CATALOG_URI"):
        backup(Tenant(recalled.settings.model_copy(update={"catalog_uri": away, "lock_timeout": 1.0})), place)
    (left,) = Repository(place).snapshots()
    assert "catalog/memory_access" in left.files


def test_a_backup_of_a_damaged_catalog_has_the_access_logs_and_its_verification_says_what_it_lacks(
    recalled: Tenant, tmp_path: Path
) -> None:
    fill(recalled)
    corrupt(recalled.catalog.path)
    repository = Repository(str(tmp_path / "backups"))
    snapshot = take_backup(recalled, repository)
    assert [path for path in snapshot.files if path.startswith("access/")]
    assert len(snapshot.notes) == 1
    verified = verify(recalled.settings, repository.target, None)
    assert "Whole: main" in verified.text(LocalTime(UTC))
    assert snapshot.notes[0] in verified.text(LocalTime(UTC))


@pytest.mark.parametrize("damage", [truncate, corrupt])
def test_the_complete_backup_stays_after_several_backups_without_the_recalls_that_a_damaged_catalog_lost(
    recalled: Tenant, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    fill(recalled)
    place = str(tmp_path / "backups")
    backup(recalled, place)
    (complete,) = Repository(place).snapshots()
    damage(recalled.catalog.path)
    for _ in range(3):
        assert ["The record of recalls is not in this backup" in note for note in backup(recalled, place).notes] == [True]
        assert complete.name in [each.name for each in Repository(place).snapshots()]
        with recalled.catalog.write() as connection:
            connection.execute("INSERT OR IGNORE INTO memory_first_seen VALUES (1, now())")
    fold_accesses(recalled.catalog, AccessLog(recalled.state), datetime.now(UTC))
    assert backup(recalled, place).notes == []


def test_a_recreated_tenant_lacks_nothing_of_the_deleted_one(recalled: Tenant, tmp_path: Path) -> None:
    place = str(tmp_path / "backups")
    backup(recalled, place)
    delete_tenant(Tenant(recalled.settings))
    again = Tenant(recalled.settings)
    add(again, 1)
    assert backup(again, place).notes == []


def test_retention_keeps_the_newest_backup_without_notes_beside_a_newer_one_with_notes() -> None:
    start = datetime(2026, 1, 5, 9, tzinfo=UTC)
    complete, lacking, newer, newest = (
        Snapshot(tenant="main", taken_at=start + timedelta(hours=hour), program="", notes=notes)
        for hour, notes in enumerate(([], ["gone"], ["gone"], []))
    )
    assert select_kept([complete, lacking], _KEEP, _UTC) == [complete, lacking]
    assert select_kept([complete, lacking, newer], _KEEP, _UTC) == [complete, newer]
    assert select_kept([complete, lacking, newer, newest], _KEEP, _UTC) == [newest]
