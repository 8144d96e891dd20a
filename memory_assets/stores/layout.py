"""Layout of a tenant's folder. Backup, erasure, deletion and the doctor all use this list. Also reads two small files in it."""

import json
import os
from collections.abc import Iterator, Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path

from memory_assets.errors import DamagedError
from memory_assets.stores.state import FileState, TenantState

PINNED = ".pinned"
"""Hard links to the tables, while a backup reads them."""
CACHE = "cache"
"""Folder of the search copies that a service's processes make of the memories."""


class Care(StrEnum):
    """How a file has to be treated so that nothing is lost."""

    TABLE = "table"
    """Part of a LanceDB table. Backups copy the table's rows."""
    KEPT = "kept"
    """The only copy. Backups copy the file."""
    DERIVED = "derived"
    """A run, a session or a library can make it again."""


_STATE = {
    "access/*.log": Care.KEPT,
    "backups.json": Care.KEPT,
    "brief.json": Care.DERIVED,
    "deleted/*.jsonl": Care.KEPT,
    "erased.json": Care.KEPT,
    "keys/*.json": Care.KEPT,
    "known_names.json": Care.DERIVED,
    "links/*": Care.DERIVED,
    "names.json": Care.KEPT,
    "settled.json": Care.DERIVED,
    "untold.json": Care.KEPT,
    "visit.json": Care.KEPT,
}
"""Names in a tenant's state, wherever it is stored. All other files stay on the machine that wrote them."""
_CARE = {
    f"{PINNED}/*": Care.DERIVED,
    "vectors/*": Care.TABLE,
    "*.tmp": Care.DERIVED,
    "*/.memory-learn-*": Care.DERIVED,
    f"{CACHE}/*": Care.DERIVED,
    "catalog.duckdb": Care.DERIVED,
    "catalog.duckdb.*": Care.DERIVED,
    ".catalog.duckdb.new*": Care.DERIVED,
    "contexts/*.json": Care.DERIVED,
    "begun/*.json": Care.DERIVED,
    "ended/*.json": Care.DERIVED,
    "gazetteer.toml": Care.KEPT,
    "learn/applies/*": Care.KEPT,
    "learn/moves.json": Care.KEPT,
    "learn/proposals.json": Care.KEPT,
    "noted.json": Care.KEPT,
    "projects.json": Care.KEPT,
    "quiet.json": Care.KEPT,
    "sessions/*": Care.DERIVED,
    "store.json": Care.DERIVED,
    "tana/activity.json": Care.KEPT,
    "tana/sync.json": Care.KEPT,
    "tana/sync.sqlite3": Care.KEPT,
    "tana/sync.sqlite3-*": Care.DERIVED,
    **_STATE,
}
"""Path pattern, relative to the folder -> care. The first match counts; `*` also matches a slash.

Backups also copy the tables of the catalog that `schema.UNDERIVED` names.
"""

FOLDERS = tuple(sorted({pattern.partition("/")[0] for pattern in _CARE if "/" in pattern and not pattern.startswith("*")}))


def care_of(relative: str) -> Care | None:
    """Return the care of a file, by its path relative to the tenant's folder; None if the path is not listed."""
    return next((care for pattern, care in _CARE.items() if fnmatchcase(relative, pattern)), None)


def files_of(folder: Path) -> Iterator[tuple[str, Care | None]]:
    """Yield the relative path and the care of every file below a tenant's folder, sorted."""
    for path in regular_files(folder):
        relative = path.relative_to(folder).as_posix()
        yield relative, care_of(relative)


def entries_of(state: TenantState, folder: Path) -> Iterator[tuple[str, Care | None]]:
    """Yield the name and the care of every file below a tenant's folder and of every value of its state."""
    yield from files_of(folder)
    if not isinstance(state, FileState):
        yield from ((entry.name, care_of(entry.name)) for entry in state.list())


def read_entry(state: TenantState, folder: Path, relative: str) -> bytes | None:
    """Return the content of an entry; None if it is gone."""
    return (state if _is_state(relative) else FileState(folder)).get(relative)


def write_entry(state: TenantState, folder: Path, relative: str, content: bytes | None) -> None:
    """Replace the content of an entry; None removes it."""
    (state if _is_state(relative) else FileState(folder)).put(relative, content)


def _is_state(relative: str) -> bool:
    return any(fnmatchcase(relative, pattern) for pattern in _STATE)


def regular_files(folder: Path) -> list[Path]:
    """Return the regular files below a folder, sorted. Files and folders that upkeep removes meanwhile are left out."""

    def raise_unless_gone(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise error

    found = (Path(parent, name) for parent, _, names in os.walk(folder, onerror=raise_unless_gone) for name in names)
    return sorted(path for path in found if path.is_file() and not path.is_symlink())


def kept_entries(state: TenantState, folder: Path) -> list[str]:
    """Return the names of the entries that a backup copies unchanged."""
    return [relative for relative, care in entries_of(state, folder) if care is Care.KEPT]


def unlisted_files(folder: Path) -> list[str]:
    """Return the files that are not listed here; no backup holds them."""
    return [relative for relative, care in files_of(folder) if care is None]


def moves_file(folder: Path) -> Path:
    """Return the path of the file that maps each curated silo memory to the canonical memory that continues it, with the same id."""
    return folder / "learn" / "moves.json"


def read_moves(folder: Path) -> Mapping[str, str]:
    """Return source key of a silo memory -> source key of its canonical memory; empty at first. DamagedError if it cannot be read."""
    path = moves_file(folder)
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError) as error:
        raise DamagedError(
            f"{path} cannot be read ({error}); the next `memory learn apply` rewrites it from its journal."
        ) from error


def read_known_names(state: TenantState) -> Mapping[str, str]:
    """Return project or person -> entity type, as of the last build of the tenant's graph; empty before the first.

    The analyzer finds these names in any casing. Its name does not include them, so no text is analysed again.
    """
    try:
        names = json.loads(state.get("known_names.json") or b"{}")
    except ValueError:
        return {}
    return names if isinstance(names, dict) else {}


def write_known_names(state: TenantState, names: Mapping[str, str]) -> bool:
    """Write the names if they changed; return whether they did."""
    if names == read_known_names(state):
        return False
    state.put("known_names.json", f"{json.dumps(names, ensure_ascii=False, indent=1, sort_keys=True)}\n".encode())
    return True
