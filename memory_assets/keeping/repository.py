"""A repository of backups: immutable objects named by their content, and one manifest for each backup.

    objects/3f/3f09….zst             content, compressed; `….age` if it is also encrypted
    snapshots/<tenant>/<time>.json   manifest: the objects that make up the tenant at that time

Objects are written before the manifest that names them, each atomically. A kill leaves earlier backups intact, and objects that the
next backup reuses or pruning removes. Manifests and indices are not encrypted: they hold ids, times, digests and file names.
"""

import base64
import errno
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from operator import methodcaller
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import fs
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from memory_assets.errors import DamagedError, InvalidInputError, NotFoundError, StoreError, first_line
from memory_assets.keeping.encryption import Cipher
from memory_assets.settings import Settings
from memory_assets.stores.files import replace_file
from memory_assets.stores.location import open_bucket, s3_options
from memory_assets.stores.locks import locked

FORMAT = 1
_TIME = "%Y-%m-%dT%H%M%S.%fZ"
_MIN_ORPHAN_AGE = timedelta(days=1)
"""Age from which an unnamed object in object storage is removed; a running backup may be about to name a younger one."""
_TO_MICROSECONDS = methodcaller("isoformat", timespec="microseconds")
_LEVEL = 3


class Stored(BaseModel):
    """An object in the repository."""

    model_config = ConfigDict(frozen=True)

    size: int
    """Size of its content in bytes."""
    stored: int
    """Size in the repository in bytes."""
    digest: str
    """Digest of the stored bytes, so that damage is found without the identity."""


class Pack(BaseModel):
    """A group of rows that were written together."""

    rows: str
    """Name of the object with the rows, as an Arrow stream."""
    index: str
    """Name of the object with id, stamp and digest of each row."""
    count: int
    dead: str = ""
    """Bitmap of rows that are not part of this backup, as packed bits in base64; empty if all are."""

    @property
    def live(self) -> "np.ndarray[Any, np.dtype[np.bool_]]":
        """Mask of the rows that are part of the backup."""
        if not self.dead:
            return np.ones(self.count, bool)
        bits = np.frombuffer(base64.b64decode(self.dead), np.uint8)
        return ~np.unpackbits(bits, count=self.count).astype(bool)

    def keeping(self, live: "np.ndarray[Any, np.dtype[np.bool_]]") -> "Pack":
        dead = "" if live.all() else base64.b64encode(np.packbits(~live).tobytes()).decode()
        return self.model_copy(update={"dead": dead})


class TableCopy(BaseModel):
    """A LanceDB table at one version."""

    version: int
    rows: int
    arrow_schema: str
    """Arrow's serialised schema with its facts, in base64."""
    packs: list[Pack]
    rewritten: str | None = None
    """The table's fact of that name, or empty: no pack holds what was removed until then. None in backups of older releases."""

    @property
    def table_schema(self) -> pa.Schema:
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(self.arrow_schema)))


class Snapshot(BaseModel):
    """The manifest of one backup."""

    format: int = FORMAT
    tenant: str
    taken_at: datetime
    number: int = 0
    """Number that grows with each backup of the tenant, whatever the clock says; 0 in backups of older releases."""
    store: str = ""
    """Id of the copied store; it differs after a tenant is deleted and recreated."""
    program: str
    tables: dict[str, TableCopy] = Field(default_factory=dict)
    files: dict[str, str] = Field(default_factory=dict)
    """Path below the tenant's folder -> object; `catalog/` and `outside/` hold data from other places."""
    objects: dict[str, Stored] = Field(default_factory=dict)
    added_bytes: int = 0
    notes: list[str] = Field(default_factory=list)
    """Sentences about data that could not be copied."""

    @property
    def name(self) -> str:
        return _name_of(self.tenant, self.taken_at)

    @property
    def is_encrypted(self) -> bool:
        """Whether an identity is needed to read its rows and files."""
        return any(name.endswith(".age") for name in self.objects)

    @property
    def stored_bytes(self) -> int:
        return sum(each.stored for each in self.objects.values())


@dataclass
class Repository:
    """A folder or a prefix in object storage that holds backups."""

    target: str
    cipher: Cipher = field(default_factory=Cipher)
    storage: dict[str, Any] = field(default_factory=dict, repr=False)
    """Endpoint and credentials of object storage, as `pyarrow.fs.S3FileSystem` takes them."""

    @classmethod
    def of(cls, settings: Settings, target: str) -> "Repository":
        """Return the repository at `target`, with the cipher and credentials of the settings."""
        endpoint, region = settings.backup_endpoint, settings.backup_region
        keys = (key.get_secret_value() if key else None for key in (settings.backup_access_key, settings.backup_secret_key))
        return cls(target, Cipher.of(settings), s3_options(endpoint, region or ("us-east-1" if endpoint else None), *keys))

    def __post_init__(self) -> None:
        """Open the file system; create nothing. InvalidInputError if the target is no folder or s3:// URI, or contains credentials."""
        self._local = "://" not in self.target
        if self._local:
            try:
                self.target = str(Path(self.target).expanduser().absolute())
            except RuntimeError as error:
                reason = "names the home of a user who does not exist; write the whole path."
                raise InvalidInputError(f"{self.target} {reason}") from error
            self._system, self._root = fs.LocalFileSystem(), self.target
            return
        scheme, _, place = self.target.partition("://")
        bucket, _, below = place.rstrip("/").partition("/")
        if "@" in bucket or "?" in place:
            raise InvalidInputError(
                "The URI of the backups holds credentials or options; set MEMORY_BACKUP_ACCESS_KEY, MEMORY_BACKUP_SECRET_KEY and "
                "MEMORY_BACKUP_ENDPOINT instead, and name s3://bucket/folder."
            )
        if scheme != "s3" or not bucket:
            raise InvalidInputError(f"Backups cannot be kept in {self.target}; name a folder or an s3://bucket/folder URI.")
        self.target, self._root = f"s3://{place.rstrip('/')}", f"{bucket}/{below}".rstrip("/")
        with self._explaining_errors("reached"):
            self._system = open_bucket(bucket, self.storage)

    # Objects

    def put(self, name: str, content: bytes, *, secret: bool = True) -> Stored:
        """Write an object atomically; `secret` ones are encrypted if there is a recipient."""
        packed = pa.Codec("zstd", _LEVEL).compress(content, asbytes=True)
        data = self.cipher.encrypt(packed) if secret else packed
        self._write(_object_path(name), data)
        return Stored(size=len(content), stored=len(data), digest=_digest(data))

    def name_of(self, content: bytes, *, secret: bool = True) -> str:
        return f"{_digest(content)}.zst{self.cipher.suffix if secret else ''}"

    def get(self, name: str, stored: Stored, *, decrypting: bool = True) -> bytes:
        """Return the content of an object, checked against its digests. DamagedError if it is damaged or missing.

        Unless `decrypting`, only the stored bytes of an encrypted object are checked, and its content is returned empty.
        """
        where = f"{self.target}/{_object_path(name)}"
        try:
            data = self._read(_object_path(name))
        except FileNotFoundError as error:
            raise DamagedError(f"{where} is gone; take a new backup, or restore the rest with --skip-damaged.") from error
        if _digest(data) != stored.digest:
            raise DamagedError(
                f"{where} is damaged; delete that file and take a new backup, or restore the rest with --skip-damaged."
            )
        if name.endswith(".age"):
            if not decrypting:
                return b""
            data = self.cipher.decrypt(data)
        content = pa.Codec("zstd").decompress(data, stored.size, asbytes=True)
        if _digest(content) != name.partition(".")[0]:
            raise DamagedError(f"{where} does not match its digest; delete that file and take a new backup.")
        return content

    def sizes(self) -> dict[str, int]:
        """Return object -> its size in bytes."""
        return {each.base_name: each.size for each in self._list("objects") if each.type is fs.FileType.File}

    def can_decrypt(self, snapshot: Snapshot) -> bool:
        """Return whether a backup is not encrypted, or an identity is set."""
        return not snapshot.is_encrypted or self.cipher.identity is not None

    # Manifests

    def write(self, snapshot: Snapshot) -> None:
        """Write a backup's manifest; from then on the backup is listed."""
        body = snapshot.model_dump(mode="json")
        text = json.dumps({"digest": _digest(canonical(body)), "snapshot": body}, ensure_ascii=False)
        self._write(f"snapshots/{snapshot.name}.json", text.encode())

    def snapshots(self, tenant: str | None = None) -> list[Snapshot]:
        """Return all backups, or those of one tenant, oldest first. DamagedError names a damaged manifest."""
        return sorted(map(self._read_manifest, self._list_manifests(tenant)), key=_sort_key)

    def newest(self, tenant: str, as_of: datetime | None = None) -> Snapshot | None:
        """Return the newest backup of a tenant, or the newest until `as_of`; None if there is none. Damaged manifests are skipped."""
        whole: list[Snapshot] = []
        for path in self._list_manifests(tenant):
            with suppress(DamagedError):
                whole.append(self._read_manifest(path))
        return max((each for each in whole if as_of is None or each.taken_at <= as_of), key=_sort_key, default=None)

    def tenants(self) -> list[str]:
        return sorted({path.split("/")[1] for path in self._list_manifests(None)})

    def require(self, tenant: str, as_of: datetime | None = None, *, skip_damaged: bool = False) -> Snapshot:
        """Return the same as `newest`; NotFoundError if there is none.

        DamagedError if the manifest of a newer backup, at or before `as_of`, is damaged, unless `skip_damaged`.
        """
        found = self.newest(tenant, as_of)
        for path in () if skip_damaged else self._list_manifests(tenant):
            name = path.removeprefix("snapshots/").removesuffix(".json")
            if (not found or name > found.name) and (not as_of or name <= _name_of(tenant, as_of)):
                self._read_manifest(path)
        if found is None:
            until = f" at or before {as_of:%Y-%m-%d %H:%M} UTC" if as_of else ""
            mend = f"`memory backup list {quote(self.target)}` shows all"
            raise NotFoundError(f"{self.target} holds no backup of the tenant {tenant!r}{until}; {mend}.")
        return found

    def remove(self, snapshots: list[Snapshot]) -> None:
        """Remove backups, and the objects that no other backup needs, unless a manifest is damaged."""
        for snapshot in snapshots:
            self._delete(f"{self._root}/snapshots/{snapshot.name}.json")
        try:
            needed = {name for snapshot in self.snapshots() for name in snapshot.objects}
        except DamagedError:
            return
        latest = datetime.now(UTC) if self._local else datetime.now(UTC) - _MIN_ORPHAN_AGE
        for each in self._list("objects"):
            written = each.mtime.astimezone(UTC) if each.mtime else latest
            if each.type is fs.FileType.File and each.base_name not in needed and written <= latest:
                self._delete(each.path)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Block other writers and pruning during the block. Object storage has no lock; there the objects' age protects them."""
        if not self._local:
            yield
            return
        with ExitStack() as held:
            try:
                Path(self._root).mkdir(parents=True, exist_ok=True, mode=0o700)
                if not held.enter_context(locked(Path(self._root))):
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            except OSError as error:
                why = "it is no folder" if isinstance(error, FileExistsError) else error.strerror
                raise StoreError(f"Backups cannot be kept in {self.target} ({why}); name another folder.") from error
            yield

    def _list_manifests(self, tenant: str | None) -> list[str]:
        listed = self._list(f"snapshots/{tenant}" if tenant else "snapshots")
        paths = (each.path.removeprefix(self._root).lstrip("/") for each in listed if each.type is fs.FileType.File)
        return sorted(path for path in paths if path.endswith(".json") and not path.rpartition("/")[2].startswith("."))

    def _read_manifest(self, path: str) -> Snapshot:
        try:
            held = json.loads(self._read(path))
            if _digest(canonical(held["snapshot"])) != held["digest"]:
                raise ValueError("its digest does not fit")
            if held["snapshot"]["format"] > FORMAT:
                raise StoreError(f"{self.target}/{path} was made by a newer release; upgrade memory_assets.")
            return Snapshot.model_validate(held["snapshot"])
        except (FileNotFoundError, ValueError, KeyError, TypeError, RecursionError, ValidationError) as error:
            raise DamagedError(
                f"The manifest {self.target}/{path} is damaged; delete it: the other backups do not need it."
            ) from error

    def _list(self, folder: str) -> list[fs.FileInfo]:
        with self._explaining_errors("listed"):
            return self._system.get_file_info(fs.FileSelector(f"{self._root}/{folder}", allow_not_found=True, recursive=True))

    def _read(self, path: str) -> bytes:
        with self._explaining_errors("read"), self._system.open_input_stream(f"{self._root}/{path}", compression=None) as stream:
            return stream.read()

    def _write(self, path: str, data: bytes) -> None:
        with self._explaining_errors("written"):
            if self._local:
                replace_file(Path(self._root, path), data)
                return
            with self._system.open_output_stream(f"{self._root}/{path}", compression=None) as stream:
                stream.write(data)

    def _delete(self, path: str) -> None:
        with self._explaining_errors("removed"), suppress(FileNotFoundError):
            self._system.delete_file(path)

    @contextmanager
    def _explaining_errors(self, what: str) -> Iterator[None]:
        """Turn errors of the file system, except FileNotFoundError, into a StoreError of one sentence."""
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            first = first_line(error)
            for name in ("access_key", "secret_key"):
                first = first.replace(self.storage.get(name) or "\0", "***")
            settings = "" if self._local else ", MEMORY_BACKUP_ENDPOINT and the keys"
            raise StoreError(
                f"The backups in {self.target} cannot be {what} ({first}); check that place{settings}, and run the command again."
            ) from error


def _name_of(tenant: str, taken_at: datetime) -> str:
    return f"{tenant}/{taken_at.astimezone(UTC).strftime(_TIME)}"


def _sort_key(snapshot: Snapshot) -> tuple[str, int, datetime]:
    """Return a sort key for the order in which backups were taken, even if the clock was wrong."""
    return snapshot.tenant, snapshot.number, snapshot.taken_at


def _object_path(name: str) -> str:
    return f"objects/{name[:2]}/{name}"


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=20).hexdigest()


def canonical(value: dict[str, Any]) -> bytes:
    """Return the canonical JSON of a value, in which times have microseconds, for its digest."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=_TO_MICROSECONDS)
    return text.encode("utf-8", "surrogatepass")
