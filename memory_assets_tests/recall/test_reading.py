"""The best candidates are read together with the question."""

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import pytest

from memory_assets.context.store import StoreReader
from memory_assets.language.embedders.protocol import EmbedderError
from memory_assets.recall.question import understand
from memory_assets.recall.reading import MOST_READ, passage
from memory_assets.recall.scoring import Weights
from memory_assets.recall.search import read_query, search
from memory_assets.tenants import Tenant

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def _logit(hit) -> float | None:
    return next((part.raw for part in hit.components if part.name == "answer"), None)


def test_what_answers_gains_on_what_has_the_same_words(tenant: Tenant, remember):
    remember("The nightly import of the ledger runs on host alder.")
    answer = remember("The nightly import of the ledger takes forty minutes.")
    asked = "how long does the nightly import of the ledger take"

    def lead(weights: Weights) -> float:
        scores = {hit.memory.id: hit.score for hit in search(tenant, asked, weights=weights, now=NOW)}
        return scores.pop(answer.id) - max(scores.values())

    assert lead(Weights()) > max(0.0, lead(Weights(answer=0)))
    for hit in search(tenant, asked, now=NOW):
        assert hit.score == pytest.approx(sum(part.contribution for part in hit.components))


def test_of_a_long_text_the_part_with_the_words_of_the_question_is_read(tenant: Tenant, remember):
    filler = " ".join(f"The meeting of week {week} was about furniture and the budget for chairs." for week in range(12))
    remember(f"{filler} The nightly import of the ledger runs on host alder. {filler}")
    remember(filler)
    hits = search(tenant, "on which host does the nightly import of the ledger run", now=NOW)
    logits = [_logit(hit) for hit in hits]
    assert logits[0] is not None
    assert logits[0] > 0


def test_a_context_reads_more_of_the_hits_than_a_search(tenant: Tenant, remember, monkeypatch):
    remember.all([f"The import of ledger {number} runs at night." for number in range(2 * MOST_READ)])
    read: list[int] = []

    def answering(_question: str, texts: Sequence[str]) -> np.ndarray:
        read.append(len(texts))
        return np.zeros(len(texts))

    monkeypatch.setattr("memory_assets.recall.reading.answer_logits", answering)
    asked = "When does the import of the ledgers run?"
    search(tenant, asked, now=NOW)
    StoreReader(tenant).search(read_query(tenant, asked, NOW), 2 * MOST_READ, NOW)
    assert read[0] <= MOST_READ < read[1]


def test_a_weight_of_nothing_spares_the_network(tenant: Tenant, remember, monkeypatch):
    remember("The kayak leaks")
    monkeypatch.setattr("memory_assets.recall.reading.answer_logits", lambda *_: pytest.fail("the network was asked"))
    assert [_logit(hit) for hit in search(tenant, "leaking kayak", weights=Weights(answer=0), now=NOW)] == [None]


def test_scripts_that_the_network_cannot_read_are_left_to_the_other_components(tenant: Tenant, remember):
    remember("会議は火曜日の午後です。")
    assert [_logit(hit) for hit in search(tenant, "会議はいつですか", now=NOW)] == [None]


def test_languages_that_the_network_was_not_taught_are_left_to_the_other_components(tenant: Tenant, remember):
    remember("A reunião do coro é na terça-feira às sete e meia da noite.")
    remember("The choir meets on Tuesdays.")
    assert [_logit(hit) for hit in search(tenant, "quando é a reunião do coro na terça-feira", now=NOW)] == [None, None]
    logits = {hit.memory.content[:5]: _logit(hit) for hit in search(tenant, "when does the choir meet", now=NOW)}
    assert np.isnan(logits["A reu"] or np.nan)
    assert logits["The c"] is not None


def test_without_the_weights_of_the_network_a_search_goes_on(tenant: Tenant, remember, monkeypatch, caplog):
    remember("The kayak leaks")

    def missing(*_: object) -> None:
        raise EmbedderError("its weights are not installed")

    monkeypatch.setattr("memory_assets.recall.reading.answer_logits", missing)
    assert [_logit(hit) for hit in search(tenant, "leaking kayak", now=NOW)] == [None]
    assert "its weights are not installed" in caplog.text


def test_of_a_long_text_the_part_that_says_it_in_other_words_is_read():
    filler = " ".join(f"The meeting of week {week} was about furniture and the budget for chairs." for week in range(12))
    told = "Our puppy swallowed a coin, and the vet had to operate."
    read = passage(f"Household. {filler} {told} {filler}", understand("surgery on the dog", NOW, UTC), lambda _: 1.0)
    assert told in read
    assert len(read) <= 360


@pytest.mark.parametrize("text", ["\n" * 500, " \u2028 " * 300, "word " * 400_000, "\u200b" * 500])
@pytest.mark.parametrize("asked", ["which word is it", "…?"])
def test_no_long_text_fails_or_is_read_through(text: str, asked: str):
    assert len(passage(text, understand(asked, NOW, UTC), lambda _: 1.0)) <= 360
