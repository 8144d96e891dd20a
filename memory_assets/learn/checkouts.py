"""The folders in which projects were checked out, by Git remote, so that a checkout that moves keeps its memories."""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from memory_assets.sources.projects import Project, slug_of

_NAME = "projects.json"
_MAX_CHECKOUTS = 2_000


def note_checkout(folder: Path, project: Project) -> None:
    """Record the remote of this checkout in the tenant's folder, if it has one.

    If another process holds the folder's lock, do nothing; the project's next session retries.
    """
    if not project.remote or not folder.is_dir() or read_remotes(folder).get(project.folder) == project.remote:
        return
    from memory_assets.stores.files import replace_file
    from memory_assets.stores.locks import HOOK_PATIENCE_SECONDS, locked

    with suppress(BlockingIOError), locked(folder, patience_seconds=HOOK_PATIENCE_SECONDS):
        others = [(place, remote) for place, remote in read_remotes(folder).items() if place != project.folder]
        known = dict([*others, (project.folder, project.remote)][-_MAX_CHECKOUTS:])
        replace_file(folder / _NAME, json.dumps(known, ensure_ascii=False, indent=1))


def project_names(folder: Path, project: Project) -> tuple[str, ...]:
    """Return every name that memories of a project may be marked with, in any of its checkouts. `folder` is the tenant's."""
    remote = remote_of(folder, project)
    elsewhere = [place for place, known in read_remotes(folder).items() if remote and known == remote]
    return tuple(dict.fromkeys((*project.names, *elsewhere, *map(slug_of, elsewhere))))


def remote_of(folder: Path, project: Project) -> str:
    """Return the remote of a project, also of one known by its folder alone; empty without a remote. `folder` is the tenant's."""
    return project.remote or read_remotes(folder).get(project.folder, "")


def read_remotes(folder: Path) -> Mapping[str, str]:
    """Return remotes by checkout folder; empty if nothing is recorded or the file is damaged."""
    try:
        known = json.loads((folder / _NAME).read_bytes())
    except (OSError, ValueError):
        return {}
    return {str(place): str(remote) for place, remote in known.items()} if isinstance(known, dict) else {}
