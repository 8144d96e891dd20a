"""Neighbours of nodes in recall's in-memory graph: one link per neighbour, and only the most relevant of very many."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from memory_assets.arrays import Ids, Rows, Values, places_of
from memory_assets.context.model import CONTRADICTING, Link, Neighbours
from memory_assets.models import REPLACING
from memory_assets.recall.view import View

Column = npt.NDArray[Any]

_SKIPPED_ORIGIN = "supersession"
"""Edges to older versions, which are no neighbours."""
_SHARED_NAMES = "entities"
"""Edges between memories that mention the same names."""
_WEAK_ORIGINS = (_SHARED_NAMES, "session", "similar", "same text", "creative")
"""Rules that only state that two memories are similar or neighbours."""
_WEAK, _STATED, _AGAINST = 1, 2, 3
_MENTIONS = "MENTIONS"
_COMMON_MENTIONS, _COMMON_SHARE, _RARE_MENTIONS = 25, 0.1, 3
_ROUNDING = 1e-5
_UNKNOWN_TIME = np.iinfo(np.int64).min + 1


def most_mentions(memories: int) -> int:
    """If more than this number of all memories mention a name, the name alone does not relate two of them."""
    return max(_RARE_MENTIONS, min(_COMMON_MENTIONS, int(_COMMON_SHARE * memories)))


def graph_neighbours(view: View, asked: Ids, scores: Mapping[str, float], most: int) -> Neighbours:
    """Return typed edges in both directions and mentions. An inactive memory is one only if it contradicts or invalidates."""
    edges, mentions = view.graph.edges, view.graph.mentions
    names = [*view.graph.types.names, _MENTIONS]
    places, ends, rows = [], [], []
    for links, row_of in ((edges, lambda row: row), (mentions, lambda row: np.full(len(row), -1))):
        for (place, row), end in ((links.outgoing(asked), "target"), (links.incoming(asked), "source")):
            places.append(place)
            ends.append(links.columns[end][row])
            rows.append(row_of(row))
    forward = np.repeat([True, False, True, False], [len(place) for place in places])
    place, end, row = np.concatenate(places), np.concatenate(ends), np.concatenate(rows)
    edge = row >= 0
    kind = np.where(edge, _take(edges.columns["type"], row), len(names) - 1)
    origin = np.where(edge, _take(edges.columns["origin"], row), -1)
    confidence = np.where(edge, _take(edges.columns["confidence"], row), 1.0)
    origins = view.graph.origins
    strength = np.full(len(row), _STATED)
    strength[np.isin(origin, _codes(origins.names, _WEAK_ORIGINS))] = _WEAK
    strength[np.isin(kind, _codes(names, CONTRADICTING))] = _AGAINST
    at = view.timeline.rows(end)
    created = view.timeline.values("created", at, _UNKNOWN_TIME)
    is_neighbour = view.timeline.values("active", at, True) | (strength == _AGAINST)
    rarity = 1 / math.log2(1 + most_mentions(len(view.timeline.sorted_ids)))  # as `graph.rules.ENTITIES` weighs a name
    by_common_name = np.isin(origin, _codes(origins.names, [_SHARED_NAMES])) & (confidence < rarity / (1 + rarity) - _ROUNDING)
    is_skipped = by_common_name | np.isin(origin, _codes(origins.names, [_SKIPPED_ORIGIN]))
    kept = np.flatnonzero(is_neighbour & ~is_skipped)
    place, end, row, forward, kind, confidence, strength, created = (
        column[kept] for column in (place, end, row, forward, kind, confidence, strength, created)
    )
    order_of_kinds = np.argsort(np.argsort(names))
    relevant = [strength != _AGAINST, -_scores_of(end, scores), -strength, -confidence, -created, end]
    replaces = np.isin(kind, _codes(names, REPLACING))  # which decides a contradiction of the two
    chosen, sizes = choose_links(place, end, [~replaces, -strength, -confidence, order_of_kinds[kind], forward], relevant, most)
    columns = (asked[place[chosen]], end[chosen], kind[chosen], forward[chosen], confidence[chosen], row[chosen])
    links = tuple(
        Link(str(origin), str(target), names[kind], ahead, sure, view.graph.note(edge) if edge >= 0 else "")
        for origin, target, kind, ahead, sure, edge in zip(*(column.tolist() for column in columns), strict=True)
    )
    return Neighbours(links, {link.origin: size for link, size in zip(links, sizes.tolist(), strict=True) if size > most})


def _codes(names: list[str], wanted: Collection[str]) -> list[int]:
    return [code for code, name in enumerate(names) if name in wanted]


def _take(column: npt.NDArray, rows: Rows) -> npt.NDArray:
    """Return a column's values at `rows`; arbitrary ones where a row is -1."""
    return column[rows] if len(column) else np.zeros(len(rows), column.dtype)


def _scores_of(nodes: Ids, scores: Mapping[str, float]) -> Values:
    known = sorted((int(node), score) for node, score in scores.items() if node.isdigit())
    values = np.array([*(score for _, score in known), 0.0])  # the last is that of unknown nodes
    return values[places_of(nodes, np.array([node for node, _ in known], np.int64))]


def choose_links(
    origins: Column, targets: Column, telling: Sequence[Column], relevant: Sequence[Column], most: int
) -> tuple[Rows, Rows]:
    """Choose the best link between each pair of nodes, then the `most` most relevant links of each origin.

    `telling` and `relevant` are sort keys, most significant first; the lowest wins. Return the chosen rows, and for each of them the
    number of neighbours of its origin.
    """
    best = _take_lowest((origins, targets), telling, 1)[0]
    kept, sizes = _take_lowest((origins[best],), [column[best] for column in relevant], most)
    return best[kept], sizes


def _take_lowest(groups: Sequence[Column], keys: Sequence[Column], most: int) -> tuple[Rows, Rows]:
    """Return up to `most` rows of each group, those with the lowest keys, group by group, and the size of each row's group."""
    order = np.lexsort((*reversed(keys), *reversed(groups)))
    changes = np.zeros(len(order), bool)
    changes[:1] = True
    for group in groups:
        changes[1:] |= group[order[1:]] != group[order[:-1]]
    starts = np.flatnonzero(changes)
    sizes = np.diff(starts, append=len(order))
    kept = np.arange(len(order)) - np.repeat(starts, sizes) < most
    return order[kept], np.repeat(sizes, sizes)[kept]
