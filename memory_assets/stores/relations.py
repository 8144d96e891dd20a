"""The `relations` table: relations between memories, stated by people and agents. One row a statement, one commit a change."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from memory_assets.errors import InvalidInputError
from memory_assets.models import RelationType
from memory_assets.stores import lance
from memory_assets.stores.location import Location
from memory_assets.stores.rows import derived_id
from memory_assets.stores.schema import RELATIONS, VERSION, VERSION_FACT
from memory_assets.stores.tables import StoredTable, TableDefinition, TableStore, reading
from memory_assets.stores.upkeep import Upkeep

SCHEMA = RELATIONS.arrow(facts={VERSION_FACT: VERSION})
DEFINITION = TableDefinition("relations", SCHEMA)


@dataclass(frozen=True, slots=True)
class StatedRelation:
    """A typed edge between two memories that somebody stated."""

    source_id: int
    target_id: int
    type: RelationType
    confidence: float = 1.0
    note: str = ""
    stated_by: str = "cli"

    @property
    def id(self) -> int:
        """Derived from the memories and the type, so equal statements have one id."""
        return derived_id(f"{self.source_id}>{self.target_id}", self.type)

    def check(self) -> None:
        """Raise InvalidInputError for a relation of a memory to itself or a confidence outside 0..1."""
        if self.source_id == self.target_id:
            raise InvalidInputError("A memory cannot relate to itself; give two different ids.")
        if not 0.0 <= self.confidence <= 1.0:
            raise InvalidInputError(f"The confidence {self.confidence} must lie within 0 and 1.")


class RelationStore(TableStore):
    """One tenant's stated relations. Every write is one commit; after StoreError, nothing was written."""

    def __init__(self, place: str | Location, freshness: float = 0.0, data_dir: Path | None = None) -> None:
        super().__init__(StoredTable(place, DEFINITION, freshness, data_dir))
        self.upkeep = Upkeep(self.stored, lambda: None)

    def state(self, relation: StatedRelation) -> None:
        """Record a relation that passes `check`; stating it again replaces its confidence and note."""
        relation.check()
        row = {"id": relation.id, **asdict(relation), "created_at": datetime.now(UTC)}
        lance.upsert(self.stored, pa.Table.from_pylist([row], schema=SCHEMA))

    def withdraw(self, numbers: Sequence[int]) -> None:
        table = self.stored.writing
        lance.commit(
            self.stored, lambda: table.delete(lance.ids_in(numbers)), f"Relations in {self.stored.uri} could not be removed"
        )

    def insert(self, relations: Mapping[StatedRelation, datetime]) -> None:
        """Insert relations that were stated elsewhere, with their times; existing ones are kept."""
        there = set(self.scan()["id"].to_pylist()) if relations else set()
        rows = [{"id": each.id, **asdict(each), "created_at": at} for each, at in relations.items() if each.id not in there]
        if rows:
            lance.insert(self.stored, pa.Table.from_pylist(rows, schema=SCHEMA))

    @reading
    def scan(self) -> pa.Table:
        return lance.fetch(lance.scan(self.stored.reading))

    @reading
    def of(self, *numbers: int) -> pa.Table:
        """Return the relations from and to memories, of which there must be one."""
        listed = ", ".join(map(str, numbers))
        return lance.fetch(lance.scan(self.stored.reading).where(f"source_id IN ({listed}) OR target_id IN ({listed})"))
