"""The routes of a tenant, `/api/v1/{tenant}/...`, one for each operation on memories."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from inspect import Parameter, Signature, signature
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_origin, get_type_hints

from fastapi import APIRouter, Body, Depends, Header, Path, Query, Request, Response, Security
from fastapi.exceptions import RequestValidationError
from fastapi.responses import StreamingResponse
from fastapi.routing import APIRoute
from fastapi.security import APIKeyHeader
from pydantic import BaseModel, create_model
from starlette.exceptions import HTTPException

from memory_assets import operations
from memory_assets.api import models
from memory_assets.api.errors import describe_error
from memory_assets.api.middleware import KEY_HEADER, authorise
from memory_assets.api.pool import OpenTenant
from memory_assets.errors import InvalidInputError
from memory_assets.language.validation import validate_line
from memory_assets.mcp.protocol import (
    HANDSHAKE_VERSIONS,
    MODERN_VERSIONS,
    PARSE_ERROR,
    Message,
    Server,
    encode_message,
    error_response,
)
from memory_assets.mcp.tools import Session
from memory_assets.models import TENANT_PATTERN, NewMemory, Source
from memory_assets.operations.answers import View
from memory_assets.operations.arguments import Narrowing
from memory_assets.operations.fields import MAX_ID, MAX_LIMIT, ProposalId
from memory_assets.sources.projects import Project
from memory_assets.stores.rows import derived_id
from memory_assets.tenants import Tenant

PROJECT_HEADER = "X-Memory-Project"
"""Folder of the client's project; without the header all projects are searched."""
STORE_VERSION_HEADER = "X-Memory-Version"
"""Store version of an answer, and the least version that a request wants to see. Needed for tables in object storage only."""
_MAX_DIGITS = 18
_VERSION_HEADER = "MCP-Protocol-Version"
_JSONL = "application/x-ndjson"
_MAX_FAULTS = 5


class TenantRoute(APIRoute):
    """Route that checks the key before anything else in the request."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_authorised(request: Request) -> Response:
            state, name = request.app.state, request.path_params["tenant"]
            credentials = state.settings, name, request.headers.get(KEY_HEADER, "")
            is_remote = state.settings.state_uri is not None
            state.rate_limit.take(await asyncio.to_thread(authorise, *credentials) if is_remote else authorise(*credentials))
            opened = request.state.opened = await state.pool.get(name)
            with opened.serving():
                if (seen := request.headers.get(STORE_VERSION_HEADER, "")).isdecimal():
                    await opened.read(opened.tenant.memories.ensure_version, int(seen[:_MAX_DIGITS]))
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
_Id = Annotated[int, Path(ge=1, le=MAX_ID)]
_IN_PATH = {"memory_id": _Id, "name_id": _Id, "decision": Annotated[str, Path(max_length=40)], "proposal": ProposalId}
_ERROR_STATUSES = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.INTERNAL_SERVER_ERROR,
    HTTPStatus.SERVICE_UNAVAILABLE,
)
IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=200,
        pattern="^[!-~]+$",
        description="Repeated with the same body, even after a restart, it returns the same id and stores nothing twice.",
    ),
]


async def _refuse_unknown_query(request: Request) -> None:
    """Refuse a query such as `?dry_run=true`, which a POST route without that parameter would ignore."""
    known = {each.alias for each in request.scope["route"].dependant.query_params}
    if request.method == "POST" and (unknown := sorted(request.query_params.keys() - known)):
        fault = {"type": "extra", "msg": "is not a parameter in the query of this route"}
        raise RequestValidationError([{"loc": ("query", name), **fault} for name in unknown])


router = APIRouter(
    prefix="/api/v1/{tenant}",
    route_class=TenantRoute,
    dependencies=[
        Security(APIKeyHeader(name=KEY_HEADER, auto_error=False, description="A key of this tenant.")),
        Depends(_refuse_unknown_query),
    ],
    responses={
        **{each.value: {"model": models.ErrorOut, "description": each.phrase} for each in _ERROR_STATUSES},
        "default": {"model": models.ErrorOut, "description": "Another error."},
    },
)


def _document(found: operations.context.AssembledContext, form: str) -> Response:
    return Response(found.document, media_type="application/json" if form == "json" else "text/markdown; charset=utf-8")


_DOCUMENT = {"response_class": Response, "responses": {200: {"content": {"text/markdown": {}, "application/json": {}}}}}
_NARROWING = {
    name: each for name, each in get_type_hints(Narrowing, include_extras=True).items() if get_origin(each) is Annotated
}


def _create_body(
    operation: Callable[..., View], fields: Sequence[str], defaults: Mapping[str, object], base: type[BaseModel]
) -> type[BaseModel]:
    """Create a body model from an operation's parameters; if it takes a `Narrowing`, with the fields of that, too."""
    hints, parameters = get_type_hints(operation, include_extras=True), signature(operation).parameters
    usual = {name: ... if each.default is Parameter.empty else each.default for name, each in parameters.items()}
    taken: Any = {name: (hints[name], defaults.get(name, usual[name])) for name in fields}
    if "narrowed" in parameters:
        taken |= {name: (each, getattr(Narrowing(), name)) for name, each in _NARROWING.items()}
    return create_model(f"{operation.__name__.title()}Request", __base__=base, **taken)


def _add_route(
    route: str,
    operation: Callable[..., View],
    *fields: str,
    defaults: Mapping[str, object] = MappingProxyType({}),
    owns_sources: bool = False,
    name: str = "",
    needs_body: bool = False,
    work: Literal["read", "search", "write"] = "read",
    respond: Callable[..., Response] | None = None,
    **arguments: object,
) -> None:
    """Add a route "METHOD /path/{id}" that calls `operation` with the path's ids, the `fields` in body or query, and `arguments`.

    `needs_body` rejects a request without a body even if all its fields have `defaults`. The operation's id in the schema begins with
    `name`. `owns_sources` admits only the tenant with the silos. `respond` makes the response from the answer and the requested form.
    """
    method, path = route.split()
    in_query = method == "GET"
    base = BaseModel if in_query else models.Request
    body = _create_body(operation, fields, defaults, base) if fields or not in_query else None

    async def serve(opened: OpenTenant, body: BaseModel | None = None, **named: object) -> View | Response:
        asked = body.model_dump() if body else {}
        if _NARROWING.keys() <= asked.keys():
            asked["narrowed"] = Narrowing(**{name: asked.pop(name) for name in _NARROWING})
        answer = await getattr(opened, work)(operation, opened.tenant, *named.values(), **asked, **arguments)
        return respond(answer, asked["form"]) if respond else answer

    takes: dict[str, Any] = {"opened": Sources if owns_sources else Opened}
    takes |= {name: _IN_PATH[name] for name in re.findall(r"{(\w+)}", path)}
    if body:
        may_be_left_out = not needs_body and not any(each.is_required() for each in body.model_fields.values())
        takes["body"] = Annotated[body, Query() if in_query else Body(default_factory=body) if may_be_left_out else Body()]
    parameters = [Parameter(name, Parameter.KEYWORD_ONLY, annotation=each) for name, each in takes.items()]
    vars(serve)["__signature__"] = Signature(parameters)
    answers: dict[str, Any] = _DOCUMENT if respond else {"response_model": get_type_hints(operation)["return"]}
    about = (operation.__doc__ or "").partition("\n\n")[0]
    router.add_api_route(path, serve, methods=[method], name=name or operation.__name__, description=about, **answers)


@router.post("/store")
async def store(
    opened: Opened, body: models.StoreRequest, response: Response, idempotency_key: IdempotencyKey = None
) -> operations.store.StoredMemory:
    """Store a text, in full or not at all. The answer follows the commit and names related memories."""
    memory = NewMemory(**body.model_dump(exclude={"tags"}), tags=tuple(body.tags), source=Source.HTTP)
    stored = await opened.write(_store_once, opened.tenant, memory, idempotency_key)
    response.headers[STORE_VERSION_HEADER] = str(stored.version)
    return stored


def _store_once(tenant: Tenant, memory: NewMemory, key: str | None) -> operations.store.StoredMemory:
    """Store under an id derived from the store and a client's key, so that merged stores never share an id."""
    number = derived_id(f"idempotency-key {tenant.state.claim()}", key) if key else None
    return operations.store.store(tenant, replace(memory, id=number))


@router.get("/health")
async def health(opened: Opened) -> operations.health.Health:
    """Health of this tenant's memory; 503 if it does not work."""
    found = await opened.write(operations.health.health, opened.tenant)
    if found.faults:
        raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, " ".join(found.faults))
    return found


@router.get("/export", response_class=StreamingResponse, responses={200: {"content": {_JSONL: {}}}})
async def export(opened: Opened) -> StreamingResponse:
    """Export all memories in every state as JSON Lines."""
    take = partial(next, operations.exchange.export_lines(opened.tenant), "")
    first = await opened.read(take)

    async def rest() -> AsyncIterator[str]:
        with opened.serving():
            text = first
            while text:
                yield text
                text = await opened.read(take)

    return StreamingResponse(rest(), media_type=_JSONL)


@router.post("/import", openapi_extra={"requestBody": {"required": True, "content": {_JSONL: {"schema": {"type": "string"}}}}})
async def import_(opened: Opened, request: Request, skip_invalid: bool = False) -> operations.exchange.Imported:
    """Import memories from JSON Lines. An existing id is updated, so an import can be repeated."""
    lines, faults = (await request.body()).splitlines(), list[str]()
    options = {"skip_invalid": skip_invalid, "on_fault": faults.append, "on_progress": lambda _done, _total: None}
    try:
        return await opened.write(operations.exchange.import_lines, opened.tenant, "the body", lines, **options)
    except InvalidInputError as error:
        raise HTTPException(HTTPStatus.BAD_REQUEST, " ".join([str(error), *faults[:_MAX_FAULTS]])) from error


_LEARN: Any = {"owns_sources": True, "work": "write"}
_add_route("POST /learn/apply", operations.learn.apply, "confirm", needs_body=True, name="learn_apply", **_LEARN)
_add_route(
    "POST /search",
    operations.search.search,
    *("query", "limit", "bridges", "everything", "cursor"),
    needs_body=True,
    work="search",
)
_add_route("POST /erase", operations.erase.erase, "ids", "matching", "source", "before", "confirm", needs_body=True, work="write")
_add_route("POST /recent", operations.show.recent, "hours", "limit", "cursor", defaults={"hours": 24})
_add_route("POST /timeline", operations.timeline.timeline, "on", "limit", "cursor", "timezone")
_add_route(
    "POST /context",
    operations.context.context,
    *("topics", "depth", "max_tokens", "lens", "form", "include_fields", "history", "offline"),
    work="search",
    respond=_document,
)
_add_route("POST /init", operations.show.init)
_add_route("GET /memories/{memory_id}", operations.show.show)
_add_route("GET /memories/{memory_id}/relations", operations.relate.relations)
_add_route("POST /memories/{memory_id}/forget", operations.changes.forget, work="write")
_add_route("POST /memories/{memory_id}/restore", operations.changes.restore, work="write")
_add_route("POST /memories/{memory_id}/undo", operations.undo.undo, "dry_run", work="write")
_add_route("POST /memories/{memory_id}/edit", operations.changes.edit, "content", source=Source.HTTP, work="write")
_add_route("POST /memories/{memory_id}/tags", operations.changes.tag, "add", "remove", needs_body=True, work="write")
_add_route("POST /memories/{memory_id}/supersede", operations.changes.supersede, "new", work="write")
_add_route("POST /memories/{memory_id}/tell", operations.session.tell_at_start, "told", work="write")
_add_route("GET /conflicts", operations.conflicts.conflicts, "reference", "limit", defaults={"limit": MAX_LIMIT})
_add_route("GET /session", operations.session.preview, "project", name="session")
_add_route("GET /names", operations.names.list_names, "kind", "like", "limit", "cursor", name="names")
_add_route(
    "POST /relations",
    operations.relate.relate,
    *("source", "target", "relation", "confidence", "note"),
    stated_by=Source.HTTP,
    work="write",
)
_add_route("GET /names/decisions", operations.names.list_decisions, name="name_decisions")
_add_route("GET /names/{name_id}", operations.names.show_name, name="name")
_add_route("POST /names/{name_id}/merge", operations.names.merge_names, "into", work="write")
_add_route("POST /names/{name_id}/split", operations.names.split_name, "spelling", work="write")
_add_route("POST /names/decisions/{decision}/undo", operations.names.undo_decision, work="write", name="undo_name_decision")
_add_route("POST /learn/check", operations.learn.check, name="learn_check", **_LEARN)
_add_route(
    "POST /learn/review",
    operations.learn.review,
    *("accept", "reject", "defer", "note", "deeper"),
    name="learn_review",
    **_LEARN,
)
_add_route("POST /learn/proposals/{proposal}/reword", operations.learn.reword, "content", name="learn_reword", **_LEARN)
_add_route("POST /learn/undo", operations.learn.undo, name="learn_undo", **_LEARN)


@router.post("/mcp", include_in_schema=False)
async def mcp(request: Request, opened: Opened) -> Response:
    """Answer an MCP message; a notification gets 202 and no body. An invalid header raises HTTPException or InvalidInputError."""
    spoken = request.headers.get(_VERSION_HEADER, HANDSHAKE_VERSIONS[0])
    if spoken not in (*HANDSHAKE_VERSIONS, *MODERN_VERSIONS):
        raise HTTPException(HTTPStatus.BAD_REQUEST, f"{_VERSION_HEADER}: this service speaks {', '.join(HANDSHAKE_VERSIONS)}.")
    try:
        message = json.loads(await request.body())
    except (ValueError, RecursionError):
        return _json(error_response(None, PARSE_ERROR, "The request body is not JSON."))
    server = Server(Session(opened.tenant, _project(request), may_name_files=False, describe_error=describe_error))
    tool = server.called_tool(message)
    is_write = tool is not None and not tool.read_only
    work = opened.write if is_write else opened.search if tool and tool.asks_embedder else opened.read
    answer = await work(server.answer, message)
    if answer is None:
        return Response(status_code=HTTPStatus.ACCEPTED)
    return _json(answer)


def _json(message: Message) -> Response:
    malformed = message["id"] is None
    status = HTTPStatus.BAD_REQUEST if malformed else HTTPStatus.OK
    return Response(encode_message(message), status, media_type="application/json")


def _project(request: Request) -> Project | None:
    folder = request.headers.get(PROJECT_HEADER, "").rstrip("/")
    with suppress(UnicodeError):  # it was read as Latin-1, which only some clients write
        folder = folder.encode("latin-1").decode()
    validate_line(folder, PROJECT_HEADER)
    return Project.of(folder) if folder else None
