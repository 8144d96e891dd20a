"""Fixtures for the graph: a tenant's real stores in a temporary folder, and a short way to fill them."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memory_assets.graph.edges import GraphOutcome, refresh_graph
from memory_assets.models import Entity, Kind, Memory, Source
from memory_assets.settings import Settings, load_settings
from memory_assets.stores.catalog import Catalog
from memory_assets.stores.memories import MemoryStore
from memory_assets.stores.relations import RelationStore
from memory_assets.stores.rows import content_hash
from memory_assets.tenants import Tenant
from memory_assets_tests.conftest import make_table

DAY = datetime(2026, 6, 1, 12, tzinfo=UTC)
DIMENSION = 16
EMBEDDER = "test"

Edge = tuple[int, int, str]


class World:
    """A tenant whose new memories are committed together before the next read."""

    def __init__(self, folder: Path) -> None:
        self._tenant = Tenant(load_settings(data_dir=folder, pai_seed=folder / "none.json"), "main")
        self._put: dict[int, tuple[Memory, np.ndarray]] = {}

    @property
    def tenant(self) -> Tenant:
        store, put = self._tenant.memories, self._put
        if put:
            self._put = {}
            make_table(self._tenant, EMBEDDER, len(next(iter(put.values()))[1]))
            there = {memory.id for memory in store.get(put.keys())}
            now = datetime.now(UTC)
            memories = [replace(each, updated_at=now) if each.id in there else each for each, _ in put.values()]
            store.put(memories, np.stack([unit for _, unit in put.values()]), EMBEDDER)
        return self._tenant

    def with_settings(self, **changes: Any) -> Tenant:
        """Change the settings of the tenant and return it."""
        self._tenant.settings = self._tenant.settings.model_copy(update=changes)
        return self.tenant

    @property
    def settings(self) -> Settings:
        return self.tenant.settings

    @property
    def memories(self) -> MemoryStore:
        return self.tenant.memories

    @property
    def catalog(self) -> Catalog:
        return self.tenant.catalog

    @property
    def relations(self) -> RelationStore:
        return self.tenant.relations

    def put(
        self,
        number: int,
        content: str = "",
        *,
        names: Sequence[tuple[str, str]] = (),
        vector: Sequence[float] | None = None,
        days: float = 0,
        **fields: Any,
    ) -> None:
        """Store a memory, created and first seen `days` before DAY; by default its vector is random, seeded with `number`."""
        text = content or "".join("klmnopqrst"[int(digit)] for digit in str(number)) * 3
        made = Memory(
            **{
                "id": number,
                "content": text,
                "kind": Kind.NOTE,
                "source": Source.CLI,
                "source_key": "",
                "created_at": DAY - timedelta(days=days),
                "updated_at": DAY - timedelta(days=days),
                "entities": tuple(Entity(name, kind) for name, kind in names),
                "content_hash": content_hash(text),
                "revision": content_hash(f"{text}{names}{fields}{days}"),
                "pipeline": "test",
                **fields,
            }
        )
        direction = np.array(vector) if vector is not None else np.random.default_rng(number).normal(size=DIMENSION)
        if number in self._put:
            _ = self.tenant
        self._put[number] = made, (direction / np.linalg.norm(direction)).astype(np.float32)

    def refresh(self, **options: Any) -> GraphOutcome:
        return refresh_graph(self.catalog, self.memories, self.relations, **options)

    def edges(self, *origins: str) -> set[Edge]:
        """Return the edges of some origins, or all edges."""
        with self.catalog.read() as connection:
            rows = connection.execute("SELECT source_id, target_id, type, origin FROM graph_edges").fetchall()
        return {tuple(row[:3]) for row in rows if not origins or row[3] in origins}

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        with self.catalog.read() as connection:
            return connection.execute(sql).fetchall()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)
