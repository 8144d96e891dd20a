"""What belongs to one request wherever its work is done: its id, which every answer and every log line carries."""

from contextvars import ContextVar
from uuid import uuid4

REQUEST_ID_HEADER = "X-Request-ID"

_request_id: ContextVar[str] = ContextVar("request_id", default="-")


def begin_request() -> str:
    """Give the request that this task serves an id of its own."""
    number = str(uuid4())
    _request_id.set(number)
    return number


def request_id() -> str:
    """The id of the request being served; `-` outside of one."""
    return _request_id.get()
