"""The best candidates are read together with the question."""

from datetime import UTC, datetime

import pytest

from memory_assets.recall.scoring import Weights
from memory_assets.recall.search import search
from memory_assets.tenants import Tenant

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def _logit(hit) -> float | None:
    return next((part.raw for part in hit.components if part.name == "answer"), None)


def test_what_answers_comes_before_what_has_the_same_words(tenant: Tenant, remember):
    remember("The quarterly report of the choir was late in March.")
    answer = remember("Ines writes the quarterly report of the choir.")
    hits = search(tenant, "who is the author of the choir's quarterly report", now=NOW)
    assert hits[0].memory.content == answer.content
    assert hits[0].score == pytest.approx(sum(part.contribution for part in hits[0].components))


def test_of_a_long_text_the_part_with_the_words_of_the_question_is_read(tenant: Tenant, remember):
    filler = " ".join(f"The meeting of week {week} was about furniture and the budget for chairs." for week in range(12))
    remember(f"{filler} The nightly import of the ledger runs on host alder. {filler}")
    remember(filler)
    hits = search(tenant, "on which host does the nightly import of the ledger run", now=NOW)
    logits = [_logit(hit) for hit in hits]
    assert logits[0] is not None
    assert logits[0] > 0


def test_a_weight_of_nothing_spares_the_network(tenant: Tenant, remember, monkeypatch):
    remember("The kayak leaks")
    monkeypatch.setattr("memory_assets.recall.reading.answer_logits", lambda *_: pytest.fail("the network was asked"))
    assert [_logit(hit) for hit in search(tenant, "leaking kayak", weights=Weights(answer=0), now=NOW)] == [None]


def test_scripts_that_the_network_cannot_read_are_left_to_the_other_components(tenant: Tenant, remember):
    remember("会議は火曜日の午後です。")
    assert [_logit(hit) for hit in search(tenant, "会議はいつですか", now=NOW)] == [None]
