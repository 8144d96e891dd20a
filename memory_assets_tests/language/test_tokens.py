import hashlib
import socket
from pathlib import Path

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st
from tiktoken_ext import openai_public

from memory_assets.errors import SettingsError
from memory_assets.language import tokens
from memory_assets.language.tokens import count_tokens, load_encoding, truncate_tokens

SAMPLES = [
    "",
    "hello world",
    "def f(x):\n\treturn x  # näive\r\n\n",
    "  leading, trailing   ",
    "记忆 🚀👩‍💻 Füße",
    "<|endoftext|> is text here",
    "I'll we've DON'T 12345678 3.14159",
]


@pytest.fixture
def tiktokens_own(monkeypatch: pytest.MonkeyPatch):
    """tiktoken's own constructor of an encoding, with the packaged ranks in place of its download."""

    def build(name: str) -> tiktoken.Encoding:
        ranks = tokens._read_ranks(tokens._PACKAGED[name])
        monkeypatch.setattr(openai_public, "load_tiktoken_bpe", lambda *_, **__: ranks)
        return tiktoken.Encoding(**openai_public.ENCODING_CONSTRUCTORS[name]())

    return build


@pytest.mark.parametrize("name", ["cl100k_base", "o200k_base", "o200k_harmony"])
def test_an_encoding_is_tiktokens_own(name: str, tiktokens_own):
    own = tiktokens_own(name)
    ours = load_encoding(name)
    assert ours._pat_str.split("|") == own._pat_str.split("|")
    for sample in SAMPLES:
        assert count_tokens(sample, name) == len(own.encode(sample, disallowed_special=()))


@pytest.mark.parametrize("name", ["cl100k_base", "o200k_base"])
def test_the_packaged_vocabulary_is_the_one_tiktoken_demands(name: str, monkeypatch: pytest.MonkeyPatch):
    demanded: dict[str, str] = {}

    def note_hash(_address: str, expected_hash: str) -> dict[bytes, int]:
        demanded["sha256"] = expected_hash
        return {}

    monkeypatch.setattr(openai_public, "load_tiktoken_bpe", note_hash)
    openai_public.ENCODING_CONSTRUCTORS[name]()
    assert tokens._PACKAGED[name].sha256 == demanded["sha256"]


def test_counting_opens_no_connection(monkeypatch: pytest.MonkeyPatch):
    def refuse(*_args: object) -> None:
        raise AssertionError("a connection was attempted")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    load_encoding.cache_clear()
    assert count_tokens("hello world") == 2


def test_special_tokens_in_a_text_count_as_text():
    assert count_tokens("<|endoftext|>") > 1


def test_an_unknown_encoding_is_refused_with_the_known_ones():
    with pytest.raises(SettingsError, match=r"'gpt-9' is unknown: choose one of cl100k_base, o200k_base"):
        count_tokens("x", "gpt-9")


def test_an_encoding_that_is_not_on_the_machine_is_refused_without_a_download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    with pytest.raises(SettingsError, match="choose cl100k_base, or save https://"):
        count_tokens("x", "p50k_base")


def test_an_encoding_in_tiktokens_cache_is_taken_from_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    address = "https://openaipublic.blob.core.windows.net/encodings/r50k_base.tiktoken"
    (tmp_path / hashlib.sha1(address.encode()).hexdigest()).write_bytes(b"ranks")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tiktoken, "get_encoding", lambda name: load_encoding("cl100k_base") if name == "r50k_base" else None)
    load_encoding.cache_clear()
    assert count_tokens("hello world", "r50k_base") == 2
    load_encoding.cache_clear()


@given(st.text(max_size=80), st.integers(min_value=0, max_value=40))
def test_a_cut_text_is_a_beginning_that_keeps_the_limit(text: str, limit: int):
    cut = truncate_tokens(text, limit)
    assert text.startswith(cut)
    assert count_tokens(cut) <= limit
    assert cut == text or count_tokens(text) > limit


def test_a_cut_never_leaves_half_a_character():
    assert truncate_tokens("🚀🚀🚀", 2) in {"", "🚀"}


def test_a_negative_limit_is_a_mistake():
    with pytest.raises(ValueError, match="0 or more"):
        truncate_tokens("x", -1)
