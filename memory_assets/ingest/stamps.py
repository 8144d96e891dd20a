"""Stamps: short texts that differ when there is something to take in. Most come from `stat`; none needs Dagster."""

import json
import os
import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from memory_assets.models import Source
from memory_assets.sources.readers import source_paths, stat_stamp

if TYPE_CHECKING:
    from memory_assets.settings import Settings
    from memory_assets.tenants import Tenant


ABSENT = "absent"
_PROGRAM = Path(__file__).parents[1]
_CACHES = frozenset({"__pycache__"})
# Names in a tenant's folder:
_DERIVED = ("brief.json", "known_names.json")
"""Files that runs write."""
_RECALLED = "access"
"""The access log."""
NOTE = "settled.json"
"""The world that the last run left."""
_NOT_READ = frozenset(
    {
        "vectors",
        "catalog.duckdb",
        "catalog.duckdb.wal",
        NOTE,
        "sessions",
        "noted.json",
        "ended",
        "projects.json",
        "keys",
        "contexts",
        "backups.json",
        ".pinned",
    }
)
"""The stores, which count as derived, and what no run reads."""


def source_stamp(tenant: "Tenant", source: Source) -> str:
    """The state of a source and of the store that takes it in; `ABSENT` if there is nothing.

    A tenant that was created again or restored from a copy has taken in nothing yet.
    """
    files = stat_stamp(tenant.settings, source)
    return _digest(files, _stat(Path(tenant.settings.tenant_vectors_uri(tenant.name)))) if files else ABSENT


@dataclass(frozen=True, slots=True)
class World:
    """Digests of everything that a run of `remember` reads and writes, as `stat` tells it. Equal worlds need no run."""

    given: str
    """Sources, settings, installed packages, this program, the pipeline, the tenant's own files, the date."""
    recalled: str
    """The access log, which only the scores depend on."""
    derived: str
    """Every file of the tables, the catalog, the brief, the known names."""

    @classmethod
    def look(cls, tenant: "Tenant") -> "World | None":
        """The world now; None if the tables or the catalog lie where `stat` does not reach."""
        settings, folder = tenant.settings, tenant.folder
        vectors, catalog = settings.tenant_vectors_uri(tenant.name), settings.tenant_catalog_uri(tenant.name)
        if "://" in vectors or "://" in catalog:
            return None
        return cls(
            given=_digest(
                f"{datetime.now(UTC):%Y-%m-%d}",
                settings.model_dump_json(),
                [stat_stamp(settings, source) for source in source_paths(settings)] if tenant.is_sources_tenant else (),
                _stats([settings.pai_config, settings.pai_mapping, *_package_folders()]),
                *(_stats(_files(each, _CACHES)) for each in (_PROGRAM, *_pipeline_folders(settings.spacy_model))),
                _stats(_files(folder, {*_DERIVED, _RECALLED, *_NOT_READ})),
            ),
            recalled=_digest(_stats(_files(folder / _RECALLED, ()))),
            derived=_digest(
                _stats(_files(Path(vectors), ())),
                _stats([Path(catalog), Path(f"{catalog}.wal"), *(folder / name for name in _DERIVED)]),
            ),
        )


def _package_folders() -> list[Path]:
    """Where packages are installed: an installation changes the folder. A checkout of this program changes for other reasons."""
    return [folder for folder in map(Path, sys.path[1:]) if folder != _PROGRAM.parent or folder.name == "site-packages"]


def _pipeline_folders(pipeline: str) -> list[Path]:
    """The folder that a spaCy pipeline lies in; none for the bundled one, which is part of this program."""
    folder = Path(pipeline).expanduser()
    if folder.is_dir():
        return [folder]
    spec = find_spec(pipeline) if pipeline.isidentifier() else None
    return list(map(Path, spec.submodule_search_locations or ())) if spec else []


def disk_stamp(settings: "Settings", tenant: str) -> str | None:
    """A stamp that every commit changes, with compactions among them; None where the tables lie in object storage."""
    uri = settings.tenant_vectors_uri(tenant)
    if "://" in uri:
        return None
    return ".".join(_stat(Path(uri, table, "_versions")) for table in ("memories.lance", "relations.lance"))


def stored_stamp(tenant: "Tenant") -> str:
    """The state of memories and stated relations: how many, and when the last was written. Compacting leaves it as it is."""
    memories, relations = tenant.memories, tenant.relations
    return f"{len(memories)}-{memories.newest('updated_at')}.{len(relations)}-{relations.newest('created_at')}"


def _digest(*parts: object) -> str:
    return blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=16).hexdigest()


def _files(folder: Path, left_out: Collection[str]) -> Iterator[Path]:
    """The files below a folder, in order, without those that are called so, or lie in a folder that is."""
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in left_out)
        yield from (Path(here, name) for name in sorted(files) if name not in left_out)


def _stats(paths: Iterable[Path]) -> list[str]:
    return [f"{path} {_stat(path)}" for path in paths]


def _stat(path: Path) -> str:
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return ABSENT
    return f"{found.st_ino:x}-{found.st_ctime_ns:x}"
