"""The MCP server: Pond's five tools and `relate` over one tenant, answering in text that a person could read too."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Literal

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from memory_assets.errors import MemoryAssetsError
from memory_assets.mcp import texts
from memory_assets.models import Kind, NewMemory, RelationType, Source

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant

_INSTRUCTIONS = (
    "A lasting memory. Call `init` when a session begins, `store` when something is worth knowing later, and `search` before "
    "answering what may have come up before."
)
_INIT_LIMIT = 10
_INIT_HOURS = 24
Tags = Annotated[list[str], Field(default_factory=list, description="Short topics.")]
Limit = Annotated[int, Field(ge=1, le=100, description="At most so many.")]
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

    def store(
        self,
        content: Annotated[str, Field(description="What to remember, in sentences that stand alone; at most 7,500 characters.")],
        tags: Tags,
        kind: Annotated[KindName, Field(description="What it is about.")] = "note",
    ) -> str:
        """Remember a text, and see what it calls to mind."""
        from memory_assets.ingest.direct import store_memories
        from memory_assets.recall.splash import splash

        with _told():
            given = NewMemory(content, Source.MCP, Kind(kind), tags=tuple(tags))
            (stored,) = store_memories(self._tenant, [given])
            memories = self._tenant.memories
            ripples = splash(memories, stored.memory.id, stored.embedding, self._tenant.embedder.name)
            return texts.stored(stored.memory, ripples, datetime.now(UTC))

    def search(
        self,
        query: Annotated[str, Field(max_length=500, description="Words or a question; empty for the newest memories.")] = "",
        limit: Limit = 10,
        bridges: Annotated[int, Field(ge=0, le=10, description="At most so many paths that explain what was found.")] = 0,
    ) -> str:
        """Find memories by meaning and by words, and on demand the paths through the graph that explain them."""
        from memory_assets.recall.search import search_with_bridges
        from memory_assets.stores.access_log import AccessLog

        with _told():
            hits, paths = search_with_bridges(self._tenant, query, limit=limit, bridges=bridges)
            now = datetime.now(UTC)
            AccessLog(self._tenant.folder).record([hit.memory.id for hit in hits], now)
            return texts.found(query, hits, paths, now)

    def relate(
        self,
        source: Annotated[str, Field(description="Id of a memory, or its first digits.")],
        relation: Annotated[RelationType, Field(description="How the first relates to the second.")],
        target: Annotated[str, Field(description="Id of the other memory.")],
        confidence: Annotated[float, Field(ge=0, le=1)] = 1.0,
        note: Annotated[str, Field(max_length=500, description="Why.")] = "",
    ) -> str:
        """State how two memories relate."""
        from memory_assets.stores.relations import StatedRelation

        with _told():
            first, second = self._tenant.memories.resolve(source), self._tenant.memories.resolve(target)
            self._tenant.relations.state(StatedRelation(first.id, second.id, relation, confidence, note, Source.MCP))
            return f"Stated: {first.id} {relation} {second.id}."

    def recent(
        self,
        hours: Annotated[float, Field(gt=0, le=720, description="How far back.")] = 24,
        limit: Limit = 10,
    ) -> str:
        """List the newest memories."""
        from memory_assets.stores.memories import Filters

        with _told():
            now = datetime.now(UTC)
            memories = self._tenant.memories.recent(limit, Filters(since=now - timedelta(hours=hours)))
            return texts.recent(memories, hours, now)

    def init(self) -> str:
        """Begin a session: the time, and what was remembered in the last day."""
        from memory_assets.language.times import display_zone, format_local
        from memory_assets.stores.memories import Filters

        with _told():
            now = datetime.now(UTC)
            settings = self._tenant.settings
            zone = display_zone(None, configured=settings.timezone, geoip_url=settings.geoip_url)
            memories = self._tenant.memories.recent(_INIT_LIMIT, Filters(since=now - timedelta(hours=_INIT_HOURS)))
            return f"It is {format_local(now, zone)}.\n\n{texts.recent(memories, _INIT_HOURS, now)}"

    def health(self) -> str:
        """Tell whether the memory works and how much it holds."""
        from memory_assets.stores.memories import Filters

        with _told():
            self._tenant.embedder.embed(["health"])
            times = self._tenant.memories.scan(("created_at",), Filters().sql())["created_at"].to_pylist()
            return texts.health(self._tenant.name, times, self._tenant.embedder.name, datetime.now(UTC))

    def warm_up(self) -> None:
        """Load language and stores; what is wrong with them, the first call that needs them tells."""
        from memory_assets.language.embedders import describe_choice

        try:
            _ = self._tenant.memories
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
        raise ToolError(str(error)) from error
