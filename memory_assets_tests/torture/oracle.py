"""A plain Python model of what each acknowledged operation promises, and its comparison with a store.

The model is the last accepted state, row by row. An operation defines which rows it changes and how; all other rows must stay
identical. Stores are read with LanceDB alone, not by the code under test.
"""

import itertools
import json
import pickle
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

ACTIVE, SUPERSEDED, FORGOTTEN, ARCHIVED, VANISHED = "active", "superseded", "forgotten", "archived", "vanished"
RELATIONS = ("LEADS_TO", "PART_OF", "EVOLVED_INTO", "CONTRADICTS")
_FIELDS = ("id", "content", "state", "superseded_by", "tags", "created_at")


@dataclass(frozen=True, slots=True)
class Row:
    """A memory, as seen or as expected."""

    text: str
    state: str = ACTIVE
    superseded_by: int | None = None
    tags: frozenset[str] = frozenset()
    created_at: datetime | None = None
    """None if the time is not known in advance."""
    loose: bool = False
    """Whether the row may have further tags that the program found in the text."""
    secret: str = ""
    """The secret that must be masked in the text."""

    def fits(self, seen: "Row") -> bool:
        """Return whether a seen row matches this one."""
        text = (
            self.secret not in seen.text and self.text.split(self.secret)[0] in seen.text
            if self.secret
            else self.text == seen.text
        )
        tags = self.tags <= seen.tags if self.loose else self.tags == seen.tags
        time = self.created_at in (None, seen.created_at)
        return text and tags and time and (self.state, self.superseded_by) == (seen.state, seen.superseded_by)


class RefusedError(Exception):
    """The operation changes nothing here or is not allowed."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One writing command: its arguments and its promise."""

    name: str
    ids: tuple[int, ...] = ()
    text: str = ""
    tags: tuple[str, ...] = ()
    secret: str = ""
    lines: tuple[tuple[int, str], ...] = ()
    """Ids and texts of an import."""

    def arguments(self) -> list[str]:
        """Return the arguments of `memory`."""
        ids = [str(number) for number in self.ids]
        match self.name:
            case "store":
                return ["store", self.text, *(part for tag in self.tags for part in ("--tag", tag))]
            case "edit":
                return ["edit", *ids, self.text]
            case "tag":
                return ["tag", *ids, *self.tags]
            case "untag":
                return ["tag", *ids, "--remove", *self.tags]
            case "restore":
                return ["forget", *ids, "--restore"]
            case "relate":
                return ["relate", ids[0], self.text, ids[1]]
            case "import":
                return ["import", "-"]
            case _:
                return [self.name, *ids]

    @property
    def given(self) -> str:
        """Return the standard input."""
        return "".join(json.dumps({"id": number, "content": text, "tags": list(self.tags)}) + "\n" for number, text in self.lines)

    @property
    def repeatable(self) -> bool:
        """Return whether running it twice has the same effect as once."""
        return self.name != "store"


@dataclass
class Model:
    """One tenant's memories and relations, and what is known of their origin."""

    rows: dict[int, Row] = field(default_factory=dict)
    relations: frozenset[tuple[int, str, int]] = frozenset()
    given_tags: dict[int, frozenset[str]] = field(default_factory=dict)
    """Tags that a person gave."""
    revises: dict[int, int] = field(default_factory=dict)
    """Edited version -> what it corrects."""
    last: dict[int, tuple[str, Any, str]] = field(default_factory=dict)
    """Memory -> its last operation, the value before and the state since, which `undo` reverts."""
    touched: frozenset[int] = frozenset()

    def copy(self) -> "Model":
        return Model(dict(self.rows), self.relations, dict(self.given_tags), dict(self.revises), dict(self.last), self.touched)

    def after(self, operation: Operation) -> "Model":
        """Return the state after an operation; ids of new memories are negative until they are seen.

        Raises:
            RefusedError: The operation changes nothing.
        """
        new = self.copy()
        new._apply(operation)
        return new

    def _set(self, number: int, **changes: Any) -> None:
        self.rows[number] = replace(self.rows[number], **changes)
        self.touched |= {number}

    def _new(self, row: Row, given: Iterable[str], number: int | None = None) -> int:
        number = number or -1 - len(self.touched) - len(self.rows)
        self.rows[number], self.given_tags[number] = row, frozenset(given)
        self.touched |= {number}
        return number

    def _apply(self, operation: Operation) -> None:
        ids, tags = operation.ids, frozenset(operation.tags)
        rows = [self.rows[number] for number in ids]
        match operation.name:
            case "store":
                self._new(Row(operation.text, tags=tags, loose=True, secret=operation.secret), tags)
            case "edit":
                if rows[0].state in (SUPERSEDED, FORGOTTEN):
                    raise RefusedError
                given = self.given_tags.get(ids[0], frozenset())
                newer = self._new(Row(operation.text, tags=given, loose=True), given)
                self.revises[newer] = ids[0]
                self._set(ids[0], state=SUPERSEDED, superseded_by=newer)
            case "tag" | "untag":
                self._refuse_superseded(*rows)
                wanted = rows[0].tags | tags if operation.name == "tag" else rows[0].tags - tags
                given = self.given_tags.get(ids[0], frozenset())
                if wanted != rows[0].tags:
                    self._set(ids[0], tags=wanted)
                    self._note(ids[0], "tag", (rows[0].tags, given))
                self.given_tags[ids[0]] = given | tags if operation.name == "tag" else given - tags
            case "supersede":
                self._refuse_superseded(rows[0])
                if rows[1].state != ACTIVE:
                    raise RefusedError
                self._set(ids[0], state=SUPERSEDED, superseded_by=ids[1])
                self._note(ids[0], "supersede", ids[1])
                self._note(ids[1], "supersede", ids[0])
            case "forget":
                self._refuse_superseded(*rows)
                if rows[0].state != FORGOTTEN:
                    self._set(ids[0], state=FORGOTTEN)
                    self._note(ids[0], "forget", rows[0].state)
            case "restore":
                self._refuse_superseded(*rows)
                if rows[0].state != ACTIVE:
                    self._refuse_replaced(ids[0])
                    self._set(ids[0], state=ACTIVE)
                    self._note(ids[0], "restore", rows[0].state)
            case "undo":
                self._undo(ids[0])
            case "relate":
                stated = (ids[0], operation.text, ids[1])
                if operation.text == "EVOLVED_INTO" and ids[0] in self._evolved_into(ids[1]):
                    raise RefusedError
                if stated not in self.relations:
                    for number in ids:
                        if self.rows[number].state != SUPERSEDED:
                            self._note(number, "relate", stated)
                    self.relations |= {stated}
            case "import":
                for number, text in operation.lines:
                    self._import(number, text, tags)

    def _import(self, number: int, text: str, tags: frozenset[str]) -> None:
        old = self.rows.get(number)
        if old is None:
            self._new(Row(text, tags=tags, loose=True), tags, number)
        elif old.text != text:
            self._set(number, text=text, tags=self.given_tags.get(number, frozenset()) | tags, loose=True)

    def _note(self, number: int, did: str, before: Any = None) -> None:
        self.last[number] = did, before, self.rows[number].state

    def _last(self, number: int) -> tuple[str, Any]:
        did, before, state = self.last.get(number, ("", None, ""))
        return (did, before) if state == self.rows[number].state else ("", None)

    def _refuse_superseded(self, row: Row) -> None:
        if row.state == SUPERSEDED:
            raise RefusedError

    def _refuse_replaced(self, number: int) -> None:
        """Refuse to revive a memory next to its current version."""
        followed = set()
        place = self.rows[number].superseded_by or self.revises.get(number)
        while place is not None and place not in followed and place in self.rows:
            if self.rows[place].state == ACTIVE:
                raise RefusedError
            followed.add(place)
            place = self.rows[place].superseded_by

    def _evolved_into(self, number: int) -> set[int]:
        """Return a memory and all that it evolved into."""
        found: set[int] = set()
        ahead = {number}
        while ahead:
            found |= ahead
            ahead = {new for old, kind, new in self.relations if kind == "EVOLVED_INTO" and old in ahead} - found
        return found

    def _undo(self, number: int) -> None:
        row, (did, before) = self.rows[number], self._last(number)
        if did == "undo":
            return
        if did == "relate":
            for each in (before[0], before[2]):
                if self._last(each) == (did, before):
                    self._note(each, "undo")
            self.relations -= {before}
        elif did == "tag":
            self._set(number, tags=before[0])
            self.given_tags[number] = before[1]
            self._note(number, "undo")
        elif row.state == SUPERSEDED and row.superseded_by is not None:
            if self.rows[row.superseded_by].state == SUPERSEDED:
                raise RefusedError
            self._take_back_version(row.superseded_by, [number])
        elif row.state != ACTIVE or did == "restore":
            was = before if did in ("forget", "restore") else ACTIVE
            if was == ACTIVE:
                self._refuse_replaced(number)
            self._set(number, state=was)
            self._note(number, "undo")
        else:
            older = [each for each, old in self.rows.items() if old.superseded_by == number and old.state == SUPERSEDED]
            older = [each for each in older if did != "supersede" or each == before]
            if older:
                self._take_back_version(number, older)
            else:
                self._set(number, state=FORGOTTEN)
                self._note(number, "undo")

    def _take_back_version(self, newer: int, older: Sequence[int]) -> None:
        for each in older:
            self._set(each, state=ACTIVE, superseded_by=None)
            self._note(each, "undo")
        if self.rows[newer].state == ACTIVE and self.revises.get(newer) in older:
            self._set(newer, state=FORGOTTEN)
            self._note(newer, "undo")
        elif self._last(newer)[0] == "supersede" and self._last(newer)[1] in older:
            self._note(newer, "undo")

    def accept(self, seen: "Seen", base: "Model") -> str | None:
        """Accept `seen` if it matches this state, else describe the difference. `base` is the last accepted state."""
        changed = {number for number in base.rows.keys() | seen.rows.keys() if base.rows.get(number) != seen.rows.get(number)}
        bound: dict[int, int] = {}
        for number in [number for number in self.touched if number < 0]:
            found = [
                each
                for each in seen.rows.keys() - base.rows.keys()
                if replace(self.rows[number], state=seen.rows[each].state, superseded_by=seen.rows[each].superseded_by).fits(
                    seen.rows[each]
                )
            ]
            found = [each for each in found if each not in bound.values() and each not in self.rows]
            if not found:
                return f"what was to be kept is not there: {self.rows[number].text[:60]!r}"
            bound[number] = found[0]
        really = {bound.get(number, number) for number in self.touched}
        if extra := changed - really:
            number = min(extra)
            return f"{number} changed, which nothing touched: {base.rows.get(number)} became {seen.rows.get(number)}"
        for number in self.touched:
            want = self.rows[number]
            want = replace(want, superseded_by=bound.get(want.superseded_by, want.superseded_by)) if want.superseded_by else want
            if bound.get(number, number) not in seen.rows:
                return f"{number} is gone"
            if not want.fits(seen.rows[bound.get(number, number)]):
                return f"{number} should be {want}, and is {seen.rows[bound.get(number, number)]}"
        if self.relations != seen.relations:
            return f"relations differ: {sorted(self.relations ^ seen.relations)[:2]}"
        self.rows, self.touched = seen.rows, frozenset()
        self.given_tags = {bound.get(number, number): tags for number, tags in self.given_tags.items()}
        self.last = {bound.get(number, number): note for number, note in self.last.items()}
        self.revises = {bound.get(newer, newer): older for newer, older in self.revises.items()}
        return self.broken_rule()

    def broken_rule(self) -> str | None:
        """Describe the violation of a rule that no operation may break; None if there is none."""
        for number, row in self.rows.items():
            if row.state == ACTIVE and row.superseded_by is not None:
                return f"{number} is active although {row.superseded_by} took its place"
            if row.state != SUPERSEDED:
                continue
            seen, place = {number}, row.superseded_by
            while place is not None and place in self.rows and self.rows[place].state == SUPERSEDED:
                if place in seen:
                    return f"a circle: {number} and {place} took each other's place"
                seen.add(place)
                place = self.rows[place].superseded_by
            if place not in self.rows:
                return f"{number} gave its place to {place}, which is not there"
        for newer, older in self.revises.items():
            if newer in self.rows and self.rows[newer].state == self.rows[older].state == ACTIVE:
                return f"{older} and its newer version {newer} are both active"
        return None


@dataclass(frozen=True)
class Seen:
    """Contents of a tenant's tables."""

    rows: dict[int, Row]
    relations: frozenset[tuple[int, str, int]]

    @classmethod
    def of(cls, folder: Path) -> "Seen":
        """Read the tables; a missing table is empty."""
        import lancedb

        database = lancedb.connect(folder / "vectors")
        there = {path.stem for path in (folder / "vectors").glob("*.lance")}
        rows: dict[int, Row] = {}
        if "memories" in there:
            found = database.open_table("memories").search().select(list(_FIELDS)).to_arrow()
            columns = (found[name].to_pylist() for name in _FIELDS)
            for number, text, state, by, tags, created in zip(*columns, strict=True):
                if number in rows:
                    raise AssertionError(f"two memories have the id {number}")
                rows[number] = Row(text, state, by, frozenset(tags or ()), created)
        stated = database.open_table("relations").search().to_arrow().to_pylist() if "relations" in there else []
        return cls(rows, frozenset((each["source_id"], each["type"], each["target_id"]) for each in stated))


def explain(model: Model, seen: Seen, done: Sequence[Operation], perhaps: Sequence[Operation] = ()) -> tuple[Model | None, str]:
    """Find an order of the acknowledged operations, with any of the interrupted ones, that explains `seen`; else describe a difference.

    An acknowledged operation that the model refuses in every order is also a fault.
    """
    wrong = "no order of the operations explains it"
    for count in range(len(perhaps) + 1):
        for chosen in itertools.combinations(perhaps, count):
            for order in itertools.permutations([*done, *chosen]):
                candidate = model.copy()
                try:
                    for operation in order:
                        candidate = candidate.after(operation)
                except RefusedError:
                    continue
                problem = candidate.accept(seen, model)
                if problem is None:
                    return candidate, ""
                wrong = problem
    return None, wrong


class Author:
    """Generator of seeded operations."""

    _NAMES = ("Alice", "Bruno", "Chen", "Dilek", "Emeka", "Farah", "Goran", "Hana", "Ines", "Jonas")
    _VERBS = ("repaired", "painted", "sold", "moved", "measured", "forgot", "ordered", "cleaned", "tested", "named")
    _THINGS = ("boiler", "bridge", "ledger", "orchard", "turbine", "archive", "kiln", "harbour", "lantern", "violin")
    _WHERE = ("Lisbon", "Oslo", "Kyoto", "Quito", "Tunis", "Perth", "Lagos", "Turin", "Bergen", "Hanoi")

    def __init__(self, chance: random.Random) -> None:
        self.chance, self.serial = chance, 0
        self.unsure: set[int] = set()
        """Memories whose last operation is not known."""
        self.favoured = ""
        """An operation that is generated more often than others."""

    def text(self) -> str:
        self.serial += 1
        words = [self.chance.choice(each) for each in (self._NAMES, self._VERBS, self._THINGS, self._WHERE)]
        return "{} {} the {} of {}, entry {}.".format(*words, self.serial * 7919 + self.chance.randrange(7919))

    def store(self) -> Operation:
        if self.favoured == "secret" or self.chance.random() < 0.1:
            return self.secret()
        return Operation("store", text=self.text(), tags=(f"tag-{self.chance.randrange(30)}",))

    def secret(self) -> Operation:
        token = f"ghp_{''.join(self.chance.choices('ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789', k=36))}"
        return Operation("store", text=f"{self.text()[:-1]}, token {token} it is.", secret=token)

    def operation(self, model: Model, ids: Sequence[int]) -> Operation:
        """Generate an operation on memories of `ids`, in most cases an allowed one."""
        chance = self.chance
        if len(ids) < 3 or chance.random() < 0.25:
            return self.store()
        first, second = chance.sample(ids, 2)
        name = chance.choice(
            ("edit", "edit", "tag", "untag", "supersede", "supersede", "forget", "restore", "undo", "undo", "relate", "import")
        )
        if self.favoured not in ("", "store", "secret") and chance.random() < 0.6:
            name = self.favoured
        if name in ("undo", "restore") and chance.random() < 0.7:
            idle = [number for number in ids if model.rows[number].state != ACTIVE]
            first = chance.choice(idle or ids)
        if name == "undo" and first in self.unsure:
            name = "forget"
        match name:
            case "edit":
                return Operation(name, (first,), self.text())
            case "tag":
                return Operation(name, (first,), tags=(f"tag-{chance.randrange(30)}",))
            case "untag":
                return Operation(name, (first,), tags=(chance.choice(sorted(model.rows[first].tags) or ["none"]),))
            case "supersede":
                return Operation(name, (first, second))
            case "relate":
                return Operation(name, (first, second), chance.choice(RELATIONS))
            case "import":
                again = [(number, self.text()) for number in chance.sample(ids, 2) if number < 1 << 40]
                new = [(chance.randrange(1, 1 << 40), self.text()) for _ in range(3)]
                return Operation(name, tags=(f"tag-{chance.randrange(30)}",), lines=tuple(again + new))
            case _:
                return Operation(name, (first,))


def follow(path: Path) -> None:
    """Read the change feed from the cursor in `path` and print the changes, like the reader of a remote copy."""
    from memory_assets.settings import load_settings
    from memory_assets.tenants import Tenant

    since, held = pickle.loads(path.read_bytes()) if path.exists() else (None, {})

    class Known:
        def __len__(self) -> int:
            return len(held)

        def ids(self) -> Any:
            import numpy as np

            return np.fromiter(held, np.int64, len(held))

        def updated(self, ids: Any) -> Any:
            import numpy as np

            return np.array([held.get(number, -1) for number in ids.tolist()], np.int64)

    store = Tenant(load_settings()).memories
    if not store.exists:
        print(json.dumps({"rows": [], "gone": []}))
        return
    changes = store.changes(since, Known(), ("id", "updated_at", "content", "state", "superseded_by"))
    rows = changes.rows.to_pylist()
    for row in rows:
        held[row["id"]] = (row["updated_at"].replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    gone = changes.gone.tolist()
    for number in gone:
        held.pop(number, None)
    path.write_bytes(pickle.dumps((changes.position, held)))
    print(json.dumps({"rows": [[row["id"], row["content"], row["state"], row["superseded_by"]] for row in rows], "gone": gone}))


def followed(copy: dict[int, tuple[str, str, int | None]], said: str, seen: Mapping[int, Row]) -> str | None:
    """Update a copy with the output of `follow`; describe what it still lacks."""
    changes = json.loads(said)
    copy.update({number: (text, state, by) for number, text, state, by in changes["rows"]})
    for number in changes["gone"]:
        copy.pop(number, None)
    wanted = {number: (row.text, row.state, row.superseded_by) for number, row in seen.items()}
    if copy == wanted:
        return None
    wrong = min(number for number in copy.keys() | wanted.keys() if copy.get(number) != wanted.get(number))
    return f"the feed did not deliver {wrong}: it says {copy.get(wrong)}, the store {wanted.get(wrong)}"


def fill(count: int) -> None:
    """Add memories with random unit vectors directly through the store: 20,000 in a few seconds."""
    import numpy as np

    from memory_assets.models import Kind, Memory, Source, TextVectors
    from memory_assets.settings import load_settings
    from memory_assets.stores.rows import content_hash
    from memory_assets.tenants import Tenant

    tenant, author, numbers = Tenant(load_settings()), Author(random.Random(5)), np.random.default_rng(5)
    now = datetime.now(UTC) - timedelta(days=1)
    for start in range(0, count, 5_000):
        texts = [author.text() for _ in range(min(5_000, count - start))]
        memories = [
            Memory(
                1 << 41 | (start + place),
                text,
                Kind.NOTE,
                Source.IMPORT,
                "",
                now,
                now,
                content_hash=content_hash(text),
                revision="f",
            )
            for place, text in enumerate(texts)
        ]
        vectors = numbers.standard_normal((len(texts), tenant.embedder.dimension)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        tenant.memories.put(memories, TextVectors(vectors, vectors), tenant.embedder.name)
    tenant.memories.upkeep.optimize()
