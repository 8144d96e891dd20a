"""What a workspace of Tana is made of, and what goes wrong with it."""

from dataclasses import dataclass, field
from typing import Any

WORKSPACE = "ws_main"
DAY_S = 86_400


@dataclass
class Value:
    """What stands in a field: a text, or a reference to a node or an option."""

    text: str = ""
    ref: str = ""


@dataclass
class Tuple:
    """A field of a node with its values; a node may have two of one attribute."""

    attribute: str
    values: list[Value] = field(default_factory=list)


@dataclass
class Node:
    """A node of the workspace."""

    id: str
    name: str
    parent: str
    created: float
    edited: float
    description: str = ""
    tags: list[str] = field(default_factory=list)
    children: list[str] = field(default_factory=list)
    tuples: list[Tuple] = field(default_factory=list)
    done: bool | None = None
    in_trash: bool = False
    doc_type: str = "node"
    workspace: str = WORKSPACE
    indexed_at: float = 0.0
    indexed_name: str = ""


@dataclass
class FieldDefinition:
    """A field of a supertag."""

    id: str
    name: str
    type: str
    multiple: bool = False
    source_tag: str = ""
    options: dict[str, str] = field(default_factory=dict)


@dataclass
class TagDefinition:
    """A supertag."""

    id: str
    name: str
    workspace: str
    fields: list[FieldDefinition] = field(default_factory=list)


@dataclass
class Traps:
    """What goes wrong, each as it was seen on a live Tana."""

    index_lag: float = 0.0
    """Seconds until a search sees what was created or renamed."""
    trashed_in_results: bool = True
    second_tuple: bool = True
    """Importing a field that a node has makes a second one."""
    poison: set[str] = field(default_factory=set)
    """Nodes that no page may hold: 500."""
    latency: float = 0.0
    """Seconds before each answer."""
    statuses: list[int] = field(default_factory=list)
    """Answers given instead of the next ones, in order: 401, 429, 503, ..."""
    failing_searches: str = ""
    """A search whose query holds this is answered with 500."""
    shapes: dict[str, Any] = field(default_factory=dict)
    """Operation -> what it answers in place of what it should, JSON or bytes."""
    everywhere: bytes = b""
    """What every request is answered with, unless empty."""
    retry_after: str = "0"
    lose_answers: int = 0
    """So many of the next writes are done, and their connection is cut instead of answered."""
