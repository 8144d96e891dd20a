"""Writes the brief: chooses the memories that a starting session may be told, and counts their tokens.

A run rewrites the whole brief from the store. Storing, editing or forgetting a memory updates its line at once.
"""

import json
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from itertools import islice
from typing import TYPE_CHECKING

from memory_assets.errors import safe_message
from memory_assets.graph.outdated import find_outdated, list_replaced, read_changes
from memory_assets.language.secrets import marks
from memory_assets.language.times import day_in, display_zone
from memory_assets.learn.brief import FORMAT, MOST, MOST_OF_SESSION, NAME, Backlog, Brief, BriefLine, line, parse_brief
from memory_assets.learn.brief_facts import STANDING, Doubts, Fact, Need, is_curated, list_facts
from memory_assets.learn.curation import Curation
from memory_assets.models import Kind, Source, State
from memory_assets.sources.projects import is_home, slug_of
from memory_assets.stores.filters import Filters

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
_UNTOLD = "untold.json"
_MOST = 960
"""Lines of the whole brief."""
_MOST_OF_PROJECT = 40
_MOST_OF = {Kind.USER: 80, Kind.SELF_KNOWLEDGE: 40, Kind.FEEDBACK: 300}
"""Lines of a kind; of others, of a project."""
_FEWEST_DIGITS = 6
"""Of an id."""
_TOLD = ("user", "self_knowledge", "feedback", "project", "reference", "pattern", "insight", "note", "session")
"""Kinds that a session's beginning may be told; ratings, reflections and proposals are material to learn from. Of what sessions
did each project is told the newest."""
_CHOSEN = """
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
"""At most 60 lines about the user, 300 of feedback, 12 of each project; curated and other memories count separately. Standing halves in 90
days. A memory of a guessed date counts half: a file that was copied today may say what is long past."""
_DOUBTED = """
    SELECT source_id, target_id, type FROM graph_edges JOIN graph_memories a ON a.id = source_id JOIN graph_memories b ON b.id = target_id
    WHERE type IN ('CONTRADICTS', 'EVOLVED_INTO', 'INVALIDATED_BY') AND a.state = 'active' AND b.state = 'active'
      AND NOT (origin = 'claims' AND (FROM graph_statements SELECT count(*) > 2 WHERE memory_id = source_id))
    ORDER BY b.created_at, target_id
"""
_CHANGED = f"""
    SELECT memory_id FROM (
        SELECT memory_id, row_number() OVER (PARTITION BY scope ORDER BY s.created_at DESC, memory_id, place) AS number
        FROM graph_statements s JOIN graph_memories ON id = memory_id WHERE announces AND state = '{State.ACTIVE}'
    )
    WHERE number <= {_MOST_OF_PROJECT * 2} ORDER BY number, memory_id LIMIT {_MOST}
"""
"""Memories with a sentence that says that something changed, the newest of each project."""
_OF_FILE = frozenset({"project", "user", "feedback", "reference", "note", "notes", "memory"})
"""Words of titles that say nothing."""
_DATE = re.compile(r"\d{4}[-_]\d\d(?:[-_]\d\d)?")
_WORD = re.compile(r"[^\W_]+")
_STEM = 4
"""Letters by which a word is recognised."""


def renew_brief(tenant: "Tenant") -> None:
    """Rewrite the brief from the store if it differs. A failure goes to the log."""
    _write(tenant, lambda held: _made(tenant, held))


def tell_brief(tenant: "Tenant", changed: "Iterable[Memory]") -> None:
    """Update the lines of changed memories in the brief. If there is no brief, write it. A failure goes to the log."""
    now = {memory.id: memory for memory in changed}

    def change(held: Brief | None) -> Brief:
        if held is None:
            return _made(tenant, held)
        newer = {memory.project for memory in now.values() if memory.kind is Kind.SESSION}
        kept = [each for each in held.lines if each.id not in now and not (each.kind == Kind.SESSION and each.project in newer)]
        new = [each for each in now.values() if each.state is State.ACTIVE and each.kind in _TOLD and not marks(each.content)]
        known = {each.text: (each.tokens, each.more) for each in held.lines}
        zone = display_zone(tenant.settings)
        told = [_of_fact(memory, fact, known, held.memories, zone) for memory in new for fact in list_facts(memory, Doubts())]
        return replace(held, memories=tenant.memories.count(Filters()), lines=(*told, *kept)[:_MOST])

    _write(tenant, change)


def read_untold(state: "TenantState") -> frozenset[int]:
    """Ids of the memories that the user wants no session to begin with."""
    return _ids(state.get(_UNTOLD))


def set_told(tenant: "Tenant", number: int, *, told: bool) -> None:
    """Let sessions begin without a memory, or with it again. A newer version of it is told."""

    def change(held: bytes | None) -> bytes:
        others = _ids(held) - {number}
        return json.dumps(sorted(others if told else others | {number})).encode()

    tenant.state.update(_UNTOLD, change)
    renew_brief(tenant)


def _ids(held: bytes | None) -> frozenset[int]:
    try:
        return frozenset(map(int, json.loads(held or b"[]")))
    except (ValueError, TypeError):
        return frozenset()


def _write(tenant: "Tenant", make: "Callable[[Brief | None], Brief]") -> None:
    """Write what `make` makes of the brief; again if another process was faster. A failure goes to the log: what was stored is stored."""

    def change(content: bytes | None) -> bytes | None:
        held, untold = parse_brief(content), read_untold(tenant.state)
        made = make(held)
        brief = replace(made, lines=tuple(each for each in made.lines if each.id not in untold))
        if brief == held:
            return content
        return json.dumps({"format": FORMAT, **asdict(brief)}, ensure_ascii=False, separators=(",", ":")).encode()

    try:
        if tenant.exists:
            tenant.state.update(NAME, change)
    except Exception as error:  # noqa: BLE001 - see above
        _log.warning("the brief was not written: %s", safe_message(error))


def _made(tenant: "Tenant", held: Brief | None) -> Brief:
    known = {each.text: (each.tokens, each.more) for each in held.lines} if held else {}
    kinds = ", ".join(f"'{kind}'" for kind in _TOLD)
    where = f"state = '{State.ACTIVE}' AND kind IN ({kinds})"
    tellable = tenant.memories.scan(("id", "kind", "source", "project", "importance", "created_at", "metadata"), where)
    with tenant.catalog.read() as connection:
        replaced, undecided, changes, changed = _doubts(connection)
        best = _chosen(connection, tellable)
    is_replaced = list_replaced(changes)
    found = find_outdated(is_replaced, {}, tenant.memories.get(is_replaced), tenant.memories.get)
    outdated = {number: {each.sentence for each in told} for number, told in found.items()}
    doubts = Doubts.of(changes, outdated)
    wanted = dict.fromkeys([*best, *(number for number, _ in doubts.newer), *changed])
    chosen = list(dict.fromkeys(_last(number, replaced) for number in wanted))
    memories = {memory.id: memory for memory in tenant.memories.get(chosen) if memory.state is State.ACTIVE}
    ordered = [memories[number] for number in chosen if number in memories]
    newest: dict[tuple[str, str, str], Memory] = {}
    for each in sorted(ordered, key=lambda each: (each.created_at, is_curated(each))):
        newest[_name(each)] = each
    curated = {_name(each) for each in ordered if is_curated(each)}
    told = [each for each in ordered if not marks(each.content) and (_name(each) not in curated or newest[_name(each)] is each)]
    facts = [
        (memory, fact if fact.contrary or memory.id not in undecided else replace(fact, contrary=undecided[memory.id]))
        for memory in told
        for fact in list_facts(memory, doubts)
    ]
    facts.sort(key=lambda each: (each[1].need, -each[1].likelihood))
    count = tenant.memories.count(Filters())
    zone = display_zone(tenant.settings)
    lines = [_of_fact(memory, fact, known, count, zone) for memory, fact in islice(_most_needed(facts), _MOST)]
    has_homes = tenant.is_sources_tenant and tenant.settings.pai_learning_dir.is_dir()
    backlog = Curation(tenant).backlog() if has_homes else Backlog()
    return Brief(count, tuple(lines), backlog)


def _most_needed(facts: "Sequence[tuple[Memory, Fact]]") -> "Iterator[tuple[Memory, Fact]]":
    """As many of the ordered facts as have room: of each project, of the user and of feedback the first ones."""
    count: Counter[tuple[str, str]] = Counter()
    places = []
    for memory, _ in facts:
        group = ("", memory.project) if memory.kind not in _MOST_OF else (memory.kind, "")
        count[group] += 1
        places.append(count[group])
    most = sorted(places)[_MOST - 1] if len(places) > _MOST else _MOST
    for (memory, fact), place in zip(facts, places, strict=True):
        if place <= min(most, _MOST_OF.get(memory.kind, _MOST_OF_PROJECT)):
            yield memory, fact


def _last(number: int, replaced: "Mapping[int, int]") -> int:
    """The id of what holds today instead of a memory; its own if nothing replaced it."""
    seen = {number}
    while (newer := replaced.get(number, number)) not in seen:
        seen.add(number := newer)
    return number


def _name(memory: "Memory") -> tuple[str, str, str]:
    """Of memories with the same kind, title and, except for feedback, project, the newest is told if one of them is curated."""
    return memory.kind, memory.title.casefold(), "" if memory.kind is Kind.FEEDBACK else slug_of(memory.project)


def _chosen(connection: "DuckDBPyConnection", tellable: "pa.Table") -> Sequence[int]:
    """Return the ids of the memories that fit into the brief: curated ones first, then by relevance and age."""
    connection.register("stored", tellable)
    given = {"curated": Source.PAI_LEARNING.value, "most": _MOST}
    return [number for (number,) in connection.execute(_CHOSEN, given).fetchall()]


def _doubts(
    connection: "DuckDBPyConnection",
) -> tuple[dict[int, int], dict[int, int], "list[StatementChange]", list[int]]:
    """What the last build knows of changes.

    Id of a memory -> the newer one that replaces it; -> one that says otherwise while nobody decided; the statements that changed or
    perhaps did; and memories that say that something changed.
    """
    edges, changed = connection.execute(_DOUBTED).fetchall(), connection.execute(_CHANGED).fetchall()
    contrary = [(one, two) for one, two, kind in edges if kind == "CONTRADICTS"]
    undecided = dict([*contrary, *((two, one) for one, two in contrary)])
    replaced = {one: two for one, two, kind in edges if kind != "CONTRADICTS"}
    return replaced, undecided, read_changes(connection), [number for (number,) in changed]


def _of_fact(memory: "Memory", fact: "Fact", known: "Mapping[str, tuple[int, int]]", memories: int, zone: "tzinfo") -> BriefLine:
    """The line of a fact. `memories` is how many there are: an id is told by as many digits as name it among ten times as many."""
    digits = max(_FEWEST_DIGITS, len(str(memories)) + 3)
    is_dated = memory.kind not in STANDING and "created_at" not in memory.metadata.get("guessed", ())
    day = f"{day_in(memory.created_at, zone)} " if is_dated else ""
    note = f", undecided: {str(fact.contrary)[:digits]} says otherwise" if fact.contrary else ""
    head = f"{day}(id {str(memory.id)[:digits]}{note}) {_named(memory.title, fact.text)}"
    rendered = line(f"{head}{fact.text}", MOST_OF_SESSION if memory.kind is Kind.SESSION else MOST)
    begin = 0 if note else len(line(head)) + 1
    tokens, more = known.get(rendered, (0, 0))
    if not tokens:
        from memory_assets.language.tokens import count_tokens

        tokens, more = count_tokens(f"{rendered}\n"), count_tokens(f"; {rendered[begin:]}")
    project = "" if is_home(memory.project) else memory.project
    spare = fact.need is Need.EXPLAINING
    return BriefLine(memory.kind, project, rendered, tokens, memory.id, is_curated(memory), begin, more, spare)


def _named(title: str, text: str) -> str:
    """The words of a memory's title before a fact that has none of them."""
    said = [word for word in _WORD.findall(_DATE.sub(" ", title)) if word.casefold() not in _OF_FILE]
    told = text.casefold()
    is_said = not said or any(len(word) >= _STEM and word.casefold()[:-1] in told for word in said)
    return "" if is_said else f"{' '.join(said)}: "
