"""The token budget is a promise: the text as it is printed, with everything around it, never has more tokens than were allowed.

In the order of relevance every node gets a share of its text, cut to the passage that answers where it is long. What does not fit is
named with its type, and then left out, the least relevant first. What room is left goes to texts that were cut. At last the whole text is
counted, and cut further as long as it is too long, because the tokens of a text may be more than those of its parts.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from memory_assets.context.model import Ranked
from memory_assets.language.tokens import count_tokens
from memory_assets.language.words import stems

if TYPE_CHECKING:
    from memory_assets.context.rendering import Json, Markdown

    Form = Markdown | Json

SUMMARY_BELOW = 500
"""Tokens below which a budget holds names and types alone (seed 004, edge cases)."""
_SHARES = 12
"""A node's text gets at first at most one part in so many of the budget ..."""
_FEWEST = 45
"""... or so many tokens, where that is more."""
_SAID_AGAIN = 0.6
"""How much of its relevance a passage loses that says nothing but what is told already."""
_REPLACED = 0.5
"""What is left of the relevance of what a later memory seems to replace."""
_LEAST = 24
"""Tokens of text from which a cut text says anything."""
_SHORTEST_NAMED = 8
"""Tokens that name and type of a node take at least, with its id."""
_NAMED_SHARE = 16
"""One part in so many of a budget of `_NAMING` tokens and more is for the names of what does not fit."""
_NAMING = 1_500
_JOINT = 2
"""Tokens for what stands between two parts."""
_FILLED = 0.97
_ROUNDS = 12
_EVERYTHING = 1 << 30
"""More tokens than any text has."""


class PassageOptions(NamedTuple):
    """How a node's text is told: in how many tokens at most, and whether only the sentences about the topic."""

    most: int
    focused: bool


@dataclass
class Allotment:
    """What of each node is told."""

    texts: dict[str, PassageOptions] = field(default_factory=dict)
    named: list[str] = field(default_factory=list)
    """Nodes of which name and type are told."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """A document within its budget."""

    text: str
    tokens: int
    allotment: Allotment
    framed: bool
    """Whether there was room for everything that stands around the nodes."""


def fit(form: "Form", nodes: Sequence[Ranked], max_tokens: int) -> Fitted:
    """Write as much of the nodes as the budget allows, most relevant first; an empty text where not even a frame fits."""
    for frame in range(form.frames):
        if count_tokens(form.whole(Allotment(), frame)) <= max_tokens * (0.5 if frame < form.frames - 1 else 1.0):
            break
    else:
        return Fitted("", 0, Allotment(), framed=False)
    filling = _Filling(form, nodes, max_tokens, frame)
    if max_tokens >= SUMMARY_BELOW:
        filling.add_texts(reserve=max_tokens // _NAMED_SHARE if max_tokens >= _NAMING else 0)
    filling.add_names()
    return filling.settled()


class _Filling:
    """A document that is being filled; `room` is what is left of the budget as far as the parts tell."""

    def __init__(self, form: "Form", nodes: Sequence[Ranked], max_tokens: int, frame: int) -> None:
        self._form = form
        self._nodes: Mapping[str, Ranked] = {ranked.node.id: ranked for ranked in nodes}
        self._most = max_tokens
        self._frame = frame
        self._room = max_tokens - count_tokens(form.whole(Allotment(), frame)) - 2 * _JOINT
        self._sections: set[str] = set()
        self._costs: dict[str, int] = {}
        self._chosen = Allotment()

    def add_texts(self, reserve: int) -> None:
        """Tell nodes with what is new in their texts, then give what is left to the rest of them."""
        share = max(_FEWEST, self._most // _SHARES)
        self._room -= reserve
        self._place_new(share)
        self._complete()
        self._room += reserve

    def add_names(self) -> None:
        """Name what is not told, as long as there is room."""
        for node, ranked in self._nodes.items():
            if self._room < _SHORTEST_NAMED:
                break
            if node in self._chosen.texts or node in self._chosen.named:
                continue
            cost = count_tokens(self._form.summary(ranked)) + _JOINT
            if cost <= self._room:
                self._chosen.named.append(node)
                self._costs[node] = cost
                self._room -= cost

    def settled(self) -> Fitted:
        """The document: cut until it fits, filled until nothing more does."""
        text, tokens = self._counted()
        for _ in range(_ROUNDS):
            if tokens > self._most or tokens >= _FILLED * self._most:
                break
            self._room = self._most - tokens - 2 * _JOINT
            before = self._state()
            if self._most >= SUMMARY_BELOW:
                self._complete()
            self.add_names()
            if self._state() == before:
                break
            text, tokens = self._counted()
        while tokens > self._most:
            self._shrink(tokens - self._most)
            text, tokens = self._counted()
        return Fitted(text, tokens, self._chosen, framed=self._frame == 0)

    def _state(self) -> tuple[tuple[tuple[str, PassageOptions], ...], int]:
        return tuple(self._chosen.texts.items()), len(self._chosen.named)

    def _counted(self) -> tuple[str, int]:
        text = self._form.whole(self._chosen, self._frame)
        return text, count_tokens(text)

    def _place_new(self, most: int) -> None:
        """Tell, as long as there is room, what is relevant and not said yet: the words that a passage repeats count against it.

        What a node adds only falls as others are told, so only the foremost is ever looked at again.
        """
        said: set[str] = set()
        holding: defaultdict[str, list[frozenset[str]]] = defaultdict(list)
        words = {
            node: stems(self._form.passage(ranked, most, focused=True))
            for node, ranked in self._nodes.items()
            if not ranked.only_named
        }
        rare = _rarity(words.values())
        worths = self._worths()
        waiting = [(-worths[node], place, node) for place, node in enumerate(words)]
        while waiting and self._room >= _LEAST:
            _, place, node = heapq.heappop(waiting)
            told = words[node]
            new = sum(rare[word] for word in told - said) / len(told) if told else 1.0
            worth = worths[node] * (1 - _SAID_AGAIN * (1 - new))
            if waiting and worth < -waiting[0][0]:
                heapq.heappush(waiting, (-worth, place, node))
                continue
            if told and any(told <= other for other in holding[min(told, key=lambda word: (-rare[word], word))]):
                continue
            self._place(node, most, focused=True)
            if node in self._chosen.texts:
                said |= told
                for word in told:
                    holding[word].append(told)

    def _worths(self) -> dict[str, float]:
        """The scores; what seems replaced gives its own to what replaces it."""
        worths = {node: ranked.score for node, ranked in self._nodes.items()}
        for node, ranked in self._nodes.items():
            if ranked.replaced_by:
                if ranked.replaced_by in worths:
                    worths[ranked.replaced_by] = max(worths[ranked.replaced_by], worths[node])
                worths[node] *= _REPLACED
        return worths

    def _place(self, node: str, most: int, *, focused: bool) -> None:
        """Tell a node with at most `most` tokens of its text, or as many as there is room for, if that says anything."""
        ranked = self._nodes[node]
        section = self._form.section(ranked)
        heading = count_tokens(section) + _JOINT if section and section not in self._sections else 0
        allowed, cost = most, self._cost(ranked, most, focused=focused)
        if cost + heading > self._room:
            allowed = self._room - heading - self._cost(ranked, 0, focused=focused)
            if allowed < min(_LEAST, most):
                return
            cost = self._cost(ranked, allowed, focused=focused)
            if cost + heading > self._room:
                return
        if node in self._chosen.named:
            self._chosen.named.remove(node)
            self._room += self._costs[node]
        self._chosen.texts[node] = PassageOptions(allowed, focused)
        self._sections.add(section)
        self._costs[node] = cost
        self._room -= cost + heading

    def _cost(self, ranked: Ranked, most: int, *, focused: bool) -> int:
        return count_tokens(self._form.piece(ranked, most, focused=focused)) + _JOINT

    def _complete(self) -> None:
        """Give the whole texts of nodes the room that is left, the most relevant first, whether they are told in part or not at all."""
        for node, ranked in self._nodes.items():
            if self._room < _LEAST // 2:
                break
            if node in self._chosen.texts:
                self._expand(node)
            elif not ranked.only_named:
                self._place(node, _EVERYTHING, focused=False)

    def _expand(self, node: str) -> None:
        """Tell more of a text that was cut."""
        ranked, shown = self._nodes[node], self._chosen.texts[node].most
        for allowed in (_EVERYTHING, shown + self._room - _JOINT):
            cost = self._cost(ranked, allowed, focused=False)
            if cost - self._costs[node] <= self._room:
                self._chosen.texts[node] = PassageOptions(allowed, focused=False)
                self._room -= cost - self._costs[node]
                self._costs[node] = cost
                return

    def _shrink(self, over: int) -> None:
        """Take away about as much as there is too much, at the least relevant node; in the end the frame."""
        if self._chosen.named:
            self._chosen.named.pop()
        elif self._chosen.texts:
            node, options = list(self._chosen.texts.items())[-1]
            most = min(options.most, self._costs[node]) - over - _JOINT
            if most >= _LEAST:
                self._chosen.texts[node] = options._replace(most=most)
            else:
                del self._chosen.texts[node]
        else:
            self._frame += 1


def _rarity(passages: Iterable[Collection[str]]) -> dict[str, float]:
    """How much a word tells: one over the square root of the passages that hold it; what many say is routine."""
    counts = Counter(word for passage in passages for word in passage)
    return {word: count**-0.5 for word, count in counts.items()}
