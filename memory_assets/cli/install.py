"""`memory install`."""

import click

from memory_assets.cli.options import chosen_tenant
from memory_assets.cli.output import print_answer
from memory_assets.tenants import Tenant


@click.group("install")
def install() -> None:
    """Make the memory known to an assistant."""


@install.command("claude-code", epilog="Example: memory install claude-code --dry-run")
@click.option("--remove", "take_out", is_flag=True, help="Take it out again.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and change nothing.")
@click.option(
    "--status-line", is_flag=True, help="Give settings.json a status line too, unless it has one; all else in it stays."
)
@click.option("--tenant", "name", metavar="NAME", help="Whose memory it uses; default: that of the settings.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def claude_code(take_out: bool, dry_run: bool, status_line: bool, name: str | None, as_json: bool) -> None:
    """Write a plugin for Claude Code: MCP server, hooks for a session's beginning and end, and commands."""
    from memory_assets.operations.install import install_claude_code
    from memory_assets.settings import load_settings

    name = chosen_tenant(name)
    tenant = Tenant(load_settings(), name)
    if name and not take_out:
        tenant.must_exist()
    print_answer(install_claude_code(name, status_line=status_line, take_out=take_out, dry_run=dry_run), tenant, as_json=as_json)
