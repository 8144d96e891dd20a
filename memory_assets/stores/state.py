"""What belongs to a tenant besides its tables and its catalog: small named values and logs, and the random id of its store.

A name is a path such as `keys/0123456789ab.json`; `stores/layout.py` lists them. They lie in the tenant's folder, or for all tenants in
one PostgreSQL database (`stores/postgres.py`). Nothing above this module knows which.
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

from memory_assets.errors import ConflictError, DamagedError, StoreBusyError, StoreError
from memory_assets.models import TENANT_PATTERN
from memory_assets.stores.locks import SHARED, locked

ID = "store.json"
PARTS = ("vectors", "catalog.duckdb", "keys", ID)
"""A tenant's folder holds at least one of them."""

_DELETED = re.compile(r"\.deleted-(?P<tenant>[a-z][a-z0-9_-]*)-[0-9a-f]{8}")
"""The name of a deleted tenant's folder until it is removed."""
_ATTEMPTS = 20


class Entry(NamedTuple):
    """One value or log."""

    name: str
    size: int
    """Bytes."""


class TenantState(ABC):
    """One tenant's values and logs. Any thread may use it."""

    tenant: str
    store_id: str | None = None
    """The id of the store as this object saw it first; what has another one now is another tenant of the same name."""

    @abstractmethod
    def get(self, name: str, start: int = 0) -> bytes | None:
        """A value, or a log from a byte on; None if there is none."""

    @abstractmethod
    def put(self, name: str, content: bytes | None, expected: bytes | EllipsisType | None = ...) -> bool:
        """Replace a value whole, or remove it (None), if it is what is `expected`: `...` is whatever is there. Returns whether it was.

        Raises:
            StoreError: the tenant was deleted meanwhile; nothing was written.
        """

    @abstractmethod
    def append(self, name: str, record: bytes) -> None:
        """Add a record to the end of a log; records of several processes never mix."""

    @abstractmethod
    def list(self, prefix: str = "") -> list[Entry]:
        """The values and logs whose names begin so, by name."""

    @abstractmethod
    def where(self, name: str) -> str:
        """How a message names a value."""

    @abstractmethod
    def read_id(self) -> str | None:
        """The id of the tenant's store as it is now; None before the first writing."""

    def stamp(self) -> str:
        """What differs from the tenant's earlier stores; empty before the first writing."""
        return self.read_id() or ""

    @abstractmethod
    def create_id(self, *, anew: bool = False) -> str:
        """Give the store a random id, unless it has one and none is wanted `anew`; returns the id that it has then."""

    def count_commits(self) -> int | None:
        """How many commits to the tables were noted; None if they are not counted, or the tenant was deleted."""
        return None

    @abstractmethod
    def note_commit(self) -> int | None:
        """Note that the tables have changed; returns `count_commits` then.

        Raises:
            StoreError: the store is not the tenant's any more that this object saw first.
        """

    @property
    @abstractmethod
    def exists(self) -> bool:
        """Whether anything is kept of the tenant here."""

    @abstractmethod
    @contextmanager
    def creating(self) -> Iterator[None]:
        """Make the tenant in this block; of several who do so at once one does, the others get ConflictError."""

    @contextmanager
    def closed_to_writers(self) -> Iterator[None]:
        """Let nobody begin to write in this block, where the place of the state can prevent it."""
        yield

    @abstractmethod
    def delete(self) -> None:
        """Remove everything of the tenant that is kept here, its id first; `TenantStates.deleted` names it until it is swept."""

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let nobody delete the tenant in this block, where the place of the state can prevent it; `claim` comes first."""
        self.claim()
        yield

    def update(self, name: str, change: "Callable[[bytes | None], bytes | None]") -> None:
        """Replace a value with what `change` makes of it; again if another process was faster."""
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
        """The id of the store, which from now on has one.

        Raises:
            StoreError: the tenant was deleted, or made anew, since this object first saw it; nothing was written.
        """
        now = self.read_id()
        if self.store_id is None:
            self.store_id = now or self.create_id()
        elif now != self.store_id:
            raise self.deleted()
        return self.store_id

    def look(self) -> str | None:
        """The id of the store; None before the first writing."""
        if self.store_id is None:
            self.store_id = self.read_id()
        return self.store_id

    @property
    def is_current(self) -> bool:
        """Whether the store that this object saw first is still the tenant's."""
        return self.read_id() == self.store_id

    def deleted(self) -> StoreError:
        return StoreError(f"The tenant {self.tenant!r} was deleted meanwhile; nothing was written.")


class FileState(TenantState):
    """The values and logs in a tenant's folder, a file each."""

    def __init__(self, folder: Path, tenant: str = "") -> None:
        self.folder = folder
        self.tenant = tenant or folder.name
        self._found = folder.is_dir()
        """Whether the folder was ever there; one that is gone since then belonged to a tenant that was deleted."""

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

        self._make()
        with locked(self.folder) as there:
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
        self._make()
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
        """As above; a folder that was put back from a copy is another store, whose id is the same."""
        try:
            return f"{self.read_id()}-{(self.folder / ID).stat().st_ino:x}"
        except FileNotFoundError:
            return ""

    def create_id(self, *, anew: bool = False) -> str:
        self._make()
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
        with locked(self.folder) as there:
            if not there:
                raise StoreError(f"The tenant {self.tenant!r} is just being deleted; try again.")
            if self.exists:
                raise ConflictError(f"The tenant {self.tenant!r} exists already; `memory tenant list` shows all.")
            self._found = True
            yield

    @contextmanager
    def held(self) -> Iterator[None]:
        self.claim()
        with locked(self.folder, SHARED) as there:
            if not there:
                raise self.deleted()
            yield

    @contextmanager
    def closed_to_writers(self) -> Iterator[None]:
        with locked(self.folder):
            yield

    def delete(self) -> None:
        with locked(self.folder) as there:
            if there:
                self.folder.rename(self.folder.with_name(f".deleted-{self.tenant}-{secrets.token_hex(4)}"))

    def _make(self) -> None:
        """Make the folder, unless it was there and is gone."""
        if not self.folder.is_dir():
            if self._found:
                raise self.deleted()
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._found = True


class DeletedTenant(NamedTuple):
    """What is left of a tenant that was deleted."""

    tenant: str
    store_id: str | None
    where: str
    """For a person."""
    is_swept: bool = False
    """Whether it was removed already; it may be kept for writers that were late."""


class TenantStates(ABC):
    """Where the states of all tenants lie."""

    @abstractmethod
    def open(self, tenant: str) -> TenantState:
        """The state of one tenant; nothing is made."""

    @abstractmethod
    def names(self) -> Iterable[str]:
        """Names of the tenants of which something is kept."""

    @abstractmethod
    def deleted(self) -> list[DeletedTenant]:
        """Tenants whose deletion is under way, or was killed."""

    @abstractmethod
    def sweep(self, left: DeletedTenant) -> None:
        """Remove what a deleted tenant left here; the last step of a deletion. Several processes may do so at once."""

    def stamps(self) -> dict[str, str] | None:
        """Tenant -> what every commit to its tables changes; None if that is not noted here."""
        return None


class FileStates(TenantStates):
    """A folder for each tenant in the data folder."""

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
