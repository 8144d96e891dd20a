"""The pipeline of seed 004: resolve, traverse, enrich, score. What it gives is ordered by relevance and not yet cut to a budget.

What a search finds leads, in the order of the search's own score. From the best of it, and from what the topic names, a walk goes breadth
first and visits every node once. Its cost is bounded whatever the graph: of a node with very many neighbours the most relevant are
followed, and a step goes on from the most relevant of the nodes that it came to. What a walk came to scores by the seed's formula,

    0.40 / distance + 0.35 * similarity + 0.25 * recency

times the score of where the walk began, relative to the best; a direct neighbour has distance 1. Where nothing is embedded, the
similarity is left out and the weights are 0.60 and 0.40. Recency is exp(-days / 30); 0.5 where nobody knows when a node was modified.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING

from memory_assets.context import names
from memory_assets.context.lenses import Lens, choose_lens
from memory_assets.context.model import CONTRADICTING, Category, Link, Node, Ranked, Visit
from memory_assets.language.words import stems, words

if TYPE_CHECKING:
    from memory_assets.context.store import StoreReader
    from memory_assets.recall.question import Question

NOT_FOUND = "no matching nodes found"
DEPTH, MAX_DEPTH = 2, 5
MAX_TOKENS = 4_000
_FOUND = 150
"""Nodes that a search is asked for."""
_MOST_STARTS = 20
"""Hits from which a walk begins."""
_MOST_NODES = 400
"""Nodes that a walk comes to."""
_SEED_TEXT = 300
"""Characters of a node's text that stand for the topic where the topic is its id."""
MOST_CHILDREN = 500
"""Neighbours from which a node is sampled (seed 004, edge cases)."""
SAMPLE = 100
"""Neighbours that are followed of a node, the most relevant ones."""
_COMMON = 25
"""Memories that mention a name, from which two that do have nothing else in common."""
_MOST_FRONTIER = 150
"""Nodes that one step goes on from."""
LENS_BOOST = 0.1
"""What a node gains that the lens prefers; no score exceeds 1."""
NAME_BOOST = 0.1
"""What a hit gains that holds a name which the topic holds."""
_RECENCY_DAYS = 30.0
_UNKNOWN_RECENCY = 0.5


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked for."""

    topics: tuple[str, ...]
    """Ids, names or questions; several are blended."""
    depth: int = DEPTH
    max_tokens: int = MAX_TOKENS
    lens: Lens = field(default_factory=lambda: choose_lens("general"))
    include_fields: bool = True
    history: bool = False
    """Whether older versions of what holds now are told, too."""

    @property
    def title(self) -> str:
        return " + ".join(self.topics)


@dataclass(frozen=True, slots=True)
class Context:
    """Everything that is relevant, most relevant first."""

    request: Request
    nodes: tuple[Ranked, ...]
    asked: frozenset[str]
    """The stems of the topics' words: what passages are chosen by."""
    over: Mapping[str, Node]
    """The nodes that paths lead over."""
    backend: str
    at: datetime
    """The hour in which it was assembled."""
    embedded: bool
    """Whether similarity took part in the scores."""
    zone: tzinfo = UTC
    """In which days are told."""
    warnings: tuple[str, ...] = ()
    short: Callable[[str], str] = str
    """The first digits of an id, by which `memory show` knows it."""
    repeating: Mapping[str, str] = field(default_factory=dict)
    """Ids of memories that are left out, because they say in the same words what another one says -> its id."""
    unfollowed: Mapping[str, str] = field(default_factory=dict)
    """Ids of nodes that the walk did not go on to, because the lens does not follow the relation -> the relation."""


@dataclass(frozen=True, slots=True)
class _Starts:
    """What a topic is resolved to."""

    topic: "Question"
    """What texts are compared with."""
    scores: dict[str, float]
    """What was found, with the search's score; what is meant by its name has 1."""
    meant: frozenset[str] = frozenset()
    """What the topic is an id or name of."""


def assemble(reader: "StoreReader", request: Request, now: datetime | None = None) -> Context:
    """Everything about the topics that the reader knows; without nodes where nothing matches. EmbedderError as in `recall`."""
    moment = (now or datetime.now(UTC)).replace(minute=0, second=0, microsecond=0)
    warnings: list[str] = []
    views = []
    unfollowed: dict[str, str] = {}
    questions = [reader.understand(topic, now) for topic in request.topics]
    for topic, question in zip(request.topics, questions, strict=True):
        starts = _resolve(reader, question, moment, warnings)
        views.append(_view(reader, request, starts, moment, warnings, unfollowed) if starts.scores else [])
        if not starts.scores and len(request.topics) > 1:
            warnings.append(f"no matching nodes found for {topic!r}")
    nodes, repeating = _without_repetitions(_blended(views))
    if nodes and nodes[0].similarity is None:
        warnings.append("Nothing is embedded: scored by distance and recency alone.")
    shown = [ranked.node.id for ranked in nodes]
    fields = reader.fields(shown) if request.include_fields else {}
    history = reader.history(shown) if request.history else {}
    outdated = reader.outdated(shown)
    links = [link for ranked in nodes for link in (*ranked.visit.path, *ranked.visit.contradicting)]
    return Context(
        request=request,
        nodes=tuple(
            replace(
                each,
                fields=fields.get(each.node.id, ()),
                history=history.get(each.node.id, ()),
                outdated=outdated.get(each.node.id, ()),
                replaced_by=reader.replaced.get(each.node.id, ""),
            )
            for each in nodes
        ),
        asked=frozenset().union(*(question.stems for question in questions)),
        over=reader.nodes({end for link in links for end in (link.origin, link.target)} | set(reader.replaced.values())),
        backend=reader.backend,
        at=moment,
        embedded=bool(nodes) and nodes[0].similarity is not None,
        warnings=tuple(dict.fromkeys([*reader.warnings, *warnings])),
        short=reader.short_ids(),
        repeating=repeating,
        unfollowed={node: relation for node, relation in unfollowed.items() if node not in shown},
    )


def _resolve(reader: "StoreReader", question: "Question", now: datetime, warnings: list[str]) -> _Starts:
    """Resolve a topic: the node of that id, else the nodes of that name, those that it names, and those that a search finds."""
    topic = question.text
    newest = reader.newest(topic)
    if node := reader.nodes([newest]).get(newest):
        if newest != topic:
            warnings.append(f"{topic} was superseded; {newest} is its newest version.")
        said = f"{node.name} {node.content[:_SEED_TEXT]}".strip()
        return _Starts(reader.understand(said, now), {newest: 1.0}, frozenset({newest}))
    candidates = reader.named(question)
    found = reader.search(question, _FOUND, now)
    meant = names.meant(topic, candidates)
    if any(len({each.id for each in meant if each.id.isdigit() is ours}) > 1 for ours in (True, False)):
        told = ", ".join(f"{candidate.name} (id {candidate.id})" for candidate in meant)
        warnings.append(f"{topic!r} may be any of {told}; give an id to choose.")
    spoken = set(words(topic))
    named = [candidate for candidate in candidates if candidate.is_entity and spoken.issuperset(words(candidate.name))]
    first = {candidate.id: 1.0 for candidate in meant or named}
    holding = [frozenset(words(candidate.name)) for candidate in meant or named if candidate.is_entity]
    for node, each in (reader.nodes(found) if holding else {}).items():
        said = frozenset(words(each.content))
        found[node] = min(1.0, found[node] + NAME_BOOST * any(name <= said for name in holding))
    return _Starts(question, first | found | first, frozenset(candidate.id for candidate in meant))


def _view(
    reader: "StoreReader", request: Request, starts: _Starts, now: datetime, warnings: list[str], unfollowed: dict[str, str]
) -> list[Ranked]:
    """What one topic leads to, with its scores; `unfollowed` is given what the lens leaves out."""
    found = starts.scores
    begun = list(found)[:_MOST_STARTS]
    walked, sampled = _walk(reader, begun, request.depth, request.lens, found, unfollowed)
    visits = dict.fromkeys(found, Visit(0)) | walked
    nodes = reader.nodes(visits)
    for node, total in sampled.items():
        name = nodes[node].name if node in nodes else node
        warnings.append(f"Of the {total} neighbours of {name!r} the {SAMPLE} most relevant were followed.")
    similarities = reader.similarities(starts.topic, list(nodes.values()))
    best = max(found.values())

    def ranked(node: Node, visit: Visit) -> Ranked:
        similarity = None if similarities is None else similarities.get(node.id, 0.0)
        preferred = request.lens.prefers(node)
        if similarity is None:
            worth = score(visit.hops, None, recency(node.modified, now))
        elif visit.path:
            worth = score(visit.hops, similarity, recency(node.modified, now)) * found[visit.path[0].origin] / best
        else:
            worth = found[node.id]
        is_thing = node.category is Category.ENTITY and node.id not in starts.meant
        return Ranked(node, visit, min(1.0, worth + LENS_BOOST * preferred), similarity, preferred, is_thing)

    return [ranked(node, visits[node.id]) for node in nodes.values() if not _is_option(node, visits[node.id])]


def _is_option(node: Node, visit: Visit) -> bool:
    """Whether a node is nothing but the value of a field, which the field tells."""
    is_bare = node.category is Category.TANA and not node.tags and not node.content
    return is_bare and bool(visit.path) and visit.path[-1].relation == "FIELD"


def _blended(views: Sequence[Sequence[Ranked]]) -> list[Ranked]:
    """One order of what several topics lead to: half a node's best score, half its mean over the topics, so that what joins them leads."""
    best: dict[str, Ranked] = {}
    total: dict[str, float] = {}
    for view in views:
        for ranked in view:
            node = ranked.node.id
            total[node] = total.get(node, 0.0) + ranked.score
            if node not in best or ranked.score > best[node].score:
                best[node] = ranked
    nodes = [replace(each, score=(each.score + total[node] / len(views)) / 2) for node, each in best.items()]
    return sorted(nodes, key=lambda each: (-each.score, each.visit.hops, each.node.id))


def _without_repetitions(nodes: Sequence[Ranked]) -> tuple[list[Ranked], dict[str, str]]:
    """Without memories that say in the same words what a more relevant one says; and their ids with its id."""
    said: dict[frozenset[str], str] = {}
    kept, repeating = [], {}
    for ranked in nodes:
        told = stems(ranked.node.content) if ranked.node.category is Category.MEMORY else frozenset()
        if told and told in said:
            repeating[ranked.node.id] = said[told]
            continue
        said[told] = ranked.node.id
        kept.append(ranked)
    return kept, repeating


def _walk(
    reader: "StoreReader",
    starts: Iterable[str],
    depth: int,
    lens: Lens,
    scores: Mapping[str, float],
    unfollowed: dict[str, str],
) -> tuple[dict[str, Visit], dict[str, int]]:
    """Walk up to `depth` links away from the starts over the relations that the lens follows.

    `scores` are those of what a search found: what is sampled first. Returns the starts and at most `_MOST_NODES` nodes that were not
    found, nearest first, and the number of neighbours of those of which only a sample was followed.
    """
    visits = {start: Visit(0) for start in starts}
    found = set(scores)
    against: defaultdict[str, list[Link]] = defaultdict(list)
    sampled: dict[str, int] = {}
    frontier = list(visits)
    for hops in range(1, depth + 1):
        if not frontier or len(visits) >= _MOST_NODES:
            break
        neighbours = reader.neighbours(frontier, scores, SAMPLE)
        sampled |= {node: total for node, total in neighbours.totals.items() if total >= MOST_CHILDREN}
        best: dict[str, Link] = {}
        reach = Counter(link.origin for link in neighbours.links)
        for link in neighbours.links:
            if link.relation in CONTRADICTING:
                against[link.origin if link.forward or link.relation == "CONTRADICTS" else link.target].append(link)
            if link.target in visits or link.target in found:
                continue
            if not lens.follows_link(link):
                unfollowed[link.target] = link.relation
                continue
            if hops > 1 and link.relation == "MENTIONS" and not link.forward and reach[link.origin] > _COMMON:
                continue
            known = best.get(link.target)
            if known is None or _worth(link, scores, lens) > _worth(known, scores, lens):
                best[link.target] = link
        ordered = sorted(best.values(), key=lambda link: (_worth(link, scores, lens), link.target), reverse=True)
        for link in ordered[: _MOST_NODES - len(visits)]:
            visits[link.target] = Visit(hops, (*visits[link.origin].path, link))
        frontier = [link.target for link in ordered[:_MOST_FRONTIER] if link.target in visits]
    return {node: replace(place, contradicting=tuple(dict.fromkeys(against[node]))) for node, place in visits.items()}, sampled


def _worth(link: Link, scores: Mapping[str, float], lens: "Lens") -> float:
    """What a link promises: that it begins at what fits, that the lens prefers its relation, that it is sure."""
    return scores.get(link.origin, 0.0) + 0.3 * (link.relation in lens.prefers_relations) + 0.3 * link.confidence


def score(distance: int, similarity: float | None, recency: float) -> float:
    """The seed's score, 0..1, of a node so many links away."""
    closeness = 1.0 / max(1, distance)
    return 0.6 * closeness + 0.4 * recency if similarity is None else 0.4 * closeness + 0.35 * similarity + 0.25 * recency


def recency(modified: datetime | None, now: datetime) -> float:
    """1 for what was modified this moment or lies ahead, falling to 1/e in 30 days. Both times are aware."""
    if modified is None:
        return _UNKNOWN_RECENCY
    return math.exp(-max(0.0, (now - modified).total_seconds()) / 86_400 / _RECENCY_DAYS)
