"""Writes the brief: chooses what a session's beginning may be told, and counts its tokens.

Runs write it anew from the canonical homes and the store; what a person or an assistant stores, edits or forgets changes its lines
at once.
"""

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

from memory_assets.errors import said
from memory_assets.learn.brief import FORMAT, NAME, Brief, BriefLine, read_brief
from memory_assets.learn.frame import line
from memory_assets.models import Kind, Source, State
from memory_assets.sources.projects import slug_of
from memory_assets.stores.files import replace_file
from memory_assets.stores.filters import Filters

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from memory_assets.learn.homes import CanonicalEntry
    from memory_assets.models import Memory
    from memory_assets.tenants import Tenant

_log = logging.getLogger(__name__)
_STANDING = 60
_FEEDBACK = 300
_OF_A_PROJECT = 12
_OTHERS = 600
"""Lines kept about the user, of feedback, of each project and of all projects together."""
_HALF_LIFE_DAYS = 90.0
_TOLD = ("user", "self_knowledge", "feedback", "project", "reference", "pattern", "insight", "note")
"""Kinds that a session's beginning may be told; ratings, reflections and proposals are material to learn from."""
_CHOSEN = """
    SELECT id FROM (
        SELECT id, kind, project, coalesce(relevance, importance) * pow(0.5, age / $half_life) AS standing
        FROM rows LEFT JOIN scores USING (id)
    )
    QUALIFY row_number() OVER (PARTITION BY kind IN ('user', 'self_knowledge'), kind = 'feedback', CASE kind
                WHEN 'user' THEN '' WHEN 'self_knowledge' THEN '' WHEN 'feedback' THEN '' ELSE project END
                ORDER BY standing DESC, id)
        <= CASE WHEN kind IN ('user', 'self_knowledge') THEN $standing WHEN kind = 'feedback' THEN $feedback ELSE $of_a_project END
    ORDER BY standing DESC, id LIMIT $most
"""


def renew_brief(tenant: "Tenant") -> None:
    """Write the brief anew from the homes and the store, where it differs; a brief that cannot be written is none, and said in the log."""
    with _writing(tenant) as there:
        if there:
            held = read_brief(tenant.folder)
            _write(tenant, held, _made(tenant, held))


def tell_brief(tenant: "Tenant", changed: "Iterable[Memory]") -> None:
    """Bring the brief to what some memories are now; where there is none yet, write it."""
    now = {memory.id: memory for memory in changed}
    with _writing(tenant) as there:
        if there:
            held = read_brief(tenant.folder)
            follows = held and not any(memory.source is Source.PAI_LEARNING for memory in now.values())
            _write(tenant, held, _followed(tenant, held, now) if held and follows else _made(tenant, held))


def _followed(tenant: "Tenant", held: Brief, now: "dict[int, Memory]") -> Brief:
    kept = [each for each in held.lines if each.id not in now]
    known = _counted(held)
    told = [_of_memory(memory, known) for memory in now.values() if memory.state is State.ACTIVE and memory.kind in _TOLD]
    return Brief(tenant.memories.count(Filters()), (*told, *kept)[: _STANDING + _FEEDBACK + _OTHERS])


@contextmanager
def _writing(tenant: "Tenant") -> Iterator[bool]:
    """One process writes at a time; False where the tenant has no folder. Whatever fails goes to the log: what was stored is stored."""
    from memory_assets.stores.locks import locked

    try:
        with locked(tenant.folder) as there:
            yield there
    except Exception as error:  # noqa: BLE001 - see above
        _log.warning("the brief was not written: %s", said(error))


def _write(tenant: "Tenant", held: Brief | None, brief: Brief) -> None:
    if brief != held:
        body = {"format": FORMAT, "memories": brief.memories, "lines": [asdict(each) for each in brief.lines]}
        replace_file(tenant.folder / NAME, json.dumps(body, ensure_ascii=False, separators=(",", ":")))


def _counted(held: Brief | None) -> "Mapping[str, int]":
    """Lines whose tokens were counted already."""
    return {each.text: each.tokens for each in held.lines} if held else {}


def _made(tenant: "Tenant", held: Brief | None) -> Brief:
    known = _counted(held)
    entries = _canonical(tenant) if tenant.is_sources_tenant else []
    chosen = _chosen(tenant)
    memories = {memory.id: memory for memory in tenant.memories.get(chosen)}
    curated = {_name(entry.kind, entry.name, entry.source_cwd) for entry in entries}
    others = (memories[number] for number in chosen if number in memories)
    told = [_of_memory(each, known) for each in others if _name(each.kind, each.title, each.project) not in curated]
    return Brief(tenant.memories.count(Filters()), (*(_of_entry(entry, known) for entry in entries), *told))


def _name(kind: str, title: str, project: str) -> tuple[str, str, str]:
    """What two memories share of which one is told: kind, name and, but for feedback, the project."""
    return kind, title.casefold(), "" if kind == Kind.FEEDBACK else slug_of(project)


def _canonical(tenant: "Tenant") -> "list[CanonicalEntry]":
    """What the homes hold and nobody forgot, of each kind the newest that there is room for."""
    from memory_assets.learn.homes import load_pai_memories

    known = tenant.memories.scan(("source_key", "state"), f"source = '{Source.PAI_LEARNING}'").to_pylist()
    active = {row["source_key"] for row in known if row["state"] == State.ACTIVE}
    hidden = {row["source_key"] for row in known if row["state"] in (State.FORGOTTEN, State.ARCHIVED)} - active
    homes = load_pai_memories(tenant.settings.pai_learning_dir)
    most = {Kind.USER: _STANDING, Kind.FEEDBACK: _FEEDBACK, Kind.PROJECT: _OTHERS // 2, Kind.REFERENCE: _OTHERS // 2}
    shown = {kind: [entry for entry in homes.of(kind) if _key(entry) not in hidden][:room] for kind, room in most.items()}
    return [entry for entries in shown.values() for entry in entries]


def _key(entry: "CanonicalEntry") -> str:
    """Under which the store knows the memory of an entry."""
    return f"{Source.PAI_LEARNING}:{entry.path.parent.name}/{entry.path.name}"


def _chosen(tenant: "Tenant") -> Sequence[int]:
    """Ids of the memories that the brief has room for, the most telling first; those of the homes are told from there."""
    import duckdb
    import pyarrow as pa

    from_homes = f"source = '{Source.PAI_LEARNING}'" if tenant.is_sources_tenant else "false"
    kinds = ", ".join(f"'{kind}'" for kind in _TOLD)
    where = f"state = '{State.ACTIVE}' AND kind IN ({kinds}) AND NOT ({from_homes})"
    rows = tenant.memories.scan(("id", "kind", "project", "importance", "created_at"), where)
    scores = pa.table({"id": pa.array([], pa.int64()), "relevance": pa.array([], pa.float64())})
    if tenant.catalog.exists:
        with tenant.catalog.read() as connection:
            scores = connection.execute("SELECT id, relevance FROM relevance_scores").to_arrow_table()
    with duckdb.connect() as connection:
        connection.register("stored", rows)
        connection.register("scores", scores)
        connection.execute(
            "CREATE TEMP VIEW rows AS SELECT *, greatest(0, date_diff('hour', created_at, now()) / 24.0) AS age FROM stored"
        )
        limits = {
            "half_life": _HALF_LIFE_DAYS,
            "standing": _STANDING,
            "feedback": _FEEDBACK,
            "of_a_project": _OF_A_PROJECT,
            "most": _STANDING + _FEEDBACK + _OTHERS,
        }
        return [number for (number,) in connection.execute(_CHOSEN, limits).fetchall()]


def _of_memory(memory: "Memory", known: "Mapping[str, int]") -> BriefLine:
    return _told(memory.kind, memory.project, memory.created_at, memory.title, memory.content, known, memory.id)


def _of_entry(entry: "CanonicalEntry", known: "Mapping[str, int]") -> BriefLine:
    return _told(entry.kind, entry.source_cwd, entry.written_at, entry.name, entry.description or entry.body, known)


def _told(
    kind: str, project: str, moment: "datetime", title: str, text: str, known: "Mapping[str, int]", number: int | None = None
) -> BriefLine:
    named = f"{title}: {text}" if title and not text.casefold().startswith(title.casefold()) else text
    told = line(f"{moment:%Y-%m-%d} {f'(id {number}) ' if number else ''}{named}")
    if (tokens := known.get(told)) is None:
        from memory_assets.language.tokens import count_tokens

        tokens = count_tokens(f"{told}\n")
    return BriefLine(kind, project, told, tokens, number)
