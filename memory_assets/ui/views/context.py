"""Views of context (a document about a topic within a budget, with the omitted parts) and session (the text of the next start)."""

from urllib.parse import urlencode

from starlette.responses import Response

from memory_assets import operations
from memory_assets.errors import InvalidInputError
from memory_assets.ui.page import Page, change, view

_BUDGETS = (500, 1_000, 2_000, 4_000, 8_000, 16_000)
_DEPTHS = (1, 2, 3, 4, 5)


@view("/context", work="search")
def context(page: Page) -> Response:
    topic, lens = page.query.get("topic", "").strip(), page.query.get("lens", "general")
    budget, depth = page.choice("budget", _BUDGETS, 4_000), page.choice("depth", _DEPTHS, 2)
    lenses = operations.context.list_lenses()
    if lens not in lenses:
        raise InvalidInputError(f"There is no lens {lens!r}; choose one of {', '.join(lenses)}.")
    found = None
    if topic:
        found = operations.context.context(
            page.tenant, [topic], lens=lens, max_tokens=budget, depth=depth, offline=True, explain=True
        )
    values = {"topic": topic, "lens": lens, "budget": budget, "depth": depth, "lenses": lenses}
    return page.render("context.html", found=found, budgets=_BUDGETS, depths=_DEPTHS, **values)


@view("/session")
def session(page: Page) -> Response:
    project = page.query.get("project", "")
    projects = list(operations.names.count_memories(page.tenant, "project")["project"])
    return page.render("session.html", found=operations.session.preview(page.tenant, project), projects=projects, project=project)


@change("/session/{id:int}")
def tell(page: Page) -> Response:
    done = operations.session.tell_at_start(page.tenant, page.path["id"], told=page.text("told") == "on")
    project = page.text("project")
    return page.redirect(f"/session?{urlencode({'project': project})}" if project else "/session", done.text(page.local))
