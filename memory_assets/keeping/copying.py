"""Backups: take one of a tenant, with its tables as of one moment and all files that no run can recreate, and prune old ones.

Writers are not blocked. Pruning keeps one earlier backup for each of the last days, weeks and months.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, tzinfo
from functools import partial
from importlib.metadata import version
from pathlib import Path

from memory_assets.errors import ConflictError, DamagedError, InvalidInputError, SettingsError, StoreError
from memory_assets.hook_settings import read_settings_file
from memory_assets.keeping.packs import copy_table, to_bytes
from memory_assets.keeping.repository import Repository, Snapshot, Stored, TableCopy
from memory_assets.language.times import display_zone
from memory_assets.settings import Settings, settings_in_file
from memory_assets.stores.catalog import read_kept
from memory_assets.stores.files import mend_of
from memory_assets.stores.layout import kept_entries, read_entry
from memory_assets.stores.location import Location
from memory_assets.stores.locks import locked
from memory_assets.stores.memories import MemoryStore
from memory_assets.stores.relations import RelationStore
from memory_assets.stores.state import TenantState
from memory_assets.tenants import Tenant

CATALOG = "catalog/"
"""Prefix of a backup's files that hold catalog tables which no run can rebuild."""
_RECALLS = f"{CATALOG}memory_access"
"""File of the recalls, whose table loses no row."""
_LACKS_RECALLS = "The record of recalls is not in this backup"
MAPPING = "outside/pai-mapping.json"
SETTINGS = "outside/memory.toml"
PLACES = "backups.json"
"""Value with the places of the tenant's backups, each with the tenant that was backed up."""
_ATTEMPTS = 5
_PERIODS = ("%Y-%m-%d", "%G-W%V", "%Y-%m")
"""Time formats that identify a day, a week, a month."""


class Writer:
    """Writer of one backup's objects, which reuses intact objects of the last backup."""

    def __init__(self, repository: Repository, last: Snapshot | None) -> None:
        self._repository = repository
        self._last = last.objects if last else {}
        self._sizes = repository.sizes()
        self.objects: dict[str, Stored] = {}
        self.added_bytes = 0

    def _find_reusable(self, name: str) -> Stored | None:
        """Return an object of the last backup if it exists with its full size."""
        stored = self._last.get(name)
        return stored if stored and self._sizes.get(name) == stored.stored else None

    def has(self, name: str) -> bool:
        """Return whether an object of the last backup exists and is encrypted for the current recipient."""
        return self._find_reusable(name) is not None and name.endswith(f"zst{self._repository.cipher.suffix}")

    def read(self, name: str) -> bytes | None:
        """Return the content of an index of the last backup; None if it is missing or damaged."""
        try:
            return self._repository.get(name, self._last[name])
        except (DamagedError, KeyError):
            return None

    def reuse(self, name: str) -> None:
        self.objects[name] = self._last[name]

    def put(self, content: bytes, *, secret: bool = True) -> str:
        """Write an object unless it exists; return its name."""
        name = self._repository.name_of(content, secret=secret)
        if name not in self.objects:
            stored = self._find_reusable(name)
            if stored is None:
                stored = self._repository.put(name, content, secret=secret)
                self.added_bytes += stored.stored
            self.objects[name] = stored
        return name


def back_up(tenant: Tenant, repository: Repository) -> tuple[Snapshot, list[Snapshot]]:
    """Record the place, take a backup, and remove the backups that retention does not keep; return it and the removed ones."""
    settings, place = tenant.settings, repository.target
    if "://" not in place and Path(place).resolve().is_relative_to(settings.data_dir.resolve()):
        raise InvalidInputError(f"{place} is in the data folder, which is lost as a whole; name a folder elsewhere.")
    tenant.must_exist()
    repository.cipher.check()
    with _explaining_disk_faults(tenant):
        record_place(tenant.state, place, tenant.name)
    snapshot = take_backup(tenant, repository)
    return snapshot, prune(repository, tenant.name, settings.backup_keep, display_zone(settings))


@contextmanager
def _explaining_disk_faults(tenant: Tenant) -> Iterator[None]:
    """Turn an OSError of the data folder into a StoreError, so that it is not taken for a fault of the backup's place."""
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"A backup writes a little into {tenant.folder}, which is not possible ({error.strerror}); {mend_of(error)}. "
            "`memory export FILE` writes nothing there."
        ) from error


def record_place(state: TenantState, place: str, source: str) -> None:
    """Record a place with backups of the tenant `source`, from which the recorded places without a tenant's name come, too."""
    state.update(PLACES, lambda content: json.dumps(sorted({*parse_places(content, source), (place, source)})).encode())


def parse_places(content: bytes | None, source: str) -> list[tuple[str, str]]:
    """Return each recorded place with the tenant whose backups it holds, by default `source`.

    A damaged record holds none, so that it stops no backup.
    """
    with suppress(ValueError, TypeError):
        recorded = [[each, source] if isinstance(each, str) else each for each in json.loads(content or b"[]")]
        return [(str(place), str(tenant)) for place, tenant in recorded]
    return []


def take_backup(tenant: Tenant, repository: Repository) -> Snapshot:
    """Copy a tenant's underived data into a repository; only changes since its last backup there are written.

    DamagedError: the table of the memories is lost; no backup is taken. DeletedError: the tenant was deleted meanwhile; none is kept.
    SettingsError: the last backup is encrypted, and there is no recipient.
    """
    with tenant.memories.stored.explaining_errors():
        tenant.memories.stored.raise_if_lost()
    with repository.locked(), pinned_tables(tenant) as place:
        last = repository.newest(tenant.name)
        if last and last.is_encrypted and not repository.cipher.recipient:
            raise SettingsError(
                f"The backups of the tenant {tenant.name!r} in {repository.target} are encrypted; set MEMORY_BACKUP_RECIPIENT, or name "
                "another place for backups that are not."
            )
        writer = Writer(repository, last)
        snapshot = Snapshot(
            tenant=tenant.name,
            taken_at=datetime.now(UTC),
            number=last.number + 1 if last else 1,
            store=tenant.state.read_id() or "",
            program=version("memory_assets"),
        )
        for store in (RelationStore, MemoryStore):
            stored = store(place).stored
            name = stored.definition.name
            if stored.exists:
                snapshot.tables[name] = _copy_newest(store, place, writer, last.tables.get(name) if last else None)
        for path, content in _read_files(tenant, snapshot.notes):
            snapshot.files[path] = writer.put(content)
        if last and last.store == snapshot.store and not snapshot.notes and _has_lost_recalls(last, snapshot):
            snapshot.notes.append(f"{_LACKS_RECALLS}: the catalog has lost it since an earlier one.")
        snapshot.objects, snapshot.added_bytes = writer.objects, writer.added_bytes
        repository.write(snapshot)
        if not tenant.state.is_current:
            repository.remove([snapshot])
            raise tenant.state.deleted()
    return snapshot


def _has_lost_recalls(last: Snapshot, new: Snapshot) -> bool:
    """Return whether the catalog lost the recalls before the last backup of the same store, or since; a damaged one is set aside."""
    if _RECALLS in new.files:
        return False
    if _RECALLS in last.files or any(note.startswith(_LACKS_RECALLS) for note in last.notes):
        return True
    had, has = (any(path.startswith(CATALOG) for path in each.files) for each in (last, new))
    return had and not has


def _copy_newest(store: type[RelationStore | MemoryStore], place: Location, writer: Writer, last: TableCopy | None) -> TableCopy:
    """Copy a table. If LanceDB removes that version's files meanwhile (possible only if the table is not pinned), copy the newest."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return copy_table(store(place).stored, writer, last)
        except StoreError as error:
            if "not found" not in str(error).lower():
                raise
    return copy_table(store(place).stored, writer, last)


@contextmanager
def pinned_tables(tenant: Tenant) -> Iterator[Location]:
    """Freeze the tenant's tables, and yield the location where the block can read them.

    Both tables are hard-linked while commits are blocked, for milliseconds. LanceDB's tags are not used: as long as a tagged version is
    old, every cleanup of versions fails. Tables in object storage are read at their newest version.
    """
    location = tenant.location
    if not location.is_folder or not location.path.exists():
        yield location
        return
    pin = location.pin
    is_alone = False
    with ExitStack() as held:
        with _explaining_disk_faults(tenant):
            pin.mkdir(mode=0o700, exist_ok=True)
        with suppress(BlockingIOError):
            is_alone = held.enter_context(locked(pin, fcntl.LOCK_EX | fcntl.LOCK_NB))
        if not is_alone:
            raise ConflictError(f"Another backup of the tenant {tenant.name!r} is under way; wait for it to end.")
        drop_pins(pin)
        try:
            with location.closed_to_writers(), _explaining_disk_faults(tenant):
                shutil.copytree(location.path, pin / "vectors", copy_function=partial(_link, tenant))
            yield Location(str(pin / "vectors"))
        finally:
            drop_pins(pin)
            with suppress(FileNotFoundError):  # the tenant was deleted
                pin.rmdir()


def drop_pins(pin: Path) -> None:
    """Remove the hard links of a backup; a killed backup leaves them behind."""
    shutil.rmtree(pin / "vectors", ignore_errors=True)


def _link(tenant: Tenant, source: str, target: str) -> None:
    with _explaining_disk_faults(tenant):  # `copytree` would collect an OSError
        try:
            os.link(source, target)
        except OSError:
            shutil.copyfile(source, target)


def _read_files(tenant: Tenant, notes: list[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the kept files and tables; append to `notes` what a damaged catalog lost. StoreError if the catalog is away or busy."""
    try:
        with tenant.catalog.read() as connection:
            rows, accesses = read_kept(connection), _read_entries(tenant, are_accesses=True)
    except DamagedError as error:
        notes.append(f"{_LACKS_RECALLS}: {error}")
        rows, accesses = {}, _read_entries(tenant, are_accesses=True)
    yield from accesses.items()
    for name, table in rows.items():
        if table.num_rows:
            yield f"{CATALOG}{name}", to_bytes(table)
    yield from _read_consistent(tenant).items()
    if tenant.is_sources_tenant:
        mapping = tenant.settings.pai_mapping
        if mapping.is_file():
            yield MAPPING, mapping.read_bytes()
        if held := _settings_file(tenant.settings):
            yield SETTINGS, held


def _read_consistent(tenant: Tenant) -> dict[str, bytes]:
    """Return the kept files and values, read until two reads agree, so that a journal matches the files it describes."""
    read, before = _read_entries(tenant), None
    for _ in range(_ATTEMPTS):
        if read == before:
            break
        read, before = _read_entries(tenant), read
    return read


def _read_entries(tenant: Tenant, *, are_accesses: bool = False) -> dict[str, bytes]:
    """Return the kept files and values: the access logs, or all others."""
    state, folder = tenant.state, tenant.folder
    paths = (path for path in kept_entries(state, folder) if path.startswith("access/") == are_accesses)
    return {path: content for path in paths if (content := read_entry(state, folder, path)) is not None}


def _settings_file(settings: Settings) -> bytes:
    """Return the settings file without its secrets and the places of this machine's data; empty if there is none."""
    try:
        held = settings_in_file(read_settings_file())
    except (OSError, ValueError):
        return b""
    left_out = {name for name, field in type(settings).model_fields.items() if "SecretStr" in str(field.annotation)}
    left_out |= {"data_dir", "vectors_uri", "catalog_uri", "state_uri"}
    lines = [
        f"{given.name} = {json.dumps(given.value, ensure_ascii=False)}"
        for field, given in held.items()
        if field not in left_out and not ("@" in str(given.value) and "://" in str(given.value))
    ]
    return ("\n".join(lines) + "\n").encode() if lines else b""


def select_kept(snapshots: Sequence[Snapshot], keep: Sequence[int], zone: tzinfo) -> list[Snapshot]:
    """Return which backups of a tenant (oldest first) to keep: the newest of each of the last `keep` days, weeks and months in `zone`.

    If the tenant was deleted and recreated, the newest of each store is kept, because a new store holds nothing of the old one. If the
    newest has notes, so that something is not in it, the newest without notes is kept, too.
    """
    kept: set[str] = {snapshots[-1].name} if snapshots else set()
    for period, most in zip(_PERIODS, keep, strict=True):
        newest: dict[str, dict[str, list[Snapshot]]] = {}
        for each in reversed(snapshots):
            stores = newest.setdefault(each.taken_at.astimezone(zone).strftime(period), {})
            chosen = stores.setdefault(each.store, [])
            if not chosen or (chosen[-1].notes and not each.notes):
                chosen.append(each)
        kept.update(each.name for stores in list(newest.values())[:most] for chosen in stores.values() for each in chosen)
    return [each for each in snapshots if each.name in kept]


def prune(repository: Repository, tenant: str, keep: Sequence[int], zone: tzinfo) -> list[Snapshot]:
    """Remove a tenant's expired backups and the objects that no other backup needs; return the removed backups.

    If a manifest of the tenant is damaged, nothing is removed.
    """
    with repository.locked():
        snapshots = repository.snapshots(tenant)
        kept = {each.name for each in select_kept(snapshots, keep, zone)}
        gone = [each for each in snapshots if each.name not in kept]
        if gone:
            repository.remove(gone)
    return gone
