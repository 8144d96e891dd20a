"""File permissions: whatever a process writes is readable by its owner alone."""

import os
import stat
from contextlib import suppress
from itertools import chain
from pathlib import Path

from memory_assets.errors import MENDS, StoreError

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_TEMPORARY = "tmp"
_named: set[str] = set()


def keep_private() -> None:
    """Make this process and its libraries create folders of mode 0700 and files of mode 0600. Called when a process starts."""
    os.umask(_OTHERS)


def name_temporary_folder(data_dir: Path) -> None:
    """Point `TMPDIR` below the data folder, unless it names a usable one: LanceDB sorts words of memories in temporary files.

    Call it before LanceDB: its threads read the environment, and a variable added meanwhile crashes the process.
    """
    folder = os.environ.get("TMPDIR", "")
    if folder not in _named and not os.access(folder, os.W_OK | os.X_OK):
        os.environ["TMPDIR"] = str(data_dir / _TEMPORARY)
        _named.add(os.environ["TMPDIR"])


def make_temporary_folder(data_dir: Path) -> None:
    """Make the folder that `TMPDIR` names, if this process or its parent set it for the same data folder."""
    folder = os.environ.get("TMPDIR", "")
    if folder in _named or folder == str(data_dir / _TEMPORARY):
        with suppress(OSError):
            Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)


def open_to_others(folder: Path) -> list[Path]:
    """Return the paths at and below a folder that other users may read, write or enter. Links are not followed."""
    found: list[Path] = []
    for parent, folders, files in os.walk(folder):
        for path in (Path(parent), *(Path(parent, name) for name in (*folders, *files))):
            with suppress(FileNotFoundError):  # stores replace their files at any time
                mode = path.lstat().st_mode
                if stat.S_IMODE(mode) & _OTHERS and not stat.S_ISLNK(mode):
                    found.append(path)
    return list(dict.fromkeys(found))


def closed_to_us(folder: Path) -> list[Path]:
    """Return the paths at and below a folder that this process may not read or, unless the disk is read-only, write."""
    wanted = os.R_OK if os.statvfs(folder).f_flag & os.ST_RDONLY else os.R_OK | os.W_OK
    found = [] if os.access(folder, wanted | os.X_OK) else [folder]
    for parent, folders, files in os.walk(folder):
        for names, needed in ((folders, wanted | os.X_OK), (files, wanted)):
            paths = (Path(parent, name) for name in names)
            found += (path for path in paths if not os.access(path, needed, follow_symlinks=False) and os.path.lexists(path))
    return found


def close_to_others(*folders: Path) -> None:
    """Revoke other users' permissions at and below folders."""
    for path in chain.from_iterable(map(open_to_others, folders)):
        with suppress(FileNotFoundError):
            path.chmod(stat.S_IMODE(path.lstat().st_mode) & ~_OTHERS)


def refuse_link(path: Path) -> None:
    """Raise StoreError if `path` is a link, or may not be looked at: a tenant's folder must not lead into another tenant's."""
    try:
        is_link = path.is_symlink()
    except OSError as error:
        path = next((parent for parent in reversed(path.parents) if not os.access(parent, os.X_OK)), path)
        raise StoreError(f"{path} cannot be used ({error.strerror}); {MENDS.get(error.errno or 0, 'check its disk')}.") from error
    if is_link:
        raise StoreError(
            f"{path} is a link, and its target may belong to somebody else; move the real folder there, or set MEMORY_DATA_DIR to it."
        )
