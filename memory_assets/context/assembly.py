"""The pipeline of seed 004: resolve, traverse, enrich, score. The result is ordered by relevance and not yet cut to a budget.

Search hits keep the search's own score. From the best hits and the nodes that the topic names, a breadth-first walk visits each node
once. Its cost is bounded for any graph: of a node with very many neighbours, only the most relevant are followed, and each step
continues only from its most relevant nodes. The score of a walked node is the seed's formula,

    0.40 / distance + 0.35 * similarity + 0.25 * recency

times the score of the walk's start relative to the best score; a direct neighbour has distance 1. If nothing is embedded, the
similarity is left out and the weights are 0.60 and 0.40. Recency is exp(-days / 30), or 0.5 if the modification time is unknown.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo

from memory_assets.context import names
from memory_assets.context.lenses import Lens, choose_lens
from memory_assets.context.model import CONTRADICTING, Category, Fields, Link, Node, Ranked, Visit
from memory_assets.context.neighbours import most_mentions
from memory_assets.context.store import StoreReader
from memory_assets.language.words import stems, words
from memory_assets.recall.question import Question

NOT_FOUND = "no matching nodes found"
DEPTH = 2
MAX_TOKENS = 4_000
_MAX_HITS = 150
_MAX_STARTS = 20
_MAX_NODES = 400
_TOPIC_CHARACTERS = 300
"""If the topic is a node's id, so much of the node's text is the query."""
MOST_CHILDREN = 500
"""A node with at least so many neighbours is sampled (seed 004, edge cases)."""
SAMPLE = 100
"""Neighbours of one node that are followed, most relevant first."""
_MAX_FRONTIER = 150
"""Nodes from which one step continues."""
_SURE_SHARE = 0.3
"""Share of a task's best score below which links may lead to a hit, too."""
LENS_BOOST = 0.1
"""Bonus for a node that the lens prefers; no score exceeds 1."""
NAME_BOOST = 0.1
"""Bonus for a hit that contains a name in the topic."""
_RECENCY_DAYS = 30.0
_UNKNOWN_RECENCY = 0.5


@dataclass(frozen=True, slots=True)
class Request:
    """A request for a context."""

    topics: tuple[str, ...]
    """Ids, names or questions; several are blended."""
    depth: int = DEPTH
    max_tokens: int = MAX_TOKENS
    lens: Lens = field(default_factory=lambda: choose_lens("general"))
    include_fields: bool = True
    history: bool = False
    """Whether older versions of memories are included."""

    @property
    def title(self) -> str:
        return " + ".join(self.topics)


@dataclass(frozen=True, slots=True)
class Context:
    """All relevant nodes for a request, not yet cut to a budget."""

    request: Request
    nodes: tuple[Ranked, ...]
    """Most relevant first."""
    asked: frozenset[str]
    """Stems of the topics' words, by which passages are chosen."""
    path_nodes: Mapping[str, Node]
    """Nodes on the paths, by id."""
    backend: str
    at: datetime
    """Time of the assembly, to the hour."""
    embedded: bool
    is_task: bool = False
    zone: tzinfo = UTC
    warnings: tuple[str, ...] = ()
    short: Callable[[str], str] = str
    """Shortens an id to the first digits, which `memory show` accepts."""
    repeating: Mapping[str, str] = field(default_factory=dict)
    """Nodes left out because another one tells them, whose id is the value."""
    unfollowed: Mapping[str, str] = field(default_factory=dict)
    """Nodes not visited because the lens does not follow the relation, which is the value."""


@dataclass(frozen=True, slots=True)
class _Starts:
    """The nodes to which a topic resolves."""

    topic: Question
    """The query that texts are compared with."""
    scores: dict[str, float]
    """Search score by node; 1 for nodes that the topic names."""
    meant: frozenset[str] = frozenset()
    """Nodes whose id or name the topic is."""
    named: frozenset[str] = frozenset()
    """Nodes whose name the topic contains."""


def assemble(reader: StoreReader, request: Request, now: datetime | None = None) -> Context:
    """Assemble the context of a request; without nodes if nothing matches. EmbedderError as in `recall`."""
    moment = (now or datetime.now(UTC)).replace(minute=0, second=0, microsecond=0)
    warnings: list[str] = []
    views = []
    unfollowed: dict[str, str] = {}
    questions = [reader.understand(topic, now) for topic in request.topics]
    for topic, question in zip(request.topics, questions, strict=True):
        starts = _resolve(reader, question, moment, warnings)
        views.append(_rank_topic(reader, request, starts, moment, warnings, unfollowed) if starts.scores else [])
        if not starts.scores and len(request.topics) > 1:
            warnings.append(f"{NOT_FOUND} for {topic!r}")
    found = _blend(views)
    fields = reader.fields([ranked.node.id for ranked in found])
    nodes, repeating = _drop_repetitions(found, fields)
    if nodes and nodes[0].similarity is None:
        warnings.append("Nothing is embedded: scored by distance and recency alone.")
    shown = [ranked.node.id for ranked in nodes]
    history = reader.history(shown) if request.history else {}
    outdated = reader.outdated(shown)
    links = [link for ranked in nodes for link in (*ranked.visit.path, *ranked.visit.contradicting)]
    return Context(
        request=request,
        nodes=tuple(
            replace(
                each,
                fields=fields.get(each.node.id, ()) if request.include_fields else (),
                history=history.get(each.node.id, ()),
                outdated=outdated.get(each.node.id, ()),
                replaced_by=reader.replaced.get(each.node.id, ""),
            )
            for each in nodes
        ),
        asked=frozenset().union(*(question.stems for question in questions)),
        path_nodes=reader.nodes({end for link in links for end in (link.origin, link.target)} | set(reader.replaced.values())),
        backend=reader.backend,
        at=moment,
        embedded=bool(nodes) and nodes[0].similarity is not None,
        is_task=all(question.is_task for question in questions),
        warnings=tuple(dict.fromkeys([*reader.warnings, *warnings])),
        short=reader.short_ids(),
        repeating=repeating,
        unfollowed={node: relation for node, relation in unfollowed.items() if node not in shown},
    )


def _resolve(reader: StoreReader, question: Question, now: datetime, warnings: list[str]) -> _Starts:
    """Resolve a topic: to the node with that id, else to nodes that it means or names and to search hits."""
    topic = question.text
    newest = reader.newest(topic)
    if node := reader.nodes([newest]).get(newest):
        if newest != topic:
            warnings.append(f"{topic} was superseded; {newest} is its newest version.")
        text = f"{node.name} {node.content[:_TOPIC_CHARACTERS]}".strip()
        return _Starts(reader.understand(text, now), {newest: 1.0}, frozenset({newest}))
    candidates = reader.named(question)
    found = reader.search(question, _MAX_HITS, now)
    meant = names.choose_meant(topic, candidates)
    if any(len({each.id for each in meant if each.id.isdigit() is ours}) > 1 for ours in (True, False)):
        choices = ", ".join(f"{candidate.name} (id {candidate.id})" for candidate in meant)
        warnings.append(f"{topic!r} may be any of {choices}; give an id to choose.")
    topic_words = set(words(topic))
    contained = [candidate for candidate in candidates if topic_words.issuperset(words(candidate.name))]
    named = [candidate for candidate in contained if candidate.is_entity]
    first = {candidate.id: 1.0 for candidate in meant or named}
    entity_names = [frozenset(words(candidate.name)) for candidate in meant or named if candidate.is_entity]
    for node, each in (reader.nodes(found) if entity_names else {}).items():
        node_words = frozenset(words(each.content))
        found[node] = min(1.0, found[node] + NAME_BOOST * any(name <= node_words for name in entity_names))
    ids = (frozenset(candidate.id for candidate in each) for each in (meant, contained))
    return _Starts(question, first | found | first, *ids)


def _rank_topic(
    reader: StoreReader, request: Request, starts: _Starts, now: datetime, warnings: list[str], unfollowed: dict[str, str]
) -> list[Ranked]:
    """Walk from a topic's starts and score all nodes; add nodes that the lens leaves out to `unfollowed`."""
    found = starts.scores
    best = max(found.values())
    least = _SURE_SHARE * best if starts.topic.is_task else 0.0
    surely = {node: value for node, value in found.items() if value >= least}
    walked, sampled = _walk(reader, list(surely)[:_MAX_STARTS], request.depth, request.lens, surely, unfollowed)
    visits = dict.fromkeys(found, Visit(0)) | walked
    nodes = reader.nodes(visits)
    for node, total in sampled.items():
        name = nodes[node].name if node in nodes else node
        warnings.append(f"Of the {total} neighbours of {name!r} the {SAMPLE} most relevant were followed.")
    similarities = reader.similarities(starts.topic, list(nodes.values()))

    def ranked(node: Node, visit: Visit) -> Ranked:
        similarity = None if similarities is None else similarities.get(node.id, 0.0)
        preferred = request.lens.prefers(node)
        linked = score(visit.hops, similarity, recency(node.modified, now))
        if visit.path and similarity is not None:
            linked *= found[visit.path[0].origin] / best
        return Ranked(
            node,
            visit,
            min(1.0, (linked if similarity is None else found.get(node.id, linked)) + LENS_BOOST * preferred),
            similarity,
            linked=linked if visit.path and node.id in found else 0.0,
            preferred=preferred,
            only_named=node.category is Category.ENTITY and node.id not in starts.meant,
            is_topic=node.id in starts.meant | starts.named,
        )

    return [ranked(node, visits[node.id]) for node in nodes.values()]


def _blend(views: Sequence[Sequence[Ranked]]) -> list[Ranked]:
    """Merge the nodes of several topics. A score is half the best and half the mean over the topics, to favour shared nodes."""
    best: dict[str, Ranked] = {}
    total: dict[str, float] = {}
    for view in views:
        for ranked in view:
            node = ranked.node.id
            total[node] = total.get(node, 0.0) + ranked.score
            if node not in best or ranked.score > best[node].score:
                best[node] = ranked
    nodes = [replace(each, score=(each.score + total[node] / len(views)) / 2) for node, each in best.items()]
    return sorted(nodes, key=lambda each: (-each.score, each.visit.hops, each.node.category is Category.ENTITY, each.node.id))


def _drop_repetitions(nodes: Sequence[Ranked], fields: Mapping[str, Fields]) -> tuple[list[Ranked], dict[str, str]]:
    """Drop memories with the words of a more relevant one, and names that a Tana node shows; return the id that tells each, too."""
    whole = list[frozenset[str] | str]()
    told: dict[frozenset[str] | str, int] = {}
    for place, ranked in enumerate(nodes):
        text, shown = _list_told(ranked.node, fields.get(ranked.node.id, ()))
        whole.append(text)
        for each in filter(None, shown):
            told.setdefault(each, place)
    kept, repeating = [], {}
    for place, ranked in enumerate(nodes):
        teller = told.get(whole[place], place)
        if teller < place or (teller > place and ranked.visit.path):
            repeating[ranked.node.id] = nodes[teller].node.id
        else:
            kept.append(ranked)
    return kept, repeating


def _list_told(node: Node, fields: Fields) -> tuple[frozenset[str] | str, Sequence[frozenset[str] | str]]:
    """Return all that a node tells if another node may tell it, else ""; and what it tells of other nodes and itself."""
    if node.category is Category.MEMORY:
        return (text := stems(node.content)), [text]
    if node.category is not Category.TANA:
        return "", []
    shown = [line.removeprefix("- ") for line in node.content.splitlines()] + [value for _, values in fields for value in values]
    return "" if node.tags or shown else node.name, shown


def _walk(
    reader: StoreReader, starts: Iterable[str], depth: int, lens: Lens, scores: Mapping[str, float], unfollowed: dict[str, str]
) -> tuple[dict[str, Visit], dict[str, int]]:
    """Walk up to `depth` links from the starts, over the relations that the lens follows.

    Search hits, the nodes in `scores`, are sampled first and never walked to. The result is nearest first; sampled nodes have totals.
    """
    visits = {start: Visit(0) for start in starts}
    found = set(scores)
    against: defaultdict[str, list[Link]] = defaultdict(list)
    sampled: dict[str, int] = {}
    frontier = list(visits)
    most = most_mentions(reader.size)
    for hops in range(1, depth + 1):
        if not frontier or len(visits) >= _MAX_NODES:
            break
        neighbours = reader.neighbours(frontier, scores, SAMPLE)
        sampled |= {node: total for node, total in neighbours.totals.items() if total >= MOST_CHILDREN}
        best: dict[str, Link] = {}
        degrees = Counter(link.origin for link in neighbours.links)
        for link in neighbours.links:
            if link.relation in CONTRADICTING:
                against[link.origin if link.forward or link.relation == "CONTRADICTS" else link.target].append(link)
            if link.target in visits or link.target in found:
                continue
            if not lens.follows_link(link):
                unfollowed[link.target] = link.relation
                continue
            if hops > 1 and link.relation == "MENTIONS" and not link.forward and degrees[link.origin] > most:
                continue
            known = best.get(link.target)
            if known is None or _rate_link(link, scores, lens) > _rate_link(known, scores, lens):
                best[link.target] = link
        ordered = sorted(best.values(), key=lambda link: (_rate_link(link, scores, lens), link.target), reverse=True)
        for link in ordered[: _MAX_NODES - len(visits)]:
            visits[link.target] = Visit(hops, (*visits[link.origin].path, link))
        frontier = [link.target for link in ordered[:_MAX_FRONTIER] if link.target in visits]
    return {node: replace(place, contradicting=tuple(dict.fromkeys(against[node]))) for node, place in visits.items()}, sampled


def _rate_link(link: Link, scores: Mapping[str, float], lens: "Lens") -> float:
    """Rate a link by the score of its origin, the lens's preference for its relation, and its confidence."""
    return scores.get(link.origin, 0.0) + 0.3 * (link.relation in lens.prefers_relations) + 0.3 * link.confidence


def score(distance: int, similarity: float | None, recency: float) -> float:
    """Return the seed's score, 0..1, of a node at a distance in links."""
    closeness = 1.0 / max(1, distance)
    return 0.6 * closeness + 0.4 * recency if similarity is None else 0.4 * closeness + 0.35 * similarity + 0.25 * recency


def recency(modified: datetime | None, now: datetime) -> float:
    """Return 1 for a time that is now or in the future, falling to 1/e in 30 days; 0.5 if unknown. Both times are aware."""
    if modified is None:
        return _UNKNOWN_RECENCY
    return math.exp(-max(0.0, (now - modified).total_seconds()) / 86_400 / _RECENCY_DAYS)
