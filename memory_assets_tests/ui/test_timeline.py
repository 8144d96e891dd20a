"""The timeline of learnt facts, and the facts that held on a date."""

import html
import re
import time
from datetime import UTC, date, datetime

from memory_assets.models import Source
from memory_assets.operations.arguments import Narrowing
from memory_assets.operations.changes import edit, forget
from memory_assets.operations.timeline import held_on, learned
from memory_assets.tenants import Tenant
from memory_assets_tests.ui.site import Visitor, remember, remember_all


def at(day: str) -> datetime:
    return datetime.fromisoformat(day).replace(tzinfo=UTC)


def test_the_finest_unit_with_few_columns_is_chosen(tenant: Tenant) -> None:
    assert learned(tenant, Narrowing()).columns == ()
    for day in ("2026-03-01", "2026-03-01", "2026-03-04"):
        remember(tenant, f"Alice measured the pump on {day}, {time.monotonic_ns()}.", created_at=at(day))
    by_day = learned(tenant, Narrowing())
    assert (by_day.unit, [each.total for each in by_day.columns]) == ("day", [2, 0, 0, 1])
    for day, unit, count in (("2025-12-24", "week", 11), ("2022-05-05", "month", 47), ("2015-01-02", "year", 12)):
        remember(tenant, f"Alice measured the pump in {day}.", created_at=at(day))
        found = learned(tenant, Narrowing())
        assert (found.unit, len(found.columns)) == (unit, count)
    assert sum(each.total for each in found.columns) == 6


def test_what_was_replaced_or_forgotten_held_until_then(tenant: Tenant) -> None:
    old = remember(tenant, "The staging database is MySQL.", created_at=at("2026-02-01"))
    gone = remember(tenant, "The office is in Lyon.", created_at=at("2026-02-02"))
    late = remember(tenant, "The export runs at noon.", created_at=at("2026-05-01"))
    edited = edit(tenant, old, content="The staging database is PostgreSQL.", source=Source.CLI)
    forget(tenant, gone)
    spring, today = date(2026, 3, 1), datetime.now(UTC).date()
    held = {each.id: each for each in held_on(tenant, spring, Narrowing()).memories}
    assert set(held) == {old, gone}
    assert (held[old].ended_by, held[gone].ended_by) == (edited.id, None)
    assert held[old].ended
    assert held[gone].ended
    now = {each.id for each in held_on(tenant, today, Narrowing()).memories}
    assert now == {late, edited.id}
    assert held_on(tenant, date(2026, 1, 31), Narrowing()).memories == ()


def test_days_are_those_of_the_readers_zone_and_a_day_without_a_time_stays(tenant: Tenant) -> None:
    evening = remember(tenant, "The crane fell.", created_at=at("2026-02-04T02:30"))
    dated = remember(tenant, "The dock is open.", created_at=at("2026-02-04"))
    zones = {"UTC": {4: [evening, dated]}, "America/New_York": {3: [evening], 4: [evening, dated]}}
    for zone, held in zones.items():
        columns = learned(tenant, Narrowing(), zone).columns
        assert [each.begins.day for each in columns] == list(held)
        assert sum(each.total for each in columns) == 2
        for day in (3, 4):
            shown = held_on(tenant, date(2026, 2, day), Narrowing(), zone).memories
            assert [each.id for each in shown] == held.get(day, [])


def test_what_held_pages_by_cursor(tenant: Tenant) -> None:
    numbers = [remember(tenant, f"Alice timed round {each}.", created_at=at(f"2026-02-{each:02}")) for each in range(1, 8)]
    seen: list[int] = []
    cursor: str | None = None
    for _ in numbers:
        page = held_on(tenant, date(2026, 3, 1), Narrowing(), limit=3, cursor=cursor)
        seen += [each.id for each in page.memories]
        if (cursor := page.next_cursor) is None:
            break
    assert seen == numbers[::-1]


def test_the_page_groups_by_day_and_narrows(tenant: Tenant, visitor: Visitor) -> None:
    assert "Nothing is remembered that fits." in visitor.get("/timeline").text
    remember(tenant, "Alice moved the export.", created_at=at("2026-02-03"), tags=("export",))
    remember(tenant, "Bob left for Lyon.", created_at=at("2026-02-04"))
    page = visitor.get("/timeline").text
    assert page.index("Wednesday, 4 February 2026") < page.index("Tuesday, 3 February 2026")
    assert "Bob left" not in visitor.get("/timeline?tag=export").text
    then = visitor.get("/timeline?on=2026-02-03").text
    assert "What held at the end of 2026-02-03" in then
    assert "Bob left" not in then
    wrong = visitor.get("/timeline?on=yesterdayish")
    assert (wrong.status_code, "is no date" in wrong.text) == (400, True)


def test_what_held_is_not_narrowed_by_its_state_of_today(tenant: Tenant, visitor: Visitor) -> None:
    remember(tenant, "Alice moved the export.", created_at=at("2026-02-03"))
    assert 'name="state"' in visitor.get("/timeline").text
    page = visitor.get("/timeline?on=2026-02-03&state=forgotten").text
    assert page.count("Alice moved the export.") == visitor.get("/timeline?on=2026-02-03").text.count("Alice moved the export.")
    assert "Memories by day and source" in page
    assert 'name="state"' not in page


def test_more_of_a_list_repeats_no_heading(tenant: Tenant, visitor: Visitor) -> None:
    remember_all(tenant, [f"Alice timed round {number}." for number in range(21)], created_at=at("2026-02-04"))
    remember(tenant, "Alice timed the start.", created_at=at("2026-02-03"))
    for path in ("/timeline?", "/timeline?on=2026-03-01", "/search?q="):
        page = shown = visitor.get(path).text
        while more := re.search(r'hx-get="/ui(/\w+\?[^"]*cursor[^"]*)"', page):
            page = visitor.get(html.unescape(more[1]), **{"HX-Request": "true"}).text
            shown += page
        assert shown.count("<article") == 22, path
        for heading in (
            "Wednesday, 4 February 2026",
            "Tuesday, 3 February",
            "What held at the end of",
            "The newest:",
            "Results</h2>",
        ):
            assert shown.count(heading) <= 1, (path, heading)
