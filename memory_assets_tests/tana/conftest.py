import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_assets.settings import Settings, load_settings
from memory_assets.tana.client import TanaClient
from memory_assets_tests.tana.stand_in import StandIn


@pytest.fixture
def tana(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """Start a stand-in Tana and point the settings at it."""
    with StandIn() as stand_in:
        monkeypatch.setenv("MEMORY_TANA_URL", stand_in.url)
        monkeypatch.setenv("MEMORY_TANA_TOKEN", stand_in.token)
        yield stand_in


@pytest.fixture
def client(tana: StandIn) -> TanaClient:
    """Return a client of the stand-in that does not wait between retries."""
    opened = TanaClient.open(load_settings())
    opened.service.sleep = lambda _: asyncio.sleep(0)
    return opened


@pytest.fixture
def seed(settings: Settings) -> Path:
    return settings.pai_seed


@pytest.fixture
def workspace(tana: StandIn) -> StandIn:
    """Make a workspace with people, projects and another person's notes; its search index lags creations by an hour."""
    person, project = tana.add_tag("person"), tana.add_tag("Project")
    tana.add_node("Ada Lovelace", person)
    tana.add_node("Grace Hopper", person)
    tana.add_node("Atlas", project)
    tana.add_node("Something else")
    tana.traps.index_lag = 3600
    return tana
