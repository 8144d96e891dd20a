"""What the bodies of requests hold that are not an operation's own parameters; what is answered are the answers of operations."""

from datetime import date
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from memory_assets.models import Kind, RelationType, Source
from memory_assets.operations.context import LONGEST_TOPIC, MOST_TOPICS, Format
from memory_assets.operations.fields import Bridges, Content, Fraction, Limit, MemoryId, Moment, Name, Query, Tag, Tags, Whole
from memory_assets.operations.given import PLACE_CURSOR, SEEN_CURSOR, SEEN_CURSOR_LENGTH


def _day(value: object) -> object:
    if not isinstance(value, str):
        raise ValueError("is not a day; write it like 2026-03-14")
    return value


PlaceCursor = Annotated[
    Annotated[str, Field(pattern=PLACE_CURSOR)] | None, Field(description="`next_cursor` of the page before.")
]


class Request(BaseModel):
    """What a body may hold: these fields alone, each in its own type."""

    model_config = ConfigDict(strict=True, extra="forbid")


class StoreRequest(Request):
    """A text to be remembered."""

    content: Content = Field(description="Stored in full, as it is.", examples=["Alice moved the billing export to DuckDB."])
    tags: list[Tag] = Field([], description="Yours; normalised and kept beside the automatic ones.")
    kind: Annotated[Kind, Field(strict=False)] = Kind.NOTE
    importance: Fraction = 0.5
    project: Name = Field("", description="What it belongs to.")
    session: Name = Field("", description="The conversation it came up in.")
    author: Name = Field("", description="Who said it.")


class _Filtered(Request):
    tags: Tags = Field([], description="Only memories with all of these.")
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
    everything: bool = Field(False, alias="all", description="What is nearest, even if nothing fits.")
    cursor: Annotated[str, Field(pattern=SEEN_CURSOR, max_length=SEEN_CURSOR_LENGTH)] | None = Field(
        None, description="`next_cursor` of the page before; ask the same question with it."
    )


class RecentRequest(_Filtered):
    """A span of time; `hours` count back from `until`, or from now, where `since` is not given."""

    hours: float = Field(24, gt=0, le=720, allow_inf_nan=False)
    limit: Limit = 10
    cursor: PlaceCursor = None


class TimelineRequest(_Filtered):
    """What to count; with `on`, the day at whose end the memories held."""

    on: Annotated[date, Field(strict=False), BeforeValidator(_day)] | None = Field(
        None, description="A day in UTC, such as 2026-03-01."
    )
    limit: Limit = 20
    cursor: PlaceCursor = None


class ContextRequest(Request):
    """What a task is about, and how much may be said of it."""

    topics: list[Annotated[str, Field(min_length=1, max_length=LONGEST_TOPIC)]] = Field(
        min_length=1, max_length=MOST_TOPICS, description="Ids, names or questions; several are blended."
    )
    depth: Annotated[int, Field(ge=1, le=5), Whole] = 2
    max_tokens: Annotated[int, Field(ge=1, le=100_000), Whole] = Field(4_000, description="Never exceeded.")
    lens: Name = "general"
    form: Format = Field("markdown", alias="format")
    include_fields: bool = True
    history: bool = Field(False, description="Older versions of what holds now, too.")
    offline: bool = Field(False, description="Tana is told as it was last read.")
    since_last: bool = Field(False, description="Only what changed since these topics were assembled the last time.")


class EraseRequest(Request):
    """What to erase: memories by id, and those that all other conditions fit."""

    ids: list[MemoryId] = Field([], max_length=1_000)
    matching: Query = Field("", description="All whose text or title holds this, in any casing.")
    source: Annotated[Source, Field(strict=False)] | None = Field(None, description="All that came from there.")
    before: Moment | None = Field(None, description="All created before.")
    confirm: bool = Field(False, description="Whether to erase; otherwise the answer shows what would go.")


class InitRequest(Request):
    """Nothing: a session begins."""


class SupersedeRequest(Request):
    """The memory that takes the other's place."""

    new: MemoryId = Field(alias="new_id")


class RelationRequest(Request):
    """How one memory relates to another."""

    source: MemoryId = Field(alias="source_id")
    target: MemoryId = Field(alias="target_id")
    relation: Annotated[RelationType, Field(strict=False)] = Field(alias="type")
    confidence: Fraction = 1.0
    note: Query = Field("", description="Why.")


class ApplyRequest(Request):
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
