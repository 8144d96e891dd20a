"""The folders in which projects were checked out, by Git remote, so that a checkout that moves keeps its memories.

A checkout keeps its former remotes of the same repository name, as a repository may get another owner or host; one with another name
may be another project. Remotes are compared without case.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path, PurePath

from memory_assets.errors import forgo_on_full_disk
from memory_assets.sources.files import read_own_file
from memory_assets.sources.projects import Project, slug_of

_NAME = "projects.json"
_MAX_CHECKOUTS = 2_000
_MAX_REMOTES = 5
"""Remotes that a checkout keeps, its present one included."""


def note_checkout(folder: Path, project: Project) -> None:
    """Record the remote of this checkout, if it has one, in the tenant's folder, unless another process holds the folder's lock."""
    if not project.remote or not folder.is_dir() or read_remotes(folder).get(project.folder, ("",))[0] == project.remote:
        return
    from memory_assets.stores.files import replace_file
    from memory_assets.stores.locks import HOOK_PATIENCE_SECONDS, locked

    with forgo_on_full_disk(), suppress(BlockingIOError), locked(folder, patience_seconds=HOOK_PATIENCE_SECONDS):
        known = dict(read_remotes(folder))
        present = project.remote.casefold()
        former = [each for each in known.pop(project.folder, ()) if _is_moved(each.casefold(), present)]
        known[project.folder] = (project.remote, *former)[:_MAX_REMOTES]
        replace_file(folder / _NAME, json.dumps(dict([*known.items()][-_MAX_CHECKOUTS:]), ensure_ascii=False, indent=1))


def _is_moved(former: str, present: str) -> bool:
    """Whether a repository may have moved from one remote to the other: its owner or host changed, not its name."""
    return former != present and PurePath(former).name == PurePath(present).name


def project_names(folder: Path, project: Project) -> tuple[str, ...]:
    """Return every name, in small letters, that memories of a project may be marked with, in any of its checkouts."""
    own = remotes_of(folder, project)
    elsewhere = [
        place
        for place, remotes in read_remotes(folder).items()
        if own and (remotes[0].casefold() in own or own[0] in map(str.casefold, remotes))
    ]
    return tuple(dict.fromkeys(map(str.lower, (*project.names, *own, *elsewhere, *map(slug_of, elsewhere)))))


def remotes_of(folder: Path, project: Project) -> list[str]:
    """Return the case-folded remotes of a project, also of one known by its folder alone: the present one, then former ones.

    A remote that another checkout replaced by the present one is a former one here, too. `folder` is the tenant's.
    """
    known = read_remotes(folder)
    present = (project.remote or known.get(project.folder, ("",))[0]).casefold()
    if not present:
        return []
    alike = (remotes for place, remotes in known.items() if place == project.folder or remotes[0].casefold() == present)
    return list(dict.fromkeys([present, *(each.casefold() for remotes in alike for each in remotes)]))


def read_remotes(folder: Path) -> Mapping[str, tuple[str, ...]]:
    """Return remotes by checkout folder, the present one first; empty if nothing is recorded or the file is damaged."""
    try:
        known = json.loads(read_own_file(folder / _NAME))
    except (OSError, ValueError):
        return {}
    found = known.items() if isinstance(known, dict) else ()
    return {place: tuple(map(str, remotes)) for place, remotes in found if isinstance(remotes, list) and remotes}
