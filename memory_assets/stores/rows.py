"""Rows of the `memories` table: their columns, their ids, and what lies between them and `Memory` or its JSON."""

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
"""Columns that are made of a memory for searches."""
COLUMNS = tuple(name for name in SCHEMA.names if name not in DERIVED)
"""The columns that a `Memory` is made of."""

_PREFERENCES = "preferences.phrases"
_FIELDS = tuple(field.name for field in fields(Memory))
_READ: dict[str, Callable[[Any], Any]] = {
    "kind": Kind,
    "source": Source,
    "state": State,
    "tags": tuple,
    "actions": tuple,
    "links": tuple,
    "entities": lambda entities: tuple(Entity(**entity) for entity in entities),
    "metadata": json.loads,
    "created_at": lambda moment: moment.replace(tzinfo=UTC),
    "updated_at": lambda moment: moment.replace(tzinfo=UTC),
}
"""Field -> function that makes its value of the row's."""

_LOWEST_ID = 1 << 52


def new_id() -> int:
    """A random id of 53 bits (seven-figure stores collide with a chance below one in ten thousand; the key refuses the rest)."""
    return _LOWEST_ID + secrets.randbelow(_LOWEST_ID)


def derived_id(source_key: str, content_hash: str) -> int:
    """The id of what `source_key` said when its text had `content_hash`: the same in every process and after every rebuild."""
    digest = blake2b(f"{source_key}\0{content_hash}".encode(), digest_size=8).digest()
    return _LOWEST_ID + int.from_bytes(digest) % _LOWEST_ID


def content_hash(text: str) -> str:
    """Digest of a memory's text: MD5, which the catalog's SQL computes too."""
    return md5(text.encode("utf-8"), usedforsecurity=False).hexdigest()


def find_altered(rows: "pa.Table | pa.RecordBatch") -> list[int]:
    """Ids of the memories whose text is not the one whose digest was stored with it: a file was damaged."""
    columns = (rows[name].to_pylist() for name in ("id", "content", "content_hash"))
    return [number for number, text, digest in zip(*columns, strict=True) if digest and content_hash(text or "") != digest]


def statement(title: str, content: str) -> str:
    """What a memory says: its text after its title, unless that stands in it."""
    return f"{title}: {content}" if title and title not in content else content


def heading(author: str, created_at: datetime, project: str) -> str:
    """Who said it, if that is somebody and not a side of a talk, when and where: what is embedded with what it says."""
    return _heading("" if author.lower() in USERS | ASSISTANTS else author, created_at, project)


def _heading(author: str, created_at: datetime, project: str) -> str:
    parts = [author, created_at.strftime("%-d %B %Y"), project.rstrip("/").rpartition("/")[2]]
    return f"[{', '.join(part for part in parts if part)}]"


def headed(memory: Memory) -> tuple[str, str]:
    """Its heading and its statement."""
    return heading(memory.author, memory.created_at, memory.project), statement(memory.title, memory.content)


def indexed_text(memory: Memory) -> str:
    """What is full-text indexed: who, when and where beside what (they help recall more than any engine)."""
    said = _heading(memory.author, memory.created_at, memory.project)
    text = f"{said} {statement(memory.title, memory.content)}"
    return " ".join([*pieces(text), text])


def is_preference(kind: Kind, author: str, content: str) -> bool:
    """Whether a user says how answers should be ("always show the imports"): by English wordings, or by the kind in any language.

    A preference seldom shares a word with a request, so search looks for it separately. What an assistant said is none.
    """
    return (kind is Kind.FEEDBACK or bool(pattern(_PREFERENCES).search(content))) and author.lower() not in ASSISTANTS


def to_arrow(memories: Sequence[Memory]) -> pa.Table:
    """Rows of the table without the vectors."""
    columns: dict[str, list[Any]] = {name: [getattr(memory, name) for memory in memories] for name in COLUMNS}
    columns["entities"] = [[{"text": e.text, "type": e.type} for e in memory.entities] for memory in memories]
    columns["metadata"] = [json.dumps(memory.metadata, ensure_ascii=False, default=str) for memory in memories]
    columns["indexed_text"] = [indexed_text(memory) for memory in memories]
    columns["wish"] = [is_preference(memory.kind, memory.author, memory.content) for memory in memories]
    return pa.table(columns, schema=SCHEMA)


def rows_of(**columns: Sequence[Any]) -> pa.Table:
    """Columns of rows that a commit sets, their `id` among them, with the present as `updated_at`."""
    columns["updated_at"] = [datetime.now(UTC)] * len(columns["id"])
    return pa.table(columns, schema=MEMORIES.arrow(*columns))


def from_arrow(rows: pa.Table) -> list[Memory]:
    """The memories of rows that hold at least `COLUMNS`; times come by way of NumPy, in a third of the time of `to_pylist`."""
    columns: list[list[Any]] = []
    for name in _FIELDS:
        column = rows[name]
        values = column.to_numpy().tolist() if pa.types.is_timestamp(column.type) else column.to_pylist()
        columns.append([_READ[name](value) for value in values] if name in _READ else values)
    return [Memory(*each) for each in zip(*columns, strict=True)]


def to_jsonl(memories: Iterable[Memory], relations: Mapping[int, Sequence[Mapping[str, Any]]] | None = None) -> str:
    """Memories as JSON Lines, one a line, each with the relations that were stated from it; `memory import` takes them in again."""
    stated = {number: {"relations": rows} for number, rows in (relations or {}).items()}
    lines = []
    for memory in memories:
        values = {name: value for name, value in asdict(memory).items() if name not in ("revision", "content_hash")}
        values |= {"active": memory.state is State.ACTIVE, **stated.get(memory.id, {})}
        lines.append(json.dumps(values, ensure_ascii=False, default=str) + "\n")
    return "".join(lines)
