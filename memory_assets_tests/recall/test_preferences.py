"""A user's standing preferences are recalled for the requests that they concern, and only for them."""

from datetime import UTC, datetime

import pytest

from memory_assets.models import Kind, Memory
from memory_assets.recall.candidates import PREFERENCE_RANKS
from memory_assets.recall.question import understand
from memory_assets.recall.search import search
from memory_assets.stores.filters import Filters
from memory_assets.stores.memories import MemoryStore
from memory_assets.stores.resident.memories import Allowance
from memory_assets.stores.rows import is_preference
from memory_assets.tenants import Tenant
from memory_assets_tests.recall.conftest import Remember

WISHES = (
    "Always include version numbers when I ask about libraries.",
    "whenever you show me code, please put type hints on every function",
    "I prefer tabs over spaces.",
    "Thanks! From now on answer in British spelling.",
    "Can you keep your explanations short?",
    "No, don't use adverbs that end in -ly.",
    "I'm allergic to sesame.",
    "I don’t eat meat.",
    "no pie charts please",
    "Whatever route you suggest, my cat gets sick after an hour.",
    "sizes in inches, always",
)
OTHERS = (
    "I can't believe it's Friday already.",
    "We met at noon.",
    "I never thought I'd see the day.",
    "How do I pivot a table?",
    "",
)
NEIGHBOURS = 30
"""More memories about the request's topic than a page shows."""


@pytest.mark.parametrize("content", WISHES)
def test_a_wish_is_told_by_its_wording(content: str) -> None:
    assert is_preference(Kind.NOTE, "user", content)
    assert is_preference(Kind.NOTE, "", content)
    assert not is_preference(Kind.NOTE, "Assistant", content)


@pytest.mark.parametrize("content", OTHERS)
def test_other_statements_are_no_wishes_unless_they_are_feedback(content: str) -> None:
    assert not is_preference(Kind.NOTE, "user", content)
    assert is_preference(Kind.FEEDBACK, "", content)


@pytest.mark.parametrize(
    "text",
    [
        "Draft another letter to the landlord",
        "Can you show me the login page's code?",
        "How do I renew the certificate?",
        "What should I cook tonight?",
    ],
)
def test_a_request_asks_for_something_to_be_done(text: str) -> None:
    assert understand(text, datetime.now(UTC), UTC).is_request


@pytest.mark.parametrize(
    "text",
    [
        "What did you suggest that I cook?",
        "How many libraries have I asked about?",
        "Who owns the export?",
        "When should I have called?",
    ],
)
def test_a_question_about_what_was_is_no_request(text: str) -> None:
    assert not understand(text, datetime.now(UTC), UTC).is_request


@pytest.fixture
def wish(remember: Remember) -> Memory:
    """What the user wants, among many memories that share more words with the request."""
    wanted = remember("Keep all explanations short, two sentences.", author="user", session="a")
    remember("Always keep it short: explanations are dull.", author="assistant", session="a")
    renewed = "The certificate of server {} was renewed, the explanations are in the wiki."
    remember.all([renewed.format(number) for number in range(NEIGHBOURS)])
    return wanted


REQUEST = "How do I renew the certificate of a server?"


def test_a_request_brings_the_wish_that_it_falls_under(tenant: Tenant, wish: Memory) -> None:
    hits = search(tenant, REQUEST)
    place = [hit.memory.id for hit in hits].index(wish.id)
    assert 0 < place < PREFERENCE_RANKS[0]
    assert hits[place].components[-1].name == "preference"
    assert hits[place].score == pytest.approx(sum(part.contribution for part in hits[place].components))


def test_a_question_about_what_was_brings_no_wish(tenant: Tenant, wish: Memory) -> None:
    hits = search(tenant, "When was the certificate of server 3 renewed?")
    assert wish.id not in [hit.memory.id for hit in hits]


def test_filters_hold_for_wishes_too(tenant: Tenant, wish: Memory) -> None:
    late = Filters(since=wish.created_at.replace(year=wish.created_at.year + 1))
    assert wish.id not in [hit.memory.id for hit in search(tenant, REQUEST, filters=late)]


def test_wishes_are_the_same_on_disk_and_in_memory(tenant: Tenant, wish: Memory) -> None:
    resident = MemoryStore(tenant.memories.uri)
    resident.keep_resident(Allowance(64 << 20), tenant.folder / "cache")
    resident.maintain_resident()
    assert resident.is_resident
    vector = tenant.embedder.embed([REQUEST], "query")[0]
    for store in (tenant.memories, resident):
        assert store.nearest(vector, tenant.embedder.name, 5, Filters(preferences=True))["id"].to_pylist() == [wish.id]
