"""The data of a context: nodes, links between them, and each node's place in a walk."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from memory_assets.graph.outdated import Outdated

CONTRADICTING = frozenset({"CONTRADICTS", "INVALIDATED_BY"})
"""Relations between two nodes of which one may not hold."""


class Category(StrEnum):
    """The category of a node."""

    MEMORY = "memory"
    ENTITY = "entity"
    PATTERN = "pattern"
    TANA = "tana"


Fields = tuple[tuple[str, tuple[str, ...]], ...]
"""Names of fields with their values."""


@dataclass(frozen=True, slots=True)
class Node:
    """A memory, an entity, a pattern of memories, or a node of Tana."""

    id: str
    name: str
    """One line; the start of the content for a memory without a title."""
    category: Category
    type: str
    """Kind of a memory, type of an entity, first supertag of a Tana node."""
    content: str = ""
    tags: tuple[str, ...] = ()
    created: datetime | None = None
    modified: datetime | None = None
    """Start of its recency; None if unknown."""
    titled: bool = True
    """Whether the name is a title, not the start of the content."""
    source: str = ""
    """Source and key, or the Tana workspace."""


@dataclass(frozen=True, slots=True)
class Link:
    """A link from one node to a neighbour."""

    origin: str
    target: str
    relation: str
    """A relation type of the graph, or MENTIONS, CHILD, REFERENCE, FIELD."""
    forward: bool = True
    """Whether the relation points from `origin` to `target`."""
    confidence: float = 1.0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The links from a set of nodes."""

    links: tuple[Link, ...] = ()
    totals: Mapping[str, int] = field(default_factory=dict)
    """Number of all neighbours of each node whose links are incomplete."""


@dataclass(frozen=True, slots=True)
class Visit:
    """A node's place in a walk."""

    hops: int
    """Distance from the start in links; 0 for a start."""
    path: tuple[Link, ...] = ()
    """The links from a start to the node, one per hop."""
    contradicting: tuple[Link, ...] = ()
    """Links to nodes that contradict or invalidate it."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A node with its fields, its place in the walk and its relevance."""

    node: Node
    visit: Visit
    score: float
    """0..1."""
    similarity: float | None
    """0..1; None if nothing is embedded."""
    linked: float = 0.0
    """Score by its path, 0..1, of a search hit that links lead to; 0 of other nodes."""
    preferred: bool = False
    only_named: bool = False
    """Whether it is shown by its name alone: a person or thing that is not the topic."""
    is_topic: bool = False
    """Whether the topic names it, by its id or all words of its name."""
    fields: Fields = ()
    replaced_by: str = ""
    """Id of a later memory that seems to replace it."""
    outdated: tuple[Outdated, ...] = ()
    """Its sentences that other memories replace."""
    history: tuple[Node, ...] = ()
    """Its older versions, newest first."""

    @property
    def against(self) -> dict[str, str]:
        """Relation of each node that contradicts or invalidates it, by id."""
        return {link.target if link.origin == self.node.id else link.origin: link.relation for link in self.visit.contradicting}
