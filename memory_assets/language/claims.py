"""Compare what two short notes claim: the same, another value, the contrary, or something else about the same subject.

Similarity of embeddings cannot tell a fact from its change ("at 6 pm", "at 8 pm") or its contrary. So words decide here, and similarity
only says whether two texts without a difference are near enough. A claim is a sentence in parts: values (numbers with units, dates,
times), polarity (denials and contraries), guards ("only", "if") and topic words up to stem and synonym. The word lists stand in
`english.toml`, those of German in its section `german`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, lru_cache

from memory_assets.language.english import pattern, table, word_set
from memory_assets.language.languages import recognise
from memory_assets.language.words import fold, function_words, is_function_word, sentences, words

SURE = 0.9
"""Similarity from which two texts without any difference say the same."""
NEAR = 0.7
"""Similarity from which a difference is one of the same subject."""
_COVERAGE = 0.5
"""Least share of the topic words of two texts that say the same which both have ..."""
_DISCOUNT = 0.06
"""... and how much less similar they may be if they have all."""
_OPENING = 3
"""Sentences at the beginning of a text, where it says what it is about."""
_SHORT = 8
"""Words of a sentence in which "before" stands against "after"."""
_LEAST_COMMON = 2
"""The subject alone is not enough, if each text says something that the other does not."""
_MOST_SENTENCES = 12
"""Of a longer text, the first so many are compared."""
_SECTIONS = {"en": "claims", "de": "german"}


class Relation(StrEnum):
    """How a newer text stands to an older one."""

    SAME = "same"
    CHANGED = "changed"
    """The same statement with another value."""
    OPPOSED = "opposed"
    """The same statement, denied."""
    RELATED = "related"


@dataclass(frozen=True, slots=True)
class Comparison:
    """The outcome of `compare`."""

    relation: Relation
    evidence: tuple[str, ...] = ()
    """What differs, for a person: "840 € -> 910 €"."""
    says_change: bool = False
    """Whether the newer text has words of change, such as "no longer"."""
    is_verbatim: bool = False
    """Whether the two have the same words, so that they surely say the same."""
    is_event: bool = False
    """Whether both tell of something that happened: another time it may have happened otherwise."""


@dataclass(frozen=True, slots=True)
class _Claim:
    """A sentence in the parts that are compared."""

    language: str
    tokens: tuple[str, ...]
    """Words that are no values, canonical, function words among them."""
    topic: tuple[str, ...]
    """Canonical topic words, each once."""
    values: frozenset[str]
    names: frozenset[str]
    denied: bool
    is_tangled: bool
    """Whether more than one denial, or a clause beside one, leaves open what is denied."""
    says_change: bool
    guards: frozenset[str]
    is_event: bool
    shown: dict[str, str]
    """Canonical word -> as it is written."""


_ISO_DATE = re.compile(r"\b(\d{4})-(\d\d)-(\d\d)\b")
_DOTTED_DATE = re.compile(r"\b(\d{1,2})\.\s?(\d{1,2})\.(?:\s?(\d{4}))?(?!\d)")
_CLOCK = re.compile(r"\b(\d{1,2})(?:[:.](\d\d))?\s?(a\.?m\b\.?|p\.?m\b\.?|uhr\b|o['’]clock\b)(?:\s(\d\d)\b)?", re.IGNORECASE)
_BARE_CLOCK = re.compile(r"\b(\d{1,2}):(\d\d)\b")
_HALF_PAST = re.compile(r"\b(half past|quarter past|quarter to|halb|viertel nach|viertel vor) (\w+)", re.IGNORECASE)
_NUMBER = re.compile(r"^([€$£])?(\d[\d.,' ]*\d|\d)(st|nd|rd|th)?([%€$£]|[a-z]{1,3})?$")
_TOKEN = re.compile(r"[€$£]?\d+(?:[.,]\d+)*(?:st|nd|rd|th|[%€$£]|[a-z]{1,3}\b)?|[^\W_]+(?:[.+#'’_/-]*[^\W_]+)*[+#]*|[%€$£]")
_OF_TIME = frozenset({"before", "after", "vor", "nach"})
_IN_PLACE_OF = re.compile(
    r"\b(?:instead of|rather than|statt|anstatt) (?:(?:the|a|an|my|our|der|die|das|dem|des|ein\w*) )?[\w-]+", re.IGNORECASE
)
_OUT_OF = re.compile(r"\b(?:is|are|was|runs?|ran|has run|have run) out of\b", re.IGNORECASE)
_ADDRESSED = re.compile(r"\b(?:Herrn?|Frau|Dr)\b")
_TITLE = re.compile(r"\b(Mr|Mrs|Ms|Dr|Prof|St|Nr|No|ca|bzw|approx)\. ")
_DAY = re.compile(r"\b(\d{1,2})\. (?=[A-ZÄÖÜ])")
_CANNOT_STAND = re.compile(r"\b(?:can['’]t|cannot|can not) (?:stand|bear)\b", re.IGNORECASE)
_GERMAN_PERFECT = re.compile(r"\b(?:hat|haben|habe|ist|sind|bin)\b.*\b\w*ge\w{2,}(?:t|en)[.!]?$", re.IGNORECASE)
_HAS_DIGIT = re.compile(r"\d")
_PREFIX = 5
"""Letters that two forms of one word share: "insured", "insurance"."""


@lru_cache(maxsize=1 << 14)
def _claim(sentence: str, language: str) -> _Claim:
    section = _SECTIONS[language]
    sentence = _OUT_OF.sub("has no", _CANNOT_STAND.sub("hate", _IN_PLACE_OF.sub(" ", sentence)))
    values, rest = _values(sentence, section)
    tokens, topic, guards, names, shown = [], [], set(), set(), {}
    denials = 0
    for number, word in enumerate(rest):
        if word == "\0":
            tokens.append(word)
            continue
        small = word.lower().removesuffix("'s").removesuffix("’s")
        if re.search(r"n['’]t$", small) or small in {"can't", "cannot"}:
            denials += 1
            continue
        key = _canonical(small, language)
        flipped = _contraries(language).get(small) or _contraries(language).get(key)
        if flipped and not (small in _OF_TIME and (values or len(rest) > _SHORT)):
            denials, key = denials + 1, flipped
        elif small in _listed(section, "denying") or key in _listed(section, "denying"):
            denials += 1
            if small in function_words(language) or len(small) < _PREFIX:
                continue
        if guard := _groups(section, "guards").get(small):
            guards.add(guard)
        shown.setdefault(key, word)
        tokens.append(key)
        if _carries_topic(small, key, language) and key not in topic:
            topic.append(key)
            if number and word[:1].isupper() and not word.isupper():
                names.add(key)
    return _Claim(
        language,
        tuple(tokens),
        tuple(topic),
        frozenset(values),
        frozenset(names),
        denials % 2 == 1,
        denials > 1 or (denials == 1 and len(rest) > _SHORT and not word_set(f"{section}.clausal").isdisjoint(words(sentence))),
        bool(pattern(f"{section}.change").search(sentence)),
        frozenset(guards),
        _is_event(sentence, language),
        shown,
    )


def _is_event(sentence: str, language: str) -> bool:
    """Whether a sentence is in the past: "was repaired", "bought", not "is repaired"."""
    found = sentence.lower().split()
    if language == "de":
        return any(word in {"wurde", "wurden", "hatte", "hatten"} for word in found) or bool(_GERMAN_PERFECT.search(sentence))
    for before, word in zip(["", *found], found, strict=False):
        bare = word.strip(".,;:!?()")
        past = bare in _past_forms() or (bare.endswith("ed") and len(bare) > _PREFIX - 1)
        if past and before not in {"is", "are", "be", "been", "am", "a", "an", "the", "to"}:
            return True
    return False


def _carries_topic(small: str, key: str, language: str) -> bool:
    section = _SECTIONS[language]
    if small in word_set(f"{section}.empty") or key in _listed(section, "empty") or len(small) < 2:
        return False
    if small in _contraries(language) or key in _contraries(language).values():
        return small not in function_words(language) or language == "de"
    return not (is_function_word(small) if language == "en" else small in function_words("de") | word_set("german.small"))


def _values(sentence: str, section: str) -> tuple[set[str], list[str]]:
    """The values of a sentence, normalised, and its other words; NUL stands in the place of a value."""
    values: set[str] = set()

    def put(*found: str) -> str:
        values.update(found)
        return " \0 "

    numbers, months, weekdays, units = (_numbered(section, name) for name in ("number_words", "months", "weekdays", "units"))
    text = _ISO_DATE.sub(lambda date: put(date[1], f"month {int(date[2])}", str(int(date[3]))), sentence)
    text = _HALF_PAST.sub(lambda half: put(_half(half[1].lower(), numbers.get(half[2].lower(), half[2]))), text)
    text = _CLOCK.sub(lambda clock: put(_clock(clock)), text)
    text = _BARE_CLOCK.sub(lambda clock: put(f"{int(clock[1])}:{clock[2]}"), text)
    rest: list[str] = []
    found = _TOKEN.findall(text.replace("\0", " \0 ")) if "\0" not in text else re.findall(rf"\0|{_TOKEN.pattern}", text)
    pending = ""
    for word in found:
        small = word.lower()
        if pending and (unit := units.get(small) or (small if small in "%€$£" else "")):
            values.discard(pending)
            values.add(_measured(pending, unit))
            pending = ""
            continue
        pending = ""
        if small in weekdays and not (small in {"mon", "sat", "sun", "wed"} and small == word):
            put(f"weekday {weekdays[small]}")
        elif small in months and not (small in {"may", "march", "mar", "mai"} and small == word):
            put(f"month {months[small]}")
        elif small in numbers:
            pending = numbers[small]
            put(pending)
        elif number := _NUMBER.match(small):
            value = re.sub(r"[.,' ](?=\d{3}\b)", "", number[2]).replace(",", ".")
            unit = number[1] or number[4] or ""
            pending = "" if unit else value
            put(_measured(value, units.get(unit, unit)) if unit else value)
        else:
            rest.append(word)
            continue
        rest.append("\0")
    return values, rest


def _spelt_date(date: re.Match[str]) -> str:
    months = {number: name for name, number in _numbered("german", "months").items() if len(name) > 3 or name == "mai"}
    month = months.get(str(int(date[2])))
    return f"{int(date[1])} {month.title()}{f' {date[3]}' if date[3] else ''}" if month else date[0]


def _clock(clock: re.Match[str]) -> str:
    hour, half = int(clock[1]), clock[3].lower().replace(".", "")
    hour = hour % 12 + (12 if half == "pm" else 0) if half in {"am", "pm"} else hour
    return f"{hour}:{clock[2] or clock[4] or '00'}"


def _half(words_before: str, hour: str) -> str:
    number = int(hour) if hour.isdigit() else 0
    minutes = {"half past": 30, "quarter past": 15, "viertel nach": 15, "quarter to": -15, "viertel vor": -15, "halb": -30}[
        words_before
    ]
    return f"{(number * 60 + minutes) // 60}:{(number * 60 + minutes) % 60:02}"


def _measured(value: str, unit: str) -> str:
    number = float(value) if re.fullmatch(r"\d+(?:\.\d+)?", value) else None
    if number is not None and unit == "w":
        return f"{number * 7:g} d"
    return f"{number:g} {unit}" if number is not None else f"{value} {unit}"


def compare(old: str, new: str, similarity: float) -> Comparison:
    """Compare what two texts claim.

    Args:
        old: the older text.
        new: the newer one.
        similarity: of what they say, on the common scale of all embedders.
    """
    language = "de" if _is_german(old) or _is_german(new) else "en"
    section = _SECTIONS[language]
    says_change = bool(pattern(f"{section}.change").search(new))
    if _normal(old) == _normal(new):
        return Comparison(Relation.SAME, ("the same words",), is_verbatim=True)
    if similarity < NEAR:
        return Comparison(Relation.RELATED, says_change=says_change)
    before, after = _claims(old, language), _claims(new, language)
    found: Comparison | None = None
    for one in (*before, *_openings(old, language)):
        for other in (*after, *_openings(new, language)):
            relation, evidence = _difference(one, other)
            if relation is not Relation.RELATED and (found is None or found.relation is Relation.CHANGED):
                found = Comparison(relation, evidence, other.says_change, is_event=one.is_event and other.is_event)
    if found:
        return found
    if replaced := _named_as_replaced(before, new, language):
        return Comparison(Relation.CHANGED, (f"no longer {replaced}",), says_change=True)
    if _covered(before, after, similarity):
        return Comparison(Relation.SAME, ("no word, number or name differs",), says_change)
    return Comparison(Relation.RELATED, says_change=says_change)


def _covered(before: Sequence[_Claim], after: Sequence[_Claim], similarity: float) -> bool:
    """Whether each claim of the shorter text is one of the longer."""
    shorter, longer = sorted((before, after), key=len)
    return (
        bool(shorter)
        and len(longer) <= 2 * len(shorter)
        and all(any(_agrees(one, other, similarity) for other in longer) for one in shorter)
    )


def _agrees(one: _Claim, other: _Claim, similarity: float) -> bool:
    if _other_values(one, other) or _other_values(other, one) or one.denied != other.denied or one.guards != other.guards:
        return False
    common, mine, theirs = _shared(one, other)
    if one.language == "en" and (not one.names.isdisjoint(mine) or not other.names.isdisjoint(theirs)):
        return False
    if not common or _is_swapped(one, other) or (mine and theirs and len(one.topic) - len(mine) < _LEAST_COMMON):
        return False
    if mine and theirs and _exchanged(one, other, mine, theirs):
        return False
    share = (len(one.topic) + len(other.topic) - len(mine) - len(theirs)) / (len(one.topic) + len(other.topic))
    return share >= _COVERAGE and similarity >= SURE - _DISCOUNT * (share - _COVERAGE) / (1 - _COVERAGE)


def _other_values(one: _Claim, other: _Claim) -> set[str]:
    """Values of the first that the second lacks; "at ten" is "10:00", and may be "22:00"."""
    return {value for value in one.values - other.values if not any(_is_hour(value, each) for each in other.values)}


def _is_hour(one: str, other: str) -> bool:
    hour, clock = sorted((one, other), key=len)
    return hour.isdigit() and clock.endswith(":00") and int(clock[:-3]) in {int(hour), int(hour) + 12}


def _named_as_replaced(before: Sequence[_Claim], new: str, language: str) -> str:
    """What the older text claims and the newer one names as replaced; empty if there is none."""
    section = _SECTIONS[language]
    for part in sentences(new)[:_MOST_SENTENCES]:
        for phrase in re.finditer(table(f"{section}.replacing"), part):
            found = phrase.groupdict()
            successor = _canonical((found.pop("to", None) or "").lower(), language)
            name = next(filter(None, found.values()))
            key = _canonical(name.lower(), language)
            if successor and any(successor in claim.topic for claim in before):
                continue
            topic = set(_claim(part, language).topic)
            for claim in before[:_OPENING]:
                shared = topic.intersection(claim.topic) - {key}
                if (
                    key in claim.topic
                    and not claim.says_change
                    and not claim.is_event
                    and (claim.topic[0] in shared or len(shared) >= _LEAST_COMMON)
                ):
                    return name
    return ""


def _difference(one: _Claim, other: _Claim) -> tuple[Relation, tuple[str, ...]]:
    """Whether two claims are of one subject and predicate and differ."""
    nothing = Relation.RELATED, ()
    common, mine, theirs = _shared(one, other)
    if not common:
        return nothing
    share = len(common) / max(len(one.topic), len(other.topic))
    subject_alike = one.topic[0] in common or other.topic[0] in common
    lost, gained = _other_values(one, other), _other_values(other, one)
    says_change = other.says_change
    if (
        one.denied != other.denied
        and share >= 0.6
        and not one.is_tangled
        and not other.is_tangled
        and (says_change or not (lost or gained))
        and len(mine) <= 1
        and len(theirs) <= 2
    ):
        return Relation.OPPOSED, (f"{_text(one, mine)}denied" if one.denied else f"now denied{_text(other, theirs, ': ')}",)
    numbered = one.tokens[1:2] == other.tokens[1:2] == ("\0",) and all(value.isdigit() for value in lost | gained)
    # "Invoice 12" and "Invoice 13" are two subjects, "Version 2.3" and "Version 2.4" two values of one.
    if lost and gained and one.denied == other.denied and share >= 0.6 and subject_alike and not numbered:
        pairs = [(a, b) for a in sorted(lost) for b in sorted(gained) if _kind(a) == _kind(b)]
        if pairs and len(mine) <= 1 and len(theirs) <= 2:
            return Relation.CHANGED, tuple(f"{a} -> {b}" for a, b in pairs[:3])
    if not lost and (says_change or not gained) and one.denied == other.denied:
        exchanged = _exchanged(one, other, mine, theirs)
        if exchanged and _excludes(one, other, common, mine, theirs, exchanged):
            return Relation.CHANGED, (f"{exchanged[0]} -> {exchanged[1]}",)
        left, right = (
            " ".join(claim.shown[word] for word in claim.names if word in alone)
            for claim, alone in ((one, mine), (other, theirs))
        )
        if says_change and subject_alike and share >= 0.4 and left and right and len(mine) <= 2 and len(theirs) <= 2:
            return Relation.CHANGED, (f"{left} -> {right}",)
    if _is_swapped(one, other):
        return Relation.CHANGED, ("the two are exchanged",)
    return nothing


def _excludes(
    one: _Claim, other: _Claim, common: set[str], mine: list[str], theirs: list[str], exchanged: tuple[str, str]
) -> bool:
    """Whether the exchanged words are two values of one attribute, of which one holds."""
    section = _SECTIONS[one.language]
    if any(word in _listed(section, "both_hold") for word in common):
        return False
    classes = _groups(section, "classes")
    if any((group := classes.get(a)) and any(classes.get(b) == group for b in theirs) for a in mine):
        return len(common) >= 1
    if not mine or not theirs or len(mine) > 3 or len(theirs) > 3:
        return False
    start = next((at for at, (a, b) in enumerate(zip(one.tokens, other.tokens, strict=False)) if a != b), 0)
    if start == 0:
        return len(common) >= 2 and not common.isdisjoint(_listed("conflicts", "one_holder") | {"lead", "head"})
    before = one.tokens[start - 1]
    named = all(
        claim.names.intersection(alone) if claim.language == "en" else _ADDRESSED.search(exchanged[number])
        for number, (claim, alone) in enumerate(((one, mine), (other, theirs)))
    )
    if before not in _listed(section, "before_value"):
        return named and len(common) >= 2
    is_copula = before in {"is", "are", "was", "were", "ist", "sind", "war", "a", "an", "ein", "eine"}
    return named or not is_copula or (len(common) >= 2 and other.tokens[-1] in theirs)


def _exchanged(one: _Claim, other: _Claim, mine: Sequence[str], theirs: Sequence[str]) -> tuple[str, str] | None:
    """The words that differ where two sentences are alike before and behind them; None where they are built another way."""
    a, b = one.tokens, other.tokens
    start = 0
    while start < min(len(a), len(b)) and _alike(a[start], b[start]):
        start += 1
    end = 0
    while end < min(len(a), len(b)) - start and _alike(a[-1 - end], b[-1 - end]):
        end += 1
    left, right = a[start : len(a) - end], b[start : len(b) - end]
    kept = start + end
    if not left or not right or kept < max(2, 0.4 * max(len(a), len(b))):
        return None
    if not any(word in mine for word in left) or not any(word in theirs for word in right):
        return None
    return " ".join(one.shown.get(word, word) for word in left), " ".join(other.shown.get(word, word) for word in right)


def _is_swapped(one: _Claim, other: _Claim) -> bool:
    """Whether two words of one sentence have changed places in the other, and nothing else has."""
    if len(one.tokens) != len(other.tokens) or sorted(one.tokens) != sorted(other.tokens):
        return False
    return sum(a != b for a, b in zip(one.tokens, other.tokens, strict=True)) == 2


def _shared(one: _Claim, other: _Claim) -> tuple[set[str], list[str], list[str]]:
    """Topic words of both, of the first alone and of the second alone."""
    common = set(one.topic) & set(other.topic)
    mine, theirs = ([word for word in claim.topic if word not in common] for claim in (one, other))
    for word in list(mine):
        if like := next((each for each in theirs if _alike(word, each)), None):
            common |= {word, like}
            mine.remove(word)
            theirs.remove(like)
    return common, mine, theirs


def _alike(one: str, other: str) -> bool:
    """Whether two words are forms of one. A word with a digit in it is a number or a name, and has none."""
    if one == other or _HAS_DIGIT.search(one) or _HAS_DIGIT.search(other):
        return one == other
    shared = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        shared += 1
    return shared >= _PREFIX and shared >= 0.6 * max(len(one), len(other))


def _text(claim: _Claim, keys: Sequence[str], lead: str = "") -> str:
    shown = " ".join(claim.shown.get(key, key) for key in keys)
    return f"{lead}{shown}{'' if lead else ' '}" if shown else ""


def _kind(value: str) -> str:
    """What sort of value it is: of two sorts neither replaces the other."""
    if value.startswith(("month", "weekday")):
        return value.split()[0]
    if ":" in value:
        return "number"
    return value.partition(" ")[2] or ("ordinal" if value[-1:].isalpha() else "number")


@lru_cache(maxsize=1 << 12)
def _claims(text: str, language: str) -> tuple[_Claim, ...]:
    text = _TITLE.sub(r"\1 ", text)
    if language == "de":
        text = _DAY.sub(r"\1 ", _DOTTED_DATE.sub(_spelt_date, text))
    return tuple(
        claim for part in sentences(text)[:_MOST_SENTENCES] if not part.endswith("?") and (claim := _claim(part, language)).topic
    )


@lru_cache(maxsize=1 << 12)
def _openings(text: str, language: str) -> tuple[_Claim, ...]:
    """The first clauses of sentences that have several: "..., Leila switched it off" does not belong to what changed."""
    parts = (part for part in sentences(text)[:_OPENING] if not part.endswith("?"))
    first = (part.partition(", ")[0] for part in parts if ", " in part)
    return tuple(claim for part in first if len((claim := _claim(part, language)).topic) > _LEAST_COMMON)


@lru_cache(maxsize=1 << 12)
def _is_german(text: str) -> bool:
    beginning = text[:500]
    if recognise(beginning) == "de":
        return True
    found = words(beginning)
    return sum(word in _german_words() for word in found) > sum(
        word in function_words("en") - function_words("de") for word in found
    )


@cache
def _german_words() -> frozenset[str]:
    """German words of the lists that no English text has."""
    german, english = (
        frozenset(word for name in names for word in re.findall(r"[^\W\d_]+", table(f"{section}.{name}")))
        for section, names in (("german", _LISTS), ("claims", _LISTS))
    )
    return german - english - function_words("en") - {"hat", "die", "war", "mag", "gut", "an", "am", "tram", "stein"}


_LISTS = ("denying", "contraries", "synonyms", "guards", "both_hold", "before_value", "months", "weekdays", "units")


def _normal(text: str) -> list[str]:
    return [word for word in words(fold(text)) if word not in word_set("repetitions.empty")]


@lru_cache(maxsize=1 << 14)
def _canonical(word: str, language: str) -> str:
    """A word's lemma or stem, or that of the first of its synonyms."""
    key = _stem(word, language)
    return _groups(_SECTIONS[language], "synonyms").get(word) or _groups(_SECTIONS[language], "synonyms").get(key) or key


@lru_cache(maxsize=1 << 14)
def _stem(word: str, language: str) -> str:
    if language == "en":
        return _lemmas().get(word) or _bare(word)
    folded = fold(word)
    for ending in ("ungen", "ung", "ern", "est", "en", "er", "em", "es", "et", "te", "e", "n", "s", "t"):
        if folded.endswith(ending) and len(folded) - len(ending) >= 4:
            return folded[: -len(ending)]
    return folded


def _bare(word: str) -> str:
    """An English word without the endings of plural, tense and adverb."""
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    for ending, least in (("ing", 3), ("ed", 3), ("ly", 4), ("es", 4), ("s", 3)):
        if (
            word.endswith(ending)
            and len(word) - len(ending) >= least
            and not (ending == "s" and word.endswith(("ss", "us", "is")))
        ):
            word = word[: -len(ending)]
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "ls":
        word = word[:-1]
    return word.removesuffix("e") if len(word) > 3 else word


@cache
def _lemmas() -> dict[str, str]:
    forms = (verb.split() for verb in table("verbs.irregular").split("|"))
    return {form: _bare(base) for base, *others in forms for form in (base, *others)}


@cache
def _past_forms() -> frozenset[str]:
    """Irregular past tenses that are no present tense."""
    verbs = [verb.split() for verb in table("verbs.irregular").split("|")]
    present = {verb[0] for verb in verbs}
    return frozenset(verb[1] for verb in verbs if len(verb) > 1) - present - {"had", "got", "left", "was", "were"}


@cache
def _groups(section: str, name: str) -> dict[str, str]:
    """Word, and its stem -> the first word of its group."""
    language = "de" if section == "german" else "en"
    found: dict[str, str] = {}
    for group in table(f"{section}.{name}").split("|"):
        listed = group.split()
        first = _stem(listed[0], language)
        for word in listed:
            found.setdefault(word, first)
            found.setdefault(_stem(word, language), first)
    return found


@cache
def _contraries(language: str) -> dict[str, str]:
    """Word, and its stem -> what it is the contrary of."""
    found: dict[str, str] = {}
    for pair in table(f"{_SECTIONS[language]}.contraries").split():
        one, _, other = pair.partition("=")
        key = _canonical(one, language)
        for form in (other, _stem(other, language)):
            found.setdefault(form, key)
    return found


@cache
def _listed(section: str, name: str) -> frozenset[str]:
    """The words of a list and their stems."""
    language = "de" if section == "german" else "en"
    listed = word_set(f"{section}.{name}")
    return listed | {_stem(word, language) for word in listed}


@cache
def _numbered(section: str, name: str) -> dict[str, str]:
    """Word -> its value, of a text such as "january jan=1 february feb=2"."""
    found, open_words = {}, []
    for item in table(f"{section}.{name}").split():
        word, _, value = item.partition("=")
        open_words.append(word)
        if value:
            found |= dict.fromkeys(open_words, value)
            open_words = []
    return found
