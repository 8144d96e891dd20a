"""Several machines on S3, DuckLake and PostgreSQL: other clocks, other settings, and machines that die."""

import pytest

from memory_assets.errors import StoreError
from memory_assets.models import NewMemory, Source
from memory_assets.operations.erase import erase
from memory_assets.operations.store import store
from memory_assets.settings import Settings
from memory_assets.stores.tombstones import Tombstones
from memory_assets.tenants import Tenant
from memory_assets_tests.stores.manifests import set_clock_of_writer
from memory_assets_tests.stores.objects import object_storage, objects

pytestmark = pytest.mark.timeout(600)


def objects_with(settings: Settings, word: bytes) -> list[str]:
    storage = object_storage(settings)
    return [path for path in objects(settings, "main") if word in storage.open_input_file(path).read()]


def test_an_erasure_that_is_repeated_after_it_was_finished_removes_what_stayed_in_the_bucket(elsewhere: Settings) -> None:
    tenant = Tenant(elsewhere)
    store(tenant, NewMemory("Mira owns the xylophone.", Source.CLI, id=2**52 + 1))
    set_clock_of_writer(tenant.memories.stored, 600, elsewhere)
    with pytest.raises(StoreError, match="set the clock"):
        erase(Tenant(elsewhere), [2**52 + 1], confirm=True)
    Tombstones.change(tenant.state, Tombstones.finish)  # as earlier releases did
    assert objects_with(elsewhere, b"xylophone")
    set_clock_of_writer(tenant.memories.stored, -600, elsewhere)
    erase(Tenant(elsewhere), [2**52 + 1], confirm=True)
    assert objects_with(elsewhere, b"xylophone") == []
