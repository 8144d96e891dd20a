"""The MCP server of one tenant: `memory mcp` on standard input and output, and one of the service's routes."""

from typing import TYPE_CHECKING

from memory_assets.errors import MemoryAssetsError
from memory_assets.mcp.protocol import Server
from memory_assets.mcp.tools import Session

if TYPE_CHECKING:
    from memory_assets.sources.projects import Project
    from memory_assets.tenants import Tenant


def serve_stdio(tenant: "Tenant", here: "Project | None") -> None:
    """Serve an assistant on standard input and output; `here` is the project at hand."""
    from memory_assets.mcp.stdio import serve

    server = Server(Session(tenant, here), all_tools=tenant.settings.mcp_tools == "all")
    serve(server, lambda: _warm_up(tenant))


def _warm_up(tenant: "Tenant") -> None:
    """Load what the first calls would wait for, searching first; what is wrong with it, the call that needs it tells."""
    from memory_assets.language.embedders import describe_choice
    from memory_assets.language.tokens import load_encoding
    from memory_assets.recall.search import search

    try:
        if describe_choice(tenant.settings.embedder).offline:
            search(tenant, "warm", limit=1) if tenant.exists else tenant.embedder.embed(["warm"])
        load_encoding()
        tenant.analyzer.analyze("Alice warmed up the service.")
    except MemoryAssetsError:
        return
