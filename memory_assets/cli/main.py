"""The `memory` command: a group that imports a command's module only when the command is called."""

import codecs
import gc
import json
import os
import sys
import threading
from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module
from io import StringIO, TextIOWrapper

import click

from memory_assets.cli.command import TENANT
from memory_assets.display import visible
from memory_assets.errors import InvalidInputError, MemoryAssetsError, describe_lack
from memory_assets.privacy import keep_private

COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("run", "Take in what changed: sources, features, memories, graph, scores."),
    "store": ("change", "Store a text as a memory."),
    "search": ("look", "Search memories by meaning and words."),
    "context": ("look", "Assemble everything relevant about a topic within a budget of tokens."),
    "recent": ("look", "List the newest memories."),
    "init": ("look", "Begin a session: show the time and the memories of the last day."),
    "show": ("look", "Show everything about one memory."),
    "session-start": ("session", "Print the text for a session's start, as a hook."),
    "session-end": ("session", "Note lasting sentences of the user's in a session, as a hook."),
    "noted": ("change", "List notes of sessions, and store or drop them."),
    "install": ("connect", "Install the memory into Claude Code, or remove it."),
    "forget": ("change", "Take a memory out of recall, or bring it back."),
    "erase": ("change", "Remove memories for good, so that no file holds their texts."),
    "edit": ("change", "Correct a memory's text; the old version stays as history."),
    "tag": ("change", "Add tags to a memory, or remove some."),
    "supersede": ("change", "Replace a memory that no longer holds by another."),
    "undo": ("change", "Take back the last change of a memory."),
    "relate": ("change", "State how two memories relate."),
    "conflicts": ("look", "List memories that contradict each other, and decide that both hold."),
    "names": ("look", "List people, projects and things; merge or split names."),
    "timeline": ("look", "Count memories by time, or list those that held on a day."),
    "session": ("look", "Preview the text for the next session's start; switch memories off."),
    "learn": ("learn", "Curate Claude Code's silos into PAI's homes: check, review, apply, undo."),
    "consolidate": ("run", "Run a sleep cycle now: decay, creative, cluster, forget."),
    "graph": ("look", "Draw the graph as one HTML file."),
    "import": ("keep", "Import memories from a JSON Lines file."),
    "backup": ("keep", "Back up to a folder or bucket; list and verify backups."),
    "restore": ("keep", "Restore a tenant from a backup."),
    "export": ("keep", "Write all memories as JSON Lines."),
    "backfill": ("keep", "Recompute memories with the settings' embedder and pipeline."),
    "pai": ("pai", "Mirror pai-seed's learnings in Tana."),
    "up": ("up", "Keep the memory current: daemon, UI and HTTP service under one supervisor."),
    "down": ("up", "End the processes that `memory up` keeps running."),
    "ui": ("connect", "Open the memory in a browser: search, correct, review."),
    "serve": ("connect", "Serve the memory over HTTP."),
    "mcp": ("connect", "Serve the memory to an assistant over MCP."),
    "tana": ("pai", "Read a workspace of Tana."),
    "tenant": ("tenant", "Create, list and delete tenants."),
    "key": ("tenant", "Create, list and revoke the keys of a tenant."),
    "health": ("look", "Check whether the memory works, and show how much it holds."),
    "status": ("look", "Count memories, waiting and refused files."),
    "scan": ("look", "Find keys and passwords in stored texts, and mask them."),
    "completion": ("connect", "Print the completion script of your shell."),
    "doctor": ("look", "Check settings and stores, and say how to mend faults."),
}
"""Command -> its module below `memory_assets.cli`, and the line that `memory --help` prints without importing it."""

_COLLECTED_AFTER = 50_000
"""Objects after which Python collects garbage. With the default, collecting during imports takes a tenth of the start."""
_NATIVE = frozenset({"mcp-warm-up", "prompt-recall", "source-taking-in"})
"""Daemon threads that run C++ code. If such a thread asks for the interpreter's lock while the interpreter shuts down, the process
aborts ("terminate called without an active exception"), so it exits without shutting down."""
_VALIDATION = "validation: "
"""Prefix of a refused text's error, which is not shown."""


class _LazyGroup(click.Group):
    """Imports a command's module when the command is called or asked for its own help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"memory_assets.cli.{COMMANDS[cmd_name][0]}")
        return getattr(module, "import_" if cmd_name == "import" else cmd_name.replace("-", "_"))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read `help` as `--help`, and `help COMMAND` as `COMMAND --help`."""
        return super().parse_args(ctx, [*args[1:], "--help"] if args[:1] == ["help"] else args)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggest the closest command for an unknown one."""
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
@click.option("--tenant", metavar="NAME", help="Tenant to use; the same as after the command.")
@click.pass_context
def cli(context: click.Context, tenant: str | None) -> None:
    """The durable memory of an AI assistant."""
    context.meta[TENANT] = tenant


def main() -> None:
    """Run the command line; exit with 0 on success, 1 with one sentence on stderr on failure, 2 on wrong usage or values."""
    keep_private()
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # the parent process closed it
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115, PTH123
    if isinstance(sys.stdout, TextIOWrapper) and codecs.lookup(sys.stdout.encoding).name != "utf-8":
        codecs.register_error("json", _escape)
        sys.stdout.reconfigure(errors="json")
    gc.set_threshold(_COLLECTED_AFTER)
    code = _run()
    if any(thread.name in _NATIVE for thread in threading.enumerate()):
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _escape(error: UnicodeError) -> tuple[str, int]:
    """Escape the characters that the encoding of the terminal lacks like JSON, which keeps its meaning."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def _was_interrupted(error: BaseException | None) -> bool:
    """Return whether Ctrl-C caused an error, such as that of a library that was interrupted while it loaded."""
    while error and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return error is not None


def _run() -> int:
    output = sys.stdout
    try:
        try:
            return cli(standalone_mode=False) or 0
        except (KeyboardInterrupt, Exception) as error:  # Ctrl-C itself, or what click or a library makes of it
            if not _was_interrupted(error):
                raise
            click.echo("memory: Stopped.", err=True)
            return 130
    except click.ClickException as error:
        from memory_assets.language.secrets import mask

        if isinstance(error, click.NoSuchOption):  # perhaps a text that begins with dashes
            error = click.NoSuchOption(error.option_name.split()[0], possibilities=error.possibilities, ctx=error.ctx)
        message = StringIO()
        error.show(message)
        click.echo(visible(mask(message.getvalue())), err=True, nl=False)
        return error.exit_code
    except click.Abort:
        return 130
    except MemoryAssetsError as error:
        is_invalid = isinstance(error, InvalidInputError) or str(error).startswith(_VALIDATION)
        click.echo(f"memory: {visible(str(error).removeprefix(_VALIDATION))}", err=True)
        return 2 if is_invalid else 1
    except SystemExit:
        if sys.stdout is output:  # click replaces it where whoever reads has seen enough
            raise
        return 0
    except Exception as error:
        if not (lack := describe_lack(error)):
            raise
        click.echo(f"memory: {visible(lack)}", err=True)
        return 1
