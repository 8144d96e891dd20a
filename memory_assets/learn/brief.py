"""The brief: what a session's beginning may be told, chosen and measured beforehand, in one small file a tenant.

Runs write it anew from the canonical homes and the store; what a person or an assistant stores, edits or forgets changes its lines
at once. So a hook reads one file, and opens no store.
"""

import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_assets.learn.frame import line

if TYPE_CHECKING:
    from datetime import datetime

    from memory_assets.learn.homes import CanonicalEntry
    from memory_assets.models import Memory
    from memory_assets.tenants import Tenant

_log = logging.getLogger(__name__)
NAME = "brief.json"
_FORMAT = 1
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


@dataclass(frozen=True, slots=True)
class BriefLine:
    """A memory as a session's beginning would tell it."""

    kind: str
    project: str
    """Folder or slug that it belongs to; empty for none."""
    text: str
    """The line, framed."""
    tokens: int
    """Of the line with its end."""
    id: int | None = None
    """Of the memory; None for an entry of the canonical homes."""


@dataclass(frozen=True, slots=True)
class Brief:
    """The lines, the most telling first, and how much there is beside them."""

    memories: int
    """Active ones of the tenant."""
    lines: tuple[BriefLine, ...] = ()


def read_brief(folder: Path) -> Brief | None:
    """The brief of the tenant in `folder`; None where there is none that can be read."""
    try:
        held = json.loads((folder / NAME).read_bytes())
        if held["format"] != _FORMAT:
            return None
        return Brief(int(held["memories"]), tuple(BriefLine(**each) for each in held["lines"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def renew_brief(tenant: "Tenant") -> None:
    """Write the brief anew from the homes and the store, where it differs; a brief that cannot be written is none, and said in the log."""
    from memory_assets.errors import MemoryAssetsError

    try:
        if tenant.exists or tenant.folder.is_dir():
            _write(tenant, _made(tenant))
    except (MemoryAssetsError, OSError) as error:
        _log.warning("the brief was not written: %s", error)


def tell_brief(tenant: "Tenant", changed: "Iterable[Memory]") -> None:
    """Bring the brief to what some memories are now; where there is none yet, write it."""
    from memory_assets.models import Source, State

    now = {memory.id: memory for memory in changed}
    held = read_brief(tenant.folder)
    if held is None or any(memory.source is Source.PAI_LEARNING for memory in now.values()):
        renew_brief(tenant)
        return
    kept = [each for each in held.lines if each.id not in now]
    told = [_of_memory(memory) for memory in now.values() if memory.state is State.ACTIVE and memory.kind in _TOLD]
    try:
        _write(tenant, Brief(tenant.memories.count(_active()), (*told, *kept)[: _STANDING + _FEEDBACK + _OTHERS]))
    except OSError as error:
        _log.warning("the brief was not written: %s", error)


def _active() -> Any:
    from memory_assets.stores.filters import Filters

    return Filters()


def _write(tenant: "Tenant", brief: Brief) -> None:
    from memory_assets.stores.files import replace_file

    if brief != read_brief(tenant.folder):
        body = {"format": _FORMAT, "memories": brief.memories, "lines": [asdict(each) for each in brief.lines]}
        replace_file(tenant.folder / NAME, json.dumps(body, ensure_ascii=False, separators=(",", ":")))


def _made(tenant: "Tenant") -> Brief:
    entries = _canonical(tenant) if tenant.name == tenant.settings.tenant else []
    memories = tenant.memories.get(_chosen(tenant))
    lines = [_of_entry(entry) for entry in entries[: _STANDING + _FEEDBACK]] + [_of_memory(memory) for memory in memories]
    return Brief(tenant.memories.count(_active()), tuple(lines))


def _canonical(tenant: "Tenant") -> "list[CanonicalEntry]":
    """What the homes hold and nobody forgot, newest first."""
    from memory_assets.learn.homes import load_pai_memories
    from memory_assets.models import Source, State

    root = tenant.settings.pai_learning_dir
    known = tenant.memories.scan(("source_key", "state"), f"source = '{Source.PAI_LEARNING}'").to_pylist()
    active = {row["source_key"] for row in known if row["state"] == State.ACTIVE}
    hidden = {row["source_key"] for row in known if row["state"] in (State.FORGOTTEN, State.ARCHIVED)} - active
    entries = load_pai_memories(root).entries
    shown = [entry for entry in entries if f"{Source.PAI_LEARNING}:{entry.path.relative_to(root.resolve())}" not in hidden]
    return sorted(shown, key=lambda entry: entry.written_at, reverse=True)


def _chosen(tenant: "Tenant") -> Sequence[int]:
    """Ids of the memories that the brief has room for, the most telling first; those of the homes are told from there."""
    import duckdb
    import pyarrow as pa

    from memory_assets.models import Source, State

    from_homes = f"source = '{Source.PAI_LEARNING}'" if tenant.name == tenant.settings.tenant else "false"
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


def _of_memory(memory: "Memory") -> BriefLine:
    return _told(memory.kind, memory.project, memory.created_at, memory.title, memory.content, memory.id)


def _of_entry(entry: "CanonicalEntry") -> BriefLine:
    return _told(entry.kind, entry.source_cwd, entry.written_at, entry.name, entry.description or entry.body)


def _told(kind: str, project: str, moment: "datetime", title: str, text: str, number: int | None = None) -> BriefLine:
    from memory_assets.language.tokens import count_tokens

    named = f"{title}: {text}" if title and not text.casefold().startswith(title.casefold()) else text
    told = line(f"{moment:%Y-%m-%d} {f'(id {number}) ' if number else ''}{named}")
    return BriefLine(kind, project, told, count_tokens(f"{told}\n"), number)
