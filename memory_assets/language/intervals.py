"""Times mentioned in a text, as intervals: "yesterday", "past 6 hours", "in March", "since Monday".

A closed grammar decides what counts as a time ("we may march on" and "it took 6 hours" do not); dateparser then parses dates and gives
their precision. Times lie in the past: "March" is the latest March that has begun. Weeks begin on Monday; seasons are the northern
hemisphere's meteorological ones; "an hour ago" extends half an hour to either side, and longer units follow the calendar.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from dateutil.relativedelta import MO, relativedelta, weekday

from memory_assets.language.words import function_words

EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
"""Start of open intervals such as "before March"."""

_DAY = timedelta(days=1)
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
_ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "last": 4}
_QUARTERS = {"q1": 1, "q2": 4, "q3": 7, "q4": 10}
_PARTS_OF_DAY = {"morning": (5, 12), "afternoon": (12, 18), "evening": (18, 24), "night": (18, 30)}
"""Start and end in hours from the day's midnight."""
_NUMBERS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
    "eleven": 11, "twelve": 12, "fifteen": 15, "twenty": 20, "thirty": 30, "couple": 2, "few": 5,
}  # fmt: skip
_MIN_FEW = 2
_UNIT_FORMS = {
    "second": ("s", "sec", "secs", "second", "seconds"),
    "minute": ("m", "min", "mins", "minute", "minutes"),
    "hour": ("h", "hr", "hrs", "hour", "hours"),
    "day": ("d", "day", "days"),
    "week": ("w", "wk", "wks", "week", "weeks"),
    "month": ("mo", "mos", "month", "months"),
    "year": ("y", "yr", "yrs", "year", "years"),
}
_UNITS = {form: unit for unit, forms in _UNIT_FORMS.items() for form in forms}
_HALF_UNITS = {
    "year": "6 months", "month": "2 weeks", "week": "84 hours", "day": "12 hours", "hour": "30 minutes", "minute": "30 seconds",
}  # fmt: skip
_EXACT = {"second": timedelta(seconds=1), "minute": timedelta(minutes=1), "hour": timedelta(hours=1)}
"""Units of fixed length; longer ones follow the calendar."""
_CALENDAR = {
    "day": relativedelta(days=1),
    "week": relativedelta(weeks=1),
    "month": relativedelta(months=1),
    "quarter": relativedelta(months=3),
    "year": relativedelta(years=1),
}
_BEGINNINGS = {
    "day": relativedelta(),
    "week": relativedelta(weekday=MO(-1)),
    "month": relativedelta(day=1),
    "year": relativedelta(month=1, day=1),
}
"""Offset from a day to the first day of its week, month or year."""

_COUNT = rf"(?:\d{{1,3}}|(?:a\s+)?couple\s+of|(?:a\s+)?few|{'|'.join(_NUMBERS)})"
_UNIT = (
    rf"(?:{'|'.join(sorted((form for form in _UNITS if len(form) > 2 or form in {'hr', 'yr', 'wk'}), key=len, reverse=True))})\b"
)
_ANY_UNIT = "|".join(sorted(_UNITS, key=len, reverse=True))
_SHORT_UNIT = "|".join(sorted((form for form, unit in _UNITS.items() if unit in {*_EXACT, "day"}), key=len, reverse=True))
_ABBREVIATED = rf"(?:\d{{1,3}}\s?(?:{_ANY_UNIT})|\d{{4}}\s?(?:{_SHORT_UNIT}))(?![a-z])"
_HALF = rf"half\s+(?:an?\s+)?(?:{'|'.join(_HALF_UNITS)})\b"
_AMOUNT = rf"(?:{_ABBREVIATED}|{_COUNT}\s+{_UNIT}|(?<!\band a ){_HALF})"
_LENGTH = rf"(?:{_AMOUNT}(?:(?:\s*,)?\s*(?:and\s+)?{_AMOUNT})*)"
"""A duration: "two weeks", "90 seconds", "2 hrs", "1h30m", "7d"."""
_MEASURE = r"(?:[€$£°]|(?:euro?|usd|dollar|bit|byte|rpm|px|ft|mah|[ckm]?m|[kmgt]i?b|[km]?g|m?l|[km]?wh?|[kmg]?hz)\b)"
_YEAR = rf"(?:(?:19[789]|20\d)\d\b(?!\s*{_MEASURE})(?![%:.]\d|-\d))"
_NO_PLURAL = "|".join(sorted(word for word in function_words("en") if word.isalpha() and word.endswith("s")))
_YEAR_ALONE = rf"(?:{_YEAR}(?!\s+(?!(?:{_NO_PLURAL})\b)(?-i:[a-z])\w*s\b))"
"""No count of things, as in "2000 tests"; but "2024 as" and "2024 Thomas" begin with a year."""
_DAY_NUMBER = r"(?:[12]\d|3[01]|0?[1-9])(?:st|nd|rd|th)?\b"
_DAY_OF_MONTH = rf"(?:{_DAY_NUMBER}(?![:%/-]|\.\d))"
_LONG = "january|february|april|june|july|august|september|october|november|december"
_SHORT = "jan|feb|mar|apr|jun|jul|aug|sept|sep|oct|nov|dec"
_ANY_MONTH = rf"(?:(?:{_LONG}|march|may|{_SHORT})\b\.?)"
_MONTH = rf"(?:(?:{_LONG}|(?-i:March|May|{'|'.join(name.title() for name in _SHORT.split('|'))}))\b\.?)"
"""Month names; a capital is required if the name is also another word or part of one."""
_NO_PERSON = r"(?!\s+(?:jan|april|may|june)\b(?!\.?,?\s+\d))"
"""Before names of months that are first names as well: "from May" may be a person's, "from May 3" is not."""
_WEEKDAY = rf"(?:{'|'.join(_WEEKDAYS)})\b"
_SEASON = r"(?:(?-i:spring|fall)|summer|autumn|winter)\b"

_DATE = (
    rf"(?:(?:{_WEEKDAY},?\s+(?:the\s+)?)?"
    r"(?:\d{4}-\d\d-\d\d(?!\d)|\d{4}-(?:0[1-9]|1[0-2])(?![\d-])|\d{1,2}\.\d{1,2}\.\d{4}(?![\d.])"
    rf"|{_MONTH}\s+{_DAY_OF_MONTH}(?:,?\s+{_YEAR})?|{_DAY_OF_MONTH}\s+(?:of\s+)?{_MONTH}(?:,?\s+{_YEAR})?"
    rf"|{_ANY_MONTH},?\s+{_YEAR}|q[1-4](?:\s+|\s*/\s*){_YEAR}))"
)
_DAY_WORD = (
    r"(?:(?:the\s+)?day\s+before\s+yesterday|(?:yesterday|this|last)\s+(?:morning|afternoon|evening|night)|yesterday|today"
    r"|tonight)\b"
)
_RELATIVE = (
    rf"(?:the\s+)?(?:(?:last|previous|this|current)\s+(?:week(?:end)?\b|month\b|quarter\b|year\b|{_SEASON}|{_WEEKDAY}|{_MONTH})"
    rf"|(?:last|previous)\s+{_ANY_MONTH})(?!\s+of\b)"
)
_DAY_OF_WEEK = rf"{_WEEKDAY},?\s+(?:of\s+)?(?:last|previous|this|current)\s+week\b"
_QUARTER_OF = rf"(?:the\s+)?(?:{'|'.join(_ORDINALS)})\s+quarter\s+of\s+(?:{_YEAR}|(?:last|this)\s+year\b)"
_AGO = rf"(?<!\d,){_LENGTH}\s+ago\b"
_STRONG = (
    rf"(?:{_DATE}|{_DAY_OF_WEEK}|{_QUARTER_OF}|{_AGO}|{_DAY_WORD}|{_RELATIVE}"
    rf"|(?:the\s+)?(?:{'|'.join(_SEASONS)})\s+(?:of\s+)?{_YEAR})"
)
"""A time without further context."""
_PERIOD = rf"(?:{_STRONG}|(?:the\s+)?{_SEASON}|{_MONTH}|{_WEEKDAY}|q[1-4]\b|{_YEAR_ALONE})"
"""A time after a word such as "since"."""
_PART = (
    r"(?:(?P<part>early|mid|late"
    rf"|(?:the\s+)?(?:start|beginning|middle|end|(?:first|last)\s+(?:weekend|{'|'.join([*_BEGINNINGS, *_WEEKDAYS])}))\s+of)"
    r"[\s-]+(?:in\s+)?)"
)

_DAYS = (
    rf"(?:the\s+)?(?P<first_day>{_DAY_NUMBER})(?:\s*[-–]\s*|\s+(?:and|to|until|till|through)\s+)(?:the\s+)?"
    rf"(?P<last_day>{_DAY_OF_MONTH})"
)
_BEFORE_DAYS = r"(?:between\s+|(?:(?:from|in|on|during|of|for)\s+)?(?!(?:[a-z]+\.?\s+)?(?:the\s+)?\d+[a-z]*\s+and\b))"
"""Before days of one month; without "between", "3 and 7" is no range."""

_PATTERNS = tuple(
    re.compile(rf"(?<![\w@#/.-]){pattern}(?![\w@]|-\w|'(?!s\b))", re.IGNORECASE)
    for pattern in (
        rf"(?:between|from)\s+(?P<first>{_PERIOD})\s+(?:and|to|until|till|through)\s+(?P<second>{_PERIOD}|now\b)",
        rf"{_BEFORE_DAYS}{_DAYS}\s+(?:of\s+)?(?P<month>{_MONTH})(?:,?\s+(?P<year>{_YEAR}))?",
        rf"{_BEFORE_DAYS}(?P<month>{_MONTH})\s+{_DAYS}(?:,?\s+(?P<year>{_YEAR}))?",
        rf"(?P<bound>since|until|till|up\s+to|(?:before|prior\s+to|after){_NO_PERSON})\s+{_PART}?(?P<period>{_PERIOD}|{_ANY_MONTH})",
        rf"(?:(?:in|within|during|over|for)\s+)?(?:the\s+)?(?:(?:last|past|previous)\s+(?P<length>{_LENGTH})"
        rf"|(?:past|last(?=\s+(?:minute|hour|day)\b))\s+(?P<unit>{_UNIT}))(?!\s+(?:ago|of)\b)",
        rf"(?:(?:in|on|during|from|of|for|around)\s+)?{_PART}?(?P<period>{_STRONG})",
        rf"(?:in|during|throughout)\s+{_PART}?(?P<period>{_ANY_MONTH}|q[1-4]\b|(?:the\s+)?{_SEASON}|{_YEAR_ALONE})",
        rf"(?:around|(?:from|of|for){_NO_PERSON})\s+{_PART}?(?P<period>{_MONTH}|q[1-4]\b|{_YEAR_ALONE})",
        rf"{_PART}(?P<period>{_MONTH}|{_YEAR_ALONE})",
        rf"(?:on|from)\s+(?P<period>{_WEEKDAY})",
        r"(?<!\bnext )(?<!\bby )(?P<period>(?-i:Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday))(?=\s*(?:[.?!,;]|$))",
    )
)
_HALVES = re.compile(_HALF, re.IGNORECASE)
_ONLY_A_LENGTH = re.compile(rf"\s*{_LENGTH}\s*", re.IGNORECASE)
_AMOUNTS = re.compile(rf"(?P<count>\d{{1,4}}(?=\s*[a-z])|{_COUNT}(?=\s))\s*(?P<unit>[a-z]+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Interval:
    """A half-open interval `start <= t < end`, both aware and in UTC, and its place in the text."""

    start: datetime
    end: datetime
    span: tuple[int, int]
    """Start and end (exclusive) of its words in the text, including a leading preposition."""


@dataclass(frozen=True, slots=True)
class _Clock:
    """The reference time of a text, and its naive wall clock in `zone`."""

    now: datetime
    zone: tzinfo

    @property
    def wall(self) -> datetime:
        return self.now.astimezone(self.zone).replace(tzinfo=None)

    @property
    def today(self) -> datetime:
        return self.wall.replace(hour=0, minute=0, second=0, microsecond=0)

    def utc(self, wall: datetime) -> datetime:
        return wall.replace(tzinfo=self.zone).astimezone(UTC)


def find_interval(text: str, now: datetime, zone: tzinfo) -> Interval | None:
    """Return the first time in `text`, relative to `now` in `zone`; None if there is none or it is impossible ("February 30")."""
    clock = _Clock(now, zone)
    if _ONLY_A_LENGTH.fullmatch(text):
        return Interval(_back(clock, text), now.astimezone(UTC), (0, len(text)))
    matches = [match for pattern in _PATTERNS if (match := pattern.search(text))]
    for match in sorted(matches, key=lambda match: (match.start(), -match.end())):
        bounds = _bounds(match.groupdict(), clock)
        if bounds and bounds[0] < bounds[1]:
            return Interval(*bounds, match.span())
    return None


def _bounds(groups: dict[str, str | None], clock: _Clock) -> tuple[datetime, datetime] | None:
    now = clock.now.astimezone(UTC)
    if length := groups.get("length"):
        return _back(clock, length), now
    if unit := groups.get("unit"):
        return _back(clock, f"one {unit}"), now
    if (first := groups.get("first")) and (second := groups.get("second")):
        ends = _period(second, clock)
        begins = ends and _period(first, _Clock(ends[0], clock.zone))  # the latest Friday before that Monday
        return (begins[0], ends[1]) if begins and ends else None
    if first_day := groups.get("first_day"):
        last_day = groups["last_day"] or ""
        last = _period(f"{last_day} {groups['month']} {groups['year'] or ''}", clock)
        days = _number(last_day) - _number(first_day)
        return (clock.utc(last[0].astimezone(clock.zone).replace(tzinfo=None) - days * _DAY), last[1]) if last else None
    period = _period(groups["period"] or "", clock)
    if period is None:
        return None
    start, end = _part(period, groups.get("part"))
    match (groups.get("bound") or "").lower().split():
        case ["since"]:
            return start, now
        case ["after"]:
            return end, now
        case []:
            return start, end
        case _:
            return EARLIEST, end if "end" in (groups.get("part") or "").lower().split() else start


def _part(period: tuple[datetime, datetime], part: str | None) -> tuple[datetime, datetime]:
    start, end = period
    third = (end - start) / 3
    match (part or "").lower().split():
        case []:
            return period
        case ["early"] | [*_, "start" | "beginning", "of"] | [*_, "first", _, "of"]:
            return start, start + third
        case ["mid"] | [*_, "middle", "of"]:
            return start + third, end - third
        case _:
            return end - third, end


def _number(day: str) -> int:
    return int(day.lower().rstrip("stndrh"))


def _amounts(length: str) -> list[tuple[int, int, str]]:
    found: list[tuple[int, int, str]] = []
    length = _HALVES.sub(lambda half: _HALF_UNITS[half[0].lower().split()[-1]], length)
    for amount in _AMOUNTS.finditer(length):
        count, unit = amount["count"].lower(), _UNITS.get(amount["unit"].lower())
        if unit:
            word = next(part for part in count.split() if part != "a" or count == "a")
            number = int(word) if word.isdigit() else _NUMBERS[word]
            found.append((_MIN_FEW if word == "few" else number, number, unit))
    return found


def _back(clock: _Clock, length: str) -> datetime:
    """Return the time `length` before now: exact up to hours, on the wall clock for longer units."""
    exact, calendar = timedelta(0), relativedelta()
    for _, number, unit in _amounts(length):
        if unit in _EXACT:
            exact += number * _EXACT[unit]
        else:
            calendar += number * _CALENDAR[unit]
    try:
        return (clock.utc(clock.wall - calendar) if calendar else clock.now.astimezone(UTC)) - exact
    except (ValueError, OverflowError):  # before the year 1
        return EARLIEST


def _period(expression: str, clock: _Clock) -> tuple[datetime, datetime] | None:
    """Return the interval in UTC of one expression without its preposition."""
    words = expression.lower().replace("the ", "", 1).replace("/", " ").split()
    if words[-1:] == ["ago"] and (unit := _amounts(expression)[-1][2]) in _EXACT:
        middle, half = _back(clock, expression), _EXACT[unit] / 2
        return middle - half, middle + half
    walls = _wall_period(words, clock)
    return (clock.utc(walls[0]), clock.utc(walls[1])) if walls else None


def _wall_period(words: list[str], clock: _Clock) -> tuple[datetime, datetime] | None:
    """Return the interval of a calendar expression, on the wall clock."""
    today = clock.today
    match words:
        case ["today" | "now"]:
            return today, today + _DAY
        case ["yesterday"]:
            return today - _DAY, today
        case ["day", "before", "yesterday"]:
            return today - 2 * _DAY, today - _DAY
        case ["tonight"]:
            return _part_of_day(today, "night")
        case [("this" | "yesterday" | "last") as day, part] if part in _PARTS_OF_DAY:
            return _part_of_day(today if day == "this" else today - _DAY, part)
        case [*_, "ago"]:
            return _long_ago(" ".join(words), clock)
        case [name, *_, which, "week"] if name.rstrip(",") in _WEEKDAYS:
            week, _ = _named("week", clock, ended=which in {"last", "previous"}) or (today, today)
            day = week + _WEEKDAYS.index(name.rstrip(",")) * _DAY
            return day, day + _DAY
        case [name, _, *_] if name.rstrip(",") in _WEEKDAYS:
            return _dated(" ".join(words[1:]), clock)
        case [ordinal, "quarter", "of", *year] if ordinal in _ORDINALS:
            begins = (_wall_period(year, clock) or (today, today))[0] + (_ORDINALS[ordinal] - 1) * _CALENDAR["quarter"]
            return begins, begins + _CALENDAR["quarter"]
        case [("last" | "previous" | "this" | "current") as which, name]:
            return _named(name, clock, ended=which in {"last", "previous"})
        case [name] if name in _SEASONS or name in _WEEKDAYS or name in _QUARTERS:
            return _named(name, clock, ended=False)
        case [season, *_, year] if season in _SEASONS:
            start = today.replace(year=int(year), month=_SEASONS[season], day=1)
            return start, start + _CALENDAR["quarter"]
        case _:
            return _dated(" ".join(words), clock)


def _part_of_day(day: datetime, part: str) -> tuple[datetime, datetime]:
    first, last = _PARTS_OF_DAY[part]
    return day + timedelta(hours=first), day + timedelta(hours=last)


def _long_ago(expression: str, clock: _Clock) -> tuple[datetime, datetime]:
    """Return the day, week, month or year so long ago; the day if the length has several units."""
    (fewest, most, unit), *more = _amounts(expression)
    if more:
        day = _back(clock, expression).astimezone(clock.zone).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
        return day, day + _DAY
    current = clock.today + _BEGINNINGS[unit]
    return current - most * _CALENDAR[unit], current - (fewest - 1) * _CALENDAR[unit]


def _named(name: str, clock: _Clock, *, ended: bool) -> tuple[datetime, datetime] | None:
    """Return the latest week, month, season, weekday etc. of that name that has begun or, if `ended`, that is over."""
    today = clock.today
    if name in _WEEKDAYS:
        start = today + relativedelta(days=-1 if ended else 0, weekday=weekday(_WEEKDAYS.index(name), -1))
        return start, start + _DAY
    if name == "weekend":
        start, end = _named("week", clock, ended=ended) or (today, today)
        return start + 5 * _DAY, end
    if name in _CALENDAR:
        length = _CALENDAR[name]
        start = today.replace(month=(today.month - 1) // 3 * 3 + 1, day=1) if name == "quarter" else today + _BEGINNINGS[name]
        return (start - length, start) if ended else (start, start + length)
    if first_month := _SEASONS.get(name) or _QUARTERS.get(name):
        start = today.replace(month=first_month, day=1)
        period = start, start + _CALENDAR["quarter"]
    else:
        period = _dated(name, clock)
    while period and (period[1] if ended else period[0]) > (today if ended else clock.wall):
        period = period[0] - _CALENDAR["year"], period[1] - _CALENDAR["year"]
    return period


def _dated(expression: str, clock: _Clock) -> tuple[datetime, datetime] | None:
    """Parse a date, month or year with dateparser; without a year, the latest that has begun."""
    from dateparser.date import DateDataParser

    parser = DateDataParser(
        languages=["en"],
        settings={
            "RELATIVE_BASE": clock.wall,
            "PREFER_DATES_FROM": "past",
            "PREFER_DAY_OF_MONTH": "first",
            "PREFER_MONTH_OF_YEAR": "first",
            "DATE_ORDER": "DMY",
            "PREFER_LOCALE_DATE_ORDER": False,
        },
    )
    data = parser.get_date_data(expression)
    if data.date_obj is None:
        return None
    start = data.date_obj.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    return start, start + _CALENDAR.get(data.period or "day", _CALENDAR["day"])
