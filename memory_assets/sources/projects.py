"""Projects: find a directory's project, and the names that memories may use for it."""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from memory_assets.sources.files import RefusedFileError, read_head

_NOT_SLUG_CHARACTER = re.compile(r"[^a-zA-Z0-9]")
_LONGEST_SLUG = 200
"""Characters after which Claude Code cuts a slug and adds a dash and a digest."""
_FOLDER_SLUG = re.compile(r"(?:-|[a-zA-Z]--).+")
"""Claude Code's slug of an absolute path."""
_POINTER = re.compile(r"gitdir: (?P<folder>.+?)\s*")
_POINTER_BYTES = 4_096
_MAX_WORKTREES = 50
_CONFIG_BYTES = 65_536
_REMOTE = re.compile(r'^\[remote "(?P<name>[^"\n]+)"\]\s*\n(?:(?!\[).*\n)*?\s*url\s*=\s*(?P<url>\S+)', re.MULTILINE)
_MAIN_CHECKOUT = re.compile(r"^\s+worktree\s*=\s*(?P<folder>\S.*?)\s*$", re.MULTILINE)
_ADDRESS = re.compile(
    r"(?:[a-z+]+://)?(?:[^@/\s]+@)?(?P<host>[\w.-]+\.[a-z]+)(?::\d+(?=/))?[:/]+(?P<path>.+?)(?:\.git)?/*", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Project:
    """A repository, or a folder without version control, that somebody works in."""

    folder: str
    """The repository (of a worktree the main or the bare one); the directory itself without version control."""
    names: tuple[str, ...]
    """Every name that its memories may be marked with: the folder, its worktrees, the directory asked for, the slug of each, the
    folder's last part, and the remote."""
    remote: str = ""
    """Host and path of its Git remote, such as `github.com/acme/atlas`, the same in every checkout; empty without a remote."""

    @classmethod
    def of(cls, folder: str, places: Sequence[str] = (), remote: str = "") -> "Project":
        """Build a project from its folder and the other `places` where it is checked out."""
        found = dict.fromkeys((folder, *places))
        named = (folder.rpartition("/")[2], remote) if remote else (folder.rpartition("/")[2],)
        return cls(folder, tuple(dict.fromkeys((*found, *map(slug_of, found), *named))), remote)


def slug_of(directory: str) -> str:
    """Return Claude Code's folder name for a working directory.

    Every UTF-16 code unit that is not an ASCII letter or digit becomes a dash, as in `replace(/[^a-zA-Z0-9]/g, "-")`. Different
    directories may share a slug.
    """
    return _NOT_SLUG_CHARACTER.sub(lambda found: "--" if found[0] > "\uffff" else "-", directory)


def is_slug_of(name: str, directory: str) -> bool:
    """Whether Claude Code names a working directory's folder so; it cuts a long slug and adds a dash and a digest."""
    slug = slug_of(directory)
    return name == slug or (len(slug) > _LONGEST_SLUG and name.startswith(f"{slug[:_LONGEST_SLUG]}-"))


def may_be_called(project: str, name: str) -> bool:
    """Whether `name` is the last part of the path `project`, or may be the last part of the path behind the slug `project`."""
    is_slug = _FOLDER_SLUG.fullmatch(project) and "/" not in project
    return project.rstrip("/").rpartition("/")[2].casefold() == name.casefold() or (
        bool(is_slug) and project.casefold().endswith(slug_of(f"/{name}").casefold())
    )


def current_project() -> Project | None:
    """Return the project of the working directory; None if it belongs to no project or no longer exists."""
    try:
        return project_of(Path.cwd())
    except FileNotFoundError:
        return None


def session_directory(transcript: Path, working: Path) -> Path | None:
    """Return the directory of a session of Claude Code: the working directory, or the folder above it from which the assistant moved.

    Claude Code names the transcript's folder after it. None if that name fits no folder, or if the directory is gone.
    """
    folders = (working, *working.parents) if working.is_absolute() else ()
    return next((each for each in folders if is_slug_of(transcript.parent.name, str(each)) and each.is_dir()), None)


def project_of(directory: Path) -> Project | None:
    """Return the project of a directory; None for the home directory and its parents, where unrelated work starts."""
    directory = directory.resolve()
    home = Path.home().resolve()
    shared = {home, *home.parents}
    if directory in shared:
        return None
    above = (folder for folder in (directory, *directory.parents) if folder not in shared)
    checkout = next((folder for folder in above if os.path.lexists(folder / ".git")), directory)
    repository, is_worktree = _find_git_directory(checkout)
    config = _read(repository / "config", _CONFIG_BYTES)
    main = _find_main_checkout(repository, config) if is_worktree else checkout
    folder = repository if main in shared else main
    places = [str(place) for place in (checkout, directory, *_find_worktrees(repository))]
    return Project.of(str(folder), places, _find_remote(config))


def is_home(project: str) -> bool:
    """Whether `project` names the home directory or one of its parents, so that its memories belong to no project."""
    home = Path.home()
    return project in {name for folder in (home, *home.parents) for name in (str(folder), slug_of(str(folder)))}


def _find_git_directory(checkout: Path) -> tuple[Path, bool]:
    """Return a checkout's Git directory, of a worktree that of its repository, which may be bare; and whether it is a worktree."""
    own = checkout / ".git"
    if pointer := _POINTER.fullmatch(_read(own, _POINTER_BYTES)):
        own = checkout / pointer["folder"]
        if common := _read(own / "commondir", _POINTER_BYTES).strip():  # submodules have none
            return (own / common).resolve(), True
    return own, False


def _find_main_checkout(repository: Path, config: str) -> Path:
    """Return the folder whose worktrees share a Git directory: `atlas` of `atlas/.git` and of a bare `atlas/.bare`."""
    if stated := _MAIN_CHECKOUT.search(config):  # of a submodule
        return (repository / stated["folder"]).resolve()
    return repository.parent if repository.name.startswith(".") else repository


def _find_worktrees(repository: Path) -> Iterator[Path]:
    for pointer in sorted((repository / "worktrees").glob("*/gitdir"))[:_MAX_WORKTREES]:
        if text := _read(pointer, _POINTER_BYTES).strip():
            yield Path(os.path.normpath(pointer.parent / text)).parent


def _find_remote(config: str) -> str:
    """Return host and path of the remote `origin`, else of the first remote; empty without a remote on another host."""
    found = {each["name"]: each["url"] for each in _REMOTE.finditer(config)}
    address = _ADDRESS.fullmatch(found.get("origin", next(iter(found.values()), "")))
    return f"{address['host'].lower()}/{address['path']}" if address else ""


def _read(path: Path, most: int) -> str:
    """Return the first `most` bytes of one of Git's files as text; empty if it cannot be read."""
    try:
        return read_head(path, None, most).decode("utf-8", "replace")
    except (OSError, RefusedFileError):
        return ""
