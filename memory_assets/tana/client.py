"""Tana's Local API (port 8262 of Tana Desktop), typed, with what its OpenAPI document does not say.

Every search names its workspace, because Tana otherwise looks in the one that is open; nodes in the trash are left out unless asked
for; no boolean is ever a query parameter, since Tana refuses them. A call that is safe to repeat is tried again with growing waits; a
call that would add something twice is not, unless Tana surely did nothing.
"""

import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from memory_assets.http import Service
from memory_assets.sources.dating import utc_time
from memory_assets.tana.errors import (
    NoTokenError,
    TanaAwayError,
    TanaError,
    TanaFaultError,
    TanaNotFoundError,
    TanaRefusedError,
    TanaTokenError,
    TanaUncertainError,
)

if TYPE_CHECKING:
    from concurrent.futures import Future

    import httpx

    from memory_assets.settings import Settings

MOST_FOUND = 100
"""Nodes that one search lists at most; there is no next page."""
PAGE = 200
"""Children or tags that one page holds at most."""
MOST_CONDITIONS = 20
"""Conditions that one `and` or `or` holds at most."""

_TRIES = 4
_FIRST_WAIT_S = 0.2
_LONGEST_WAIT_S = 10.0
_AT_ONCE = 4
"""Requests under way at once: Tana answers from the same process that draws its window."""
_TRY_AGAIN = frozenset({429, 502, 503, 504})
_NOT_BEGUN = frozenset({429, 503})
"""Answers that mean Tana did nothing."""
_KEYRING = ("memory_assets", "tana")

Query = Mapping[str, Any]
"""A condition of `nodes/search`, as tana-openapi.json has it: `{"and": [{"hasType": ID}, {"textContains": "x"}]}`."""
DataType = Literal["plain", "number", "date", "url", "email", "checkbox", "user", "instance", "options"]


@dataclass(frozen=True, slots=True)
class Workspace:
    """A workspace of the user."""

    id: str
    name: str
    home: str

    @property
    def library(self) -> str:
        """The node that holds what belongs nowhere else."""
        return f"{self.id}_STASH"


@dataclass(frozen=True, slots=True)
class Tag:
    """A supertag."""

    id: str
    name: str


@dataclass(frozen=True, slots=True)
class Node:
    """A node as a search or a list of children gives it."""

    id: str
    name: str
    tags: tuple[Tag, ...]
    doc_type: str
    created: datetime | None
    description: str = ""
    in_trash: bool = False
    breadcrumb: tuple[str, ...] = ()
    """Names of its owners; empty in a list of children."""
    workspace: str = ""
    """Empty in a list of children."""
    children: int | None = None
    """How many it has; None in search results."""


@dataclass(frozen=True, slots=True)
class Text:
    """A node as Markdown; `memory_assets.tana.markdown` reads it."""

    markdown: str
    name: str
    description: str


class TanaClient:
    """Asks one Tana.

    Every method raises:
        TanaAwayError: it is not running, does not answer in time, or is overloaded for longer than is waited.
        TanaTokenError: it does not accept the token.
        TanaRefusedError: it does not accept the request; TanaNotFoundError where a node is not there.
        TanaFaultError: it failed on this request.
    And those that change something:
        TanaUncertainError: the answer was lost.
    """

    def __init__(self, service: Service, *, wait: Callable[[float], None] = time.sleep) -> None:
        """Ask through `service`; `wait` sleeps between tries."""
        self._service = service
        self._wait = wait
        self._turns = threading.BoundedSemaphore(_AT_ONCE)

    @classmethod
    def open(cls, settings: "Settings") -> "TanaClient":
        """The Tana of the settings; nothing is asked yet.

        Raises:
            NoTokenError: there is no token, neither in MEMORY_TANA_TOKEN nor in the keyring.
            TanaError: MEMORY_TANA_URL is not an address.
        """
        transport: httpx.AsyncBaseTransport | None = None
        if settings.tana_replay or settings.tana_record:
            from memory_assets.tana.recording import Recorder, Replay

            transport = Replay(settings.tana_replay) if settings.tana_replay else Recorder(settings.tana_record)  # type: ignore[arg-type]
        token = "replayed" if settings.tana_replay else token_of(settings)
        if not token:
            raise NoTokenError(
                "There is no token for Tana: make one in Tana Desktop > Settings > Local API, and set MEMORY_TANA_TOKEN to it or keep"
                " it with `keyring set memory_assets tana`."
            )
        if not (token.isascii() and token.isprintable()) or " " in token:
            raise TanaTokenError(
                "What is set as MEMORY_TANA_TOKEN cannot be one: it holds blanks or letters beyond ASCII; set it anew."
            )
        try:
            service = Service(
                settings.tana_url,
                timeout=settings.tana_timeout,
                headers={"Authorization": f"Bearer {token}"},
                transport=transport,
            )
        except ValueError as error:
            raise TanaError(f"MEMORY_TANA_URL cannot be used: {error}.") from None
        return cls(service)

    def __repr__(self) -> str:
        """The address, never the token."""
        return f"TanaClient({self._service.shown_url!r})"

    @property
    def url(self) -> str:
        """Where Tana is asked."""
        return self._service.shown_url

    def health(self, timeout: float | None = None) -> bool:
        """Whether Tana is ready; asked once."""
        return bool(_decoded(self._ended(self._begin("GET", "/health", timeout=timeout)), self.url).get("nodeSpaceReady"))

    def workspaces(self) -> list[Workspace]:
        """The workspaces that are open to the token."""
        return [Workspace(one["id"], one["name"], one["homeNodeId"]) for one in self._get("/workspaces")]

    def search(
        self, query: Query, workspace: str, *, limit: int = MOST_FOUND, trashed: bool = False, timeout: float | None = None
    ) -> list[Node]:
        """At most `limit` nodes (100) that fulfil `query`. Tana's index lags what was created or renamed by seconds."""
        return self.begin_search(query, workspace, limit=limit, trashed=trashed, timeout=timeout)()

    def begin_search(
        self, query: Query, workspace: str, *, limit: int = MOST_FOUND, trashed: bool = False, timeout: float | None = None
    ) -> Callable[[], list[Node]]:
        """Begin a `search` beside others (four at once); calling the result waits for it."""
        params = dict(_bracketed("query", query)) | {"workspaceIds[0]": workspace, "limit": str(limit)}
        answer = self._begin_get("/nodes/search", params, timeout=timeout)
        return lambda: [node for found in answer() if (node := _node(found)) and (trashed or not node.in_trash)]

    def read(self, node: str, depth: int = 1) -> Text:
        """A node and what is below it as Markdown."""
        return self.begin_read(node, depth)()

    def begin_read(self, node: str, depth: int = 1) -> Callable[[], Text]:
        """Begin a `read` beside others; calling the result waits for it."""
        answer = self._begin_get(f"/nodes/{_part(node)}", {"maxDepth": str(depth)})

        def done() -> Text:
            said = answer()
            return Text(said["markdown"], said.get("name") or "", said.get("description") or "")

        return done

    def children(self, node: str, *, offset: int = 0, limit: int = PAGE) -> tuple[list[Node], bool]:
        """A page of a node's children, as they are now, and whether there are more."""
        said = self._get(f"/nodes/{_part(node)}/children", {"limit": str(limit), "offset": str(offset)})
        return [_node(child) for child in said["children"]], said["hasMore"]

    def all_children(self, node: str) -> Iterator[Node]:
        """A node's children, page by page; a page that Tana fails on is read one by one without those it fails on."""
        offset, more = 0, True
        while more:
            try:
                found, more = self.children(node, offset=offset)
                yield from found
            except TanaFaultError:
                for place in range(offset, offset + PAGE):
                    with suppress(TanaFaultError):
                        found, more = self.children(node, offset=place, limit=1)
                        yield from found
                        if not more:
                            break
            offset += PAGE

    def tags(self, workspace: str) -> list[Tag]:
        """The supertags of a workspace: 200 at most are listed as such, the others are children of its schema node."""
        listed = [Tag(tag["id"], tag["name"]) for tag in self._get(f"/workspaces/{_part(workspace)}/tags", {"limit": str(PAGE)})]
        if len(listed) < PAGE:
            return listed
        known = {tag.id for tag in listed}
        schema = self.all_children(f"{workspace}_SCHEMA")
        others = [Tag(node.id, node.name) for node in schema if node.doc_type == "tagDef" and node.id not in known]
        return listed + others

    def tag_schema(self, tag: str) -> str:
        """A supertag and its fields as Markdown."""
        return self._get(f"/tags/{_part(tag)}/schema")["markdown"]

    def create_tag(self, workspace: str, name: str, description: str = "") -> str:
        """Make a supertag; returns its id. A second call makes a second tag."""
        return self._add(f"/workspaces/{_part(workspace)}/tags", {"name": name, "description": description})["tagId"]

    def add_field(
        self,
        tag: str,
        name: str,
        data_type: DataType,
        *,
        description: str = "",
        options: Sequence[str] = (),
        source_tag: str = "",
        multiple: bool = False,
    ) -> str:
        """Give a supertag a field; returns the field's id. A second call makes a second field."""
        body: dict[str, object] = {"name": name, "description": description, "dataType": data_type, "isMultiValue": multiple}
        if options:
            body["options"] = list(options)
        if source_tag:
            body["sourceTagId"] = source_tag
        return self._add(f"/tags/{_part(tag)}/fields", body)["fieldId"]

    def import_paste(self, parent: str, paste: str) -> dict[str, str]:
        """Make nodes of Tana Paste below `parent`; returns the names of the nodes made by id, in no order."""
        said = self._add(f"/nodes/{_part(parent)}/import", {"content": paste})
        return {node["id"]: node["name"] for node in said["createdNodes"]}

    def set_content(self, node: str, field: str, content: str | None) -> None:
        """Replace a field's value by a text; None empties the field."""
        self._set(f"/nodes/{_part(node)}/fields/{_part(field)}/content", {"content": content, "mode": "replace"})

    def set_option(self, node: str, field: str, value: str, mode: Literal["replace", "append"] = "replace") -> None:
        """Give a field an option or, where it refers to instances, a node."""
        self._set(f"/nodes/{_part(node)}/fields/{_part(field)}/option", {"optionId": value, "mode": mode})

    def update(self, node: str, name: str) -> None:
        """Rename a node. A node in the trash is renamed too, without a word."""
        self._set(f"/nodes/{_part(node)}/update", {"name": name})

    def trash(self, node: str) -> bool:
        """Move a node to the trash; False where it was gone already."""
        try:
            self._set(f"/nodes/{_part(node)}/trash", {})
        except TanaRefusedError:  # 400 or 404: it is there no more
            return False
        return True

    def _get(self, path: str, params: dict[str, str] | None = None) -> Any:
        return self._begin_get(path, params)()

    def _begin_get(self, path: str, params: dict[str, str] | None = None, *, timeout: float | None = None) -> Callable[[], Any]:
        """Send a first try now; calling the result waits for it. A call with a timeout of its own is tried once."""
        first = iter([self._begin("GET", path, params=params, timeout=timeout)])

        def wait() -> Any:
            response = self._persist(
                lambda: next(first, None) or self._begin("GET", path, params=params),
                repeatable=True,
                tries=_TRIES if timeout is None else 1,
            )
            return _decoded(response, self.url)

        return wait

    def _set(self, path: str, body: dict[str, object]) -> None:
        """Change what is the same after a second time."""
        _decoded(self._persist(lambda: self._begin("POST", path, body), repeatable=True), self.url)

    def _add(self, path: str, body: dict[str, object]) -> Any:
        """Add what would be there twice after a second time."""
        response = self._persist(lambda: self._begin("POST", path, body), repeatable=False)
        if response.is_server_error and response.status_code not in _NOT_BEGUN:
            raise TanaUncertainError(f"Tana at {self.url} failed ({response.status_code}) while it added something; try again.")
        return _decoded(response, self.url)

    def _persist(
        self, begin: "Callable[[], Future[httpx.Response]]", *, repeatable: bool, tries: int = _TRIES
    ) -> "httpx.Response":
        """Try until there is an answer that waiting would not better; what is not repeatable, only where Tana surely did nothing."""
        for number in range(1, tries):
            wait = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 4 ** (number - 1)) * random.uniform(0.75, 1.25)  # noqa: S311
            try:
                response = self._ended(begin())
            except TanaUncertainError:
                if not repeatable:
                    raise
            else:
                if response.status_code not in (_TRY_AGAIN if repeatable else _NOT_BEGUN):
                    return response
                wait = self._asked_wait(response) or wait
            self._wait(wait)
        return self._ended(begin())

    def _asked_wait(self, response: "httpx.Response") -> float:
        """Seconds that Retry-After asks for; 0 where it does not.

        Raises:
            TanaAwayError: it asks for longer than is waited.
        """
        asked = response.headers.get("Retry-After", "")
        seconds = 0.0
        if asked.isdigit():
            seconds = float(asked)
        elif asked:
            with suppress(ValueError, TypeError):
                seconds = (parsedate_to_datetime(asked) - datetime.now(UTC)).total_seconds()
        if seconds > _LONGEST_WAIT_S:
            raise TanaAwayError(f"Tana at {self.url} asks to be left alone for {seconds:.0f} s; try again later.")
        return max(0.0, seconds)

    def _begin(
        self,
        method: str,
        path: str,
        body: dict[str, object] | None = None,
        *,
        params: dict[str, str] | None = None,
        timeout: float | None = None,
    ) -> "Future[httpx.Response]":
        self._turns.acquire()
        try:
            begun = self._service.begin(method, path, json=body, params=params, timeout=timeout)
        except BaseException:
            self._turns.release()
            raise
        begun.add_done_callback(lambda _: self._turns.release())
        return begun

    def _ended(self, begun: "Future[httpx.Response]") -> "httpx.Response":
        import httpx

        try:
            response = begun.result()
        except (httpx.ConnectError, httpx.ConnectTimeout):
            raise TanaAwayError(
                f"Tana does not answer at {self.url}; start Tana Desktop and turn on Settings > Local API, or set MEMORY_TANA_URL."
            ) from None
        except (TimeoutError, httpx.TransportError):
            raise TanaUncertainError(f"Tana at {self.url} broke off or took too long; try again.") from None
        if response.status_code in {401, 403}:
            raise TanaTokenError(
                f"Tana at {self.url} does not accept the token ({response.status_code}); make a new one in Tana Desktop > Settings >"
                " Local API (a token of the Input API does not work there) and set MEMORY_TANA_TOKEN to it."
            )
        return response


def token_of(settings: "Settings") -> str:
    """The token for Tana: of the settings, else of the operating system's keyring; empty where there is none."""
    if settings.tana_token:
        return settings.tana_token.get_secret_value().strip()
    import keyring
    from keyring.errors import KeyringError

    with suppress(KeyringError):
        return (keyring.get_password(*_KEYRING) or "").strip()
    return ""


def _part(name: str) -> str:
    """A part of a path, whatever stands in it."""
    return quote(name, safe="")


def _bracketed(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """`value` in the deepObject style: `query[and][0][hasType]=ID`."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _bracketed(f"{name}[{key}]", inner)
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            yield from _bracketed(f"{name}[{place}]", inner)
    elif isinstance(value, bool):
        raise TypeError(f"{name} is a boolean, which Tana refuses")
    else:
        yield name, str(value)


def _node(said: dict[str, Any]) -> Node:
    return Node(
        id=said["id"],
        name=said.get("name") or "",
        tags=tuple(Tag(tag["id"], tag["name"]) for tag in said["tags"]),
        doc_type=said["docType"],
        created=utc_time(said["created"]),
        description=said.get("description") or "",
        in_trash=said["inTrash"],
        breadcrumb=tuple(said.get("breadcrumb", ())),
        workspace=said.get("workspaceId", ""),
        children=said.get("childCount"),
    )


def _decoded(response: "httpx.Response", url: str) -> Any:
    """What Tana answered, or its refusal with what it says of it; a message of Tana's names nodes and fields, never the token."""
    if response.is_success:
        with suppress(json.JSONDecodeError, UnicodeDecodeError):
            return response.json()
        raise TanaFaultError(f"What answers at {url} is not Tana's Local API; check MEMORY_TANA_URL.")
    said = " ".join(response.text.split())[:200]
    if response.status_code == 404:
        raise TanaNotFoundError(f"Tana does not know what was asked for: {said}")
    if response.status_code in _TRY_AGAIN:
        raise TanaAwayError(f"Tana at {url} is overloaded ({response.status_code}); try again later.")
    if response.is_server_error:
        raise TanaFaultError(f"Tana at {url} failed on a request ({response.status_code}): {said}")
    raise TanaRefusedError(f"Tana refuses a request ({response.status_code}): {said}")
