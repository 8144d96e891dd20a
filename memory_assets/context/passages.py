"""Cutting of a long text to the sentences that contain most of the topic's words, in their original order."""

from collections.abc import Collection

from memory_assets.language.passages import weigh_sentences
from memory_assets.language.tokens import count_tokens, truncate_tokens
from memory_assets.language.words import sentences

_MAX_TOKEN_CHARACTERS = 16
"""Characters per token of the budget above which a text is cut before its tokens are counted."""
_FEW_WORDS = 6
"""A sentence with fewer words, such as a heading, keeps the next one with it."""


def cut(text: str, asked: Collection[str], most: int, *, focused: bool = False, enough: int | None = None) -> str:
    """Cut `text` to the sentences with most of the stems `asked`, in at most `most` tokens; mark omissions with "…".

    If `focused`, keep only sentences with such a stem, if there are any, and the sentence after a short one of them. With `enough`, only
    the first sentence may exceed so many tokens.
    """
    if most <= 0:
        return ""
    if not focused and fits(text, most):
        return text
    parts = sentences(text)
    ranked = _rank_sentences(parts, frozenset(asked), focused=focused)
    if len(ranked) == len(parts) and fits(text, most):
        return text
    if len(" … ".join(parts[place] for place in ranked).encode()) <= min(most, enough or most):
        return _join({place: parts[place] for place in ranked}, len(parts))
    room = most
    kept: dict[int, str] = {}
    for place in ranked:
        sentence = parts[place][: room * _MAX_TOKEN_CHARACTERS]
        cost = count_tokens(sentence) + 2
        if enough and kept and most - room + cost > enough:
            break
        if cost <= room:
            kept[place] = sentence
            room -= cost
        elif room > 8 or not kept:
            kept[place] = f"{truncate_tokens(sentence, max(1, room - 3)).rstrip()} …"
            break
        else:
            break
    joined = _join(kept, len(parts))
    return joined if fits(joined, most) else truncate_tokens(joined, most)


def fits(text: str, most: int) -> bool:
    """Whether a text has at most `most` tokens. They are counted only if the text has more bytes than that."""
    return len(text.encode()) <= most or (len(text) <= most * _MAX_TOKEN_CHARACTERS and count_tokens(text) <= most)


def _rank_sentences(parts: list[str], asked: frozenset[str], *, focused: bool) -> list[int]:
    """Return the positions of the sentences to keep, best first and then earliest first."""
    weights = weigh_sentences(parts, asked)
    places = range(len(parts))
    if focused and any(weights):
        places = [
            place
            for place in places
            if weights[place] or (place and weights[place - 1] and len(parts[place - 1].split()) < _FEW_WORDS)
        ]
    return sorted(places, key=lambda place: -weights[place])


def _join(kept: dict[int, str], total: int) -> str:
    parts: list[str] = []
    before = -1
    for place in sorted(kept):
        if place > before + 1 and not (parts and parts[-1].endswith("…")):
            parts.append("…")
        parts.append(kept[place])
        before = place
    if before < total - 1 and not parts[-1].endswith("…"):
        parts.append("…")
    return " ".join(parts)
