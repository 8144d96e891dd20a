"""The walk outward from the starts: breadth first, every node once, so that circles end where they begin.

Cost is bounded whatever the graph: of a node with very many neighbours the most relevant are followed, and a step goes on from the
most relevant of the nodes that it came to.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from memory_assets.context.model import CONTRADICTING, Link, Visit

if TYPE_CHECKING:
    from memory_assets.context.lenses import Lens
    from memory_assets.context.store import StoreReader

MOST_CHILDREN = 500
"""Neighbours from which a node is sampled (seed 004, edge cases)."""
SAMPLE = 100
"""Neighbours that are followed of a node, the most relevant ones."""
_MOST_FRONTIER = 150
"""Nodes that one step goes on from."""


@dataclass(frozen=True, slots=True)
class Walk:
    """The nodes that a walk came to, nearest first, and those of which it followed only a sample of the neighbours."""

    visits: dict[str, Visit]
    sampled: dict[str, int]
    """Node -> how many neighbours it has."""


def walk(reader: "StoreReader", starts: Iterable[str], depth: int, lens: "Lens", scores: Mapping[str, float], most: int) -> Walk:
    """Walk up to `depth` links away from the starts over the relations that the lens follows.

    `scores` are similarities to the topic, where they are known: what is sampled first. At most `most` nodes are kept.
    """
    visits = {start: Visit(0) for start in starts}
    against: defaultdict[str, list[Link]] = defaultdict(list)
    sampled: dict[str, int] = {}
    frontier = list(visits)
    for hops in range(1, depth + 1):
        if not frontier or len(visits) >= most:
            break
        neighbours = reader.neighbours(frontier, scores, SAMPLE)
        sampled |= {node: total for node, total in neighbours.totals.items() if total >= MOST_CHILDREN}
        best: dict[str, Link] = {}
        for link in neighbours.links:
            if link.relation in CONTRADICTING:
                against[link.origin if link.forward or link.relation == "CONTRADICTS" else link.target].append(link)
            if link.target in visits or not lens.follows_link(link):
                continue
            known = best.get(link.target)
            if known is None or _worth(link, scores, lens) > _worth(known, scores, lens):
                best[link.target] = link
        ordered = sorted(best.values(), key=lambda link: (_worth(link, scores, lens), link.target), reverse=True)
        for link in ordered[: most - len(visits)]:
            visits[link.target] = Visit(hops, (*visits[link.origin].path, link))
        frontier = [link.target for link in ordered[:_MOST_FRONTIER] if link.target in visits]
    return Walk(
        {node: replace(place, contradicting=tuple(dict.fromkeys(against[node]))) for node, place in visits.items()}, sampled
    )


def _worth(link: Link, scores: Mapping[str, float], lens: "Lens") -> float:
    """What a link promises: that its target fits, that the lens prefers its relation, that it is sure."""
    return scores.get(link.target, 0.0) + 0.3 * (link.relation in lens.prefers_relations) + 0.3 * link.confidence
