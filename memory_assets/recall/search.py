"""Search: the memories that answer a question, by meaning, words and graph.

Candidates come from LanceDB's vector and full-text indexes and from the sessions of the best of them. The components of
`memory_assets.recall.scoring` rank them. Apart from the indexes, all data for that is in memory (`memory_assets.recall.view`), so a search
takes two index queries, one read of the hits, and milliseconds for the network that reads the best together with the question.
"""

import logging
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
from pydantic import BaseModel, Field, computed_field

from memory_assets.arrays import Floats, Ids, Mask, Rows, Values
from memory_assets.graph.outdated import replaced_on
from memory_assets.graph.rules import DOUBT
from memory_assets.language.embedders.calibration import scale_of
from memory_assets.language.embedders.protocol import EmbedderError
from memory_assets.language.secrets import mask
from memory_assets.language.times import display_zone
from memory_assets.language.words import is_unspaced, stems
from memory_assets.models import REPLACING, Memory, SecretPolicy, State
from memory_assets.recall.bridges import DEPTH, Bridge, find_bridges
from memory_assets.recall.candidates import PREFERENCE_RANKS, Candidates, gather
from memory_assets.recall.likelihood import Fit, beside_the_best, finds_something, likelihoods
from memory_assets.recall.newer import find_newer_answer
from memory_assets.recall.question import Question, understand
from memory_assets.recall.reading import MOST_READ, read
from memory_assets.recall.repeats import Repeated, join
from memory_assets.recall.scoring import Scores, Weights, scaled_cosine, scaled_logits, score
from memory_assets.recall.view import View, current_view
from memory_assets.stores.lance import ids_in
from memory_assets.stores.memories import Filters, MemoryStore, follow_versions
from memory_assets.tenants import Tenant

_log = logging.getLogger(__name__)

_STRONG = 20
"""Best of each index whose neighbours in their sessions also become candidates."""
_BESIDE = 0.2
"""Support of the graph from which a memory below the floor is shown beside one above it."""
_NEAREST = 0.75
"""Similarity, scaled among the candidates, from which one below the floor is shown: it may answer in other words."""
_ALL_SAID = 0.999
"""Share of the idf mass of bare words from which a memory contains them all and is shown even below the floor."""
_OTHER_SCRIPT = 0.05
"""Share of texts in scripts without spaces from which a question in letters may concern them, which its words cannot show."""
_FEW = 2 * MOST_READ
"""If the network reads more candidates than this, as for a context, its log odds are scaled "in depth"."""
_BELOW_SUCCESSOR = 0.98
"""Factor of the score of a memory whose newer version is a candidate, too."""


class Component(BaseModel):
    """One part of a score."""

    name: str
    raw: float | None = Field(description="Value from the index or the graph; null if there was none.")
    value: float = Field(description="Scaled to 0..1.")
    weight: float
    """Its weight divided by the sum of the applicable components' weights."""
    reason: str = Field(description="Explanation for a person; may be empty.")

    @computed_field(description="Its contribution to the score.")
    @property
    def contribution(self) -> float:
        return self.value * self.weight


@dataclass(frozen=True, slots=True)
class Hit:
    """A memory that was found, its score within 0..1, and the components that add up to the score."""

    memory: Memory
    score: float
    components: tuple[Component, ...]
    same: tuple[Memory, ...] = ()
    """Further memories that say the same, best first; they are not hits themselves."""
    replaced_by: Memory | None = None
    """The hit with the current statement, if this one is outdated."""
    replaced_on: datetime | None = None
    """Since when that statement applies."""
    fit: Fit | None = None
    """How well it fits; None if `has_floor` does not hold for the search."""
    likelihood: float | None = None
    """Likelihood that it answers; None if the background of random memories is unknown."""


def search(tenant: Tenant, query: str | Question, **asked: Any) -> list[Hit]:
    """Return the hits of `search_with_bridges` without bridges; takes its arguments."""
    return search_with_bridges(tenant, query, bridges=0, **asked).hits


class Findings(NamedTuple):
    """The result of a search."""

    hits: list[Hit]
    bridges: list[Bridge]
    below_floor: bool = False
    """Whether no candidate fits, so that a search with a floor returns nothing."""
    vector: Floats | None = None
    """The question's vector; None for a blank query."""


def search_with_bridges(
    tenant: Tenant,
    query: str | Question,
    *,
    limit: int = 10,
    filters: Filters | None = None,
    weights: Weights | None = None,
    now: datetime | None = None,
    bridges: int = 5,
    depth: int = DEPTH,
    floor: bool = False,
    most_read: int = MOST_READ,
) -> Findings:
    """Return the memories that fit `query`, best first, and the paths through the graph that explain them.

    A blank query returns the newest memories and no paths. Of a fact that has changed, the newest version comes first; superseded memories
    are found only if the filters include them. Of memories that say the same, the best is a hit that lists the others.

    "Yesterday" and recency are relative to `now`. At most `bridges` paths of at most `depth` hops are returned. Without `floor`, the search
    always returns the nearest memories; with it, nothing if no memory fits, and a memory that does not fit only beside one that does. The
    network reads `most_read` candidates with the question; eight take some milliseconds.
    """
    filters = filters or Filters()
    moment = now or datetime.now(UTC)
    question = read_query(tenant, query, moment) if isinstance(query, str) else query
    if not question.text.strip():
        return Findings([Hit(memory, 1.0, ()) for memory in tenant.memories.recent(limit, filters)], [])
    ranked = rank(tenant, question, limit, filters, weights or Weights.of(tenant.settings), moment, most_read)
    may_reject = len(ranked.found) > 0 and has_floor(ranked)
    has_preference = not np.isnan(ranked.found.preference).all()
    below_floor = may_reject and not has_preference and not finds_something(ranked.question, ranked.likely, ranked.logits)
    if floor and below_floor:
        return Findings([], [], below_floor=True, vector=ranked.found.vector)
    if floor and may_reject:
        beside = ranked.judged.support.value >= _BESIDE
        nearest = scaled_cosine(ranked.found.cosine) >= _NEAREST
        lifted = np.any([~np.isnan(ranked.found.preference), *(lift.change > 0 for lift in ranked.lifts)], axis=0)
        named = ranked.question.is_bare & (ranked.judged.coverage >= _ALL_SAID)
        ranked = replace(ranked, shown=beside_the_best(ranked.likely, ranked.logits) | beside | nearest | lifted | named)
    paths: list[Bridge] = []
    if bridges:
        scores = dict(zip(ranked.found.ids.tolist(), ranked.scores.tolist(), strict=True))
        paths = find_bridges(tenant.memories, ranked.view, scores, limit=bridges, depth=depth, states=filters.states)
    return Findings(_hits(tenant, ranked, limit, filters), paths, below_floor, ranked.found.vector)


def has_floor(ranked: "Ranked") -> bool:
    """Return whether unlikely candidates can be rejected.

    They cannot if the question names a time or an author, has no topic words, or is in another script than some of the memories, or if the
    embedder's similarities do not separate unrelated texts.
    """
    question, view = ranked.question, ranked.view
    in_other_script = view.terms.unspaced >= _OTHER_SCRIPT and not is_unspaced(question.text)
    names_author = not question.spoken.isdisjoint(view.timeline.authors.called)
    return ranked.is_judged and bool(question.terms) and not (question.interval or in_other_script or names_author)


def read_query(tenant: Tenant, query: str, now: datetime | None = None) -> Question:
    """Parse a query for all steps of a search, in the time zone of the settings. Its secrets are masked like those of stored texts."""
    query = query if tenant.settings.secrets is SecretPolicy.ALLOW else mask(query)
    return understand(query, now or datetime.now(UTC), display_zone(tenant.settings))


class _Lift(NamedTuple):
    """A change of scores after the weighted mean of the components."""

    name: str
    change: Values
    reason: str


@dataclass(frozen=True, slots=True)
class Ranked:
    """The candidates of a question with their scores and likelihoods."""

    question: Question
    found: Candidates
    judged: Scores
    lifts: "tuple[_Lift, ...]"
    view: View
    shown: Mask
    """Which candidates may be hits."""
    likely: Values
    logits: Values
    """The network's log odds; NaN for candidates that it did not read."""
    is_weighed: bool
    is_judged: bool
    """Whether similarities separate unrelated texts, so that unlikely candidates can be rejected."""

    @property
    def scores(self) -> Values:
        return sum((lift.change for lift in self.lifts), self.judged.values)


def rank(
    tenant: Tenant, question: Question, limit: int, filters: Filters, weights: Weights, now: datetime, most_read: int
) -> Ranked:
    """Gather candidates for a question, and compute their scores and likelihoods."""
    view = current_view(tenant)
    unfiltered = filters == Filters() and view.timeline.all_active
    scope = Filters(states=()) if unfiltered else filters
    own = question.in_first_person(view.timeline.authors.called)
    found = tenant.with_embedder(lambda embedder: gather(tenant.memories, embedder, question, own, limit, scope))
    if (view.timeline.rows(found.ids) < 0).any():
        view = current_view(tenant, fresh=True)
    more = _find_further(tenant.memories, view, found, filters)
    if len(more):
        found = found.extended(more, view.timeline.columns["row_id"][view.timeline.rows(more)])
    judged = score(question, found, view, weights, now)
    logits = _read(question, found, judged.values, view, most_read) if weights.answer else np.full(len(found), np.nan)
    if not np.isnan(logits).all():
        judged.add("answer", weights.answer, logits, scaled_logits(logits, in_depth=most_read > _FEW))
    surely = _successors_asked_for(question, view, found), _successors(view, found.ids)
    newest = _lift_newest(view, found, surely, judged.values)
    scale = scale_of(tenant.embedder.name, tenant.memories.columns.scale)
    is_weighed = view.background.texts > 0 and view.background.column == tenant.memories.columns.live
    everything = np.ones(len(found))
    likely = likelihoods(question, found, judged.coverage, logits, view, tenant.embedder, scale) if is_weighed else everything
    current = newest.copy()
    if is_weighed and not question.interval and not np.isnan(logits).all():
        outdated = np.concatenate([old[found.places(newer) >= 0] for old, newer in surely])
        place = find_newer_answer(tenant.memories, view, found, likely, outdated, newest)
        if place is not None:
            best = newest.argmax()
            current[place], current[best] = newest[best], newest[best] * _BELOW_SUCCESSOR
    preferred = _lift_preferences(found, current)
    lifts = (
        _Lift("version", newest - judged.values, "a newer version comes before what it replaced"),
        _Lift("newer", current - newest, "it may answer, too, and is newer"),
        _Lift("preference", preferred - current, "a preference that may apply to the request"),
    )
    is_judged = is_weighed and scale.separates_unrelated
    return Ranked(question, found, judged, lifts, view, everything.astype(bool), likely, logits, is_weighed, is_judged)


def _read(question: Question, found: Candidates, scores: Values, view: View, most: int) -> Values:
    """Call `read`; reads nothing if the network's weights are missing, which `memory doctor` reports."""
    try:
        return read(question, found, scores, view.terms.idf, most)
    except EmbedderError as error:
        _log.warning("the network does not read the best hits: %s", error)
        return np.full(len(found), np.nan)


def _hits(tenant: Tenant, ranked: Ranked, limit: int, filters: Filters) -> list[Hit]:
    scores = ranked.scores
    order = np.argsort(-scores, kind="stable")
    order = order[ranked.shown[order]]
    distinct, places, end = list[Repeated](), {}, 0
    while len(distinct) < limit and end < len(order):
        next_best, end = order[end : 2 * end or limit], 2 * end or limit
        ids = ranked.found.ids[next_best].tolist()
        places |= dict(zip(ids, next_best.tolist(), strict=True))
        memories = tenant.memories.take(ids, ranked.found.row_ids[next_best].tolist())
        for memory in (memories[number] for number in ids if number in memories):
            wanted = not filters.states or memory.state in filters.states
            if wanted and not join(memory, distinct) and len(distinct) < limit:
                distinct.append(Repeated(memory))
    is_judged = has_floor(ranked)
    hits = [
        Hit(
            each.first,
            float(scores[place]),
            _components(ranked, place),
            tuple(each.others),
            fit=Fit.of(float(ranked.likely[place]), is_read=not np.isnan(ranked.logits[place])) if is_judged else None,
            likelihood=float(ranked.likely[place]) if ranked.is_weighed else None,
        )
        for each in distinct
        for place in [places[each.first.id]]
    ]
    hits = _set_replacements(ranked.view, hits)
    return _order_versions(hits) if State.SUPERSEDED in filters.states else hits


def _set_replacements(view: View, hits: list[Hit]) -> list[Hit]:
    """Set on each outdated hit the newest of the hits that replace it."""
    shown = {hit.memory.id: hit.memory for hit in hits}
    places, newer = _successors(view, np.array(list(shown), np.int64))
    found: dict[int, Memory] = {}
    for place, number in zip(places.tolist(), newer.tolist(), strict=True):
        if number in shown:
            found[place] = max(found.get(place, shown[number]), shown[number], key=lambda memory: memory.created_at)
    updated = list(hits)
    for place, memory in found.items():
        since = replaced_on(view.graph.replaced, hits[place].memory.id, memory)
        updated[place] = replace(hits[place], replaced_by=memory, replaced_on=since)
    return updated


def _find_further(store: MemoryStore, view: View, found: Candidates, filters: Filters) -> Ids:
    """Return ids of further candidates: neighbours of the best in their sessions, and their newer versions."""
    strong = found.best(_STRONG)
    rows = view.timeline.rows(strong)
    beside = np.concatenate([view.timeline.neighbour(rows, -1), view.timeline.neighbour(rows, 1)])
    of_sentences = np.array([each.new_id for number in strong.tolist() for each in view.graph.replaced.get(number, ())], np.int64)
    newer = np.concatenate([_successors(view, strong)[1], of_sentences])
    more = np.union1d(view.timeline.columns["id"][beside[beside >= 0]], newer)
    more = np.setdiff1d(more, found.ids)
    rows = view.timeline.rows(more)
    more, rows = more[rows >= 0], rows[rows >= 0]
    if filters == Filters() or not len(more):
        return more[view.timeline.columns["active"][rows]]
    passing = store.scan(("id",), f"{ids_in(more.tolist())} AND {filters.sql()}")
    return np.sort(passing["id"].to_numpy())


def _successors(view: View, ids: Ids) -> tuple[Rows, Ids]:
    """Return pairs (index in `ids`, id of a newer version of that memory)."""
    places, rows = view.graph.edges.outgoing(ids)
    types, targets = (view.graph.edges.columns[name][rows] for name in ("type", "target"))
    kept = np.isin(types, [code for code, name in enumerate(view.graph.types.names) if name in REPLACING])
    return places[kept], targets[kept]


def _possible_successors(view: View, ids: Ids) -> tuple[Rows, Ids, Values]:
    """Return triples (index in `ids`, id of a memory that perhaps replaces that memory, probability of it)."""
    edges, graph = view.graph.edges, view.graph
    places, rows = edges.outgoing(ids)
    kept = np.isin(edges.columns["type"][rows], [code for code, name in enumerate(graph.types.names) if name == "RELATES_TO"])
    kept &= np.isin(edges.columns["origin"][rows], [code for code, name in enumerate(graph.origins.names) if name == "claims"])
    return places[kept], edges.columns["target"][rows[kept]], edges.columns["confidence"][rows[kept]] / DOUBT


def _successors_asked_for(question: Question, view: View, found: Candidates) -> tuple[Rows, Ids]:
    """Return `_successors` of candidates in which the outdated sentence has most of the words they share with the question."""
    pairs = [
        (place, change.new_id)
        for place, number in enumerate(found.ids.tolist())
        if number in view.graph.replaced
        for shared in (len(question.stems & stems(found.texts[place])),)
        for change in view.graph.replaced[number]
        if 2 * len(question.stems & stems(change.old_text)) > shared
    ]
    return np.array([place for place, _ in pairs], np.intp), np.array([newer for _, newer in pairs], np.int64)


def _lift_newest(view: View, found: Candidates, surely: tuple[tuple[Rows, Ids], ...], scores: Values) -> Values:
    """Lift what replaced a candidate, or its sentence that is asked for, to its score.

    The more doubtful a possible replacement, the better it must fit itself.
    """
    scores = scores.copy()
    places, ids, probability = _possible_successors(view, found.ids)
    unsettled = ~np.isin(places, np.concatenate([old for old, _ in surely]))
    perhaps = places[unsettled], ids[unsettled], 1 - probability[unsettled]
    for old, newer, doubts in (perhaps, *((*each, np.zeros(len(each[0]))) for each in surely)):
        new = found.places(newer)
        kept = new >= 0
        pairs = zip(old[kept].tolist(), new[kept].tolist(), doubts[kept].tolist(), strict=True)
        for before, after, doubt in sorted(pairs, key=lambda pair: -scores[pair[0]]):
            if not doubt or scores[after] >= doubt * scores[before] > 0:
                scores[after] = max(scores[after], scores[before])
                scores[before] *= _BELOW_SUCCESSOR
    return scores


def _lift_preferences(found: Candidates, scores: Values) -> Values:
    preferences = np.flatnonzero(~np.isnan(found.preference))
    preferences = preferences[np.argsort(-found.preference[preferences], kind="stable")]
    scores = scores.copy()
    for preference, rank in zip(preferences.tolist(), PREFERENCE_RANKS, strict=False):
        others = np.sort(np.delete(scores, preference))[::-1]
        if rank <= len(others):
            scores[preference] = max(scores[preference], others[rank - 1])
    return scores


def _order_versions(hits: list[Hit]) -> list[Hit]:
    """Move each superseded memory directly behind its newest version among the hits."""
    ids = {hit.memory.id for hit in hits}
    newer = {hit.memory.id: hit.memory.superseded_by for hit in hits if hit.memory.superseded_by in ids}
    versions = [list(follow_versions(hit.memory.id, newer.get)) for hit in hits]
    heads = [chain[-1] for chain in versions]
    ordered = sorted(zip(versions, hits, strict=True), key=lambda each: (heads.index(each[0][-1]), len(each[0])))
    return [hit for _, hit in ordered]


def _components(ranked: Ranked, place: int) -> tuple[Component, ...]:
    parts = (
        Component(
            name=name,
            raw=None if np.isnan(raw[place]) else float(raw[place]),
            value=float(value[place]),
            weight=weight,
            reason=ranked.judged.reason(name, place),
        )
        for name, weight, raw, value in ranked.judged.parts
    )
    changes = [(lift, float(lift.change[place])) for lift in ranked.lifts]
    lifted = (
        Component(name=lift.name, raw=change, value=change, weight=1.0, reason=lift.reason) for lift, change in changes if change
    )
    return (*parts, *lifted)
