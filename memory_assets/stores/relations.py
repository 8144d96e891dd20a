"""The `relations` table: how memories relate, as people and agents stated it. One row a statement, one commit a change."""

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from memory_assets.errors import InvalidInputError
from memory_assets.models import RelationType
from memory_assets.stores import lance
from memory_assets.stores.rows import derived_id

if TYPE_CHECKING:
    from lancedb.table import Table

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False, metadata={**lance.PRIMARY_KEY, lance.VERSION_FACT.encode(): b"1"}),
        pa.field("source_id", pa.int64()),
        pa.field("target_id", pa.int64()),
        pa.field("type", pa.string()),
        pa.field("confidence", pa.float32()),
        pa.field("note", pa.string()),
        pa.field("stated_by", pa.string()),
        pa.field("created_at", pa.timestamp("us", tz="UTC")),
    ]
)
MIGRATIONS: tuple[lance.Migration, ...] = ()


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
    """One tenant's stated relations."""

    def __init__(self, table: "Table") -> None:
        self.table = table

    @classmethod
    def open(cls, uri: str, freshness: float = 0.0) -> "RelationStore":
        """Open the store, creating and migrating it as needed; `freshness` is that of `lance.open_table`.

        Raises:
            StoreError: it cannot be read.
        """
        return cls(lance.open_table(uri, "relations", SCHEMA, MIGRATIONS, freshness))

    @property
    def version(self) -> int:
        """LanceDB's version of the table."""
        return self.table.version

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
        lance.upsert(self.table, pa.Table.from_pylist([row], schema=SCHEMA))
        return number

    def scan(self) -> pa.Table:
        """All stated relations."""
        return self.table.search().to_arrow()

    def of(self, number: int) -> pa.Table:
        """What was stated from and to one memory."""
        return self.table.search().where(f"source_id = {number} OR target_id = {number}").to_arrow()
