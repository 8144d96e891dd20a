"""View of the timeline: memories by day and source, and those that held on a date."""

from datetime import date
from itertools import groupby
from operator import itemgetter
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
    local = page.local
    values = {"given": given, "choices": choices, "on": on, "sources": list(Source)}
    values["learned"] = None if page.is_fragment else operations.timeline.learned(page.tenant, narrowed)
    last = read_cursor(cursor)[0] if cursor and page.is_fragment else None
    is_sure = last and local.day(last) == last.astimezone(local.zone).date()  # else another memory may stand below the last one
    values["day_before"] = local.day(last) if last and is_sure else None
    dated = sorted(((local.day(each.created_at), each) for each in found.memories), key=itemgetter(0), reverse=True)
    values["days"] = [(each, [memory for _, memory in pairs]) for each, pairs in groupby(dated, key=itemgetter(0))]
    address = urlencode({name: value for name, value in {**given, "on": day}.items() if value})
    return page.render("timeline.html", address=address, next_cursor=found.next_cursor, **values)
