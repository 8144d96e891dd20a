"""The parts of a Tana workspace, and the traps of a live one."""

from dataclasses import dataclass, field
from typing import Any

WORKSPACE = "ws_main"
DAY_S = 86_400


@dataclass
class Value:
    """A field value: a text, or a reference to a node or an option."""

    text: str = ""
    ref: str = ""


@dataclass
class Tuple:
    """A field of a node with its values; a node may have two tuples of one attribute."""

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
    """Faults to simulate, each observed on a live Tana."""

    index_lag: float = 0.0
    """Seconds until a search sees a creation or a new name."""
    trashed_in_results: bool = True
    second_tuple: bool = True
    """Whether importing a field that a node already has adds a second one."""
    poison: set[str] = field(default_factory=set)
    """Nodes that fail every page that contains them, with 500."""
    latency: float = 0.0
    """Seconds before each answer."""
    statuses: list[int] = field(default_factory=list)
    """Statuses of the next answers, in order: 401, 429, 503, ..."""
    failing_searches: str = ""
    """A search whose query contains this is answered with 500."""
    shapes: dict[str, Any] = field(default_factory=dict)
    """Operation -> its answer (JSON or bytes) in place of the right one."""
    everywhere: bytes = b""
    """The answer to every request, unless empty."""
    retry_after: str = "0"
    lose_answers: int = 0
    """Number of the next writes that succeed but whose connection is cut instead of answered."""
