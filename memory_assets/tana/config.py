"""Choice of the Tana workspace and its parent node: pai-seed's `tanaIntegration`, and the settings (seed 000, FR-15)."""

import json
import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from memory_assets.errors import InvalidInputError, SettingsError
from memory_assets.settings import Settings, origins
from memory_assets.sources.files import RefusedFileError, read_source_file
from memory_assets.sources.pai_seed import MAX_SEED_BYTES
from memory_assets.tana.client import TanaClient, Workspace
from memory_assets.tana.errors import TanaFaultError, TanaNotFoundError, TanaRefusedError


class Integration(BaseModel):
    """The `tanaIntegration` block of pai-seed's configuration."""

    model_config = ConfigDict(alias_generator=to_camel, strict=True, frozen=True)

    enabled: bool | None = None
    """None if unset: explicit requests are carried out, and nothing happens automatically."""
    workspace: str = ""
    auto_sync: bool = False
    place: str = ""


def integration(settings: Settings) -> Integration:
    """Return `tanaIntegration` of pai-seed's configuration, else of seed.json's root; raise SettingsError if it is unusable."""
    for path in (settings.pai_config, settings.pai_seed):
        try:
            status = path.stat()
            block = _read(path, status.st_size, status.st_mtime_ns)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, RefusedFileError, ValueError, RecursionError) as error:
            raise SettingsError(
                f"{path} cannot be read ({error}); correct it there, because its `tanaIntegration` may turn Tana off."
            ) from None
        if block is None:
            continue
        try:
            return Integration.model_validate(block).model_copy(update={"place": str(path)})
        except ValidationError as error:
            fault = error.errors()[0]
            name = ".".join(("tanaIntegration", *map(str, fault["loc"])))
            raise SettingsError(f"`{name}` in {path} cannot be used: {fault['msg']}; correct it there.") from None
    return Integration()


def in_use(settings: Settings) -> bool:
    """Whether pai-seed and Tana are both set up, without asking Tana or the keyring.

    An invalid configuration counts as none; commands that need it, and `memory doctor`, report it.
    """
    try:
        enabled = integration(settings).enabled
    except SettingsError:
        return False
    return os.access(settings.pai_seed, os.F_OK) and (enabled is True or (enabled is None and bool(settings.tana_token)))


@lru_cache(maxsize=8)
def _read(path: Path, _size: int, _mtime_ns: int) -> Any:
    """Read the block of a file, cached by size and time because a service asks with every MCP message."""
    root = json.loads(read_source_file(path, None, MAX_SEED_BYTES).decode("utf-8-sig"))
    return root.get("tanaIntegration") if isinstance(root, dict) else None


def resolve_workspace(settings: Settings, workspaces: Sequence[Workspace], named: str = "") -> Workspace:
    """Return the workspace given by name or id, else the one of the settings, else of pai-seed's configuration, else the only one."""
    configured = integration(settings)
    if named:
        where = "--workspace"
    elif named := settings.tana_workspace:
        origin = origins(settings)["tana_workspace"]
        where = "--workspace" if origin.place == "command line" else f"{origin.name} ({origin.place})"
    else:
        named, where = configured.workspace, f"`tanaIntegration.workspace` in {configured.place}"
    listed = ", ".join(workspace.name for workspace in workspaces) or "none"
    if not named:
        if len(workspaces) == 1:
            return workspaces[0]
        raise TanaRefusedError(f"Tana has several workspaces ({listed}); name one with MEMORY_TANA_WORKSPACE.")
    found = [each for each in workspaces if named == each.id] or [
        each for each in workspaces if named.casefold() == each.name.casefold()
    ]
    if len(found) != 1:
        error = InvalidInputError if where == "--workspace" else TanaRefusedError
        raise error(f"Tana has no workspace {named!r}, only {listed}; correct {where}.")
    return found[0]


def check_parent(settings: Settings, client: TanaClient, workspace: Workspace) -> None:
    """Raise TanaRefusedError if the parent node of the settings does not exist or is in the trash."""
    if not (parent := settings.tana_parent):
        return
    origin = origins(settings)["tana_parent"]
    where = f"{origin.name} ({origin.place})"
    try:
        name = client.read(parent, depth=0).name
    except TanaNotFoundError:
        raise TanaRefusedError(f"Tana has no node {parent!r}; correct {where}.") from None
    except TanaFaultError:  # it fails on the node, which therefore exists
        return
    if client.is_trashed(parent, name, workspace.id):
        raise TanaRefusedError(f"The node {parent!r} is in Tana's trash; restore it, or correct {where}.")


def same_workspace(named: str, workspace: Workspace, workspaces: Sequence[Workspace]) -> bool:
    """Whether a name or id that was configured earlier may mean `workspace`. A name that no workspace has now may be its old one."""
    others = {name.casefold() for each in workspaces if each != workspace for name in (each.id, each.name)}
    return named in (workspace.id, workspace.name) or named.casefold() not in others
