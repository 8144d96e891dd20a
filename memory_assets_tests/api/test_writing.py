"""How memories that arrive together are stored."""

import asyncio
import time
from typing import Any

import pytest

from memory_assets.api.metrics import Metrics
from memory_assets.api.writing import Writer
from memory_assets.language.process import ProcessingError
from memory_assets.models import NewMemory, Source
from memory_assets.tenants import Tenant


def test_clients_that_store_again_and_again_are_committed_together(tenant: Tenant) -> None:
    clients, notes = 4, 6
    tenant.memories.prepare()
    before = tenant.memories.version

    async def client(writer: Writer, name: int) -> None:
        for number in range(notes):
            for _ in range(5 * name):
                await asyncio.sleep(0)
            await writer.store(NewMemory(f"Alice wrote note {number} of client {name}.", Source.HTTP))

    async def all_clients() -> None:
        writer = Writer(tenant, asyncio.to_thread, Metrics())
        await asyncio.gather(*(client(writer, name) for name in range(clients)))

    asyncio.run(all_clients())
    assert len(tenant.memories) == clients * notes
    assert tenant.memories.version - before <= 2 * notes


def test_one_of_a_batch_that_fails_fails_alone_and_nobody_is_answered_before_the_commit(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed: list[str] = []
    add = tenant.memories.add

    def slow(memories: Any, *vectors: Any) -> int:
        time.sleep(0.02)
        version = add(memories, *vectors)
        committed.extend(memory.content for memory in memories)
        return version

    monkeypatch.setattr(tenant.memories, "add", slow)
    texts = ["Ana wrote note 1.", "Ana wrote note 2.", " ", "Ana wrote note 3."]

    async def client(writer: Writer, text: str) -> bool:
        await writer.store(NewMemory(text, Source.HTTP))
        return text in committed

    async def all_clients() -> "list[bool | BaseException]":
        writer = Writer(tenant, asyncio.to_thread, Metrics())
        return await asyncio.gather(*(client(writer, text) for text in texts), return_exceptions=True)

    *stored, last = asyncio.run(all_clients())
    failed = stored.pop(2)
    assert isinstance(failed, ProcessingError)
    assert [*stored, last] == [True, True, True]
    assert sorted(committed) == sorted(text for text in texts if text.strip())
    assert len(tenant.memories) == 3
