"""Filling of a context's document up to a token budget.

Search hits are added by score; a text that says nothing new loses more than half of its score. A short text is shown whole or not at
all. A long text first gets the passages that fit the topic, and is completed if there is room. Linked nodes come after the hits, but a
share of the budget is kept for what the best hits lead to. A question needs the texts that answer it; a task ("plan the move") needs
many short facts, also such as no word of it names, so it keeps a larger share and cuts shorter. Nodes that do not fit are listed by name,
then left out. The printed document never has more tokens than the budget.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from memory_assets.context import quoting
from memory_assets.context.document import NAMED, SUMMARY_BELOW, Document
from memory_assets.context.model import Ranked
from memory_assets.context.passages import fits
from memory_assets.language.tokens import count_tokens
from memory_assets.language.words import stems

_PASSAGE_TOKENS = 55
"""Most tokens that a long text gets for its passages at first."""
_REPETITION_PENALTY = 0.2
"""Share of its score that a text loses if all its words are shown already or are common to most texts."""
_MOSTLY_REPEATED = 0.6
"""Share of a text's words in another text from which that is given as the reason for leaving it out."""
_NOTHING_NEW, _NOTHING_NEW_PENALTY = 0.1, 0.5
"""A text whose share of new words, weighted by rarity, is below the first says nothing new and loses the second of its score."""
_LINKED_SHARE, _LEADING_HITS = 0.1, 8
"""Share of the budget kept for nodes linked to so many of the best texts that hold, not only neighbours in a session."""
_MIN_TEXT_TOKENS = 16
_MIN_NAME_TOKENS = 8
"""Lower bound for name, type and id of a node."""
_Waiting = tuple[float, int, str, float]
"""Negative value, index among the nodes, id, and score of a text that may be added."""


class _Manner(NamedTuple):
    """How long texts are cut, and how much of the budget linked nodes get."""

    long: int
    """A text of at most so many tokens is shown whole."""
    enough: int | None
    """Tokens of a long text at first if its best sentence is not longer; None for `_PASSAGE_TOKENS`."""
    completing: float
    """Share of its score with which the rest of a long text competes for room."""
    unshared: int
    """Tokens of the budget of which no share is kept for linked nodes."""


_QUESTION = _Manner(long=64, enough=None, completing=0.85, unshared=1_000)
_TASK = _Manner(long=24, enough=30, completing=0.5, unshared=0)


@dataclass(frozen=True, slots=True)
class Fitted:
    """A document within its budget."""

    text: str
    tokens: int
    texts: Mapping[str, str]
    """The shown text of each node, whole or cut."""
    named: Sequence[str]
    """Nodes that are listed by name and type alone."""
    framed: bool
    """Whether there was room for the complete frame around the nodes."""
    reason: Callable[[Ranked], str] = lambda _ranked: "the budget has no room for any text"
    """Returns the reason why a node's text is not shown."""


def fit(form: Document, max_tokens: int) -> Fitted:
    """Fill a document up to its budget. Its text is empty if not even the smallest frame fits."""
    for frame, share in enumerate(form.frame_shares):
        form.frame = frame
        if count_tokens(form.render({}, [])) <= max_tokens * share:
            break
    else:
        return Fitted("", 0, {}, [], framed=False)
    filling = _Filling(form, max_tokens)
    if max_tokens >= SUMMARY_BELOW:
        filling.add_texts()
        filling.complete()
        filling.add_fields()
    filling.add_names()
    texts, named = filling.texts, filling.named
    while (tokens := count_tokens(text := form.render(texts, named))) > max_tokens:
        if named or texts:
            named.pop() if named else texts.popitem()
        else:
            form.frame += 1
    return Fitted(text, tokens, texts, named, form.frame == 0, filling.reason)


class _Filling:
    """The process of filling a document: the shown texts, and the tokens that are left."""

    def __init__(self, form: Document, most: int) -> None:
        self._form = form
        self._nodes = form.context.nodes
        self._manner = _TASK if form.context.is_task else _QUESTION
        self._most = most
        self.texts = form.texts
        self._room = self._measure_room()
        self._is_estimated = False
        """Whether costs were subtracted since the document was counted. They may be too high: the note on an outdated sentence gets
        shorter once the text that replaces the sentence is shown."""
        self._kept = 0
        """Tokens that the texts of hits leave to linked nodes."""
        self._cut: dict[str, int] = {}
        """Costs of the texts that are shown in part."""
        self._sections: set[str] = set()
        self._words: dict[str, frozenset[str]] = {}
        self._rarity: dict[str, float] = {}
        self._shown: set[str] = set()
        """Words of the texts that are shown."""
        self._refused: dict[str, tuple[int, int]] = {}
        """Cost of each text that did not fit, and the room that there was."""
        self.named: list[str] = []

    def reason(self, ranked: Ranked) -> str:
        node = ranked.node.id
        if ranked.only_named:
            return "only a name on the path, without a text of its own"
        if node not in self._words:
            return f"a budget below {SUMMARY_BELOW} tokens tells names alone"
        own = self._words[node]
        nearest = max(self.texts, key=lambda each: len(own & self._words[each]), default="")
        repeated = len(own & self._words[nearest]) / len(own) if own and nearest else 0.0
        if repeated >= _MOSTLY_REPEATED:
            return f"{repeated:.0%} of its words are in {quoting.name(self._form.by_id[nearest].node.name)}"
        if node in self._refused:
            cost, room = self._refused[node]
            return f"budget: it takes {cost} tokens, {room} were left"
        return "budget: better matches used it"

    def add_texts(self) -> None:
        """Add the texts of search hits, then of linked nodes."""
        texts = {ranked.node.id: self._choose_first_text(ranked) for ranked in self._nodes if not ranked.only_named}
        self._words = {node: stems(text) for node, text in texts.items()}
        counts = Counter(word for each in self._words.values() for word in each)
        self._rarity = {word: count**-0.5 for word, count in counts.items()}
        leading = [each.node.id for each in self._nodes if each.node.id in texts and not each.visit.hops and not each.replaced_by]
        leading = leading[:_LEADING_HITS]
        hits, led_to, linked = list[_Waiting](), list[_Waiting](), list[_Waiting]()
        for place, ranked in enumerate(self._nodes):
            path = ranked.visit.path
            is_led_to = path and path[0].origin in leading and all(link.relation != "OCCURRED_BEFORE" for link in path)
            if ranked.node.id in texts and (ranked.linked or not ranked.visit.hops):
                hits.append((-ranked.score, place, ranked.node.id, ranked.score))
            if ranked.node.id in texts and ranked.visit.hops:
                score = ranked.linked or ranked.score
                (led_to if is_led_to else linked).append((-score, place, ranked.node.id, score))
        if led_to and self._most > self._manner.unshared:
            self._kept = int(_LINKED_SHARE * (self._most - self._manner.unshared))
            hits = self._add_best(hits, texts)
            self._kept = 0
            led_to = self._add_best(led_to, texts)
        self._add_best(hits, texts)
        self._add_best(led_to + linked, texts)
        self._form.texts = self.texts = {node: self.texts[node] for node in texts if node in self.texts}
        self._room = self._measure_room()

    def _add_best(self, waiting: list[_Waiting], texts: Mapping[str, str]) -> list[_Waiting]:
        """Add texts by value while there is room; return the others."""
        heapq.heapify(waiting)
        refused = list[_Waiting]()
        while waiting and self._has_room(_MIN_TEXT_TOKENS):
            _, place, node, score = best = heapq.heappop(waiting)
            own, ranked = self._words[node], self._form.by_id[node]
            if node in self.texts:
                if node in self._cut:
                    self._lengthen(ranked, ranked.node.content)
                continue
            new = sum(self._rarity[word] for word in own - self._shown) / len(own) if own else 1.0
            value = score * (1 - _REPETITION_PENALTY * (1 - new) - _NOTHING_NEW_PENALTY * (new < _NOTHING_NEW))
            if waiting and value < -waiting[0][0]:
                heapq.heappush(waiting, (-value, place, node, score))
            elif self._add_text(ranked, texts[node]):
                self._shown |= own
                if node in self._cut:
                    heapq.heappush(waiting, (-value * self._manner_of(ranked).completing, place, node, score))
            else:
                refused.append(best)
        return waiting + refused

    def _measure_room(self) -> int:
        return self._most - count_tokens(self._form.render(self.texts, []))

    def _has_room(self, tokens: int) -> bool:
        """Whether so many tokens are left. If the estimate says no, count the document before answering."""
        if tokens > self._room - self._kept and self._is_estimated:
            self._room, self._is_estimated = self._measure_room(), False
        return tokens <= self._room - self._kept

    def _spend(self, tokens: int) -> None:
        self._room, self._is_estimated = self._room - tokens, True

    def _choose_first_text(self, ranked: Ranked) -> str:
        """Return a short text whole, and of a long one the passages that fit the topic."""
        content = ranked.node.content
        manner = self._manner_of(ranked)
        if fits(content, manner.long):
            return content
        return self._form.passages(ranked, _PASSAGE_TOKENS, focused=True, enough=manner.enough)

    def _manner_of(self, ranked: Ranked) -> _Manner:
        """Return how a text is cut; one that the topic names is cut as for a question."""
        return _QUESTION if ranked.is_topic else self._manner

    def _add_text(self, ranked: Ranked, text: str) -> bool:
        section = self._form.section(ranked)
        heading = 0 if section in self._sections else count_tokens(f"## {section}\n\n")
        cost = self._cost(ranked, text)
        if not self._has_room(cost + heading):
            self._refused[ranked.node.id] = cost + heading, max(0, self._room - self._kept)
            return False
        self._spend(cost + heading)
        self.texts[ranked.node.id] = text
        self._sections.add(section)
        if text != ranked.node.content:
            self._cut[ranked.node.id] = cost
        return True

    def _cost(self, ranked: Ranked, text: str) -> int:
        return count_tokens(self._form.render_node(ranked, text) + "\n\n")

    def complete(self) -> None:
        """Lengthen the cut texts as far as there is room, best first."""
        for node in self._cut:
            ranked = self._form.by_id[node]
            for most in (1 << 30, self._room):
                if self._lengthen(ranked, self._form.passages(ranked, most)):
                    break

    def _lengthen(self, ranked: Ranked, longer: str) -> bool:
        node = ranked.node.id
        cost = self._cost(ranked, longer)
        if cost <= self._cut[node] or not self._has_room(cost - self._cut[node]):
            return False
        self._spend(cost - self._cut[node])
        self._cut[node] = cost
        self.texts[node] = longer
        return True

    def add_fields(self) -> None:
        """Show the fields of memories if all of them fit."""
        self._form.with_fields = True
        self._form.with_fields = self._measure_room() >= 0
        self._room = self._measure_room()

    def add_names(self) -> None:
        """List the nodes whose texts are not shown by name."""
        self._room -= count_tokens(f"## {NAMED}\n\n")
        for ranked in self._nodes:
            if self._room < _MIN_NAME_TOKENS:
                return
            cost = count_tokens(self._form.render_name(ranked) + "\n")
            if ranked.node.id not in self.texts and cost <= self._room:
                self.named.append(ranked.node.id)
                self._room -= cost
