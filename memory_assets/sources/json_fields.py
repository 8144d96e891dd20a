"""The fields of one JSON object, taken one by one, each checked; what was not asked for is left over."""

from datetime import datetime
from typing import Any

from memory_assets.sources.dating import utc_time
from memory_assets.sources.files import RefusedFileError
from memory_assets.sources.strict_json import first_fault, member, type_name

_TIME_MEND = "write it as 2026-01-31T09:30:00Z"


class Fields:
    """An object whose fields are taken by name; a missing field and null are the same.

    Every method raises RefusedFileError with the JSON path of the field where its value is not what it must
    be.
    """

    def __init__(self, value: Any, path: str) -> None:
        """Accept `value`, which lies at the JSON path `path`.

        Raises:
            RefusedFileError: it is not an object, or something within it is not JSON.
        """
        if fault := first_fault(value, path):
            raise RefusedFileError(fault[1], "correct it there", fault[0])
        if not isinstance(value, dict):
            raise RefusedFileError(f"it is {type_name(value)}, not an object", "make it an object", path)
        self._path = path
        self._left: dict[str, Any] = dict(value)

    @property
    def extra(self) -> dict[str, Any]:
        """The fields that were not taken."""
        return self._left

    def text(self, name: str) -> str:
        """Take a string that is not blank."""
        if not (value := self.optional_text(name)):
            raise self._wrong(name, "is missing or blank", "write a string that is not blank")
        return value

    def optional_text(self, name: str) -> str:
        """Take a string, empty where it is missing."""
        value = self._left.pop(name, None)
        if value is not None and not isinstance(value, str):
            raise self._wrong(name, f"is {type_name(value)}, not a string", "write it as a string")
        return (value or "").strip()

    def choice(self, name: str, allowed: tuple[str, ...]) -> str:
        """Take a string that is one of `allowed`."""
        value = self.text(name)
        if value not in allowed:
            raise self._wrong(name, f"is `{value[:40]}`", f"write one of {', '.join(allowed)}")
        return value

    def time(self, name: str) -> datetime:
        """Take an ISO 8601 time as aware UTC."""
        if (moment := self.optional_time(name)) is None:
            raise self._wrong(name, "is missing or blank", _TIME_MEND)
        return moment

    def optional_time(self, name: str) -> datetime | None:
        """Take an ISO 8601 time as aware UTC, None where it is missing."""
        value = self.optional_text(name)
        moment = utc_time(value)
        if value and moment is None:
            raise self._wrong(name, f"is `{value[:40]}`, not a time", _TIME_MEND)
        return moment

    def flag(self, name: str) -> bool:
        """Take a boolean."""
        value = self._left.pop(name, None)
        if not isinstance(value, bool):
            found = "is missing" if value is None else f"is {type_name(value)}, not a boolean"
            raise self._wrong(name, found, "write true or false")
        return value

    def number(self, name: str, low: float, high: float) -> float | None:
        """Take a number within `low` and `high`, None where it is missing."""
        value = self._left.pop(name, None)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(name, f"is {type_name(value)}, not a number", f"write {low:g} to {high:g}")
        if not low <= value <= high:
            raise self._wrong(name, f"is {value:.6g}", f"write a number from {low:g} to {high:g}")
        return float(value)

    def texts(self, name: str) -> tuple[str, ...]:
        """Take an array of strings, empty where it is missing; blank and repeated ones are left out."""
        value = self._left.pop(name, None)
        if value is None:
            return ()
        if not isinstance(value, list):
            raise self._wrong(name, f"is {type_name(value)}, not an array", "write an array of strings")
        for index, word in enumerate(value):
            if not isinstance(word, str):
                raise self._wrong(name, f"is {type_name(word)}, not a string", "write it as a string", f"[{index}]")
        return tuple(dict.fromkeys(tag for word in value if (tag := word.strip())))

    def _wrong(self, name: str, what: str, mend: str, index: str = "") -> RefusedFileError:
        return RefusedFileError(f"`{name}{index}` {what}", mend, member(self._path, name) + index)
