"""`memory mcp`."""

import click

from memory_assets.cli.options import tenant_option
from memory_assets.tenants import Tenant


@click.command("mcp", epilog="Example: claude mcp add memory -- memory mcp")
@tenant_option
def command(tenant: Tenant) -> None:
    """Serve the memory to an assistant over MCP, on standard input and output."""
    from memory_assets.mcp.server import create_server

    create_server(tenant).run("stdio")
