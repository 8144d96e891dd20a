"""The routes of one tenant, `/api/v1/{tenant}/...`: a route for each operation on memories."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import fields
from http import HTTPStatus
from typing import Annotated, Any, get_type_hints

from fastapi import APIRouter, Body, Depends, Header, Path, Query, Request, Response, Security
from fastapi.responses import StreamingResponse
from fastapi.routing import APIRoute
from fastapi.security import APIKeyHeader
from starlette.exceptions import HTTPException

from memory_assets import operations
from memory_assets.api import models
from memory_assets.api.errors import describe_error
from memory_assets.api.middleware import KEY_HEADER, authorised
from memory_assets.api.pool import OpenTenant
from memory_assets.errors import InvalidInputError
from memory_assets.language.validation import validate_line
from memory_assets.mcp.protocol import HANDSHAKE_VERSIONS, MODERN_VERSIONS, PARSE_ERROR, Message, Server, encoded, failure
from memory_assets.mcp.tools import Session
from memory_assets.models import TENANT_PATTERN, NewMemory, Source
from memory_assets.operations.answers import Answer
from memory_assets.sources.projects import Project
from memory_assets.stores.rows import derived_id

PROJECT_HEADER = "X-Memory-Project"
"""The folder of the project that a client works in; without it all projects are at hand."""
STORE_VERSION_HEADER = "X-Memory-Version"
"""The version of the store that an answer holds, and that a request wants to see at least: needed for tables in object storage alone."""
_MOST_DIGITS = 18
_VERSION_HEADER = "MCP-Protocol-Version"
_JSONL = "application/x-ndjson"
_MOST_FAULTS = 5
"""Lines of an import that its answer names."""


class TenantRoute(APIRoute):
    """A route that looks at the key before it looks at anything else of the request."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """See `APIRoute.get_route_handler`."""
        handle = super().get_route_handler()

        async def handle_authorised(request: Request) -> Response:
            state, name = request.app.state, request.path_params["tenant"]
            given = state.settings, name, request.headers.get(KEY_HEADER, "")
            is_remote = state.settings.state_uri is not None
            state.rate_limit.take(await asyncio.to_thread(authorised, *given) if is_remote else authorised(*given))
            opened = request.state.opened = await state.pool.get(name)
            with opened.serving():
                if (seen := request.headers.get(STORE_VERSION_HEADER, "")).isdecimal():
                    await opened.read(opened.tenant.memories.reach, int(seen[:_MOST_DIGITS]))
                return await handle(request)

        return handle_authorised


async def _opened(request: Request, tenant: Annotated[str, Path(pattern=TENANT_PATTERN, max_length=63)]) -> OpenTenant:  # noqa: ARG001
    return request.state.opened


Opened = Annotated[OpenTenant, Depends(_opened)]


async def _owner_of_sources(opened: Opened) -> OpenTenant:
    if not opened.tenant.is_sources_tenant:
        raise HTTPException(HTTPStatus.BAD_REQUEST, "The silos of this machine belong to another tenant.")
    return opened


Sources = Annotated[OpenTenant, Depends(_owner_of_sources)]
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
_CHANGE = _NOT_FOUND | _answers(HTTPStatus.CONFLICT)


def _serve_memory(method: str, action: str, operation: Callable[..., Answer], errors: dict[int | str, dict[str, Any]]) -> None:
    """Add the route of an operation that takes the id of a memory and nothing else."""

    async def serve(opened: Opened, memory_id: MemoryIdInPath) -> Answer:
        return await opened.read(operation, opened.tenant, memory_id)

    described = {
        "name": operation.__name__,
        "description": (operation.__doc__ or "").partition("\n\n")[0],
        "response_model": get_type_hints(operation)["return"],
    }
    router.add_api_route(f"/memories/{{memory_id}}{action}", serve, methods=[method], responses=errors, **described)


@router.post("/store", responses=_answers(HTTPStatus.CONFLICT))
async def store(
    opened: Opened, body: models.StoreRequest, response: Response, idempotency_key: IdempotencyKey = None
) -> operations.store.StoredMemory:
    """Remember a text, whole or not at all; answers after the commit, with what the text stirs up."""
    number = derived_id("idempotency-key", idempotency_key) if idempotency_key else None
    attributes = body.model_dump(exclude={"tags"})
    given = NewMemory(**attributes, tags=tuple(body.tags), source=Source.HTTP, id=number)
    stored = await opened.write(operations.store.store, opened.tenant, given)
    response.headers[STORE_VERSION_HEADER] = str(stored.version)
    return stored


@router.post("/search")
async def search(opened: Opened, body: models.SearchRequest) -> operations.search.Found:
    """Find memories by meaning, words and what else speaks for them; an empty query finds the newest."""
    options = {"limit": body.limit, "bridges": body.bridges, "cursor": body.cursor, "everything": body.all}
    return await opened.search(operations.search.search, opened.tenant, body.query, narrowed=_narrowed(body), **options)


@router.post("/context", response_class=Response, responses={200: {"content": {"text/markdown": {}, "application/json": {}}}})
async def context(opened: Opened, body: models.ContextRequest) -> Response:
    """Everything relevant about some topics within a budget of tokens: Markdown, or a JSON object."""
    options = body.model_dump(exclude={"topics", "format"})
    found = await opened.search(operations.context.context, opened.tenant, body.topics, form=body.format, **options)
    kind = "application/json" if body.format == "json" else "text/markdown; charset=utf-8"
    return Response(found.document, media_type=kind)


@router.post("/recent")
async def recent(
    opened: Opened, body: Annotated[models.RecentRequest, Body(default_factory=lambda: models.RecentRequest.model_validate({}))]
) -> operations.show.RecentMemories:
    """The newest memories of a span of time, newest first."""
    options = {"limit": body.limit, "hours": body.hours, "cursor": body.cursor}
    return await opened.read(operations.show.recent, opened.tenant, narrowed=_narrowed(body), **options)


@router.post("/init")
async def init(
    opened: Opened,
    body: Annotated[models.InitRequest, Body(default_factory=models.InitRequest)],  # noqa: ARG001
) -> operations.show.SessionStart:
    """What a session begins with: the time, and what was remembered in the last day."""
    return await opened.read(operations.show.init, opened.tenant)


@router.get("/health")
async def health(opened: Opened) -> operations.health.Health:
    """How this tenant's memory is; 503 where it cannot work."""
    found = await opened.write(operations.health.health, opened.tenant)
    if found.faults:
        raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, " ".join(found.faults))
    return found


for _method, _action, _operation, _errors in (
    ("GET", "", operations.show.show, _NOT_FOUND),
    ("GET", "/relations", operations.relate.relations, _NOT_FOUND),
    ("POST", "/forget", operations.changes.forget, _CHANGE),
    ("POST", "/restore", operations.changes.restore, _CHANGE),
    ("POST", "/undo", operations.undo.undo, _CHANGE),
):
    _serve_memory(_method, _action, _operation, _errors)


@router.post("/erase", responses=_NOT_FOUND)
async def erase(opened: Opened, body: models.EraseRequest) -> operations.erase.Erased:
    """Remove memories for good, so that no file holds their texts; without `confirm`, show what would go."""
    chosen = operations.erase.Chosen(body.ids, body.matching, body.source, body.before)
    return await opened.read(operations.erase.erase if body.confirm else operations.erase.preview, opened.tenant, chosen)


@router.post("/memories/{memory_id}/edit", responses=_CHANGE)
async def edit(opened: Opened, memory_id: MemoryIdInPath, body: models.EditRequest) -> operations.changes.EditedMemory:
    """Correct what a memory says; a newer version takes its place, and the old one stays as history."""
    return await opened.write(operations.changes.edit, opened.tenant, memory_id, body.content, source=Source.HTTP)


@router.post("/memories/{memory_id}/tags", responses=_CHANGE)
async def tag(opened: Opened, memory_id: MemoryIdInPath, body: models.TagRequest) -> operations.changes.ChangedMemory:
    """Give a memory tags, and take some from it."""
    return await opened.read(operations.changes.tag, opened.tenant, memory_id, add=body.add, remove=body.remove)


@router.post("/memories/{memory_id}/supersede", responses=_CHANGE)
async def supersede(opened: Opened, memory_id: MemoryIdInPath, body: models.SupersedeRequest) -> operations.changes.ChangedMemory:
    """Let another memory take the place of this one, which no longer holds and stays as history."""
    return await opened.read(operations.changes.supersede, opened.tenant, memory_id, body.new_id)


@router.get("/export", response_class=StreamingResponse, responses={200: {"content": {_JSONL: {}}}})
async def export(opened: Opened) -> StreamingResponse:
    """All memories in every state, as JSON Lines."""
    lines = operations.exchange.exported_lines(opened.tenant)
    first = await opened.read(_next_lines, lines)

    async def rest() -> AsyncIterator[str]:
        with opened.serving():
            text = first
            while text:
                yield text
                text = await opened.read(_next_lines, lines)

    return StreamingResponse(rest(), media_type=_JSONL)


@router.post("/import", openapi_extra={"requestBody": {"required": True, "content": {_JSONL: {"schema": {"type": "string"}}}}})
async def import_(opened: Opened, request: Request, skip_invalid: bool = False) -> operations.exchange.Imported:
    """Take in memories from JSON Lines. An id that is already there is updated, so an import can be sent again."""
    lines, faults = (await request.body()).splitlines(), list[str]()
    options = {"skip_invalid": skip_invalid, "on_fault": faults.append, "on_progress": lambda _done, _total: None}
    try:
        return await opened.write(operations.exchange.import_lines, opened.tenant, "the body", lines, **options)
    except InvalidInputError as error:
        raise HTTPException(HTTPStatus.BAD_REQUEST, " ".join([str(error), *faults[:_MOST_FAULTS]])) from error


@router.get("/conflicts", responses=_NOT_FOUND)
async def conflicts(opened: Opened, memory_id: int | None = None) -> operations.conflicts.Conflicts:
    """Memories that contradict each other and are both held to be true; a stated RELATES_TO says that both hold."""
    return await opened.read(operations.conflicts.conflicts, opened.tenant, memory_id)


@router.post("/relations", responses=_NOT_FOUND | _answers(HTTPStatus.CONFLICT))
async def relate(opened: Opened, body: models.RelationRequest) -> operations.relate.Relation:
    """State how one memory relates to another; stating it again replaces its confidence and note."""
    options = {"confidence": body.confidence, "note": body.note, "stated_by": Source.HTTP}
    return await opened.read(operations.relate.relate, opened.tenant, body.source_id, body.type, body.target_id, **options)


@router.get("/names")
async def names(
    opened: Opened,
    kind: Annotated[str, Query(alias="type", max_length=40)] = "",
    like: Annotated[str, Query(max_length=200)] = "",
    limit: Annotated[int, Query(ge=1, le=models.MAX_LIMIT)] = 50,
    cursor: Annotated[str | None, Query(max_length=40)] = None,
) -> operations.names.Names:
    """People, projects and things that memories name, the most mentioned first."""
    return await opened.read(operations.names.list_names, opened.tenant, kind=kind, like=like, limit=limit, cursor=cursor)


@router.get("/names/decisions")
async def name_decisions(opened: Opened) -> operations.names.Decisions:
    """What was decided about names, the latest first."""
    return await opened.read(operations.names.list_decisions, opened.tenant)


@router.get("/names/{name_id}", responses=_NOT_FOUND)
async def name(opened: Opened, name_id: MemoryIdInPath) -> operations.names.ShownName:
    """A name with its spellings and those that may mean the same."""
    return await opened.read(operations.names.show_name, opened.tenant, name_id)


@router.post("/names/{name_id}/merge", responses=_NOT_FOUND)
async def merge_names(opened: Opened, name_id: MemoryIdInPath, body: models.MergeRequest) -> operations.names.Decided:
    """Say that two names mean the same; every run respects it."""
    return await opened.write(operations.names.merge_names, opened.tenant, name_id, body.into)


@router.post("/names/{name_id}/split", responses=_NOT_FOUND)
async def split_name(opened: Opened, name_id: MemoryIdInPath, body: models.SplitRequest) -> operations.names.Decided:
    """Say that a spelling of a name means something else."""
    return await opened.write(operations.names.split_name, opened.tenant, name_id, body.spelling)


@router.post("/names/decisions/{decision}/undo", responses=_NOT_FOUND)
async def undo_name_decision(opened: Opened, decision: Annotated[str, Path(max_length=40)]) -> operations.names.Decided:
    """Take a decision about names back."""
    return await opened.write(operations.names.undo_decision, opened.tenant, decision)


@router.post("/timeline")
async def timeline(
    opened: Opened,
    body: Annotated[models.TimelineRequest, Body(default_factory=lambda: models.TimelineRequest.model_validate({}))],
) -> operations.timeline.Learned | operations.timeline.Held:
    """How many memories are of each day, week, month or year; with `on`, those that held at the end of that day."""
    if body.on is None:
        return await opened.read(operations.timeline.learned, opened.tenant, _narrowed(body))
    page = {"limit": body.limit, "cursor": body.cursor}
    return await opened.read(operations.timeline.held_on, opened.tenant, body.on, _narrowed(body), **page)


@router.get("/session")
async def session(opened: Opened, project: Annotated[str, Query(max_length=200)] = "") -> operations.session.SessionPreview:
    """What a session in a project is told at its start."""
    return await opened.read(operations.session.preview, opened.tenant, project)


@router.post("/memories/{memory_id}/tell", responses=_NOT_FOUND)
async def tell_at_start(opened: Opened, memory_id: MemoryIdInPath, body: models.TellRequest) -> operations.session.ToldAtStart:
    """Let sessions begin with a memory where it fits, or without it; it stays in recall."""
    return await opened.read(operations.session.tell_at_start, opened.tenant, memory_id, told=body.told)


@router.post("/learn/check")
async def learn_check(opened: Sources) -> operations.learn.CheckAnswer:
    """Look through silos, reflections and ratings, and propose; no silo is touched."""
    return await opened.write(operations.learn.check, opened.tenant)


@router.post("/learn/review", responses=_NOT_FOUND)
async def learn_review(
    opened: Sources, body: Annotated[models.ReviewRequest, Body(default_factory=lambda: models.ReviewRequest.model_validate({}))]
) -> operations.learn.ReviewAnswer:
    """Decide on proposals; without a decision, list those that are open. The next apply carries out what is accepted."""
    return await opened.write(operations.learn.review, opened.tenant, **body.model_dump())


@router.post("/learn/proposals/{proposal}/reword", responses=_NOT_FOUND)
async def learn_reword(opened: Sources, proposal: models.ProposalId, body: models.EditRequest) -> operations.learn.ReviewAnswer:
    """Write a proposal's text: its first paragraph is the description, the rest the body."""
    return await opened.write(operations.learn.reword, opened.tenant, proposal, body.content)


@router.post("/learn/apply", responses=_answers(HTTPStatus.CONFLICT))
async def learn_apply(opened: Sources, body: models.ApplyRequest) -> operations.learn.ApplyAnswer:
    """Move what was decided into the canonical homes and delete its silo files; without `confirm`, show what would be done."""
    return await opened.write(operations.learn.apply, opened.tenant, dry_run=not body.confirm)


@router.post("/learn/undo", responses=_CHANGE)
async def learn_undo(opened: Sources) -> operations.learn.UndoAnswer:
    """Take the last apply back: the silo files return, and the canonical files are as they were."""
    return await opened.write(operations.learn.undo, opened.tenant)


@router.post("/mcp", include_in_schema=False)
async def mcp(opened: Opened, request: Request) -> Response:
    """MCP for an assistant; its own messages describe it."""
    return await answer_message(request, opened)


def _next_lines(lines: Iterator[str]) -> str:
    return next(lines, "")


def _narrowed(body: models.SearchRequest | models.RecentRequest | models.TimelineRequest) -> operations.given.Narrowing:
    names = {field.name for field in fields(operations.given.Narrowing)} & type(body).model_fields.keys()
    return operations.given.Narrowing(**body.model_dump(include=names))


async def answer_message(request: Request, opened: OpenTenant) -> Response:
    """Answer one message; a notification gets 202 and no body.

    Raises:
        HTTPException: 400, a header cannot be used.
    """
    spoken = request.headers.get(_VERSION_HEADER, HANDSHAKE_VERSIONS[0])
    if spoken not in (*HANDSHAKE_VERSIONS, *MODERN_VERSIONS):
        raise HTTPException(HTTPStatus.BAD_REQUEST, f"{_VERSION_HEADER}: this service speaks {', '.join(HANDSHAKE_VERSIONS)}.")
    try:
        message = json.loads(await request.body())
    except (ValueError, RecursionError):
        return _json(failure(None, PARSE_ERROR, "The request body is not JSON."))
    session = Session(opened.tenant, _project(request), may_name_files=False, describe_error=describe_error)
    server = Server(session, all_tools=opened.tenant.settings.mcp_tools == "all")
    tool = server.called_tool(message)
    work = opened.read if tool is None or not tool.asks_embedder else opened.search if tool.read_only else opened.write
    answered = await work(server.answer, message)
    if answered is None:
        return Response(status_code=HTTPStatus.ACCEPTED)
    return _json(answered)


def _json(message: Message) -> Response:
    malformed = message["id"] is None
    status = HTTPStatus.BAD_REQUEST if malformed else HTTPStatus.OK
    return Response(encoded(message), status, media_type="application/json")


def _project(request: Request) -> Project | None:
    folder = request.headers.get(PROJECT_HEADER, "").rstrip("/")
    try:
        validate_line(folder, PROJECT_HEADER)
    except InvalidInputError as error:
        raise HTTPException(HTTPStatus.BAD_REQUEST, str(error)) from error
    return Project.of(folder) if folder else None
