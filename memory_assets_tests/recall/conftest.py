from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memory_assets.language.embedders.protocol import Role
from memory_assets.language.words import topic_words
from memory_assets.models import Kind, Memory, Source
from memory_assets.settings import load_settings
from memory_assets.stores.graph_builds import record_build
from memory_assets.stores.rows import content_hash, indexed_text
from memory_assets.tenants import Tenant
from memory_assets_tests.conftest import make_table

START = datetime(2026, 3, 2, 9, tzinfo=UTC)


class HashedWords:
    """A real, small embedder for tests: the sum of one fixed random direction per word."""

    name = "hashed-words"
    dimension = 64

    def embed(self, texts: Sequence[str], role: Role = "document") -> np.ndarray:
        return np.stack([self._vector(text) for text in texts])

    def _vector(self, text: str) -> np.ndarray:
        total = np.full(self.dimension, 1e-3)
        for word in topic_words(text):
            seed = int.from_bytes(blake2b(word.encode(), digest_size=8).digest())
            total += np.random.default_rng(seed).normal(size=self.dimension)
        return (total / np.linalg.norm(total)).astype(np.float32)


@pytest.fixture
def tenant(tmp_path: Path) -> Tenant:
    tenant = Tenant(load_settings(data_dir=tmp_path, timezone="UTC"), "test")
    tenant.__dict__["embedder"] = HashedWords()
    return tenant


class Remember:
    """Function object that stores memories; by default ids count from 1 and times advance by a minute."""

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self._numbers = count(1)

    def __call__(self, content: str, **fields: Any) -> Memory:
        """Store one memory."""
        return self.all([content], **fields)[0]

    def all(self, contents: Sequence[str], **fields: Any) -> list[Memory]:
        """Store many in one commit."""
        memories = [self.made(content, **fields) for content in contents]
        embedder = self._tenant.embedder
        vectors = embedder.embed(list(map(indexed_text, memories)))
        make_table(self._tenant, embedder.name, vectors.shape[1])
        self._tenant.memories.put(memories, vectors, embedder.name)
        return memories

    def made(self, content: str, **fields: Any) -> Memory:
        """Make a memory without storing it."""
        number = next(self._numbers)
        return Memory(
            **{
                "id": number,
                "content": content,
                "kind": Kind.NOTE,
                "source": Source.CLI,
                "source_key": "",
                "content_hash": content_hash(content),
                "created_at": START + timedelta(minutes=number),
                "updated_at": datetime.now(UTC),
            }
            | fields
        )


@pytest.fixture
def remember(tenant: Tenant) -> Remember:
    return Remember(tenant)


@pytest.fixture
def connect(tenant: Tenant) -> Callable[..., None]:
    """Return a function that writes edges (source, target, type, confidence, note) into the catalog."""

    def write(*edges: tuple[int, int, str, float, str], origin: str = "stated") -> None:
        with tenant.catalog.write() as connection:
            connection.executemany(
                "INSERT INTO graph_edges (source_id, target_id, type, confidence, origin, note) VALUES (?, ?, ?, ?, ?, ?)",
                [(source, target, kind, confidence, origin, note) for source, target, kind, confidence, note in edges],
            )
            record_build(connection)

    return write


@pytest.fixture
def mention(tenant: Tenant) -> Callable[..., None]:
    """Return a function that writes an entity and the memories that mention it into the catalog."""

    def write(entity: int, label: str, *memories: int) -> None:
        with tenant.catalog.write() as connection:
            connection.execute("INSERT INTO graph_nodes (id, kind, label) VALUES (?, 'entity', ?)", [entity, label])
            connection.executemany("INSERT INTO graph_mentions VALUES (?, ?)", [(memory, entity) for memory in memories])
            record_build(connection)

    return write
