"""JSON from outside: the fields of an object, each checked; what is wrong stays where it is wrong, so that the rest can be used."""

import json
import math
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memory_assets.sources.dating import utc_time
from memory_assets.sources.files import RefusedFileError, text_fault

MAX_DEPTH = 32
"""Deepest nesting of one entry."""

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*\Z")


@dataclass(frozen=True, slots=True)
class Fault:
    """A value that is not JSON, with the clause that says why."""

    reason: str


def loads(text: str) -> Any:
    """Return the value of a JSON text, with a `Fault` in the place of every part that JSON does not allow."""
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_constant, parse_float=_float, parse_int=_int)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}" if error.lineno > 1 else f"column {error.colno}"
        raise RefusedFileError(f"it is not valid JSON: {error.msg} ({where})", "correct it there") from None
    except RecursionError:
        raise RefusedFileError("it is nested too deeply to be parsed", "flatten it") from None


def first_fault(value: Any, path: str) -> tuple[str, str] | None:
    """Return JSON path and reason of the first thing in `value`, which lies at `path`, that cannot be taken in, in document order."""
    waiting = [(path, value, 0)]
    while waiting:
        here, found, depth = waiting.pop()
        if isinstance(found, Fault):
            return here, found.reason
        if isinstance(found, str) and (reason := text_fault(found)):
            return here, reason
        if depth > MAX_DEPTH:
            return here, f"it is nested deeper than {MAX_DEPTH} levels"
        if isinstance(found, dict):
            if any(text_fault(key) for key in found):
                return here, "a key in it holds a control character"
            waiting += [(member(here, key), inner, depth + 1) for key, inner in reversed(found.items())]
        elif isinstance(found, list):
            waiting += [(f"{here}[{index}]", found[index], depth + 1) for index in reversed(range(len(found)))]
    return None


def member(path: str, key: str) -> str:
    """Return the JSON path of the member `key` of the object at `path`."""
    return f"{path}.{key}" if _IDENTIFIER.match(key) else f"{path}[{json.dumps(key)}]"


def type_name(value: Any) -> str:
    """Return what JSON calls the type of `value`, with its article."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    names = {dict: "an object", list: "an array", str: "a string", int: "a number", float: "a number"}
    return names.get(type(value), "not JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any] | Fault:
    fields = dict(pairs)
    if len(fields) == len(pairs):
        return fields
    seen: set[str] = set()
    twice = next(key for key, _ in pairs if key in seen or seen.add(key))
    return Fault(f"the object has the key {json.dumps(twice)} twice")


def _constant(name: str) -> Fault:
    return Fault(f"{name} is not a JSON number")


def _float(digits: str) -> float | Fault:
    number = float(digits)
    return number if math.isfinite(number) else Fault(f"{digits[:20]} is too large a number")


def _int(digits: str) -> int | Fault:
    return int(digits) if len(digits) <= 300 else Fault(f"{digits[:20]}... is too large a number")


_TIME_MEND = "write it as 2026-01-31T09:30:00Z"


class Fields:
    """An object whose fields are taken by name; a missing field and null are the same.

    Every method raises RefusedFileError with the JSON path of a field whose value is not what it must be.
    """

    def __init__(self, value: Any, path: str) -> None:
        """Accept `value`, which lies at the JSON path `path`."""
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
