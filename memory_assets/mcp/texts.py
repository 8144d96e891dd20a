"""What the tools answer: short text with relative times, each memory in full with its id."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from memory_assets.language.secrets import marks
from memory_assets.language.times import relative_age
from memory_assets.models import Memory

if TYPE_CHECKING:
    from memory_assets.recall.bridges import Bridge
    from memory_assets.recall.search import Hit
    from memory_assets.recall.splash import Ripple


def stored(memory: Memory, ripples: "Sequence[Ripple]", now: datetime) -> str:
    """A memory that was just stored, and what it stirs up."""
    lines = [f"Stored memory {memory.id}."]
    if kinds := marks(memory.content):
        lines.append(f"Masked, because secrets are not kept: {', '.join(kinds)}.")
    for name, values in (
        ("Tags", memory.tags),
        ("Entities", [f"{entity.text} ({entity.type})" for entity in memory.entities]),
        ("Actions", memory.actions),
    ):
        if values:
            lines.append(f"{name}: {', '.join(values)}")
    if ripples:
        lines.append("\nIt calls to mind:")
        lines += [_block(ripple.memory, now, f"similarity {ripple.similarity:.2f}") for ripple in ripples]
    return "\n".join(lines)


def found(query: str, hits: "Sequence[Hit]", paths: "Sequence[Bridge]", now: datetime) -> str:
    """What a search found, best first, and the paths that explain it."""
    if not hits:
        return f"Nothing is remembered about {query!r}." if query.strip() else "Nothing is remembered yet."
    heading = f"{_count(len(hits))} for {query!r}:" if query.strip() else f"The newest {_count(len(hits))}:"
    lines = [heading, *(_block(hit.memory, now, f"score {hit.score:.2f}") for hit in hits)]
    if paths:
        lines += ["\nHow they hang together:", *(_path(path) for path in paths)]
    return "\n".join(lines)


def _path(bridge: "Bridge") -> str:
    steps = [
        f"\n    {hop.type} ({hop.reason}) -> {place.label} (id {place.id})"
        for hop, place in zip(bridge.hops, bridge.places[1:], strict=True)
    ]
    return f"- {bridge.places[0].label} (id {bridge.places[0].id}){''.join(steps)}"


def recent(memories: Sequence[Memory], hours: float, now: datetime) -> str:
    """The newest memories of some hours."""
    span = f"the last {hours:g} hours" if hours != 1 else "the last hour"
    if not memories:
        return f"Nothing was remembered in {span}."
    return "\n".join([f"{_count(len(memories))} of {span}:", *(_block(memory, now) for memory in memories)])


def health(tenant: str, times: Sequence[datetime], embedder: str, now: datetime) -> str:
    """How much a memory that works holds."""
    span = f", from {relative_age(min(times), now)} to {relative_age(max(times), now)}" if times else ""
    return f"The memory of {tenant} works: {_count(len(times))}{span}. Embedder: {embedder}."


def _count(number: int) -> str:
    return f"{number} {'memory' if number == 1 else 'memories'}"


def _block(memory: Memory, now: datetime, note: str = "") -> str:
    facts = [f"id {memory.id}", *([f"tags {', '.join(memory.tags)}"] if memory.tags else []), *([note] if note else [])]
    content = memory.content.replace("\n", "\n  ")
    return f"- {relative_age(memory.created_at, now)}: {content}\n  ({'; '.join(facts)})"
