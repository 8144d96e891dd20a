"""Stores of every past release are readable and are migrated to the current schema by named steps that survive kills."""

import os
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import duckdb
import pytest

from memory_assets.doctor import examine
from memory_assets.errors import StoreError
from memory_assets.ingest.backfill import catch_up
from memory_assets.models import State
from memory_assets.operations.answers import LocalTime
from memory_assets.operations.status import status
from memory_assets.operations.take_in import take_in
from memory_assets.settings import Settings
from memory_assets.stores.filters import Filters
from memory_assets.stores.migrations import CATALOG_MIGRATIONS
from memory_assets.stores.schema import LANCE_TABLES
from memory_assets.stores.schema_differences import catalog_differences, differences
from memory_assets.tenants import Tenant

STORES = Path(__file__).parent.parent / "data" / "stores"
ALL = [step.name for step in CATALOG_MIGRATIONS]
CATALOG_WAITS = {"c805af4": ALL}


@pytest.fixture(params=sorted(CATALOG_WAITS))
def release(request: pytest.FixtureRequest) -> str:
    """A commit of which a store is kept."""
    return request.param


@pytest.fixture
def old(release: str, tenant: Tenant) -> Tenant:
    """The tenant of that store: nine memories, one of them forgotten, a relation, a catalog, a key, an access log."""
    with tarfile.open(STORES / f"{release}.tar.xz") as archive:
        archive.extractall(tenant.settings.data_dir, filter="data")
    return tenant


def files(tenant: Tenant) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in tenant.folder.rglob("*") if path.is_file()}


def kept(tenant: Tenant) -> dict[str, list[tuple[object, ...]]]:
    """Return the data that a migration must preserve."""
    with tenant.catalog.read() as connection:
        queries = {
            "entries": "SELECT key, content FROM memory_entries ORDER BY key",
            "nodes": "SELECT id, kind, label FROM graph_nodes ORDER BY id",
            "edges": "SELECT source_id, target_id, type FROM graph_edges ORDER BY ALL",
            "access": "FROM memory_access ORDER BY id",
        }
        return {name: connection.execute(query).fetchall() for name, query in queries.items()}


def test_reading_an_earlier_store_changes_no_file(old: Tenant) -> None:
    before = files(old)
    assert len(old.memories) == 9
    assert len(old.relations) == 1
    assert all(kept(old).values())
    assert files(old) == before


def test_the_doctor_says_which_migrations_wait(old: Tenant, release: str) -> None:
    assert old.catalog.waiting_migrations() == CATALOG_WAITS[release]
    (said, *_) = [finding for finding in examine(old) if "of the catalog to be made" in finding.what]
    assert (said.level, said.mend) == ("note", "Run `memory run`.")
    assert CATALOG_WAITS[release][-1] in said.what


def test_the_first_writing_migrates_the_catalog_and_keeps_its_rows(old: Tenant) -> None:
    before = kept(old)
    with old.catalog.write():
        pass
    assert not old.catalog.waiting_migrations()
    assert kept(old) == before
    with old.catalog.read() as connection:
        assert not catalog_differences(connection)
        hashed = connection.execute(
            "SELECT text_hash IS NOT NULL FROM memory_entries UNION SELECT text_hash IS NOT NULL FROM entry_keys"
        )
        assert hashed.fetchall() == [(True,)]


def test_a_migration_that_is_killed_begins_again(old: Tenant) -> None:
    code = (
        "import os, signal, sys; from memory_assets.stores.catalog import Catalog; from memory_assets.stores import migrations\n"
        "run = migrations.CatalogMigration.run\n"
        "def killed(step, connection):\n"
        "    run(step, connection)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "migrations.CatalogMigration.run = killed\n"
        "with Catalog(sys.argv[1], 1).write(): pass"
    )
    before = kept(old)
    result = subprocess.run([sys.executable, "-c", code, str(old.catalog.path)], check=False).returncode
    assert result == -signal.SIGKILL
    assert old.catalog.waiting_migrations() == ALL
    with old.catalog.write() as connection:
        assert not catalog_differences(connection)
    assert kept(old) == before
    assert not old.catalog.waiting_migrations()


def test_memories_are_brought_to_the_registered_schema_in_their_states(old: Tenant) -> None:
    before = {memory.id: (memory.content, memory.tags, memory.state) for batch in old.memories.batches() for memory in batch}
    catch_up(old, lambda _done, _total: None)
    for expected, stored in zip(LANCE_TABLES, (old.memories.stored, old.relations.stored), strict=True):
        assert not differences(expected, {field.name: str(field.type) for field in stored.reading.schema})
    after = {memory.id: (memory.content, memory.tags, memory.state) for batch in old.memories.batches() for memory in batch}
    assert after == before
    assert old.memories.count(Filters(states=(State.FORGOTTEN,))) == 1
    assert old.memories.count(Filters(preferences=True)) == 2
    assert old.memories.matching("会議", 5, Filters()).num_rows == 1
    assert catch_up(old, lambda _done, _total: None) == 0


@pytest.mark.parametrize(("version", "mend"), [(99, "knows [0-9]+; upgrade"), (9, "move it away and run `memory run`")])
def test_a_catalog_of_another_release_is_refused_before_anything_is_touched(tenant: Tenant, version: int, mend: str) -> None:
    with tenant.catalog.write() as connection:
        connection.execute("UPDATE schema_version SET version = ?", [version])
    before = files(tenant)
    for use in (tenant.catalog.read, tenant.catalog.write):
        with pytest.raises(StoreError, match=mend), use():
            pass
    assert files(tenant) == before


@pytest.mark.parametrize("release", ["c805af4"])
def test_an_earlier_release_refuses_a_catalog_of_this_one(old: Tenant) -> None:
    """Earlier releases compare the number in `schema_version` with theirs, which was 10."""
    with old.catalog.write():
        pass
    with duckdb.connect(old.catalog.path, read_only=True) as connection:
        assert connection.execute("SELECT version > 10 FROM schema_version").fetchone() == (True,)


def test_a_file_that_an_earlier_release_refused_for_its_type_is_taken_in_unchanged(tenant: Tenant, settings: Settings) -> None:
    path = settings.claude_projects_dir / "-src-atlas" / "memory" / "storage.md"
    path.parent.mkdir(parents=True)
    path.write_text("---\ntype- decisions\nname: storage\n---\n\nAtlas stores Parquet.\n")
    stamp = path.stat()
    assert take_in(tenant).refused == 1
    with tenant.catalog.write() as connection:
        connection.execute("UPDATE source_refusals SET location = 'frontmatter.type'")
    path.write_text(path.read_text().replace("type-", "type:"))
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert (take_in(tenant).added, take_in(tenant).refused) == (0, 1)
    with tenant.catalog.write() as connection:
        connection.execute("UPDATE schema_version SET version = 10")
    taken = take_in(Tenant(settings))
    assert (taken.added, taken.refused) == (1, 0)
    files = status(tenant).text(LocalTime.of(settings), refused=True)
    assert f"{path}\n    guessed: kind\n    mend: give it a `type:` of user, feedback, project, reference\n" in files
