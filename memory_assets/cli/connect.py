"""Commands that connect the memory to other programs: serve, ui, mcp, install, completion."""

import os

import click
from click.shell_completion import get_completion_class

from memory_assets import operations
from memory_assets.cli.command import chosen_tenant, existing_tenant, print_answer, say
from memory_assets.tenants import Tenant


@click.command(epilog="Example: memory serve --port 8000   (then: curl http://127.0.0.1:8000/api/v1/health)")
@click.option("--host", help="Address to listen on; default: MEMORY_HOST, else 127.0.0.1.")
@click.option("--port", type=click.IntRange(0, 65_535), help="Port; default: PORT, else 8000. 0 takes any free one.")
@click.option("--workers", type=click.IntRange(1, 64), help="Processes; default: MEMORY_WORKERS, else one for each processor.")
def serve(host: str | None, port: int | None, workers: int | None) -> None:
    """Serve the memory over HTTP to every tenant that has a key, until interrupted."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # requests run in parallel; more threads for one would only spin
    from memory_assets.api.app import serve
    from memory_assets.settings import load_settings
    from memory_assets.ui.app import mount_pages

    def announce(address: str, keyed: bool) -> None:
        say(f"memory: {address}", err=True)
        if not keyed:
            say(
                "memory: No tenant has a key yet, so the service refuses every request; `memory key create` makes one without a restart.",
                err=True,
            )

    serve(load_settings(host=host, port=port, workers=workers), announce, mount_pages)


@click.command(epilog="Example: memory ui --no-browser   (then: open the address that it prints)")
@click.option("--no-browser", is_flag=True, help="Print the address, and open nothing.")
@click.option("--tenant", callback=existing_tenant, metavar="NAME", help="Tenant to use; default: MEMORY_TENANT, else main.")
def ui(*, no_browser: bool, tenant: Tenant) -> None:
    """Open the memory in a browser, served on this machine until Ctrl-C; if `memory up` runs, its service shows the page."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from memory_assets.ui.app import mount_pages, one_time_address

    def show(service: str, _keyed: bool = False) -> None:
        address = one_time_address(tenant, service)
        ends = "" if served else " Ctrl-C ends it."
        say(f"memory: {address} opens the page once, within five minutes.{ends}", err=True)
        if not no_browser:
            click.launch(address)

    served = [each.url for each in operations.status.services(tenant.settings) if each.name == "HTTP service" and each.pid]
    if served:
        show(served[0])
        return
    from memory_assets.api.app import serve
    from memory_assets.settings import load_settings

    serve(load_settings(host="127.0.0.1", port=0, workers=1, log_level="WARNING"), show, mount_pages)


@click.command(epilog="Example: claude mcp add memory -- memory mcp")
@click.option("--tenant", callback=existing_tenant, metavar="NAME", help="Tenant to use; default: MEMORY_TENANT, else main.")
def mcp(tenant: Tenant) -> None:
    """Serve the memory to an assistant over MCP, on standard input and output, in the working directory's project."""
    from memory_assets.mcp.stdio import serve
    from memory_assets.sources.projects import current_project

    serve(tenant, current_project())


@click.group()
def install() -> None:
    """Install the memory into an assistant."""


@install.command("claude-code", epilog="Example: memory install claude-code --dry-run")
@click.option("--remove", "take_out", is_flag=True, help="Remove the plugin.")
@click.option("--dry-run", is_flag=True, help="Show what would be done, and change nothing.")
@click.option("--status-line", is_flag=True, help="Also add a status line to settings.json, unless it has one.")
@click.option("--tenant", "name", metavar="NAME", help="Tenant that the plugin uses; default: the settings' tenant.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def claude_code(take_out: bool, dry_run: bool, status_line: bool, name: str | None, as_json: bool) -> None:
    """Install a plugin for Claude Code: MCP server, hooks for prompts and a session's start and end, and commands."""
    from memory_assets.settings import load_settings

    name = chosen_tenant(name)
    tenant = Tenant(load_settings(), name)
    if name and not take_out:
        tenant.must_exist()
    projects_dir = tenant.settings.claude_projects_dir
    done = operations.install.install_claude_code(name, projects_dir, status_line=status_line, take_out=take_out, dry_run=dry_run)
    print_answer(done, tenant, as_json=as_json)


@click.command(epilog="Example: d=~/.local/share/bash-completion/completions; mkdir -p $d; memory completion bash > $d/memory")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes commands and options of `memory` in a shell."""
    complete = get_completion_class(shell)
    assert complete, shell
    say(complete(context.find_root().command, {}, "memory", "_MEMORY_COMPLETE").source())
