"""Request bodies that are not just an operation's parameters, and responses that are not an operation's result."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from memory_assets.models import Kind
from memory_assets.operations.fields import Content, Fraction, Name, Tag


class Request(BaseModel):
    """Body with exactly these fields and types."""

    model_config = ConfigDict(strict=True, extra="forbid")


class StoreRequest(Request):
    """A text to remember."""

    content: Content = Field(description="Stored unchanged.", examples=["Alice moved the billing export to DuckDB."])
    tags: list[Tag] = Field([], description="Your tags; normalised and kept beside the automatic ones.")
    kind: Annotated[Kind, Field(strict=False)] = Kind.NOTE
    importance: Fraction = 0.5
    project: Name = Field("", description="The project it belongs to.")
    session: Name = Field("", description="The conversation it came up in.")
    author: Name = Field("", description="Who said it.")


class ServiceHealth(BaseModel):
    """Health of the service, public."""

    status: str
    version: str


class ErrorOut(BaseModel):
    """Error of a failed request."""

    error: str
    request_id: str
