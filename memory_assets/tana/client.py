"""Typed client of Tana's Local API (port 8262 of Tana Desktop), including behaviour that its OpenAPI document omits.

Every search names its workspace, because Tana otherwise searches the open one. Nodes in the trash are left out unless requested. Query
parameters are never booleans, because Tana rejects them. An idempotent request is retried if Tana is overloaded; one that would add
something twice is retried only if Tana certainly did nothing. An answer of an unexpected shape is a TanaFaultError.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from itertools import chain
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, BeforeValidator, ConfigDict, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from memory_assets.errors import first_fault
from memory_assets.http import OVERLOADED, BusyError, HttpAnswer, Repeat, Service, ServiceError, UnreachableError, bearer
from memory_assets.settings import Settings
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
from memory_assets.tana.formats import Outline, read_node

MAX_FOUND = 100
"""Nodes that one search lists at most; there is no paging."""
MAX_SEARCH_CHARACTERS = 200
PAGE_SIZE = 200
_MAX_CONDITIONS = 20

_MAX_CONCURRENT = 4
"""Concurrent requests: Tana answers in the process that draws its window."""
_MAX_FAULTS_IN_A_ROW = 12
"""Consecutive children that Tana fails on, after which it counts as failing on their parent; failed conditions that end a search."""
_KEYRING = ("memory_assets", "tana")

Query = Mapping[str, Any]
"""A condition of `nodes/search` (tana-openapi.json): `{"and": [{"hasType": ID}, {"textContains": "x"}]}`."""
DataType = Literal["plain", "number", "date", "url", "email", "checkbox", "user", "instance", "options"]


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """A field of a supertag."""

    name: str
    type: DataType
    description: str = ""
    options: tuple[str, ...] = ()
    source: str = ""
    """Name of the tag whose instances the field holds."""
    multiple: bool = False


_Text = Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]
_Time = Annotated[datetime | None, BeforeValidator(utc_time)]
Shape = TypeVar("Shape")
Item = TypeVar("Item")
Answer = TypeVar("Answer")


class _AnswerPart(BaseModel):
    """Part of an answer of Tana; unknown keys are ignored."""

    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True, validate_by_alias=True, frozen=True)


class Workspace(_AnswerPart):
    """A workspace of the user."""

    id: str
    name: str
    home_node_id: str

    @property
    def library(self) -> str:
        """Id of the Library, which holds nodes without another parent."""
        return f"{self.id}_STASH"


class Tag(_AnswerPart):
    """A supertag."""

    id: str
    name: str


class Node(_AnswerPart):
    """A node as a search or a list of children returns it."""

    id: str
    name: _Text = ""
    tags: tuple[Tag, ...]
    doc_type: _Text = ""
    created: _Time = None
    description: _Text = ""
    in_trash: bool = False
    child_count: int | None = None
    """None in search results."""


class _Markdown(_AnswerPart):
    markdown: str
    description: _Text = ""


class _Health(_AnswerPart):
    node_space_ready: bool = False


class _Children(_AnswerPart):
    children: tuple[Node, ...]
    has_more: bool


class _MadeTag(_AnswerPart):
    tag_id: str


class _MadeField(_AnswerPart):
    field_id: str


class _MadeNode(_AnswerPart):
    id: str
    name: _Text = ""


class _MadeNodes(_AnswerPart):
    created_nodes: tuple[_MadeNode, ...]


class TanaClient:
    """Client of one Tana. Every method raises the errors of `tana.errors`; TanaUncertainError only if it changes something."""

    def __init__(self, service: Service) -> None:
        self.service = service

    @classmethod
    def open(cls, settings: Settings) -> "TanaClient":
        """Return a client for the Tana of the settings, without a request."""
        token = find_token(settings)
        if not token:
            raise NoTokenError(
                "There is no token for Tana: make one in Tana Desktop > Settings > Local API, and set MEMORY_TANA_TOKEN to it or keep"
                " it with `keyring set memory_assets tana`."
            )
        try:
            headers = bearer(token, "MEMORY_TANA_TOKEN")
        except ValueError as error:
            raise TanaTokenError(f"{error}; set it again.") from None
        try:
            return cls(Service(settings.tana_url, timeout=settings.tana_timeout, headers=headers))
        except ValueError as error:
            raise TanaError(f"MEMORY_TANA_URL cannot be used: {error}.") from None

    def __repr__(self) -> str:
        """Return the address, never the token."""
        return f"TanaClient({self.url!r})"

    @property
    def url(self) -> str:
        return self.service.shown_url

    def health(self, timeout: float | None = None) -> bool:
        """Return whether Tana is ready; sent once, without retries."""
        return self._ask(_Health, "GET", "/health", repeat="never", timeout=timeout).node_space_ready

    def workspaces(self) -> list[Workspace]:
        return self._ask(list[Workspace], "GET", "/workspaces")

    def search(self, query: Query, workspace: str, *, limit: int = MAX_FOUND, trashed: bool = False) -> list[Node]:
        """Return at most `limit` nodes (100) that match `query`. Tana's index lags seconds behind new and renamed nodes."""
        params = dict(_bracketed("query", query)) | {"workspaceIds[0]": workspace, "limit": str(limit)}
        found = self._ask(list[Node], "GET", "/nodes/search", params=params)
        return [node for node in found if trashed or not node.in_trash]

    def search_any(
        self, conditions: Sequence[Query], workspace: str, within: Sequence[Query] = (), *, trashed: bool = False
    ) -> tuple[list[Node], list[Query]]:
        """Return the nodes that match all of `within` and one of `conditions`, and the conditions that Tana fails on.

        A search that fails, or that finds as many nodes as it can list, is split in two; after twelve failures the search ends.
        """
        found: dict[str, Node] = {}
        failed: list[Query] = []
        waiting = [list(conditions[start : start + _MAX_CONDITIONS]) for start in range(0, len(conditions), _MAX_CONDITIONS)]
        while waiting and len(failed) < _MAX_FAULTS_IN_A_ROW:
            asked = waiting.pop()
            half = len(asked) // 2
            try:
                hits = self.search({"and": [*within, {"or": asked}]}, workspace, trashed=trashed)
            except TanaFaultError:
                failed += [] if half else asked
            else:
                found |= {node.id: node for node in hits}
                half = half if len(hits) == MAX_FOUND else 0
            waiting += [asked[:half], asked[half:]] if half else []
        return list(found.values()), [*failed, *chain.from_iterable(waiting)]

    def read(self, node: str, depth: int = 1) -> Outline:
        """Return a node and its descendants down to `depth`."""
        answer = self._ask(_Markdown, "GET", f"/nodes/{_quoted(node)}", params={"maxDepth": str(depth)})
        return replace(read_node(answer.markdown), description=answer.description)

    def has(self, node: str) -> bool:
        """Return whether a node exists, perhaps in the trash; a node that Tana fails on does."""
        try:
            self.read(node, depth=0)
        except TanaNotFoundError:
            return False
        except TanaFaultError:
            return True
        return True

    def is_trashed(self, node: str, name: str, workspace: str) -> bool | None:
        """Return whether a node is in the trash, or None if a search for its name does not list it. Tana says it nowhere else."""
        try:
            found = self.search({"textContains": name[:MAX_SEARCH_CHARACTERS]}, workspace, trashed=True) if name else []
        except (TanaFaultError, TanaRefusedError):
            return None
        return next((each.in_trash for each in found if each.id == node), None)

    def all_children(self, node: str) -> Iterator[Node]:
        """Yield a node's children except those that Tana fails on; raise TanaFaultError if it fails on twelve in a row."""
        seen: set[str] = set()
        offset, more = 0, True
        while more:
            found, more = self._page(node, offset, PAGE_SIZE, [])
            new = [child for child in found if child.id not in seen]
            if not new:
                return
            yield from new
            seen.update(child.id for child in new)
            offset += PAGE_SIZE

    def _page(self, node: str, offset: int, limit: int, faults: list[int]) -> tuple[Sequence[Node], bool]:
        """Return a page of children, halved while Tana fails on it, and whether there are more.

        `faults` are the offsets that failed since the last success.
        """
        params = {"limit": str(limit), "offset": str(offset)}
        try:
            page = self._ask(_Children, "GET", f"/nodes/{_quoted(node)}/children", params=params)
        except TanaFaultError:
            if limit == 1:
                faults.append(offset)
                if len(faults) == _MAX_FAULTS_IN_A_ROW:
                    raise
                return (), True
        else:
            faults.clear()
            return page.children, page.has_more
        half = limit // 2
        first, more = self._page(node, offset, half, faults)
        if not more:
            return first, False
        second, more = self._page(node, offset + half, limit - half, faults)
        return (*first, *second), more

    def tags(self, workspace: str) -> list[Tag]:
        """Return the supertags of a workspace. The API lists at most 200; the rest are children of the schema node."""
        params = {"limit": str(PAGE_SIZE)}
        listed = self._ask(list[Tag], "GET", f"/workspaces/{_quoted(workspace)}/tags", params=params)
        if len(listed) < PAGE_SIZE:
            return listed
        known = {tag.id for tag in listed}
        schema = self.all_children(f"{workspace}_SCHEMA")
        return listed + [Tag(id=node.id, name=node.name) for node in schema if node.doc_type == "tagDef" and node.id not in known]

    def tag_schema(self, tag: str) -> str:
        return self._ask(_Markdown, "GET", f"/tags/{_quoted(tag)}/schema").markdown

    def create_tag(self, workspace: str, name: str, description: str = "") -> str:
        """Create a supertag and return its id. A second call creates a second tag."""
        body = {"name": name, "description": description}
        return self._add(_MadeTag, f"/workspaces/{_quoted(workspace)}/tags", body).tag_id

    def add_field(self, tag: str, spec: FieldSpec, source_tag: str = "") -> str:
        """Add a field to a supertag and return its id; a second call adds a second field. `source_tag` is the id of `spec.source`."""
        body: dict[str, object] = {"name": spec.name, "description": spec.description, "dataType": spec.type}
        body["isMultiValue"] = spec.multiple
        if spec.options:
            body["options"] = list(spec.options)
        if source_tag:
            body["sourceTagId"] = source_tag
        return self._add(_MadeField, f"/tags/{_quoted(tag)}/fields", body).field_id

    def import_paste(self, parent: str, paste: str) -> dict[str, str]:
        """Create nodes from Tana Paste below `parent`; return id -> name of the new nodes, unordered."""
        made = self._add(_MadeNodes, f"/nodes/{_quoted(parent)}/import", {"content": paste}).created_nodes
        return {node.id: node.name for node in made}

    def set_content(self, node: str, field: str, content: str | None) -> None:
        """Set a field to a text; None clears the field."""
        self._set(f"/nodes/{_quoted(node)}/fields/{_quoted(field)}/content", {"content": content, "mode": "replace"})

    def set_option(self, node: str, field: str, value: str, mode: Literal["replace", "append"] = "replace") -> None:
        """Set a field to, or append, an option or (in an instance field) a node."""
        self._set(f"/nodes/{_quoted(node)}/fields/{_quoted(field)}/option", {"optionId": value, "mode": mode})

    def update(self, node: str, name: str) -> None:
        """Rename a node. Tana silently renames a node in the trash, too."""
        self._set(f"/nodes/{_quoted(node)}/update", {"name": name})

    def trash(self, node: str) -> None:
        """Move a node to the trash, unless it is gone already."""
        with suppress(TanaRefusedError):  # 400 or 404: it no longer exists
            self._set(f"/nodes/{_quoted(node)}/trash", {})

    def _set(self, path: str, body: dict[str, object]) -> None:
        """Send an idempotent change; the answer's content is ignored."""
        self._ask(object, "POST", path, body=body)

    def _add(self, shape: type[Shape], path: str, body: Mapping[str, object]) -> Shape:
        """Send an addition, which a retry would duplicate."""
        try:
            return self._ask(shape, "POST", path, body=body, repeat="if not begun")
        except TanaFaultError as error:
            raise TanaFaultError(f"{error} The addition may have been made.") from None

    def _ask(
        self,
        shape: type[Shape],
        method: str,
        path: str,
        *,
        body: Mapping[str, object] | None = None,
        params: dict[str, str] | None = None,
        repeat: Repeat = "always",
        timeout: float | None = None,
    ) -> Shape:
        try:
            answer = self.service.send(method, path, json=body, params=params, timeout=timeout, repeat=repeat)
        except BusyError as busy:
            raise TanaAwayError(f"Tana at {self.url} asks to wait {busy.seconds:.0f} s; try again later.") from None
        except UnreachableError:
            raise TanaAwayError(
                f"Tana does not answer at {self.url}; start Tana Desktop and turn on Settings > Local API, or set MEMORY_TANA_URL."
            ) from None
        except ServiceError:
            raise TanaUncertainError(f"Tana at {self.url} broke off the connection or took too long; try again.") from None
        return self._validated(answer, shape)

    def _validated(self, answer: HttpAnswer, shape: type[Shape]) -> Shape:
        """Return the validated answer, or raise with Tana's message, which names nodes and fields, never the token."""
        if answer.ok:
            try:
                return _adapter(shape).validate_json(answer.content)
            except ValidationError as error:
                fault = first_fault(error, "the whole")
            raise TanaFaultError(
                f"{self.url} does not answer as Tana's Local API does ({fault}); check MEMORY_TANA_URL,"
                " and update memory_assets if Tana is newer."
            )
        match answer.status:
            case 401 | 403:
                raise TanaTokenError(
                    f"Tana at {self.url} does not accept the token ({answer.status}); make a new one in Tana Desktop > Settings >"
                    " Local API and set MEMORY_TANA_TOKEN to it."
                )
            case 404:
                raise TanaNotFoundError(f"Tana found no such item: {answer.text}")
            case 429 | 503:
                raise TanaAwayError(f"Tana at {self.url} is overloaded ({answer.status}); try again later.")
            case status if status in OVERLOADED:
                raise TanaUncertainError(f"Tana at {self.url} is overloaded ({status}); try again later.")
        if answer.failed:
            raise TanaFaultError(f"Tana at {self.url} failed on a request ({answer.status}): {answer.text}")
        raise TanaRefusedError(f"Tana rejects a request ({answer.status}): {answer.text}")


_adapter = cache(TypeAdapter)


def ask_each(ask: Callable[[Item], Answer], items: Iterable[Item]) -> dict[Item, Answer]:
    """Return the answer for each of `items`, four at once, without items that Tana fails on or does not know."""

    def answer(item: Item) -> tuple[Item, Answer] | None:
        try:
            return item, ask(item)
        except (TanaFaultError, TanaNotFoundError):
            return None

    with ThreadPoolExecutor(_MAX_CONCURRENT, "tana") as threads:
        return dict(filter(None, threads.map(answer, items)))


def find_token(settings: Settings) -> str:
    """Return the token from the settings, else from the system's keyring, else ""."""
    if settings.tana_token:
        return settings.tana_token.get_secret_value().strip()
    import keyring
    from keyring.errors import KeyringError

    with suppress(KeyringError):
        return (keyring.get_password(*_KEYRING) or "").strip()
    return ""


def _quoted(name: str) -> str:
    return quote(name, safe="")


def _bracketed(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield `value` in the deepObject style: `query[and][0][hasType]=ID`."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _bracketed(f"{name}[{key}]", inner)
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            yield from _bracketed(f"{name}[{place}]", inner)
    elif isinstance(value, bool):
        raise TypeError(f"{name} is a boolean, which Tana rejects")
    else:
        yield name, str(value)
