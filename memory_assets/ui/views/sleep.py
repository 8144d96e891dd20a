"""View of the sleep cycles: a dry run of each, and the cycle itself. Clustering takes long, so its last clusters are shown instead."""

from collections.abc import Callable, Sequence
from datetime import datetime

from starlette.responses import Response

from memory_assets import operations
from memory_assets.errors import NotFoundError
from memory_assets.operations.answers import Answer
from memory_assets.ui.page import Page, change, view

_CYCLES = {
    "decay": "Scores every memory as of now. Archived memories that matter again come back.",
    "creative": "Connects similar memories that nothing connects yet.",
    "cluster": "Finds dense groups of memories and summarises each.",
    "forget": "Archives memories of low relevance. Recalling an archived memory brings it back.",
}
_ASSETS = {"decay": "relevance_scores", "creative": "creative_links", "cluster": "clusters", "forget": "archived_memories"}
_MAX_ROWS = 100
_MAX_POINTS = 2_000


@view("/sleep", work="write")
def sleep(page: Page) -> Response:
    """Show what a cycle would do, without writing; of `cluster`, the clusters that it found last."""
    name = page.query.get("cycle", "")
    clusters = operations.consolidate.list_clusters(page.tenant, _MAX_ROWS) if name == "cluster" else ()
    found = _find_cycle(name)(page.tenant, dry_run=True) if name not in ("", "cluster") else None
    rows: Sequence[tuple[str, int, str]] = ()
    points: Sequence[tuple[datetime, float, str]] = ()
    if isinstance(found, operations.consolidate.Decayed):
        rows = [(f"{low / 10:.1f} to {(low + 1) / 10:.1f}", count, "") for low, count in enumerate(found.histogram)]
    elif isinstance(found, operations.consolidate.Forgotten):
        points = [(each.created_at, each.relevance, each.name) for each in (*found.deleted, *found.archived)[:_MAX_POINTS]]
    elif clusters:
        rows = [(each.label, len(each.members), "") for each in clusters]
    values = {"cycle": name, "cycles": _CYCLES, "found": found, "most": _MAX_ROWS, "runs": _dagster_address(page, name)}
    return page.render("sleep.html", clusters=clusters, rows=rows, points=points, **values)


@change("/sleep/{cycle}")
def run_cycle(page: Page) -> Response:
    name = page.path["cycle"]
    done = _find_cycle(name)(page.tenant)
    return page.redirect(f"/sleep?cycle={name}", done.text(page.local))


def _find_cycle(name: str) -> Callable[..., Answer]:
    if name not in _CYCLES:
        raise NotFoundError(f"There is no sleep cycle {name!r}; choose one of {', '.join(_CYCLES)}.")
    return getattr(operations.consolidate, name)


def _dagster_address(page: Page, cycle: str) -> str:
    """Return the address of the cycle's asset in Dagster's UI, or "" while `memory up` runs no web server."""
    urls = (each.url for each in operations.status.services(page.tenant.settings) if each.name == "UI")
    base = next(urls, "")
    return base and f"{base}/assets/{_ASSETS[cycle]}" if cycle else base and f"{base}/runs"
