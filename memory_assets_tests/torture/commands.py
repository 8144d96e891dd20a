"""Kill every writing command at its joints, at random moments and with its children; run again, it must end as if undisturbed.

The result is compared with that of an undisturbed run: memories with their states, relations, the files of silos and homes, the tables
of the catalog, the nodes in Tana. Differences between two undisturbed runs are ignored.
"""

import itertools
import json
import random
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memory_assets_tests.tana.stand_in import StandIn
from memory_assets_tests.torture.world import Report, World
from memory_assets_tests.torture.zygote import Outcome, Zygote, start_cold

SESSION = {"session_id": "s1", "source": "startup", "transcript_path": "{folder}/session.jsonl", "cwd": "{folder}"}
_MOMENT = re.compile(rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d[:\d.]*(?:Z|[+-]\d\d:\d\d)?|\b\d{13}\b|\b[0-9a-f]{32}\b")
_MOST_KILLS = 3
"""Most kills of one command before it may end."""
_TRIES = 3
"""Tries to hit a command while it runs, after the time is over."""
Portrait = dict[tuple[str, ...], Any]


@dataclass(frozen=True, slots=True)
class Writing:
    """A writing command."""

    arguments: str
    before: tuple[str, ...] = ()
    """Commands that must run first, so that it has something to do."""
    given: str = ""
    """Standard input."""
    cold: bool = False
    """Whether to start it like a user, without the zygote, so that it starts children."""
    once: bool = False
    """Whether it may refuse to run a second time."""
    then: str = ""
    """Command that updates the derived tables before the comparison, if they may be stale."""
    adds: bool = False
    """Whether a second run adds the same again."""


_LINES = "".join(json.dumps({"id": number, "content": f"Bruno paid {number}."}) + "\n" for number in range(1, 1_060, 2))
"""More lines than an import commits at once."""
COMMANDS: Mapping[str, Writing] = {
    "run": Writing("run"),
    "run, cold": Writing("run", cold=True),
    "import": Writing("import -", given=_LINES),
    "import, cold": Writing("import -", given=_LINES, cold=True),
    "export": Writing("export {folder}/home/export.jsonl"),
    "backfill": Writing("backfill"),
    "decay": Writing("consolidate decay", before=("run",)),
    "creative": Writing("consolidate creative", before=("run",)),
    "cluster": Writing("consolidate cluster", before=("run",)),
    "forget cycle": Writing("consolidate forget --yes", before=("run",)),
    "graph": Writing("graph {folder}/home/graph.html", before=("run",)),
    "scan": Writing("scan --mend"),
    "doctor": Writing("doctor --mend"),
    "tenant create": Writing("tenant create other", once=True),
    "tenant delete": Writing("tenant delete doomed --yes", once=True),
    "key": Writing("key create laptop", adds=True),
    "session-start": Writing("session-start", given=json.dumps(SESSION)),
    "session-end": Writing("session-end", given=json.dumps(SESSION)),
    "learn check": Writing("learn check", before=("run",)),
    "learn review": Writing("learn review --accept LP-001", before=("run", "learn check")),
    "learn apply": Writing("learn apply", before=("run", "learn check", "learn review --accept LP-001"), then="run"),
    "learn undo": Writing(
        "learn undo", before=("run", "learn check", "learn review --accept LP-001", "learn apply"), once=True, then="run"
    ),
    "install": Writing("install claude-code --status-line"),
    "install remove": Writing("install claude-code --remove", before=("install claude-code --status-line",)),
    "tana read": Writing("tana read"),
    "pai schema": Writing("pai schema init"),
    "pai sync": Writing("pai sync", before=("run",)),
    "pai sync, cold": Writing("pai sync", before=("run",), cold=True),
    "pai people": Writing("pai people"),
}


class Stage:
    """A world that is set up once and copied for each kill."""

    def __init__(self, zygote: Zygote, folder: Path, tana: StandIn) -> None:
        self.tana, self.folder = tana, folder
        self.origin = World(zygote, folder / "origin", MEMORY_TANA_URL=tana.url, MEMORY_TANA_TOKEN=tana.token).with_sample()
        said = [f"From now on, mind rule {number}." for number in range(5)]
        entries = [{"type": "user", "message": {"role": "user", "content": text}} for text in said]
        (self.origin.folder / "session.jsonl").write_text(
            "".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8"
        )
        self.origin.remember(60)
        for line in ("forget 4", "supersede 9 10", "tag 6 billing", "tenant create doomed"):
            self.origin.must(*line.split())

    def prepared(self, command: Writing) -> World:
        """Return the world as it is just before a command."""
        world = self.copy(self.origin, "prepared")
        for line in command.before:
            world.must(*line.split())
        return world

    def copy(self, world: World, name: str) -> World:
        """Copy a world; its Tana starts over."""
        self.tana.reset()
        self.tana.populate(40)
        return world.copied(self.folder / name)

    def portrait(self, world: World) -> Portrait:
        """Return everything that a command promises to leave, as keys and values."""
        found: Portrait = {}
        for tenant in [path.parent.name for path in world.data.glob("*/vectors")]:
            seen = world.seen(tenant)
            for row in seen.rows.values():
                newer = seen.rows[row.superseded_by].text if row.superseded_by in seen.rows else row.superseded_by
                found["memory", tenant, row.text] = (row.state, newer, row.tags)
            for source, kind, target in seen.relations:
                found["relation", tenant, str(source), kind, str(target)] = True
        for place in (".claude", ".pai", ".config", "export.jsonl", "graph.html"):
            for path in [world.home / place, *(world.home / place).rglob("*")]:
                if path.is_file() and not path.is_symlink():
                    data = _MOMENT.sub(b"", path.read_bytes().replace(str(world.folder).encode(), b""))
                    found["file", str(path.relative_to(world.home))] = data
        found |= _tables(world.data / "main/catalog.duckdb")
        held = [
            seed_id
            for tag in ("pai_learning", "pai_proposal")
            for node in self.tana.live(tag)
            for seed_id in self.tana.seed_ids(node)
        ]
        found |= {("Tana", seed_id): count for seed_id, count in Counter(held).items()}
        if (world.data / "hooks.log").exists():
            found["hooks.log",] = (world.data / "hooks.log").read_text(encoding="utf-8")
        found |= {("left over", path.name): True for path in world.data.glob(".deleted-*")}
        return found


def _tables(path: Path) -> Portrait:
    """Count the rows of each table of a catalog."""
    import duckdb

    if not path.exists():
        return {}
    with duckdb.connect(str(path)) as catalog:
        names = [name for (name,) in catalog.execute("SELECT table_name FROM information_schema.tables").fetchall()]
        return {("table", name): catalog.execute(f'SELECT count(*) FROM "{name}"').fetchall()[0][0] for name in names}


def _line(command: Writing, world: World) -> tuple[list[str], str]:
    arguments = [part.replace("{folder}", str(world.folder)) for part in command.arguments.split()]
    return arguments, command.given.replace("{folder}", str(world.folder))


def _run(command: Writing, world: World) -> Outcome:
    arguments, given = _line(command, world)
    return world.run(*arguments, given=given, joint=0)


def _kill(command: Writing, world: World, chance: random.Random, joints: int, seconds: float) -> tuple[Outcome, str]:
    """Start a command and kill it or one of its children."""
    arguments, given = _line(command, world)
    if not command.cold and chance.random() < 0.6:
        joint = chance.randint(1, max(1, joints))
        return world.run(*arguments, given=given, joint=joint), f"at joint {joint}"
    begin = start_cold if command.cold else world.zygote.start
    started = begin(world.environment(), *arguments, given=given)
    moment = chance.uniform(0.05, seconds * (2.0 if command.cold else 1.0))
    time.sleep(moment)
    whom = chance.choice(("leader", "child", "all"))
    if whom != "child" or not started.kill_child(chance.randrange(8)):
        started.kill(group=whom == "all")
    return started.wait(), f"{whom} after {moment:.2f} s"


def campaign(zygote: Zygote, folder: Path, seconds: float, seed: int, names: Sequence[str] = tuple(COMMANDS)) -> Report:
    """Kill each command repeatedly until the time is over."""
    report, chance, begun = Report("commands killed", seed), random.Random(seed), time.monotonic()
    with StandIn() as tana:
        tana.populate(40)
        stage = Stage(zygote, folder, tana)
        for place, name in enumerate(names):
            tried, kills, failed = report.tried, report.kills, len(report.failures)
            try_command(report, stage, name, chance, begun + seconds * (place + 1) / len(names))
            print(
                f"{name:<20} {report.tried - tried:>4} {report.kills - kills:>4} {len(report.failures) - failed:>4}", flush=True
            )
    return report


def try_command(report: Report, stage: Stage, name: str, chance: random.Random, until: float) -> None:
    """Kill one command at least once, and repeatedly until `until`."""
    command = COMMANDS[name]
    prepared = stage.prepared(command)
    before = stage.portrait(prepared)
    _, first, *_ = _undisturbed(stage, prepared, command)
    after, second, whole, lasts, world = _undisturbed(stage, prepared, command)
    report.attempt(f"{name} undisturbed", whole.problem or (whole.err.strip()[-200:] if whole.code else None))
    doctor = world.run("doctor")
    noise = {key for key in first.keys() | second.keys() if first.get(key) != second.get(key)}
    wanted = {key: value for key, value in second.items() if key not in noise}
    for tries in itertools.count(1):
        world, killed, kills, problem = stage.copy(prepared, "world"), whole, [], None
        for _ in range(chance.randint(1, _MOST_KILLS)):
            killed, how = _kill(command, world, chance, whole.joints, lasts)
            report.kills += killed.killed or "child" in how
            kills.append(f"{how}: exit {killed.code}")
            problem = killed.problem or _torn(before, after, stage.portrait(world), noise)
            if problem or not killed.killed:
                break
        again = _run(command, world) if not problem else killed
        problem = problem or again.problem
        report.acknowledged += not again.code
        if not problem and again.code and not command.once:
            problem = f"run again, it fails: {again.err.strip()[-200:]}"
        if not problem:
            examined = world.run("doctor", *(["--mend"] if name == "tenant delete" else []))
            ended = {key: value for key, value in _settled(stage, world, command).items() if key not in noise}
            problem = examined.problem or (f"doctor: {examined.out[-200:]}" if examined.code > doctor.code else None)
            problem = problem or (None if command.adds else _differs(wanted, ended))
        report.attempt(f"{name} killed", problem, [f"{name}: {' '.join(_line(command, world)[0])}, killed {', '.join(kills)}"])
        if time.monotonic() > until and (killed.killed or len(kills) > 1 or tries == _TRIES):
            return


def _undisturbed(stage: Stage, prepared: World, command: Writing) -> tuple[Portrait, Portrait, Outcome, float, World]:
    """Run a command undisturbed; return its result before and after `then`, its outcome, its seconds and the world."""
    world = stage.copy(prepared, "whole")
    began = time.monotonic()
    outcome = _run(command, world)
    seconds = time.monotonic() - began
    return stage.portrait(world), _settled(stage, world, command), outcome, seconds, world


def _settled(stage: Stage, world: World, command: Writing) -> Portrait:
    if command.then:
        world.must(*command.then.split())
    return stage.portrait(world)


def _torn(before: Portrait, after: Portrait, now: Portrait, noise: set[tuple[str, ...]]) -> str | None:
    """Describe a value that is neither the old nor the new one; a file, which several steps may write, must only not be lost or empty."""
    for key in before.keys() | after.keys():
        old, new, found = before.get(key), after.get(key), now.get(key)
        if key in noise or key[0] not in ("memory", "relation", "file") or found in (old, new):
            continue
        if key[0] != "file" or not found:
            return f"after the kill {key} is {str(found)[:150]}, and neither {str(old)[:150]} nor {str(new)[:150]}"
    return None


def _differs(wanted: Portrait, now: Portrait) -> str | None:
    wrong = [key for key in sorted(wanted.keys() | now.keys()) if wanted.get(key) != now.get(key)]
    if not wrong:
        return None
    key = wrong[0]
    became, is_wanted = str(now.get(key)), str(wanted.get(key))
    differs = next((place for place, pair in enumerate(zip(became, is_wanted, strict=False)) if pair[0] != pair[1]), 0)
    start = max(0, differs - 40)
    became, is_wanted = became[start : start + 150], is_wanted[start : start + 150]
    return f"run again, {len(wrong)} things are not as undisturbed: {key} is {became} instead of {is_wanted}"
