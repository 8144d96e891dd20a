"""The `memory` command: a group whose commands are imported when they are called, so that a start pays only for what it uses."""

import errno
import gc
import sys
from difflib import get_close_matches
from importlib import import_module
from io import StringIO

import click

from memory_assets.display import visible
from memory_assets.errors import MemoryAssetsError
from memory_assets.privacy import keep_private

COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("run", "Take in what changed: sources, features, memories, graph, scores."),
    "store": ("store", "Remember a text."),
    "search": ("search", "Find memories by meaning and by words."),
    "context": ("context", "Assemble everything relevant about a topic within a budget of tokens."),
    "recent": ("recent", "List the newest memories."),
    "init": ("init", "Begin a session: the time, and what was remembered in the last day."),
    "show": ("show", "Show everything about one memory."),
    "session-start": ("session_start", "Print what a session is told when it begins, as a hook."),
    "session-end": ("session_end", "Note what the user said in a session that should last, as a hook."),
    "noted": ("noted", "List what was noted in sessions, and store or drop it."),
    "install": ("install", "Make the memory known to Claude Code, or take it out again."),
    "forget": ("forget", "Take a memory out of recall, or bring it back."),
    "edit": ("edit", "Correct what a memory says; the old version stays as history."),
    "tag": ("tag", "Give a memory tags, or take some from it."),
    "supersede": ("supersede", "Let one memory take the place of another that no longer holds."),
    "undo": ("undo", "Take back what was last done to a memory."),
    "relate": ("relate", "State how two memories relate."),
    "learn": ("learn", "Curate Claude Code's silos into PAI's homes: check, review, apply, undo."),
    "consolidate": ("consolidate", "Run a sleep cycle now: decay, creative, cluster, forget."),
    "graph": ("graph", "Draw the graph as one HTML file."),
    "import": ("import_", "Take in memories from a JSON Lines file."),
    "export": ("export", "Write all memories as JSON Lines."),
    "backfill": ("backfill", "Move the memories to the embedder and pipeline of the settings."),
    "pai": ("pai", "Mirror pai-seed's learnings in Tana."),
    "serve": ("serve", "Serve the memory over HTTP."),
    "mcp": ("mcp", "Serve the memory to an assistant over MCP."),
    "tana": ("tana", "Read what Tana holds."),
    "tenant": ("tenant", "Create, list and delete tenants."),
    "key": ("key", "Create, list and revoke the keys of a tenant."),
    "health": ("health", "Tell whether the memory works and how much it holds."),
    "status": ("status", "Count what is remembered, waiting and refused."),
    "scan": ("scan", "Look for keys and passwords in what is stored, and mask them."),
    "completion": ("completion", "Print what completes commands in your shell."),
    "doctor": ("doctor", "Check settings and stores, and say what mends them."),
}
"""Command name -> module below `memory_assets.cli`, and the line that `memory --help` prints without importing it."""


_COLLECTED_AFTER = 50_000
"""Objects after which garbage is looked for. What a start imports stays, and looking it through time and again takes a tenth of it."""
_DISK_FAULTS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM})
"""What a person can mend at the disk."""


class _LazyGroup(click.Group):
    """Imports a command's module when the command is called or asked for its own help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        return import_module(f"memory_assets.cli.{COMMANDS[cmd_name][0]}").command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Say which command was perhaps meant by one that does not exist."""
        if args and args[0] not in COMMANDS and (close := get_close_matches(args[0], COMMANDS, n=1)):
            ctx.fail(f"No such command {args[0]!r}. Did you mean {close[0]!r}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Example: memory search 'why did we leave MongoDB' --explain",
)
@click.version_option(package_name="memory_assets", prog_name="memory")
def cli() -> None:
    """The durable memory of an AI assistant."""


def main() -> None:
    """Run the command line: exit 0 if all went well, 1 with one sentence on stderr if not, 2 for wrong usage."""
    keep_private()
    gc.set_threshold(_COLLECTED_AFTER)
    try:
        sys.exit(cli(standalone_mode=False))
    except click.ClickException as error:
        said = StringIO()
        error.show(said)
        click.echo(visible(said.getvalue()), err=True, nl=False)
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(130)
    except MemoryAssetsError as error:
        click.echo(f"memory: {visible(str(error))}", err=True)
        sys.exit(1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:
        if error.errno not in _DISK_FAULTS:
            raise
        where = f" {error.filename}" if error.filename else ""
        click.echo(
            f"memory: The disk does not take what is to be written{visible(where)} ({error.strerror}); "
            "make room or give yourself write access, and run the command again.",
            err=True,
        )
        sys.exit(1)
