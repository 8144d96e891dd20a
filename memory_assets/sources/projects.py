"""Which project a directory belongs to, and the names under which others may have written that down."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from memory_assets.sources.files import RefusedFileError, read_head

_NOT_SLUG_CHARACTER = re.compile(r"[^a-zA-Z0-9]")
_GIT_DIRECTORY = re.compile(r"gitdir: (?P<repository>.+)/\.git/worktrees/[^/\n]+\s*")
_POINTER_BYTES = 4_096
"""Of a file that points to another folder, so much is read."""
_MOST_WORKTREES = 50


@dataclass(frozen=True, slots=True)
class Project:
    """A folder that somebody works in."""

    folder: str
    """Its repository, the main one where it is a worktree; the directory itself where it is under no version control."""
    names: tuple[str, ...]
    """What memories of it may be marked with: the folder, its worktrees, the directory asked for, and the slug of each."""


def slug_of(directory: str) -> str:
    """Return the name under which Claude Code keeps a working directory.

    Every UTF-16 code unit that is no ASCII letter or digit becomes a dash, as `replace(/[^a-zA-Z0-9]/g, "-")`
    does; different directories may share a slug.
    """
    return _NOT_SLUG_CHARACTER.sub(lambda found: "--" if found[0] > "\uffff" else "-", directory)


def project_at_hand() -> Project | None:
    """The project of the working directory; None where that belongs to none, or is gone."""
    try:
        return project_of(Path.cwd())
    except FileNotFoundError:
        return None


def project_of(directory: Path) -> Project | None:
    """The project that a directory belongs to; None for the home directory and those above it, where unrelated work begins."""
    directory = directory.resolve()
    home = Path.home().resolve()
    shared = {home, *home.parents}
    if directory in shared:
        return None
    above = (folder for folder in (directory, *directory.parents) if folder not in shared)
    checkout = next((folder for folder in above if _exists(folder / ".git")), directory)
    folder = _main_repository(checkout)
    places = dict.fromkeys(str(place) for place in (folder, checkout, directory, *_worktrees(folder)))
    return Project(str(folder), tuple(dict.fromkeys((*places, *map(slug_of, places)))))


def _exists(path: Path) -> bool:
    try:
        path.lstat()
    except OSError:
        return False
    return True


def _main_repository(checkout: Path) -> Path:
    """The repository whose worktree `checkout` is, or `checkout`."""
    found = _GIT_DIRECTORY.fullmatch(_pointer(checkout / ".git"))
    return Path(found["repository"]) if found else checkout


def _worktrees(repository: Path) -> Iterator[Path]:
    """The other folders in which a repository is checked out."""
    for pointer in sorted((repository / ".git" / "worktrees").glob("*/gitdir"))[:_MOST_WORKTREES]:
        if text := _pointer(pointer).strip():
            yield Path(text).parent


def _pointer(path: Path) -> str:
    """The text of a file in which Git names another place; empty where there is no such file."""
    try:
        return read_head(path, None, _POINTER_BYTES).decode("utf-8", "replace")
    except (OSError, RefusedFileError):
        return ""
