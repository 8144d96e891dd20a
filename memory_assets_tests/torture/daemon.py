"""Let Dagster's daemon ingest a file, kill it with all its processes during the next file, and check that it recovers."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from memory_assets_tests.torture.world import Report, World
from memory_assets_tests.torture.zygote import Zygote, descendants

_PATIENCE_SECONDS = 400.0


def campaign(zygote: Zygote, folder: Path, seed: int) -> Report:
    """Run the daemon, kill it and run it again."""
    report = Report("Dagster's daemon killed", seed)
    world = World(zygote, folder)
    silo = world.home / ".claude/projects/-home-ada-atlas/memory"
    silo.mkdir(parents=True)
    world.must("run")
    environment = world.environment()
    home = subprocess.run(
        [sys.executable, "-m", "memory_assets.defs.instance"], env=environment, check=True, capture_output=True, text=True
    )
    environment["DAGSTER_HOME"] = home.stdout.strip()
    for subject in ("quokka", "wombat"):
        daemon = subprocess.Popen(
            [sys.executable, "-m", "dagster._daemon", "run", "-m", "memory_assets.definitions"],
            env=environment,
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=(folder / "daemon.log").open("w"),
            start_new_session=True,
        )
        _write(silo, subject)
        report.attempt(f"the file about the {subject}", _wait_for(world, subject))
        _write(silo, "numbat")
        time.sleep(seed % 7)
        for process in (*descendants(daemon.pid), daemon.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        daemon.wait()
        report.kills += 1
    texts = [row.text for row in world.seen().rows.values() if row.state == "active"]
    report.attempt("each file once", None if len(texts) == len(set(texts)) else f"some are there twice: {texts}")
    ended = world.run("run")
    report.attempt("a run after it", ended.problem or (ended.err[-200:] if ended.code else None))
    report.attempt("the file that it was killed in", _wait_for(world, "numbat"))
    return report


def _write(silo: Path, subject: str) -> None:
    text = f"---\nname: {subject}\ndescription: about it\ntype: project\n---\n\nThe {subject} export runs at noon.\n"
    (silo / f"{subject}.md").write_text(text, encoding="utf-8")


def _wait_for(world: World, subject: str) -> str | None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if any(subject in row.text and row.state == "active" for row in world.seen().rows.values()):
            return None
        time.sleep(1)
    return (
        f"it is not taken in after {_PATIENCE_SECONDS:.0f} s: {(world.folder / 'daemon.log').read_text(encoding='utf-8')[-300:]}"
    )
