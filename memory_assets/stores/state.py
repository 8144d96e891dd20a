"""State of a tenant besides its tables and catalog: small named values and logs, and the random id of its store.

A name is a path such as `keys/0123456789ab.json`; `stores/layout.py` lists them. They are stored in the tenant's folder, or for all
tenants in one PostgreSQL database (`stores/postgres.py`). No module above this one knows which.
"""

import json
import os
import re
import secrets
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import EllipsisType
from typing import NamedTuple

from memory_assets.errors import ConflictError, DamagedError, DeletedError, StoreBusyError, StoreError
from memory_assets.models import TENANT_PATTERN
from memory_assets.stores.locks import SHARED, locked_in_time

ID = "store.json"
PARTS = ("vectors", "catalog.duckdb", "keys", ID)
"""Parts of a tenant's folder; it holds at least one of them."""

_DELETED = re.compile(r"\.deleted-(?P<tenant>[a-z][a-z0-9_-]*)-[0-9a-f]{8}")
"""Name of a deleted tenant's folder until it is removed."""
_ATTEMPTS = 20


class Entry(NamedTuple):
    """A value or a log."""

    name: str
    size: int


class TenantState(ABC):
    """Values and logs of one tenant. Thread-safe."""

    tenant: str
    store_id: str | None = None
    """The id of the store that this object first saw. If the id differs later, another tenant has the name."""

    @abstractmethod
    def get(self, name: str, start: int = 0) -> bytes | None:
        """Return a value, or a log from byte `start` on; None if there is none."""

    @abstractmethod
    def put(self, name: str, content: bytes | None, expected: bytes | EllipsisType | None = ...) -> bool:
        """Replace atomically, or remove (None), if `expected` (`...`: any) is there; return whether. StoreError if the tenant is gone."""

    @abstractmethod
    def append(self, name: str, record: bytes) -> None:
        """Append a record to a log; records of several processes never mix."""

    @abstractmethod
    def list(self, prefix: str = "") -> list[Entry]:
        """Return the values and logs whose names begin with `prefix`, sorted by name."""

    @abstractmethod
    def where(self, name: str) -> str:
        """Return a value's name for messages."""

    @abstractmethod
    def read_id(self) -> str | None:
        """Return the current id of the tenant's store; None before the first write."""

    def stamp(self) -> str:
        """Return a string that identifies the tenant's current store; empty before the first write."""
        return self.read_id() or ""

    @abstractmethod
    def create_id(self, *, anew: bool = False) -> str:
        """Give the store a random id if it has none, or a new one if `anew`. Returns the id."""

    def count_commits(self) -> int | None:
        """Return how many commits to the tables were counted; None if they are not counted, or the tenant was deleted."""
        return None

    @abstractmethod
    def note_commit(self) -> int | None:
        """Count a commit to the tables; return the new `count_commits`. DeletedError if the tenant was deleted or recreated."""

    @property
    @abstractmethod
    def exists(self) -> bool:
        """Whether any state of the tenant exists."""

    @abstractmethod
    @contextmanager
    def creating(self) -> Iterator[None]:
        """Create the tenant in this block. Of several processes, one succeeds; the others get ConflictError."""

    @contextmanager
    def closed_to_writers(self) -> Iterator[None]:
        """Block new writers during the block, if the storage can do so."""
        yield

    @abstractmethod
    def delete(self) -> None:
        """Remove the tenant's state, its id first; `TenantStates.deleted` lists the tenant until it is swept."""

    @contextmanager
    def held(self) -> Iterator[None]:
        """Call `claim`, and keep the tenant from being deleted during the block, if the storage can do so."""
        self.claim()
        yield

    def update(self, name: str, change: "Callable[[bytes | None], bytes | None]") -> None:
        """Replace a value with `change(value)`; retry if another process changed it meanwhile."""
        for _ in range(_ATTEMPTS):
            held = self.get(name)
            changed = change(held)
            if changed == held or self.put(name, changed, held):
                return
        raise StoreBusyError(f"{self.where(name)} was changed by other processes {_ATTEMPTS} times; run the command again.")

    def remove(self, *names: str) -> None:
        for name in names:
            self.put(name, None)

    def claim(self) -> str:
        """Return the id of the store, created if necessary. StoreError if the tenant was deleted or recreated; nothing was written."""
        now = self.read_id()
        if self.store_id is None:
            self.store_id = now or self.create_id()
        elif now != self.store_id:
            raise self.deleted()
        return self.store_id

    def look(self) -> str | None:
        """Return the id of the store; None before the first write."""
        if self.store_id is None:
            self.store_id = self.read_id()
        return self.store_id

    @property
    def is_current(self) -> bool:
        """Whether the store that this object first saw, if any, still belongs to the tenant."""
        return self.store_id is None or self.read_id() == self.store_id

    def already_exists(self) -> ConflictError:
        mend = f"`memory tenant list` shows all, `memory key create NAME --tenant {self.tenant}` makes a key for it"
        return ConflictError(f"The tenant {self.tenant!r} exists already; {mend}.")

    def deleted(self) -> DeletedError:
        return DeletedError(f"The tenant {self.tenant!r} was deleted meanwhile; nothing was written.")


class FileState(TenantState):
    """Values and logs in a tenant's folder, one file each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tenant = folder.name
        self._was_seen = folder.is_dir()
        """Whether the folder has existed. If it is gone later, the tenant was deleted."""

    def get(self, name: str, start: int = 0) -> bytes | None:
        try:
            with (self.folder / name).open("rb") as file:
                file.seek(start)
                return file.read()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def put(self, name: str, content: bytes | None, expected: bytes | EllipsisType | None = ...) -> bool:
        path = self.folder / name
        if content is None and not path.exists():
            return expected is None or expected is ...
        from memory_assets.stores.files import replace_file

        self._make_folder()
        with locked_in_time(self.folder) as there:
            if not there:
                raise self.deleted()
            if expected is not ... and self.get(name) != expected:
                return False
            if content is None:
                path.unlink(missing_ok=True)
            else:
                replace_file(path, content)
        return True

    def append(self, name: str, record: bytes) -> None:
        self._make_folder()
        path = self.folder / name
        path.parent.mkdir(exist_ok=True, mode=0o700)
        with open(path, "ab", buffering=0, opener=partial(os.open, mode=0o600)) as file:
            file.write(record)

    def list(self, prefix: str = "") -> list[Entry]:
        below = self.folder / prefix.rpartition("/")[0]
        found = []
        for parent, _, names in os.walk(below):
            for path in (Path(parent, name) for name in names):
                name = path.relative_to(self.folder).as_posix()
                with suppress(FileNotFoundError):
                    if name.startswith(prefix) and path.is_file() and not path.is_symlink():
                        found.append(Entry(name, path.stat().st_size))
        return sorted(found)

    def where(self, name: str) -> str:
        return str(self.folder / name)

    def read_id(self) -> str | None:
        held = self.get(ID)
        if held is None:
            return None
        try:
            return str(json.loads(held)["id"])
        except (ValueError, TypeError, KeyError) as error:
            raise DamagedError(f"{self.where(ID)} cannot be read ({error}); `memory doctor` says what mends it.") from error

    def stamp(self) -> str:
        """Return a string for the current store. A folder restored from a copy counts as another store, although its id is the same."""
        try:
            return f"{self.read_id()}-{(self.folder / ID).stat().st_ino:x}"
        except FileNotFoundError:
            return ""

    def create_id(self, *, anew: bool = False) -> str:
        self._make_folder()
        while True:
            number = secrets.token_hex(8)
            if self.put(ID, json.dumps({"id": number}).encode(), ... if anew else None):
                self.store_id = number
                return number
            if present := self.read_id():
                return present

    def note_commit(self) -> None:
        if not self.is_current:
            raise self.deleted()

    @property
    def exists(self) -> bool:
        return any((self.folder / part).exists() for part in PARTS)

    @contextmanager
    def creating(self) -> Iterator[None]:
        self.folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder.mkdir(exist_ok=True, mode=0o700)
        with locked_in_time(self.folder) as there:
            if not there:
                raise StoreError(f"The tenant {self.tenant!r} is just being deleted; try again.")
            if self.exists:
                raise self.already_exists()
            self._was_seen = True
            yield

    @contextmanager
    def held(self) -> Iterator[None]:
        self.claim()
        with locked_in_time(self.folder, SHARED) as there:
            if not (there and self.is_current):
                raise self.deleted()
            yield

    @contextmanager
    def closed_to_writers(self) -> Iterator[None]:
        with locked_in_time(self.folder):
            yield

    def delete(self) -> None:
        with locked_in_time(self.folder) as there:
            if there:
                self.folder.rename(self.folder.with_name(f".deleted-{self.tenant}-{secrets.token_hex(4)}"))

    def _make_folder(self) -> None:
        """Create the folder; raise StoreError if it existed before."""
        if not self.folder.is_dir():
            if self._was_seen:
                raise self.deleted()
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._was_seen = True


class DeletedTenant(NamedTuple):
    """Remains of a deleted tenant."""

    tenant: str
    store_id: str | None
    where: str
    is_swept: bool = False
    """Whether it was swept already; a record may be kept for late writers."""


class TenantStates(ABC):
    """Storage of the states of all tenants."""

    @abstractmethod
    def open(self, tenant: str) -> TenantState:
        """Return the state of a tenant; creates nothing."""

    def close(self) -> None:  # noqa: B027 - files need none
        """Close this process's connections, before it forks others."""

    @abstractmethod
    def names(self) -> Iterable[str]:
        """Return the names of tenants with any state."""

    @abstractmethod
    def deleted(self) -> list[DeletedTenant]:
        """Return tenants whose deletion is running or was killed."""

    @abstractmethod
    def sweep(self, left: DeletedTenant) -> None:
        """Remove the remains of a deleted tenant, the last step of a deletion. Several processes may do so at once."""

    def stamps(self) -> dict[str, str] | None:
        """Return tenant -> a string that every commit to its tables changes; None if commits are not counted."""
        return None

    def value_stamps(self, name: str, tenants: Iterable[str]) -> dict[str, str] | None:  # noqa: ARG002
        """Return tenant, if it exists -> a string that every write of a value changes; None if no other machine writes it."""
        return None


class FileStates(TenantStates):
    """One folder in the data folder for each tenant."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir

    def open(self, tenant: str) -> FileState:
        return FileState(self._data_dir / tenant)

    def names(self) -> Iterable[str]:
        folders = self._data_dir.iterdir() if self._data_dir.is_dir() else ()
        named = (each for each in folders if re.fullmatch(TENANT_PATTERN, each.name) and not each.is_symlink())
        return (each.name for each in named if FileState(each).exists)

    def deleted(self) -> list[DeletedTenant]:
        folders = sorted(path for path in self._data_dir.glob(".deleted-*") if path.is_dir() and not path.is_symlink())
        named = ((_DELETED.fullmatch(path.name), FileState(path)) for path in folders)
        return [DeletedTenant(found["tenant"], state.read_id(), str(state.folder)) for found, state in named if found]

    def sweep(self, left: DeletedTenant) -> None:
        shutil.rmtree(left.where, ignore_errors=True)
        if Path(left.where).exists():
            raise StoreError(f"{left.where}, which a deleted tenant left, cannot be removed; see who owns it, and remove it.")
