"""Start: what is remembered at a glance."""

from collections.abc import Mapping
from pathlib import PurePath
from urllib.parse import urlencode

from starlette.responses import Response

from memory_assets import operations
from memory_assets.ui.page import Page, view


@view("/")
def start(page: Page) -> Response:
    """Growth, kinds, sources, projects, people, what is new, what waits and what faded."""
    found = operations.overview.overview(page.tenant, since=page.session.last_visit)
    return page.render(
        "start.html",
        overview=found,
        since=page.session.last_visit,
        kinds=_linked("kind", found.kinds),
        sources=_linked("source", found.sources),
        projects=[(PurePath(each.name).name or each.name, each.count, _search(project=each.name)) for each in found.projects],
        people=_linked("person", {each.name: each.count for each in found.people}),
    )


def _linked(field: str, counts: Mapping[str, int]) -> list[tuple[str, int, str]]:
    """Name, count, and the address of the search for it."""
    return [(name, count, _search(**{field: name})) for name, count in counts.items()]


def _search(**fields: str) -> str:
    return f"/ui/search?{urlencode(fields)}"
