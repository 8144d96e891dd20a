"""How memories look: as JSON objects for programs, as short blocks for people."""

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from memory_assets.models import Memory, State
from memory_assets.stores.exchange import memory_json

if TYPE_CHECKING:
    from memory_assets.recall.search import Hit

_WIDTH = 100


def print_json(value: Any) -> None:
    """Print one JSON object; times in ISO 8601."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=2, default=_plain))


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    raise TypeError(f"{type(value).__name__} is not JSON")


def hit_json(hit: "Hit") -> dict[str, Any]:
    """A found memory with its score and the parts of it."""
    parts = {
        part.name: {
            "raw": part.raw,
            "value": part.value,
            "weight": part.weight,
            "contribution": part.contribution,
            "reason": part.reason,
        }
        for part in hit.components
    }
    return memory_json(hit.memory) | {"score": hit.score, "components": parts}


def passage(content: str, query: str) -> str:
    """A stretch of at most 100 characters that holds most of the query's words, the earliest of such; without any, the beginning."""
    words = content.split()
    asked = {word.strip(".,;:!?'\"()").casefold() for word in query.split()}
    starts = [number for number, word in enumerate(words) if word.strip(".,;:!?'\"()[]").casefold() in asked] or [0]
    best, most = 0, -1
    for start in [0, *(max(0, number - 2) for number in starts)]:
        shown = " ".join(words[start:])[:_WIDTH].casefold()
        held = sum(f" {word} " in f" {shown} " for word in asked)
        if held > most:
            best, most = start, held
    cut = " ".join(words[best:])
    tail = cut if len(cut) <= _WIDTH else f"{cut[: _WIDTH - 1]}…"
    return f"… {tail}" if best else tail


def print_memory(memory: Memory, prefix: str = "", query: str = "") -> None:
    """Two lines: what it is called, of which kind and when; and its passage that fits the query, or how it begins."""
    heading = click.style(memory.title or " ".join(memory.content.split())[:60], bold=True)
    state = "" if memory.state is State.ACTIVE else f" · {memory.state}"
    click.echo(f"{prefix}{heading}  {memory.kind} · {memory.created_at:%Y-%m-%d} · {memory.id}{state}")
    click.echo(f"   {passage(memory.content, query)}")


def print_hit(number: int, hit: "Hit", query: str, *, explain: bool) -> None:
    """A found memory with the passage that fits the query, and on demand how its score came about."""
    print_memory(hit.memory, prefix=f"{number}. {hit.score:.2f}  ", query=query)
    if explain:
        for part in hit.components:
            raw = "       -" if part.raw is None else f"{part.raw:8.3f}"
            reason = f"  ({part.reason})" if part.reason else ""
            click.echo(
                f"     {part.name:<10} {raw} scaled to {part.value:.2f} x {part.weight:.2f} = {part.contribution:.3f}{reason}"
            )
