"""What a view is made of: a function from a page to a response, registered with its path.

A view runs in a thread of the service, so it calls operations directly. It never sees a request without an open session, nor a form
whose CSRF token is not the visitor's.
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
"""The fields of a form; of several of one name, `get` gives the last."""
Work = Literal["read", "search", "write"]
"""Which threads of the service a view runs in: `search` if it embeds a question, `write` if it embeds texts or changes much."""


LARGEST_ID = 10**16 - 1
"""Of a memory or a name."""


@dataclass(frozen=True)
class Page:
    """One request of an open session."""

    request: Request
    session: Session
    tenant: Tenant
    csrf: str
    form: FormFields = field(default_factory=FormFields)
    """What was sent with POST."""

    @property
    def query(self) -> Mapping[str, str]:
        """The parameters of the address."""
        return self.request.query_params

    @property
    def path(self) -> Mapping[str, Any]:
        """The parts of the path that the view's pattern names, such as `id`."""
        return self.request.path_params

    @property
    def csrf_field(self) -> Markup:
        """The hidden field that every form needs."""
        return Markup('<input type="hidden" name="csrf" value="{}">').format(self.csrf)

    @property
    def is_fragment(self) -> bool:
        """Whether htmx asks, because somebody types or wants more of a list."""
        return "HX-Request" in self.request.headers

    @cached_property
    def local(self) -> LocalTime:
        """The reader's clock."""
        return LocalTime.of(self.tenant.settings)

    def text(self, name: str) -> str:
        """A field of the form as text, with line feeds alone; empty if it was not sent."""
        return self.form.get(name, "").replace("\r\n", "\n").strip()

    def number(self, name: str) -> int | None:
        """A field of the form as the id of a memory or name; None if it is none."""
        text = self.text(name).removeprefix("id").strip()
        return int(text) if text.isascii() and text.isdecimal() and len(text) <= len(str(LARGEST_ID)) else None

    def texts(self, name: str) -> list[str]:
        """All values of a field of the form, or of a parameter of the address: boxes that are ticked."""
        return [*self.form.getlist(name), *self.request.query_params.getlist(name)]

    def choice(self, name: str, allowed: Sequence[int], otherwise: int) -> int:
        """A parameter of the address that is one of some numbers."""
        given = self.query.get(name) or str(otherwise)
        if given not in map(str, allowed):
            raise InvalidInputError(f"{name} is one of {', '.join(map(str, allowed))}.")
        return int(given)

    def render(self, template: str, *, status: int = 200, **values: Any) -> Response:
        """The page. htmx selects the part of it that it needs."""
        messages = [] if self.is_fragment else self.session.take_messages()
        values |= {"page": self, "local": self.local, "csrf": self.csrf, "messages": messages}
        return Response(render(template, values), status, media_type="text/html")

    def redirect(self, path: str, message: str = "", *, undo: Memory | MemoryView | None = None) -> Response:
        """Go on to a path below the pages, and say `message` there; `undo` is a changed memory, whose change can be undone."""
        if message:
            offered = Message(message, undo.id, undo.updated_at.isoformat()) if undo else Message(message)
            self.session.say(offered)
        return RedirectResponse(f"{self.request.scope['root_path']}{path}", 303)


@dataclass(frozen=True, slots=True)
class View:
    """A function that answers the requests for a path."""

    path: str
    answer: Callable[[Page], Response]
    method: Literal["GET", "POST"]
    work: Work


VIEWS: list[View] = []
"""All views of the imported modules."""


def view(
    path: str, *, work: Work = "read", method: Literal["GET", "POST"] = "GET"
) -> Callable[[Callable[[Page], Response]], Callable[[Page], Response]]:
    """Show a function's answer at a path below the pages, in the form of Starlette's routes: `/memories/{id:int}`."""

    def register(answer: Callable[[Page], Response]) -> Callable[[Page], Response]:
        VIEWS.append(View(path, answer, method, work))
        return answer

    return register


change = partial(view, work="write", method="POST")
"""Do what a form asks that is sent to a path; the function usually answers with `page.redirect`."""
