"""View of the search: results while typing, why each was found, and the paths between them; and filters that other lists share."""

from collections.abc import Mapping
from urllib.parse import urlencode

from starlette.responses import Response

from memory_assets import operations
from memory_assets.errors import InvalidInputError
from memory_assets.models import Kind, Source, State
from memory_assets.operations.arguments import Narrowing, parse_time
from memory_assets.ui.page import Page, view

CHOICES: Mapping[str, list[str]] = {"kind": list(Kind), "source": list(Source), "state": [*State, "all"]}
"""Field -> allowed values."""
_TYPED = ("project", "person", "tag", "since", "until")
_LIMIT = 10
_BRIDGES = 3


@view("/search", work="search")
def search(page: Page) -> Response:
    """Search memories. Results while somebody types do not count as recalled."""
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


def read_filters(page: Page, choices: Mapping[str, list[str]] = CHOICES) -> tuple[Narrowing, dict[str, str]]:
    """Return the filters in the address, parsed and as given; raise InvalidInputError for a value that is not among `choices`."""
    given = {name: page.query.get(name, "").strip() for name in (*choices, *_TYPED)}
    for name, allowed in choices.items():
        if given[name] and given[name] not in allowed:
            raise InvalidInputError(f"There is no {name} {given[name]!r}; choose one of {', '.join(allowed)}.")
    state = given.get("state")
    return Narrowing(
        kinds=[Kind(given["kind"])] if given["kind"] else (),
        sources=[Source(given["source"])] if given["source"] else (),
        tags=[tag.strip() for tag in given["tag"].split(",") if tag.strip()],
        entities=[given["person"]] if given["person"] else (),
        project=given["project"],
        since=parse_time(given["since"] or None, "since"),
        until=parse_time(given["until"] or None, "until"),
        states=list(State) if state == "all" else [State(state)] if state else (State.ACTIVE,),
    ), given
