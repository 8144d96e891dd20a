"""What lies in a tenant's folder: the one list that backups, erasure, deletion and the doctor go by, and two small files of it."""

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
"""What the processes of a service make of the memories to search them."""


class Care(StrEnum):
    """What a file needs so that nothing is lost."""

    TABLE = "table"
    """Part of a LanceDB table: backups copy its rows."""
    KEPT = "kept"
    """Nothing else holds it: backups copy the file."""
    DERIVED = "derived"
    """A run, a session or a library makes it again."""


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
"""What belongs to a tenant's state, wherever that lies; everything else stays on the machine on which it was made."""
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
"""Pattern of a path below the folder -> its care; the first that fits holds, and `*` fits a slash too.

Of the catalog, `schema.UNDERIVED` names the tables that backups copy.
"""

FOLDERS = tuple(sorted({pattern.partition("/")[0] for pattern in _CARE if "/" in pattern and not pattern.startswith("*")}))
"""The folders that a tenant's folder holds."""


def care_of(relative: str) -> Care | None:
    """The care of a file by its path below the tenant's folder; None for a file that nobody listed."""
    return next((care for pattern, care in _CARE.items() if fnmatchcase(relative, pattern)), None)


def files_of(folder: Path) -> Iterator[tuple[str, Care | None]]:
    """The files below a tenant's folder by relative path, in order, with the care of each."""
    for path in regular_files(folder):
        relative = path.relative_to(folder).as_posix()
        yield relative, care_of(relative)


def entries_of(state: TenantState, folder: Path) -> Iterator[tuple[str, Care | None]]:
    """The files below a tenant's folder and the values of its state, with the care of each."""
    yield from files_of(folder)
    if not isinstance(state, FileState):
        yield from ((entry.name, care_of(entry.name)) for entry in state.list())


def read_entry(state: TenantState, folder: Path, relative: str) -> bytes | None:
    """What one of `entries_of` holds; None if it is gone."""
    return (state if _is_state(relative) else FileState(folder)).get(relative)


def write_entry(state: TenantState, folder: Path, relative: str, content: bytes | None) -> None:
    """Replace what one of `entries_of` holds; None removes it."""
    (state if _is_state(relative) else FileState(folder)).put(relative, content)


def _is_state(relative: str) -> bool:
    return any(fnmatchcase(relative, pattern) for pattern in _STATE)


def regular_files(folder: Path) -> list[Path]:
    """The regular files below a folder, in order. Upkeep may remove files and folders meanwhile: those are left out."""

    def refuse(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise error

    found = (Path(parent, name) for parent, _, names in os.walk(folder, onerror=refuse) for name in names)
    return sorted(path for path in found if path.is_file() and not path.is_symlink())


def kept_entries(state: TenantState, folder: Path) -> list[str]:
    """The files and values that a backup copies as they are."""
    return [relative for relative, care in entries_of(state, folder) if care is Care.KEPT]


def unlisted_files(folder: Path) -> list[str]:
    """The files of no known care: no backup holds them."""
    return [relative for relative, care in files_of(folder) if care is None]


def moves_file(folder: Path) -> Path:
    """Which canonical memory each silo memory became when it was curated, so that it lives on under the same id."""
    return folder / "learn" / "moves.json"


def read_moves(folder: Path) -> Mapping[str, str]:
    """Source key of a silo memory -> source key of the canonical one; none before anything was curated. DamagedError if unreadable."""
    path = moves_file(folder)
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError) as error:
        raise DamagedError(
            f"{path} cannot be read ({error}); the next `memory learn apply` writes it anew from its journal."
        ) from error


def read_known_names(state: TenantState) -> Mapping[str, str]:
    """Projects and people -> their entity type, as a tenant's graph knew them when it was built last; none before.

    The analyzer finds them in any casing. A new name does not change its name, so texts that are analysed stay as they are.
    """
    try:
        names = json.loads(state.get("known_names.json") or b"{}")
    except ValueError:
        return {}
    return names if isinstance(names, dict) else {}


def write_known_names(state: TenantState, names: Mapping[str, str]) -> bool:
    """Write the names down if they changed. Returns whether they did."""
    if names == read_known_names(state):
        return False
    state.put("known_names.json", f"{json.dumps(names, ensure_ascii=False, indent=1, sort_keys=True)}\n".encode())
    return True
