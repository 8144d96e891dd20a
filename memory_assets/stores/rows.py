"""Rows of the `memories` table: columns, ids, and conversions to and from `Memory` and JSON."""

import json
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from hashlib import blake2b, md5
from typing import Any

import pyarrow as pa

from memory_assets.language.english import pattern
from memory_assets.language.words import pieces
from memory_assets.models import ASSISTANTS, USERS, Entity, Kind, Memory, Source, State
from memory_assets.stores.schema import MEMORIES, VERSION, VERSION_FACT

SCHEMA = MEMORIES.arrow(facts={VERSION_FACT: VERSION})
DERIVED = ("indexed_text", "wish")
"""Columns derived from a memory for searches."""
COLUMNS = tuple(name for name in SCHEMA.names if name not in DERIVED)
"""Columns that correspond to fields of `Memory`."""

_PREFERENCES = "preferences.phrases"
_FIELDS = tuple(field.name for field in fields(Memory))
_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "kind": Kind,
    "source": Source,
    "state": State,
    "tags": tuple,
    "actions": tuple,
    "links": tuple,
    "entities": lambda entities: tuple(Entity(**entity) for entity in entities),
    "metadata": json.loads,
    "created_at": lambda moment: _aware(moment),
    "updated_at": lambda moment: _aware(moment),
}

_MIN_ID = 1 << 52


def _aware(moment: datetime | int) -> datetime:
    """Return a stored time; one outside of Python's calendar, which release 0.1.0 took in, as 1 January 1970."""
    return datetime.fromtimestamp(0, UTC) if isinstance(moment, int) else moment.replace(tzinfo=UTC)


def new_id() -> int:
    """Return a random id of 53 bits. In stores of millions, ids collide with a chance below 1 in 10,000; the key refuses those."""
    return _MIN_ID + secrets.randbelow(_MIN_ID)


def derived_id(source_key: str, content_hash: str) -> int:
    """Return the id of a source item with this text: the same in every process and after every rebuild."""
    digest = blake2b(f"{source_key}\0{content_hash}".encode(), digest_size=8).digest()
    return _MIN_ID + int.from_bytes(digest) % _MIN_ID


def content_hash(text: str) -> str:
    """Return the digest of a memory's text: MD5, which the catalog's SQL can compute too."""
    return md5(text.encode("utf-8"), usedforsecurity=False).hexdigest()


def find_altered(rows: "pa.Table | pa.RecordBatch") -> list[int]:
    """Return the ids of memories whose text does not match its stored digest, because a file was damaged."""
    columns = (rows[name].to_pylist() for name in ("id", "content", "content_hash"))
    return [number for number, text, digest in zip(*columns, strict=True) if digest and content_hash(text or "") != digest]


def statement(title: str, content: str) -> str:
    """Return a memory's title and text; the text alone if it contains the title."""
    return f"{title}: {content}" if title and title not in content else content


def heading(author: str, created_at: datetime, project: str) -> str:
    """Return the heading that is embedded with a memory: author (unless a side of a conversation), date and project."""
    return _format_heading("" if author.lower() in USERS | ASSISTANTS else author, created_at, project)


def _format_heading(author: str, created_at: datetime, project: str) -> str:
    parts = [author, created_at.strftime("%-d %B %Y"), project.rstrip("/").rpartition("/")[2]]
    return f"[{', '.join(part for part in parts if part)}]"


def headed(memory: Memory) -> tuple[str, str]:
    """Return a memory's heading and statement."""
    return heading(memory.author, memory.created_at, memory.project), statement(memory.title, memory.content)


def indexed_text(memory: Memory) -> str:
    """Return the text for the full-text index. It includes author, date and project, which improve recall more than any engine does."""
    said = _format_heading(memory.author, memory.created_at, memory.project)
    text = f"{said} {statement(memory.title, memory.content)}"
    return " ".join([*pieces(text), text])


def is_preference(kind: Kind, author: str, content: str) -> bool:
    """Return whether a user states how answers should be ("always show the imports"), by English wordings, or by kind in any language.

    A preference rarely shares a word with a request, so it is searched for separately. An assistant's text is never a preference.
    """
    return (kind is Kind.FEEDBACK or bool(pattern(_PREFERENCES).search(content))) and author.lower() not in ASSISTANTS


def to_arrow(memories: Sequence[Memory]) -> pa.Table:
    """Return memories as rows of the table, without vectors."""
    columns: dict[str, list[Any]] = {name: [getattr(memory, name) for memory in memories] for name in COLUMNS}
    columns["entities"] = [[{"text": e.text, "type": e.type} for e in memory.entities] for memory in memories]
    columns["metadata"] = [json.dumps(memory.metadata, ensure_ascii=False, default=str) for memory in memories]
    columns["indexed_text"] = [indexed_text(memory) for memory in memories]
    columns["wish"] = [is_preference(memory.kind, memory.author, memory.content) for memory in memories]
    return pa.table(columns, schema=SCHEMA)


def rows_of(**columns: Sequence[Any]) -> pa.Table:
    """Return the columns that a commit sets, `id` among them, by default with the current time as `updated_at`."""
    columns.setdefault("updated_at", [datetime.now(UTC)] * len(columns["id"]))
    return pa.table(columns, schema=MEMORIES.arrow(*columns))


def from_arrow(rows: pa.Table) -> list[Memory]:
    """Return rows with at least `COLUMNS` as memories. Times are read via NumPy, in a third of the time of `to_pylist`."""
    columns: list[list[Any]] = []
    for name in _FIELDS:
        column = rows[name]
        values = column.to_numpy().tolist() if pa.types.is_timestamp(column.type) else column.to_pylist()
        columns.append([_CONVERTERS[name](value) for value in values] if name in _CONVERTERS else values)
    return [Memory(*each) for each in zip(*columns, strict=True)]


def to_jsonl(memories: Iterable[Memory], relations: Mapping[int, Sequence[Mapping[str, Any]]] | None = None) -> str:
    """Return memories as JSON Lines, one per line with the relations stated from it; `memory import` reads them."""
    stated = {number: {"relations": rows} for number, rows in (relations or {}).items()}
    lines = []
    for memory in memories:
        values = {name: value for name, value in asdict(memory).items() if name not in ("revision", "content_hash")}
        values |= {"active": memory.state is State.ACTIVE, **stated.get(memory.id, {})}
        lines.append(json.dumps(values, ensure_ascii=False, default=str) + "\n")
    return "".join(lines)
