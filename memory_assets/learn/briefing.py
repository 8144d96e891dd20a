"""Writes the brief: chooses the memories that a starting session may be told, and counts their tokens.

A run rewrites the whole brief from the store. Storing, editing or forgetting a memory updates its line at once.
"""

import json
import logging
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from memory_assets.errors import said
from memory_assets.graph.outdated import find_outdated, list_replaced, plain, read_changes
from memory_assets.language.changes import announces
from memory_assets.language.secrets import marks
from memory_assets.language.words import sentences
from memory_assets.learn.brief import FILES, FORMAT, MOST, MOST_OF_SESSION, NAME, Backlog, Brief, BriefLine, line, parse_brief
from memory_assets.learn.curation import Curation
from memory_assets.models import Kind, Source, State
from memory_assets.sources.projects import is_home, slug_of
from memory_assets.stores.filters import Filters

if TYPE_CHECKING:
    from collections.abc import Mapping

    from memory_assets.graph.outdated import StatementChange
    from memory_assets.models import Memory
    from memory_assets.stores.state import TenantState
    from memory_assets.tenants import Tenant

_log = logging.getLogger(__name__)
_UNTOLD = "untold.json"
_MOST = 960
"""Lines of the whole brief."""
_MOST_NEWS = 3
_LONG = 180
"""Letters of a text from which only some sentences are told: its first one and those that say that something changed come first."""
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
        FROM stored LEFT JOIN scores USING (id)
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
    ORDER BY b.created_at, target_id
"""
_ALSO = re.compile(r"^also,?\s+", re.IGNORECASE)


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
        known = {each.text: each.tokens for each in held.lines}
        told = [_of_memory(memory, _current(memory, set(), ()), known) for memory in new]
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
        _log.warning("the brief was not written: %s", said(error))


def _made(tenant: "Tenant", held: Brief | None) -> Brief:
    known = {each.text: each.tokens for each in held.lines} if held else {}
    replaced, undecided, changes = _doubts(tenant)
    is_replaced = list_replaced(changes)
    found = find_outdated(is_replaced, tenant.memories.get(is_replaced), tenant.memories.get)
    outdated = {number: {each.sentence for each in told} for number, told in found.items()}
    news: dict[int, list[str]] = {}
    contrary: dict[int, list[tuple[str, int]]] = {}
    """What a memory says that another one contradicts, and which."""
    for each in reversed(changes):
        if not each.is_decided:
            contrary.setdefault(each.old_id, []).append((each.old_text, each.new_id))
            contrary.setdefault(each.new_id, []).append((each.new_text, each.old_id))
        elif each.new_text not in outdated.get(each.new_id, ()):
            news.setdefault(each.new_id, []).append(each.new_text)
    wanted = dict.fromkeys([*news, *_chosen(tenant)])
    chosen = list(dict.fromkeys(_last(number, replaced) for number in wanted))
    memories = {memory.id: memory for memory in tenant.memories.get(chosen) if memory.state is State.ACTIVE}
    ordered = [memories[number] for number in chosen if number in memories]
    newest: dict[tuple[str, str, str], Memory] = {}
    for each in sorted(ordered, key=lambda each: (each.created_at, _is_curated(each))):
        newest[_name(each)] = each
    curated = {_name(each) for each in ordered if _is_curated(each)}
    told = [each for each in ordered if _name(each) not in curated or newest[_name(each)] is each]
    lines = []
    for each in told:
        if not marks(each.content):
            text = _current(each, outdated.get(each.id, set()), news.get(each.id, ()))
            others = (number for statement, number in contrary.get(each.id, ()) if statement in plain(text))
            other = undecided.get(each.id) or next(others, 0)
            lines.append(_of_memory(each, text, known, f"undecided: {other} says otherwise" if other else ""))
    backlog = Curation(tenant).backlog() if tenant.is_sources_tenant else Backlog()
    return Brief(tenant.memories.count(Filters()), tuple(lines), backlog)


def _current(memory: "Memory", outdated: set[str], news: Sequence[str]) -> str:
    """What a line tells of a memory: the sentences that replace others; else its opening, and what says that it changed, first.

    Of a session it tells all but the files.
    """
    if memory.kind is Kind.SESSION:
        return " ".join(each for each in memory.content.splitlines() if not each.startswith(FILES))
    text = memory.content
    if _is_curated(memory):  # the first paragraph, and the second if the first only announces it
        first, _, rest = text.partition("\n\n")
        is_heading = first.rstrip().endswith(("?", ":")) or first.lstrip().startswith("#")
        text = f"{first} {rest.partition(chr(10) * 2)[0]}" if is_heading else first
    text = _ALSO.sub("", text)
    if news:
        return " ".join(list(dict.fromkeys(news))[:_MOST_NEWS])
    if not outdated and len(text) <= _LONG:
        return text
    opening, *others = [sentence for sentence in map(plain, sentences(text)) if sentence not in outdated] or [""]
    told = opening
    for sentence in sorted(others, key=lambda sentence: not announces(sentence)):
        if len(told) + len(sentence) < _LONG:
            told = f"{told} {sentence}"
    return told


def _last(number: int, replaced: "Mapping[int, int]") -> int:
    """The id of what holds today instead of a memory; its own if nothing replaced it."""
    seen = {number}
    while (newer := replaced.get(number, number)) not in seen:
        seen.add(number := newer)
    return number


def _is_curated(memory: "Memory") -> bool:
    return memory.source is Source.PAI_LEARNING


def _name(memory: "Memory") -> tuple[str, str, str]:
    """Of memories with the same kind, title and, except for feedback, project, the newest is told if one of them is curated."""
    return memory.kind, memory.title.casefold(), "" if memory.kind is Kind.FEEDBACK else slug_of(memory.project)


def _chosen(tenant: "Tenant") -> Sequence[int]:
    """Return the ids of the memories that fit into the brief: curated ones first, then by relevance and age."""
    import duckdb
    import pyarrow as pa

    kinds = ", ".join(f"'{kind}'" for kind in _TOLD)
    where = f"state = '{State.ACTIVE}' AND kind IN ({kinds})"
    rows = tenant.memories.scan(("id", "kind", "source", "project", "importance", "created_at", "metadata"), where)
    scores = pa.table({"id": pa.array([], pa.int64()), "relevance": pa.array([], pa.float64())})
    if tenant.catalog.exists:
        with tenant.catalog.read() as connection:
            scores = connection.execute("SELECT id, relevance FROM relevance_scores").to_arrow_table()
    with duckdb.connect() as connection:
        connection.register("stored", rows)
        connection.register("scores", scores)
        given = {"curated": Source.PAI_LEARNING.value, "most": _MOST}
        return [number for (number,) in connection.execute(_CHOSEN, given).fetchall()]


def _doubts(tenant: "Tenant") -> tuple[dict[int, int], dict[int, int], "list[StatementChange]"]:
    """Id of a memory -> the newer one that replaces it; -> one that says otherwise while nobody decided; and the statements that changed.

    As of the last build.
    """
    if not tenant.catalog.exists:
        return {}, {}, []
    with tenant.catalog.read() as connection:
        edges, changes = connection.execute(_DOUBTED).fetchall(), read_changes(connection)
    contrary = [(one, two) for one, two, kind in edges if kind == "CONTRADICTS"]
    undecided = dict([*contrary, *((two, one) for one, two in contrary)])
    return {one: two for one, two, kind in edges if kind != "CONTRADICTS"}, undecided, changes


def _of_memory(memory: "Memory", text: str, known: "Mapping[str, int]", note: str = "") -> BriefLine:
    named = f"{memory.title}: {text}" if memory.title and not text.casefold().startswith(memory.title.casefold()) else text
    day = "" if "created_at" in memory.metadata.get("guessed", ()) else f"{memory.created_at:%Y-%m-%d} "
    most = MOST_OF_SESSION if memory.kind is Kind.SESSION else MOST
    rendered = line(f"{day}(id {memory.id}{f', {note}' if note else ''}) {named}", most)
    if (tokens := known.get(rendered)) is None:
        from memory_assets.language.tokens import count_tokens

        tokens = count_tokens(f"{rendered}\n")
    project = "" if is_home(memory.project) else memory.project
    return BriefLine(memory.kind, project, rendered, tokens, memory.id, _is_curated(memory))
