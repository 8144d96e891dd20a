"""A long text cut to the passages that answer: the sentences that say most of what the topic asks, in their own order."""

from collections.abc import Collection

from memory_assets.language.tokens import count_tokens, truncate_tokens
from memory_assets.language.words import sentences, stems

_LONGEST_TOKEN = 16
"""Characters of a text that one token of a budget is read for: what is longer is cut before it is counted."""
_BESIDE = 0.25
"""Share of a sentence's weight that the one before and after it gets: an answer often stands next to the words that are asked for."""
_FEW_WORDS = 6
"""Words of a sentence below which the next one says what it is about."""
_OPENING = 0.1
"""What the first sentence gets for saying what the text is about."""


def cut(text: str, asked: Collection[str], most: int, *, focused: bool = False) -> str:
    """The passages of `text` that hold most of the stems `asked`, in at most `most` tokens; what is left out shows as "…".

    A focused cut keeps, where some sentences hold what is asked, those alone, and the one after a short one, such as a heading.
    """
    if most <= 0:
        return ""
    if not focused and fits(text, most):
        return text
    parts = sentences(text)
    ranked = _ranked(parts, frozenset(asked), focused=focused)
    if len(ranked) == len(parts) and fits(text, most):
        return text
    if len(" … ".join(parts[place] for place in ranked).encode()) <= most:
        return _joined({place: parts[place] for place in ranked}, len(parts))
    room = most
    kept: dict[int, str] = {}
    for place in ranked:
        sentence = parts[place][: room * _LONGEST_TOKEN]
        cost = count_tokens(sentence) + 2
        if cost <= room:
            kept[place] = sentence
            room -= cost
        elif room > 8 or not kept:
            kept[place] = f"{truncate_tokens(sentence, max(1, room - 3)).rstrip()} …"
            break
        else:
            break
    joined = _joined(kept, len(parts))
    return joined if fits(joined, most) else truncate_tokens(joined, most)


def fits(text: str, most: int) -> bool:
    """Whether a text has at most `most` tokens; counted only where its bytes do not tell, as a token is at least one."""
    return len(text.encode()) <= most or (len(text) <= most * _LONGEST_TOKEN and count_tokens(text) <= most)


def _ranked(parts: list[str], asked: frozenset[str], *, focused: bool) -> list[int]:
    """Places of the sentences to keep, the most telling first; of equal ones the earliest."""
    held = [stems(sentence) & asked for sentence in parts]
    counts: dict[str, int] = {}
    for found in held:
        for word in found:
            counts[word] = counts.get(word, 0) + 1
    weights = [sum(1 / counts[word] for word in sorted(found)) for found in held]
    worth = [
        weight + _BESIDE * sum(weights[max(0, place - 1) : place] + weights[place + 1 : place + 2]) + _OPENING * (place == 0)
        for place, weight in enumerate(weights)
    ]
    places = range(len(parts))
    if focused and any(weights):
        places = [
            place
            for place in places
            if weights[place] or (place and weights[place - 1] and len(parts[place - 1].split()) < _FEW_WORDS)
        ]
    return sorted(places, key=lambda place: (-worth[place], place))


def _joined(kept: dict[int, str], total: int) -> str:
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
