"""What a sensor compares from tick to tick: digests of what `stat` says, without opening a file."""

import hashlib
import os
from pathlib import Path

from memory_assets.models import Source
from memory_assets.sources.files import stamp_of, stays_inside
from memory_assets.sources.pai_learning import HOMES, line_files

_UNREADABLE = "unreadable"


def stat_digests(source: Source, path: Path) -> dict[str, str]:
    """Return a digest for each part of a source; it changes as files in it are added, removed or written.

    The parts are the silos by slug, the folders of the LEARNING store by name (`.` for its root), and
    seed.json by its name. A digest covers path, size, modification time and inode of each entry. A folder that
    cannot be listed has the digest of that fact; a source that is missing has no parts. `path` is Claude Code's folder of projects,
    seed.json, or the LEARNING folder.

    Raises:
        ValueError: the source is not read from files.
    """
    root = path.absolute()
    try:
        match source:
            case Source.CLAUDE_SILO:
                silos = _folders(root)
                parts = {slug: _digest(_listed(Path(silo, "memory"), root), root) for slug, silo in silos}
            case Source.PAI_LEARNING:
                parts = {name: _digest(_learning_files(name, Path(folder), root), root) for name, folder in _folders(root)}
                parts["."] = _digest(line_files(str(root)), root)
            case Source.PAI_SEED:
                parts = {path.name: _digest([str(root)], root.parent)}
            case _:
                raise ValueError(f"{source} is not read from files")
    except PermissionError:
        return {".": _UNREADABLE}
    return {name: digest for name, digest in sorted(parts.items()) if digest}


def _folders(root: Path) -> list[tuple[str, str]]:
    """Return name and path of the folders in `root`; links are followed where they stay inside."""
    try:
        with os.scandir(root) as listing:
            return [
                (entry.name, entry.path)
                for entry in listing
                if (not entry.is_symlink() or stays_inside(entry.path, root)) and entry.is_dir()
            ]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _listed(folder: Path, root: Path) -> list[str] | None:
    """Return the paths in a folder that a reader visits, None where it cannot be listed."""
    if folder.is_symlink() and not stays_inside(str(folder), root):
        return []
    try:
        with os.scandir(folder) as listing:
            return [entry.path for entry in listing]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError:
        return None


def _learning_files(name: str, folder: Path, root: Path) -> list[str] | None:
    """Return the paths in a folder of the LEARNING store that a reader visits, None if it is closed to it."""
    if name in HOMES:
        return _listed(folder, root)
    try:
        return line_files(str(folder))
    except OSError:
        return None


def _digest(paths: list[str] | None, root: Path) -> str:
    """Return one digest over the names and stamps of `paths`, empty where there are none."""
    if paths is None:
        return _UNREADABLE
    digest = hashlib.blake2b(digest_size=16)
    empty = True
    for path in sorted(paths):
        try:
            stamp = stamp_of(path, root)
            line = f"{path}\0{stamp.size}\0{stamp.mtime_ns}\0{stamp.inode}\n"
        except FileNotFoundError:
            continue
        except OSError:
            line = f"{path}\0{_UNREADABLE}\n"
        digest.update(line.encode("utf-8", "surrogateescape"))
        empty = False
    return "" if empty else digest.hexdigest()
