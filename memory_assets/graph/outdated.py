"""Sentences of memories that sentences of other memories replace: what `memory_assets.graph.statements` found, as it is told.

What is forgotten, superseded or erased since the last build replaces nothing.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from memory_assets.display import shortened
from memory_assets.graph.rules import LIKELIEST
from memory_assets.language.statements import happened
from memory_assets.language.times import Instant
from memory_assets.models import Memory, State

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_MARKS = re.compile(r"^(?:[-*+>•]\s+|\d{1,3}[.)]\s+|\[[ xX]\]\s+)+|\*\*|__|`")
_TOLD_LENGTH = 120
"""Letters that are told of the sentence that holds."""
_RECOGNISED = 40
"""Letters of its beginning or end by which a sentence is recognised in a text that was cut."""


class StatementChange(NamedTuple):
    """A statement of a memory that another one replaces or contradicts."""

    old_id: int
    old_text: str
    new_id: int
    new_text: str
    on: datetime
    """The day on which the newer one says that it came about; else when it was said."""
    is_decided: bool
    """Whether the newer one holds; else the two contradict each other, or the newer one perhaps holds."""
    probability: float = 1.0


Replaced = Mapping[int, Sequence[StatementChange]]
"""By id of the older memory: its statements that are replaced, the latest change last."""


class Outdated(BaseModel):
    """A sentence of a memory that a sentence of another one replaces."""

    model_config = ConfigDict(frozen=True)

    sentence: str
    replaced_by: int
    on: Instant = Field(description="When the newer sentence was said, or since when it says that it holds.")
    by_sentence: str

    @property
    def line(self) -> str:
        """What is told below a text that holds the sentence."""
        return f"replaced by {self.replaced_by} on {self.on:%Y-%m-%d}: {shortened(self.by_sentence, _TOLD_LENGTH)}"

    def is_in(self, shown: str) -> bool:
        """Whether a text, which may be cut, shows the sentence."""
        return shows(shown, self.sentence)


def plain(text: str) -> str:
    """A sentence without the marks of a list or of emphasis, or a text with its sentences like that, on one line."""
    return " ".join(_MARKS.sub("", text.strip()).split())


def shows(text: str, sentence: str) -> bool:
    """Whether a text, which may be cut, shows a sentence of the memory that it is of."""
    shown = plain(text)
    return sentence[:_RECOGNISED] in shown or sentence[-_RECOGNISED:] in shown


def read_changes(connection: "DuckDBPyConnection", *, likely: bool = False) -> list[StatementChange]:
    """The statements of active memories that are replaced or contradicted, the latest change last; none that a person decided.

    Args:
        connection: to the catalog.
        likely: read those that are only perhaps replaced instead.
    """
    if not connection.execute("FROM graph_changes SELECT 1 LIMIT 1").fetchone():
        return []  # in DuckLake the query below costs a third of opening a tenant
    rows = connection.execute(f"""
        WITH likeliest AS (FROM graph_changes {LIKELIEST}),
        decided AS (SELECT source_id AS one, target_id AS two FROM graph_edges WHERE origin = 'stated')
        SELECT old_id, old_text, new_id, new_text, said_at, type IN ('EVOLVED_INTO', 'INVALIDATED_BY'), probability FROM likeliest
        JOIN graph_memories a ON a.id = old_id JOIN graph_memories b ON b.id = new_id
        WHERE (likeliest.type = 'RELATES_TO') = {likely} AND a.state = 'active' AND b.state = 'active'
          AND NOT EXISTS (FROM decided WHERE (one = old_id AND two = new_id) OR (one = new_id AND two = old_id))
        ORDER BY new_id, new_place, old_id, old_place
    """)
    changes = (StatementChange(*row) for row in rows.fetchall())
    return sorted((each._replace(on=happened(each.new_text, each.on)) for each in changes), key=lambda each: each.on)


def list_replaced(changes: Iterable[StatementChange]) -> Replaced:
    """The decided ones of some changes."""
    found: dict[int, list[StatementChange]] = {}
    for change in changes:
        if change.is_decided:
            found.setdefault(change.old_id, []).append(change)
    return found


def replaced_on(replaced: Replaced, older: int, newer: Memory) -> datetime:
    """The day that is told for an older memory that a newer one replaces."""
    days = [each.on for each in replaced.get(older, ()) if each.new_id == newer.id]
    return days[-1] if days else newer.created_at


def find_outdated(
    replaced: Replaced, shown: Iterable[Memory], read: Callable[[Collection[int]], Iterable[Memory]]
) -> dict[int, tuple[Outdated, ...]]:
    """The outdated sentences of those of some memories that have any, each with the newest sentence that holds instead.

    Args:
        replaced: as of the last build of the graph.
        shown: the memories, as they are now.
        read: gives further ones by their ids.
    """
    now = {memory.id: memory for memory in shown}
    asked = [number for number in now if number in replaced]
    if not asked:
        return {}
    reached: set[int] = set()
    ahead = set(asked)
    while ahead:
        reached |= ahead
        ahead = {each.new_id for number in ahead for each in replaced.get(number, ())} - reached
    if unread := sorted(reached - now.keys()):
        now |= {memory.id: memory for memory in read(unread)}
    texts = {number: plain(now[number].content) for number in reached & now.keys()}

    def newer(number: int, sentence: str) -> StatementChange | None:
        holding = (
            each
            for each in reversed(replaced.get(number, ()))
            if each.old_text == sentence
            and each.new_text in texts.get(each.new_id, "")
            and now[each.new_id].state is State.ACTIVE
        )
        return next(holding, None)

    found: dict[int, tuple[Outdated, ...]] = {}
    for number in asked:
        told = []
        for sentence in dict.fromkeys(each.old_text for each in replaced[number] if each.old_text in texts.get(number, "")):
            last, seen = newer(number, sentence), {number}
            while last and last.new_id not in seen and (later := newer(last.new_id, last.new_text)):
                seen.add(last.new_id)
                last = later
            if last and last.new_id != number:
                told.append(Outdated(sentence=sentence, replaced_by=last.new_id, on=last.on, by_sentence=last.new_text))
        if told:
            found[number] = tuple(told)
    return found
