"""One long seeded history of operations of several tenants: concurrent, killed at random joints, with differing clocks."""

import fcntl
import json
import os
import random
import shlex
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from memory_assets_tests.torture.oracle import ACTIVE, ARCHIVED, Author, Model, Operation, RefusedError, Seen, explain, followed
from memory_assets_tests.torture.world import Report, World, same, secrets_on_disk
from memory_assets_tests.torture.zygote import Command, Outcome, Zygote, start_cold

_TENANTS = ("main", "one", "two")
_SHIFTS = (0.0,) * 8 + (-540.0, 540.0)
_REMEMBERED = 25
"""Number of past operations that a failure prints, and of recent memories that the next operations use."""

_LEAST_STEPS = 20
_MOST_IMPORTED = 1_000
"""Most memories of a store that is also copied by export, because an import reads and embeds each text again."""
_MOST_KILLS = 3
"""Most kills of one command before it may end."""


@dataclass
class Kept:
    """The campaign's knowledge of a tenant."""

    tenant: str
    model: Model = field(default_factory=Model)
    ids: list[int] = field(default_factory=list)
    """Ids of the memories that operations use, in order of arrival."""
    copy: dict[int, tuple[str, str, int | None]] = field(default_factory=dict)
    """A copy of the memories, made from the change feed."""
    past: deque[str] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    secrets: list[str] = field(default_factory=list)


class History:
    """A series of operations, kills and comparisons."""

    def __init__(
        self,
        zygote: Zygote,
        folder: Path,
        seed: int,
        size: int = 0,
        cold: float = 0.01,
        name: str = "history",
    ) -> None:
        """Create the tenants."""
        self.report, self.chance, self.cold = Report(name, seed), random.Random(seed), cold
        self.world, self.author = World(zygote, folder), Author(self.chance)
        self.size = size
        self.kept: dict[str, Kept] = {}
        self._joints: dict[str, int] = {}
        self._seconds: dict[str, float] = {}
        self._tenants = 0
        for tenant in _TENANTS:
            self._fresh(tenant)

    def go(self, seconds: float, stop_at: int = 0) -> Report:
        """Run for `seconds`, or until `stop_at` failures."""
        until, steps = time.monotonic() + seconds, 0
        for _ in range(2):
            self._do("one", [self.author.store()], (0,))
        if len(ids := self.kept["one"].ids) > 1:
            self._do("one", [Operation("relate", (ids[0], ids[1]), "LEADS_TO")], (0,))
        self._wait_for_lock("one")
        self._copy("one", backup=True)
        self._create_and_delete()
        while (time.monotonic() < until or steps < _LEAST_STEPS) and not (stop_at and len(self.report.failures) >= stop_at):
            steps += 1
            tenant = self.chance.choice(_TENANTS)
            kept, dice = self.kept[tenant], self.chance.random()
            if dice < 0.02:
                self._create_and_delete()
            elif dice < 0.05 and kept.ids:
                self._copy(tenant, backup=self.chance.random() < 0.5 or len(kept.model.rows) > _MOST_IMPORTED)
            elif dice < 0.09 and len(kept.ids) > 3:
                self._erase(tenant)
            elif dice < 0.1 and kept.ids:
                self._wait_for_lock(tenant)
            elif dice < 0.24 and len(kept.ids) > 3:
                self._do(tenant, self._rivals(kept), (0, 0, 0.3))
            else:
                operation = self.author.operation(kept.model, kept.ids[-_REMEMBERED:])
                self._do(tenant, [operation], (0, 0.5, 1))
            if steps % 25 == 0:
                self._look_everywhere()
        self._look_everywhere()
        return self.report

    def _rivals(self, kept: Kept) -> list[Operation]:
        """Make concurrent operations on the same few memories."""
        ids = self.chance.sample(kept.ids[-_REMEMBERED:], 3)
        active = [number for number in kept.ids[-_REMEMBERED:] if kept.model.rows[number].state == ACTIVE]
        if len(active) > 1 and self.chance.random() < 0.4:
            first, second = self.chance.sample(active, 2)
            return [Operation("supersede", (first, second)), Operation("supersede", (second, first))]
        made = [self.author.operation(kept.model, ids) for _ in range(self.chance.choice((2, 2, 3)))]
        return [operation for operation in made if operation.name != "import"] or [self.author.store()]

    def _do(self, tenant: str, operations: Sequence[Operation], kills: Sequence[float]) -> None:
        """Run operations concurrently, kill some of them, and compare the store with the model."""
        kept, shift = self.kept[tenant], self.chance.choice(_SHIFTS)
        kept.secrets += [operation.secret for operation in operations if operation.secret]
        outcomes = self._run(kept.tenant, operations, kills, shift)
        done = [operation for operation, outcome in zip(operations, outcomes, strict=True) if outcome.code == 0]
        cut = [operation for operation, outcome in zip(operations, outcomes, strict=True) if outcome.killed]
        self.report.kills += len(cut)
        self.report.acknowledged += len(done)
        for operation, outcome in zip(operations, outcomes, strict=True):
            ended = "killed" if outcome.killed else f"exit {outcome.code}"
            kept.past.append(f"{shlex.join(operation.arguments())}: {ended} at joint {outcome.joints}, clock {shift:+.0f} s")
        for operation in operations:
            if operation.name == "import" or (operation.name == "relate" and len(operations) > 1):
                self.author.unsure |= {*operation.ids, *(number for number, _ in operation.lines)}
        problem = next((outcome.problem for outcome in outcomes if outcome.problem), None)
        if not problem and len(operations) == 1 and outcomes[0].code in (1, 2) and (wrong := self._possible(kept, operations[0])):
            problem = f"it was refused, although {wrong}: {outcomes[0].err.strip()[-150:]}"
        before = kept.model
        if not problem:
            problem = self._compare(tenant, done, cut)
        if not problem and len(operations) == len(cut) == 1 and operations[0].repeatable:
            problem = self._again(tenant, before, operations[0])
        if not problem and self.chance.random() < 0.5:
            problem = self._follow(tenant)
        if not problem and kept.ids and self.chance.random() < 0.25:
            problem = self._search(tenant)
        names = " and ".join(operation.name for operation in operations)
        self.report.attempt(
            f"{names}{' at once' if len(operations) > 1 else ''}{' killed' if cut else ''}", problem, list(kept.past)
        )
        if problem:
            self._fresh(tenant)

    def _run(self, tenant: str, operations: Sequence[Operation], kills: Sequence[float], shift: float) -> list[Outcome]:
        commands: list[Command] = []
        late: list[tuple[float, Command]] = []
        begun = time.monotonic()
        for operation in operations:
            way = self.chance.choice(kills) if self.chance.random() < 0.9 else 0
            cold = len(operations) == 1 and self.chance.random() < self.cold
            early = not cold and way and self.chance.random() < (0.7 if way < 1 else 0.4)
            arguments, given = operation.arguments(), operation.given
            if cold:
                commands.append(start_cold(self.world.environment(tenant), *arguments, given=given))
            else:
                joint = self.chance.randint(1, self._joints.get(operation.name, 12)) if early else 0
                commands.append(self.world.start(*arguments, tenant=tenant, given=given, joint=joint, shift=shift))
            if cold or (way == 1 and not early):
                most = 2.0 if cold else self._seconds.get(operation.name, 0.3)
                late.append((self.chance.uniform(0.02, most), commands[-1]))
        for seconds, command in sorted(late, key=lambda each: each[0]):
            time.sleep(max(0.0, begun + seconds - time.monotonic()))
            command.kill(group=self.chance.random() < 0.5)
        outcomes = [command.wait() for command in commands]
        for operation, outcome in zip(operations, outcomes, strict=True):
            if outcome.code == 0 and len(operations) == 1:
                self._joints[operation.name] = min(outcome.joints, 60)
                self._seconds[operation.name] = time.monotonic() - begun
        return outcomes

    def _possible(self, kept: Kept, operation: Operation) -> str | None:
        try:
            after = kept.model.after(operation)
        except RefusedError:
            return None
        return "it can be done" if after.rows != kept.model.rows or after.relations != kept.model.relations else None

    def _compare(self, tenant: str, done: Sequence[Operation], cut: Sequence[Operation]) -> str | None:
        kept = self.kept[tenant]
        model, wrong = explain(kept.model, self.world.seen(kept.tenant), done, cut)
        if model is None:
            return wrong
        kept.ids += [number for number in model.rows if number not in kept.model.rows and number not in kept.ids]
        kept.model = model
        return None

    def _again(self, tenant: str, before: Model, operation: Operation) -> str | None:
        """Run a killed operation again; it must end as if undisturbed."""
        kept, now = self.kept[tenant], self.kept[tenant].model

        def torn() -> str | None:
            kept.model = before
            return self._compare(tenant, (), [operation])

        again, wrong = self._until_it_ends(kept, operation.arguments(), operation.given, name=operation.name, between=torn)
        if not wrong:
            kept.model = before
            wrong = self._compare(tenant, [operation] if self._possible(kept, operation) else [], ())
        if wrong:
            kept.model = now
            return f"run again after the kill, it does not end as undisturbed: {wrong} {again.err.strip()[-100:]}"
        return None

    def _until_it_ends(
        self,
        kept: Kept,
        line: Sequence[str],
        given: str = "",
        *,
        name: str = "",
        world: World | None = None,
        shift: float = 0.0,
        between: Callable[[], str | None] = lambda: None,
    ) -> tuple[Outcome, str | None]:
        """Run a command that is killed up to three times; return its last outcome and a problem, if any."""
        name, world, kills = name or " ".join(line[:2]), world or self.world, self.chance.randint(0, _MOST_KILLS)
        while True:
            joint = self.chance.randint(1, self._joints.get(name, 40)) if kills else 0
            done = world.run(*line, tenant=kept.tenant, given=given, joint=joint, shift=shift)
            ended = f"killed at joint {joint}" if done.killed else f"exit {done.code}"
            kept.past.append(f"{shlex.join(line)}: {ended} {done.err.strip()[-100:]}")
            if not done.killed:
                self.report.acknowledged += not done.code
                self._joints[name] = max(1, min(done.joints, 60))
                return done, done.problem
            kills -= 1
            self.report.kills += 1
            if wrong := done.problem or between():
                return done, f"after a kill: {wrong}"

    def _follow(self, tenant: str) -> str | None:
        kept = self.kept[tenant]
        told = self.world.run("@feed", str(self.world.folder / f"{kept.tenant}.feed"), tenant=kept.tenant)
        return told.problem or followed(kept.copy, told.out, kept.model.rows)

    def _search(self, tenant: str) -> str | None:
        kept = self.kept[tenant]
        number = self.chance.choice(kept.ids[-6:])
        row = kept.model.rows[number]
        found = self.world.run("search", row.text, "--json", tenant=kept.tenant)
        if found.problem or found.code:
            return found.problem or found.err
        listed = f'"id": {number},' in found.out
        if listed != (row.state == ACTIVE):
            return f"a search for its text {'finds' if listed else 'does not find'} {number}, which is {row.state}"
        return None

    def _create_and_delete(self) -> None:
        """Create a tenant twice at once: one must succeed. Delete it during a store or with kills: it must be gone."""
        guest = self._guest("guest")
        both = [self.world.start("tenant", "create", guest.tenant) for _ in range(2)]
        outcomes = [command.wait() for command in both]
        problem = next((outcome.problem for outcome in outcomes if outcome.problem), None)
        if not problem and sorted(outcome.code for outcome in outcomes) != [0, 1]:
            problem = f"two created the tenant at once: exits {[outcome.code for outcome in outcomes]}"
        writing = [self.world.start(*self.author.store().arguments(), tenant=guest.tenant) for _ in range(2)]
        if self.chance.random() < 0.5:
            time.sleep(self.chance.uniform(0, 0.2))
        else:
            outcomes += [command.wait() for command in writing]
            writing = []
        _, wrong = self._until_it_ends(guest, ("tenant", "delete", guest.tenant, "--yes"))
        outcomes += [command.wait() for command in writing]
        problem = problem or wrong or next((outcome.problem for outcome in outcomes if outcome.problem), None)
        if not problem and (self.world.data / guest.tenant / "vectors").exists():
            problem = "a tenant that was deleted is still there"
        self.report.attempt("a tenant created twice at once, and deleted", problem, list(guest.past))

    def _wait_for_lock(self, tenant: str) -> None:
        """Check that nothing is committed while another process holds the folder's lock to delete the table or change its embedder."""
        kept, operation = self.kept[tenant], self.author.store()
        kept.secrets += [operation.secret] if operation.secret else []
        folder = os.open(self.world.data / kept.tenant / "vectors/memories.lance", os.O_RDONLY)
        fcntl.flock(folder, fcntl.LOCK_EX)
        command = self.world.start(*operation.arguments(), tenant=kept.tenant)
        ended = command.ends_within(max(1.0, 3 * self._seconds.get("store", 0.3)))
        os.close(folder)
        outcome = command.wait()
        problem = (
            "it is committed while the table is locked" if ended else outcome.problem or (outcome.err if outcome.code else None)
        )
        self.report.attempt("a store beside a deletion", problem or self._compare(tenant, [operation], ()))

    def _copy(self, tenant: str, *, backup: bool) -> None:
        """Restore a backup or import an export; every row must be equal. Then change the copy as a whole."""
        kept, copy = self.kept[tenant], self._guest("copy")
        place = str(self.world.folder / "copies")
        if backup:
            lines = (kept, ("backup", place)), (copy, ("restore", place, "--from", kept.tenant))
        else:
            self.world.must("tenant", "create", copy.tenant)
            lines = (kept, ("export", f"{place}.jsonl")), (copy, ("import", f"{place}.jsonl"))
        problem = None
        for owner, line in lines:
            done, wrong = self._until_it_ends(owner, line, name=line[0])
            problem = problem or wrong or (f"{line[0]} fails: {done.err.strip()[-200:]}" if done.code else None)
        seen = self.world.seen(copy.tenant)
        problem = problem or same(kept.model.rows, seen.rows)
        problem = problem or ("relations are missing" if seen.relations != kept.model.relations else None)
        self.report.attempt(f"{lines[0][1][0]} and {lines[1][1][0]}", problem, [*kept.past, *copy.past])
        if not problem:
            change = self.chance.choice((self._forget_all, self._scan))
            self.report.attempt(change.__name__.strip("_"), change(copy, seen), list(copy.past))
        self.world.run("tenant", "delete", copy.tenant, "--yes")

    def _forget_all(self, copy: Kept, before: Seen) -> str | None:
        """Run a forget cycle: it must archive active memories, or delete them after writing them to a file, and change nothing else."""
        deletes = self.chance.random() < 0.5
        settings = {f"MEMORY_{name}_THRESHOLD": "1" for name in ("ARCHIVE", "DELETE")}
        sleepy = World(
            self.world.zygote,
            self.world.folder,
            **settings,
            MEMORY_FORGET_GRACE_DAYS="0",
            MEMORY_FORGET_DELETES=str(deletes).lower(),
        )

        def torn() -> str | None:
            written = "".join(
                path.read_text(encoding="utf-8") for path in (self.world.data / copy.tenant).glob("deleted/*.jsonl")
            )
            texts = {json.loads(line)["content"] for line in written.splitlines()}
            now = self.world.seen(copy.tenant).rows
            for number, row in before.rows.items():
                allowed = [row] if row.state != ACTIVE or deletes else [row, replace(row, state=ARCHIVED)]
                if now.get(number) not in allowed and not (deletes and number not in now and row.text in texts):
                    return f"{row} became {now.get(number)}"
            return None

        done, problem = self._until_it_ends(
            copy, ("consolidate", "forget", "--yes"), world=sleepy, shift=60 * 86_400.0, between=torn
        )
        problem = problem or torn() or (f"it fails: {done.err.strip()[-200:]}" if done.code else None)
        left = [number for number, row in self.world.seen(copy.tenant).rows.items() if row.state == ACTIVE]
        return problem or (f"{left[0]} is still active" if left else None)

    def _scan(self, copy: Kept, before: Seen) -> str | None:
        """Run `scan --mend`: it must mask a secret that was let in, leave it in no file, and change nothing else."""
        store = self.author.secret()
        World(self.world.zygote, self.world.folder, MEMORY_SECRETS="allow").must(*store.arguments(), tenant=copy.tenant)
        model = Model(before.rows, before.relations)
        unmasked, wrong = explain(model, self.world.seen(copy.tenant), [replace(store, secret="")])
        if unmasked is None:
            return wrong

        def others() -> str | None:
            now = self.world.seen(copy.tenant).rows
            return same(before.rows, {number: row for number, row in now.items() if number in before.rows})

        done, problem = self._until_it_ends(copy, ("scan", "--mend"), between=others)
        problem = problem or (f"it fails: {done.err.strip()[-200:]}" if done.code else None)
        problem = problem or explain(model, self.world.seen(copy.tenant), [replace(store, tags=())])[1]
        return problem or secrets_on_disk(self.world.data / copy.tenant, [store.secret])

    def _erase(self, tenant: str) -> None:
        """Erase a memory: it must be in no file, even if the first attempt was killed, and all others must be unchanged."""
        kept = self.kept[tenant]
        model = kept.model
        bound = {row.superseded_by for row in model.rows.values()} | set(model.revises) | set(model.revises.values())
        free = [number for number in kept.ids[-_REMEMBERED:] if number not in bound and model.rows[number].superseded_by is None]
        if not free:
            return
        number = self.chance.choice(free)
        others = {each: row for each, row in model.rows.items() if each != number}

        def torn() -> str | None:
            now = self.world.seen(kept.tenant).rows
            return same(others, {each: row for each, row in now.items() if each != number})

        done, problem = self._until_it_ends(kept, ("erase", str(number), "--yes"), name="erase", between=torn)
        problem = problem or (f"it fails: {done.err.strip()[-200:]}" if done.code else None)
        seen = self.world.seen(kept.tenant)
        problem = problem or same(others, seen.rows) or secrets_on_disk(self.world.data, [model.rows[number].text])
        self.report.attempt("an erasure", problem, list(kept.past))
        if problem:
            self._fresh(tenant)
            return
        self.author.unsure |= {each for ends in model.relations if number in ends for each in (ends[0], ends[2])}
        model.rows, model.relations = seen.rows, seen.relations
        kept.ids.remove(number)

    def _look_everywhere(self) -> None:
        """Check that every tenant is unchanged and that no file contains a secret."""
        for tenant, kept in list(self.kept.items()):
            problem = self._compare(tenant, (), ()) or self._follow(tenant)
            problem = problem or secrets_on_disk(self.world.data, kept.secrets)
            self.report.attempt(f"everything of {tenant}", problem, list(kept.past))
            kept.secrets.clear()
            if problem:
                self._fresh(tenant)

    def _guest(self, name: str) -> Kept:
        """Make a short-lived tenant."""
        self._tenants += 1
        return Kept(f"{name}{self._tenants}")

    def _fresh(self, tenant: str) -> None:
        """Start with an empty tenant or one of `size` memories: at the beginning and after a failure."""
        self._tenants += 1
        kept = self.kept[tenant] = Kept(tenant if tenant not in self.kept else f"{tenant}{self._tenants}")
        if tenant == "main" and self.size:
            self.world.must("@fill", str(self.size), tenant=kept.tenant)
            kept.model = Model(self.world.seen(kept.tenant).rows)
            kept.ids += list(kept.model.rows)[:5]
        else:
            self.world.must("tenant", "create", kept.tenant)


def campaign(zygote: Zygote, folder: Path, seconds: float, seed: int, size: int = 0) -> Report:
    """Run a history of small stores, or of one with `size` memories."""
    name = f"history of {size:,} memories" if size else "history"
    return History(zygote, folder, seed, size, name=name).go(seconds)
