"""Views: functions from a page to a response, registered with their path.

A view runs in a thread of the service and calls operations directly. It is called only with an open session, and for a form only
with the visitor's CSRF token.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Literal

from markupsafe import Markup
from starlette.datastructures import ImmutableMultiDict
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from memory_assets.errors import InvalidInputError
from memory_assets.models import Memory
from memory_assets.operations.answers import LocalTime, MemoryView
from memory_assets.tenants import Tenant
from memory_assets.ui.rendering import render
from memory_assets.ui.sessions import Message, Session

FormFields = ImmutableMultiDict[str, str]
"""Fields of a form; `get` returns the last one of a name."""
Work = Literal["read", "search", "write"]
"""Threads that a view runs in: `search` if it embeds a question, `write` if it embeds texts or changes much."""

LARGEST_ID = 10**16 - 1


@dataclass(frozen=True)
class Page:
    """Request of an open session."""

    request: Request
    session: Session
    tenant: Tenant
    csrf: str
    form: FormFields = field(default_factory=FormFields)

    @property
    def query(self) -> Mapping[str, str]:
        return self.request.query_params

    @property
    def path(self) -> Mapping[str, Any]:
        return self.request.path_params

    @property
    def csrf_field(self) -> Markup:
        return Markup('<input type="hidden" name="csrf" value="{}">').format(self.csrf)

    @property
    def is_fragment(self) -> bool:
        """Whether htmx sent the request, for typed text or for more of a list."""
        return "HX-Request" in self.request.headers

    @property
    def is_continuation(self) -> bool:
        """Whether htmx asks for more of a list whose beginning the reader sees."""
        return self.is_fragment and bool(self.query.get("cursor"))

    @cached_property
    def local(self) -> LocalTime:
        return LocalTime.of(self.tenant.settings)

    def text(self, name: str) -> str:
        """Return a form field as text with LF line ends, or "" if it was not sent."""
        return self.form.get(name, "").replace("\r\n", "\n").strip()

    def number(self, name: str) -> int | None:
        """Return a form field as the id of a memory or name, or None if it is not an id."""
        text = self.text(name).removeprefix("id").strip()
        return int(text) if text.isascii() and text.isdecimal() and len(text) <= len(str(LARGEST_ID)) else None

    def texts(self, name: str) -> list[str]:
        """Return all values of a form field and query parameter, such as ticked boxes."""
        return [*self.form.getlist(name), *self.request.query_params.getlist(name)]

    def choice(self, name: str, allowed: Sequence[int], otherwise: int) -> int:
        """Return a query parameter that must be one of `allowed`."""
        given = self.query.get(name) or str(otherwise)
        if given not in map(str, allowed):
            raise InvalidInputError(f"{name} is one of {', '.join(map(str, allowed))}.")
        return int(given)

    def render(self, template: str, *, status: int = 200, **values: Any) -> Response:
        """Return the rendered page, of which htmx selects the part it needs."""
        messages = [] if self.is_fragment else self.session.take_messages()
        values |= {"page": self, "local": self.local, "csrf": self.csrf, "messages": messages}
        return Response(render(template, values), status, media_type="text/html")

    def redirect(self, path: str, message: str = "", *, undo: Memory | MemoryView | None = None) -> Response:
        """Redirect to a path below the pages and show `message` there, with an offer to undo the change of the memory `undo`."""
        if message:
            offered = Message(message, undo.id, undo.updated_at.isoformat()) if undo else Message(message)
            self.session.add_message(offered)
        return RedirectResponse(f"{self.request.scope['root_path']}{path}", 303)


@dataclass(frozen=True, slots=True)
class View:
    """Function that answers the requests for a path."""

    path: str
    answer: Callable[[Page], Response]
    method: Literal["GET", "POST"]
    work: Work


VIEWS: list[View] = []


def view(
    path: str, *, work: Work = "read", method: Literal["GET", "POST"] = "GET"
) -> Callable[[Callable[[Page], Response]], Callable[[Page], Response]]:
    """Register a function as the view of a path below the pages, in Starlette's syntax: `/memories/{id:int}`."""

    def register(answer: Callable[[Page], Response]) -> Callable[[Page], Response]:
        VIEWS.append(View(path, answer, method, work))
        return answer

    return register


change = partial(view, work="write", method="POST")
"""Register a function for the forms sent to a path; it usually returns `page.redirect`."""
