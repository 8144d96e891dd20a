"""Parsing of short texts into words, names, numbers, times and denials, and the differences between two texts.

The relation of two texts is judged elsewhere (`memory_assets.language.judge`, `memory_assets.language.changes`).
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import SequenceMatcher
from functools import cache, lru_cache
from itertools import pairwise

from memory_assets.language.english import pattern, table, word_set
from memory_assets.language.words import fold, function_words, sentences, words

SURE = 0.85
"""Probability of a change from which only one of two statements holds."""
_MAX_WORDS = 30
_MAX_SENTENCES = 12
_SUBJECT_WORDS = 3
_NOTHING = "(nothing)"
_MAX_SHOWN = 60
"""Characters shown of each side of a difference."""
_WORD = re.compile(r"\d+(?:[.,:]\d+)*|[^\W\d_]+(?:['’-][^\W\d_]+)*|[€$£%]")
_CLOCK = re.compile(r"\b(\d{1,2})(?:[:.](\d\d))?\s?(a\.?m\b\.?|p\.?m\b\.?|uhr\b|o['’]clock\b)(?:\s(\d\d)\b)?", re.IGNORECASE)
_BARE_CLOCK = re.compile(r"\b(\d{1,2}):(\d\d)\b")
_HALF = re.compile(r"\b(half past|quarter past|quarter to|halb|viertel nach|viertel vor) (\w+)", re.IGNORECASE)
_MINUTES = {"half past": 30, "quarter past": 15, "viertel nach": 15, "quarter to": -15, "viertel vor": -15, "halb": -30}
_MULTIPLES = {"100", "1000", "1000000"}
_MAX_DIGITS = 3
"""Digits of a number that a multiple may follow ("three hundred"); Python refuses to parse thousands of digits."""
_ISO_DATE = re.compile(r"\b(\d{4})-(\d\d)-(\d\d)\b")
_DOTTED_DATE = re.compile(r"\b(\d{1,2})\.\s?(\d{1,2})\.(?:\s?(\d{4}))?(?!\d)")
_ORDINAL = re.compile(r"(?<=\d)(?:st|nd|rd|th)\b", re.IGNORECASE)
_LAST_DAY = 31
_DAY = timedelta(days=1)
"""It may have begun where the text was written, but not yet in UTC."""
_HALF_YEAR = timedelta(days=183)
_GERMAN_EVENT = {"wurde", "wurden", "hatte", "hatten"}
_GERMAN_PERFECT = re.compile(r"\b(?:hat|haben|habe|ist|sind|bin)\b.*\b\w*ge\w{2,}(?:t|en)[.!]?$", re.IGNORECASE)
_NO_PAST = {"is", "are", "be", "been", "am", "a", "an", "the", "to"}
_MIN_PAST_LETTERS = 5
_SENTENCE_START = '.!?:;("“„-*#\n'


@dataclass(frozen=True, slots=True)
class Statement:
    """A parsed text, for comparison."""

    words: tuple[str, ...]
    """Folded words, in order."""
    shown: tuple[str, ...]
    content: tuple[str, ...]
    names: frozenset[str]
    values: frozenset[str]
    denials: int


@lru_cache(maxsize=1 << 14)
def read_statement(text: str) -> Statement:
    """Parse a text of one statement; of a longer text, its first thirty words."""
    shown, names = [], set()
    for found in _WORD.finditer(text):
        shown.append(found[0].removesuffix("'s").removesuffix("’s"))
        before = text[: found.start()].rstrip(" ")
        if found[0][0].isupper() and before and before[-1] not in _SENTENCE_START:
            names.add(fold(shown[-1]))
        if len(shown) == _MAX_WORDS:
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


def dated(text: str, written: datetime) -> datetime | None:
    """Return the day since which a statement says it holds: "since 10 August", "(2026-08-10)"; None if it names none."""
    found = pattern("replacements.dated").search(text)
    return _day(found, written, is_past=bool(found and found["past"]))


def happened(text: str, written: datetime) -> datetime:
    """Return the day of a statement's event ("On 14 June the database moved"), or `written` if it names none."""
    found = pattern("replacements.happened").search(text)
    return dated(text, written) or _day(found, written, is_past=is_event(text)) or written


def _day(found: re.Match[str] | None, written: datetime, *, is_past: bool) -> datetime | None:
    """Return the matched day unless it is after `written`.

    A day without a year is the last such day; if it need not be past, also a coming one within half a year.
    """
    values = read_statement(_ORDINAL.sub("", found["date"])).values if found else frozenset()
    months = [int(value.partition(" ")[2]) for value in values if value.startswith("month ")]
    numbers = sorted(int(value) for value in values if value.isdecimal())
    years, days = [each for each in numbers if each > _LAST_DAY], [each for each in numbers if each <= _LAST_DAY]
    try:
        day = datetime(years[0] if years else written.year, months[0], days[0] if days else 1, tzinfo=UTC)
        is_near = day <= written + (_DAY if is_past else _HALF_YEAR)
        day = day if years or is_near else day.replace(year=day.year - 1)
    except (IndexError, ValueError):
        return None
    return day if day <= written else None


def _values(text: str) -> set[str]:
    """Return the numbers, times of day, months and weekdays in a text, normalised."""
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
        minutes = int(hour) * 60 + _MINUTES[found[1].lower()] if hour.isdecimal() and len(hour) <= _MAX_DIGITS else -1
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
        number = int(value) if value.isdecimal() and len(value) <= _MAX_DIGITS else 0
    return values


@cache
def _numbers() -> dict[str, str]:
    """Return word -> value, parsed from lists such as "january jan=1"."""
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
    """Return whether a folded word is a number, month or weekday."""
    return word[0].isdigit() or word in _numbers()


def _denies(word: str) -> bool:
    return word in word_set("statements.denying") or word.endswith(("n't", "n’t"))


def other_values(one: Statement, other: Statement) -> set[str]:
    """Return the values in `one` that `other` lacks; "at ten" matches "10:00" and "22:00"."""
    return {value for value in one.values - other.values if not any(_is_hour(value, each) for each in other.values)}


def exchange_values(old: str, new: str) -> bool:
    """Return whether each of two texts has a number, date or time that the other lacks."""
    one, other = read_statement(old), read_statement(new)
    return bool(other_values(one, other) and other_values(other, one))


def _is_hour(one: str, other: str) -> bool:
    """Return whether two values may be the same time of day: "ten" and "22:00", "7:30" and "19:30"."""
    times = [value.partition(":") for value in (one, other)]
    if not any(colon for _, colon, _ in times) or not all(hour.isdecimal() and len(hour) <= _MAX_DIGITS for hour, _, _ in times):
        return False
    (hour, _, minutes), (other_hour, _, other_minutes) = times
    return int(hour) % 12 == int(other_hour) % 12 and (minutes or "00") == (other_minutes or "00")


def find_replaced(old: str, new: str) -> str:
    """Return the replacement that a newer text reports of a thing stated in the older: "MongoDB -> PostgreSQL 17"; empty if none.

    "Atlas leaves MongoDB for PostgreSQL" replaces "Atlas stores shipments in MongoDB", but not "MongoDB was down".
    """
    opening = next(iter(sentences(old)), "")
    stated = read_statement(opening)
    subject = set(stated.content[:_SUBJECT_WORDS])
    for sentence in sentences(new)[:_MAX_SENTENCES]:
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


def difference(old: str, new: str) -> str:
    """Describe the difference for a person: "840 euros -> 910 euros"; empty if the words are the same."""
    one, other = read_statement(old), read_statement(new)
    matcher = SequenceMatcher(None, one.words, other.words, autojunk=False)
    parts = [
        (" ".join(one.shown[start:end]), " ".join(other.shown[begin:until]))
        for kind, start, end, begin, until in matcher.get_opcodes()
        if kind != "equal"
    ]
    if not parts:
        return ""
    was, now = (" … ".join(filter(None, side)) for side in zip(*parts, strict=True))
    return " -> ".join(
        part if len(part) <= _MAX_SHOWN else f"{part[:_MAX_SHOWN]}…" for part in (was or _NOTHING, now or _NOTHING)
    )


def is_event(text: str) -> bool:
    """Return whether a text is in the past tense: "was repaired", "bought", not "is repaired"."""
    found = words(text)
    if not _GERMAN_EVENT.isdisjoint(found) or _GERMAN_PERFECT.search(text):
        return True
    return any(
        (word in _irregular_pasts() or (word.endswith("ed") and len(word) >= _MIN_PAST_LETTERS)) and before not in _NO_PAST
        for before, word in zip(["", *found], found, strict=False)
    )


@cache
def _irregular_pasts() -> frozenset[str]:
    verbs = [verb.split() for verb in table("verbs.irregular").split("|")]
    return (
        frozenset(verb[1] for verb in verbs if len(verb) > 1)
        - {verb[0] for verb in verbs}
        - {"had", "got", "left", "was", "were"}
    )
