"""People, projects, tags and other names: lists of them, one with its memories in time, and decisions on which names are one."""

from urllib.parse import urlencode

from starlette.responses import Response

from memory_assets import operations
from memory_assets.errors import InvalidInputError
from memory_assets.models import Source
from memory_assets.operations.given import Narrowing
from memory_assets.ui.page import Page, change, view

_MOST_COUNTS = 200
"""Projects or tags that are listed; the search finds the memories of others."""
_MEMORIES = 10


@view("/names")
def names(page: Page) -> Response:
    """Names of a type, projects or tags."""
    kind, like = page.query.get("type", "PERSON"), page.query.get("q", "").strip()
    values = {
        "kind": kind,
        "like": like,
        "most": _MOST_COUNTS,
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
        chosen = [(name, count) for name, count in counts.items() if like.casefold() in name.casefold()][:_MOST_COUNTS]
        values["counts"] = [(name, count, f"/ui/timeline?{urlencode({kind[:-1]: name})}") for name, count in chosen]
    return page.render("names.html", found=found, address=urlencode({"type": kind, "q": like}), is_count=is_count, **values)


@view("/names/{name:int}")
def show(page: Page) -> Response:
    """A name: its memories in time, its spellings, and those that may mean the same."""
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
    """Say that the name means the same as another one."""
    other = page.text("other")
    number = operations.names.find_name(page.tenant, other) if other else page.number("into")
    if number is None:
        raise InvalidInputError("Choose or write the name that means the same.")
    return _decided(page, operations.names.merge_names(page.tenant, page.path["name"], number))


@change("/names/{name:int}/split")
def split(page: Page) -> Response:
    """Say that a spelling means something else."""
    return _decided(page, operations.names.split_name(page.tenant, page.path["name"], page.form.get("spelling", "")))


@change("/decisions/{decision}/undo")
def undo(page: Page) -> Response:
    """Take a decision back."""
    return _decided(page, operations.names.undo_decision(page.tenant, page.path["decision"]))


def _decided(page: Page, done: "operations.names.Decided") -> Response:
    return page.redirect("/names" if done.name is None else f"/names/{done.name}", done.text(page.local))
