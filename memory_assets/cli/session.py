"""Hooks for a session's start and end. They must be quick, and a failure must never disturb the session."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from memory_assets.cli.command import chosen_tenant, say
from memory_assets.errors import DamagedError, StoreBusyError, format_trace
from memory_assets.hook_settings import read_hook_settings, read_settings_file
from memory_assets.learn import session_start as starts
from memory_assets.learn.noted import find_sentences, note
from memory_assets.sources.projects import current_project

_MOST_INPUT = 1 << 20
_MOST_LOG = 1 << 16
"""Bytes after which the hooks' log is overwritten."""
_tenant_option = click.option("--tenant", metavar="NAME", help="Tenant to use; default: MEMORY_TENANT, else main.")


@click.command(epilog="Example: memory session-start   (in a project: the text for its next session)")
@_tenant_option
@click.option("--off", "quiet", flag_value="off", help="Give sessions in this directory's project no text from now on.")
@click.option("--on", "quiet", flag_value="on", help="Give them a text again.")
def session_start(tenant: str | None, quiet: str | None) -> None:
    """Print the text for a session's start: a SessionStart hook, which reads Claude Code's JSON from standard input.

    It prints nothing if nothing fits or if it fails; hooks.log in the data folder records the failure.
    """
    settings = read_hook_settings(chosen_tenant(tenant))
    if quiet:
        read_settings_file()  # for its error: hooks hide it
        project = current_project()
        if project is None:
            raise click.UsageError("This directory belongs to no project; go into one first.")
        starts.set_quiet(settings.folder, project, quiet=quiet == "off")
        say(f"Sessions in {project.folder} are told {'nothing' if quiet == 'off' else 'what is remembered'}.")
        return
    with hide_errors(settings.data_dir):
        if text := starts.session_start(settings, starts.Hook.parse(_hook_input())):
            sys.stdout.write(f"{text}\n")


@click.command(epilog="Example: memory session-end < hook.json   (Claude Code calls it; `memory noted` shows the outcome)")
@_tenant_option
def session_end(tenant: str | None) -> None:
    """Note lasting sentences of the user's, and summarise a session at its end: a hook for PreCompact and SessionEnd.

    Notes wait for a decision (`memory noted`). It prints nothing, even if it fails; hooks.log in the data folder records the failure.
    At a session's end, where Claude Code waits 1.5 seconds, it only queues the session and starts `memory run --quick` in the background,
    which makes the notes and the summary. If another process locks the folder at PreCompact, the next run makes the notes.
    """
    from memory_assets.learn.session_queue import Ended, forget_begun, queue_session
    from memory_assets.stores.locks import HOOK_PATIENCE_SECONDS

    settings = read_hook_settings(chosen_tenant(tenant))
    with hide_errors(settings.data_dir):
        hook = starts.Hook.parse(_hook_input())
        transcript = Path(hook.transcript).expanduser()
        is_gone = tenant is not None and not settings.folder.is_dir()
        # a session without a prompt has no transcript
        has_transcript = bool(hook.transcript) and transcript.exists() and not is_gone
        folder = project.folder if (project := hook.project) else ""
        if hook.event == "SessionEnd":
            if has_transcript:
                summarised = settings.session_summary == "on" and bool(hook.session)
                queue_session(settings.folder, Ended(hook.session, str(transcript), folder, is_summarised=summarised))
            forget_begun(settings.folder, hook.session)  # not before: a killed hook would lose the session
            if has_transcript:
                _ingest_in_background(tenant)
        elif has_transcript:
            secrets: dict[str, str] = {}
            try:
                found = find_sentences(transcript, folder, hook.session, secrets)
                note(settings.folder, found, HOOK_PATIENCE_SECONDS, secrets, hook.session)
            except (StoreBusyError, DamagedError):  # a later run makes the notes
                queue_session(settings.folder, Ended(hook.session, str(transcript), folder, is_summarised=False))


def _ingest_in_background(tenant: str | None) -> None:
    """Start `memory run --quick` in the background, for the session's last files, its notes and its summary."""
    from memory_assets.install.claude_code import program

    whose = ["--tenant", tenant] if tenant else []
    subprocess.Popen(  # noqa: S603 - our own program
        [*program(), "run", "--quick", *whose],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _hook_input() -> str:
    return "" if sys.stdin.isatty() else sys.stdin.read(_MOST_INPUT)


@contextmanager
def hide_errors(data_dir: Path) -> Iterator[None]:
    """Hide every error from the host; write it to `hooks.log` in the data folder, if that exists.

    The log gets the traceback without foreign messages: they may quote a memory, which the log would keep after its deletion.
    """
    try:
        yield
    except Exception as error:  # noqa: BLE001 - no failure may disturb a session
        log = data_dir / "hooks.log"
        with suppress(OSError):
            if data_dir.is_dir():
                mode = "w" if log.exists() and log.stat().st_size > _MOST_LOG else "a"
                with log.open(mode, encoding="utf-8", errors="backslashreplace") as file:
                    file.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')}\n{format_trace(error)}\n\n")
