"""View of the graph: the neighbourhood of a memory, a name or a search, as a drawing and a list."""

from urllib.parse import urlencode

from starlette.responses import Response

from memory_assets import operations
from memory_assets.errors import InvalidInputError
from memory_assets.ui.page import Page, view
from memory_assets.ui.rendering import plain

_SIZES = (60, 200, 600, 2000)
_STEPS = (0, 1, 2, 3)
_HITS = 5
_NEWEST = 3
_MAX_LISTED = 200
_LARGEST_ID = (1 << 63) - 1


@view("/graph", work="search")
def graph(page: Page) -> Response:
    """Show the neighbourhood of the ids in the address, else of the results of a search, else of the newest memories."""
    query = page.query.get("q", "").strip()
    given = [_number(text, "id", _LARGEST_ID) for text in page.texts("id")]
    steps, most = page.choice("steps", _STEPS, 1 if given else 2), page.choice("most", _SIZES, _SIZES[0])
    types, least = page.texts("type"), _number(page.query.get("least") or "0", "least", 100)
    begin = given or _find_start(page, query)
    found = operations.graph.neighbourhood(page.tenant, begin, steps=steps, most=most, types=types, least=least / 100)
    labels = {each.id: each.label for each in found.nodes}
    data = found.model_dump(include={"nodes", "edges"})
    for each in data["nodes"]:
        each["label"] = plain(each["label"])
    return page.render(
        "graph.html",
        found=found,
        data=data,
        begin=begin,
        query=query,
        chosen={"steps": steps, "most": most, "types": types, "least": least},
        sizes=_SIZES,
        all_steps=_STEPS,
        given=given,
        address=urlencode([("steps", steps), ("most", most), ("least", least), *(("type", each) for each in types)]),
        edges=[(labels[each.source], each, labels[each.target]) for each in found.edges[:_MAX_LISTED]],
    )


def _find_start(page: Page, query: str) -> list[int]:
    if query:
        return [each.id for each in operations.search.search(page.tenant, query, limit=_HITS, recalls=False).memories]
    return [each.id for each in operations.show.recent(page.tenant, limit=_NEWEST).memories]


def _number(text: str, name: str, most: int) -> int:
    if not text.isdecimal() or len(text) > len(str(most)) or int(text) > most:
        raise InvalidInputError(f"{name} {text[:40]!r} is not a whole number from 0 to {most}.")
    return int(text)
