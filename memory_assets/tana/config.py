"""`tanaIntegration`: whether and where pai-seed's user wants Tana (seed 000, FR-15)."""

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from memory_assets.errors import SettingsError
from memory_assets.sources.pai_seed import MAX_SEED_BYTES

if TYPE_CHECKING:
    from pathlib import Path

    from memory_assets.settings import Settings


@dataclass(frozen=True, slots=True)
class Integration:
    """What pai-seed's configuration says of Tana."""

    enabled: bool | None = None
    """None where it says nothing: what a person asks for is done, and nothing by itself."""
    workspace: str = ""
    auto_sync: bool = False
    place: str = ""
    """The file that says so."""

    @property
    def automatic(self) -> bool:
        """Whether syncs happen that nobody asked for."""
        return bool(self.enabled) and self.auto_sync


def integration(settings: "Settings") -> Integration:
    """`tanaIntegration` of pai-seed's configuration, else of seed.json's root.

    Raises:
        SettingsError: it stands there and cannot be used.
    """
    for path in (settings.pai_config, settings.pai_seed):
        said = _block(path)
        if said is not None:
            return _checked(said, path)
    return Integration()


def in_use(settings: "Settings") -> bool:
    """Whether pai-seed and Tana are both there to be used, as far as can be told without asking Tana or the keyring.

    A configuration that cannot be used counts as none: what needs it says so, and `memory doctor` does.
    """
    try:
        said = integration(settings).enabled
    except SettingsError:
        return False
    token = bool(settings.tana_token or settings.tana_replay)
    return settings.pai_seed.exists() and (said is True or (said is None and token))


def _block(path: "Path") -> Any:
    try:
        status = path.stat()
    except OSError:
        return None
    return _read(path, status.st_size, status.st_mtime_ns) if status.st_size <= MAX_SEED_BYTES else None


@lru_cache(maxsize=8)
def _read(path: "Path", _size: int, _mtime_ns: int) -> Any:
    """The block of a file, read once as long as the file is the same: a service asks with every message of MCP."""
    try:
        said = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return None
    return said.get("tanaIntegration") if isinstance(said, dict) else None


def _checked(said: Any, path: "Path") -> Integration:
    if not isinstance(said, dict):
        raise SettingsError(f'`tanaIntegration` in {path} is no object; write it as {{"enabled": true}}.')
    for name, kind, wanted in (
        ("enabled", bool, "true or false"),
        ("autoSync", bool, "true or false"),
        ("workspace", str, "a name"),
    ):
        if name in said and not isinstance(said[name], kind):
            raise SettingsError(f"`tanaIntegration.{name}` in {path} is not {wanted}; correct it there.")
    return Integration(said.get("enabled"), said.get("workspace", ""), said.get("autoSync", False), str(path))
