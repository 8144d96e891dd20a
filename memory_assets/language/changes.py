"""Probability that a newer statement replaces an older one: "The choir meets on Tuesday", "Rehearsals have moved to Thursday".

A logistic regression scores the words of both, independently of the embedder: which words have a partner in the other statement, what
occurs on one side only (values, names, qualifiers as in "the small freezer"), where the two differ, and whether the newer announces a
change. `tools/change_judge.py` trains it on sets of facts, some of which changed, and writes `changes.json`. The network of
`memory_assets.language.judge` reads both texts and catches different cases, so the two probabilities are combined.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache, lru_cache
from itertools import pairwise
from math import exp
from pathlib import Path
from typing import NamedTuple

import numpy as np

from memory_assets.arrays import Values
from memory_assets.language.english import pattern, word_set
from memory_assets.language.judge import Relation, relation_probabilities
from memory_assets.language.statements import SURE, Statement, exchange_values, is_event, is_number, other_values, read_statement
from memory_assets.language.words import fold, words

MODEL = Path(__file__).with_name("changes.json")
_WORDS, _READ, _BASE = 0.26, 0.9, 0.82
"""Weights of the log odds of the regression and of the network, and the intercept."""
_PERHAPS = 0.5
"""Combined probability from which the newer statement is ranked before the older."""
_UNANNOUNCED, _ONLY_ANNOUNCED = 0.93, 0.98
"""Probability from which a sure change is certain: without any word of change, and with nothing but words of change.

Of 3,614 statements that leave an older one true (`wordings_train`) 2 % are certain changes, of 1,988 that replace one 26 %.
"""
_MIN_PROBABILITY = 1e-4
"""Probabilities are clipped to this before log odds are taken."""
_SHORT = 5
"""Above this many topic words, a text that announces no change must exchange a value or a name."""
_LABEL = re.compile(r"\W*(\w[\w'-]*(?: [\w'-]+){0,2}): ")
"""What a text is about: "Atlas: the tests run nightly"."""
_MIN_KIN_LETTERS = 4
_KIN_SHORTER, _KIN_LONGER = 0.72, 0.55
"""Minimum common prefix of two forms of one word: letters, share of the shorter word, share of the longer word."""


def is_kin(one: str, other: str) -> bool:
    """Return whether two folded words may be forms of one word: "reception", "receptionist"."""
    if one == other:
        return True
    if one[:_MIN_KIN_LETTERS] != other[:_MIN_KIN_LETTERS]:
        return False
    shorter, longer = sorted(map(len, (one, other)))
    return _common_prefix(one, other) >= max(_KIN_SHORTER * shorter, _KIN_LONGER * longer)


@dataclass(frozen=True, slots=True)
class _Side:
    """A statement compared with another one."""

    statement: Statement
    content: tuple[str, ...]
    shared: frozenset[str]
    """Words, numbers excluded, with a partner in the other statement."""
    alone: frozenset[str]
    """Words and numbers without a partner."""

    @property
    def coverage(self) -> float:
        return 1 - len(self.alone) / len(self.content)

    @property
    def names_alone(self) -> frozenset[str]:
        return self.alone & self.statement.names

    @property
    def is_qualified(self) -> bool:
        """Whether a word before a shared word occurs on this side only: "the small freezer"."""
        return any(
            word in self.shared
            and before in self.alone
            and not is_number(before)
            and before not in word_set("replacements.no_qualifiers")
            for before, word in pairwise(self.statement.words)
        )

    @property
    def is_narrowed(self) -> bool:
        """Whether a word after a shared word and a preposition occurs on this side only: "the pitch for Aurora"."""
        found = self.statement.words
        return any(
            word in self.shared and between in word_set("replacements.narrowing") and after in self.alone and not is_number(after)
            for word, between, after in zip(found, found[1:], found[2:], strict=False)
        )

    @property
    def is_past(self) -> bool:
        return not word_set("replacements.past").isdisjoint(self.statement.words)

    @property
    def months(self) -> set[str]:
        return {value for value in self.statement.values if value.startswith("month ")}


def announces(text: str) -> bool:
    """Return whether a text says that something changed."""
    return bool(pattern("statements.change").search(text) or pattern("replacements.announcing").search(text))


def is_hearsay(text: str) -> bool:
    """Return whether a text reports what somebody else says or thinks: "Anke says the budget is 0.3 %", "laut Anke", "angeblich"."""
    return bool(pattern("replacements.hearsay").search(text))


def _common_prefix(one: Sequence[str], other: Sequence[str]) -> int:
    return next((place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


@lru_cache(maxsize=16)
def _sides(old: str, new: str) -> tuple[_Side, _Side]:
    statements = read_statement(old), read_statement(new)
    contents = [
        tuple(dict.fromkeys(word for word in each.content if word not in word_set("replacements.titles"))) or each.content
        for each in statements
    ]
    kin = [
        {word for word in mine if any(is_kin(word, other) for other in theirs)} for mine, theirs in (contents, reversed(contents))
    ]
    one, other = (
        _Side(statement, content, frozenset(word for word in known if not is_number(word)), frozenset(content) - known)
        for statement, content, known in zip(statements, contents, kin, strict=True)
    )
    return one, other


def _ends(new: _Side, old: _Side) -> bool:
    """Return whether the newer statement says, near the last word or a name of the older one, that something ended."""
    values = {old.content[-1], *old.statement.names} - old.alone
    said = new.statement.words
    near = [
        word
        for place, word in enumerate(said)
        if any(is_kin(word, value) for value in values)
        for word in said[max(0, place - 3) : place + 4]
    ]
    return not word_set("replacements.ending").isdisjoint(near)


def features(old: str, new: str) -> dict[str, float]:
    """Return the features of an (older, newer) pair by name, as `changes.json` weighs them."""
    one, other = _sides(old, new)
    was, now = one.statement, other.statement
    says = announces(new)
    exchanged = exchange_values(old, new)
    names = bool(one.names_alone and other.names_alone)
    shared = min(5, len(one.shared))
    codes = SequenceMatcher(None, was.words, now.words, autojunk=False).get_opcodes()
    common = sum(codes[2] - codes[1] for codes in codes if codes[0] == "equal")
    gaps = [each for each in codes if each[0] != "equal"]
    shorter, longer = sorted((len(was.words), len(now.words)))
    order, order_shorter = common / longer, common / shorter
    prefix = _common_prefix(was.words, now.words)
    suffix = _common_prefix(was.words[: prefix - 1 if prefix else None : -1], now.words[: prefix - 1 if prefix else None : -1])
    begun = sum(word in one.content and not is_number(word) for word in was.words[:prefix])
    middles = [
        [word for word in side.statement.words[prefix : len(side.statement.words) - suffix] if word in side.alone]
        for side in (one, other)
    ]
    both_events = is_event(old) and is_event(new)
    qualified, narrowed = (one.is_qualified, other.is_qualified), (one.is_narrowed, other.is_narrowed)
    months_differ = bool(one.months and other.months and one.months != other.months)
    found = {
        "shared": shared,
        "one shared": shared <= 1,
        "coverage of the old": one.coverage,
        "coverage of the new": other.coverage,
        "values exchanged": exchanged,
        "values on one side": bool(other_values(was, now)) != bool(other_values(now, was)),
        "values common": min(2, len(was.values & now.values)),
        "names exchanged": names,
        "announced": says,
        "announced by the old": announces(old),
        "the old's end is named": one.content[-1] not in one.alone,
        "the old's beginning is named": one.content[0] not in one.alone,
        "something ended": bool(pattern("replacements.ended").search(new)),
        "all named": says and not one.alone,
        "coverage, announced": one.coverage * says,
        "shared, announced": shared * says,
        "values, announced": exchanged and says,
        "old is qualified": qualified[0],
        "both qualified": all(qualified),
        "new is narrowed": narrowed[1],
        "both narrowed": all(narrowed),
        "order": order,
        "order of the shorter": order_shorter,
        "gaps": min(4, len(gaps)),
        "one gap at the end": len(gaps) == 1 and gaps[0][0] == "replace" and gaps[0][1] > 1,
        "gap at the beginning": bool(gaps)
        and gaps[0][0] == "replace"
        and gaps[0][1] <= 1
        and was.names.isdisjoint(was.words[gaps[0][1] : gaps[0][2]]),
        "both events": both_events,
        "denials are odd": (was.denials - now.denials) % 2,
        "length": min(3, len(other.content) / len(one.content)),
        "prefix": min(3, begun),
        "long prefix": begun > 1 and prefix >= 0.4 * len(was.words),
        "frame": (prefix + suffix) / longer,
        "only added": bool(middles[1]) and not middles[0],
        "events of two months": months_differ and (both_events or (one.is_past and other.is_past)),
        "both past": one.is_past and other.is_past,
        "names, order": names * order,
        "one shared, order": (shared <= 1) * order_shorter,
        "values, order": exchanged * order,
        "the old's value ended": _ends(other, one),
        "moved": not word_set("replacements.moving").isdisjoint(now.words)
        and not word_set("replacements.staying").isdisjoint(was.words)
        and is_kin(one.content[0], other.content[0]),
        "words of the old": min(20, len(one.content)),
        "words of the new": min(20, len(other.content)),
        "value kept": one.content[-1] not in one.alone and not _ends(other, one),
        "announced twice": says and announces(old),
        "alone in the old": min(6, len(one.alone)),
        "alone in the new": min(10, len(other.alone)),
        "values, narrowed": exchanged and (narrowed[1] or qualified[1]),
    }
    return {name: float(value) for name, value in found.items()}


@dataclass(frozen=True, slots=True)
class ChangeModel:
    """A logistic regression over `features`."""

    weights: dict[str, float]
    intercept: float
    perhaps: float
    """Without the network: probability from which a search that finds both statements ranks the newer before the older."""

    def probability(self, found: dict[str, float]) -> float:
        return 1 / (1 + exp(-self.intercept - sum(self.weights[name] * value for name, value in found.items())))


@cache
def change_model() -> ChangeModel:
    """Return the model that `tools/change_judge.py` wrote."""
    return ChangeModel(**json.loads(MODEL.read_text(encoding="utf-8")))


def is_ruled_out(old: str, new: str) -> bool:
    """Return whether a rule excludes a change: one tells history, the newer only a possibility, both are events, or their labels differ."""
    one, other = read_statement(old), read_statement(new)
    if _differ_in_label(old, new):
        return True
    if is_event(old) and is_event(new):
        return not announces(new) or exchange_values(old, new)
    if not announces(new) and max(len(one.content), len(other.content)) > _SHORT:
        sides = _sides(old, new)
        if (
            not exchange_values(old, new)
            and not all(side.names_alone for side in sides)
            and bool(one.denials) == bool(other.denials)
        ):
            return True
    if one.denials and not other.denials and not (announces(new) or pattern("replacements.allowed").search(new)):
        return True
    return _tells_history(old) or not tells_the_present(new)


def tells_the_present(text: str) -> bool:
    """Return whether a text tells how a thing is: neither history ("used to") nor only a possibility ("we considered")."""
    return not (pattern("replacements.unreal").search(text) or _tells_history(text))


def _tells_history(text: str) -> bool:
    return bool(pattern("replacements.history").search(text) and not pattern("replacements.present").search(text))


def _differ_in_label(old: str, new: str) -> bool:
    """Return whether both texts begin with a label ("Atlas: ...", "Heron: ...", not "Update: ...") whose words the other lacks."""
    labels = _LABEL.match(old), _LABEL.match(new)
    return all(
        label
        and not announces(label[0])
        and not any(is_kin(word, other) for word in words(fold(label[1])) for other in read_statement(text).words)
        for label, text in zip(labels, (new, old), strict=True)
    )


class Change(NamedTuple):
    """A newer statement that replaces, or may replace, an older one."""

    probability: float
    is_sure: bool
    """Whether only one of the two holds. If not, a search that finds both only ranks the newer first."""
    by_words: float = 1.0
    """Probability by the words alone, which tell better than the network which of the two is newer."""


def find_changes(pairs: Sequence[tuple[str, str]], read_from: Sequence[float]) -> list[Change | None]:
    """Return the change in each (older, newer) pair of statements, or None where a change is unlikely.

    Words alone cannot separate "it has moved to otter" from "its backup runs at three", which leaves the older statement true. So a change
    is sure only if the network agrees. The weights of both were trained on the changed facts of
    `benchmarks/sets/stores_train`. A pair whose probability by words is below its `read_from` is no change, and the network, which takes
    milliseconds, does not read it.
    """
    model = change_model()
    by_words = np.array([judge_change(old, new) for old, new in pairs])
    probability, sure = by_words.copy(), np.zeros(len(pairs), bool)
    perhaps = by_words >= np.maximum(read_from, model.perhaps)
    asked = [
        place
        for place, (old, new) in enumerate(pairs)
        if by_words[place] >= read_from[place]
        and (announces(new) or not (is_event(old) and is_event(new)))  # two events are two occasions, not a change
        and not pattern("replacements.unreal").search(new)
    ]
    shares = relation_probabilities([_undated(*pairs[place]) for place in asked])
    differ = (shares[:, Relation.CHANGED] + shares[:, Relation.OPPOSITE]).astype(np.float64)
    probability[asked] = 1 / (1 + np.exp(-(_log_odds(by_words[asked]) * _WORDS + _log_odds(differ) * _READ + _BASE)))
    sure[asked], perhaps[asked] = probability[asked] >= SURE, probability[asked] >= _PERHAPS
    return [
        Change(each, is_sure, words) if is_sure or is_perhaps else None
        for each, is_sure, is_perhaps, words in zip(
            probability.tolist(), sure.tolist(), perhaps.tolist(), by_words.tolist(), strict=True
        )
    ]


def is_certain(old: str, new: str, probability: float) -> bool:
    """Return whether a sure change of this probability leaves no doubt that the newer statement replaces the older.

    "Now" and "moved" also occur in statements that replace nothing: the change must show in a value, a day, or the end of the old value.
    """
    if not pattern("statements.change").search(new):
        return probability >= _UNANNOUNCED
    one, other = _sides(old, new)
    is_shown = exchange_values(old, new) or _ends(other, one) or pattern("replacements.dated").search(new)
    return bool(is_shown) or probability >= _ONLY_ANNOUNCED


def _undated(old: str, new: str) -> tuple[str, str]:
    """Remove each statement's "since <day>", which misleads the network, unless the statements differ in nothing else."""
    one, other = (" ".join(pattern("replacements.dated").sub("", text).split()) for text in (old, new))
    return (old, new) if one == other else (one, other)


def _log_odds(probability: Values) -> Values:
    clipped = np.clip(probability, _MIN_PROBABILITY, 1 - _MIN_PROBABILITY)
    return np.asarray(np.log(clipped / (1 - clipped)))


def judge_change(old: str, new: str) -> float:
    """Return the probability, by words alone, that a newer statement replaces an older one."""
    return change_model().probability(features(old, new)) if _is_possible(old, new) else 0.0


def _is_possible(old: str, new: str) -> bool:
    """Return whether a newer statement may replace an older one: they differ, share a topic word, and no rule excludes it."""
    one, other = _sides(old, new)
    differ = bool(other.alone or one.alone) or one.statement.denials != other.statement.denials
    differ = differ or one.statement.values != other.statement.values
    return differ and bool(one.shared) and not is_ruled_out(old, new)


def with_subject(text: str, about: str, other: str) -> str:
    """Prefix a statement with the words of its title or heading that only the other statement contains."""
    mine, theirs = read_statement(text).content, read_statement(other).content
    missing = [
        word
        for word in dict.fromkeys(read_statement(about).content)
        if any(is_kin(word, each) for each in theirs) and not any(is_kin(word, each) for each in mine)
    ]
    return f"{' '.join(missing)}: {text}" if missing else text


def topic_keys(text: str) -> list[str]:
    """Return a statement's index keys: the first five letters of each folded topic word, without numbers and titles."""
    content = read_statement(text).content
    return sorted({fold(word)[:5] for word in content if not is_number(word) and word not in word_set("replacements.titles")})
