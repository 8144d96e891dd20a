"""Memories that arrive together are stored together."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from memory_assets.errors import MemoryAssetsError
from memory_assets.language.process import ProcessingError
from memory_assets.models import NewMemory, Source
from memory_assets.operations.store import StoredMemory, store
from memory_assets.tenants import Tenant


def store_all(tenant: Tenant, texts: Sequence[str]) -> "list[StoredMemory | MemoryAssetsError]":
    def attempt(text: str) -> "StoredMemory | MemoryAssetsError":
        try:
            return store(tenant, NewMemory(text, Source.HTTP))
        except MemoryAssetsError as error:
            return error

    with ThreadPoolExecutor(len(texts)) as threads:
        return list(threads.map(attempt, texts))


def test_clients_that_store_again_and_again_are_committed_together(tenant: Tenant) -> None:
    clients, notes = 4, 6
    tenant.memories.prepare()
    before = tenant.memories.version

    def client(name: int) -> None:
        for number in range(notes):
            store(tenant, NewMemory(f"Alice wrote note {number} of client {name}.", Source.HTTP))

    with ThreadPoolExecutor(clients) as threads:
        list(threads.map(client, range(clients)))
    assert len(tenant.memories) == clients * notes
    assert tenant.memories.version - before <= 2 * notes


def test_one_of_a_batch_that_fails_fails_alone(tenant: Tenant) -> None:
    texts = ["Ana wrote note 1.", "Ana wrote note 2.", " ", "Ana wrote note 3."]
    stored = store_all(tenant, texts)
    failed = stored.pop(2)
    assert isinstance(failed, ProcessingError)
    assert all(isinstance(each, StoredMemory) for each in stored)
    assert sorted(memory.content for batch in tenant.memories.batches() for memory in batch) == sorted(
        text for text in texts if text.strip()
    )


def test_nobody_is_answered_before_the_commit(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> int:
        raise MemoryAssetsError("The disk is full.")

    monkeypatch.setattr(tenant.memories, "add", fail)
    assert all(isinstance(each, MemoryAssetsError) for each in store_all(tenant, ["Ana sails.", "Ben sails.", "Cleo sails."]))
    assert len(tenant.memories) == 0
