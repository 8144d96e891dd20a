from collections.abc import Sequence
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_assets.recall.question import understand
from memory_assets.recall.search import search
from memory_assets.recall.timeline import Codes

AUTHORS = ("Jun Park", "Inês", "Will", "Bill", "user", "assistant", "김민수", "İpek")


def in_first_person(text: str, authors: Codes) -> str:
    return understand(text, datetime.now(UTC), UTC).in_first_person(authors.called)


def _codes(names: Sequence[str]) -> Codes:
    codes = Codes()
    codes.encoded(pa.chunked_array([pa.array(names, pa.string())]))
    return codes


@pytest.mark.parametrize(
    ("asked", "own"),
    [
        ("Where does Jun's cat sleep?", "Where does my cat sleep?"),
        ("where did ines sing, and when?", "where did I sing, and when?"),
        ("What did Jun tell Inês’s mother?", "What did I tell my mother?"),
        ("Will it rain, and what does a user want?", "Will it rain, and what does a user want?"),
        ("Who is called Junction?", "Who is called Junction?"),
        ("Who pays the bill, and what does Bill say?", "Who pays the bill, and what does I say?"),
    ],
)
def test_a_question_is_put_in_the_first_person_of_whom_it_names(asked: str, own: str):
    assert in_first_person(asked, _codes(AUTHORS)) == own


@given(text=st.text(), authors=st.lists(st.text(max_size=12), max_size=4))
def test_any_text_and_any_names_can_be_put_so(text: str, authors: list[str]):
    assert isinstance(in_first_person(f"{text} {' '.join(authors)}", _codes(authors)), str)
    assert in_first_person(text, Codes()) == text


def test_somebody_who_spoke_since_the_last_question_is_known():
    codes = _codes(["Ann"])
    assert in_first_person("Where is Bela?", codes) == "Where is Bela?"
    codes.encoded(pa.chunked_array([["Bela"]]))
    assert in_first_person("Where is Bela?", codes) == "Where is I?"


def test_a_question_that_names_an_author_is_asked_in_both_ways(tenant, remember, monkeypatch: pytest.MonkeyPatch):
    remember("the kayak leaks", author="Ann")
    asked: list[str] = []
    embed = tenant.embedder.embed
    monkeypatch.setattr(tenant.embedder, "embed", lambda texts, role="document": asked.extend(texts) or embed(texts, role))
    assert [hit.memory.author for hit in search(tenant, "Where is Ann's kayak")] == ["Ann"]
    assert asked[:2] == ["Where is my kayak", "Where is Ann's kayak"]
    asked.clear()
    search(tenant, "Where is Bela's kayak")
    assert asked == ["Where is Bela's kayak"]
