"""Writing the brief: choose the memories that a starting session may be shown, render their facts and count tokens.

A run rebuilds the whole brief from the store. Storing, editing or forgetting a memory updates its lines at once, and those of memories
that contradict it.
"""

import json
import logging
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from itertools import islice
from typing import TYPE_CHECKING

from memory_assets.errors import StoreBusyError, safe_message
from memory_assets.graph.outdated import find_outdated, find_undecided, list_replaced, read_changes, read_contradictions
from memory_assets.graph.rules import DOUBT
from memory_assets.language.statements import SURE
from memory_assets.language.times import day_in, display_zone
from memory_assets.learn.brief import (
    BULLET,
    FORMAT,
    LONGEST_JOINED,
    MOST,
    NAME,
    Backlog,
    Brief,
    BriefLine,
    parse_brief,
    render_line,
)
from memory_assets.learn.brief_facts import Doubts, Fact, Need, is_curated, list_facts
from memory_assets.learn.curation import Curation
from memory_assets.models import STANDING_KINDS, Kind, Source, State, is_time_guessed
from memory_assets.sources.projects import is_home, slug_of
from memory_assets.stores.filters import Filters
from memory_assets.stores.memories import follow_versions

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import tzinfo

    import pyarrow as pa
    from duckdb import DuckDBPyConnection

    from memory_assets.graph.outdated import StatementChange
    from memory_assets.models import Memory
    from memory_assets.stores.state import TenantState
    from memory_assets.tenants import Tenant

_log = logging.getLogger(__name__)
_HIDDEN_NAME = "untold.json"
_MAX_LINES = 960
_MAX_PROJECT_LINES = 40
_MAX_KIND_LINES = {Kind.USER: 80, Kind.SELF_KNOWLEDGE: 40, Kind.FEEDBACK: 300}
"""Limits for kinds that are not limited by project."""
_MIN_ID_DIGITS = 6
_KINDS = ("user", "self_knowledge", "feedback", "project", "reference", "pattern", "insight", "note", "session")
"""Kinds in the brief. Ratings, reflections and proposals are material to learn from. A project has its newest session only."""
_CHOICE_SQL = """
    SELECT id FROM (
        SELECT id, project, source = $curated AS curated, greatest(0, date_diff('hour', created_at, now()) / 24.0) AS age,
               coalesce(relevance, importance) * pow(0.5, age / 90)
               * if(list_contains(metadata->>'$.guessed[*]', 'created_at'), 0.5, 1) AS standing,
               CASE WHEN kind IN ('user', 'self_knowledge') THEN 'standing'
                    WHEN kind IN ('feedback', 'session') THEN kind ELSE '' END AS part
        FROM stored LEFT JOIN (SELECT id, relevance FROM relevance_scores) USING (id)
    )
    QUALIFY row_number() OVER (PARTITION BY curated, part, CASE WHEN part IN ('', 'session') AND NOT curated THEN project END
                               ORDER BY if(part = 'session', -age, standing) DESC, id)
        <= CASE part WHEN 'standing' THEN 60 WHEN 'feedback' THEN 300 WHEN 'session' THEN 1 ELSE if(curated, $most // 2, 12) END
    ORDER BY curated DESC, standing DESC, id LIMIT $most
"""
"""At most 60 memories about the user, 300 of feedback and 12 of each project; curated and other memories count separately. A memory's
standing halves every 90 days, and is half if its date is guessed: a file that was copied today may describe the distant past."""
_EDGES_SQL = f"""
    SELECT source_id, target_id, type FROM graph_edges JOIN graph_memories a ON a.id = source_id JOIN graph_memories b ON b.id = target_id
    WHERE (type IN ('CONTRADICTS', 'EVOLVED_INTO', 'INVALIDATED_BY') OR (origin = 'claims' AND confidence >= {SURE * DOUBT}))
      AND a.state = 'active' AND b.state = 'active'
      AND NOT (origin = 'claims' AND (FROM graph_statements SELECT count(*) > 2 WHERE memory_id = source_id))
    ORDER BY type = 'RELATES_TO' DESC, b.created_at, target_id
"""
_CHANGES_SQL = f"""
    SELECT memory_id FROM (
        SELECT memory_id, row_number() OVER (PARTITION BY scope ORDER BY s.created_at DESC, memory_id, place) AS number
        FROM graph_statements s JOIN graph_memories ON id = memory_id WHERE announces AND state = '{State.ACTIVE}'
    )
    WHERE number <= {_MAX_PROJECT_LINES * 2} ORDER BY number, memory_id LIMIT {_MAX_LINES}
"""
"""Memories with a sentence that announces a change, the newest of each project."""
_KIND_OF_TITLE = re.compile(r"^(?:(?:project|user|feedback|reference|notes?)(?:[\s:]|$)[\s:–—-]*)+", re.IGNORECASE)
_DATE = re.compile(r"\d{4}[-_]\d\d(?:[-_]\d\d)?")
_WORD = re.compile(r"[^\W_]+")
_STEM_LETTERS = 4


def renew_brief(tenant: "Tenant") -> None:
    """Rebuild the brief from the store and write it if it differs. A failure is only logged."""
    _update(tenant, lambda brief: _build(tenant, brief))


def ensure_brief(tenant: "Tenant") -> None:
    """Build the brief if it is missing or of another release. A tenant without memories needs none."""
    if parse_brief(tenant.state.get(NAME)) is None and tenant.exists and len(tenant.memories):
        renew_brief(tenant)


def update_brief(tenant: "Tenant", changed: "Iterable[tuple[Memory | None, Memory]]") -> None:
    """Update the lines of changed memories in the brief; build the brief if there is none. A failure is only logged.

    `changed` holds each memory before, or None for a new one, and after the change.
    """
    pairs = [(before, after) for before, after in changed if before is None or _told_of(before) != _told_of(after)]
    now = {after.id: after for _, after in pairs}
    known = {before.id for before, _ in pairs if before}

    def change(brief: Brief | None) -> Brief:
        if brief is None:
            return _build(tenant, brief)
        new = [each for each in now.values() if each.state is State.ACTIVE and each.kind in _KINDS]
        new, kept = _displace_sessions(tenant, new, [each for each in brief.lines if each.id not in now])
        lines = _redraw(tenant, brief, new, kept, known)
        return replace(brief, memories=tenant.memories.count(Filters()), lines=lines, version=tenant.memories.version)

    if now:
        _update(tenant, change)


def update_contradicting(tenant: "Tenant", decided: Collection[int]) -> None:
    """Update the lines of memories that contradict the `decided` ones, where they stand. A failure is only logged."""

    def change(brief: Brief | None) -> Brief:
        if brief is None:
            return _build(tenant, brief)
        return replace(brief, lines=_redraw(tenant, brief, [], brief.lines, decided))

    if tenant.catalog.exists:
        _update(tenant, change)


def _redraw(
    tenant: "Tenant", brief: Brief, new: "Sequence[Memory]", kept: Sequence[BriefLine], decided: Collection[int]
) -> tuple[BriefLine, ...]:
    """Return lines for `new` memories, then the `kept` ones, of which those of memories that contradict `decided` ones are updated.

    While another process holds the catalog, nothing is in doubt, and the kept lines stay as they are.
    """
    asked, shown, found = {each.id for each in new if each.id in decided}, set[int](), None
    try:
        if decided and tenant.catalog.exists:
            with tenant.catalog.interactive.read() as connection:
                ends = {end for pair in read_contradictions(connection, decided) for end in pair[:2]}
                shown = ends & {each.id for each in kept}
                found = _read_changes(connection) if asked or shown else None
    except StoreBusyError as error:
        _log.warning("contradictions in the brief were not updated: %s", safe_message(error))
    contradicting = tenant.memories.get(shown)
    doubts = Doubts()
    if found:
        _, contrary, changes = found
        ids = asked | shown
        contrary = [pair for pair in contrary if not ids.isdisjoint(pair)]
        changes = [each for each in changes if each.verdict != "contradicted" or not ids.isdisjoint((each.old_id, each.new_id))]
        doubts = _make_doubts(tenant, changes, contrary, [*(each for each in new if each.id in asked), *contradicting])
    drawn = {memory.id: _render_lines(tenant, brief, [memory], doubts) for memory in contradicting}
    lines = [line for each in kept for line in (drawn.pop(each.id, ()) if each.id in shown else (each,))]
    return (*_render_lines(tenant, brief, new, doubts), *lines)[:_MAX_LINES]


def _told_of(memory: "Memory") -> tuple[object, ...]:
    """Return what a memory's lines are made of."""
    return memory.content, memory.title, memory.kind, memory.project, memory.state


def _displace_sessions(tenant: "Tenant", new: "list[Memory]", lines: list[BriefLine]) -> "tuple[list[Memory], list[BriefLine]]":
    """Return the memories and lines that stay if a project shows its newest session alone."""
    sessions = [each for each in new if each.kind is Kind.SESSION]
    if not sessions:
        return new, lines
    shown = tenant.memories.get([each.id for each in lines if each.kind == Kind.SESSION])
    newest = {each.project: each for each in sorted([*shown, *sessions], key=lambda each: each.created_at)}
    left_out = {each.id for each in (*shown, *sessions) if newest[each.project] is not each}
    return [each for each in new if each.id not in left_out], [each for each in lines if each.id not in left_out]


def read_untold(state: "TenantState") -> frozenset[int]:
    """Return the ids of the memories that the user hid from the brief."""
    return _parse_ids(state.get(_HIDDEN_NAME))


def set_told(tenant: "Tenant", number: int, *, told: bool) -> None:
    """Hide a memory from the brief, or show it again if `told`. A newer version of it is not hidden."""

    def change(content: bytes | None) -> bytes:
        others = _parse_ids(content) - {number}
        return json.dumps(sorted(others if told else others | {number})).encode()

    tenant.state.update(_HIDDEN_NAME, change)
    renew_brief(tenant)


def _parse_ids(content: bytes | None) -> frozenset[int]:
    try:
        return frozenset(map(int, json.loads(content or b"[]")))
    except (ValueError, TypeError):
        return frozenset()


def _update(tenant: "Tenant", make: "Callable[[Brief | None], Brief]") -> None:
    """Write the brief that `make` returns for the old one; retry if another process wrote first. A failure is only logged."""

    def change(content: bytes | None) -> bytes | None:
        old = parse_brief(content)
        made = make(old)
        hidden = read_untold(tenant.state)
        brief = replace(made, lines=tuple(each for each in made.lines if each.id not in hidden))
        if brief == old:
            return content
        return json.dumps({"format": FORMAT, **asdict(brief)}, ensure_ascii=False, separators=(",", ":")).encode()

    try:
        if tenant.exists:
            tenant.state.update(NAME, change)
    except Exception as error:  # noqa: BLE001 - the memories are stored all the same
        _log.warning("the brief was not written: %s", safe_message(error))


def _build(tenant: "Tenant", old: Brief | None) -> Brief:
    tenant.memories.ensure_version(old.version if old else 0)
    version = tenant.memories.version
    known = {each.text: (each.tokens, each.more) for each in old.lines} if old else {}
    kinds = ", ".join(f"'{kind}'" for kind in _KINDS)
    where = f"state = '{State.ACTIVE}' AND kind IN ({kinds})"
    candidates = tenant.memories.scan(("id", "kind", "source", "project", "importance", "created_at", "metadata"), where)
    with tenant.catalog.read() as connection:
        replaced, contrary, changes = _read_changes(connection)
        changed = [number for (number,) in connection.execute(_CHANGES_SQL).fetchall()]
        best = _choose_memories(connection, candidates)
    doubts = _make_doubts(tenant, changes, contrary, tenant.memories.get(list_replaced(changes)))
    wanted = dict.fromkeys([*best, *(number for number, _ in doubts.newer), *changed])
    chosen = list(dict.fromkeys(list(follow_versions(number, replaced.get))[-1] for number in wanted))
    memories = {memory.id: memory for memory in tenant.memories.get(chosen) if memory.state is State.ACTIVE}
    ordered = [memories[number] for number in chosen if number in memories]
    newest: dict[tuple[str, str, str], Memory] = {}
    for each in sorted(ordered, key=lambda each: (each.created_at, is_curated(each))):
        newest[_topic_key(each)] = each
    curated = {_topic_key(each) for each in ordered if is_curated(each)}
    shown = [each for each in ordered if _topic_key(each) not in curated or newest[_topic_key(each)] is each]
    facts = _order_facts((memory, fact) for memory in shown for fact in _list_facts(memory, doubts))
    count = tenant.memories.count(Filters())
    zone = display_zone(tenant.settings)
    lines = [_render_fact(memory, fact, known, count, zone) for memory, fact in islice(_limit_groups(facts), _MAX_LINES)]
    has_homes = tenant.is_sources_tenant and os.access(tenant.settings.pai_learning_dir, os.F_OK)
    backlog = Curation(tenant).backlog() if has_homes else Backlog()
    return Brief(count, tuple(lines), backlog, version)


def _make_doubts(
    tenant: "Tenant", changes: "Sequence[StatementChange]", contrary: Sequence[tuple[int, int]], memories: "Iterable[Memory]"
) -> Doubts:
    """Return what is in doubt now; the replaced statements only of `memories`."""
    pairs = [(each.old_id, each.new_id) for each in changes if each.verdict == "contradicted"]
    undecided = find_undecided(tenant, [*contrary, *pairs])
    left = [each for each in changes if each.verdict != "contradicted" or frozenset((each.old_id, each.new_id)) in undecided]
    whole = [pair for pair in contrary if frozenset(pair) in undecided]
    found = find_outdated(list_replaced(changes), {}, memories, tenant.memories.get)
    outdated = {number: {each.sentence for each in sentences} for number, sentences in found.items()}
    return replace(Doubts.of(left, outdated), undecided=dict([*whole, *((other, one) for one, other in whole)]))


def _list_facts(memory: "Memory", doubts: Doubts) -> list[Fact]:
    other = doubts.undecided.get(memory.id, 0)
    return [replace(fact, contrary=fact.contrary or other) for fact in list_facts(memory, doubts)]


def _order_facts(facts: "Iterable[tuple[Memory, Fact]]") -> "list[tuple[Memory, Fact]]":
    """Return the most needed facts first; each further fact of a memory counts as needed one step less than the one before."""
    told: Counter[int] = Counter()
    steps: list[tuple[int, Memory, Fact]] = []
    for memory, fact in sorted(facts, key=lambda each: (each[1].need, -each[1].likelihood)):
        steps.append((fact.need + told[memory.id] if fact.need else 0, memory, fact))
        told[memory.id] += 1
    return [(memory, fact) for _, memory, fact in sorted(steps, key=lambda each: each[0])]


def _limit_groups(facts: "Sequence[tuple[Memory, Fact]]") -> "Iterator[tuple[Memory, Fact]]":
    """Yield the first facts of each project and of each kind that has its own limit, in the given order."""
    count: Counter[tuple[str, str]] = Counter()
    places = []
    for memory, _ in facts:
        group = ("", memory.project) if memory.kind not in _MAX_KIND_LINES else (memory.kind, "")
        count[group] += 1
        places.append(count[group])
    most = sorted(places)[_MAX_LINES - 1] if len(places) > _MAX_LINES else _MAX_LINES
    for (memory, fact), place in zip(facts, places, strict=True):
        if place <= min(most, _MAX_KIND_LINES.get(memory.kind, _MAX_PROJECT_LINES)):
            yield memory, fact


def _topic_key(memory: "Memory") -> tuple[str, str, str]:
    """Return the key of memories about the same topic. If one of them is curated, the brief has only the newest."""
    return memory.kind, memory.title.casefold(), "" if memory.kind is Kind.FEEDBACK else slug_of(memory.project)


def _choose_memories(connection: "DuckDBPyConnection", candidates: "pa.Table") -> Sequence[int]:
    """Return the ids of the memories that fit into the brief: curated ones first, then by relevance and age."""
    connection.register("stored", candidates)
    parameters = {"curated": Source.PAI_LEARNING.value, "most": _MAX_LINES}
    return [number for (number,) in connection.execute(_CHOICE_SQL, parameters).fetchall()]


def _read_changes(connection: "DuckDBPyConnection") -> tuple[dict[int, int], list[tuple[int, int]], "list[StatementChange]"]:
    """Return what the last graph build found: newer ids by replaced id, contradicting pairs, and changed statements.

    A sure change counts as a replacement, though it may not be certain: a session is told the newer statement alone.
    """
    edges = connection.execute(_EDGES_SQL).fetchall()
    contrary = [(one, two) for one, two, kind in edges if kind == "CONTRADICTS"]
    replaced = {one: two for one, two, kind in edges if kind != "CONTRADICTS"}
    changes = [
        each._replace(verdict="replaced") if each.verdict == "perhaps replaced" and each.probability >= SURE else each
        for each in read_changes(connection)
    ]
    return replaced, contrary, changes


def _render_lines(tenant: "Tenant", brief: Brief, memories: "Sequence[Memory]", doubts: Doubts) -> list[BriefLine]:
    known = {each.text: (each.tokens, each.more) for each in brief.lines}
    zone = display_zone(tenant.settings)
    return [
        _render_fact(memory, fact, known, brief.memories, zone) for memory in memories for fact in _list_facts(memory, doubts)
    ]


def _render_fact(
    memory: "Memory", fact: "Fact", known: "Mapping[str, tuple[int, int]]", memories: int, zone: "tzinfo"
) -> BriefLine:
    """Render the line of a fact. `known` has the token counts of old lines; more `memories` need more digits of an id."""
    digits = max(_MIN_ID_DIGITS, len(str(memories)) + 3)
    is_dated = memory.kind not in STANDING_KINDS and not is_time_guessed(memory.metadata)
    day = f"{day_in(memory.created_at, zone)} " if is_dated else ""
    note = f", undecided: {str(fact.contrary)[:digits]} says otherwise" if fact.contrary else ""
    head = f"{day}(id {str(memory.id)[:digits]}{note}) {_title_prefix(memory.title, fact.text)}"
    rendered = render_line(f"{head}{fact.text}", LONGEST_JOINED if memory.kind is Kind.SESSION else MOST)
    begin = 0 if note else len(render_line(head)) + 1
    tokens, more = known.get(rendered, (0, 0))
    if not tokens:
        from memory_assets.language.tokens import count_tokens

        tokens, more = count_tokens(f"{rendered}\n"), count_tokens(f"; {rendered[begin:]}")
    project = "" if is_home(memory.project) else memory.project
    spare = fact.need is Need.EXPLAINING
    lead = len(render_line(f"{fact.lead} ")) - len(BULLET) + 1 if fact.lead else 0
    return BriefLine(memory.kind, project, rendered, tokens, memory.id, is_curated(memory), begin, more, fact.place, lead, spare)


def _title_prefix(title: str, text: str) -> str:
    """Return a title without its kind as a prefix to a fact that repeats none of its words; else an empty string.

    A title of one word is a file's name: its words are separated, and its date is dropped.
    """
    named = " ".join(_WORD.findall(_DATE.sub(" ", title)))
    label = _KIND_OF_TITLE.sub("", title if " " in title else named)
    folded = text.casefold()
    words = _WORD.findall(_DATE.sub(" ", label))
    is_repeated = any(len(word) >= _STEM_LETTERS and word.casefold()[:-1] in folded for word in words)
    return f"{label}: " if label and not is_repeated else ""
