"""MCP over streamable HTTP: one JSON-RPC message a POST, answered as JSON, with the tenant's key as on every route."""

import asyncio
import json
from http import HTTPStatus
from typing import TYPE_CHECKING

from fastapi import Request, Response
from starlette.exceptions import HTTPException

from memory_assets.api.errors import told
from memory_assets.errors import InvalidInputError
from memory_assets.language.validation import validate_line
from memory_assets.mcp.protocol import HANDSHAKE_VERSIONS, MODERN_VERSIONS, PARSE_ERROR, Message, Server, encoded, failure
from memory_assets.mcp.tools import Session
from memory_assets.sources.projects import Project, slug_of

if TYPE_CHECKING:
    from memory_assets.api.pool import OpenTenant
    from memory_assets.models import NewMemory
    from memory_assets.operations.store import StoredMemory
    from memory_assets.tenants import Tenant

PROJECT_HEADER = "X-Memory-Project"
"""The folder of the project that a client works in; without it all projects are at hand."""
_VERSION_HEADER = "MCP-Protocol-Version"


async def answer(request: Request, opened: "OpenTenant") -> Response:
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
    loop = asyncio.get_running_loop()

    def keep(_tenant: "Tenant", given: "NewMemory") -> "StoredMemory":
        return asyncio.run_coroutine_threadsafe(opened.writer.store(given), loop).result()

    session = Session(opened.tenant, _project(request), keep, may_name_files=False, told=told)
    server = Server(session, all_tools=opened.tenant.settings.mcp_tools == "all")
    work = opened.search if server.asks_embedder(message) else opened.read
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
    return Project(folder, (folder, slug_of(folder))) if folder else None
