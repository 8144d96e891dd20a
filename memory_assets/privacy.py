"""Keeps what a process writes for its owner alone."""

import os
import stat
from contextlib import suppress
from itertools import chain
from pathlib import Path

from memory_assets.errors import StoreError

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_TEMPORARY = "tmp"
_named: set[str] = set()


def keep_private() -> None:
    """Let this process and its libraries make folders of mode 0700 and files of mode 0600; for the start of a face."""
    os.umask(_OTHERS)


def name_temporary_folder(data_dir: Path) -> None:
    """Let temporary files go below the data folder, unless `TMPDIR` is set: LanceDB sorts words of memories there.

    To be called before LanceDB is: its threads read the environment, and a process dies of a variable that is added meanwhile.
    """
    if "TMPDIR" not in os.environ:
        os.environ["TMPDIR"] = str(data_dir / _TEMPORARY)
        _named.add(os.environ["TMPDIR"])


def make_temporary_folder(data_dir: Path) -> None:
    """Make the folder that `TMPDIR` names, if this process named it, or the one that started it for the same data folder."""
    folder = os.environ.get("TMPDIR", "")
    if folder in _named or folder == str(data_dir / _TEMPORARY):
        with suppress(OSError):
            Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)


def open_to_others(folder: Path) -> list[Path]:
    """What at or below a folder others may read, write or enter; links are not followed."""
    found: list[Path] = []
    for parent, folders, files in os.walk(folder):
        for path in (Path(parent), *(Path(parent, name) for name in (*folders, *files))):
            with suppress(FileNotFoundError):  # stores replace their files at any time
                mode = path.lstat().st_mode
                if stat.S_IMODE(mode) & _OTHERS and not stat.S_ISLNK(mode):
                    found.append(path)
    return list(dict.fromkeys(found))


def close_to_others(*folders: Path) -> None:
    """Take from others what they may do at and below folders."""
    for path in chain.from_iterable(map(open_to_others, folders)):
        with suppress(FileNotFoundError):
            path.chmod(stat.S_IMODE(path.lstat().st_mode) & ~_OTHERS)


def refuse_link(path: Path) -> None:
    """Let a tenant's folder, and what lies in it, be the tenant's own, and not a way into another's."""
    if path.is_symlink():
        raise StoreError(
            f"{path} is a link, and what it leads to may be somebody else's; move the real folder there, or set MEMORY_DATA_DIR to it."
        )
