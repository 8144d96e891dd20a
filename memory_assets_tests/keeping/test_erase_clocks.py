"""`memory erase` removes a text even if another writer's clock is ahead of this machine's, or says that it could not."""

import pytest

from memory_assets.errors import StoreError
from memory_assets.operations.erase import erase
from memory_assets.stores.tombstones import Tombstones
from memory_assets.tenants import Tenant
from memory_assets_tests.keeping.test_erase import holding, remember, token
from memory_assets_tests.stores.manifests import set_clock_of_writer


def test_an_erasure_waits_until_the_clock_has_passed_that_of_the_writer(tenant: Tenant) -> None:
    text = f"Heidi said {token()} in the meeting."
    number = remember(tenant, text)
    set_clock_of_writer(tenant.memories.stored, 4)
    erase(Tenant(tenant.settings), [number], confirm=True)
    assert holding(tenant, text) == []


def test_an_erasure_by_a_clock_that_is_far_behind_is_refused_and_finished_once_it_is_set(tenant: Tenant) -> None:
    text = f"Heidi said {token()} in the meeting."
    number = remember(tenant, text)
    set_clock_of_writer(tenant.memories.stored, 600)
    with pytest.raises(
        StoreError, match=r"clock is (59\d|600) s behind that of another writer.*set the clock and run the command"
    ):
        erase(Tenant(tenant.settings), [number], confirm=True)
    assert Tombstones(tenant.state).unfinished == {number}
    set_clock_of_writer(tenant.memories.stored, -600)
    erase(Tenant(tenant.settings), [number], confirm=True)
    assert holding(tenant, text) == []
    assert Tombstones(tenant.state).unfinished == set()
