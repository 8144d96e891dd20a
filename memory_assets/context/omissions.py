"""Why a memory that a topic leads to is not in its context document."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from memory_assets.context import quoting
from memory_assets.context.assembly import Context
from memory_assets.context.model import Node

if TYPE_CHECKING:
    from memory_assets.context.store import StoreReader

_MOST = 50
"""Omissions of a kind."""


class Omission(NamedTuple):
    """A node that the context leaves out."""

    node: Node
    reason: str


def find_omissions(reader: "StoreReader", context: Context) -> list[Omission]:
    """What says the same as another text, is superseded, or is left out by the lens."""
    found: dict[str, Omission] = {}
    for each in _omissions(reader, context):
        found.setdefault(each.node.id, each)
    return list(found.values())


def _omissions(reader: "StoreReader", context: Context) -> Iterator[Omission]:
    told = {ranked.node.id: ranked.node for ranked in context.nodes}
    repeating = reader.same | dict(context.repeating)
    for number, node in reader.nodes(list(repeating)[:_MOST]).items():
        if node.id not in told:
            yield Omission(node, f"said by {_named(told.get(repeating[number]), repeating[number])}")
    for number, versions in reader.history(list(told)).items():
        for version in versions:
            yield Omission(version, f"superseded by {_named(told.get(number), number)}")
    for node in reader.nodes(list(context.unfollowed)[:_MOST]).values():
        yield Omission(node, f"the lens {context.request.lens.name} does not follow {context.unfollowed[node.id]}")


def _named(node: Node | None, number: str) -> str:
    return quoting.name(node.name) if node else f"id {number}"
