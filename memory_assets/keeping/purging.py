"""Takes texts out of a tenant's folder so that no file of it holds them: what `memory scan --mend` and `memory erase` share."""

import json
import mmap
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from memory_assets.errors import DamagedError
from memory_assets.keeping.copying import drop_pins
from memory_assets.learn.journal import Journal
from memory_assets.stores.files import replace_file
from memory_assets.stores.layout import PINNED, Care, files_of, regular_files
from memory_assets.stores.locks import locked
from memory_assets.stores.upkeep import rewrite

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant

_TEXTLESS = ("keys/*", "access/*", "erased.json", "backups.json")
"""Kept files that hold no text of a memory."""


@dataclass(frozen=True, slots=True)
class Removal:
    """What is taken out."""

    memories: Callable[[pa.Table], pa.Table]
    """All rows of the memories, in all columns -> those that stay, as they shall be."""
    relations: Callable[[pa.Table], pa.Table]
    json: Callable[[Any], Any]
    """A JSON value of a kept file -> what may stay of it; None if nothing."""
    is_in: Callable[[str], bool]
    """Whether a text holds something that is taken out."""


def purge_files(tenant: "Tenant", removal: Removal) -> None:
    """Take it out of the kept files, and remove what a kill or damage left of derived ones.

    The copies of finished applies go as a whole if they hold it: an undo of them is not possible any more.
    """
    copies = set(copies_of_applies(tenant))
    for relative, care in list(files_of(tenant.folder)):
        path = tenant.folder / relative
        if care is Care.KEPT and not any(fnmatchcase(relative, pattern) for pattern in _TEXTLESS):
            if path in copies:
                if removal.is_in(_text(path)):
                    path.unlink(missing_ok=True)
            elif path.suffix in (".json", ".jsonl"):
                _purge_json(path, removal)
        elif care is Care.DERIVED and relative.endswith(".tmp") and removal.is_in(_text(path)):
            path.unlink(missing_ok=True)
    for log in tenant.settings.data_dir.glob("*.log"):
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
        if kept := [line for line in lines if not removal.is_in(line)]:
            if len(kept) < len(lines):
                replace_file(log, "".join(kept))
        elif lines:
            log.unlink()


def purge_tables(tenant: "Tenant", removal: Removal) -> None:
    """Write both tables anew without it and without their older versions. After a failure, doing it again ends it."""
    with _unpinned(tenant):
        if tenant.relations.stored.exists:
            rewrite(tenant.relations.stored, removal.relations)
        if tenant.memories.exists:
            rewrite(tenant.memories.stored, removal.memories)


def purge_derived(tenant: "Tenant") -> None:
    """Begin the catalog and other derived files again: of the catalog stays what no run could derive, and that holds no text."""
    if tenant.catalog.exists:
        try:
            tenant.catalog.begin_again()
        except DamagedError:
            tenant.catalog.path.unlink()
            tenant.catalog.log_path.unlink(missing_ok=True)
    for relative, care in list(files_of(tenant.folder)):
        if care is Care.DERIVED and fnmatchcase(relative, "*catalog.duckdb.[!w]*"):
            (tenant.folder / relative).unlink(missing_ok=True)
    for name in ("brief.json", "known_names.json", "settled.json"):
        (tenant.folder / name).unlink(missing_ok=True)


def copies_of_applies(tenant: "Tenant") -> list[Path]:
    """What finished applies keep for an undo; the copies of one that a kill left are needed to finish it."""
    journal = Journal(tenant.folder / "learn" / "applies")
    unfinished = journal.unfinished()
    finished = [journal.copies(number) for number in journal.numbers() if number != unfinished]
    return [path for copies in finished for path in (copies, *copies.parent.glob("index-*")) if path.exists()]


def files_holding(folder: Path, texts: Iterable[str]) -> list[Path]:
    """The files below `folder` in which one of the texts stands, byte by byte, or as JSON writes it."""
    wanted = {form for text in texts for form in (text.encode("utf-8", "surrogatepass"), json.dumps(text)[1:-1].encode())}
    holding = []
    for path in regular_files(folder):
        with suppress(FileNotFoundError), path.open("rb") as file:
            if not os.fstat(file.fileno()).st_size:
                continue
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                if any(data.find(text) >= 0 for text in wanted):
                    holding.append(path)
    return holding


@contextmanager
def _unpinned(tenant: "Tenant") -> Iterator[None]:
    """Wait for a backup that is under way, and remove what a killed one pinned."""
    pin = tenant.folder / PINNED
    with locked(pin):
        drop_pins(pin)
        yield


def _purge_json(path: Path, removal: Removal) -> None:
    """Replace a file of JSON, or of a JSON value a line, by what may stay of it."""
    lines = path.read_bytes().split(b"\n") if path.suffix == ".jsonl" else [path.read_bytes()]
    try:
        before = [json.loads(line) for line in lines if line.strip()]
    except (ValueError, RecursionError):
        return
    after = [kept for value in before if (kept := removal.json(value)) is not None]
    if after == before:
        return
    if path.suffix == ".jsonl":
        replace_file(path, "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in after))
    else:
        replace_file(path, json.dumps(after[0] if after else None, ensure_ascii=False, indent=1) + "\n")


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace")
