"""One memory: its text, where it came from, its history, what it is joined to, how relevant it is; and its changes."""

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
    """Everything about one memory, in whatever state it is."""
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
        undoes=_undoes(page),
    )


@view("/memories/{id:int}/joined")
def joined(page: Page) -> Response:
    """What a memory is joined to in the graph, in its own words."""
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
    """Memories that fit what somebody types into the field that asks for another memory."""
    number, query = page.path["id"], page.query.get("other_query", "")
    found = operations.search.search(page.tenant, query, limit=6, recalls=False).memories if query.strip() else ()
    return page.render("choose.html", found=[each for each in found if each.id != number])


@change("/memories/{id:int}/edit")
def edit(page: Page) -> Response:
    """Give a memory another text."""
    number, content = page.path["id"], page.text("content")
    try:
        done = operations.changes.edit(page.tenant, number, content, source=Source.HTTP, seen=read_seen(page))
    except ChangedMeanwhileError:
        return show_changed(page, [number], content)
    if done.replaces is None:
        return page.redirect(f"/memories/{done.id}", "Nothing changed: the memory says that already.")
    return page.redirect(f"/memories/{done.id}", "The new text replaces the old one, which stays as history.", undo=done)


@change("/memories/{id:int}/tags")
def tag(page: Page) -> Response:
    """Give a memory the tags that somebody typed, and no others."""
    wanted = [each.strip() for each in page.text("tags").split(",") if each.strip()]
    had = page.texts("tag")
    add, remove = [each for each in wanted if each not in had], [each for each in had if each not in wanted]
    return _do(page, "Its tags are changed.", operations.changes.tag, add=add, remove=remove)


@change("/memories/{id:int}/forget")
def forget(page: Page) -> Response:
    """Take a memory out of recall."""
    return _do(page, "Forgotten: it takes no part in recall.", operations.changes.forget)


@change("/memories/{id:int}/restore")
def restore(page: Page) -> Response:
    """Bring a memory back into recall."""
    return _do(page, "It is in recall again.", operations.changes.restore)


@change("/memories/{id:int}/supersede")
def supersede(page: Page) -> Response:
    """Let another memory take the place of this one."""
    return _do(page, "Another memory replaces it; this one is history.", operations.changes.supersede, _other(page))


@change("/memories/{id:int}/relate")
def relate(page: Page) -> Response:
    """State how a memory relates to another one."""
    try:
        relation = RelationType(page.text("type"))
    except ValueError as error:
        raise InvalidInputError(f"There is no relation {page.text('type')!r}.") from error
    options = {"note": page.text("note"), "stated_by": FACE}
    return _do(page, "The relation is stated.", operations.relate.relate, relation, _other(page), **options)


@change("/memories/{id:int}/undo")
def undo(page: Page) -> Response:
    """Take back the last change of a memory."""
    number = page.path["id"]
    try:
        done = operations.undo.undo(page.tenant, number, seen=read_seen(page))
    except ChangedMeanwhileError:
        return show_changed(page, [number])
    active = next((each.id for each in done.memories if each.active), number)
    return page.redirect(f"/memories/{active}", done.text(page.local))


def _do(page: Page, message: str, operation: Callable[..., object], *arguments: object, **options: object) -> Response:
    """Do a change of a memory as it was seen, and offer to undo it."""
    number = page.path["id"]
    try:
        operation(page.tenant, number, *arguments, **options, seen=read_seen(page))
    except ChangedMeanwhileError:
        return show_changed(page, [number])
    return page.redirect(f"/memories/{number}", message, undo=operations.given.find_memory(page.tenant, number))


def read_seen(page: Page, name: str = "seen") -> datetime:
    """The `updated_at` of a memory that the form's page showed."""
    try:
        return datetime.fromisoformat(page.text(name))
    except ValueError as error:
        raise InvalidInputError("This form does not say which version it changes; open the page again.") from error


def _other(page: Page) -> int:
    """The other memory that a form names."""
    number = page.number("other")
    if number is None:
        raise InvalidInputError("Choose the other memory: find it by its words, or type its id.")
    return number


def show_changed(page: Page, numbers: Sequence[int], content: str | None = None) -> Response:
    """Show what somebody else made of memories, and the text that a form wanted for the first of them."""
    present = [_present(page, number) for number in numbers]
    compared = None if content is None else difference(present[0].content, content)
    return page.render("changed.html", status=409, present=present, content=content, compared=compared)


def _present(page: Page, number: int) -> Memory:
    """The version of a memory that is in recall, else the memory itself."""
    versions = operations.show.history(page.tenant, number)
    in_recall = (each for each in reversed(versions) if each.state == "active")
    return next(in_recall, next(each for each in versions if each.id == number))


def _undoes(page: Page) -> "operations.undo.Undone | None":
    """What an undo would do; None if the last change cannot be undone here."""
    try:
        found = operations.undo.undo(page.tenant, page.path["id"], dry_run=True)
    except ConflictError:
        return None
    return found if found.count else None


def _origin(memory: "operations.show.ShownMemory") -> dict[str, object]:
    """Where a memory came from: name and value."""
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
        "Guessed": ", ".join(map(str, memory.metadata.get("guessed") or ())),
    }
