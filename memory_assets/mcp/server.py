"""The MCP server: Pond's five tools and `relate` over one tenant; each answers with what its command prints."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Literal

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from memory_assets.display import visible
from memory_assets.errors import MemoryAssetsError
from memory_assets.models import Kind, NewMemory, RelationType, Source
from memory_assets.operations.answers import Answer, LocalTime

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant

_INSTRUCTIONS = (
    "A lasting memory. Call `init` when a session begins, `store` when something is worth knowing later, and `search` before "
    "answering what may have come up before."
)
Tags = Annotated[list[str], Field(default_factory=list, description="Short topics.")]
Limit = Annotated[int, Field(ge=1, le=100, description="At most so many.")]
Zone = Annotated[str | None, Field(description="Time zone to show times in, such as Europe/Berlin.")]
KindName = Literal[
    "user", "feedback", "project", "reference", "pattern", "insight", "self_knowledge", "proposal", "rating", "reflection", "note"
]


def create_server(tenant: "Tenant") -> MCPServer:
    """The server over one tenant's memory. What the first call would wait for is loaded in the background."""
    server = MCPServer("memory", instructions=_INSTRUCTIONS, log_level="WARNING")
    tools = _Tools(tenant)
    for tool in (tools.store, tools.search, tools.recent, tools.relate, tools.init, tools.health):
        server.add_tool(tool, structured_output=False)
    threading.Thread(target=tools.warm_up, daemon=True).start()
    return server


class _Tools:
    def __init__(self, tenant: "Tenant") -> None:
        self._tenant = tenant

    def _text(self, answer: Answer, timezone: str | None = None) -> str:
        return visible(answer.text(LocalTime.of(self._tenant.settings, timezone)))

    def store(
        self,
        content: Annotated[str, Field(description="What to remember, in sentences that stand alone; at most 7,500 characters.")],
        tags: Tags,
        kind: Annotated[KindName, Field(description="What it is about.")] = "note",
    ) -> str:
        """Remember a text, and see what it calls to mind."""
        from memory_assets.operations.store import store

        with _told():
            return self._text(store(self._tenant, NewMemory(content, Source.MCP, Kind(kind), tags=tuple(tags))))

    def search(
        self,
        query: Annotated[str, Field(max_length=500, description="Words or a question; empty for the newest memories.")] = "",
        limit: Limit = 10,
        bridges: Annotated[int, Field(ge=0, le=10, description="At most so many paths that explain what was found.")] = 0,
        timezone: Zone = None,
    ) -> str:
        """Find memories by meaning and by words, and on demand the paths through the graph that explain them."""
        from memory_assets.operations.search import search

        with _told():
            return self._text(search(self._tenant, query, limit=limit, bridges=bridges), timezone)

    def relate(
        self,
        source: Annotated[str, Field(description="Id of a memory, or its first digits.")],
        relation: Annotated[RelationType, Field(description="How the first relates to the second.")],
        target: Annotated[str, Field(description="Id of the other memory.")],
        confidence: Annotated[float, Field(ge=0, le=1)] = 1.0,
        note: Annotated[str, Field(max_length=500, description="Why.")] = "",
    ) -> str:
        """State how two memories relate."""
        from memory_assets.operations.relate import relate

        with _told():
            return self._text(
                relate(self._tenant, source, relation, target, confidence=confidence, note=note, stated_by=Source.MCP)
            )

    def recent(
        self,
        hours: Annotated[float, Field(gt=0, le=720, description="How far back.")] = 24,
        limit: Limit = 10,
        timezone: Zone = None,
    ) -> str:
        """List the newest memories."""
        from memory_assets.operations.recent import recent

        with _told():
            return self._text(recent(self._tenant, limit=limit, hours=hours), timezone)

    def init(self, timezone: Zone = None) -> str:
        """Begin a session: the time, and what was remembered in the last day."""
        from memory_assets.operations.recent import init

        with _told():
            return self._text(init(self._tenant), timezone)

    def health(self) -> str:
        """Tell whether the memory works and how much it holds."""
        from memory_assets.operations.health import health

        with _told():
            return self._text(health(self._tenant))

    def warm_up(self) -> None:
        """Load language and stores; what is wrong with them, the first call that needs them tells."""
        from memory_assets.language.embedders import describe_choice

        try:
            _ = self._tenant.memories.table
            self._tenant.analyzer.analyze("Alice warmed up the service.")
            if describe_choice(self._tenant.settings.embedder).offline:
                self._tenant.embedder.embed(["warm"])
        except MemoryAssetsError:
            return


@contextmanager
def _told() -> Iterator[None]:
    """Tell the assistant what went wrong in the sentence that a person would be told."""
    try:
        yield
    except MemoryAssetsError as error:
        raise ToolError(visible(str(error))) from error
