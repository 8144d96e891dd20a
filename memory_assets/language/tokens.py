"""Counting and truncating text by tokens of tiktoken's encoding cl100k_base, without network access.

tiktoken downloads its vocabularies on first use. The `bpe-openai` package contains the same rank file (with the SHA-256 that tiktoken
requires), so counts equal tiktoken's on a machine without network.
"""

import binascii
import gzip
import hashlib
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from memory_assets.errors import SettingsError

if TYPE_CHECKING:
    import tiktoken

ENCODING = "cl100k_base"
SHA256 = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"
_PATTERN = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]"
    r"|\s+(?!\S)|\s"
)
"""Splits a text before its parts are encoded; part of the encoding (tiktoken's `openai_public` plugin)."""


def count_tokens(text: str) -> int:
    """Return the number of tokens in `text`. Special tokens in it, such as `<|endoftext|>`, count as plain text."""
    return len(load_encoding().encode_ordinary(text))


def truncate_tokens(text: str, limit: int) -> str:
    """Return the beginning of `text` that its first `limit` tokens cover, without a partial character at its end."""
    coder = load_encoding()
    tokens = coder.encode_ordinary(text)
    if len(tokens) <= limit:
        return text
    # A token may be part of a character, and the truncated text may split into different tokens than the whole.
    kept = limit
    while True:
        cut = coder.decode_bytes(tokens[:kept]).decode("utf-8", errors="ignore")
        if len(coder.encode_ordinary(cut)) <= limit:
            return cut
        kept -= 1


@lru_cache
def load_encoding() -> "tiktoken.Encoding":
    """Load the encoding, once a process."""
    import tiktoken

    ranks = read_ranks()
    encoding = tiktoken.Encoding(ENCODING, pat_str=_PATTERN, mergeable_ranks=ranks, special_tokens={})
    ranks.clear()  # The compiled part has a copy; the encoding keeps these 14 MB only for pickling.
    return encoding


def read_ranks() -> dict[bytes, int]:
    """Read the encoding's vocabulary, token -> rank."""
    spec = find_spec("bpe_openai")  # not imported: its compiled module takes most of a second
    if spec is None or spec.origin is None:
        raise SettingsError("The package bpe-openai is missing: install it with `pip install bpe-openai`.")
    path = Path(spec.origin).with_name("data") / f"{ENCODING}.tiktoken.gz"
    try:
        data = gzip.decompress(path.read_bytes())
    except (OSError, EOFError) as error:
        raise SettingsError(f"{path} cannot be read ({error}): reinstall the package bpe-openai.") from error
    if hashlib.sha256(data).hexdigest() != SHA256:
        raise SettingsError(f"{path} is not the vocabulary that tiktoken uses: reinstall bpe-openai 0.1.4.")
    fields = data.split()
    return dict(zip(map(binascii.a2b_base64, fields[::2]), map(int, fields[1::2]), strict=True))
