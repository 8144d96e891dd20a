"""Stamps: short texts that differ when there is something to take in. Made of what `stat` says wherever that is enough."""

import json
import os
import sys
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from memory_assets.models import Source
from memory_assets.sources.digests import stat_digests

if TYPE_CHECKING:
    from memory_assets.settings import Settings
    from memory_assets.tenants import Tenant


ABSENT = "absent"
SETTLED = "settled.json"
"""In a tenant's folder: what the last run left settled."""
_PROGRAM = Path(__file__).parents[1]
_MADE = ("brief.json", "known_names.json")
"""In a tenant's folder: what runs make of the catalog."""
_RECALLED = "access"
"""In a tenant's folder: which memories were recalled, and when."""
_NOT_GIVEN = frozenset(
    {*_MADE, _RECALLED, "vectors", "catalog.duckdb", "catalog.duckdb.wal", SETTLED, "sessions", "noted.json", "keys", "contexts"}
)
"""Of a tenant's folder: what runs write, and what no run reads."""


def source_stamp(tenant: "Tenant", source: Source, path: Path) -> str:
    """The state of a source, as something that this tenant has to take in; `ABSENT` where there is nothing.

    It covers which store it is, too: a tenant that was created again or restored from a copy has taken in nothing yet.
    """
    digests = stat_digests(source, path)
    if not digests:
        return ABSENT
    store = _stat(Path(tenant.settings.tenant_vectors_uri(tenant.name)))
    return _digest(digests, store)


def files_stamp(source: Source, path: Path) -> str:
    """The state of a source that is files."""
    return _digest(stat_digests(source, path))


def given_stamp(tenant: "Tenant") -> str:
    """What else the main job is given, and does not write itself: settings, what is installed, the tenant's files, the day."""
    settings = tenant.settings
    return _digest(
        f"{datetime.now(UTC):%Y-%m-%d}",
        settings.model_dump_json(),
        *(_stat(getattr(settings, name)) for name in ("pai_config", "pai_mapping")),
        *map(_stat, map(Path, sys.path)),
        *(f"{path} {_stat(path)}" for path in _files(_PROGRAM, {"__pycache__"})),
        *(f"{path} {_stat(path)}" for path in _files(tenant.folder, _NOT_GIVEN)),
    )


def recalled_stamp(tenant: "Tenant") -> str:
    """What has been recalled so far, which faces note."""
    return _digest(*(f"{path} {_stat(path)}" for path in _files(tenant.folder / _RECALLED, ())))


def made_stamp(tenant: "Tenant") -> str:
    """What the main job has made: every file of the tables, so that damage shows, the catalog, the brief, the names it knows."""
    tables = _files(Path(tenant.settings.tenant_vectors_uri(tenant.name)), ())
    files = (*tables, tenant.catalog.path, tenant.catalog.log_path, *(tenant.folder / name for name in _MADE))
    return _digest(*map(_stat, files))


def disk_stamp(settings: "Settings", tenant: str) -> str | None:
    """A stamp that every commit changes, with compactions among them; None where the tables lie in object storage."""
    uri = settings.tenant_vectors_uri(tenant)
    if "://" in uri:
        return None
    return ".".join(_stat(Path(uri, table, "_versions")) for table in ("memories.lance", "relations.lance"))


def stored_stamp(tenant: "Tenant") -> str:
    """The state of memories and stated relations: how many, and when the last was written. Compacting leaves it as it is.

    Raises:
        StoreError: a table cannot be read.
    """
    memories, relations = tenant.memories, tenant.relations
    return f"{len(memories)}-{memories.last_updated()}.{len(relations)}-{relations.last_stated()}"


def _digest(*parts: object) -> str:
    return blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=16).hexdigest()


def _files(folder: Path, left_out: Collection[str]) -> Iterator[Path]:
    """The files below a folder, in order, without those that are called so, or lie in a folder that is."""
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in left_out)
        yield from (Path(here, name) for name in sorted(files) if name not in left_out)


def _stat(path: Path) -> str:
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return ABSENT
    return f"{found.st_ino:x}-{found.st_ctime_ns:x}"
