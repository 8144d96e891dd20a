"""Kill -9 in the midst of every command that writes: nothing that was there is lost or half, and the command can be run again."""

import json
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from memory_assets.models import State
from memory_assets_tests.tana.stand_in import StandIn
from memory_assets_tests.torture.world import Report, World, said_badly

SESSION = {"session_id": "s1", "source": "startup", "transcript_path": "{folder}/session.jsonl", "cwd": "{folder}"}


@dataclass(frozen=True, slots=True)
class Command:
    """A command that writes."""

    arguments: tuple[str, ...]
    before: tuple[tuple[str, ...], ...] = ()
    """Commands without which it would have nothing to do."""
    given: str = ""
    """Its standard input."""
    once: bool = False
    """Whether it may refuse to be done a second time."""


COMMANDS: Mapping[str, Command] = {
    "run": Command(("run",)),
    "store": Command(("store", "Zoe keeps the keys of the billing export.")),
    "import": Command(("import", "{folder}/lines.jsonl")),
    "export": Command(("export", "{folder}/export.jsonl")),
    "forget": Command(("forget", "3")),
    "restore": Command(("forget", "4", "--restore")),
    "edit": Command(("edit", "5", "Alice moved part five to PostgreSQL."), once=True),
    "tag": Command(("tag", "6", "billing")),
    "relate": Command(("relate", "7", "LEADS_TO", "8")),
    "supersede": Command(("supersede", "9", "10"), once=True),
    "undo": Command(("undo", "12"), before=(("supersede", "12", "13"),)),
    "backfill": Command(("backfill",)),
    "decay": Command(("consolidate", "decay")),
    "creative": Command(("consolidate", "creative")),
    "cluster": Command(("consolidate", "cluster")),
    "forget cycle": Command(("consolidate", "forget", "--yes")),
    "graph": Command(("graph", "{folder}/graph.html")),
    "scan": Command(("scan", "--mend")),
    "doctor": Command(("doctor", "--mend")),
    "tenant create": Command(("tenant", "create", "other", "--with-key"), once=True),
    "tenant delete": Command(("tenant", "delete", "doomed", "--yes"), once=True),
    "key": Command(("key", "create", "laptop")),
    "context": Command(("context", "billing export", "--since-last")),
    "session-start": Command(("session-start",), given=json.dumps(SESSION)),
    "session-end": Command(("session-end",), given=json.dumps(SESSION)),
    "noted": Command(("noted", "--store", "1", "2"), before=(("session-end",),), once=True),
    "learn check": Command(("learn", "check")),
    "learn review": Command(("learn", "review", "--accept", "LP-001"), before=(("learn", "check"),)),
    "learn apply": Command(("learn", "apply"), before=(("learn", "check"), ("learn", "review", "--accept", "LP-001"))),
    "learn undo": Command(("learn", "undo"), before=(("learn", "check"), ("learn", "apply")), once=True),
    "install": Command(("install", "claude-code", "--status-line")),
    "install remove": Command(("install", "claude-code", "--remove"), before=(("install", "claude-code", "--status-line"),)),
    "tana read": Command(("tana", "read")),
    "pai schema": Command(("pai", "schema", "init")),
    "pai sync": Command(("pai", "sync")),
    "pai people": Command(("pai", "people")),
    "pai graph": Command(("pai", "graph", "{folder}/learnings.html")),
}


def campaign(folder: Path, rounds: int, commands: tuple[str, ...] = tuple(COMMANDS), seed: int = 0) -> Report:
    """Kill each command `rounds` times, at moments spread over its duration."""
    report, chance = Report("kill -9"), random.Random(seed)
    with StandIn() as tana:
        tana.populate(40)
        origin = World(folder / "origin", tana.url, tana.token).with_sample()
        _begin(origin)
        for name in commands:
            command = COMMANDS[name]
            prepared = _prepared(origin, folder / "prepared", command)
            whole = _copied(prepared, folder / "whole", tana)
            begun = time.monotonic()
            done = whole.run(*_filled(command.arguments, whole), given=_given(command, whole))
            duration = time.monotonic() - begun
            report.attempt(f"{name} undisturbed", said_badly(done) or (done.stderr.strip()[-200:] if done.returncode else None))
            for number in range(rounds):
                world = _copied(prepared, folder / "world", tana)
                process = world.start(*_filled(command.arguments, world), given=_given(command, world))
                time.sleep(duration * (0.25 + 0.75 * (number + chance.random()) / rounds))
                process.send_signal(signal.SIGKILL)
                process.communicate()
                problem = _lost(prepared, world) or _not_completed(world, command) or _lost(prepared, world) or _doubled(tana)
                report.attempt(f"{name} killed", problem)
    return report


def _begin(world: World) -> None:
    world.remember(60)
    said = [f"From now on, mind rule {number}." for number in range(5)]
    entries = [{"type": "user", "message": {"role": "user", "content": text}} for text in said]
    (world.folder / "session.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
    world.prepare(("run",), ("tenant", "create", "doomed"), ("store", "Doomed words.", "--tenant", "doomed"), ("forget", "4"))


def _prepared(origin: World, folder: Path, command: Command) -> World:
    world = _copied(origin, folder)
    for arguments in command.before:
        _succeed(world, arguments)
    return world


def _succeed(world: World, arguments: tuple[str, ...]) -> None:
    given = _given(COMMANDS[arguments[0]], world) if arguments[0] in COMMANDS else ""
    done = world.run(*_filled(arguments, world), given=given)
    assert done.returncode == 0, done.stderr


def _copied(origin: World, folder: Path, tana: StandIn | None = None) -> World:
    """A copy of a world; a Tana that it is shown begins anew."""
    if tana:
        tana.reset()
        tana.populate(40)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(origin.folder, folder, symlinks=True)
    return World(folder, origin.environment["MEMORY_TANA_URL"], origin.environment["MEMORY_TANA_TOKEN"])


def _filled(arguments: tuple[str, ...], world: World) -> list[str]:
    return [part.replace("{folder}", str(world.folder)) for part in arguments]


def _given(command: Command, world: World) -> str:
    return command.given.replace("{folder}", str(world.folder))


def _lost(origin: World, world: World) -> str | None:
    """What of the memories and curated files that were there is missing or half."""
    before, after = origin.contents(), world.contents()
    if missing := before.keys() - after.keys():
        return f"{len(missing)} memories are gone"
    changed = [number for number, (text, _) in before.items() if after[number][0] != text]
    if changed:
        return f"the text of {changed[0]} changed"
    empty = [number for number, (text, state) in after.items() if not text or state not in set(State)]
    if empty:
        return f"{empty[0]} is half a memory"
    kept = world.curated() + "\n".join(text for text, _ in after.values())
    gone = [text for text in origin.curated_texts() if text not in kept]
    return f"{len(gone)} texts of silos and homes are gone, {gone[0][:60]!r} among them" if gone else None


def _not_completed(world: World, command: Command) -> str | None:
    """What is wrong when the command is run again, and with searching after it."""
    again = world.run(*_filled(command.arguments, world), given=_given(command, world))
    problem = said_badly(again)
    if not problem and again.returncode and not command.once:
        problem = again.stderr.strip()[-200:]
    left = list(world.data.glob(".deleted-*"))
    if not problem and left and world.run("doctor", "--mend") and list(world.data.glob(".deleted-*")):
        problem = "what was deleted is still on disk"
    if not problem and (world.data / "hooks.log").exists():
        problem = f"a hook failed: {(world.data / 'hooks.log').read_text()[-200:]}"
    if problem:
        return f"run again: {problem}"
    found = world.run("search", "billing export", "--json")
    return said_badly(found) or (found.stderr.strip()[-200:] if found.returncode else None)


def _doubled(tana: StandIn) -> str | None:
    """Entries of seed.json that have more than one node in Tana."""
    held = [seed_id for tag in ("pai_learning", "pai_proposal") for node in tana.live(tag) for seed_id in tana.seed_ids(node)]
    twice = [seed_id for seed_id, count in Counter(held).items() if count > 1]
    return f"{len(twice)} entries have two nodes in Tana" if twice else None
