"""Which tenants a service keeps open."""

import asyncio

import pytest

from memory_assets.api import pool as pool_module
from memory_assets.api.metrics import Metrics
from memory_assets.api.pool import TenantPool
from memory_assets.settings import Settings
from memory_assets.tenants import Tenant, create_tenant


def test_a_tenant_is_not_closed_while_a_request_is_under_way(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "_MOST_OPEN", 1)
    for name in ("one", "two", "three"):
        create_tenant(Tenant(settings, name))

    async def visits() -> None:
        pool = TenantPool(settings, Metrics())
        one = await pool.get("one")
        one.requests += 1
        await pool.get("two")
        await pool.get("three")
        assert await pool.get("one") is one
        one.requests -= 1
        await pool.get("two")
        assert await pool.get("one") is not one
        await pool.close(asyncio.create_task(asyncio.sleep(0)))

    asyncio.run(visits())
