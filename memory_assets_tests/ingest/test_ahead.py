"""What is embedded before it is asked for."""

from collections.abc import Sequence
from threading import Event

import numpy as np
import pytest

from memory_assets.ingest import features
from memory_assets.ingest.features import _EMBEDDED_AT_ONCE, AheadEmbedder, extract_features, refresh_entries
from memory_assets.ingest.memories import sync_memories
from memory_assets.ingest.scans import record_scan
from memory_assets.language.embedders.protocol import EmbedderAwayError
from memory_assets.sources import claude_silos
from memory_assets.tenants import Tenant
from memory_assets_tests.conftest import WriteSilo

TEXTS = [f"note {number}" for number in range(3 * _EMBEDDED_AT_ONCE)]


class Counting:
    """Gives each text the vector of its length, and knows what it was asked for."""

    name = "counting"
    dimension = 2

    def __init__(self, away: bool = False) -> None:
        self.asked: list[str] = []
        self.away = away
        self.begun, self.may_go_on = Event(), Event()
        self.may_go_on.set()

    def embed(self, texts: Sequence[str], role: str = "document") -> np.ndarray:
        self.asked += texts
        self.begun.set()
        if self.away:
            raise EmbedderAwayError("The embedder is away.")
        self.may_go_on.wait(120)
        return np.array([(len(text), 1) for text in texts], np.float32)


def test_what_was_made_ahead_is_not_made_again_and_what_was_not_is_made() -> None:
    embedder = Counting()
    ahead = AheadEmbedder(lambda: embedder, TEXTS)
    wanted = ["another", *TEXTS, "note 7"]
    assert ahead.embed(wanted).tolist() == [[len(text), 1] for text in wanted]
    assert sorted(embedder.asked) == sorted([*TEXTS, "another"])
    assert (ahead.name, ahead.dimension) == ("counting", 2)


def test_what_is_made_ahead_is_what_a_run_asks_for(tenant: Tenant, write_silo: WriteSilo) -> None:
    write_silo("owner", "Priya owns the billing export.")
    write_silo("rota", "Tomasz has the rota.")
    record_scan(tenant.catalog, claude_silos.scan(tenant.settings.claude_projects_dir, {}), {})
    refresh_entries(tenant.catalog)
    coming: list[str] = []
    extract_features(tenant.catalog, tenant.analyzer, lambda done, total: None, coming.extend)
    embedder = Counting()
    sync_memories(tenant.catalog, tenant.memories, lambda: embedder, lambda done, total: None)
    assert len(coming) == 2
    assert set(coming) <= set(embedder.asked)
    extract_features(tenant.catalog, tenant.analyzer, lambda done, total: None, coming.extend)
    assert len(coming) == 2


def test_an_embedder_that_is_away_is_told_of_where_the_vector_is_asked_for() -> None:
    embedder = Counting(away=True)
    ahead = AheadEmbedder(lambda: embedder, TEXTS)
    with pytest.raises(EmbedderAwayError):
        ahead.embed(TEXTS[:1])
    embedder.away = False
    assert ahead.embed(TEXTS[:1]).shape == (1, 2)


def test_no_more_is_made_ahead_once_the_run_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "_PATIENCE_SECONDS", 0.01)
    embedder = Counting()
    embedder.may_go_on.clear()
    ahead = AheadEmbedder(lambda: embedder, TEXTS)
    embedder.begun.wait(120)
    ahead.stop()
    embedder.may_go_on.set()
    ahead._thread.join(120)
    assert embedder.asked == TEXTS[:_EMBEDDED_AT_ONCE]
