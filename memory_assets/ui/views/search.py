"""Search as one types, with filters, why each memory was found, and the paths that connect them."""

from urllib.parse import urlencode

from starlette.responses import Response

from memory_assets import operations
from memory_assets.ui.filters import CHOICES, read_filters
from memory_assets.ui.page import Page, view

_LIMIT = 10
_BRIDGES = 3


@view("/search", work="search")
def search(page: Page) -> Response:
    """Find memories. What is found while somebody types does not count as recalled."""
    narrowed, given = read_filters(page)
    query, everything = page.query.get("q", ""), page.query.get("all", "")
    found = operations.search.search(
        page.tenant,
        query,
        limit=_LIMIT,
        narrowed=narrowed,
        bridges=0 if page.is_fragment else _BRIDGES,
        cursor=page.query.get("cursor"),
        everything=bool(everything),
        recalls=not page.is_fragment,
    )
    sent = {"q": query, "all": everything, **given}
    address = urlencode({name: value for name, value in sent.items() if value})
    values = {"query": query, "given": given, "everything": everything, "choices": CHOICES, "address": address}
    values["parts"] = {each.id: [(part.name, part.contribution, "") for part in each.components] for each in found.memories}
    return page.render("search.html", found=found, **values)
