"""JSON from outside: what is wrong stays where it is wrong, so that the rest of a file can be used.

An object with a key twice, a NaN or an Infinity is replaced by a `Fault` in its place; `first_fault` finds
it, along with text that is no text and nesting beyond measure.
"""

import json
import math
import re
from dataclasses import dataclass
from typing import Any

from memory_assets.sources.files import RefusedFileError, text_fault

MAX_DEPTH = 32
"""Deepest nesting of one entry."""

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*\Z")


@dataclass(frozen=True, slots=True)
class Fault:
    """A value that is not JSON, with the clause that says why."""

    reason: str


def loads(text: str) -> Any:
    """Return the value of a JSON text, with a `Fault` in the place of every part that JSON does not allow.

    Raises:
        RefusedFileError: it is not JSON at all, or nested beyond what can be parsed.
    """
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_constant, parse_float=_float, parse_int=_int)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}" if error.lineno > 1 else f"column {error.colno}"
        raise RefusedFileError(f"it is not valid JSON: {error.msg} ({where})", "correct it there") from None
    except RecursionError:
        raise RefusedFileError("it is nested too deeply to be parsed", "flatten it") from None


def first_fault(value: Any, path: str) -> tuple[str, str] | None:
    """Return JSON path and reason of the first thing in `value` that cannot be taken in, in document order.

    Args:
        value: as `loads` gives it.
        path: JSON path of `value`.
    """
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
