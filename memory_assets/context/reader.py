"""What the assembler reads from: the store, or live Tana, behind one protocol."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from memory_assets.context.model import Fields, Neighbours, Node
from memory_assets.context.resolver import Candidate


class Reader(Protocol):
    """Reads neighbourhoods of a graph. What is asked for and is not there, or takes no part in recall, is left out of an answer."""

    @property
    def backend(self) -> str:
        """What it reads from, for the metadata."""
        ...

    @property
    def warnings(self) -> Sequence[str]:
        """Sentences about what could not be read so far."""
        ...

    def nodes(self, ids: Collection[str]) -> dict[str, Node]:
        """Nodes by their ids.

        Raises:
            StoreError: the store cannot be read.
        """
        ...

    def neighbours(self, ids: Collection[str], scores: Mapping[str, float], most: int) -> Neighbours:
        """The links from each node, one a neighbour; of a node with more than `most`, those to the most relevant.

        Args:
            ids: the nodes.
            scores: similarity to the topic, where it is known.
            most: links of one node.

        Raises:
            StoreError: the store cannot be read.
        """
        ...

    def fields(self, ids: Collection[str]) -> dict[str, Fields]:
        """The field values of nodes that have any."""
        ...

    def search(self, topic: str, limit: int) -> dict[str, float]:
        """The nodes that fit a topic, best first, with their similarity to it, 0..1.

        Raises:
            StoreError: the store cannot be read.
            EmbedderError: the topic cannot be embedded.
        """
        ...

    def similarities(self, topic: str, nodes: Sequence[Node]) -> dict[str, float] | None:
        """How similar nodes are to a topic, 0..1; None where nothing is embedded."""
        ...

    def named(self, topic: str) -> list[Candidate]:
        """Nodes whose names are like a topic."""
        ...

    def newest(self, node: str) -> str:
        """The id of the newest version of what a node says; of most nodes their own."""
        ...

    def history(self, ids: Collection[str]) -> dict[str, tuple[Node, ...]]:
        """Older versions of what nodes say, the newest first."""
        ...
