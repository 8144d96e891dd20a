from datetime import UTC

import pytest

from memory_assets.operations.answers import LocalTime
from memory_assets.operations.search import search as answer_search
from memory_assets.recall.repeats import Repeated, join
from memory_assets.recall.search import search
from memory_assets.tenants import Tenant


@pytest.fixture
def says_the_same(remember):
    def compared(one: str, other: str, **more: str) -> bool:
        return join(remember.made(other, **more), [Repeated(remember.made(one))])

    return compared


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The deploy key is in the vault", "the deploy key is in the vault."),
        ("The deploy key is in the vault", "**Deploy key:** in the vault"),
        ("The deploy key is in the vault", "The deploy key lives in the vault"),
        ("Backups of heron run every night at two", "Backups of heron also run every single night at two"),
        ("빌드는 매일 밤 두 시에 실행된다", "빌드는 매일 밤 두 시에 실행된다!"),
    ],
)
def test_the_same_in_nearly_the_same_words(says_the_same, one: str, other: str):
    assert says_the_same(one, other)
    assert says_the_same(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Deploys of gateway happen at 15:00 on weekdays", "Deploys of gateway happen at 16:00 on weekdays"),
        ("Deploys of gateway happen on weekdays", "Deploys of gateway never happen on weekdays"),
        ("Deploys of gateway happen on weekdays", "Deploys of gateway don't happen on weekdays"),
        ("Deploys of gateway happen on weekdays", "Deploys of ledger happen on weekdays"),
        ("The heating in the hall is on", "The heating in the hall is off"),
        ("The invoices moved from Kafka to NATS", "The invoices moved from NATS to Kafka"),
        ("Ann gave Bela the red kayak", "Bela gave Ann the red kayak"),
        ("The kayak is here", "The kayak is here and the paddle lies in the cellar of Bela"),
        ("!!!", "???"),
    ],
)
def test_what_differs_in_a_fact_is_not_the_same(says_the_same, one: str, other: str):
    assert not says_the_same(one, other)
    assert not says_the_same(other, one)


def test_the_same_words_of_another_author_are_another_fact(says_the_same):
    assert not says_the_same("I sold the kayak", "I sold the kayak", author="Ann")


def test_long_texts_are_the_same_only_to_the_letter(says_the_same):
    text = "Deploys of gateway happen on weekdays. " * 100
    assert says_the_same(text, text)
    assert not says_the_same(text, text + "Really.")


def test_repeats_take_no_places_in_a_list(tenant: Tenant, remember):
    remember.all(["The deploy key is in the vault" + "!" * number for number in range(30)])
    others = [each.id for each in remember.all([f"The deploy key of {name} was renewed" for name in ("heron", "wren", "stork")])]
    hits = {hit.memory.id: hit for hit in search(tenant, "where is the deploy key in the vault", limit=4)}
    assert set(others) < set(hits)
    (repeated,) = hits.keys() - set(others)
    assert sorted([repeated, *(memory.id for memory in hits[repeated].same)]) == list(range(1, 31))


def test_what_is_said_again_is_named_in_text_and_json(tenant: Tenant, remember):
    remember.all(["The deploy key is in the vault"] * 6)
    answer = answer_search(tenant, "deploy key")
    (memory,) = answer.memories
    assert {memory.id, *(each.id for each in memory.same)} == set(range(1, 7))
    assert f"said also in id {memory.same[0].id} (" in answer.text(LocalTime(UTC))
    assert " and 2 more" in answer.text(LocalTime(UTC))
