"""Which tenants a service keeps open."""

import asyncio
import gc
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from weakref import ref

import pytest

from memory_assets.api import pool as pool_module
from memory_assets.api.middleware import Metrics
from memory_assets.api.pool import OpenTenant, TenantPool
from memory_assets.errors import NotFoundError
from memory_assets.http import _event_loop
from memory_assets.language.embedders import EmbedderError
from memory_assets.models import NewMemory, Source
from memory_assets.operations.search import search
from memory_assets.operations.store import store as store_memory
from memory_assets.settings import Settings
from memory_assets.tenants import Tenant, create_tenant, delete_tenant


def test_a_tenant_is_not_closed_while_a_request_is_under_way(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "_MAX_OPEN", 1)
    for name in ("one", "two", "three"):
        create_tenant(Tenant(settings, name))

    async def visits() -> None:
        pool = TenantPool(settings, Metrics())
        one = await pool.get("one")
        with one.serving():
            await pool.get("two")
            await pool.get("three")
            assert await pool.get("one") is one
        await pool.get("two")
        assert await pool.get("one") is not one
        await pool.close(asyncio.create_task(asyncio.sleep(0)))

    asyncio.run(visits())


@pytest.fixture
def without_collector() -> Iterator[None]:
    """Disable the garbage collector, which runs rarely in a service."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize("workers", [1, 2])
def test_a_closed_tenant_gives_back_its_memory_and_its_files(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    monkeypatch.setattr(pool_module, "_MAX_OPEN", 2)
    names = [f"tenant{number}" for number in range(8)]
    for name in names:
        create_tenant(Tenant(settings, name))

    async def visits() -> None:
        pool = TenantPool(settings.model_copy(update={"resident_bytes": 1 << 30, "workers": workers}), Metrics())
        seen, files, taken = [], [], []
        for name in names:
            opened = await pool.get(name)
            with opened.serving():
                await opened.write(store_memory, opened.tenant, NewMemory("Alice wrote a note.", Source.HTTP))
                opened.do_upkeep()
                await opened.search(search, opened.tenant, "who wrote a note")
            assert opened.tenant.memories.is_resident
            seen.append(ref(opened.tenant.memories.stored))
            files.append(len(list(Path("/dev/fd").iterdir())))
            taken.append(pool._resident.taken)
        await asyncio.sleep(0.1)
        assert sum(each() is not None for each in seen) <= 3
        assert taken[-1] <= 2 * taken[2]
        assert files[-1] <= 2 * files[2]
        await pool.close(asyncio.create_task(asyncio.sleep(0)))

    asyncio.run(visits())


def test_what_was_stored_is_merged_in_a_quiet_moment_or_when_none_comes(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_tenant(Tenant(settings, "one"))
    clock = [1_000.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr("memory_assets.stores.group_commit.monotonic", lambda: clock[0])

    async def visits() -> None:
        pool = TenantPool(settings, Metrics())
        one = await pool.get("one")

        async def store() -> None:
            with one.serving():
                await one.write(store_memory, one.tenant, NewMemory("Alice wrote a note.", Source.HTTP))

        await store()
        assert one.may_merge, "searches go to disk as long as the tenant is not in memory"
        one.do_upkeep()
        clock[0] += 100
        assert not one.may_merge
        for seconds, merged in ((1, False), (1, False), (58, False), (1, True)):
            await store()
            clock[0] += seconds - 1
            with one.serving():
                clock[0] += 1
            assert one.may_merge == merged
        one.do_upkeep()
        await store()
        clock[0] += 1
        assert not one.may_merge
        clock[0] += 2
        assert one.may_merge
        await pool.close(asyncio.create_task(asyncio.sleep(0)))

    asyncio.run(visits())


@pytest.mark.parametrize("room", [0, 1 << 30])
def test_an_idle_service_looks_at_nothing(settings: Settings, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    create_tenant(Tenant(settings, "one"))
    monkeypatch.setattr(pool_module, "_UPKEEP_SECONDS", 0.01)
    monkeypatch.setattr(pool_module, "_QUIET_SECONDS", 0.01)
    monkeypatch.setattr(pool_module, "_UPKEEP_SHARE", 100.0)
    looked: list[str] = []

    def noting(name: str) -> property:
        look = getattr(OpenTenant, name)
        return property(lambda opened: (looked.append(name), look.fget(opened))[1])

    for name in ("is_upkeep_due", "needs_upkeep"):
        monkeypatch.setattr(OpenTenant, name, noting(name))

    async def settled(pool: TenantPool) -> None:
        while True:
            await asyncio.sleep(0.01)
            if looked and pool.served._waiters and not pool.served.is_set():  # the upkeep waits for the next request
                return

    async def visits() -> None:
        pool = TenantPool(settings.model_copy(update={"resident_bytes": room}), Metrics())
        upkeep = asyncio.create_task(pool.keep_up())
        one = await pool.get("one")
        for _ in range(2):
            with one.serving():
                await one.write(store_memory, one.tenant, NewMemory("Alice wrote a note.", Source.HTTP))
            await asyncio.wait_for(settled(pool), 60)
            assert one.unmerged_since is None
            assert one.tenant.memories.is_resident == bool(room)
            looked.clear()
            await asyncio.sleep(0.3)
            assert not looked
            looked.append("a request")
        await pool.close(upkeep)

    asyncio.run(visits())


def test_nothing_of_a_tenant_that_another_process_deleted_stays_in_memory(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(pool_module, "_UPKEEP_SECONDS", 0.01)
    create_tenant(Tenant(settings, "one"))

    async def visits() -> None:
        pool = TenantPool(settings, Metrics())
        upkeep = asyncio.create_task(pool.keep_up())
        one = await pool.get("one")
        with one.serving():
            await one.write(store_memory, one.tenant, NewMemory("Alice wrote a note.", Source.HTTP))
        delete_tenant(Tenant(settings, "one"))
        deadline = time.monotonic() + 30
        while pool._open and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
        assert not pool._open
        with pytest.raises(NotFoundError):
            await pool.get("one")
        await asyncio.sleep(0.2)
        await pool.close(upkeep)

    asyncio.run(visits())
    assert not [record for record in caplog.records if "upkeep" in record.message]


def test_a_tenant_that_opens_slowly_holds_up_no_other(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("slow", "quick"):
        create_tenant(Tenant(settings, name))
    prepare, released = TenantPool._prepare, Event()

    def prepare_slowly(pool: TenantPool, tenant: Tenant) -> None:
        if tenant.name == "slow":
            released.wait(120)
        prepare(pool, tenant)

    monkeypatch.setattr(TenantPool, "_prepare", prepare_slowly)

    async def visits() -> None:
        pool = TenantPool(settings, Metrics())
        slow = [asyncio.create_task(pool.get("slow")) for _ in range(8)]
        await asyncio.sleep(0)
        await asyncio.wait_for(pool.get("quick"), 60)
        assert not any(task.done() for task in slow)
        released.set()
        assert len({id(opened) for opened in await asyncio.gather(*slow)}) == 1
        await pool.close(asyncio.create_task(asyncio.sleep(0)))

    asyncio.run(visits())


def test_a_service_starts_without_the_weights_of_the_network(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def missing() -> None:
        raise EmbedderError("its weights are not installed")

    monkeypatch.setattr("memory_assets.language.judge.load", missing)
    TenantPool(settings, Metrics()).warm_up()
    assert "its weights are not installed" in caplog.text


def test_no_thread_runs_after_a_warm_up_with_a_remote_embedder_because_workers_are_forked_then(settings: Settings) -> None:
    _event_loop.cache_clear()
    before = set(threading.enumerate())
    given = {"embedder": "openai:m", "openai_url": "https://embedder.invalid/v1"}
    TenantPool(settings.model_copy(update=given), Metrics()).warm_up()
    assert set(threading.enumerate()) <= before
