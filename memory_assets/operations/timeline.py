"""Count memories by day and source, and show the memories that held on a date."""

from dataclasses import replace
from datetime import date, timedelta
from typing import Literal

from pydantic import Field

from memory_assets.language.times import display_zone
from memory_assets.models import REPLACING, Source, State
from memory_assets.operations.answers import Answer, Instant, LocalTime, MemoryView, View
from memory_assets.operations.arguments import Narrowing, read_cursor, write_cursor
from memory_assets.operations.fields import Cursor, Day, Limit, ZoneName
from memory_assets.sources.dating import LATEST
from memory_assets.tenants import Tenant

Unit = Literal["day", "week", "month", "year"]
_UNITS: dict[Unit, int] = {"day": 1, "week": 7, "month": 30}
"""Days of a column, the finest unit first."""
_MOST_COLUMNS = 60
"""Columns up to which a finer unit is chosen."""
_DAY = """
    if(date_trunc('day', {0} AT TIME ZONE 'UTC') = {0} AT TIME ZONE 'UTC', {0} AT TIME ZONE 'UTC', {0} AT TIME ZONE $zone)::DATE
"""
"""The day of a time, as `day_in` returns it."""
_SPAN = "SELECT min(created_at), max(created_at) FROM stored"
_LEARNED = f"""
    WITH learned AS (SELECT date_trunc('{{0}}', {_DAY.format("created_at")})::DATE AS begins, source FROM stored),
    all_columns AS (SELECT unnest(generate_series(min(begins), max(begins), INTERVAL 1 {{0}}))::DATE AS begins FROM learned)
    SELECT begins, source, count(source) FROM all_columns LEFT JOIN learned USING (begins) GROUP BY ALL ORDER BY ALL
"""
_HELD = f"""
    WITH newer AS (
        SELECT e.source_id AS id, arg_min(e.target_id, (t.created_at, t.id)) AS newer_id, min(t.created_at) AS at
        FROM graph_edges e JOIN others t ON t.id = e.target_id WHERE e.type IN {tuple(map(str, REPLACING))} GROUP BY ALL
    ),
    lives AS (
        SELECT s.id, s.created_at, coalesce(s.superseded_by, newer.newer_id) AS newer_id,
               CASE WHEN s.superseded_by IS NOT NULL THEN if(o.created_at > s.created_at, o.created_at, s.updated_at)
                    WHEN s.state IN ('active', 'archived') THEN newer.at
                    ELSE s.updated_at END AS ended
        FROM stored s LEFT JOIN others o ON o.id = s.superseded_by LEFT JOIN newer ON newer.id = s.id
    )
    SELECT id, created_at, ended, newer_id FROM lives
    WHERE {_DAY.format("created_at")} <= $day AND (ended IS NULL OR {_DAY.format("ended")} > $day)
      AND (created_at, id) < ($before, $before_id)
    ORDER BY created_at DESC, id DESC LIMIT $limit
"""


class ColumnView(View):
    """Number of memories created in one unit of time."""

    begins: date
    sources: dict[Source, int] = Field(description="Memories by source.")

    @property
    def total(self) -> int:
        return sum(self.sources.values())


class Learned(Answer):
    """Numbers of memories by time of creation."""

    unit: Unit
    columns: tuple[ColumnView, ...] = Field(description="The earliest first, including columns without memories.")

    def text(self, local: LocalTime) -> str:
        counts = (f"{each.begins}  {each.total:>6}" for each in self.columns if each.sources)
        return "\n".join(counts) or "Nothing is remembered that fits."


class HeldView(MemoryView):
    """A memory that held on a date."""

    ended: Instant | None = Field(description="When it ceased to hold; null if it still holds.")
    ended_by: int | None = Field(description="The memory that replaced it.")


class Held(Answer):
    """The memories that held at the end of a day, newest first."""

    on: date
    memories: tuple[HeldView, ...]
    next_cursor: str | None = Field(description="Cursor of the next page; null on the last.")

    def text(self, local: LocalTime) -> str:
        return "\n".join(memory.entry(local, "- ") for memory in self.memories) or f"Nothing was remembered on {self.on}."


def timeline(
    tenant: Tenant,
    *,
    on: Day = None,
    narrowed: Narrowing,
    limit: Limit = 20,
    cursor: Cursor = None,
    timezone: ZoneName = None,
) -> Learned | Held:
    """Count the memories of each day, week, month or year; with `on`, list those that held at the end of that day."""
    if on is None:
        return learned(tenant, narrowed, timezone)
    return held_on(tenant, on, narrowed, timezone, limit=limit, cursor=cursor)


def learned(tenant: Tenant, narrowed: Narrowing, timezone: str | None = None) -> Learned:
    """Count memories by day, week, month or year of a time zone, in the finest unit with at most 60 columns."""
    with tenant.catalog.interactive.read() as connection:
        zone = display_zone(tenant.settings, timezone).key
        connection.register("stored", tenant.memories.scan(("created_at", "source"), narrowed.filters(tenant).sql()))
        first, last = connection.execute(_SPAN).fetchone() or (None, None)
        if first is None:
            return Learned(unit="day", columns=())
        days = (last - first).days
        fitting: list[Unit] = [name for name, length in _UNITS.items() if days // length < _MOST_COLUMNS]
        unit: Unit = fitting[0] if fitting else "year"
        columns: dict[date, dict[Source, int]] = {}
        for begins, source, count in connection.execute(_LEARNED.format(unit), {"zone": zone}).fetchall():
            columns.setdefault(begins, {}).update({Source(source): count} if source else {})
    return Learned(unit=unit, columns=tuple(ColumnView(begins=begins, sources=each) for begins, each in columns.items()))


def held_on(
    tenant: Tenant,
    day: date,
    narrowed: Narrowing,
    timezone: str | None = None,
    *,
    limit: int = 20,
    cursor: str | None = None,
) -> Held:
    """List the memories that held at the end of a day in a time zone.

    A memory holds from its creation until another one supersedes it, the graph finds that another one replaced it, it is forgotten, or
    it vanishes from its source. An archived memory holds. `cursor` is the previous page's `next_cursor`.
    """
    filters = replace(narrowed.filters(tenant), states=tuple(State))
    before, ids = read_cursor(cursor) if cursor else (LATEST + timedelta(days=1), [])
    begin = {"before": before, "before_id": max(ids, default=0)}
    with tenant.catalog.interactive.read() as connection:
        zone = display_zone(tenant.settings, timezone).key
        columns = ("id", "state", "created_at", "updated_at", "superseded_by")
        connection.register("stored", tenant.memories.scan(columns, filters.sql()))
        connection.register("others", tenant.memories.scan(("id", "created_at")))
        rows = connection.execute(_HELD, {"zone": zone, "day": day, **begin, "limit": limit + 1}).fetchall()
    page = {row[0]: row for row in rows[:limit]}
    return Held(
        on=day,
        memories=tuple(
            HeldView.of(each, ended=page[each.id][2], ended_by=page[each.id][3]) for each in tenant.memories.get(page)
        ),
        next_cursor=write_cursor(rows[limit - 1][1], [rows[limit - 1][0]]) if len(rows) > limit else None,
    )
