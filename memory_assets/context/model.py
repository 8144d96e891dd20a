"""What context is assembled of: nodes, the links between them, and each node's place in a walk."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from memory_assets.graph.outdated import Outdated

CONTRADICTING = frozenset({"CONTRADICTS", "INVALIDATED_BY"})
"""Relations that say that one of two nodes may not hold."""


class Category(StrEnum):
    """What a node is."""

    MEMORY = "memory"
    ENTITY = "entity"
    PATTERN = "pattern"
    TANA = "tana"


Fields = tuple[tuple[str, tuple[str, ...]], ...]
"""Names of fields with their values."""


@dataclass(frozen=True, slots=True)
class Node:
    """Something that can be told: a memory, an entity, a pattern of memories, or a node of Tana."""

    id: str
    name: str
    """One line; of a memory without a title, how it begins."""
    category: Category
    type: str
    """Kind of a memory, type of an entity, first supertag of a Tana node."""
    content: str = ""
    tags: tuple[str, ...] = ()
    created: datetime | None = None
    modified: datetime | None = None
    """What recency counts from; None where nobody knows."""
    titled: bool = True
    """Whether the name says more than the beginning of the content."""
    source: str = ""
    """Where it comes from: the source and its key, or a Tana workspace."""


@dataclass(frozen=True, slots=True)
class Link:
    """A way from one node to a neighbour."""

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
    """The links from some nodes."""

    links: tuple[Link, ...] = ()
    totals: Mapping[str, int] = field(default_factory=dict)
    """How many neighbours a node has, for those of which not all are among the links."""


@dataclass(frozen=True, slots=True)
class Visit:
    """A node's place in a walk."""

    hops: int
    """0 for a node that the walk began at."""
    path: tuple[Link, ...] = ()
    """The links from a start to the node, one a hop."""
    contradicting: tuple[Link, ...] = ()
    """Links to nodes that contradict it or that it is invalidated by."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A node with its fields, its place in the walk and how relevant it is."""

    node: Node
    visit: Visit
    score: float
    """0..1."""
    similarity: float | None
    """0..1; None where nothing is embedded."""
    preferred: bool = False
    """Whether the lens prefers it."""
    only_named: bool = False
    """Whether its name is all there is to tell: a person or thing that is not itself the topic."""
    fields: Fields = ()
    replaced_by: str = ""
    """Id of a later memory that seems to replace what it says."""
    outdated: tuple[Outdated, ...] = ()
    """Its sentences that other memories replace."""
    history: tuple[Node, ...] = ()
    """Older versions of what it says, the newest first."""

    @property
    def against(self) -> dict[str, str]:
        """What contradicts it or made it invalid, by id, with the relation."""
        return {link.target if link.origin == self.node.id else link.origin: link.relation for link in self.visit.contradicting}
