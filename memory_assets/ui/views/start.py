"""View of the start page: an overview of the memory."""

from collections.abc import Mapping
from itertools import islice
from urllib.parse import urlencode

from starlette.responses import Response

from memory_assets import operations
from memory_assets.models import Source, State
from memory_assets.operations.arguments import Narrowing
from memory_assets.tana.state import SyncRecord
from memory_assets.ui.page import Page, view

_MAX_LISTED = 8


@view("/")
def start(page: Page) -> Response:
    tenant, since = page.tenant, page.session.last_visit
    counts = operations.names.count_memories(tenant, "state", "kind", "source")
    people = operations.names.list_names(tenant, kind="PERSON", limit=_MAX_LISTED).names
    archived = Narrowing(states=(State.ARCHIVED,))
    return page.render(
        "start.html",
        tenant=tenant.name,
        states=counts["state"],
        kinds=_linked("kind", counts["kind"]),
        sources=_linked("source", counts["source"]),
        projects=_linked("project", dict(islice(operations.names.count_projects(tenant).items(), _MAX_LISTED))),
        people=_linked("person", {each.name: each.memories for each in people}),
        learned=operations.timeline.learned(tenant, Narrowing()),
        all_sources=list(Source),
        since=since,
        new=operations.show.changed_since(tenant, since, limit=_MAX_LISTED) if since else None,
        faded=operations.show.recent(tenant, limit=_MAX_LISTED, narrowed=archived).memories
        if State.ARCHIVED in counts["state"]
        else (),
        refused=sum(not each.passed_over for each in operations.status.refusals(tenant.catalog.interactive)),
        proposals=operations.learn.count_pending(tenant),
        syncs=len(SyncRecord.load(tenant.folder).queue),
        conflicts=len(operations.conflicts.find_pairs(tenant)),
    )


def _linked(field: str, counts: Mapping[str, int]) -> list[tuple[str, int, str]]:
    return [(name, count, f"/ui/search?{urlencode({field: name})}") for name, count in counts.items()]
