"""The routes of one tenant, `/api/v1/{tenant}/...`: seed 001's five, and those for single memories and relations."""

from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Body, Depends, Header, Path, Request, Response, Security
from fastapi.routing import APIRoute
from fastapi.security import APIKeyHeader
from starlette.exceptions import HTTPException

from memory_assets.api import cursors, models
from memory_assets.api.access import KEY_HEADER, authorised
from memory_assets.api.pool import OpenTenant
from memory_assets.errors import NotFoundError
from memory_assets.language.tags import normalise_tag
from memory_assets.models import Memory, NewMemory, Source, State
from memory_assets.recall.bridges import bridge_json
from memory_assets.recall.search import search_with_bridges
from memory_assets.stores.access_log import AccessLog
from memory_assets.stores.memories import Filters
from memory_assets.stores.relations import StatedRelation
from memory_assets.stores.rows import derived_id
from memory_assets.tenants import TENANT_PATTERN

if TYPE_CHECKING:
    from memory_assets.recall.search import Hit

_INIT_LIMIT = 10
_INIT_HOURS = 24


class TenantRoute(APIRoute):
    """A route that looks at the key before it looks at anything else of the request."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """See `APIRoute.get_route_handler`."""
        handle = super().get_route_handler()

        async def handle_authorised(request: Request) -> Response:
            state, name = request.app.state, request.path_params["tenant"]
            state.rate_limit.take(authorised(state.settings, name, request.headers.get(KEY_HEADER, "")))
            opened = request.state.opened = await state.pool.get(name)
            with opened.serving():
                return await handle(request)

        return handle_authorised


async def _opened(request: Request, tenant: Annotated[str, Path(pattern=TENANT_PATTERN, max_length=63)]) -> OpenTenant:  # noqa: ARG001
    return request.state.opened


Opened = Annotated[OpenTenant, Depends(_opened)]
MemoryIdInPath = Annotated[int, Path(ge=1, le=models.MAX_ID)]
IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=200,
        pattern="^[!-~]+$",
        description="Sent again with the same body, even after a restart, it gets the same id and stores nothing twice.",
    ),
]


def _answers(*statuses: HTTPStatus) -> dict[int | str, dict[str, Any]]:
    return {status.value: {"model": models.ErrorOut, "description": status.phrase} for status in statuses}


router = APIRouter(
    prefix="/api/v1/{tenant}",
    route_class=TenantRoute,
    dependencies=[Security(APIKeyHeader(name=KEY_HEADER, auto_error=False, description="A key of this tenant."))],
    responses=_answers(
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.UNAUTHORIZED,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.INTERNAL_SERVER_ERROR,
        HTTPStatus.SERVICE_UNAVAILABLE,
    ),
)
_NOT_FOUND = _answers(HTTPStatus.NOT_FOUND)


@router.post("/store", responses=_answers(HTTPStatus.CONFLICT))
async def store(opened: Opened, body: models.StoreRequest, idempotency_key: IdempotencyKey = None) -> models.StoreResponse:
    """Remember a text, whole or not at all; answers after the commit, with what the text stirs up."""
    given = NewMemory(
        body.content,
        Source.HTTP,
        body.kind,
        tags=tuple(body.tags),
        id=derived_id("idempotency-key", idempotency_key) if idempotency_key else None,
        project=body.project,
        session=body.session,
        author=body.author,
        importance=body.importance,
    )
    remembered = await opened.writer.store(given)
    return models.StoreResponse(
        id=remembered.id,
        splash=[
            models.SplashMemory.model_validate(_shown(ripple.memory) | {"similarity": ripple.similarity})
            for ripple in remembered.splash
        ],
        masked=list(remembered.masked),
    )


@router.post("/search")
async def search(opened: Opened, body: models.SearchRequest) -> models.SearchResponse:
    """Find memories by meaning, words and what else speaks for them; an empty query finds the newest."""
    return await opened.read(_search, opened, body)


@router.post("/recent")
async def recent(
    opened: Opened, body: Annotated[models.RecentRequest, Body(default_factory=models.RecentRequest)]
) -> models.RecentResponse:
    """The newest memories of a span of time, newest first."""
    filters = _filters(body)
    if not filters.since:
        filters = replace(filters, since=(filters.until or datetime.now(UTC)) - timedelta(hours=body.hours))
    if body.cursor:
        filters = replace(filters, after=cursors.read_place(body.cursor))
    memories = await opened.read(opened.tenant.memories.recent, body.limit + 1, filters)
    page = memories[: body.limit]
    more = len(memories) > len(page)
    return models.RecentResponse(
        memories=[models.RecentMemory.model_validate(memory) for memory in page],
        count=len(page),
        next_cursor=cursors.place(page[-1].created_at, page[-1].id) if more else None,
    )


@router.post("/init")
async def init(
    opened: Opened,
    body: Annotated[models.InitRequest, Body(default_factory=models.InitRequest)],  # noqa: ARG001
) -> models.InitResponse:
    """What a session begins with: the time, and what was remembered in the last day."""
    now = datetime.now(UTC)
    filters = Filters(since=now - timedelta(hours=_INIT_HOURS))
    memories = await opened.read(opened.tenant.memories.recent, _INIT_LIMIT, filters)
    return models.InitResponse(current_time=now, recent_memories=[models.MemoryOut.model_validate(memory) for memory in memories])


@router.get("/health")
async def health(opened: Opened) -> models.TenantHealth:
    """How this tenant's memory is; 503 where it cannot work."""
    found = await opened.read(_health, opened)
    if not found.embedding_healthy:
        raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, f"embedding: {found.embedding_provider} does not answer.")
    return found


@router.get("/memories/{memory_id}", responses=_NOT_FOUND)
async def show(opened: Opened, memory_id: MemoryIdInPath) -> models.MemoryDetail:
    """Everything about one memory, in whatever state it is."""
    return _detail(await opened.read(_get, opened, memory_id))


@router.post("/memories/{memory_id}/forget", responses=_NOT_FOUND)
async def forget(opened: Opened, memory_id: MemoryIdInPath) -> models.MemoryDetail:
    """Take a memory out of recall. It stays restorable."""
    return _detail(await opened.read(_set_state, opened, memory_id, State.FORGOTTEN))


@router.post("/memories/{memory_id}/restore", responses=_NOT_FOUND)
async def restore(opened: Opened, memory_id: MemoryIdInPath) -> models.MemoryDetail:
    """Bring a memory back into recall."""
    return _detail(await opened.read(_set_state, opened, memory_id, State.ACTIVE))


@router.get("/memories/{memory_id}/relations", responses=_NOT_FOUND)
async def relations(opened: Opened, memory_id: MemoryIdInPath) -> models.RelationsResponse:
    """What was stated about how a memory relates to others."""
    found = await opened.read(_relations, opened, memory_id)
    return models.RelationsResponse(relations=found, count=len(found))


@router.post("/relations", responses=_NOT_FOUND | _answers(HTTPStatus.CONFLICT))
async def relate(opened: Opened, body: models.RelationRequest) -> models.RelationOut:
    """State how one memory relates to another; stating it again replaces its confidence and note."""
    return await opened.read(_relate, opened, body)


def _filters(body: models.SearchRequest | models.RecentRequest) -> Filters:
    tags = [normalise_tag(tag) for tag in body.tags]
    return Filters(kinds=body.kinds, tags=tags, since=body.since, until=body.until)


def _shown(memory: Memory) -> dict[str, Any]:
    return {name: getattr(memory, name) for name in models.MemoryOut.model_fields}


def _detail(memory: Memory) -> models.MemoryDetail:
    return models.MemoryDetail.model_validate(memory)


def _found(hit: "Hit") -> models.FoundMemory:
    fields = _shown(hit.memory) | {"kind": hit.memory.kind, "score": hit.score, "components": hit.components}
    return models.FoundMemory.model_validate(fields)


# In a thread


def _search(opened: OpenTenant, body: models.SearchRequest) -> models.SearchResponse:
    asked_at, shown = cursors.read_seen(body.cursor) if body.cursor else (datetime.now(UTC), [])
    filters = _filters(body)
    if body.cursor:
        filters = replace(filters, until=min(asked_at, filters.until) if filters.until else asked_at)
    known = set(shown)
    limit, bridges = len(known) + body.limit + 1, 0 if body.cursor else body.bridges
    hits, paths = search_with_bridges(opened.tenant, body.query, limit=limit, filters=filters, bridges=bridges)
    new = [hit for hit in hits if hit.memory.id not in known]
    page = new[: body.limit]
    if opened.tenant.folder.exists():
        AccessLog(opened.tenant.folder).record([hit.memory.id for hit in page], datetime.now(UTC))
    shown += [hit.memory.id for hit in page]
    more = len(new) > len(page) and len(shown) < cursors.MOST_SEEN
    return models.SearchResponse(
        memories=[_found(hit) for hit in page],
        count=len(page),
        bridges=[models.BridgeOut(**bridge_json(path)) for path in paths],
        next_cursor=cursors.seen(asked_at, shown) if more else None,
    )


def _get(opened: OpenTenant, number: int) -> Memory:
    for memory in opened.tenant.memories.get([number]):
        return memory
    raise NotFoundError(f"There is no memory {number}.")


def _set_state(opened: OpenTenant, number: int, state: State) -> Memory:
    opened.tenant.memories.set_state([number], state)
    return _get(opened, number)


def _relate(opened: OpenTenant, body: models.RelationRequest) -> models.RelationOut:
    stated = StatedRelation(body.source_id, body.target_id, body.type, body.confidence, body.note, stated_by=Source.HTTP)
    for number in (stated.source_id, stated.target_id):
        _get(opened, number)
    number = opened.tenant.relations.state(stated)
    return models.RelationOut(id=number, **body.model_dump())


def _relations(opened: OpenTenant, number: int) -> list[models.RelationOut]:
    _get(opened, number)
    rows = opened.tenant.relations.scan().to_pylist()
    return [models.RelationOut.model_validate(row) for row in rows if number in (row["source_id"], row["target_id"])]


def _health(opened: OpenTenant) -> models.TenantHealth:
    from memory_assets.language.embedders import EmbedderError

    tenant = opened.tenant
    times = tenant.memories.scan(("created_at",), Filters().sql())["created_at"].to_pylist()
    try:
        healthy = len(tenant.embedder.embed(["health"])) == 1
    except EmbedderError:
        healthy = False
    return models.TenantHealth(
        status="healthy",
        tenant=tenant.name,
        memory_count=len(times),
        embedding_count=len(times) if tenant.memories.live_column else 0,
        oldest_memory=min(times, default=None),
        newest_memory=max(times, default=None),
        embedding_provider=tenant.embedder.name,
        embedding_healthy=healthy,
    )
