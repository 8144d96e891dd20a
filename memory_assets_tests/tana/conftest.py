from collections.abc import Iterator

import pytest

from memory_assets.settings import load_settings
from memory_assets.tana.client import TanaClient
from memory_assets_tests.tana.stand_in import StandIn


@pytest.fixture
def tana(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """A stand-in Tana that the settings lead to."""
    with StandIn() as stand_in:
        monkeypatch.setenv("MEMORY_TANA_URL", stand_in.url)
        monkeypatch.setenv("MEMORY_TANA_TOKEN", stand_in.token)
        yield stand_in


@pytest.fixture
def client(tana: StandIn) -> TanaClient:
    """Asks the stand-in, and does not wait between tries."""
    opened = TanaClient.open(load_settings())
    opened._wait = lambda _: None
    return opened
