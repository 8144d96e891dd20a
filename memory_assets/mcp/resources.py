"""What a client may attach to a conversation: the newest memories, and each memory by its id."""

from typing import Any

from memory_assets.errors import NotFoundError
from memory_assets.mcp.tools import LIST_TOKENS, SHOWN_TOKENS, Session
from memory_assets.operations.given import Narrowing

_SCHEME = "memory://"
_RECENT = f"{_SCHEME}recent"
RESOURCES: list[dict[str, Any]] = [
    {"uri": _RECENT, "name": "recent", "title": "Newest memories", "mimeType": "text/plain"},
]
TEMPLATES: list[dict[str, Any]] = [
    {"uriTemplate": f"{_SCHEME}{{id}}", "name": "memory", "title": "A memory by its id", "mimeType": "text/plain"},
]


def read_resource(session: Session, uri: str) -> str:
    """The text at a URI.

    Raises:
        NotFoundError: there is none.
        StoreError: the store cannot be read.
    """
    if uri == _RECENT:
        from memory_assets.operations.show import recent

        found = recent(session.tenant, narrowed=Narrowing(here=session.here))
        return session.text(found, max_tokens=LIST_TOKENS)
    number = uri.removeprefix(_SCHEME)
    if uri == number or not (number.isascii() and number.isdigit() and len(number) <= len(str(1 << 53))):
        raise NotFoundError(f"There is no resource {uri[:100]}; there are {_RECENT} and {_SCHEME}ID.")
    from memory_assets.operations.show import show

    return session.text(show(session.tenant, int(number)), max_tokens=SHOWN_TOKENS)
