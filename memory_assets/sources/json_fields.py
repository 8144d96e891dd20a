"""JSON from outside, parsed and validated. An invalid part is reported with its JSON path, so that the rest can be used."""

import json
import math
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, StringConstraints, ValidationError
from pydantic.alias_generators import to_camel

from memory_assets.sources.dating import utc_time
from memory_assets.sources.files import RefusedFileError, text_fault

MAX_DEPTH = 32

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*\Z")


@dataclass(frozen=True, slots=True)
class Fault:
    """A stand-in for a value that is not JSON, with a clause that says why."""

    reason: str


def loads(text: str) -> Any:
    """Parse a JSON text. Each part that JSON does not allow (NaN, a repeated key, a huge number) becomes a `Fault`."""
    try:
        return json.loads(
            text,
            object_pairs_hook=_build_object,
            parse_constant=lambda name: Fault(f"{name} is not a JSON number"),
            parse_float=_parse_float,
            parse_int=_parse_int,
        )
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}" if error.lineno > 1 else f"column {error.colno}"
        raise RefusedFileError(f"it is not valid JSON: {error.msg} ({where})", "correct it there") from None
    except RecursionError:
        raise RefusedFileError("it is nested too deeply to be parsed", "flatten it") from None


def first_fault(value: Any, path: str) -> tuple[str, str] | None:
    """Return JSON path and reason of the first invalid part, in document order, of `value`, whose own path is `path`; else None."""
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
    """Return JSON's name for the type of `value`, with an article."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    names = {dict: "an object", list: "an array", str: "a string", int: "a number", float: "a number"}
    return names.get(type(value), "not JSON")


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any] | Fault:
    fields = dict(pairs)
    if len(fields) == len(pairs):
        return fields
    seen: set[str] = set()
    repeated = next(key for key, _ in pairs if key in seen or seen.add(key))
    return Fault(f"the object has the key {json.dumps(repeated)} twice")


def _parse_float(digits: str) -> float | Fault:
    number = float(digits)
    return number if math.isfinite(number) else Fault(f"{digits[:20]} is too large a number")


def _parse_int(digits: str) -> int | Fault:
    return int(digits) if len(digits) <= 300 else Fault(f"{digits[:20]}... is too large a number")


def _parse_time(value: Any) -> datetime | None:
    if isinstance(value, str) and not value.strip():
        return None
    if (moment := utc_time(value)) is None:
        raise ValueError(f"it is `{str(value)[:40]}`, not a time such as 2026-01-31T09:30:00Z")
    return moment


OptionalText = Annotated[str, StringConstraints(strip_whitespace=True)]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
OptionalTime = Annotated[datetime | None, BeforeValidator(_parse_time)]
Time = Annotated[datetime, BeforeValidator(_parse_time)]
"""ISO 8601 text, converted to aware UTC."""
Texts = Annotated[list[OptionalText], AfterValidator(lambda words: list(dict.fromkeys(filter(None, words))))]


class Fields(BaseModel):
    """A JSON object with validated fields. Types are not coerced; null counts as missing."""

    model_config = ConfigDict(strict=True, extra="allow", alias_generator=to_camel)

    @classmethod
    def read(cls, value: Any, path: str) -> Self:
        """Validate `value`, whose JSON path is `path`. Raise RefusedFileError with the path of the first invalid part."""
        if fault := first_fault(value, path):
            raise RefusedFileError(fault[1], "correct it there", fault[0])
        if not isinstance(value, dict):
            raise RefusedFileError(f"it is {type_name(value)}, not an object", "make it an object", path)
        try:
            return cls.model_validate({name: inner for name, inner in value.items() if inner is not None})
        except ValidationError as error:
            wrong = error.errors(include_url=False)[0]
        name, *places = map(str, wrong["loc"])
        index = "".join(f"[{place}]" for place in places)
        what = "it is missing" if wrong["type"] == "missing" else wrong["msg"].removeprefix("Value error, ")
        raise RefusedFileError(f"`{name}{index}`: {what}", "correct it there", member(path, name) + index)
