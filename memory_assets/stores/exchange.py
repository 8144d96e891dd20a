"""Memories as JSON: one object a memory, as the faces print it, files exchange it and `memory import` takes it in again."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from memory_assets.models import Memory, State


def memory_json(memory: Memory) -> dict[str, Any]:
    """A memory as one JSON object; times are still `datetime`."""
    fields = asdict(memory)
    for internal in ("revision", "content_hash"):
        del fields[internal]
    return fields | {"active": memory.state is State.ACTIVE}


def to_jsonl(memories: Iterable[Memory], relations: Mapping[int, Sequence[Mapping[str, Any]]] | None = None) -> str:
    """Memories as JSON Lines, one a line, each with the relations that were stated from it."""
    stated = {number: {"relations": rows} for number, rows in (relations or {}).items()}
    lines = (json.dumps(memory_json(each) | stated.get(each.id, {}), ensure_ascii=False, default=str) for each in memories)
    return "".join(f"{line}\n" for line in lines)
