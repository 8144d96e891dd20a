"""How memories that arrive together are stored."""

import asyncio

from memory_assets.api.metrics import Metrics
from memory_assets.api.writing import Writer
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
