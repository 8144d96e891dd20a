from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_assets.language.intervals import find_interval

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 21, 21, 30, tzinfo=UTC)
"""A Saturday, 22:30 in Berlin."""


def wall(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN)


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("today", "2026-11-21", "2026-11-22"),
        ("yesterday", "2026-11-20", "2026-11-21"),
        ("the day before yesterday", "2026-11-19", "2026-11-20"),
        ("this morning", "2026-11-21T05:00", "2026-11-21T12:00"),
        ("yesterday evening", "2026-11-20T18:00", "2026-11-21"),
        ("last night", "2026-11-20T18:00", "2026-11-21T06:00"),
        ("last week", "2026-11-09", "2026-11-16"),
        ("this week", "2026-11-16", "2026-11-23"),
        ("last weekend", "2026-11-14", "2026-11-16"),
        ("last month", "2026-10-01", "2026-11-01"),
        ("last quarter", "2026-07-01", "2026-10-01"),
        ("last year", "2025-01-01", "2026-01-01"),
        ("6 hours", "2026-11-21T16:30", "2026-11-21T22:30"),
        ("past 6 hours", "2026-11-21T16:30", "2026-11-21T22:30"),
        ("in the last 1h30m", "2026-11-21T21:00", "2026-11-21T22:30"),
        ("past 2 hrs", "2026-11-21T20:30", "2026-11-21T22:30"),
        ("last 7d", "2026-11-14T22:30", "2026-11-21T22:30"),
        ("5 mins ago", "2026-11-21T22:24:30", "2026-11-21T22:25:30"),
        ("1 hour and 30 minutes ago", "2026-11-21T20:59:30", "2026-11-21T21:00:30"),
        ("2d ago", "2026-11-19", "2026-11-20"),
        ("1 week 2 days ago", "2026-11-12", "2026-11-13"),
        ("in the last two weeks", "2026-11-07T22:30", "2026-11-21T22:30"),
        ("past week", "2026-11-14T22:30", "2026-11-21T22:30"),
        ("the last hour", "2026-11-21T21:30", "2026-11-21T22:30"),
        ("two days ago", "2026-11-19", "2026-11-20"),
        ("three weeks ago", "2026-10-26", "2026-11-02"),
        ("2 months ago", "2026-09-01", "2026-10-01"),
        ("a year ago", "2025-01-01", "2026-01-01"),
        ("a few days ago", "2026-11-16", "2026-11-20"),
        ("an hour ago", "2026-11-21T21:00", "2026-11-21T22:00"),
        ("in March", "2026-03-01", "2026-04-01"),
        ("in may", "2026-05-01", "2026-06-01"),
        ("in December", "2025-12-01", "2026-01-01"),
        ("in November", "2026-11-01", "2026-12-01"),
        ("last November", "2025-11-01", "2025-12-01"),
        ("March 2026", "2026-03-01", "2026-04-01"),
        ("may 2025", "2025-05-01", "2025-06-01"),
        ("2026-03-14", "2026-03-14", "2026-03-15"),
        ("2026-03", "2026-03-01", "2026-04-01"),
        ("14.03.2026", "2026-03-14", "2026-03-15"),
        ("March 14", "2026-03-14", "2026-03-15"),
        ("14 March", "2026-03-14", "2026-03-15"),
        ("on March 14th, 2025", "2025-03-14", "2025-03-15"),
        ("on Dec 24", "2025-12-24", "2025-12-25"),
        ("in 2025", "2025-01-01", "2026-01-01"),
        ("in Q3", "2026-07-01", "2026-10-01"),
        ("Q4 2025", "2025-10-01", "2026-01-01"),
        ("last spring", "2026-03-01", "2026-06-01"),
        ("last autumn", "2025-09-01", "2025-12-01"),
        ("in the summer", "2026-06-01", "2026-09-01"),
        ("winter 2024", "2024-12-01", "2025-03-01"),
        ("on Monday", "2026-11-16", "2026-11-17"),
        ("last Saturday", "2026-11-14", "2026-11-15"),
        ("since Monday", "2026-11-16", "2026-11-21T22:30"),
        ("since last week", "2026-11-09", "2026-11-21T22:30"),
        ("after March 14", "2026-03-15", "2026-11-21T22:30"),
        ("before March 2025", "1970-01-01T01:00", "2025-03-01"),
        ("between March and May", "2026-03-01", "2026-06-01"),
        ("from Friday to Monday", "2026-11-13", "2026-11-17"),
        ("between November and February", "2025-11-01", "2026-03-01"),
        ("from Monday to Wednesday", "2026-11-16", "2026-11-19"),
        ("from May 2025", "2025-05-01", "2025-06-01"),
        ("in the winter of 2024", "2024-12-01", "2025-03-01"),
        ("in Q4/2025", "2025-10-01", "2026-01-01"),
        ("between January 2025 and now", "2025-01-01", "2026-11-22"),
        ("until the end of March", "1970-01-01T01:00", "2026-04-01"),
        ("in the last week of September", "2026-09-21", "2026-10-01"),
        ("on the first Monday of June", "2026-06-01", "2026-06-11"),
        ("on Monday, 18 November 2024", "2024-11-18", "2024-11-19"),
        ("on Monday, November 16", "2026-11-16", "2026-11-17"),
        ("on Friday 14 March 2025", "2025-03-14", "2025-03-15"),
        ("on Friday the 14th of March, 2025", "2025-03-14", "2025-03-15"),
        ("Friday, 2025-03-14", "2025-03-14", "2025-03-15"),
        ("since Friday, 14 March 2025", "2025-03-14", "2026-11-21T22:30"),
        ("from Monday, 10 March 2025 to Friday, 14 March 2025", "2025-03-10", "2025-03-15"),
        ("Thursday last week", "2026-11-12", "2026-11-13"),
        ("on Monday of last week", "2026-11-09", "2026-11-10"),
        ("on Tuesday this week", "2026-11-17", "2026-11-18"),
        ("on 18 November 2024 as Mira was ill", "2024-11-18", "2024-11-19"),
        ("on 12 May 2023 when Thomas moved", "2023-05-12", "2023-05-13"),
        ("on 12 May 2023 Thomas moved", "2023-05-12", "2023-05-13"),
        ("in Q3 2025 sales dropped", "2025-07-01", "2025-10-01"),
        ("in spring 2025 sales dropped", "2025-03-01", "2025-06-01"),
        ("in 2024 Thomas moved", "2024-01-01", "2025-01-01"),
        ("in 2024 as Mira was ill", "2024-01-01", "2025-01-01"),
        ("half a year ago", "2026-05-01", "2026-06-01"),
        ("half a month ago", "2026-11-02", "2026-11-09"),
        ("half an hour ago", "2026-11-21T21:59:30", "2026-11-21T22:00:30"),
        ("in the last half year", "2026-05-21T22:30", "2026-11-21T22:30"),
        ("in the first quarter of 2025", "2025-01-01", "2025-04-01"),
        ("in the fourth quarter of 2025", "2025-10-01", "2026-01-01"),
        ("in the last quarter of last year", "2025-10-01", "2026-01-01"),
        ("3-5 April 2025", "2025-04-03", "2025-04-06"),
        ("on 3–5 April", "2026-04-03", "2026-04-06"),
        ("between 3 and 7 April", "2026-04-03", "2026-04-08"),
        ("between the 3rd and the 7th of April 2025", "2025-04-03", "2025-04-08"),
        ("from March 10 to 12", "2026-03-10", "2026-03-13"),
        ("on April 3RD-5th, 2025", "2025-04-03", "2025-04-06"),
        ("from 7 to 3 April 2025", "2025-04-03", "2025-04-04"),
    ],
)
def test_a_time_expression_is_an_interval_on_the_persons_calendar(text: str, start: str, end: str):
    found = find_interval(f"what did we decide {text}", NOW, BERLIN) if text != "6 hours" else find_interval(text, NOW, BERLIN)
    assert found is not None
    assert (found.start, found.end) == (wall(start), wall(end))


@pytest.mark.parametrize(
    "text",
    [
        "we may march on",
        "it took 6 hours",
        "the second attempt failed in one second",
        "march to the door",
        "this may be wrong",
        "Spring Boot in Java",
        "fall back to sqlite",
        "the fall of mongo",
        "sat down in the sun",
        "may 5 people join",
        "what is the shoe size of Jan",
        "who came before April left",
        "what to buy for 2000 €",
        "a key of 2048 bit",
        "the service after 2000 km",
        "what is planned for next Friday?",
        "14 may fail",
        "in 2000 tests",
        "version 2026.3",
        "notes-2026-03-14.md",
        "issue 2026",
        "Friday deploys are forbidden",
        "last version",
        "past experience",
        "since we left",
        "after the meeting",
        "before lunch",
        "February 30",
        "tomorrow",
        "next week",
        "1,5 hours ago",
        "one and a half years ago",
        "",
        "why did we leave mongodb",
    ],
)
def test_plain_text_names_no_time(text: str):
    assert find_interval(text, NOW, BERLIN) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("what broke since last week?", "since last week"),
        ("decisions from March about duckdb", "from March"),
        ("yesterday's bug", "yesterday"),
        ("lock errors within the past two weeks", "within the past two weeks"),
        ("alice, on 2026-03-14, said", "on 2026-03-14"),
    ],
)
def test_the_words_that_were_understood_are_named(text: str, words: str):
    found = find_interval(text, NOW, BERLIN)
    assert found is not None
    assert text[slice(*found.span)] == words


def test_the_first_time_in_a_text_counts():
    found = find_interval("compare yesterday with last month", NOW, BERLIN)
    assert found is not None
    assert found.end - found.start == timedelta(days=1)


def test_parts_of_a_period_are_its_thirds():
    early, late = (find_interval(f"{part} March", NOW, BERLIN) for part in ("early", "late"))
    assert early is not None
    assert late is not None
    assert early.start == wall("2026-03-01")
    assert early.end < wall("2026-03-12")
    assert late.end == wall("2026-04-01")
    assert late.start > wall("2026-03-20")


@pytest.mark.parametrize(
    ("now", "hours"),
    [(datetime(2026, 3, 30, 10, tzinfo=UTC), 23), (datetime(2026, 10, 26, 10, tzinfo=UTC), 25), (NOW, 24)],
)
def test_yesterday_is_as_long_as_that_day_was(now: datetime, hours: int):
    found = find_interval("yesterday", now, BERLIN)
    assert found is not None
    assert found.end - found.start == timedelta(hours=hours)


def test_past_hours_are_real_hours_when_the_clocks_change():
    now = datetime(2026, 10, 25, 3, 0, tzinfo=UTC)
    found = find_interval("past 6 hours", now, BERLIN)
    assert found is not None
    assert found.end - found.start == timedelta(hours=6)


def test_a_day_that_begins_without_midnight_begins_at_its_first_moment():
    found = find_interval("2026-09-06", NOW, ZoneInfo("America/Santiago"))
    assert found is not None
    assert found.start == datetime(2026, 9, 6, 4, tzinfo=UTC)
    assert found.end - found.start == timedelta(hours=23)


def test_the_persons_zone_decides_which_day_yesterday_is():
    tokyo = find_interval("yesterday", NOW, ZoneInfo("Asia/Tokyo"))
    berlin = find_interval("yesterday", NOW, BERLIN)
    assert tokyo is not None
    assert berlin is not None
    assert tokyo.start - berlin.start == timedelta(hours=16)


EXPRESSIONS = st.sampled_from(
    [
        "yesterday",
        "last week",
        "past 6 hours",
        "in March",
        "two days ago",
        "since Monday",
        "last spring",
        "Feb 29",
        "last month",
        "a year ago",
        "in Q1",
        "last weekend",
        "before 2025",
        "from Friday to Monday",
        "early last month",
        "this year",
        "an hour ago",
        "March 14, 2024",
        "last May",
    ]
)
ZONES = st.sampled_from(["UTC", "Europe/Berlin", "America/Los_Angeles", "Asia/Kathmandu", "Pacific/Apia", "America/Santiago"])
MOMENTS = st.datetimes(
    min_value=NOW.replace(year=2000, tzinfo=None), max_value=NOW.replace(year=2090, tzinfo=None), timezones=st.just(UTC)
)


@given(EXPRESSIONS, ZONES, MOMENTS)
def test_an_interval_is_never_empty_is_in_utc_and_has_begun(text: str, zone: str, now: datetime):
    found = find_interval(text, now, ZoneInfo(zone))
    if found is None:
        assert text in {"Feb 29", "since Monday"}
        return
    assert found.start < found.end
    assert found.start.tzinfo is UTC
    assert found.end.tzinfo is UTC
    assert found.start <= now or "202" in text
    assert found.span == (0, len(text))


@given(st.text(max_size=60), MOMENTS)
def test_any_text_is_understood_or_not_but_never_an_error(text: str, now: datetime):
    found = find_interval(text, now, BERLIN)
    assert found is None or found.start < found.end


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("5 mins", timedelta(minutes=5)),
        ("2 hrs", timedelta(hours=2)),
        ("1h30m", timedelta(hours=1, minutes=30)),
        ("1 h 30 min", timedelta(hours=1, minutes=30)),
        ("2d", timedelta(days=2)),
        ("90 seconds", timedelta(seconds=90)),
        ("90s", timedelta(seconds=90)),
        ("1440 minutes", timedelta(days=1)),
        ("3w", timedelta(weeks=3)),
        ("an hour", timedelta(hours=1)),
    ],
)
def test_a_length_alone_is_the_time_up_to_now(text: str, length: timedelta):
    found = find_interval(text, NOW, UTC)
    assert found is not None
    assert (found.end - found.start, found.span) == (length, (0, len(text)))


@pytest.mark.parametrize("text", ["999 years 999 years 999 years ago", "last 999 years 999 years 999 years"])
def test_a_length_before_all_calendars_is_no_error(text: str):
    find_interval(text, NOW, UTC)
