"""Checks backups, and makes a tenant of one: whole and compared row by row, or not at all."""

import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from memory_assets.errors import ConflictError, DamagedError, MemoryAssetsError, StoreError
from memory_assets.keeping.copying import CATALOG, MAPPING, SETTINGS
from memory_assets.keeping.packs import INDEX, from_bytes, index_of, rows_of
from memory_assets.keeping.repository import Pack, Repository, Snapshot, TableCopy
from memory_assets.settings import config_file
from memory_assets.stores.catalog import Catalog
from memory_assets.stores.deferred import import_lancedb
from memory_assets.stores.files import replace_file
from memory_assets.stores.lance import first_line
from memory_assets.stores.layout import Care, files_of
from memory_assets.stores.locks import locked
from memory_assets.stores.memories import MemoryStore
from memory_assets.stores.relations import RelationStore
from memory_assets.stores.schema import UNDERIVED
from memory_assets.stores.tombstones import Tombstones

if TYPE_CHECKING:
    from memory_assets.stores.tables import StoredTable
    from memory_assets.tenants import Tenant

_BATCH = 4_096
_STAGING = ".restoring-"


@dataclass(slots=True)
class Restoration:
    """What came back."""

    rows: dict[str, int] = field(default_factory=dict)
    """By table."""
    files: int = 0
    erased: int = 0
    """Memories that stay out, because their text was erased since the backup."""
    damaged: list[str] = field(default_factory=list)
    """What could not be read, in sentences."""
    outside: list[Path] = field(default_factory=list)
    """Files that were written outside of the tenant's folder."""


def find_damage(repository: Repository, snapshot: Snapshot, *, decrypting: bool = True) -> list[str]:
    """What of a backup is gone or damaged, in sentences; rows are compared with their digests unless objects are not decrypted."""
    found: list[str] = []
    for name, stored in snapshot.objects.items():
        try:
            repository.get(name, stored, decrypting=decrypting)
        except DamagedError as error:
            found.append(str(error))
    if found or not decrypting:
        return found
    for table, copy in snapshot.tables.items():
        live = 0
        for pack in copy.packs:
            index, rows = (repository.get(name, snapshot.objects[name]) for name in (pack.index, pack.rows))
            live += int(pack.live.sum())
            if not index_of(from_bytes(rows)).equals(from_bytes(index)):
                found.append(f"Rows of the table {table!r} in {pack.rows} are not what their index says; take a new backup.")
        if live != copy.rows:
            found.append(f"The table {table!r} has {live} of {copy.rows} rows in this backup; take a new backup.")
    return found


def restore_backup(
    repository: Repository,
    snapshot: Snapshot,
    tenant: "Tenant",
    *,
    skip_damaged: bool = False,
    with_settings: bool = False,
) -> Restoration:
    """Make a tenant that holds what a backup holds. Killed at any point, it leaves nothing of the tenant and can be run again.

    Texts that were erased since the backup stay out. A backup of another tenant brings no keys. A settings file that exists stays.
    """
    _refuse_used(tenant)
    data = tenant.settings.data_dir
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    staging = data / f"{_STAGING}{tenant.name}"
    staging.mkdir(exist_ok=True, mode=0o700)
    with locked(staging) as mine:
        if not mine:
            raise ConflictError(f"The tenant {tenant.name!r} is just being restored by another process.")
        for path in staging.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        reader = _Reader(repository, snapshot, skip_damaged=skip_damaged)
        done = Restoration(damaged=reader.damaged)
        erased = Tombstones(tenant.folder).joined(Tombstones(tenant.settings.tenant_dir(snapshot.tenant)))
        _restore_files(reader, snapshot, tenant, staging, done)
        erased.joined(Tombstones(staging)).save(staging)
        _restore_catalog(reader, snapshot, Catalog(str(staging / "catalog.duckdb"), tenant.settings.lock_timeout))
        uri = tenant.settings.tenant_vectors_uri(tenant.name)
        here = Path(uri).parent == tenant.folder
        if here:
            _restore_tables(reader, snapshot, str(staging / "vectors"), erased, done)
        _put_in_place(tenant, staging)
        if not here:
            _restore_tables(reader, snapshot, uri, erased, done)
    _restore_outside(reader, snapshot, tenant, done, with_settings=with_settings)
    return done


class _Reader:
    """Reads the objects of a backup; damaged ones are left out where that is asked for."""

    def __init__(self, repository: Repository, snapshot: Snapshot, *, skip_damaged: bool) -> None:
        self._repository = repository
        self._snapshot = snapshot
        self._skip_damaged = skip_damaged
        self.damaged: list[str] = []

    def get(self, name: str) -> bytes | None:
        try:
            return self._repository.get(name, self._snapshot.objects[name])
        except DamagedError as error:
            if not self._skip_damaged:
                raise
            self.damaged.append(str(error))
            return None

    def packs(self, copy: TableCopy) -> Iterator[tuple[Pack, bytes]]:
        for pack in copy.packs:
            if (content := self.get(pack.rows)) is not None:
                yield pack, content


def _refuse_used(tenant: "Tenant") -> None:
    held = len(tenant.memories) + len(tenant.relations)
    if held:
        raise ConflictError(
            f"The tenant {tenant.name!r} holds {held} memories and relations already; "
            "restore into a new one with --tenant NAME, or delete this one first."
        )


def _restore_files(reader: _Reader, snapshot: Snapshot, tenant: "Tenant", staging: Path, done: Restoration) -> None:
    """The kept files; where the tenant's folder has others already, those stay."""
    for path, name in snapshot.files.items():
        foreign = path.startswith((CATALOG, "outside/")) or (path.startswith("keys/") and snapshot.tenant != tenant.name)
        if not foreign and (content := reader.get(name)) is not None:
            replace_file(staging / path, content)
            done.files += 1
    for relative, care in files_of(tenant.folder):
        if care is Care.KEPT and not (staging / relative).exists():
            replace_file(staging / relative, (tenant.folder / relative).read_bytes())


def _restore_catalog(reader: _Reader, snapshot: Snapshot, catalog: Catalog) -> None:
    held = {path.removeprefix(CATALOG): name for path, name in snapshot.files.items() if path.startswith(CATALOG)}
    if not held:
        return
    with catalog.write() as connection:
        for table, name in held.items():
            if table in UNDERIVED and (content := reader.get(name)) is not None:
                connection.register("kept", from_bytes(content))
                connection.execute(f"INSERT INTO {table} BY NAME FROM kept")


def _restore_tables(reader: _Reader, snapshot: Snapshot, uri: str, erased: Tombstones, done: Restoration) -> None:
    """Write the tables, each in one commit, and compare every row with what was backed up; the memories come last."""
    stores: tuple[StoredTable, ...] = (RelationStore(uri).stored, MemoryStore(uri).stored)
    for stored in stores:
        name = stored.definition.name
        if (copy := snapshot.tables.get(name)) is None:
            continue
        indices: list[pa.Table] = []
        faults: list[Exception] = []
        batches = _batches(reader, copy, erased, done, indices, faults)
        if "://" not in uri:
            Path(uri).mkdir(parents=True, exist_ok=True, mode=0o700)
        stream = pa.RecordBatchReader.from_batches(copy.table_schema, batches)
        try:
            table = (
                import_lancedb()
                .connect(uri)
                .create_table(name, data=stream, schema=copy.table_schema, mode="overwrite", on_bad_vectors="null")
            )
        except (RuntimeError, OSError, ValueError) as error:
            if faults:
                raise faults[0] from error
            raise StoreError(f"The table {name!r} cannot be written to {uri} ({first_line(error)}); restore again.") from error
        done.rows[name] = _compared(table, pa.concat_tables([*indices, INDEX.empty_table()]))
        if not reader.damaged and done.rows[name] + done.erased * (name == "memories") != copy.rows:
            raise DamagedError(
                f"The backup {snapshot.name} has {done.rows[name]} of {copy.rows} rows of {name}; take another one."
            )
    MemoryStore(uri).prepare()
    RelationStore(uri).prepare()


def _batches(
    reader: _Reader, copy: TableCopy, erased: Tombstones, done: Restoration, indices: list[pa.Table], faults: list[Exception]
) -> Iterator[pa.RecordBatch]:
    """The rows of a table for LanceDB; their indices go to `indices`, and what fails, of which LanceDB passes on no more, to `faults`."""
    try:
        for pack in rows_of(reader.packs(copy), copy.table_schema):
            whole = erased.without(pack) if "content" in pack.column_names else pack
            done.erased += pack.num_rows - whole.num_rows
            indices.append(index_of(whole))
            yield from whole.to_batches()
    except MemoryAssetsError as error:
        faults.append(error)
        raise


def _compared(table: Any, written: pa.Table) -> int:
    """How many rows a table holds, each of which is what was written."""
    written = written.sort_by("id")
    digests = np.array(written["digest"].to_pylist() or [b""], dtype="S16")
    ids = written["id"].to_numpy()
    count = 0
    for batch in table.search().to_batches(_BATCH):
        held = index_of(pa.Table.from_batches([batch]))
        places = np.searchsorted(ids, held["id"].to_numpy())
        count += held.num_rows
        if (places >= len(ids)).any() or (digests[places] != np.array(held["digest"].to_pylist(), dtype="S16")).any():
            raise DamagedError(f"The restored table {table.name!r} differs from the backup; check the disk, and restore again.")
    if count != written.num_rows:
        raise DamagedError(f"The restored table {table.name!r} holds {count} of {written.num_rows} rows; restore again.")
    return count


def _put_in_place(tenant: "Tenant", staging: Path) -> None:
    """Let the tenant's folder be the restored one; the folder of an empty tenant goes as that of a deleted one does."""
    if tenant.folder.exists():
        tenant.folder.rename(tenant.folder.with_name(f".deleted-{tenant.name}-{secrets.token_hex(4)}"))
    staging.rename(tenant.folder)


def _restore_outside(reader: _Reader, snapshot: Snapshot, tenant: "Tenant", done: Restoration, *, with_settings: bool) -> None:
    """Files of others that the program writes, where there are none yet."""
    wanted = {MAPPING: tenant.settings.pai_mapping if tenant.is_sources_tenant else None, SETTINGS: config_file()}
    if not with_settings:
        del wanted[SETTINGS]
    for path, target in wanted.items():
        if (
            target
            and path in snapshot.files
            and not target.exists()
            and (content := reader.get(snapshot.files[path])) is not None
        ):
            replace_file(target, content)
            done.outside.append(target)


def try_restore(repository: Repository, tenant: "Tenant") -> Restoration:
    """Restore a tenant's newest backup into a folder of its own, compare every row, and throw it away."""
    from memory_assets.tenants import Tenant

    scratch = tenant.settings.data_dir / "tmp"
    scratch.mkdir(mode=0o700, exist_ok=True)
    with TemporaryDirectory(prefix="restored-", dir=scratch) as folder:
        elsewhere = {
            "data_dir": Path(folder),
            "vectors_uri": None,
            "catalog_uri": None,
            "pai_mapping": Path(folder, "mapping.json"),
        }
        fresh = Tenant(tenant.settings.model_copy(update=elsewhere), tenant.name)
        return restore_backup(repository, repository.require(tenant.name), fresh)
