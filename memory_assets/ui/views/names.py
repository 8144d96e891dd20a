"""Views of names (people, projects, tags and others): lists, a name with its memories over time, and decisions which names are equal."""

from urllib.parse import urlencode

from starlette.responses import Response

from memory_assets import operations
from memory_assets.errors import InvalidInputError
from memory_assets.models import Source
from memory_assets.operations.arguments import Narrowing
from memory_assets.ui.page import Page, change, view

_MAX_COUNTS = 200
"""Listed projects or tags; the search finds the memories of others."""
_MEMORIES = 10


@view("/names")
def names(page: Page) -> Response:
    kind, like = page.query.get("type", "PERSON"), page.query.get("q", "").strip()
    values = {
        "kind": kind,
        "like": like,
        "most": _MAX_COUNTS,
        "counts": (),
        "decisions": operations.names.list_decisions(page.tenant),
    }
    is_count = kind in ("projects", "tags")
    found = operations.names.list_names(
        page.tenant,
        kind="" if is_count or kind == "all" else kind,
        like="" if is_count else like,
        cursor=page.query.get("cursor"),
    )
    if is_count:
        tenant, of = page.tenant, operations.names
        counts = of.count_projects(tenant) if kind == "projects" else of.count_memories(tenant, "tags")["tags"]
        chosen = [(name, count) for name, count in counts.items() if like.casefold() in name.casefold()][:_MAX_COUNTS]
        values["counts"] = [(name, count, f"/ui/timeline?{urlencode({kind[:-1]: name})}") for name, count in chosen]
    return page.render("names.html", found=found, address=urlencode({"type": kind, "q": like}), is_count=is_count, **values)


@view("/names/{name:int}")
def show(page: Page) -> Response:
    """Show a name with its memories over time, its spellings, and names that may mean the same."""
    found = operations.names.show_name(page.tenant, page.path["name"])
    narrowed = Narrowing(entities=[found.name.name])
    return page.render(
        "name.html",
        found=found,
        learned=operations.timeline.learned(page.tenant, narrowed),
        newest=operations.show.recent(page.tenant, limit=_MEMORIES, narrowed=narrowed),
        sources=list(Source),
        address=urlencode({"person": found.name.name}),
    )


@change("/names/{name:int}/merge")
def merge(page: Page) -> Response:
    other = page.text("other")
    number = operations.names.find_name(page.tenant, other) if other else page.number("into")
    if number is None:
        raise InvalidInputError("Choose or write the name that means the same.")
    return _redirect_to_name(page, operations.names.merge_names(page.tenant, page.path["name"], number))


@change("/names/{name:int}/split")
def split(page: Page) -> Response:
    return _redirect_to_name(page, operations.names.split_name(page.tenant, page.path["name"], page.form.get("spelling", "")))


@change("/decisions/{decision}/undo")
def undo(page: Page) -> Response:
    return _redirect_to_name(page, operations.names.undo_decision(page.tenant, page.path["decision"]))


def _redirect_to_name(page: Page, done: "operations.names.Decided") -> Response:
    return page.redirect("/names" if done.name is None else f"/names/{done.name}", done.text(page.local))
