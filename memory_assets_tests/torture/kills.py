"""Kill -9 in the midst of every command that writes: nothing that was there is lost or half, and the command can be run again."""

import random
import shutil
import signal
import time
from pathlib import Path

from memory_assets.models import State
from memory_assets_tests.torture.world import Report, World, said_badly

COMMANDS: dict[str, tuple[str, ...]] = {
    "run": ("run",),
    "store": ("store", "Zoe keeps the keys of the billing export."),
    "import": ("import", "{lines}"),
    "export": ("export", "{folder}/export.jsonl"),
    "forget": ("forget", "3"),
    "restore": ("forget", "4", "--restore"),
    "edit": ("edit", "5", "Alice moved part five to PostgreSQL."),
    "tag": ("tag", "6", "billing"),
    "relate": ("relate", "7", "LEADS_TO", "8"),
    "backfill": ("backfill",),
    "decay": ("consolidate", "decay"),
    "creative": ("consolidate", "creative"),
    "cluster": ("consolidate", "cluster"),
    "forget cycle": ("consolidate", "forget", "--yes"),
    "graph": ("graph", "{folder}/graph.html"),
    "scan": ("scan", "--mend"),
    "doctor": ("doctor", "--mend"),
    "tenant create": ("tenant", "create", "other", "--with-key"),
    "tenant delete": ("tenant", "delete", "doomed", "--yes"),
    "key": ("key", "create", "laptop"),
}
_REPLACING = {"edit"}


def campaign(folder: Path, rounds: int, commands: tuple[str, ...] = tuple(COMMANDS), seed: int = 0) -> Report:
    """Kill each command `rounds` times, at moments spread over its duration."""
    report, chance = Report("kill -9"), random.Random(seed)
    origin = World(folder / "origin").with_sample()
    origin.remember(60)
    for arguments in (
        ("run",),
        ("tenant", "create", "doomed"),
        ("store", "Doomed words.", "--tenant", "doomed"),
        ("forget", "4"),
    ):
        done = origin.run(*arguments)
        assert done.returncode == 0, done.stderr
    for name in commands:
        whole = _copied(origin, folder / "whole")
        begun = time.monotonic()
        done = whole.run(*_arguments(name, whole))
        duration = time.monotonic() - begun
        report.attempt(f"{name} undisturbed", said_badly(done) or (done.stderr.strip()[-200:] if done.returncode else None))
        for number in range(rounds):
            world = _copied(origin, folder / "world")
            process = world.start(*_arguments(name, world))
            time.sleep(duration * (0.25 + 0.75 * (number + chance.random()) / rounds))
            process.send_signal(signal.SIGKILL)
            process.communicate()
            report.attempt(f"{name} killed", _lost(origin, world, name) or _not_completed(world, name))
    return report


def _copied(origin: World, folder: Path) -> World:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(origin.folder, folder)
    return World(folder)


def _arguments(name: str, world: World) -> list[str]:
    places = {"lines": str(world.folder / "lines.jsonl"), "folder": str(world.folder)}
    return [part.format(**places) for part in COMMANDS[name]]


def _lost(origin: World, world: World, name: str) -> str | None:
    """What of the memories that were there is missing or half."""
    before, after = origin.contents(), world.contents()
    if missing := before.keys() - after.keys():
        return f"{len(missing)} memories are gone"
    changed = [number for number, (text, _) in before.items() if after[number][0] != text]
    if changed:
        return f"the text of {changed[0]} changed"
    empty = [number for number, (text, state) in after.items() if not text or state not in set(State)]
    return f"{empty[0]} is half a memory" if empty else None


def _not_completed(world: World, name: str) -> str | None:
    """What is wrong when the command is run again, and with searching after it."""
    again = world.run(*_arguments(name, world))
    problem = said_badly(again)
    done_already = name in {"tenant create", "tenant delete"} or name in _REPLACING
    if not problem and again.returncode and not done_already:
        problem = again.stderr.strip()[-200:]
    if (
        not problem
        and list(world.data.glob(".deleted-*"))
        and world.run("doctor", "--mend")
        and list(world.data.glob(".deleted-*"))
    ):
        problem = "what was deleted is still on disk"
    if problem:
        return f"run again: {problem}"
    found = world.run("search", "billing export", "--json")
    return said_badly(found) or (found.stderr.strip()[-200:] if found.returncode else None)
