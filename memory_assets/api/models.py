"""What the bodies of requests hold that are not an operation's own parameters; what is answered are the answers of operations."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from memory_assets.models import Kind
from memory_assets.operations.fields import Content, Fraction, Name, Tag


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
