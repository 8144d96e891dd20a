import socket

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st
from tiktoken_ext import openai_public

from memory_assets.language.tokens import ENCODING, SHA256, count_tokens, load_encoding, read_ranks, truncate_tokens

SAMPLES = [
    "",
    "hello world",
    "def f(x):\n\treturn x  # näive\r\n\n",
    "  leading, trailing   ",
    "记忆 🚀👩‍💻 Füße",
    "<|endoftext|> is text here",
    "I'll we've DON'T 12345678 3.14159",
]


def test_the_encoding_is_tiktokens_own(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(openai_public, "load_tiktoken_bpe", lambda *_, **__: read_ranks())
    own = tiktoken.Encoding(**openai_public.ENCODING_CONSTRUCTORS[ENCODING]())
    assert load_encoding()._pat_str.split("|") == own._pat_str.split("|")
    for sample in SAMPLES:
        assert count_tokens(sample) == len(own.encode(sample, disallowed_special=()))


def test_the_packaged_vocabulary_is_the_one_tiktoken_demands(monkeypatch: pytest.MonkeyPatch):
    demanded: dict[str, str] = {}

    def note_hash(_address: str, expected_hash: str) -> dict[bytes, int]:
        demanded["sha256"] = expected_hash
        return {}

    monkeypatch.setattr(openai_public, "load_tiktoken_bpe", note_hash)
    openai_public.ENCODING_CONSTRUCTORS[ENCODING]()
    assert demanded["sha256"] == SHA256


def test_counting_opens_no_connection(monkeypatch: pytest.MonkeyPatch):
    def refuse(*_args: object) -> None:
        raise AssertionError("a connection was attempted")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    load_encoding.cache_clear()
    assert count_tokens("hello world") == 2


def test_special_tokens_in_a_text_count_as_text():
    assert count_tokens("<|endoftext|>") > 1


@given(st.text(max_size=80), st.integers(min_value=0, max_value=40))
def test_a_cut_text_is_a_beginning_that_keeps_the_limit(text: str, limit: int):
    cut = truncate_tokens(text, limit)
    assert text.startswith(cut)
    assert count_tokens(cut) <= limit
    assert cut == text or count_tokens(text) > limit


def test_a_cut_never_leaves_half_a_character():
    assert truncate_tokens("🚀🚀🚀", 2) in {"", "🚀"}
