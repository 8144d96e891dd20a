"""Outdated sentences: the replacements and contradictions that `memory_assets.graph.statements` found, as shown to readers.

A memory that was forgotten, superseded or erased since the last build replaces nothing.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from memory_assets.display import shortened
from memory_assets.graph.rules import LIKELIEST
from memory_assets.language.statements import happened
from memory_assets.language.times import Instant, day_in
from memory_assets.language.words import LINE_BREAK, on_one_line
from memory_assets.models import REPLACING, Memory, RelationType, State, is_time_guessed

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

    from memory_assets.tenants import Tenant

_MARKS = re.compile(r"^(?:[-*+>•]\s+|\d{1,3}[.)]\s+|\[[ xX]\]\s+)+|\*\*|`")
_UNDERLINED = re.compile(r"(?<!\w)__(?!\w+__)(\S.*?\S)__(?!\w)")
"""Emphasis by underscores, which are no marks in `__init__` and `__dirname`."""
_SHOWN_CHARS = 120
_LIKELY = 0.65
"""Probability from which a sentence is shown as perhaps replaced. In short memories half of those shown are replaced."""
_IDENTIFYING_CHARS = 40
"""Characters of a sentence's start or end that identify it in a truncated text."""

Verdict = Literal["replaced", "perhaps replaced", "contradicted"]


class StatementChange(NamedTuple):
    """A statement of a memory that another one replaces or contradicts."""

    old_id: int
    old_text: str
    new_id: int
    new_text: str
    on: datetime
    """When the newer statement says that it began to hold, else when it was said."""
    verdict: Verdict
    probability: float = 1.0


Replaced = Mapping[int, Sequence[StatementChange]]
"""By id of the older memory: its statements that are replaced, the latest change last."""


class Outdated(BaseModel):
    """A sentence that a sentence of another memory replaces, perhaps replaces, or contradicts without a decision."""

    model_config = ConfigDict(frozen=True)

    sentence: str = Field(description="The sentence; empty for the whole memory, if only a stated relation replaces it.")
    replaced_by: int = Field(description="The memory with the other sentence.")
    on: Instant | None = Field(
        description="When the other sentence was said, or since when it holds according to itself; null if that is guessed."
    )
    by_sentence: str
    verdict: Verdict = "replaced"

    def line(self, zone: tzinfo) -> str:
        """Return the line shown below a text that holds the sentence, with the date in `zone`."""
        return f"{self.verdict} by {self.replaced_by}{on_day(self.on, zone)}: {shortened(self.by_sentence, _SHOWN_CHARS)}"

    def is_in(self, shown: str) -> bool:
        """Whether a text, which may be truncated, contains the sentence."""
        return contains_sentence(shown, self.sentence)


def on_day(moment: datetime | None, zone: tzinfo) -> str:
    """Return " on DAY" for a sentence; empty if the day is not known."""
    return f" on {day_in(moment, zone)}" if moment else ""


def strip_marks(text: str) -> str:
    """Return a sentence or text on one line, without list markers and emphasis."""
    return _UNDERLINED.sub(r"\1", _MARKS.sub("", on_one_line(text)))


def contains_sentence(text: str, sentence: str) -> bool:
    """Whether a text, which may be truncated, contains a sentence of its memory."""
    shown, sentence = (each.replace(LINE_BREAK, " ") for each in (strip_marks(text), sentence))
    return sentence[:_IDENTIFYING_CHARS] in shown or sentence[-_IDENTIFYING_CHARS:] in shown


def read_changes(connection: "DuckDBPyConnection") -> list[StatementChange]:
    """Return the replaced, perhaps replaced or contradicted statements of active memories, the latest change last.

    Of pairs of memories that a person decided, only the older one's replacement by the newer one is returned, if it was stated; its texts
    are empty if no statement of them is known to be replaced. `connection` leads to the catalog.
    """
    if not connection.execute(
        "FROM graph_changes SELECT 1 UNION ALL FROM graph_edges SELECT 1 WHERE origin = 'stated' LIMIT 1"
    ).fetchone():
        return []  # in DuckLake the query below takes a third of the time of opening a tenant
    rows = connection.execute(f"""
        WITH decided AS (
            SELECT source_id AS one, target_id AS two, bool_or(type IN {tuple(map(str, REPLACING))}) AS replaces
            FROM graph_edges WHERE origin = 'stated' GROUP BY ALL
        ),
        confirmed AS (SELECT one AS old_id, two AS new_id FROM decided WHERE replaces),
        likeliest AS (FROM graph_changes {LIKELIEST}),
        found AS (
            SELECT old_id, old_place, old_text, new_id, new_place, new_text, said_at, probability,
                   CASE WHEN type = 'RELATES_TO' AND probability < {_LIKELY} THEN 'perhaps replaced' ELSE 'replaced' END AS verdict
            FROM likeliest SEMI JOIN confirmed USING (old_id, new_id)
            UNION ALL
            SELECT old_id, old_place, old_text, new_id, new_place, new_text, said_at, probability,
                   CASE type WHEN 'RELATES_TO' THEN 'perhaps replaced' WHEN 'CONTRADICTS' THEN 'contradicted' ELSE 'replaced' END
            FROM likeliest
            WHERE NOT EXISTS (FROM decided WHERE (one = old_id AND two = new_id) OR (one = new_id AND two = old_id))
        ),
        shown AS (
            FROM found
            UNION ALL BY NAME
            SELECT old_id, 0 AS old_place, '' AS old_text, new_id, 0 AS new_place, '' AS new_text, created_at AS said_at,
                   1.0 AS probability, 'replaced' AS verdict
            FROM confirmed JOIN graph_memories m ON m.id = new_id
            ANTI JOIN (FROM found WHERE verdict = 'replaced') f ON f.old_id = confirmed.old_id AND f.new_id = confirmed.new_id
        )
        SELECT old_id, old_text, new_id, new_text, said_at, verdict, probability
        FROM shown JOIN graph_memories a ON a.id = old_id JOIN graph_memories b ON b.id = new_id
        WHERE a.state = 'active' AND b.state = 'active'
        ORDER BY new_id, new_place, old_id, old_place
    """)
    changes = (StatementChange(*row) for row in rows.fetchall())
    return sorted((each._replace(on=happened(each.new_text, each.on)) for each in changes), key=lambda each: each.on)


def read_successors(connection: "DuckDBPyConnection") -> "pa.Table":
    """Return pairs (`old_id`, `new_id`) of memories in any state: the newer replaces the older, or surely one of its statements."""
    replacing = tuple(map(str, REPLACING))
    return connection.execute(f"""
        SELECT source_id AS old_id, target_id AS new_id FROM graph_edges WHERE type IN {replacing}
        UNION
        SELECT old_id, new_id FROM (FROM graph_changes {LIKELIEST}) WHERE type IN {replacing} AND NOT EXISTS (
            FROM graph_edges WHERE origin = 'stated'
                AND ((source_id = old_id AND target_id = new_id) OR (source_id = new_id AND target_id = old_id))
        )
    """).to_arrow_table()


def read_contradictions(connection: "DuckDBPyConnection", ids: Collection[int] | None = None) -> list[tuple[int, int, str]]:
    """Return pairs of contradicting memories, each with what differs, the surest first; with `ids`, only pairs with one of them.

    Neither their states nor decisions are looked at, see `find_undecided`. `connection` leads to the catalog.
    """
    return connection.execute(
        f"""
        SELECT least(one, two) AS one, greatest(one, two) AS other, coalesce(any_value(note), '') FROM (
            SELECT source_id AS one, target_id AS two, type, note, confidence FROM graph_edges
            UNION ALL SELECT old_id, new_id, type, note, confidence FROM graph_changes {LIKELIEST}
        ) WHERE type = '{RelationType.CONTRADICTS}' AND ($1::BIGINT[] IS NULL OR list_contains($1, one) OR list_contains($1, two))
        GROUP BY ALL ORDER BY max(confidence) DESC, one, other
        """,
        [None if ids is None else list(ids)],
    ).fetchall()


def find_undecided(tenant: "Tenant", pairs: Iterable[tuple[int, int]]) -> set[frozenset[int]]:
    """Return those pairs of contradicting memories that are undecided now: both are active, and no stated relation decides."""
    from memory_assets.stores.lance import ids_in

    found = set(map(frozenset, pairs))
    if not found:
        return found
    ends = sorted({end for pair in found for end in pair})
    for row in tenant.relations.of(*ends).to_pylist():
        if row["type"] != RelationType.CONTRADICTS:
            found.discard(frozenset((row["source_id"], row["target_id"])))
    active = set(tenant.memories.scan(("id",), f"{ids_in(ends)} AND state = '{State.ACTIVE}'")["id"].to_pylist())
    return {pair for pair in found if pair <= active}


def list_replaced(changes: Iterable[StatementChange]) -> Replaced:
    """Return the changes that are sure replacements, by id of the older memory."""
    found: dict[int, list[StatementChange]] = {}
    for change in changes:
        if change.verdict == "replaced":
            found.setdefault(change.old_id, []).append(change)
    return found


def list_doubted(changes: Iterable[StatementChange]) -> Replaced:
    """Return, by id of a memory, its contradicted and perhaps replaced statements, the latest change last."""
    found: dict[int, list[StatementChange]] = {}
    for change in changes:
        if change.verdict == "contradicted":
            turned = change._replace(
                old_id=change.new_id, old_text=change.new_text, new_id=change.old_id, new_text=change.old_text
            )
            found.setdefault(turned.old_id, []).append(turned)
        if change.verdict == "contradicted" or (change.verdict == "perhaps replaced" and change.probability >= _LIKELY):
            found.setdefault(change.old_id, []).append(change)
    return found


def replaced_on(replaced: Replaced, older: int, newer: Memory) -> datetime | None:
    """Return the date on which `newer` replaces an older memory; None if it is guessed."""
    days = [each.on for each in replaced.get(older, ()) if each.new_id == newer.id]
    return _unless_guessed(days[-1] if days else newer.created_at, newer)


def _unless_guessed(day: datetime, newer: Memory) -> datetime | None:
    """Return the day of a sentence of `newer`; None if it is only the memory's guessed time."""
    return None if day == newer.created_at and is_time_guessed(newer.metadata) else day


def find_outdated(
    replaced: Replaced,
    doubted: Replaced,
    shown: Iterable[Memory],
    read: Callable[[Collection[int]], Iterable[Memory]],
) -> dict[int, tuple[Outdated, ...]]:
    """Return the outdated sentences of memories that have any, each with the newest sentence that replaces it.

    `doubted` statements are contradicted or perhaps replaced; each is shown with the one that disagrees. `read` reads further memories.
    """
    now = {memory.id: memory for memory in shown}
    asked = [number for number in now if number in replaced or number in doubted]
    if not asked:
        return {}
    reachable: set[int] = set()
    ahead = set(asked).union(each.new_id for number in asked for each in doubted.get(number, ()))
    while ahead:
        reachable |= ahead
        ahead = {each.new_id for number in ahead for each in replaced.get(number, ())} - reachable
    if unread := sorted(reachable - now.keys()):
        now |= {memory.id: memory for memory in read(unread)}
    texts = {number: strip_marks(now[number].content) for number in reachable & now.keys()}

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
        outdated = []
        text = texts.get(number, "")
        for sentence in dict.fromkeys(each.old_text for each in replaced.get(number, ()) if each.old_text in text):
            last, seen = newer(number, sentence), {number}
            while last and last.new_id not in seen and (later := newer(last.new_id, last.new_text)):
                seen.add(last.new_id)
                last = later
            if last and last.new_id != number:
                on = _unless_guessed(last.on, now[last.new_id])
                by_sentence = last.new_text or shortened(texts[last.new_id], _SHOWN_CHARS)
                outdated.append(Outdated(sentence=sentence, replaced_by=last.new_id, on=on, by_sentence=by_sentence))
        listed = {each.sentence for each in outdated}
        for sentence, each in {each.old_text: each for each in doubted.get(number, ())}.items():
            other = now.get(each.new_id)
            holds = other is not None and other.state is State.ACTIVE and each.new_text in texts[each.new_id]
            if other and holds and sentence in text and sentence not in listed:
                on = _unless_guessed(happened(each.new_text, other.created_at), other)
                outdated.append(
                    Outdated(sentence=sentence, replaced_by=other.id, on=on, by_sentence=each.new_text, verdict=each.verdict)
                )
        if outdated:
            found[number] = tuple(outdated)
    return found
