"""One memory: its text, where it came from, its history, what it relates to and how relevant it is."""

from typing import TYPE_CHECKING

from memory_assets import operations
from memory_assets.ui.page import Page, change, view

if TYPE_CHECKING:
    from starlette.responses import Response


@view("/memories/{id:int}")
def show(page: Page) -> "Response":
    """Everything about one memory, in whatever state it is."""
    number = page.path["id"]
    found = operations.show.show(page.tenant, number)
    stated = operations.relate.relations(page.tenant, number)
    return page.render("memory.html", memory=found, relations=stated.relations, origin=_origin(found))


def _origin(memory: "operations.show.ShownMemory") -> dict[str, object]:
    """Where a memory came from: name and value."""
    return {
        "Source": memory.source.value,
        "File": memory.metadata.get("path") or memory.metadata.get("original_path"),
        "Line": memory.metadata.get("line"),
        "Machine": memory.metadata.get("machine"),
        "Session": memory.session,
        "Author": memory.author,
        "Project": memory.project,
        "Key": memory.source_key,
        "Id": memory.id,
        "Guessed": memory.metadata.get("guessed"),
    }


@change("/memories/{id:int}/undo")
def undo(page: Page) -> "Response":
    """Take back the last change of a memory."""
    done = operations.undo.undo(page.tenant, page.path["id"])
    return page.redirect(f"/memories/{page.path['id']}", done.text(page.local))
