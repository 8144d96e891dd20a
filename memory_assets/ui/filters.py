"""The filters that lists of memories share, as fields of a form and as parameters of an address."""

from collections.abc import Mapping

from memory_assets.errors import InvalidInputError
from memory_assets.models import Kind, Source, State
from memory_assets.operations.given import Narrowing, parse_time
from memory_assets.ui.page import Page

CHOICES: Mapping[str, list[str]] = {"kind": list(Kind), "source": list(Source), "state": [*State, "all"]}
"""Field -> what may be chosen."""
_NAMES = ("kind", "source", "project", "person", "tag", "since", "until", "state")


def read_filters(page: Page) -> tuple[Narrowing, dict[str, str]]:
    """What the address narrows a list to, and the fields as they were given.

    Raises:
        InvalidInputError: a field has no such value.
    """
    given = {name: page.query.get(name, "").strip() for name in _NAMES}
    for name, allowed in CHOICES.items():
        if given[name] and given[name] not in allowed:
            raise InvalidInputError(f"There is no {name} {given[name]!r}; choose one of {', '.join(allowed)}.")
    state = given["state"]
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
