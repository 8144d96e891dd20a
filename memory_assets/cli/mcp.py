"""`memory mcp`."""

import click

from memory_assets.cli.options import existing_tenant_option
from memory_assets.tenants import Tenant


@click.command("mcp", epilog="Example: claude mcp add memory -- memory mcp")
@existing_tenant_option
def mcp(tenant: Tenant) -> None:
    """Serve the memory to an assistant over MCP, on standard input and output; the project is that of the working directory."""
    from memory_assets.mcp.server import serve_stdio
    from memory_assets.sources.projects import project_at_hand

    serve_stdio(tenant, project_at_hand())
