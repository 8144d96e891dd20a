"""`memory up` and `memory down`."""

import subprocess
import sys
import time
from typing import TYPE_CHECKING

import click

from memory_assets.cli.command import say
from memory_assets.errors import StoreError

if TYPE_CHECKING:
    from memory_assets.settings import Settings

_START_SECONDS = 150


@click.command(epilog="Example: memory up   (then: http://127.0.0.1:3000; Ctrl-C or `memory down` ends it)")
@click.option("--ui-port", type=click.IntRange(1, 65_535), default=3000, show_default=True, help="Port of Dagster's UI.")
@click.option("--port", type=click.IntRange(1, 65_535), help="Port of the HTTP service; default: PORT, else 8000.")
@click.option("--no-ui", is_flag=True, help="Run no UI.")
@click.option("--no-service", is_flag=True, help="Run no HTTP service.")
@click.option("--detach", is_flag=True, help="Run in the background; messages go to supervisor.log in the data folder.")
def up(ui_port: int, port: int | None, *, no_ui: bool, no_service: bool, detach: bool) -> None:
    """Keep the memory current: run Dagster's daemon, its UI and the HTTP service, and restart them when they end."""
    from memory_assets.settings import load_settings
    from memory_assets.supervisor import supervise

    settings = load_settings(port=port)
    if detach:
        _detach(settings, [each for each in sys.argv[1:] if each != "--detach"])
        return
    served = None if no_service else settings.port
    say("memory: Starting; Ctrl-C or `memory down` ends it.", err=True)
    supervise(settings, None if no_ui else ui_port, served, lambda line: say(f"memory: {line}", err=True))
    say("memory: Everything has ended.", err=True)


def _detach(settings: "Settings", arguments: list[str]) -> None:
    from memory_assets.supervisor import LOG, RUNS_ALREADY, find_running

    settings.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    if find_running(settings):
        raise StoreError(RUNS_ALREADY)
    path = settings.data_dir / LOG
    path.unlink(missing_ok=True)
    with path.open("ab") as log:
        command = [sys.executable, "-m", "memory_assets.cli", *arguments]
        process = subprocess.Popen(  # noqa: S603 - this program
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    deadline = time.monotonic() + _START_SECONDS
    while not ((running := find_running(settings)) and running.pid == process.pid and running.has_begun):
        if process.poll() is not None:
            raise StoreError(f"The services did not start; {path} says why.")
        if time.monotonic() > deadline:
            how = f"`memory status` shows each that runs, {path} has their messages, `memory down` ends them"
            say(f"memory: The services are still starting (process {process.pid}): {how}.", err=True)
            return
        time.sleep(0.2)
    for part in running.parts:
        say(f"{part['name']}: process {part['pid']} {part['url']}".rstrip())


@click.command(epilog="Example: memory down")
def down() -> None:
    """End the processes that `memory up` keeps running, and wait for them."""
    from memory_assets.settings import load_settings
    from memory_assets.supervisor import stop_running

    say("Everything has ended." if stop_running(load_settings()) else "Nothing runs.")
