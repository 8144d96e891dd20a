"""Which sentences of a long text fit a question best, and the passage that has them."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from itertools import chain
from operator import add

from memory_assets.display import shortened
from memory_assets.language.words import LINE_BREAK, begins_item, on_one_line, sentences, stems, unwrapped

Weigh = Callable[[Sequence[str]], list[float]]
"""Weighs the sentences of a text by how well they answer a question."""
PASSAGE_LENGTH = 280
"""Characters of a memory that a list shows; `show` shows all."""
_GAP = " … "
_FOLLOWS = 0.4
"""Share of a sentence's weight that the next one gets besides: the mend follows the fault, and says it in other words."""


def weigh_sentences(parts: Sequence[str], asked: Set[str]) -> list[float]:
    """Return how well each sentence fits the stems `asked`: a stem counts the more, the fewer sentences have it; 0 without any."""
    found = [asked & stems(each) for each in parts]
    counts = Counter(chain.from_iterable(found))
    return [math.fsum(math.log(1 + len(parts) / counts[each]) for each in matched) for matched in found]


def find_best_sentence(text: str, question: str) -> str:
    """Return the sentence that fits a question best: the first one if none has a word of it; empty for an empty text."""
    parts = sentences(text) or [""]
    weights = _with_following(weigh_sentences(parts, stems(question)))
    return parts[weights.index(max(weights))]


def _with_following(weights: Sequence[float]) -> list[float]:
    """Add to each weight a share of the one before; of the first, which nothing comes before, of its own."""
    return [weight + _FOLLOWS * before for before, weight in zip([*weights[:1], *weights], weights, strict=False)]


def passage(content: str, query: str = "", most: int = PASSAGE_LENGTH, weigh: Weigh | None = None) -> str:
    """Return a text of at most `most` characters unchanged, else the whole sentences that fit the query best, in their order.

    A sentence fits by the query's words in it and in the one before, and by what `weigh` adds to each. One that is longer than the passage
    is taken in pieces. Room that is left goes to the beginning, which often answers in other words. The item of a list follows the line
    that introduces the list, if there is room. "…" stands for what is left out.
    """
    line, asked = unwrapped(content).replace("\n", LINE_BREAK), stems(query)
    if len(line) <= most:
        return line
    parts = _place_sentences(line, sentences(content), max(2, most - 2 * len(_GAP))) if asked else []
    texts = [line[begin:end] for begin, end in parts]
    weights = weigh_sentences(texts, asked)
    if weigh and parts:
        weights = list(map(add, weights, weigh(texts)))
    weights = _with_following(weights)
    if not any(weights):
        return shortened(line, most)
    leads = _find_introductions(line, parts)
    chosen: list[int] = []
    for place in sorted(range(len(parts)), key=lambda place: -weights[place]):
        lead = leads[place] if weights[place] else place
        for added in dict.fromkeys((frozenset((lead, place)), frozenset((place,)))):
            wanted = sorted({*chosen, *added})
            if sum(map(len, _split_passage(line, parts, wanted))) <= most:
                chosen = wanted
                break
        else:
            if not weights[place]:
                break
    return "".join(_split_passage(line, parts, chosen))


def _split_passage(line: str, parts: Sequence[tuple[int, int]], chosen: Sequence[int]) -> Iterator[str]:
    """Yield the chosen parts of a line and what stands between them: white space, or "…" for what is left out."""
    end = 0
    for begin, stop in (parts[place] for place in chosen):
        gap = line[end:begin]
        left_out = _GAP if end else _GAP.lstrip()
        yield left_out if gap.strip(LINE_BREAK) else gap if end else ""
        yield line[begin:stop]
        end = stop
    yield _GAP.rstrip() if line[end:].strip() else ""


def _place_sentences(line: str, parts: Iterable[str], most: int) -> list[tuple[int, int]]:
    """Return where each sentence begins and ends in a text of one line; of one of more than `most` characters where its pieces do."""
    places: list[tuple[int, int]] = []
    end = 0
    for sentence in map(on_one_line, parts):
        begin = max(end, line.find(sentence, end))
        end = begin + len(sentence)
        while end - begin > most:
            space = line.rfind(" ", begin + 1, begin + most // 2 + 1)
            stop = begin + most // 2 if space < 0 else space
            places.append((begin, stop))
            begin = stop + (space >= 0)
        places.append((begin, end))
    return places


def _find_introductions(line: str, parts: Sequence[tuple[int, int]]) -> list[int]:
    """Return for each part of a line which one introduces it: for the item of a list the line above the list, else the part itself."""
    leads: list[int] = []
    above = -1
    for place, (begin, end) in enumerate(parts):
        if begins_item(line[begin:end]):
            leads.append(place if above < 0 else above)
            continue
        is_introduction = line[begin:end].startswith("#") or line[begin:end].rstrip("*_").endswith(":")
        above = place if is_introduction else -1
        leads.append(place)
    return leads
