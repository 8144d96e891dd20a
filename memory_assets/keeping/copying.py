"""Take a backup of a tenant while others write: its tables as of one moment, and the files that no run can make again.

One earlier backup is kept for each of the last days, weeks and months.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, tzinfo
from importlib.metadata import version
from pathlib import Path

from memory_assets.errors import ConflictError, DamagedError, StoreError
from memory_assets.keeping.packs import copy_table, to_bytes
from memory_assets.keeping.repository import Repository, Snapshot, Stored, TableCopy
from memory_assets.settings import Settings, read_settings_file, settings_in_file
from memory_assets.stores.catalog import read_kept
from memory_assets.stores.layout import PINNED, kept_entries, read_entry
from memory_assets.stores.location import Location
from memory_assets.stores.locks import locked
from memory_assets.stores.memories import MemoryStore
from memory_assets.stores.relations import RelationStore
from memory_assets.stores.state import TenantState
from memory_assets.tenants import Tenant

CATALOG = "catalog/"
"""Tables of the catalog that no run could derive again, among a backup's files."""
MAPPING = "outside/pai-mapping.json"
SETTINGS = "outside/memory.toml"
_TRIES = 5
_PERIODS = ("%Y-%m-%d", "%G-W%V", "%Y-%m")
"""What names a day, a week, a month."""


class Writer:
    """Writes the objects of one backup, and takes up those of the last one that are still whole."""

    def __init__(self, repository: Repository, last: Snapshot | None) -> None:
        """Look at what the repository holds."""
        self._repository = repository
        self._last = last.objects if last else {}
        self._present = repository.sizes()
        self.objects: dict[str, Stored] = {}
        self.added_bytes = 0

    def _held(self, name: str) -> Stored | None:
        """An object of the last backup that is there in its full length."""
        stored = self._last.get(name)
        return stored if stored and self._present.get(name) == stored.stored else None

    def has(self, name: str) -> bool:
        """Whether an object of the last backup is there, for the recipient that the settings name."""
        return self._held(name) is not None and name.endswith(f"zst{self._repository.cipher.suffix}")

    def read(self, name: str) -> bytes | None:
        """The content of an index of the last backup; None where it is gone or damaged."""
        try:
            return self._repository.get(name, self._last[name])
        except (DamagedError, KeyError):
            return None

    def reuse(self, name: str) -> None:
        """Let this backup need an object that is there."""
        self.objects[name] = self._last[name]

    def put(self, content: bytes, *, secret: bool = True) -> str:
        """Write an object, unless it is there, and return its name."""
        name = self._repository.name_of(content, secret=secret)
        if name not in self.objects:
            stored = self._held(name)
            if stored is None:
                stored = self._repository.put(name, content, secret=secret)
                self.added_bytes += stored.stored
            self.objects[name] = stored
        return name


def take_backup(tenant: Tenant, repository: Repository) -> Snapshot:
    """Copy what is not derived of a tenant into a repository; only what changed since its last backup there is written."""
    with repository.alone(), pinned_tables(tenant) as place:
        last = repository.newest(tenant.name)
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
        for path, content in _files(tenant, snapshot.notes):
            snapshot.files[path] = writer.put(content)
        snapshot.objects, snapshot.added_bytes = writer.objects, writer.added_bytes
        repository.write(snapshot)
    return snapshot


def _copy_newest(store: type[RelationStore | MemoryStore], place: Location, writer: Writer, last: TableCopy | None) -> TableCopy:
    """Copy a table; if LanceDB removes files of that version meanwhile, which only a table that is not pinned allows, copy the newest."""
    for _ in range(_TRIES - 1):
        try:
            return copy_table(store(place).stored, writer, last)
        except StoreError as error:
            if "not found" not in str(error).lower():
                raise
    return copy_table(store(place).stored, writer, last)


@contextmanager
def pinned_tables(tenant: Tenant) -> Iterator[Location]:
    """Hold the tenant's tables as they are at one moment, and return the location at which they can be read meanwhile.

    Both tables are hard-linked while nobody commits, which takes milliseconds. LanceDB's tags are not used for this: every cleanup of
    versions fails as long as a tagged one is old. Tables in object storage are read at the version that is the newest now.
    """
    location = tenant.location
    if not location.is_folder or not location.path.exists():
        yield location
        return
    pin = location.path.parent / PINNED
    pin.mkdir(mode=0o700, exist_ok=True)
    is_alone = False
    with ExitStack() as held:
        with suppress(BlockingIOError):
            is_alone = held.enter_context(locked(pin, fcntl.LOCK_EX | fcntl.LOCK_NB))
        if not is_alone:
            raise ConflictError(f"Another backup of the tenant {tenant.name!r} is under way; wait for it to end.")
        drop_pins(pin)
        try:
            with location.closed_to_writers():
                shutil.copytree(location.path, pin / "vectors", copy_function=_link)
            yield Location(str(pin / "vectors"))
        finally:
            drop_pins(pin)
            pin.rmdir()


def drop_pins(pin: Path) -> None:
    """Remove what a backup pinned; a killed one leaves it."""
    shutil.rmtree(pin / "vectors", ignore_errors=True)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _files(tenant: Tenant, notes: list[str]) -> Iterator[tuple[str, bytes]]:
    """The files of a backup: path and content."""
    try:
        with tenant.catalog.read() as connection:
            rows = read_kept(connection)
            accesses = [
                (path, read_entry(tenant.state, tenant.folder, path) or b"")
                for path in kept_entries(tenant.state, tenant.folder)
                if path.startswith("access/")
            ]
    except StoreError as error:
        notes.append(f"The record of recalls is not in this backup: {error}")
        rows, accesses = {}, []
    yield from accesses
    for name, table in rows.items():
        if table.num_rows:
            yield f"{CATALOG}{name}", to_bytes(table)
    yield from _unmoved(tenant).items()
    if tenant.is_sources_tenant:
        mapping = tenant.settings.pai_mapping
        if mapping.is_file():
            yield MAPPING, mapping.read_bytes()
        if held := _settings_file(tenant.settings):
            yield SETTINGS, held


def _unmoved(tenant: Tenant) -> dict[str, bytes]:
    """The kept files and values, read again if one was replaced meanwhile, so that a journal and what it tells of fit together."""
    state, folder = tenant.state, tenant.folder
    read, before = _read(state, folder), None
    for _ in range(_TRIES):
        if read == before:
            break
        read, before = _read(state, folder), read
    return read


def _read(state: TenantState, folder: Path) -> dict[str, bytes]:
    paths = (path for path in kept_entries(state, folder) if not path.startswith("access/"))
    return {path: content for path in paths if (content := read_entry(state, folder, path)) is not None}


def _settings_file(settings: Settings) -> bytes:
    """The settings file without its secrets; empty where there is none."""
    try:
        held = settings_in_file(read_settings_file())
    except (OSError, ValueError):
        return b""
    secret = {name for name, field in type(settings).model_fields.items() if "SecretStr" in str(field.annotation)}
    lines = [
        f"{given.name} = {json.dumps(given.value)}"
        for field, given in held.items()
        if field not in secret and not ("@" in str(given.value) and "://" in str(given.value))
    ]
    return ("\n".join(lines) + "\n").encode() if lines else b""


def kept_of(snapshots: Sequence[Snapshot], keep: Sequence[int], zone: tzinfo) -> list[Snapshot]:
    """The backups of one tenant, the oldest first, that stay: the newest of each of the last `keep` days, weeks and months in `zone`.

    If the tenant was deleted and made again, the newest of each store stays: the new one says nothing of what the old one held.
    """
    kept: set[str] = {snapshots[-1].name} if snapshots else set()
    for period, most in zip(_PERIODS, keep, strict=True):
        newest: dict[str, dict[str, str]] = {}
        for each in reversed(snapshots):
            newest.setdefault(each.taken_at.astimezone(zone).strftime(period), {}).setdefault(each.store, each.name)
        kept.update(name for stores in list(newest.values())[:most] for name in stores.values())
    return [each for each in snapshots if each.name in kept]


def prune(repository: Repository, tenant: str, keep: Sequence[int], zone: tzinfo) -> list[Snapshot]:
    """Remove the backups of a tenant that need not stay, with what no other backup needs; return those that were removed.

    If a manifest of the tenant is damaged, nothing is removed.
    """
    with repository.alone():
        snapshots = repository.snapshots(tenant)
        kept = {each.name for each in kept_of(snapshots, keep, zone)}
        gone = [each for each in snapshots if each.name not in kept]
        if gone:
            repository.remove(gone)
    return gone
