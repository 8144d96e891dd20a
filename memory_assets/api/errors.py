"""Error responses of the service: `{"error", "request_id"}` with a status; details go to the log only.

Every answer and every log line of a request carries its id, in whichever thread the work is done.
"""

import logging
from contextvars import ContextVar
from http import HTTPStatus
from typing import Any
from uuid import uuid4

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from memory_assets.errors import (
    ConflictError,
    InvalidInputError,
    MemoryAssetsError,
    NewerStoreError,
    NotFoundError,
    StoreError,
    UnansweredError,
    is_program_missing,
)
from memory_assets.language.embedders import EmbedderError
from memory_assets.language.process import ProcessingError, Step
from memory_assets.stores.lance import advice_for
from memory_assets.tana.errors import TanaError

REQUEST_ID_HEADER = "X-Request-ID"
_request_id: ContextVar[str] = ContextVar("request_id", default="-")
_log = logging.getLogger(__name__)

_BODY_FAULTS = {"json_invalid": "is not JSON", "missing": "is missing", "model_attributes_type": "is not a JSON object"}
_INTERNAL_ERROR = "An internal error occurred."
_PROGRAM_MISSING = "The program was replaced or removed since the service began; start the service again."
_NEWER_STORE = "store: a newer release wrote the memory store, and nothing was written; start the service again, or upgrade it."
_MAX_FAULTS = 5


def begin_request() -> str:
    """Set and return a new id for the request that this task serves."""
    number = str(uuid4())
    _request_id.set(number)
    return number


def request_id() -> str:
    """Return the id of the current request, or `-` if there is none."""
    return _request_id.get()


def error_response(status: int, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """Return the response for a failed request."""
    body = {"error": message.encode("utf-8", "backslashreplace").decode("utf-8"), "request_id": request_id()}
    return JSONResponse(body, status, {REQUEST_ID_HEADER: request_id(), **(headers or {})})


async def answer_error(_request: Request, error: Exception) -> JSONResponse:
    """Return the response for an exception."""
    match error:
        case RequestValidationError():
            return error_response(
                HTTPStatus.BAD_REQUEST, "; ".join(_describe_fault(each) for each in error.errors()[:_MAX_FAULTS])
            )
        case HTTPException():
            return error_response(error.status_code, error.detail, dict(error.headers or {}))
        case _ if isinstance(error, MemoryAssetsError) or is_program_missing(error):
            return error_response(status_of(error), describe_error(error))
    return error_response(HTTPStatus.INTERNAL_SERVER_ERROR, _INTERNAL_ERROR)


def _describe_fault(fault: dict[str, Any]) -> str:
    where, *path = fault["loc"]
    if where == "body" and (not path or fault["type"] == "json_invalid"):
        what = _BODY_FAULTS.get(fault["type"], str(fault["msg"]))
        return f"The request body {what}: send a JSON object with the header Content-Type: application/json."
    what = "is not a list" if fault["type"] == "sequence_str" else fault["msg"].removeprefix("Value error, ")
    return f"{'.'.join(str(part)[:100] for part in path)}: {what}"


def describe_error(error: Exception) -> str:
    """Return the message for the client, without paths of this machine; log the details of a server error."""
    status = status_of(error)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        _log.error("request failed: %s", error, exc_info=error)
    if is_program_missing(error):
        return _PROGRAM_MISSING
    if isinstance(error, NewerStoreError):
        return _NEWER_STORE
    if isinstance(error, UnansweredError):
        return "store: the object storage does not answer; if this was a change, it may have been made: look, then try again."
    if isinstance(error, StoreError):
        return f"store: the memory store did not do this, and nothing was written; {advice_for(error) or 'try again'}."
    if status is HTTPStatus.INTERNAL_SERVER_ERROR:
        return f"{error.step}: failed; nothing was kept." if isinstance(error, ProcessingError) else _INTERNAL_ERROR
    return str(error)


def status_of(error: Exception) -> HTTPStatus:
    """Return the HTTP status for an error."""
    match error:
        case InvalidInputError() | ProcessingError(step=Step.VALIDATION):
            return HTTPStatus.BAD_REQUEST
        case NotFoundError():
            return HTTPStatus.NOT_FOUND
        case ConflictError():
            return HTTPStatus.CONFLICT
        case StoreError() | EmbedderError() | TanaError() | ProcessingError(step=Step.EMBEDDING):
            return HTTPStatus.SERVICE_UNAVAILABLE
        case _ if is_program_missing(error):
            return HTTPStatus.SERVICE_UNAVAILABLE
        case _:
            return HTTPStatus.INTERNAL_SERVER_ERROR
