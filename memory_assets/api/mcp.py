"""MCP over streamable HTTP: one JSON-RPC message a POST, answered as JSON, with the tenant's key as on every route."""

import json
from http import HTTPStatus
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from fastapi import Request, Response
from starlette.exceptions import HTTPException

from memory_assets.api.errors import describe_error
from memory_assets.errors import InvalidInputError
from memory_assets.language.validation import validate_line
from memory_assets.mcp.protocol import HANDSHAKE_VERSIONS, MODERN_VERSIONS, PARSE_ERROR, Message, Server, encoded, failure
from memory_assets.mcp.tools import Session
from memory_assets.sources.projects import Project, slug_of

if TYPE_CHECKING:
    from memory_assets.api.pool import OpenTenant

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
    return Project(folder, (folder, slug_of(folder), PurePosixPath(folder).name)) if folder else None
