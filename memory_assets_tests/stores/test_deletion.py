"""A tenant that is deleted while others write to it."""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime

import numpy as np
import pytest

from memory_assets.errors import StoreError
from memory_assets.models import Kind, Memory, Source, State
from memory_assets.settings import Settings
from memory_assets.stores.locks import shared_lock
from memory_assets.stores.memories import MemoryStore
from memory_assets.stores.rows import new_id
from memory_assets.tenants import Tenant, create_tenant, delete_tenant

VECTOR = np.full((1, 4), 0.5, np.float32)


def add(store: MemoryStore) -> None:
    now = datetime.now(UTC)
    store.add([Memory(new_id(), "a secret", Kind.NOTE, Source.HTTP, "", now, now)], VECTOR, "test")


@pytest.fixture
def written(settings: Settings) -> Tenant:
    tenant = Tenant(settings, "ann")
    create_tenant(tenant)
    for _ in range(60):
        add(tenant.memories)
    return tenant


def test_deleting_waits_for_the_commit_that_is_under_way(written: Tenant) -> None:
    deleting = threading.Thread(target=delete_tenant, args=(Tenant(written.settings, "ann"),))
    with shared_lock(written.memories.table):
        deleting.start()
        deleting.join(0.3)
        assert deleting.is_alive()
        assert written.folder.exists()
    deleting.join(10)
    assert not written.folder.exists()


@pytest.mark.parametrize(
    "change",
    [
        add,
        lambda store: store.upkeep.optimize(),
        lambda store: store.transition([1], State, State.FORGOTTEN),
        lambda store: store.delete([1]),
    ],
)
def test_nothing_is_written_to_a_tenant_that_was_deleted(written: Tenant, change: Callable[[MemoryStore], object]) -> None:
    store = written.memories
    delete_tenant(Tenant(written.settings, "ann"))
    with pytest.raises(StoreError):
        change(store)
    assert not written.folder.exists()


def test_writers_at_full_speed_leave_nothing_of_a_deleted_tenant(settings: Settings) -> None:
    def write(store: MemoryStore, ended: threading.Event) -> None:
        try:
            while not ended.is_set():
                add(store)
        except StoreError:
            ended.set()

    for _ in range(6):
        tenant, ended = Tenant(settings, "ann"), [threading.Event() for _ in range(3)]
        create_tenant(tenant)
        writers = [threading.Thread(target=write, args=(tenant.memories, each)) for each in ended]
        for writer in writers:
            writer.start()
        time.sleep(0.1)
        delete_tenant(Tenant(settings, "ann"))
        for each in ended:
            assert each.wait(10)
        for writer in writers:
            writer.join()
        assert list(settings.data_dir.iterdir()) == []
