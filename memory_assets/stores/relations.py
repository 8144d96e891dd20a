"""The `relations` table: how memories relate, as people and agents stated it. One row a statement, one commit a change."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from memory_assets.errors import InvalidInputError
from memory_assets.models import RelationType
from memory_assets.stores import lance
from memory_assets.stores.rows import derived_id
from memory_assets.stores.tables import StoredTable, TableDefinition, primary_key, reading
from memory_assets.stores.upkeep import Upkeep

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = pa.schema(
    [
        primary_key(),
        pa.field("source_id", pa.int64()),
        pa.field("target_id", pa.int64()),
        pa.field("type", pa.string()),
        pa.field("confidence", pa.float32()),
        pa.field("note", pa.string()),
        pa.field("stated_by", pa.string()),
        pa.field("created_at", pa.timestamp("us", tz="UTC")),
    ]
)
DEFINITION = TableDefinition("relations", SCHEMA)
_MANY = 5_000
"""Memories from which it is cheaper to read all than to look each up."""


@dataclass(frozen=True, slots=True)
class StatedRelation:
    """One typed edge between two memories, as somebody stated it."""

    source_id: int
    target_id: int
    type: RelationType
    confidence: float = 1.0
    note: str = ""
    stated_by: str = "cli"


class RelationStore:
    """One tenant's stated relations.

    Reading creates nothing: a store that does not exist is empty. The first writing makes it.
    """

    def __init__(self, uri: str, freshness: float = 0.0, data_dir: "Path | None" = None) -> None:
        """Name the store; nothing is opened yet. `freshness` and `data_dir` are those of `StoredTable`."""
        self.stored = StoredTable(uri, DEFINITION, freshness, data_dir)
        self.upkeep = Upkeep(self.stored, lambda: None)

    def prepare(self) -> None:
        """Make the store now, or bring it up to date, instead of with the first writing.

        Raises:
            StoreError: that cannot be done.
        """
        _ = self.stored.writing

    @property
    @reading
    def version(self) -> int:
        """LanceDB's version of the table."""
        return self.stored.reading.version

    def state(self, relation: StatedRelation) -> int:
        """Record a relation; stating it again replaces its confidence and note.

        Returns:
            The relation's id: the same for the same two memories and type.

        Raises:
            InvalidInputError: a memory relates to itself, or the confidence is not within 0..1.
            StoreError: the commit failed; nothing was written.
        """
        if relation.source_id == relation.target_id:
            raise InvalidInputError("A memory cannot relate to itself; give two different ids.")
        if not 0.0 <= relation.confidence <= 1.0:
            raise InvalidInputError(f"The confidence {relation.confidence} must lie within 0 and 1.")
        number = derived_id(f"{relation.source_id}>{relation.target_id}", relation.type)
        row = {"id": number, **asdict(relation), "created_at": datetime.now(UTC)}
        lance.upsert(self.stored.writing, pa.Table.from_pylist([row], schema=SCHEMA))
        return number

    @reading
    def scan(self) -> pa.Table:
        """All stated relations."""
        return self.stored.reading.search().to_arrow()

    @reading
    def ends_since(self, moment: datetime) -> pa.Table:
        """Columns `source_id`, `target_id` and `created_at` of what was stated since a moment."""
        columns = ["source_id", "target_id", "created_at"]
        where = f"created_at >= timestamp '{moment:%Y-%m-%d %H:%M:%S.%f}+00:00'"
        return self.stored.reading.search().where(where).select(columns).to_arrow()

    @reading
    def of_any(self, numbers: Sequence[int]) -> pa.Table:
        """What was stated from and to some memories; above a few thousand of them, all that was stated."""
        if len(numbers) > _MANY:
            return self.scan()
        listed = ", ".join(map(str, numbers))
        where = f"source_id IN ({listed}) OR target_id IN ({listed})" if numbers else "false"
        return self.stored.reading.search().where(where).to_arrow()

    @reading
    def __len__(self) -> int:
        return self.stored.reading.count_rows()

    @reading
    def last_stated(self) -> int:
        """When a relation was stated last, in microseconds since 1970; 0 where there is none."""
        times = self.stored.reading.search().select(["created_at"]).to_arrow()["created_at"]
        return int(times.cast(pa.int64()).to_numpy().max(initial=0))

    @reading
    def of(self, number: int) -> pa.Table:
        """What was stated from and to one memory."""
        return self.stored.reading.search().where(f"source_id = {number} OR target_id = {number}").to_arrow()
