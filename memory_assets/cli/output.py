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


def print_memory(memory: Memory, prefix: str = "") -> None:
    """Two lines: what it is called, of which kind and when; and how it begins."""
    words = " ".join(memory.content.split())
    heading = click.style(memory.title or words[:60], bold=True)
    state = "" if memory.state is State.ACTIVE else f" · {memory.state}"
    click.echo(f"{prefix}{heading}  {memory.kind} · {memory.created_at:%Y-%m-%d} · {memory.id}{state}")
    click.echo(f"   {words if len(words) <= _WIDTH else words[: _WIDTH - 1] + '…'}")


def print_hit(number: int, hit: "Hit", *, explain: bool) -> None:
    """A found memory, and on demand how its score came about."""
    print_memory(hit.memory, prefix=f"{number}. {hit.score:.2f}  ")
    if explain:
        for part in hit.components:
            raw = "       -" if part.raw is None else f"{part.raw:8.3f}"
            reason = f"  ({part.reason})" if part.reason else ""
            click.echo(
                f"     {part.name:<10} {raw} scaled to {part.value:.2f} x {part.weight:.2f} = {part.contribution:.3f}{reason}"
            )
