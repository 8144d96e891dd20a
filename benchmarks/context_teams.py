"""The first kind of invented world for `context_quality.py`: a team's memory of nine months.

Each project has an owner, a deadline, a store, a blocker, a customer and rules, most of which change; people have habits. Long minutes
hold small talk and one or two facts. The rest are short notes, status reports and texts that repeat another.
"""

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from memory_assets.models import Kind, NewMemory, Source, State
from memory_assets.stores.rows import derived_id

NAMES = ["Heron", "Osprey", "Kestrel", "Merlin", "Plover", "Curlew", "Dunlin", "Avocet", "Godwit", "Wigeon", "Gannet", "Fulmar"]
PEOPLE = [
    *("Ada Quist", "Bram Olsen", "Chiara Neri", "Dov Kaplan", "Elif Aydin", "Femi Balogun", "Greta Holm", "Hugo Prat"),
    *("Ines Rocha", "Jonas Weil", "Kaja Lund", "Luca Moretti", "Maren Thode", "Nils Aker", "Oona Virta", "Pavel Hruska"),
]
CUSTOMERS = [
    "Nordwind",
    "Almaco",
    "Brightfield",
    "Castellan",
    "Duneworks",
    "Estrel",
    "Fennmark",
    "Galten",
    "Hollis",
    "Ivarsen",
    "Juno-Works",
    "Kelvar",
]
STORES = ["PostgreSQL", "SQLite", "Redis", "DynamoDB", "Cassandra", "DuckDB"]
REASONS = [
    "because its backups restore in minutes",
    "because the team had run it for years",
    "since the licence costs nothing",
    "because reports need window functions",
    "as the old one lost writes in March",
]
BLOCKERS = [
    "the firewall change for the sandbox is not approved",
    "nobody has the signing certificate of the vendor",
    "the export stops after two hours without a message",
    "the test data must not leave the office network",
    "the invoice numbers of last year collide",
    "the partner's interface answers only on weekdays",
]
HABITS = [
    "wants an agenda the day before and walks out without one",
    "reads nothing longer than one page",
    "decides only after seeing real numbers on a slide",
    "prefers calls before ten in the morning",
    "asks for a written summary within an hour",
    "dislikes cameras and joins by phone",
]
PROMISES = [
    "send the revised estimate",
    "find a second reviewer for the migration",
    "bring the cost comparison of the two hosts",
    "ask legal about the retention clause",
    "draw the sequence of the nightly import",
    "book the room with the big screen",
]
RULES = [
    "every release is announced to the help desk two days before",
    "nothing is deployed after noon on a Thursday",
    "two people look at each change of the schema",
    "a rollback is rehearsed before each release",
    "feature flags are removed within a month",
]
TALK = [
    "The coffee machine on the third floor is broken again and everybody has an opinion about it.",
    "We talked at length about whether the stand-up should move to the afternoon and left it where it is.",
    "Somebody had brought a cake, which was the best part of the morning.",
    "The projector needed three attempts and a borrowed cable.",
    "There was a longer exchange about naming branches that led nowhere in particular.",
    "The office will be painted in autumn, so desks move for a week.",
    "A few people were late because of the tram.",
    "We looked at the photographs of the summer party and laughed a good deal.",
    "The new chairs arrived and half of them squeak.",
    "There is still no decision about plants in the corridor.",
]
STATUS = [
    "{p}: work goes on as planned, nothing new this week.",
    "{p} weekly: tests green, two small fixes merged, no surprises.",
    "{p}: reviewed open tickets, closed the oldest ones, all quiet.",
    "Looked at {p} with the team for half an hour, nothing to write down.",
    "{p}: updated dependencies, no visible effect.",
]


@dataclass
class Fact:
    """A fact that holds from some day on: the words that state it and the words that stated its earlier versions."""

    holds: str
    stale: list[str] = field(default_factory=list)


@dataclass
class Task:
    """A coming task and the facts that it needs."""

    topic: str
    lens: str
    facts: list[Fact]


class Team:
    """One team's memories and the tasks of its people."""

    def __init__(self, number: int, projects: int) -> None:
        self._random = random.Random(number)
        self._names = self._random.sample(NAMES, projects)
        self._people = self._random.sample(PEOPLE, 10)
        self._start = datetime(2026, 1, 12, 9, tzinfo=UTC)
        self.memories: list[NewMemory] = []
        self.tasks: list[Task] = []
        self._count = 0
        habits = {person: Fact(habit) for person, habit in zip(self._people, self._shuffled(HABITS * 2), strict=False)}
        for person, habit in habits.items():
            self._note(self._random.randrange(200), f"{person} {habit.holds}.", Kind.USER)
        promises = {person: Fact(promise) for person, promise in zip(self._people, self._shuffled(PROMISES * 2), strict=False)}
        for person, promise in promises.items():
            day = self._random.randrange(230, 262)
            self._minutes(day, [f"{person} promised to {promise.holds} before the next review."])
        for name in self._names:
            self._project(name, habits, promises)
        for _ in range(60):
            self._minutes(self._random.randrange(265), [])

    def _shuffled(self, values: list[str]) -> list[str]:
        return self._random.sample(values, len(values))

    def _project(self, name: str, habits: dict[str, Fact], promises: dict[str, Fact]) -> None:
        pick = self._random.choice
        owners = self._random.sample(self._people, 2)
        owner = Fact(f"{owners[1]} took over {name}", [f"{owners[0]} leads {name}"])
        self._note(5, f"{owners[0]} leads {name} since the kick-off.", Kind.PROJECT)
        self._minutes(160, [f"From next week {owners[1]} took over {name} from {owners[0]}."])
        days = self._random.sample(range(1, 29), 3)
        due = [f"{days[0]} June", f"{days[1]} September", f"{days[2]} November"]
        deadline = Fact(f"moved to {due[2]}", [f"is due on {due[0]}", f"moved to {due[1]}"])
        first = self._note(8, f"{name} is due on {due[0]}.", Kind.PROJECT)
        second = self._minutes(110, [f"The delivery of {name} moved to {due[1]}, the customer agreed."], replaces=first)
        self._minutes(215, [f"The delivery of {name} moved to {due[2]} after the audit."], replaces=second)
        old, new = self._random.sample(STORES, 2)
        store = Fact(f"from {old} to {new}", [f"keeps its data in {old}"])
        reason = pick(REASONS)
        chosen = self._note(12, f"{name} keeps its data in {old}, chosen at the kick-off.", Kind.PROJECT)
        self._minutes(140, [f"{name} goes from {old} to {new} {reason}."], replaces=chosen)
        blocker = Fact(pick(BLOCKERS))
        self._minutes(self._random.randrange(235, 262), [f"What holds up {name} at the moment: {blocker.holds}."])
        customer, contact = pick(CUSTOMERS), f"{pick(['Tom', 'Rita', 'Sven', 'Olga'])} {pick(['Abel', 'Brock', 'Cole', 'Dunn'])}"
        buyer = Fact(f"{contact} of {customer}")
        self._note(
            self._random.randrange(20, 60), f"Whoever needs a signature for {name} asks {contact} of {customer}.", Kind.REFERENCE
        )
        rule = Fact(pick(RULES))
        self._note(self._random.randrange(60, 120), f"Agreed for {name}: {rule.holds}.", Kind.FEEDBACK)
        for _ in range(30):
            self._note(self._random.randrange(265), pick(STATUS).format(p=name) + " " + pick(TALK), Kind.NOTE)
        self._note(
            self._random.randrange(216, 230), f"Reminder: the delivery of {name} moved to {due[2]} after the audit.", Kind.NOTE
        )
        person = owners[1]
        self.tasks += [
            Task(
                f"prepare tomorrow's meeting about {name} with the one who leads it",
                "meeting-prep",
                [owner, deadline, blocker, habits[person], promises[person]],
            ),
            Task(f"plan the next two months of {name}", "planning", [deadline, blocker, owner, rule, buyer]),
            Task(f"take over development of {name}", "coding", [store, rule, owner, blocker, deadline]),
            Task(f"write the release announcement of {name} for the customer", "writing", [deadline, buyer, rule, owner, store]),
        ]

    def _minutes(self, day: int, facts: list[str], replaces: int | None = None) -> int:
        """Add the minutes of a meeting: small talk with the facts somewhere in it."""
        talk = self._random.sample(TALK, self._random.randrange(6, 11))
        for fact in facts:
            talk.insert(self._random.randrange(1, len(talk) + 1), fact)
        return self._note(day, " ".join(talk), Kind.NOTE, replaces)

    def _note(self, day: int, text: str, kind: Kind, replaces: int | None = None) -> int:
        self._count += 1
        number = derived_id(f"world:{self._count}", text)
        created = self._start + timedelta(days=day, minutes=self._count)
        if replaces is not None:
            place = next(place for place, memory in enumerate(self.memories) if memory.id == replaces)
            old = self.memories[place]
            self.memories[place] = NewMemory(
                old.content,
                Source.IMPORT,
                old.kind,
                id=old.id,
                created_at=old.created_at,
                state=State.SUPERSEDED,
                superseded_by=number,
            )
        self.memories.append(NewMemory(text, Source.IMPORT, kind, id=number, created_at=created))
        return number
