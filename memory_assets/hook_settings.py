"""The few settings that hooks and status lines need, read without pydantic because building `Settings` takes too long there.

Names, sources and precedence equal those of `memory_assets.settings`; a test compares the two. A malformed value counts as not set. If
the settings file cannot be read, hooks find no data, because the file may name another folder or switch them off.
"""

import os
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memory_assets.errors import NoSettingsFileError, SettingsError

SESSION_START_TOKENS = 800
"""Default limit of the text at a session's start, in tokens."""
_TENANT = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_NOBODY = "-"
"""Stands for an invalid name: no tenant can be called this."""
_NOWHERE = Path(os.devnull)
"""Stands for a data folder that is unknown or in the home of a user who does not exist: below it nothing can be read or written."""
NUDGE_FROM = 5
"""A session's start mentions un-ingested memories from this number on."""


@dataclass(frozen=True, slots=True)
class HookSettings:
    """The settings of one tenant that hooks and status lines need."""

    data_dir: Path
    tenant: str
    session_start: str
    """`on` or `off`."""
    session_start_tokens: int
    nudge_from: int
    session_summary: str
    """`on` or `off`."""

    @property
    def folder(self) -> Path:
        """Return the tenant's folder."""
        return self.data_dir / self.tenant

    @property
    def is_sources_tenant(self) -> bool:
        """Return whether the silos belong to this tenant."""
        return self.tenant == _RawSettings().text("tenant", "main")


def read_hook_settings(tenant: str | None = None) -> HookSettings:
    """Return the settings of `tenant` (default: the tenant that the settings name). No malformed setting raises."""
    found = _RawSettings()
    named = tenant or found.text("tenant", "main")
    return HookSettings(
        data_dir=found.data_dir(),
        tenant=named if _TENANT.fullmatch(named) else _NOBODY,
        session_start=found.text("session_start", "on"),
        session_start_tokens=found.number("session_start_tokens", SESSION_START_TOKENS),
        nudge_from=found.number("nudge_from", NUDGE_FROM),
        session_summary=found.text("session_summary", "on"),
    )


class _RawSettings:
    def __init__(self) -> None:
        self._environment = {name.upper(): value for name, value in os.environ.items()}
        self._folder = config_file().parent
        self._is_readable = True
        try:
            content = read_settings_file()
        except SettingsError:
            content, self._is_readable = {}, False
        self._file: dict[str, Any] = {name.upper(): value for name, value in content.items()}

    def text(self, field: str, default: str) -> str:
        return next((value for value in self._values(field) if isinstance(value, str)), default)

    def number(self, field: str, default: int) -> int:
        return next((int(str(value)) for value in self._values(field) if str(value).isdecimal()), default)

    def data_dir(self) -> Path:
        if not self._is_readable:
            return _NOWHERE
        value = self.text("data_dir", "")
        path = absolute_path(value, "" if value == self._environment.get("MEMORY_DATA_DIR") else self._folder)
        return _NOWHERE if path.startswith("~") else Path(path) if path else default_data_dir()

    def _values(self, field: str) -> tuple[Any, ...]:
        variable = f"MEMORY_{field.upper()}"
        return self._environment.get(variable), self._file.get(variable), self._file.get(field.upper())


def absolute_path(value: str, folder: Path | str = "") -> str:
    """Return the absolute path that a setting names; a relative one begins at `folder`, by default the working folder.

    A URI, an empty value and a path in the home of a user who does not exist (`~nobody/x`) stay as they are.
    """
    path = os.path.expanduser(value)  # noqa: PTH111 - Path raises if the user does not exist
    return path if not path or "://" in path or path.startswith(("ducklake:", "~")) else str(Path(folder, path).absolute())


def config_file() -> Path:
    """Return the settings file's path: `MEMORY_CONFIG`, or `memory.toml` in the user's configuration folder."""
    if named := os.environ.get("MEMORY_CONFIG"):
        return Path(os.path.expanduser(named))  # noqa: PTH111 - Path raises if the user does not exist
    import platformdirs

    return Path(platformdirs.user_config_dir("memory_assets", appauthor=False)) / "memory.toml"


def read_settings_file() -> dict[str, Any]:
    """Return the parsed settings file, empty if there is none. A byte order mark, as Windows editors write it, is ignored.

    SettingsError: it is not TOML, or cannot be read. NoSettingsFileError: `MEMORY_CONFIG` names no file; `/dev/null` stands for none.
    """
    file = config_file()
    try:
        if file.is_file():
            return tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{file} is not valid TOML ({error}); mend that line or remove the file.") from error
    except OSError as error:
        raise SettingsError(f"{file} cannot be read ({error.strerror}); give yourself read access to it.") from error
    if file == Path(os.devnull):
        return {}
    if os.path.lexists(file):
        raise NoSettingsFileError(f"The settings file {file} is a folder, a pipe or a broken link; put a file in its place.")
    if os.environ.get("MEMORY_CONFIG"):
        raise NoSettingsFileError(f"MEMORY_CONFIG names {file}, which does not exist; correct it, or unset it.")
    return {}


def default_data_dir() -> Path:
    """Return the data folder that is used if `data_dir` is not set."""
    import platformdirs

    return Path(platformdirs.user_data_dir("memory_assets", appauthor=False))
