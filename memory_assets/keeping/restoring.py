"""Check backups, and restore a tenant from one: completely and verified row by row, or not at all."""

import secrets
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

from memory_assets.display import counted
from memory_assets.errors import ConflictError, DamagedError, MemoryAssetsError, StoreError, first_line
from memory_assets.keeping.copying import CATALOG, MAPPING, SETTINGS, record_place
from memory_assets.keeping.packs import INDEX, from_bytes, index_of
from memory_assets.keeping.repository import Repository, Snapshot, TableCopy
from memory_assets.stores import lance
from memory_assets.stores.catalog import Catalog, put_kept
from memory_assets.stores.files import replace_file
from memory_assets.stores.lance import aligned
from memory_assets.stores.layout import Care, files_of, write_entry
from memory_assets.stores.location import Location
from memory_assets.stores.locks import locked
from memory_assets.stores.memories import MemoryStore
from memory_assets.stores.relations import RelationStore
from memory_assets.stores.rows import find_altered
from memory_assets.stores.schema import UNDERIVED
from memory_assets.stores.state import FileState
from memory_assets.stores.tables import StoredTable, session
from memory_assets.stores.tombstones import FILE as TOMBSTONES
from memory_assets.stores.tombstones import Tombstones
from memory_assets.stores.upkeep import note_removal
from memory_assets.tenants import Tenant, open_states

_BATCH = 4_096
_MAX_NAMED = 5
_STAGING = ".restoring-"


@dataclass(slots=True)
class Restoration:
    """Result of a restore."""

    rows: dict[str, int] = field(default_factory=dict)
    files: int = 0
    erased: int = 0
    """Number of memories left out because they were erased after the backup."""
    damaged: list[str] = field(default_factory=list)
    outside: list[Path] = field(default_factory=list)
    """Files written outside the tenant's folder."""


def find_damage(repository: Repository, snapshot: Snapshot, *, decrypting: bool = True) -> list[str]:
    """Return what is missing or damaged in a backup, in sentences. Rows are compared with their digests only if `decrypting`."""
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
            held = from_bytes(rows)
            if not index_of(held).equals(from_bytes(index)):
                found.append(f"Rows of the table {table!r} in {pack.rows} do not match their index; take a new backup.")
            elif "content_hash" in held.column_names and (altered := find_altered(held.filter(pa.array(pack.live)))):
                found.append(
                    f"The texts of {counted(len(altered))} are not those that were stored ({', '.join(map(str, altered[:_MAX_NAMED]))}): "
                    "the store was damaged before this backup; check whether an older one is intact."
                )
        if live != copy.rows:
            found.append(f"The table {table!r} has {live} of {copy.rows} rows in this backup; take a new backup.")
    return found


def restore_backup(
    repository: Repository, snapshot: Snapshot, tenant: Tenant, *, skip_damaged: bool = False, settings_file: Path | None = None
) -> Restoration:
    """Restore a tenant from a backup. A kill leaves all of its memories, or none; then it can be repeated.

    Texts erased since the backup are left out. A backup of another tenant brings no keys. The settings are written
    to `settings_file` unless it exists.
    """
    _refuse_filled(tenant, repository, snapshot)
    data = tenant.settings.data_dir
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    staging = data / f"{_STAGING}{tenant.name}"
    staging.mkdir(exist_ok=True, mode=0o700)
    with locked(staging) as mine:
        if not mine:
            raise ConflictError(f"The tenant {tenant.name!r} is being restored by another process; wait for it to end.")
        for path in staging.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        restore = _Restore(repository, snapshot, tenant, staging, skip_damaged=skip_damaged)
        restore.put_in_place(settings_file)
    return restore.finish()


def _refuse_filled(tenant: Tenant, repository: Repository, snapshot: Snapshot) -> None:
    """Raise ConflictError if the tenant has memories. A killed restore to tables elsewhere may have left relations."""
    if held := len(tenant.memories):
        copied = _find_ids(repository, snapshot) - {stone.id for stone in Tombstones(tenant.state).all}
        is_complete = copied and copied <= set(tenant.memories.scan(("id",))["id"].to_pylist())
        among = f", all {len(copied)} of this backup among them, so an earlier restore is complete" if is_complete else ""
        raise ConflictError(
            f"The tenant {tenant.name!r} holds {held} memories already{among}; restore into a new one with --tenant NAME."
        )


def _find_ids(repository: Repository, snapshot: Snapshot) -> set[int]:
    """Return the ids of the memories in a backup; none if it is damaged."""
    found: set[int] = set()
    with suppress(DamagedError):
        for pack in snapshot.tables["memories"].packs if "memories" in snapshot.tables else ():
            ids = from_bytes(repository.get(pack.index, snapshot.objects[pack.index]))["id"]
            found.update(ids.filter(pa.array(pack.live)).to_pylist())
        return found
    return set()


class _Restore:
    """A restore of one backup: it builds the tenant in a staging folder, puts that in place, and then writes tables elsewhere."""

    def __init__(self, repository: Repository, snapshot: Snapshot, tenant: Tenant, staging: Path, *, skip_damaged: bool) -> None:
        self._repository = repository
        self._snapshot = snapshot
        self._tenant = tenant
        self._staging = staging
        self._skip_damaged = skip_damaged
        self._state = FileState(staging) if isinstance(tenant.state, FileState) else tenant.state
        """Target of the values: the staging folder, or the tenant's own state if that is no folder."""
        self._erased = Tombstones(tenant.state).joined(Tombstones(open_states(tenant.settings).open(snapshot.tenant)))
        self._newest = repository.newest(snapshot.tenant) or snapshot
        self._objects = self._newest.objects | snapshot.objects
        self._has_own_tables = tenant.location.is_folder and tenant.location.path.parent == tenant.folder
        self._done = Restoration()

    def put_in_place(self, settings_file: Path | None) -> None:
        """Restore the files outside, then the tenant's folder in one step, with the tables if they are in it."""
        tenant = self._tenant
        if self._newest.name != self._snapshot.name and (name := self._newest.files.get(TOMBSTONES)):
            self._erased.joined(Tombstones(tenant.state, self._read(name)))
        self._restore_files()
        self._erased.joined(Tombstones(self._state)).save(self._state)
        is_file = tenant.catalog.is_in(tenant.folder)
        self._restore_catalog(
            Catalog(str(self._staging / "catalog.duckdb"), tenant.settings.lock_timeout) if is_file else tenant.catalog
        )
        if self._has_own_tables:
            self._restore_tables(Location(str(self._staging / "vectors")))
        self._state.create_id(anew=self._state is not tenant.state)
        with tenant.state.closed_to_writers(), tenant.location.closed_to_writers():
            self._refuse_filled()  # again: somebody may have stored something meanwhile
            self._keep_files()
            self._restore_outside(settings_file)  # before the memories, with which a restore cannot be repeated
            if tenant.folder.exists():  # the folder of an empty tenant; it is removed like that of a deleted one
                tenant.folder.rename(tenant.folder.with_name(f".deleted-{tenant.name}-{secrets.token_hex(4)}"))
            self._staging.rename(tenant.folder)

    def finish(self) -> Restoration:
        """Restore tables elsewhere, the memories in one step. The staging folder must no longer be locked."""
        if not self._has_own_tables:
            fresh = Tenant(self._tenant.settings, self._tenant.name)
            with fresh.state.closed_to_writers(), fresh.location.creating():
                self._refuse_filled()
                self._restore_tables(fresh.location)
        return self._done

    def _refuse_filled(self) -> None:
        _refuse_filled(Tenant(self._tenant.settings, self._tenant.name), self._repository, self._snapshot)

    def _read(self, name: str) -> bytes | None:
        """Return the content of an object; None if it is damaged and to be skipped."""
        try:
            return self._repository.get(name, self._objects[name])
        except DamagedError as error:
            if not self._skip_damaged:
                raise
            self._done.damaged.append(str(error))
            return None

    def _restore_files(self) -> None:
        """Restore the kept files; other files of an existing tenant folder are kept."""
        is_other = self._snapshot.tenant != self._tenant.name
        for path, name in self._snapshot.files.items():
            foreign = path.startswith((CATALOG, "outside/")) or (path.startswith("keys/") and is_other)
            if not foreign and (content := self._read(name)) is not None:
                write_entry(self._state, self._staging, path, content)
                self._done.files += 1
        self._keep_files()
        record_place(self._state, self._repository.target, self._snapshot.tenant)

    def _keep_files(self) -> None:
        folder = self._tenant.folder
        for relative, care in files_of(folder):
            if care is Care.KEPT and not (self._staging / relative).exists():
                replace_file(self._staging / relative, (folder / relative).read_bytes())

    def _restore_catalog(self, catalog: Catalog) -> None:
        held = {path.removeprefix(CATALOG): name for path, name in self._snapshot.files.items() if path.startswith(CATALOG)}
        if not held:
            return
        with catalog.write() as connection:
            for table, name in held.items():
                if table in UNDERIVED and (content := self._read(name)) is not None:
                    put_kept(connection, {table: from_bytes(content)})

    def _restore_tables(self, place: Location) -> None:
        """Write each table in one commit and compare every row with the backup; the memories come last."""
        done, data = self._done, self._tenant.settings.data_dir
        relations, memories = RelationStore(place, data_dir=data), MemoryStore(place, data_dir=data)
        for stored in (relations.stored, memories.stored):
            name = stored.name
            if (copy := self._snapshot.tables.get(name)) is None:
                continue
            if place.is_folder:
                place.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            if stored.exists and stored is memories.stored:
                memories.columns.adopt(copy.table_schema)
            done.rows[name] = self._restore_table(stored, copy)
            if not done.damaged and done.rows[name] + done.erased * (name == "memories") != copy.rows:
                raise DamagedError(
                    f"The backup {self._snapshot.name} has {done.rows[name]} of {copy.rows} rows of {name}; take another one."
                )
        relations.prepare()
        memories.prepare()
        if done.erased:
            note_removal(memories.stored)

    def _restore_table(self, stored: StoredTable, copy: TableCopy) -> int:
        """Write a new table, or insert the rows into an existing one, beside those of other processes; return their number."""
        stored.raise_if_limited()
        place, name, is_new = stored.location, stored.name, not stored.exists
        schema = copy.table_schema if is_new else stored.writing.schema
        there = [] if is_new else lance.scan(stored.writing).select(["id"]).to_arrow()["id"].to_pylist()
        indices: list[pa.Table] = []
        faults: list[Exception] = []
        stream = pa.RecordBatchReader.from_batches(schema, self._read_batches(copy, schema, indices, faults))
        try:
            if is_new:
                table: Any = place.connect(None, session(name)).create_table(name, stream, schema, on_bad_vectors="null")
            else:
                table = stored.writing
                with stored.committing():
                    table.merge_insert("id").when_not_matched_insert_all().execute(stream, on_bad_vectors="null")
        except (RuntimeError, OSError, ValueError) as error:
            if faults:
                raise faults[0] from error
            raise StoreError(
                f"The table {name!r} cannot be written to {place.uri} ({first_line(error)}); restore again."
            ) from error
        return _verify_table(
            table, pa.concat_tables([*indices, INDEX.empty_table()]), _columns(copy, schema), there, is_new=is_new
        )

    def _read_batches(
        self, copy: TableCopy, schema: pa.Schema, indices: list[pa.Table], faults: list[Exception]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table in `schema`; append their index to `indices`.

        LanceDB does not pass an error on, so it is appended to `faults`.
        """
        columns = _columns(copy, schema)
        try:
            for pack in copy.packs:
                if (content := self._read(pack.rows)) is None:
                    continue
                rows = aligned(from_bytes(content).filter(pa.array(pack.live)), copy.table_schema)
                whole = self._erased.without(rows) if "content" in rows.column_names else rows
                self._done.erased += rows.num_rows - whole.num_rows
                whole = whole.select(columns)
                indices.append(index_of(whole))
                yield from aligned(whole, schema).to_batches()
        except MemoryAssetsError as error:
            faults.append(error)
            raise

    def _restore_outside(self, settings_file: Path | None) -> None:
        files = self._snapshot.files
        wanted = {MAPPING: self._tenant.settings.pai_mapping} if self._tenant.is_sources_tenant else {}
        if settings_file:
            wanted[SETTINGS] = settings_file
        for path, target in wanted.items():
            if path in files and not target.exists() and (content := self._read(files[path])) is not None:
                replace_file(target, content)
                self._done.outside.append(target)


def _columns(copy: TableCopy, schema: pa.Schema) -> list[str]:
    """Return the columns of a copied table that a table with this schema has, too; vectors of a move under way are left out."""
    return [name for name in copy.table_schema.names if name in schema.names]


def _verify_table(table: Any, written: pa.Table, columns: list[str], there: list[int], *, is_new: bool) -> int:
    """Return how many rows of `written` a table holds, after comparing all but those of the ids `there`, which it had before.

    If it `is_new`, it must hold no other rows.
    """
    written = written.sort_by("id")
    digests = np.array(written["digest"].to_pylist() or [b""], dtype="S16")
    ids = written["id"].to_numpy()
    count = 0
    for batch in lance.scan(table).select(columns).to_batches(_BATCH):
        held = index_of(pa.Table.from_batches([batch]))
        numbers, found = held["id"].to_numpy(), np.array(held["digest"].to_pylist(), dtype="S16")
        is_ours = np.isin(numbers, ids)
        compared = is_ours & ~np.isin(numbers, there)
        count += int(is_ours.sum())
        if (is_new and not is_ours.all()) or (digests[np.searchsorted(ids, numbers[compared])] != found[compared]).any():
            raise DamagedError(f"The restored table {table.name!r} differs from the backup; check the disk, and restore again.")
    if count != written.num_rows:
        raise DamagedError(f"The restored table {table.name!r} holds {count} of {written.num_rows} rows; restore again.")
    return count


def try_restore(repository: Repository, tenant: Tenant) -> Restoration:
    """Restore a tenant's newest backup into a temporary folder and compare every row."""
    scratch = tenant.settings.data_dir / "tmp"
    scratch.mkdir(mode=0o700, exist_ok=True)
    with TemporaryDirectory(prefix="restored-", dir=scratch) as folder:
        elsewhere = {
            "data_dir": Path(folder),
            "vectors_uri": None,
            "catalog_uri": None,
            "state_uri": None,
            "pai_mapping": Path(folder, "mapping.json"),
        }
        fresh = Tenant(tenant.settings.model_copy(update=elsewhere), tenant.name)
        return restore_backup(repository, repository.require(tenant.name), fresh)
