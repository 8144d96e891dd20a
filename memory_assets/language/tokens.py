"""Counting and cutting text by a chat model's tokens, without any network access.

tiktoken downloads its vocabularies at first use. The `bpe-openai` package carries the same rank files (their
SHA-256 sums are those that tiktoken demands), so that counts are tiktoken's own on a machine that is never
connected. A vocabulary that is in neither that package nor tiktoken's cache is an error, never a download.
"""

import binascii
import gzip
import hashlib
import os
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from memory_assets.errors import SettingsError

if TYPE_CHECKING:
    import tiktoken

DEFAULT_ENCODING = "cl100k_base"

_BLOBS = "https://openaipublic.blob.core.windows.net/encodings"
"""Where tiktoken's vocabularies live; tiktoken names a cached file by the SHA-1 of its address."""


@dataclass(frozen=True, slots=True)
class _Packaged:
    """An encoding whose ranks the `bpe-openai` package carries: file stem, SHA-256, split pattern."""

    stem: str
    sha256: str
    pattern: str


_CL100K = _Packaged(
    "cl100k_base",
    "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]"
    r"|\s+(?!\S)|\s",
)
_O200K = _Packaged(
    "o200k_base",
    "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
)
_PACKAGED = {"cl100k_base": _CL100K, "o200k_base": _O200K, "o200k_harmony": _O200K}
"""Encodings that always work. The split patterns define the encodings (tiktoken's `openai_public` plugin)."""

_CACHED = {"r50k_base": "r50k_base", "p50k_base": "p50k_base", "p50k_edit": "p50k_base"}
"""Encodings that work where tiktoken has cached the vocabulary, and that vocabulary's name."""


def count_tokens(text: str, encoding: str = DEFAULT_ENCODING) -> int:
    """Number of tokens of `text`.

    Special tokens written in it, such as `<|endoftext|>`, count as the text they are.

    Raises:
        SettingsError: `encoding` is unknown or its vocabulary is not on this machine.
    """
    return len(load_encoding(encoding).encode_ordinary(text))


def truncate_tokens(text: str, limit: int, encoding: str = DEFAULT_ENCODING) -> str:
    """The beginning of `text` that its first `limit` tokens cover, without a half character at its end.

    Raises:
        SettingsError: `encoding` is unknown or its vocabulary is not on this machine.
        ValueError: `limit` is negative.
    """
    if limit < 0:
        raise ValueError(f"limit must be 0 or more tokens, not {limit}")
    coder = load_encoding(encoding)
    tokens = coder.encode_ordinary(text)
    if len(tokens) <= limit:
        return text
    # A token may hold part of a character; and the cut text may split into other tokens than the whole did.
    kept = limit
    while True:
        cut = coder.decode_bytes(tokens[:kept]).decode("utf-8", errors="ignore")
        if len(coder.encode_ordinary(cut)) <= limit:
            return cut
        kept -= 1


@lru_cache(maxsize=4)
def load_encoding(name: str) -> "tiktoken.Encoding":
    """The tiktoken encoding of that name, kept for the life of the process.

    Raises:
        SettingsError: `name` is unknown or its vocabulary is not on this machine.
    """
    import tiktoken

    if packaged := _PACKAGED.get(name):
        ranks = _read_ranks(packaged)
        encoding = tiktoken.Encoding(name, pat_str=packaged.pattern, mergeable_ranks=ranks, special_tokens={})
        ranks.clear()  # Its compiled part has copied them; it keeps these, 14 MB, only to be pickled.
        return encoding
    if name not in _CACHED:
        known = ", ".join(sorted([*_PACKAGED, *_CACHED]))
        raise SettingsError(f"Token encoding {name!r} is unknown: choose one of {known}.")
    address = f"{_BLOBS}/{_CACHED[name]}.tiktoken"
    cached = _tiktoken_cache() / hashlib.sha1(address.encode(), usedforsecurity=False).hexdigest()
    if not cached.is_file():
        raise SettingsError(
            f"Token encoding {name!r} is not on this machine: choose {DEFAULT_ENCODING}, or save {address} as {cached}."
        )
    return tiktoken.get_encoding(name)


def _tiktoken_cache() -> Path:
    """The folder in which tiktoken keeps what it downloaded, by tiktoken's own rule."""
    for variable in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        if folder := os.environ.get(variable):
            return Path(folder)
    return Path(tempfile.gettempdir()) / "data-gym-cache"


def _read_ranks(packaged: _Packaged) -> dict[bytes, int]:
    spec = find_spec("bpe_openai")  # found, not imported: its compiled module takes most of a second
    if spec is None or spec.origin is None:
        raise SettingsError("The package bpe-openai is missing: install it with `pip install bpe-openai`.")
    path = Path(spec.origin).with_name("data") / f"{packaged.stem}.tiktoken.gz"
    try:
        data = gzip.decompress(path.read_bytes())
    except (OSError, EOFError) as error:
        raise SettingsError(f"{path} cannot be read ({error}): reinstall the package bpe-openai.") from error
    if hashlib.sha256(data).hexdigest() != packaged.sha256:
        raise SettingsError(f"{path} is not the vocabulary that tiktoken uses: reinstall bpe-openai 0.1.4.")
    fields = data.split()
    return dict(zip(map(binascii.a2b_base64, fields[::2]), map(int, fields[1::2]), strict=True))
