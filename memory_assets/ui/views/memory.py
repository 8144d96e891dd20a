"""Views of one memory: text, origin, history, links and relevance; and its changes."""

from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import pairwise

from starlette.responses import Response

from memory_assets import operations
from memory_assets.errors import ChangedMeanwhileError, ConflictError, InvalidInputError
from memory_assets.models import MACHINE, Memory, RelationType, Source
from memory_assets.ui.page import Page, change, view
from memory_assets.ui.rendering import difference

FACE = "ui"
_NEIGHBOURS = 40
_FACES = {"cli": "a command or a hook", "http": "a program over HTTP", "mcp": "an assistant over MCP", "page": "you, here"}


@view("/memories/{id:int}")
def show(page: Page) -> Response:
    number = page.path["id"]
    found = operations.show.show(page.tenant, number)
    versions = operations.show.history(page.tenant, number)
    changes = [(after, difference(before.content, after.content)) for before, after in pairwise(versions)]
    return page.render(
        "memory.html",
        memory=found,
        origin=_origin(found),
        is_from_file=bool(found.source_key),
        versions=versions,
        faces=_FACES,
        changes=changes,
        relation_types=[each.value for each in RelationType],
        recalls=operations.show.recalls(page.tenant, number),
        stated=operations.relate.relations(page.tenant, number).relations,
        undoes=_preview_undo(page),
    )


@view("/memories/{id:int}/joined")
def joined(page: Page) -> Response:
    number = page.path["id"]
    found = operations.graph.neighbourhood(page.tenant, [number], most=_NEIGHBOURS)
    nodes = {each.id: each for each in found.nodes}
    edges = [
        (each, nodes[each.target if each.source == number else each.source])
        for each in found.edges
        if number in (each.source, each.target)
    ]
    return page.render("joined.html", number=number, edges=edges)


@view("/memories/{id:int}/found")
def choose(page: Page) -> Response:
    number, query = page.path["id"], page.query.get("other_query", "")
    found = operations.search.search(page.tenant, query, limit=6, recalls=False).memories if query.strip() else ()
    return page.render("choose.html", found=[each for each in found if each.id != number])


@change("/memories/{id:int}/edit")
def edit(page: Page) -> Response:
    number, content = page.path["id"], page.text("content")
    try:
        done = operations.changes.edit(page.tenant, number, content, source=Source.HTTP, seen=read_seen(page))
    except ChangedMeanwhileError:
        return show_changed(page, [number], content)
    if done.replaces is None:
        return page.redirect(f"/memories/{done.id}", "Nothing changed: the memory says that already.")
    masked = f" Masked {operations.answers.describe_masked(done.masked)}." if done.masked else ""
    return page.redirect(f"/memories/{done.id}", f"The new text replaces the old one, which stays as history.{masked}", undo=done)


@change("/memories/{id:int}/tags")
def tag(page: Page) -> Response:
    wanted = [each.strip() for each in page.text("tags").split(",") if each.strip()]
    had = page.texts("tag")
    add, remove = [each for each in wanted if each not in had], [each for each in had if each not in wanted]
    return _apply_change(page, "Its tags are changed.", operations.changes.tag, add=add, remove=remove)


@change("/memories/{id:int}/forget")
def forget(page: Page) -> Response:
    return _apply_change(page, "Forgotten: it takes no part in recall.", operations.changes.forget)


@change("/memories/{id:int}/restore")
def restore(page: Page) -> Response:
    return _apply_change(page, "It is in recall again.", operations.changes.restore)


@change("/memories/{id:int}/supersede")
def supersede(page: Page) -> Response:
    return _apply_change(
        page, "Another memory replaces it; this one is history.", operations.changes.supersede, _read_other(page)
    )


@change("/memories/{id:int}/relate")
def relate(page: Page) -> Response:
    try:
        relation = RelationType(page.text("type"))
    except ValueError as error:
        raise InvalidInputError(f"There is no relation {page.text('type')!r}.") from error
    options = {"note": page.text("note"), "stated_by": FACE}
    return _apply_change(page, "The relation is stated.", operations.relate.relate, relation, _read_other(page), **options)


@change("/memories/{id:int}/undo")
def undo(page: Page) -> Response:
    number = page.path["id"]
    try:
        done = operations.undo.undo(page.tenant, number, seen=read_seen(page))
    except ChangedMeanwhileError:
        return show_changed(page, [number])
    active = next((each.id for each in done.memories if each.active), number)
    return page.redirect(f"/memories/{active}", done.text(page.local))


def _apply_change(page: Page, message: str, operation: Callable[..., object], *arguments: object, **options: object) -> Response:
    """Change a memory in the version that the page showed, and offer to undo the change."""
    number = page.path["id"]
    try:
        operation(page.tenant, number, *arguments, **options, seen=read_seen(page))
    except ChangedMeanwhileError:
        return show_changed(page, [number])
    return page.redirect(f"/memories/{number}", message, undo=operations.arguments.find_memory(page.tenant, number))


def read_seen(page: Page, name: str = "seen") -> datetime:
    """Return the `updated_at` of the version that the form's page showed."""
    try:
        return datetime.fromisoformat(page.text(name))
    except ValueError as error:
        raise InvalidInputError("This form does not say which version it changes; open the page again.") from error


def _read_other(page: Page) -> int:
    """Return the id of the other memory in a form."""
    number = page.number("other")
    if number is None:
        raise InvalidInputError("Choose the other memory: find it by its words, or type its id.")
    return number


def show_changed(page: Page, numbers: Sequence[int], content: str | None = None) -> Response:
    """Show the current versions of memories that somebody else changed, and the form's text for the first of them."""
    current = [_current_version(page, number) for number in numbers]
    compared = None if content is None else difference(current[0].content, content)
    return page.render("changed.html", status=409, present=current, content=content, compared=compared)


def _current_version(page: Page, number: int) -> Memory:
    """Return the active version of a memory, else the memory itself."""
    versions = operations.show.history(page.tenant, number)
    in_recall = (each for each in reversed(versions) if each.state == "active")
    return next(in_recall, next(each for each in versions if each.id == number))


def _preview_undo(page: Page) -> "operations.undo.Undone | None":
    """Return the effect of an undo, or None if the last change cannot be undone here."""
    try:
        found = operations.undo.undo(page.tenant, page.path["id"], dry_run=True)
    except ConflictError:
        return None
    return found if found.count else None


def _origin(memory: "operations.show.ShownMemory") -> dict[str, object]:
    guessed = memory.metadata.get("guessed")
    return {
        "Source": memory.source.value,
        "File": memory.metadata.get("path") or memory.metadata.get("original_path"),
        "Section": memory.metadata.get("section"),
        "Line": memory.metadata.get("line"),
        "Session": memory.session,
        "Machine": memory.metadata.get(MACHINE),
        "Author": memory.author,
        "Project": memory.project,
        "Key": memory.source_key,
        "Id": memory.id,
        "Guessed": ", ".join(map(str, guessed)) if isinstance(guessed, list) else guessed,
    }
