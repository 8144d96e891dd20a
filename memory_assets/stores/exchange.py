"""Memories as JSON: one object a memory, as the faces print it, files exchange it and `memory import` takes it in again."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from memory_assets.models import Memory, State


def memory_json(memory: Memory) -> dict[str, Any]:
    """A memory as one JSON object; times are still `datetime`."""
    fields = asdict(memory)
    for internal in ("revision", "content_hash"):
        del fields[internal]
    return fields | {"active": memory.state is State.ACTIVE}


def to_jsonl(memories: Iterable[Memory]) -> str:
    """Memories as JSON Lines, one a line."""
    return "".join(json.dumps(memory_json(memory), ensure_ascii=False, default=str) + "\n" for memory in memories)
