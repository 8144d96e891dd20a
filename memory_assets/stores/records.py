"""Dagster's records, which are SQLite files: find, check, create and set them aside.

Imports no Dagster; `memory_assets.defs` reads and writes the records.
"""

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from memory_assets.settings import Settings
from memory_assets.stores.files import find_disk_error, mend_of
from memory_assets.stores.locks import locked

OURS = "# memory_assets:"
"""First words of `dagster.yaml` in a folder that this project set up."""
_NEEDED_FILES = {"history": ("runs.db", "runs/index.db"), "schedules": ("schedules.db",)}
"""Folder -> files without which Dagster does not start. `history/runs` also has a file for each run."""
_DRAFT_FOLDER = "new"
"""Folder in which new records are created. A kill leaves it behind; the next process empties it."""
_LAST_TABLE_QUERY = "SELECT 1 FROM secondary_indexes"
"""Query of the table that Dagster writes last into each of those files."""


def instance_home(settings: Settings) -> Path:
    """Return `DAGSTER_HOME` if this project set it up or it is empty, else the folder `dagster` in the data folder.

    The instance of another project is not touched; `open_instance` reports it.
    """
    named = os.environ.get("DAGSTER_HOME")
    if named and (home := Path(named)).is_absolute():
        if not home.exists() or (home.is_dir() and not any(home.iterdir())):
            return home
        if is_ours(home):
            return home
    return settings.data_dir / "dagster"


def is_ours(home: Path) -> bool:
    """Return whether this project set the folder up, by its `dagster.yaml`."""
    with suppress(OSError, ValueError):
        return (home / "dagster.yaml").read_text(encoding="utf-8").startswith(OURS)
    return False


def prepare_records(home: Path, make: Callable[[Path], object]) -> list[str]:
    """Set damaged records aside and create missing ones: `make` fills a new folder, and its subfolders are renamed into place.

    Returns a sentence for each folder that was set aside.
    """
    with locked(home):
        sentences = set_aside_damaged(home)
        if missing := [name for name in _NEEDED_FILES if not (home / name).exists()]:
            new = home / _DRAFT_FOLDER
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir(mode=0o700)
            make(new)
            for name in missing:
                (new / name).rename(home / name)
            shutil.rmtree(new)
    return sentences


def set_aside_damaged(home: Path, *, thorough: bool = False) -> list[str]:
    """Rename each damaged folder of records to `NAME.damaged`, in place of an earlier one; return a sentence for each."""
    sentences: list[str] = []
    with locked(home):
        for name, damage in find_damage(home, thorough=thorough).items():
            aside = home / f"{name}.damaged"
            shutil.rmtree(aside, ignore_errors=True)
            (home / name).rename(aside)
            sentences.append(
                f"Dagster's records in {home / name} were damaged ({damage}); they are in {aside} now, and new ones begin."
            )
    return sentences


def find_damage(home: Path, *, thorough: bool = False) -> dict[str, str]:
    """Return folder -> what is damaged in it. `thorough` reads every page, and the files of single runs as well.

    Raises sqlite3.OperationalError if a file cannot be opened, because of the disk, its permissions or another process.
    """
    found: dict[str, str] = {}
    for name, needed in _NEEDED_FILES.items():
        folder = home / name
        if folder.exists():
            damages = [_find_file_damage(folder / file, thorough=thorough) for file in needed]
            damages += [
                _find_file_damage(file, thorough=True, of_run=True) for file in sorted(folder.glob("runs/*.db")) if thorough
            ]
            if damage := next(filter(None, damages), ""):
                found[name] = damage
    return found


def _find_file_damage(file: Path, *, thorough: bool, of_run: bool = False) -> str:
    if not file.exists():
        return f"{file.name} is missing"
    try:
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=rw", uri=True)) as connection:
            if thorough and (result := str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])) != "ok":
                return f"{file.name}: {' '.join(result.split())}"
            if of_run or connection.execute(_LAST_TABLE_QUERY).fetchone():
                return ""
    except sqlite3.DatabaseError as error:
        if is_damage(error):
            return f"{file.name}: {error}"
        raise
    return f"{file.name} is incomplete"


def is_damage(error: BaseException | None) -> bool:
    """Return whether SQLite's error means a damaged file, not a problem with the disk, permissions or another process."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF
    return code in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def explain_failure(home: Path, error: BaseException | None) -> str:
    """Return why Dagster's records could not be written and what to do about it, as one sentence."""
    if is_damage(error):
        return f"Dagster's records in {home} are damaged ({error}); run `memory doctor --mend`, and run the command again."
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return f"Dagster's records in {home} are in use ({error}); run the command again."
    if name.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM")):
        fault = find_disk_error(home)
        mend = mend_of(fault) if fault else "give yourself write access there"
        return f"Dagster's records in {home} cannot be written ({error}); {mend}, and run the command again."
    return f"Dagster's records cannot be written ({error}); make room, and run the command again."
