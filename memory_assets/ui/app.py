"""The ASGI application of the pages, mounted at /ui: login, logout, static files, security headers, errors, and the views."""

from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from importlib import import_module
from pkgutil import iter_modules
from urllib.parse import parse_qsl

from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memory_assets.api.errors import describe_error, request_id, status_of
from memory_assets.api.middleware import authorise
from memory_assets.errors import ChangedMeanwhileError, InvalidInputError, MemoryAssetsError, NotFoundError
from memory_assets.stores.access_log import recalled_by
from memory_assets.stores.keys import create_link, use_link
from memory_assets.tenants import Tenant, open_states, validate_tenant
from memory_assets.ui import views
from memory_assets.ui.page import LARGEST_ID, VIEWS, FormFields, Page, View
from memory_assets.ui.rendering import assets, render
from memory_assets.ui.sessions import Sessions, new_token

for _module in iter_modules(views.__path__, f"{views.__name__}."):
    import_module(_module.name)  # it registers its views
PATH = "/ui"
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_FORM = "application/x-www-form-urlencoded"
_MAX_FIELDS = 5_000
_HIDDEN_FIELDS = {"seen", "tag", "text"}
"""Hidden fields of forms, or the first word of their names."""
_CACHE_CONTROL = "private, max-age=31536000, immutable"


def mount_pages(app: FastAPI) -> None:
    pages = Pages(app)
    handlers = {HTTPException: pages.show_error, MemoryAssetsError: pages.show_error, Exception: pages.show_error}
    routes = [
        Route("/static/{digest}/{name}", _send_asset),
        Route("/login", pages.ask_for_key, methods=["GET"]),
        Route("/login", pages.log_in, methods=["POST"]),
        Route("/open/{tenant}/{token}", pages.open_link),
        Route("/logout", pages.log_out, methods=["POST"]),
        *(Route(each.path, pages.answer(each), methods=[each.method], name=each.path) for each in VIEWS),
    ]
    inner = Starlette(routes=routes, exception_handlers=handlers)
    inner.router.redirect_slashes = False
    for path in ("/", PATH):
        app.add_api_route(path, _redirect_to_pages, include_in_schema=False)
    app.mount(PATH, _SecurityHeaders(inner))


def one_time_address(tenant: Tenant, service: str) -> str:
    """Return an address below `service` that opens a tenant's pages once; create the tenant's store if it has none."""
    tenant.state.claim()
    return f"{service}{PATH}/open/{tenant.name}/{create_link(tenant.state)}"


async def _redirect_to_pages() -> RedirectResponse:
    return RedirectResponse(f"{PATH}/", HTTPStatus.SEE_OTHER)


async def _send_asset(request: Request) -> Response:
    found = assets().get(request.path_params["name"])
    if found is None:
        raise HTTPException(HTTPStatus.NOT_FOUND, "There is no such file.")
    content, kind = found
    return Response(content, media_type=kind, headers={"Cache-Control": _CACHE_CONTROL})


class _SecurityHeaders:
    """Adds the security headers to every response. Starlette's BaseHTTPMiddleware would hide exceptions of `receive` from the handlers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_guarded)


class Pages:
    """Endpoints of the pages, with the state and sessions that they share."""

    def __init__(self, app: FastAPI) -> None:
        self._state = app.state
        self._sessions = Sessions(app.state.settings)

    async def ask_for_key(self, request: Request) -> Response:
        return self._logged_out(request, _token_of(request) or new_token())

    async def log_in(self, request: Request) -> Response:
        token = _token_of(request)
        form = await _read_form(request)
        if not self._sessions.may_change(token, form.get("csrf", "")):
            if request.headers.get("Sec-Fetch-Site") == "cross-site":  # sent without the cookie, which a new one would replace
                raise _stale_form()
            return self._logged_out(request, token or new_token(), "This form was open for too long; log in again.")
        tenant, key = form.get("tenant", "").strip(), form.get("key", "").strip()
        try:
            found = authorise(self._state.settings, tenant, key)
        except HTTPException:
            return self._logged_out(request, token, "This key does not open this memory.", tenant)
        return self._logged_in(request, tenant, found.id)

    async def open_link(self, request: Request) -> Response:
        try:
            tenant = validate_tenant(request.path_params["tenant"])
        except InvalidInputError:
            tenant = ""
        if not tenant or not use_link(open_states(self._state.settings).open(tenant), request.path_params["token"]):
            message = "This link was used already, or is too old; run `memory ui` for another one, or log in with a key."
            return self._logged_out(request, _token_of(request) or new_token(), message)
        return self._logged_in(request, tenant)

    async def log_out(self, request: Request) -> Response:
        token = _token_of(request)
        form = await _read_form(request)
        if not self._sessions.may_change(token, form.get("csrf", "")):
            raise _stale_form()
        self._sessions.end(token)
        return _with_cookie(request, RedirectResponse(f"{PATH}/login", HTTPStatus.SEE_OTHER), new_token())

    def answer(self, view: View) -> Callable[[Request], Awaitable[Response]]:
        """Return the endpoint of a view, which checks session, form and path."""

        async def endpoint(request: Request) -> Response:
            token = _token_of(request)
            session = self._sessions.find(token)
            if session is None:
                response = RedirectResponse(f"{PATH}/login", HTTPStatus.SEE_OTHER)
                if "HX-Request" in request.headers:
                    response = Response(status_code=HTTPStatus.NO_CONTENT, headers={"HX-Redirect": f"{PATH}/login"})
                elif view.method == "POST" and request.headers.get("Sec-Fetch-Site") == "same-origin":  # from a page of ours
                    form, message = await _read_form(request), "Your session has ended, and nothing was changed; log in again."
                    response = self._logged_out(request, token or new_token(), message, written=_typed_texts(form))
                return response
            if any(isinstance(each, int) and each > LARGEST_ID for each in request.path_params.values()):
                raise HTTPException(HTTPStatus.NOT_FOUND, "Nothing has this number.")
            form = await _read_form(request) if view.method == "POST" else FormFields()
            may_change = view.method != "POST" or self._sessions.may_change(token, form.get("csrf", ""))
            if may_change or request.headers.get("Sec-Fetch-Site") == "same-origin":
                request.state.written = _typed_texts(form)
            if not may_change:
                raise _stale_form()
            try:
                opened = await self._state.pool.get(session.tenant)
            except NotFoundError:
                self._sessions.end(token)
                return RedirectResponse(f"{PATH}/login", HTTPStatus.SEE_OTHER)
            page = request.state.page = Page(request, session, opened.tenant, self._sessions.csrf_of(token), form)
            recalled_by.set("page")
            with opened.serving():
                return await getattr(opened, view.work)(view.answer, page)

        return endpoint

    async def show_error(self, request: Request, error: Exception) -> Response:
        is_http = isinstance(error, HTTPException)
        status = error.status_code if is_http else status_of(error)
        values = {
            "code": int(status),
            "changed": isinstance(error, ChangedMeanwhileError),
            "message": error.detail if is_http else describe_error(error),
            "request_id": request_id(),
            "written": getattr(request.state, "written", ()),
        }
        page: Page | None = getattr(request.state, "page", None)
        if page:
            return page.render("error.html", status=status, **values)
        shown = render("error.html", {"page": None, "messages": [], **values})
        return Response(shown, status, media_type="text/html")

    def _logged_out(
        self, request: Request, token: str, message: str = "", tenant: str = "", written: Sequence[str] = ()
    ) -> Response:
        values = {"page": None, "messages": [], "csrf": self._sessions.csrf_of(token), "message": message, "written": written}
        values["tenant"] = tenant or self._state.settings.tenant
        status = HTTPStatus.FORBIDDEN if message else HTTPStatus.OK
        return _with_cookie(request, Response(render("login.html", values), status, media_type="text/html"), token)

    def _logged_in(self, request: Request, tenant: str, key: str = "") -> Response:
        self._sessions.end(_token_of(request))
        return _with_cookie(request, RedirectResponse(f"{PATH}/", HTTPStatus.SEE_OTHER), self._sessions.begin(tenant, key))


async def _read_form(request: Request) -> FormFields:
    kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind != _FORM:
        raise HTTPException(HTTPStatus.BAD_REQUEST, f"This is not a form; send it as {_FORM}.")
    try:
        fields = parse_qsl((await request.body()).decode("ascii"), keep_blank_values=True, max_num_fields=_MAX_FIELDS)
    except ValueError as error:
        raise HTTPException(HTTPStatus.BAD_REQUEST, "This form cannot be read; open the page again.") from error
    return FormFields(fields)


def _typed_texts(form: FormFields) -> list[str]:
    """Return the texts of more than a word that somebody typed into a form."""
    return [text for name, text in form.multi_items() if " " in text.strip() and name.partition(" ")[0] not in _HIDDEN_FIELDS]


def _stale_form() -> HTTPException:
    message = "This form does not belong to your session, and nothing was changed; open the page again."
    return HTTPException(HTTPStatus.FORBIDDEN, message)


def _cookie_name(request: Request) -> str:
    """Return a cookie name with the port, since browsers send a host's cookies to all its ports."""
    return f"memory_{(request.scope.get('server') or ('', 0))[1]}"


def _token_of(request: Request) -> str:
    return request.cookies.get(_cookie_name(request), "")


def _with_cookie(request: Request, response: Response, token: str) -> Response:
    is_secure = "https" in (request.url.scheme, request.headers.get("X-Forwarded-Proto", ""))
    response.set_cookie(_cookie_name(request), token, path=PATH, httponly=True, samesite="lax", secure=is_secure)
    return response
