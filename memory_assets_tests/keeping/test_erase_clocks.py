"""`memory erase` removes a text from a folder even if a writer's clock was ahead of this machine's."""

from datetime import timedelta

import pytest

from memory_assets.operations.erase import erase
from memory_assets.stores.tombstones import Tombstones
from memory_assets.tenants import Tenant
from memory_assets_tests.keeping.test_erase import holding, remember, token
from memory_assets_tests.stores.manifests import set_clock_of_writer

_MONTH_SECONDS = int(timedelta(days=30).total_seconds())


@pytest.mark.parametrize("ahead", [4, _MONTH_SECONDS, -_MONTH_SECONDS])
def test_an_erasure_in_a_folder_finishes_though_the_clock_of_a_writer_was_wrong_and_so_does_a_later_one(
    tenant: Tenant, ahead: int
) -> None:
    first, second = (f"Heidi said {token()} in the meeting." for _ in range(2))
    numbers = [remember(tenant, text) for text in (first, second)]
    set_clock_of_writer(tenant.memories.stored, ahead)
    for number, text in zip(numbers, (first, second), strict=True):
        erase(Tenant(tenant.settings), [number], confirm=True)
        assert holding(tenant, text) == []
        assert Tombstones(tenant.state).unfinished == set()
    kept = remember(tenant, f"Ivan said {token()} in the meeting.")
    assert Tenant(tenant.settings).memories.get([kept])
