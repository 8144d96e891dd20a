"""View of the timeline: memories by day and source, and those that held on a date."""

from datetime import date
from itertools import groupby
from urllib.parse import urlencode

from starlette.responses import Response

from memory_assets import operations
from memory_assets.errors import InvalidInputError
from memory_assets.models import Source
from memory_assets.operations.arguments import read_cursor
from memory_assets.ui.page import Page, view
from memory_assets.ui.views.search import CHOICES, read_filters

_LIMIT = 20


@view("/timeline")
def timeline(page: Page) -> Response:
    """Show memories by their day; with `on`, those that held at the end of that day."""
    day, cursor = page.query.get("on", "").strip(), page.query.get("cursor")
    choices = {name: allowed for name, allowed in CHOICES.items() if not (day and name == "state")}
    narrowed, given = read_filters(page, choices)
    try:
        on = date.fromisoformat(day) if day else None
    except ValueError as error:
        raise InvalidInputError(f"{day!r} is no date; write it like 2026-03-14.") from error
    found = (
        operations.timeline.held_on(page.tenant, on, narrowed, limit=_LIMIT, cursor=cursor)
        if on
        else operations.show.recent(page.tenant, limit=_LIMIT, narrowed=narrowed, cursor=cursor)
    )
    zone = page.local.zone
    values = {"given": given, "choices": choices, "on": on, "sources": list(Source)}
    values["learned"] = None if page.is_fragment else operations.timeline.learned(page.tenant, narrowed)
    values["day_before"] = read_cursor(cursor)[0].astimezone(zone).date() if cursor and page.is_fragment else None
    values["days"] = [
        (each, list(memories))
        for each, memories in groupby(found.memories, key=lambda memory: memory.created_at.astimezone(zone).date())
    ]
    address = urlencode({name: value for name, value in {**given, "on": day}.items() if value})
    return page.render("timeline.html", address=address, next_cursor=found.next_cursor, **values)
