"""Location of LanceDB tables: a folder, or a prefix in object storage with the options that open it."""

import asyncio
import math
import os
import re
import shutil
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import wait
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from itertools import chain
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any
from uuid import UUID

from memory_assets.errors import StoreError, UnansweredError, first_line
from memory_assets.stores.deferred import import_lancedb
from memory_assets.stores.layout import PINNED
from memory_assets.stores.locks import locked

if TYPE_CHECKING:
    from lancedb import Session
    from lancedb.db import DBConnection
    from lancedb.table import Table
    from pyarrow.fs import FileInfo, S3FileSystem

    from memory_assets.stores.state import TenantState

ADVICE = "check MEMORY_VECTORS_URI and MEMORY_STORAGE_*, and whether the S3 service answers"
_CONNECT_SECONDS, _REQUEST_SECONDS, _ATTEMPTS = 5, 60, 3
_CHECK_SECONDS = 20.0
"""Pause before a call of LanceDB that still waits for the object storage is checked, and between checks."""
_CHECKED_SECONDS = 10
"""Timeout of an attempt of such a check."""
_MANIFEST, _ROWS = ".manifest", ".lance"
_LAST_MANIFEST = 2**64 - 1
"""LanceDB names a manifest by this number minus the version, so that the newest is listed first."""


@dataclass(frozen=True)
class Location:
    """A folder, or a prefix of a bucket. If it holds a tenant's tables, `state` knows the id of the tenant's store.

    In object storage the id is part of the path, so late commits to a deleted tenant never reach another store.
    """

    base: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """LanceDB's storage options, credentials among them."""
    state: "TenantState | None" = field(default=None, repr=False)

    @property
    def is_folder(self) -> bool:
        return "://" not in self.base

    @property
    def path(self) -> Path:
        return Path(self.base)

    @property
    def pin(self) -> Path:
        """Folder, beside the tables' folder, of the hard links to them while a backup reads."""
        return self.path.parent / PINNED

    @property
    def uri(self) -> str:
        if self.is_folder or self.state is None:
            return self.base
        return self.of_store(self.state.look() or "none").base

    def of_store(self, store_id: str) -> "Location":
        """Return the location in object storage of the tables of the store with this id."""
        return Location(f"{self.base}-{store_id}", self.options)

    @property
    def exists(self) -> bool:
        """Whether it may hold a table. Sends no request to object storage."""
        return self.path.is_dir() if self.is_folder else self.state is None or self.state.look() is not None

    @property
    def is_gone(self) -> bool:
        """Whether the tenant was deleted, or recreated, after this object first saw it."""
        return (self.is_folder and not self.path.is_dir()) or (self.state is not None and not self.state.is_current)

    def connect(self, freshness: timedelta | None, session: "Session") -> "DBConnection":
        """Connect. If `freshness` is None, tables stay at the version at which they were opened."""
        return _connect(self.uri, self.options, read_consistency_interval=freshness, session=session)

    def open(self, table: str, session: "Session") -> "Table":
        """Open a table in object storage without the LIST request that a connection to its prefix costs. ValueError if it is missing."""
        root = _connected(self.base.rsplit("/", 2)[0], tuple(sorted(self.options.items())), session, os.getpid())
        return import_lancedb().table.LanceTable.open(root, table, location=f"{self.uri}/{table}.lance")

    def version(self, table: str) -> int:
        """Return the newest version of a table in a folder, without LanceDB; 0 if there is none."""
        return max((version for version, _ in self._versions_in_folder(table)), default=0)

    def drop_older_manifests(self, table: str) -> None:
        """Remove the manifests of all versions of a table in a folder but the newest; the next cleanup removes their other files."""
        newest = self.version(table)
        for version, path in list(self._versions_in_folder(table)):
            if version < newest:
                path.unlink(missing_ok=True)

    def find_orphans(self, table: str, among: Iterable[Path] | None = None, since: int = 0) -> list[Path]:
        """Return the files of rows and folders of indices that no version of a table in a folder names; none if there is no version.

        Looks only for those `among`, and only in versions after `since`. They may belong to a running commit unless the table is closed to
        writers.
        """
        versions = sorted(self._versions_in_folder(table), reverse=True)
        root = self._versions(table).parent
        found = list(chain(root.glob(f"data/[!.]*{_ROWS}"), root.glob("_indices/*")) if among is None else among)
        rows = {path.name.encode(): path for path in found if path.suffix == _ROWS}
        indices: dict[bytes, Path] = {}
        for path in found:
            with suppress(ValueError):  # rows, or a folder that is not LanceDB's
                indices[UUID(path.name).bytes] = path
        lengths = {len(name) for name in rows}
        for version, manifest in versions:
            if version <= since or not (rows or indices):
                break
            with suppress(FileNotFoundError):  # dropped meanwhile, with its files
                content = manifest.read_bytes()
                ends = [found.end() for found in re.finditer(re.escape(_ROWS.encode()), content)]
                named = {content[end - length : end] for length in lengths for end in ends}
                rows = {name: path for name, path in rows.items() if name not in named}
                indices = {name: path for name, path in indices.items() if name not in content}
        return sorted([*rows.values(), *indices.values()]) if versions else []

    def newest_file(self, table: str) -> float:
        """Return when the newest file of rows or indices of a table in object storage was written, by its clock; 0 if there is none."""
        from pyarrow.fs import FileSelector

        root, bucket = f"{self.uri.partition('://')[2]}/{table}.lance", self._open_bucket()
        folders = (FileSelector(f"{root}/{each}", allow_not_found=True, recursive=True) for each in ("data", "_indices"))
        files = (each for folder in folders for each in bucket.get_file_info(folder) if each.mtime)
        return max((each.mtime.timestamp() for each in files), default=0.0)

    def _versions_in_folder(self, table: str) -> Iterator[tuple[int, Path]]:
        for path in self._versions(table).glob(f"[0-9]*{_MANIFEST}"):
            yield _LAST_MANIFEST - int(path.stem), path

    def manifests(self, table: str, version: int) -> tuple[Path, Path]:
        """Return the paths of the manifests of a version and of the next version, in a folder."""
        first, last = (self._versions(table) / f"{_LAST_MANIFEST - each}{_MANIFEST}" for each in (version, version + 1))
        return first, last

    def _versions(self, table: str) -> Path:
        return self.path / f"{table}.lance" / "_versions"

    @contextmanager
    def creating(self) -> Iterator[None]:
        """Let the block create tables. StoreError if the tenant was deleted after this object first saw it; nothing was created."""
        with self.state.held() if self.state else nullcontext():
            if self.is_folder:
                self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            yield

    @contextmanager
    def closed_to_writers(self) -> Iterator[None]:
        """Wait for running commits, and block new ones during the block.

        Object storage has no such lock. There each commit checks afterwards that the store still belongs to the tenant.
        """
        with ExitStack() as locks:
            for table in sorted(self.path.glob("*.lance")) if self.is_folder else ():
                if not locks.enter_context(locked(table)):
                    raise StoreError(f"The table {table} is being deleted already.")
            yield

    def remove(self) -> None:
        """Remove the tables. StoreError if files stay, or if the object storage refuses or does not answer."""
        if self.is_folder:
            for folder in (self.path, self.pin):
                shutil.rmtree(folder, ignore_errors=True)
                if folder.exists():
                    raise StoreError(f"{folder} cannot be removed; see who owns it, and remove it.")
            with suppress(OSError):
                self.path.parent.rmdir()
            return
        try:
            self._open_bucket().delete_dir(self.uri.partition("://")[2])
        except FileNotFoundError:
            return
        except OSError as error:
            raise StoreError(f"{self.uri} cannot be removed ({first_line(error)}); {ADVICE}.") from error

    @property
    def is_silent(self) -> bool:
        """Whether the object storage does not answer, not even with an error."""
        try:
            self._open_bucket(request_timeout=_CHECKED_SECONDS).get_file_info(self._bucket)
        except (OSError, ValueError) as error:
            return "NETWORK_CONNECTION" in str(error)
        return False

    @property
    def has_bucket(self) -> bool:
        """Whether it is a folder, or the object storage has its bucket; False if the object storage does not say so."""
        from pyarrow.fs import FileType

        try:
            return self.is_folder or self._open_bucket().get_file_info(self._bucket).type is not FileType.NotFound
        except OSError:
            return False

    def holds_memories(self) -> bool:
        """Look whether object storage holds tables of a tenant below this prefix. StoreError if it refuses or does not answer."""
        from pyarrow.fs import FileSelector

        def listed(path: str) -> "list[FileInfo]":
            return self._open_bucket().get_file_info(FileSelector(path, allow_not_found=True))

        try:
            tenants = () if self.is_folder else listed(self.base.partition("://")[2].rstrip("/"))
            stores = (each.path for tenant in tenants for each in listed(tenant.path) if each.base_name.startswith("vectors-"))
            return any(each.is_file for store in stores for each in listed(f"{store}/memories.lance/_versions"))
        except OSError as error:
            raise StoreError(f"{self.base} cannot be read ({first_line(error)}); {ADVICE}.") from error

    @property
    def _bucket(self) -> str:
        return self.base.partition("://")[2].partition("/")[0]

    def _open_bucket(self, **options: float) -> "S3FileSystem":
        given = s3_options(*map(self.options.get, ("aws_endpoint", "aws_region", "aws_access_key_id", "aws_secret_access_key")))
        return open_bucket(self._bucket, {**given, **options})


def s3_options(endpoint: str | None, region: str | None, key: str | None, secret: str | None) -> dict[str, str]:
    """Return arguments for `pyarrow.fs.S3FileSystem`; it finds missing ones by itself."""
    scheme, _, host = (endpoint or "").rpartition("://")
    given = {"endpoint_override": host.rstrip("/"), "scheme": scheme, "region": region, "access_key": key, "secret_key": secret}
    return {name: value for name, value in given.items() if value}


def open_bucket(bucket: str, options: Mapping[str, Any]) -> "S3FileSystem":
    """Open S3 with these arguments of `pyarrow.fs.S3FileSystem`. A missing region is that of AWS's variables, else the bucket's."""
    from pyarrow import fs

    given = {"connect_timeout": _CONNECT_SECONDS, "request_timeout": _REQUEST_SECONDS, **options}
    if "region" not in given and not {"AWS_REGION", "AWS_DEFAULT_REGION"} & os.environ.keys():
        given["region"] = fs.resolve_s3_region(bucket)
    return fs.S3FileSystem(retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS), **given)


@cache
def _connected(uri: str, options: tuple[tuple[str, str], ...], session: "Session", _process: int) -> "DBConnection":
    return _connect(uri, dict(options), session=session)


def _connect(uri: str, options: Mapping[str, str], **how: Any) -> "DBConnection":
    lancedb = import_lancedb()
    if "://" in uri:
        _storages.setdefault((options.get("aws_endpoint", ""), uri.split("/")[2]), _Storage(Location(uri, options)))
        lancedb.background_loop.LOOP.run = _run_watched
    try:
        return lancedb.connect(uri, storage_options=dict(options) or None, **how)
    except ValueError as error:  # LanceDB raises it if an object storage does not answer
        raise OSError(first_line(error)) from error


@dataclass
class _Storage:
    """An object storage to which this process connected. One thread at a time checks whether it answers."""

    location: Location
    checking: Lock = field(default_factory=Lock)
    checked_at: float = -math.inf
    is_silent: bool = False

    def raise_if_silent(self, since: float) -> None:
        """Raise UnansweredError if it did not answer a check that ended after `since`, made now if there is none."""
        with self.checking:
            if self.checked_at < since:
                self.is_silent, self.checked_at = self.location.is_silent, monotonic()
            if self.is_silent:
                raise UnansweredError(f"The object storage of {self.location.base} does not answer; {ADVICE}.")


_storages: dict[tuple[str, str], _Storage] = {}
"""Endpoint and bucket -> the storage."""


def _run_watched(call: Coroutine[Any, Any, Any]) -> Any:
    """Run a call of LanceDB, and cancel it if an object storage of this process stops answering: LanceDB's requests have no timeout.

    A call does not tell its storage. A process with an object storage has its tables there, so no other call waits that long.
    """
    running = asyncio.run_coroutine_threadsafe(call, import_lancedb().background_loop.LOOP.loop)
    try:
        while not wait([running], _CHECK_SECONDS).done:
            since = monotonic() - _CHECK_SECONDS
            for storage in list(_storages.values()):
                storage.raise_if_silent(since)
        return running.result()
    finally:
        running.cancel()
