"""Which workspace of Tana is meant."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from memory_assets.tana.client import Workspace
from memory_assets.tana.config import integration
from memory_assets.tana.errors import TanaRefusedError

if TYPE_CHECKING:
    from memory_assets.settings import Settings


def resolve_workspace(settings: "Settings", workspaces: Sequence[Workspace], named: str = "") -> Workspace:
    """The workspace that is named by name or id, else that of the settings, else of pai-seed's configuration, else the only one.

    Raises:
        TanaRefusedError: it is not there, or none is named and there are several.
        SettingsError: pai-seed's configuration cannot be used.
    """
    named = named or settings.tana_workspace or integration(settings).workspace
    listed = ", ".join(workspace.name for workspace in workspaces) or "none"
    if not named:
        if len(workspaces) == 1:
            return workspaces[0]
        raise TanaRefusedError(f"Tana has several workspaces ({listed}); name one with MEMORY_TANA_WORKSPACE.")
    found = [each for each in workspaces if named == each.id] or [
        each for each in workspaces if named.casefold() == each.name.casefold()
    ]
    if len(found) != 1:
        raise TanaRefusedError(f"Tana has no workspace {named!r}, only {listed}; correct MEMORY_TANA_WORKSPACE.")
    return found[0]


def same_workspace(named: str, workspace: Workspace, workspaces: Sequence[Workspace]) -> bool:
    """Whether a name or id that was configured once may mean a workspace: a name that no workspace has now may be its old one."""
    others = {name.casefold() for each in workspaces if each != workspace for name in (each.id, each.name)}
    return named in (workspace.id, workspace.name) or named.casefold() not in others
