"""Stamps: short strings that change when there is something to take in. They do not need Dagster.

A source's stamp comes from `stat`. A store's stamp consists of its random id and its tables' versions: a tenant that was created again or
restored has another id.
"""

import json
import os
import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path

from memory_assets.errors import MemoryAssetsError
from memory_assets.models import Source
from memory_assets.settings import Settings
from memory_assets.sources.readers import source_paths, stat_stamp
from memory_assets.stores.layout import CACHE, Care, care_of
from memory_assets.tenants import Tenant, open_states, tenant_names

ABSENT = "absent"
_PROGRAM = Path(__file__).parents[1]
_CACHES = frozenset({"__pycache__"})
# Names in a tenant's folder:
_DERIVED = ("brief.json", "known_names.json")
"""Files that runs write."""
_RECALLED = "access"
"""The access log."""
FINGERPRINT_FILE = "settled.json"
"""The `RunFingerprint` after the last run."""
_NOT_READ = ("backups.json", "keys/*", "noted.json", "projects.json")
"""Patterns of kept files that no run reads. Derived files, the stores included, are in `RunFingerprint.derived`."""


def source_stamp(tenant: Tenant, source: Source) -> str:
    """Return the stamp of a source and of the store that takes it in; `ABSENT` if the source has no files.

    The store is included because a tenant that was created again or restored has taken in nothing yet, and the erased texts because an
    erasure empties the catalog.
    """
    from memory_assets.stores.tombstones import FILE

    files, erased = stat_stamp(tenant.settings, source), tenant.state.get(FILE) or b""
    return _digest(files, tenant.state.stamp(), erased.hex()) if files else ABSENT


@dataclass(frozen=True, slots=True)
class RunFingerprint:
    """Digests, by `stat`, of everything that a run of `remember` reads and writes. If they are equal, no run is needed."""

    given: str
    """Sources, settings, installed packages, this program, the pipeline, the tenant's own files, the date."""
    recalled: str
    """The access log, which affects only the scores."""
    derived: str
    """The tables, the catalog, the brief, the known names."""

    @classmethod
    def take(cls, tenant: Tenant) -> "RunFingerprint":
        settings, folder = tenant.settings, tenant.folder
        return cls(
            given=_digest(
                f"{datetime.now(UTC):%Y-%m-%d}",
                settings.model_dump_json(),
                [stat_stamp(settings, source) for source in source_paths(settings)] if tenant.is_sources_tenant else (),
                _stats([settings.pai_config, settings.pai_mapping, *_package_folders()]),
                *(_stats(_files(each, _CACHES)) for each in (_PROGRAM, *_pipeline_folders(settings.spacy_model))),
                _stats(
                    path
                    for path in _files(folder, ("vectors", CACHE, _RECALLED))
                    if _is_given(path.relative_to(folder).as_posix())
                ),
            ),
            recalled=_digest(_stats(_files(folder / _RECALLED, ()))),
            derived=_digest(table_stamp(tenant), tenant.catalog.stamp, _stats(folder / name for name in _DERIVED)),
        )


def _is_given(name: str) -> bool:
    return care_of(name) in (Care.KEPT, None) and not any(fnmatchcase(name, pattern) for pattern in _NOT_READ)


def _package_folders() -> list[Path]:
    """Return the folders of installed packages, which every installation changes, without a checkout of this program."""
    return [folder for folder in map(Path, sys.path[1:]) if folder != _PROGRAM.parent or folder.name == "site-packages"]


def _pipeline_folders(pipeline: str) -> list[Path]:
    folder = Path(pipeline).expanduser()
    if folder.is_dir():
        return [folder]
    spec = find_spec(pipeline) if pipeline.isidentifier() else None
    return list(map(Path, spec.submodule_search_locations or ())) if spec else []


def table_stamp(tenant: Tenant) -> str:
    """Return a stamp that every commit changes, including compactions. For tables in a folder it does not need LanceDB."""
    number, location = tenant.state.stamp(), tenant.location
    if location.is_folder:
        return f"{number}.{location.version('memories')}.{location.version('relations')}"
    return f"{number}.{tenant.memories.version}.{tenant.relations.version}"


def table_stamps(settings: Settings) -> dict[str, str | None]:
    """Return a stamp of every tenant that every commit changes, such as `table_stamp`; None if its tables cannot be read."""
    noted = open_states(settings).stamps() if "://" in (settings.vectors_uri or "") else None
    return {name: noted.get(name) if noted is not None else _table_stamp(settings, name) for name in tenant_names(settings)}


def _table_stamp(settings: Settings, name: str) -> str | None:
    try:
        return table_stamp(Tenant(settings, name))
    except MemoryAssetsError:
        return None


def stored_stamp(tenant: Tenant) -> str:
    """Return a stamp of the memories and stated relations: their numbers and last write times. Compaction does not change it."""
    memories, relations = tenant.memories, tenant.relations
    return f"{len(memories)}-{memories.newest('updated_at')}.{len(relations)}-{relations.newest('created_at')}"


def _digest(*parts: object) -> str:
    return blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=16).hexdigest()


def _files(folder: Path, excluded: Collection[str]) -> Iterator[Path]:
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in excluded)
        yield from (Path(here, name) for name in sorted(files) if name not in excluded)


def _stats(paths: Iterable[Path]) -> list[str]:
    return [f"{path} {_stat(path)}" for path in paths]


def _stat(path: Path) -> str:
    try:
        found = path.stat()
    except OSError:
        return ABSENT
    return f"{found.st_ino:x}-{found.st_ctime_ns:x}"
