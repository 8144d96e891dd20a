"""What requests may hold, checked strictly; what is answered are the answers of `memory_assets.operations`.

The JSON schemas say what a schema can say simply. That a text is blank or holds control characters is said when it is sent.
"""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from memory_assets.errors import InvalidInputError
from memory_assets.language.validation import MAX_TAG_LENGTH, is_blank, reject_unstorable, validate_line
from memory_assets.models import MAX_CONTENT_LENGTH, Kind, RelationType, Source
from memory_assets.operations.context import LONGEST_TOPIC, MOST_TOPICS, Format
from memory_assets.operations.given import EARLIEST, LATEST, PLACE_CURSOR, SEEN_CURSOR, SEEN_CURSOR_LENGTH

MAX_QUERY_LENGTH = 500
MAX_LIMIT = 100
MAX_HOURS = 720
MAX_ID = (1 << 53) - 1
_MAX_NAME_LENGTH = 200
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def _refusing(check: Callable[[str, str], object]) -> AfterValidator:
    """Apply a rule of `language.validation`, which is told that the field is `it`; the answer names the field before."""

    def checked(text: str) -> str:
        try:
            check(text, "it")
        except InvalidInputError as error:
            raise ValueError(str(error)) from error
        return text

    return AfterValidator(checked)


def _visible(text: str) -> str:
    if is_blank(text):
        raise ValueError("is empty or blank; write at least one visible character")
    return text


def _moment(value: object) -> datetime:
    if not isinstance(value, str) or not _RFC3339.fullmatch(value):
        raise ValueError("is not an RFC 3339 time with an offset; write it like 2026-03-14T09:30:00+01:00")
    leap = re.sub(r"(?<=:\d\d):60", ":59", value.upper())
    try:
        moment = datetime.fromisoformat(leap)
    except ValueError as error:
        raise ValueError(f"is not a time ({error})") from error
    return min(max(moment, EARLIEST), LATEST).astimezone(UTC)


def _day(value: object) -> object:
    if not isinstance(value, str):
        raise ValueError("is not a day; write it like 2026-03-14")
    return value


def _integer(value: object) -> object:
    """JSON has one kind of number: 16.0 is an integer."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


_Integer = BeforeValidator(_integer)
_Visible = AfterValidator(_visible)
Content = Annotated[str, Field(min_length=1, max_length=MAX_CONTENT_LENGTH), _refusing(reject_unstorable), _Visible]
Tag = Annotated[str, Field(min_length=1, max_length=MAX_TAG_LENGTH), _refusing(validate_line), _Visible]
Name = Annotated[str, Field(max_length=_MAX_NAME_LENGTH), _refusing(validate_line)]
Query = Annotated[str, Field(max_length=MAX_QUERY_LENGTH), _refusing(reject_unstorable)]
_MomentSchema = WithJsonSchema({"type": "string", "format": "date-time"}, mode="validation")
Moment = Annotated[datetime, BeforeValidator(_moment), _MomentSchema]
MemoryId = Annotated[int, Field(ge=1, le=MAX_ID), _Integer]
ProposalId = Annotated[str, Field(min_length=1, max_length=20, pattern=r"^[A-Za-z]+-\d+$", examples=["LP-001"])]
Fraction = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Limit = Annotated[int, Field(ge=1, le=MAX_LIMIT, description="At most so many memories."), _Integer]

Bridges = Annotated[int, Field(ge=0, le=10, description="At most so many paths that explain the first page."), _Integer]


class _Request(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class StoreRequest(_Request):
    """A text to be remembered."""

    content: Content = Field(description="Stored in full, as it is.", examples=["Alice moved the billing export to DuckDB."])
    tags: list[Tag] = Field([], description="Yours; normalised and kept beside the automatic ones.")
    kind: Annotated[Kind, Field(strict=False)] = Kind.NOTE
    importance: Fraction = 0.5
    project: Name = Field("", description="What it belongs to.")
    session: Name = Field("", description="The conversation it came up in.")
    author: Name = Field("", description="Who said it.")


class _Filtered(_Request):
    tags: list[Tag] = Field([], max_length=20, description="Only memories with all of these.")
    kinds: list[Annotated[Kind, Field(strict=False)]] = Field([], max_length=20, description="Only of one of these.")
    entities: list[Name] = Field(
        [], max_length=20, description="Only memories that name all of these, in any spelling that is known."
    )
    actions: list[Name] = Field([], max_length=20, description="Only memories with all of these verbs, such as `decide`.")
    project: Name = Field("", description="Only of this project.")
    since: Moment | None = Field(None, description="Only created at or after this time.")
    until: Moment | None = Field(None, description="Only created before this time.")


class SearchRequest(_Filtered):
    """A question, or nothing for the newest memories."""

    query: Query = ""
    limit: Limit = 10
    bridges: Bridges = 0
    all: bool = Field(False, description="What is nearest, even if nothing fits.")
    cursor: Annotated[str, Field(pattern=SEEN_CURSOR, max_length=SEEN_CURSOR_LENGTH)] | None = Field(
        None, description="`next_cursor` of the page before; ask the same question with it."
    )


class RecentRequest(_Filtered):
    """A span of time; `hours` count back from `until`, or from now, where `since` is not given."""

    hours: float = Field(24, gt=0, le=MAX_HOURS, allow_inf_nan=False)
    limit: Limit = 10
    cursor: Annotated[str, Field(pattern=PLACE_CURSOR)] | None = Field(None, description="`next_cursor` of the page before.")


class TimelineRequest(_Filtered):
    """What to count; with `on`, the day at whose end the memories held."""

    on: Annotated[date, Field(strict=False), BeforeValidator(_day)] | None = Field(
        None, description="A day in UTC, such as 2026-03-01."
    )
    limit: Limit = 20
    cursor: Annotated[str, Field(pattern=PLACE_CURSOR)] | None = Field(None, description="`next_cursor` of the page before.")


class MergeRequest(_Request):
    """The name that another one means."""

    into: MemoryId = Field(description="Its id.")


class SplitRequest(_Request):
    """A spelling that means something else."""

    spelling: Name


class TellRequest(_Request):
    """Whether sessions begin with a memory."""

    told: bool


class ContextRequest(_Request):
    """What a task is about, and how much may be said of it."""

    topics: list[Annotated[str, Field(min_length=1, max_length=LONGEST_TOPIC), _refusing(reject_unstorable), _Visible]] = Field(
        min_length=1, max_length=MOST_TOPICS, description="Ids, names or questions; several are blended."
    )
    depth: Annotated[int, Field(ge=1, le=5), _Integer] = 2
    max_tokens: Annotated[int, Field(ge=1, le=100_000), _Integer] = Field(4_000, description="Never exceeded.")
    lens: Name = "general"
    format: Format = "markdown"
    include_fields: bool = True
    history: bool = Field(False, description="Older versions of what holds now, too.")
    offline: bool = Field(False, description="Tana is told as it was last read.")
    since_last: bool = Field(False, description="Only what changed since these topics were assembled the last time.")


class EraseRequest(_Request):
    """What to erase: memories by id, and those that all other conditions fit."""

    ids: list[MemoryId] = Field([], max_length=1_000)
    matching: Query = Field("", description="All whose text or title holds this, in any casing.")
    source: Annotated[Source, Field(strict=False)] | None = Field(None, description="All that came from there.")
    before: Moment | None = Field(None, description="All created before.")
    confirm: bool = Field(False, description="Whether to erase; otherwise the answer shows what would go.")


class InitRequest(_Request):
    """Nothing: a session begins."""


class EditRequest(_Request):
    """What a memory says from now on."""

    content: Content = Field(description="The whole text.")


class TagRequest(_Request):
    """Tags to give to a memory, and to take from it."""

    add: list[Tag] = Field([], max_length=20)
    remove: list[Tag] = Field([], max_length=20)


class SupersedeRequest(_Request):
    """The memory that takes the other's place."""

    new_id: MemoryId


class RelationRequest(_Request):
    """How one memory relates to another."""

    source_id: MemoryId
    target_id: MemoryId
    type: Annotated[RelationType, Field(strict=False)]
    confidence: Fraction = 1.0
    note: Query = Field("", description="Why.")


class ReviewRequest(_Request):
    """What is decided on proposals."""

    accept: list[ProposalId] = Field([], max_length=1_000)
    reject: list[ProposalId] = Field([], max_length=1_000)
    defer: list[ProposalId] = Field([], max_length=1_000)
    note: Query | None = Field(None, description="Kept with the one proposal that is decided on.")
    deeper: bool = Field(False, description="Also look for user, project and reference entries that could be one.")


class ApplyRequest(_Request):
    """Whether to do it."""

    confirm: bool = Field(False, description="Whether to apply; otherwise the answer shows what would be done.")


class ServiceHealth(BaseModel):
    """How the service is, told to anybody."""

    status: str
    version: str


class ErrorOut(BaseModel):
    """Why a request failed."""

    error: str
    request_id: str
