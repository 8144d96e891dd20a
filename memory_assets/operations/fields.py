"""Types of the fields that programs send, with bounds, checked strictly.

The JSON schemas hold the bounds that a schema can express. `language.validation` checks the rest when a text arrives.
"""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, GetPydanticSchema, WithJsonSchema, WrapValidator

from memory_assets.errors import InvalidInputError
from memory_assets.language.validation import MAX_LINE_LENGTH, MAX_TAG_LENGTH, is_blank, reject_unstorable, validate_line
from memory_assets.models import MAX_CONTENT_LENGTH, Kind
from memory_assets.sources.dating import EARLIEST, LATEST

MOST_SEEN = 500
"""Memories that a client may page through with one query."""
CURSOR, CURSOR_LENGTH = r"^[0-9a-f]{16}([0-9a-f]{14})*$", 16 + 14 * MOST_SEEN
MAX_LIMIT = 100
MAX_ID = (1 << 53) - 1
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def _validated_by(check: Callable[[str, str], object]) -> AfterValidator:
    """Apply a rule of `language.validation` under the name `it`: pydantic's message names the field itself."""

    def checked(text: str) -> str:
        try:
            check(text, "it")
        except InvalidInputError as error:
            raise ValueError(str(error)) from error
        return text

    return AfterValidator(checked)


def _require_visible(text: str) -> str:
    if is_blank(text):
        raise ValueError("is empty or blank; write at least one visible character")
    return text


def given_as(kind: object) -> GetPydanticSchema:
    """Restrict programs to `kind`, while a caller in Python may pass more."""
    return GetPydanticSchema(lambda _, handler: handler.generate_schema(kind))


def _parse_moment(value: object) -> datetime:
    if not isinstance(value, str) or not _RFC3339.fullmatch(value):
        raise ValueError("is not an RFC 3339 time with an offset; write it like 2026-03-14T09:30:00+01:00")
    leap = re.sub(r"(?<=:\d\d):60", ":59", value.upper())
    try:
        moment = datetime.fromisoformat(leap)
    except ValueError as error:
        raise ValueError(f"is not a time ({error})") from error
    return min(max(moment, EARLIEST), LATEST).astimezone(UTC)


def _parse_id(value: object, validate: Callable[[object], int]) -> int:
    try:
        return validate(value)
    except ValueError as error:
        raise ValueError("is not an id; give all its digits as a number") from error


def _check_day(value: object) -> object:
    if isinstance(value, str | date):
        return value
    raise ValueError("is not a day; write it like 2026-03-14")


Whole = BeforeValidator(lambda value: int(value) if isinstance(value, float) and value.is_integer() else value)
"""Accepts 16.0 as an integer: JSON has one type of number."""
Content = Annotated[str, Field(min_length=1, max_length=MAX_CONTENT_LENGTH)]
Tag = Annotated[
    str, Field(min_length=1, max_length=MAX_TAG_LENGTH), _validated_by(validate_line), AfterValidator(_require_visible)
]
Tags = Annotated[Sequence[Tag], Field(max_length=20)]
Name = Annotated[str, Field(max_length=MAX_LINE_LENGTH), _validated_by(validate_line)]
Names = Annotated[Sequence[Name], Field(max_length=20)]
Kinds = Annotated[Sequence[Annotated[Kind, Field(strict=False)]], Field(max_length=20)]
Query = Annotated[str, Field(max_length=500), _validated_by(reject_unstorable)]
Moment = Annotated[
    datetime, BeforeValidator(_parse_moment), WithJsonSchema({"type": "string", "format": "date-time"}, mode="validation")
]
MemoryId = Annotated[int, Field(ge=1, le=MAX_ID), Whole, WrapValidator(_parse_id)]
Reference = Annotated[str | int, given_as(MemoryId)]
"""Id of a memory; in Python also its first digits as text."""
ProposalId = Annotated[str, Field(min_length=1, max_length=20, pattern=r"^[A-Za-z]+-\d+$", examples=["LP-001"])]
Fraction = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Cursor = Annotated[
    Annotated[str, Field(pattern=CURSOR, max_length=CURSOR_LENGTH)] | None,
    Field(description="`next_cursor` of the previous page; repeat the other arguments."),
]
Day = Annotated[
    Annotated[date, Field(strict=False), BeforeValidator(_check_day)] | None,
    Field(description="A day, such as 2026-03-01."),
]
ZoneName = Annotated[
    Annotated[str, Field(max_length=100)] | None,
    Field(description="Time zone of the days, such as Europe/Berlin; default: the service's."),
]
ProposalIds = Annotated[Sequence[ProposalId], Field(max_length=1_000)]
Limit = Annotated[int, Field(ge=1, le=MAX_LIMIT, description="At most so many memories."), Whole]
Bridges = Annotated[int, Field(ge=0, le=10, description="At most so many paths that explain the first page."), Whole]
