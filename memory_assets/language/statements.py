"""Judge how two short texts stand to each other: the same, another value, the contrary, related, or unrelated.

Similarity of embeddings cannot tell a fact from its change ("at 6 pm", "at 8 pm") or its contrary ("may", "must not"). So a logistic
regression weighs it together with what the words show: which of them have no partner in the other text, in what order they stand,
which values differ, how many denials there are. `tools/pair_judge.py` trains it on `benchmarks/sets/pairs_train.jsonl` and writes
`statements.json`; nothing but these numbers is used here, so that every embedder whose scale is known gets the same judge.
"""

import json
import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from memory_assets.language.english import pattern, table, word_set
from memory_assets.language.words import fold, function_words, sentences, words

if TYPE_CHECKING:
    import numpy.typing as npt

MODEL = Path(__file__).with_name("statements.json")
NEAR = 0.7
"""Similarity on the common scale from which two texts may be about one thing; below it nothing is judged."""
_MOST_WORDS = 30
"""Words of a text that is judged as a whole, as those of the training set are; of a longer text only its sentences are."""
_MOST_SENTENCES = 12
_LEAST_WORDS = 4
_LEAST_COMMON = 3
_LEAST_BEFORE = 2
"""Words before the one place in which two statements differ."""
_LEAST_SHARE = 0.5
"""Sentences of longer texts are compared if each has four words, both share three that carry a topic, and half of the longer one."""
_NOTHING = "(nothing)"
_MOST_SHOWN = 60
"""Characters of a difference that are shown."""
_WORD = re.compile(r"\d+(?:[.,:]\d+)*|[^\W\d_]+(?:['’-][^\W\d_]+)*|[€$£%]")
_CLOCK = re.compile(r"\b(\d{1,2})(?:[:.](\d\d))?\s?(a\.?m\b\.?|p\.?m\b\.?|uhr\b|o['’]clock\b)(?:\s(\d\d)\b)?", re.IGNORECASE)
_BARE_CLOCK = re.compile(r"\b(\d{1,2}):(\d\d)\b")
_HALF = re.compile(r"\b(half past|quarter past|quarter to|halb|viertel nach|viertel vor) (\w+)", re.IGNORECASE)
_MINUTES = {"half past": 30, "quarter past": 15, "viertel nach": 15, "quarter to": -15, "viertel vor": -15, "halb": -30}
_MULTIPLES = {"100", "1000", "1000000"}
_MOST_DIGITS = 3
"""Of a number that a multiple may follow ("three hundred"); Python refuses to read thousands of digits."""
_ISO_DATE = re.compile(r"\b(\d{4})-(\d\d)-(\d\d)\b")
_DOTTED_DATE = re.compile(r"\b(\d{1,2})\.\s?(\d{1,2})\.(?:\s?(\d{4}))?(?!\d)")
_GERMAN_EVENT = {"wurde", "wurden", "hatte", "hatten"}
_GERMAN_PERFECT = re.compile(r"\b(?:hat|haben|habe|ist|sind|bin)\b.*\b\w*ge\w{2,}(?:t|en)[.!]?$", re.IGNORECASE)
_NO_PAST = {"is", "are", "be", "been", "am", "a", "an", "the", "to"}
_LEAST_PAST = 5
"""Letters of a regular past tense."""
_PARTNER = 0.75
"""How alike the spellings of two words are that may be forms of one."""
_SENTENCE_START = '.!?:;("“„-*#\n'


class Relation(StrEnum):
    """How two texts stand to each other."""

    SAME = "same"
    CHANGED = "changed"
    """The same statement with another value."""
    OPPOSITE = "opposite"
    """The same statement, denied."""
    RELATED = "related"


@dataclass(frozen=True, slots=True)
class Judgement:
    """The outcome of `judge`."""

    relation: Relation
    confidence: float = 0.0
    """Probability of the relation."""
    evidence: str = ""
    """What differs, for a person: "840 euros -> 910 euros"."""
    says_change: bool = False
    """Whether the newer text has words of change, such as "no longer"."""
    is_sure: bool = True
    """Whether to act on it; else a person may be asked."""
    is_verbatim: bool = False
    """Whether the two have the same words."""
    is_event: bool = False
    """Whether both tell of something that happened: another time it may have happened otherwise."""
    differs: float = 0.0
    """Probability of a change or contrary, whatever the relation."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A text in the parts that are compared."""

    words: tuple[str, ...]
    """Folded, in order."""
    shown: tuple[str, ...]
    content: tuple[str, ...]
    names: frozenset[str]
    values: frozenset[str]
    denials: int


@lru_cache(maxsize=1 << 14)
def read_statement(text: str) -> Statement:
    """A text of one statement, taken apart; of a longer one its first thirty words."""
    shown, names = [], set()
    for found in _WORD.finditer(text):
        shown.append(found[0].removesuffix("'s").removesuffix("’s"))
        before = text[: found.start()].rstrip(" ")
        if found[0][0].isupper() and before and before[-1] not in _SENTENCE_START:
            names.add(fold(shown[-1]))
        if len(shown) == _MOST_WORDS:
            break
    words = tuple(map(fold, shown))
    values = _values(text)
    content = tuple(word for word in words if word not in _small_words() and not _denies(word)) or words
    numbered = frozenset(word for word in content if is_number(word))
    return Statement(
        words,
        tuple(shown),
        content,
        frozenset(names).intersection(content) - numbered,
        frozenset(values),
        sum(_denies(word) for word in words),
    )


def _values(text: str) -> set[str]:
    """Numbers, times of day, months and weekdays, normalised."""
    values: set[str] = set()

    def put(*found: str) -> str:
        values.update(found)
        return " "

    def clock(found: re.Match[str]) -> str:
        hour, half = int(found[1]), found[3].lower().replace(".", "")
        hour = hour % 12 + (12 if half == "pm" else 0) if half in {"am", "pm"} else hour
        return put(f"{hour}:{found[2] or found[4] or '00'}")

    def half(found: re.Match[str]) -> str:
        hour = _numbers().get(found[2].lower(), found[2])
        minutes = int(hour) * 60 + _MINUTES[found[1].lower()] if hour.isdecimal() and len(hour) <= _MOST_DIGITS else -1
        return put(f"{minutes // 60}:{minutes % 60:02}") if minutes >= 0 else found[0]

    text = _ISO_DATE.sub(lambda date: put(date[1], f"month {int(date[2])}", str(int(date[3]))), text)
    text = _DOTTED_DATE.sub(lambda date: put(*filter(None, (str(int(date[1])), f"month {int(date[2])}", date[3]))), text)
    text = _BARE_CLOCK.sub(lambda found: put(f"{int(found[1])}:{found[2]}"), _CLOCK.sub(clock, _HALF.sub(half, text)))
    number = 0
    for word in _WORD.findall(text):
        value = _numbers().get(word.lower(), "") if word not in word_set("statements.ambiguous") else ""
        if word[0].isdigit():
            value = re.sub(r"[.,](?=\d{3}\b)", "", word).replace(",", ".")
        if number and value in _MULTIPLES:
            values.discard(str(number))
            value = str(number * int(value))
        if value:
            values.add(value)
        number = int(value) if value.isdecimal() and len(value) <= _MOST_DIGITS else 0
    return values


@cache
def _numbers() -> dict[str, str]:
    """Word -> its value, of lists such as "january jan=month 1"."""
    found: dict[str, str] = {}
    for kind, prefix in (("numbers", ""), ("months", "month "), ("weekdays", "weekday ")):
        pending: list[str] = []
        for item in table(f"statements.{kind}").split():
            word, _, value = item.partition("=")
            pending.append(word)
            if value:
                found.update((each, f"{prefix}{value}") for each in pending)
                pending = []
    return found


@cache
def _small_words() -> frozenset[str]:
    return function_words("en") | function_words("de") | word_set("statements.small")


def is_number(word: str) -> bool:
    """Whether a folded word is a number, a month or a day of the week."""
    return word[0].isdigit() or word in _numbers()


def _denies(word: str) -> bool:
    return word in word_set("statements.denying") or word.endswith(("n't", "n’t"))


def _announces(text: str) -> bool:
    """Whether a text has words of change."""
    return bool(pattern("statements.change").search(text))


def other_values(one: Statement, other: Statement) -> set[str]:
    """Values of the first that the second lacks; "at ten" is "10:00", and may be "22:00"."""
    return {value for value in one.values - other.values if not any(_is_hour(value, each) for each in other.values)}


def _is_hour(one: str, other: str) -> bool:
    """Whether two values may be one time of day: "ten" and "22:00", "7:30" and "19:30"."""
    times = [value.partition(":") for value in (one, other)]
    if not any(colon for _, colon, _ in times) or not all(hour.isdecimal() and len(hour) <= _MOST_DIGITS for hour, _, _ in times):
        return False
    (hour, _, minutes), (other_hour, _, other_minutes) = times
    return int(hour) % 12 == int(other_hour) % 12 and (minutes or "00") == (other_minutes or "00")


def features(old: str, new: str, similarity: float) -> dict[str, float]:
    """What the judge weighs, the same whichever text is the first; words that one text alone has are named by themselves."""
    from rapidfuzz.distance import JaroWinkler
    from rapidfuzz.process import cdist

    one, other = read_statement(old), read_statement(new)
    alike = cdist(one.content, other.content, scorer=JaroWinkler.normalized_similarity, dtype=np.float32)
    mine, theirs = alike.max(axis=1), alike.max(axis=0)
    lonely = mine < _PARTNER, theirs < _PARTNER
    steps = [set(zip(("", *each.words), (*each.words, ""), strict=True)) for each in (one, other)]
    matcher = SequenceMatcher(None, one.words, other.words, autojunk=False)
    common = sum(block.size for block in matcher.get_matching_blocks())
    found: dict[str, float] = {
        "similarity": similarity,
        "values common": len(one.values & other.values),
        "order": common / max(len(one.words), len(other.words)),
        "order of the shorter": common / min(len(one.words), len(other.words)),
        "steps": len(steps[0] & steps[1]) / min(map(len, steps)),
        "lengths": min(len(one.content), len(other.content)) / max(len(one.content), len(other.content)),
        "denials differ": abs(one.denials - other.denials),
        "denials are odd": (one.denials - other.denials) % 2,
        "denials in both": min(one.denials, other.denials),
        "swapped": _swapped(alike),
        "announced": float(_announces(old) != _announces(new)),
    }
    alone = len(other_values(one, other)), len(other_values(other, one))
    found["values exchanged"] = float(all(alone))
    found["none alone"] = float(not (lonely[0].any() or lonely[1].any()))
    lonely_words = [
        {word for word, alone in zip(each.content, row, strict=True) if alone}
        for each, row in zip((one, other), lonely, strict=True)
    ]
    for name, pair in (
        ("alike", (mine.mean(), theirs.mean())),
        ("least alike", (mine.min(), theirs.min())),
        ("alone", (lonely[0].sum(), lonely[1].sum())),
        ("share alone", (lonely[0].mean(), lonely[1].mean())),
        ("names alone", (len(one.names & lonely_words[0]), len(other.names & lonely_words[1]))),
        ("values alone", alone),
        ("words", (len(one.content), len(other.content))),
        ("words beside", (len(one.words) - common, len(other.words) - common)),
    ):
        found[f"{name}, least"], found[f"{name}, most"] = float(min(pair)), float(max(pair))
    return found | {f"only {word}": 1.0 for word in set(one.words) ^ set(other.words)}


def _swapped(alike: "npt.NDArray[np.float32]") -> float:
    """The share of pairs of partners whose order is another in the second text."""
    places = alike.argmax(axis=1)[alike.max(axis=1) >= _PARTNER]
    pairs = len(places) * (len(places) - 1) / 2
    return float((places[:, None] > places[None, :])[np.triu_indices(len(places), 1)].sum() / pairs) if pairs else 0.0


@dataclass(frozen=True, slots=True)
class Model:
    """A logistic regression over features and words."""

    names: list[str]
    """Of features in the order of `mean`, without words."""
    words: list[str]
    labels: list[str]
    mean: list[float]
    """Of each feature in the training set."""
    scale: list[float]
    weights: list[list[float]]
    """For each label, those of features and words."""
    intercepts: list[float]
    same: float
    """Probability from which two texts say the same."""
    differs: float
    """Probability of a change or contrary from which they surely are one ..."""
    may_differ: float
    """... and from which they may be one, or are one if the newer text has words of change."""

    def inputs(self, found: dict[str, float]) -> "npt.NDArray[np.float64]":
        """The columns that are weighed."""
        plain = (np.array([found[name] for name in self.names]) - self.mean) / self.scale
        return np.concatenate([plain, [float(f"only {word}" in found) for word in self.words]])

    def probabilities(self, found: dict[str, float]) -> dict[str, float]:
        """How likely each label is."""
        logits = np.array(self.weights) @ self.inputs(found) + self.intercepts
        shares = np.exp(logits - logits.max())
        return dict(zip(self.labels, (shares / shares.sum()).tolist(), strict=True))


@cache
def load_model() -> Model:
    """What `tools/pair_judge.py` wrote."""
    return Model(**json.loads(MODEL.read_text(encoding="utf-8")))


@lru_cache(maxsize=1 << 12)
def _judge_statement(old: str, new: str, similarity: float) -> Judgement:
    if read_statement(old).words == read_statement(new).words:
        return Judgement(Relation.SAME, 1.0, "the same words")
    found = features(old, new, similarity)
    shares = load_model().probabilities(found)
    differs = shares["changed"] + shares["opposite"]
    says_change = _announces(new)
    if shares["same"] >= load_model().same and not found["values exchanged"]:
        return Judgement(Relation.SAME, shares["same"], "no word, number or name differs", says_change, differs=differs)
    in_one_place = _differ_in_one_place(read_statement(old), read_statement(new))
    both_events = is_event(old) and is_event(new)
    if differs >= load_model().may_differ or in_one_place:
        relation = Relation.CHANGED if in_one_place or shares["changed"] >= shares["opposite"] else Relation.OPPOSITE
        is_sure = says_change or in_one_place or differs >= load_model().differs
        return Judgement(relation, differs, difference(old, new), says_change, is_sure, is_event=both_events, differs=differs)
    return Judgement(
        Relation.RELATED, 1 - shares["same"] - differs, says_change=says_change, is_event=both_events, differs=differs
    )


def _replaced(one: Statement, other: Statement) -> tuple[int, tuple[str, ...], tuple[str, ...]] | None:
    """Where two statements differ and what stands there, if that is one place and no denial; else None."""
    matcher = SequenceMatcher(None, one.words, other.words, autojunk=False)
    differing = [codes for codes in matcher.get_opcodes() if codes[0] != "equal"]
    if len(differing) != 1 or differing[0][0] != "replace":
        return None
    _, start, end, begin, until = differing[0]
    was, now = one.words[start:end], other.words[begin:until]
    return None if any(map(_denies, (*was, *now))) else (start, was, now)


def _differ_in_one_place(one: Statement, other: Statement) -> bool:
    """Whether both say one thing of a subject up to its last words: "is in the blue folder", "is in the top drawer"."""
    replaced = _replaced(one, other)
    if not replaced or one.denials:
        return False
    start, was, now = replaced
    kept, before = len(one.words) - len(was), one.words[start - 1]
    firsts = [next((word for word in words if word not in word_set("statements.articles")), "") for words in (was, now)]
    return (
        start >= _LEAST_BEFORE
        and kept >= max(_LEAST_COMMON, len(was), len(now))
        and before in _small_words()
        and _small_words().isdisjoint(firsts)
        and (len(was) == len(now) or before not in word_set("statements.copulas"))
    )


def judge(old: str, new: str, similarity: float) -> Judgement:
    """Judge two texts; of long ones, also each pair of sentences, for one that changes or denies another.

    Args:
        old: the older text.
        new: the newer one.
        similarity: of what they say, on the common scale of all embedders.
    """
    if _normal(old) == _normal(new):
        return Judgement(Relation.SAME, 1.0, "the same words", is_verbatim=True)
    if similarity < NEAR or not words(old) or not words(new):
        return Judgement(Relation.RELATED)
    unknown = Judgement(Relation.RELATED, says_change=_announces(new))
    found = unknown if is_long(old) or is_long(new) else _judge_statement(old, new, similarity)
    if found.relation is Relation.RELATED:
        pairs = [(one, other) for one in _parts(old) for other in _parts(new) if _is_one_predicate(one, other)]
        judged = (_judge_statement(one, other, similarity) for one, other in pairs)
        differing = [
            each
            for (one, other), each in zip(pairs, judged, strict=True)
            if each.relation in (Relation.CHANGED, Relation.OPPOSITE)
            and each.confidence >= load_model().differs
            and _exchanges_values(read_statement(one), read_statement(other))
        ]
        found = max(differing, key=lambda each: each.confidence, default=found)
    return found


def says_the_same(old: str, new: str, similarity: float) -> bool:
    """Whether two texts say the same, as `judge` finds it, without a look at their sentences."""
    if _normal(old) == _normal(new):
        return True
    if similarity < NEAR or not words(old) or not words(new) or is_long(old) or is_long(new):
        return False
    return _judge_statement(old, new, similarity).relation is Relation.SAME


def _exchanges_values(one: Statement, other: Statement) -> bool:
    """Whether two sentences of longer texts differ by a denial, or in one place by values or names."""
    replaced = _replaced(one, other)
    if not replaced:
        return one.denials != other.denials
    _, was, now = replaced
    by_name = not (one.names.isdisjoint(was) or other.names.isdisjoint(now))
    return by_name or bool(other_values(one, other) and other_values(other, one))


def find_replaced(old: str, new: str) -> str:
    """What a newer text says was replaced by what, if the older one states it: "MongoDB -> PostgreSQL 17"; else nothing.

    "Atlas leaves MongoDB for PostgreSQL" replaces "Atlas stores shipments in MongoDB", and not "MongoDB was down".
    """
    opening = next(iter(sentences(old)), "")
    stated = read_statement(opening)
    subject = set(stated.content[:_LEAST_COMMON])
    for sentence in sentences(new)[:_MOST_SENTENCES]:
        for form in table("statements.replaced"):
            for found in re.finditer(form, sentence, re.IGNORECASE):
                was, now = ({fold(word) for word in _WORD.findall(found[name])} for name in ("was", "now"))
                about = set(read_statement(sentence).content) - was - now
                is_stated = any(
                    word in was and before in _small_words() and before not in word_set("statements.articles")
                    for before, word in pairwise(stated.words)
                )
                is_doubted = pattern("relations.doubt").search(sentence[: found.start()])
                if is_stated and not is_doubted and now.isdisjoint(stated.words) and not about.isdisjoint(subject):
                    return f"{found['was']} -> {found['now']}"
    return ""


def _parts(text: str) -> list[str]:
    """The sentences of a text, and how they begin: what stands behind the first comma does not belong to what changed."""
    found = [part for part in sentences(text)[:_MOST_SENTENCES] if not part.endswith("?")]
    return [
        part for part in dict.fromkeys([*found, *(part.partition(", ")[0] for part in found)]) if len(words(part)) >= _LEAST_WORDS
    ]


def _is_one_predicate(one: str, other: str) -> bool:
    """Whether two sentences share so many words in order that they are worth judging without a similarity of their own."""
    first, second = read_statement(one), read_statement(other)
    if len(set(first.content) & set(second.content)) < _LEAST_COMMON:
        return False
    matcher = SequenceMatcher(None, first.words, second.words, autojunk=False)
    common = sum(block.size for block in matcher.get_matching_blocks())
    return common >= _LEAST_SHARE * max(len(first.words), len(second.words))


def is_long(text: str) -> bool:
    """Whether a text has more words than are compared."""
    return len(read_statement(text).words) == _MOST_WORDS


def difference(old: str, new: str) -> str:
    """What differs, for a person."""
    one, other = read_statement(old), read_statement(new)
    matcher = SequenceMatcher(None, one.words, other.words, autojunk=False)
    parts = [
        (" ".join(one.shown[start:end]), " ".join(other.shown[begin:until]))
        for kind, start, end, begin, until in matcher.get_opcodes()
        if kind != "equal"
    ]
    was, now = (" … ".join(filter(None, side)) for side in zip(*parts, strict=True))
    return " -> ".join(
        part if len(part) <= _MOST_SHOWN else f"{part[:_MOST_SHOWN]}…" for part in (was or _NOTHING, now or _NOTHING)
    )


def is_event(text: str) -> bool:
    """Whether a text is in the past: "was repaired", "bought", not "is repaired"."""
    found = words(text)
    if not _GERMAN_EVENT.isdisjoint(found) or _GERMAN_PERFECT.search(text):
        return True
    return any(
        (word in _past_forms() or (word.endswith("ed") and len(word) >= _LEAST_PAST)) and before not in _NO_PAST
        for before, word in zip(["", *found], found, strict=False)
    )


@cache
def _past_forms() -> frozenset[str]:
    """Irregular past tenses that are no present tense."""
    verbs = [verb.split() for verb in table("verbs.irregular").split("|")]
    return (
        frozenset(verb[1] for verb in verbs if len(verb) > 1)
        - {verb[0] for verb in verbs}
        - {"had", "got", "left", "was", "were"}
    )


def _normal(text: str) -> list[str]:
    return [word for word in words(fold(text)) if word not in word_set("repetitions.empty")]
