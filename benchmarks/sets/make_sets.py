"""Writes the invented question sets from the texts beside this file.

    python benchmarks/sets/make_sets.py

In `chats` and `notes` every store is a world of its own: some threads with slots filled at random, spread over dated sessions in
random order between small talk that uses the same words. `assistant`, `friends` and `terse` are written out in worlds/, each
sentence once, with one generated store among them for company; the questions of one half of the worlds are for choosing constants
(`tuning`), those of the other for judging them (`testing`). The others were written
after the constants and judge alone, but for `mates` and `shop`, which are hard sets to choose by. The same seed gives the same files.
"""

import json
import random
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import permutations
from pathlib import Path

HERE = Path(__file__).parent
SEED = 20_260_601
FRIENDS = (("Oriane", "Malik"), ("Tobias", "Freya"), ("Zeynep", "Hollis"), ("Emeka", "Pauline"), ("Birgit", "Dario"))
CHAT_STORES, NOTE_STORES = 5, 6
THREADS_A_CHAT, THREADS_A_NOTEBOOK = 24, 20
FILLER_A_CHAT_SESSION, FILLER_A_NOTE_SESSION = (14, 22), (8, 16)
SCRIPTS = {
    "assistant": (("budget", "tuning"), ("novel", "tuning"), ("churn", "testing"), ("wedding", "testing")),
    "friends": (("rafa", "tuning"), ("noor", "testing")),
    "terse": (("home", "tuning"), ("ops", "testing")),
    "pals": (("lena", "testing"),),
    "coach": (("recipes", "testing"),),
    "texting": (("jun", "testing"),),
    "album": (("ines", "testing"),),
    "desk": (("greenhouse", "testing"),),
    "duo": (("cleo", "testing"),),
    "tides": (("gauges", "testing"),),
    "mates": (("tove", "tuning"),),
    "shop": (("radios", "tuning"),),
}
"""Set -> its worlds, and what their questions are for."""
_SLOT = re.compile(r"\{(\w+?)(\d?)\}")
_AUTHORS = {"N": "", "U": "user", "S": "assistant"}
_TURN = re.compile(r"(?P<speaker>\w+)(?:\[(?P<label>\w+)\])?(?:\+(?P<more>\d))?: (?P<text>.+)")


@dataclass
class Thread:
    """Turns by session, and what can be asked about them."""

    sessions: list[list[tuple[str, str]]] = field(default_factory=lambda: [[]])
    questions: list[tuple[str, list[int], str]] = field(default_factory=list)
    """Category, turn numbers from 1, text."""


def read_threads(path: Path) -> list[Thread]:
    """The threads of a file; blank lines separate them, `#` begins a comment."""
    threads = []
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    for block in "\n".join(lines).strip().split("\n\n"):
        thread = Thread()
        for line in block.strip().splitlines():
            if line == "---":
                thread.sessions.append([])
            elif line.startswith("? "):
                head, text = line[2:].split(" | ", 1)
                category, turns = head.split(" ")
                thread.questions.append((category, [int(turn) for turn in turns.split(",")], text))
            else:
                speaker, text = line.split(": ", 1)
                thread.sessions[-1].append((speaker, text))
        threads.append(thread)
    return threads


class Slots:
    """Values of the slots, the same within one thread and, where possible, different from thread to thread."""

    def __init__(self, values: dict[str, list[str]], random_: random.Random) -> None:
        self._bags = {name: random_.sample(known, len(known)) for name, known in values.items()}
        self._drawn: dict[str, str] = {}

    def new_thread(self, fixed: dict[str, str]) -> None:
        """Forget the values of the last thread and begin with these."""
        self._drawn = dict(fixed)

    def fill(self, text: str) -> str:
        """The text with every slot filled."""
        return _SLOT.sub(self._value, text)

    def _value(self, match: re.Match[str]) -> str:
        name, slot = match[0], match[1]
        if name not in self._drawn:
            bag = self._bags[slot]
            taken = set(self._drawn.values())
            value = next((value for value in bag if value not in taken), bag[0])
            bag.remove(value)
            bag.append(value)
            self._drawn[name] = value
        return self._drawn[name]


@dataclass
class World:
    """One store in the making."""

    name: str
    random: random.Random
    slots: Slots
    authors: dict[str, str]
    memories: list[dict] = field(default_factory=list)
    questions: list[dict] = field(default_factory=list)


def build(world: World, threads: list[Thread], filler: list[list[tuple[str, str]]], filler_range: tuple[int, int]) -> None:
    """Spread threads and small talk over dated sessions; write down memories and questions."""
    count = max(8, round(len(threads) * 1.1))
    start = datetime(2025, 1, 6, 9, tzinfo=UTC)
    times = [
        start + timedelta(days=11 * number + world.random.randrange(6), hours=world.random.randrange(9))
        for number in range(count)
    ]
    plan: list[list[tuple[int, list[tuple[str, str, str]]]]] = [[] for _ in range(count)]
    answers: dict[tuple[int, int], str] = {}
    for index, thread in enumerate(threads):
        places = sorted(world.random.sample(range(count), len(thread.sessions)))
        months = {f"{{month{number}}}": f"{times[place]:%B %Y}" for number, place in enumerate(places, start=1)}
        world.slots.new_thread({"{A}": world.authors.get("A", ""), "{B}": world.authors.get("B", ""), **months})
        turn = 0
        for place, session in zip(places, thread.sessions, strict=True):
            spoken = []
            for speaker, text in session:
                turn += 1
                answers[index, turn] = f"{world.name}-t{index}-{turn}"
                spoken.append((answers[index, turn], speaker, world.slots.fill(text)))
            plan[place].append((index, spoken))
        for category, turns, text in thread.questions:
            world.questions.append(
                {
                    "store": world.name,
                    "question": world.slots.fill(text),
                    "relevant": [answers[index, number] for number in turns],
                    "category": category,
                }
            )
    for number, (moment, scheduled) in enumerate(zip(times, plan, strict=True)):
        blocks = [spoken for _, spoken in scheduled]
        for small in range(world.random.randint(*filler_range)):
            world.slots.new_thread({})
            blocks.append(
                [
                    (f"{world.name}-f{number}-{small}-{part}", speaker, world.slots.fill(text))
                    for part, (speaker, text) in enumerate(world.random.choice(filler))
                ]
            )
        world.random.shuffle(blocks)
        turns = [turn for block in blocks for turn in block]
        for minute, (identifier, speaker, text) in enumerate(turns):
            memory = {"store": world.name, "id": identifier, "content": text}
            memory |= {"created_at": (moment + timedelta(minutes=minute)).isoformat(), "session": f"session {number + 1}"}
            author = world.authors.get(speaker, "") if speaker in world.authors else world.authors[world.random.choice("AB")]
            world.memories.append(memory | ({"author": author} if author else {}))


def chats(values: dict[str, list[str]]) -> Iterator[World]:
    """Friends who talk every other week."""
    threads = read_threads(HERE / "chats.txt")
    lines = (HERE / "chat_filler.txt").read_text(encoding="utf-8").splitlines()
    filler = [[("?", " ".join(pair))] for pair in permutations(lines, 2)]
    for number, (a, b) in enumerate(FRIENDS[:CHAT_STORES]):
        chance = random.Random(SEED + number)
        world = World(f"chat-{number + 1}", chance, Slots(values, chance), {"A": a, "B": b})
        build(world, chance.sample(threads, THREADS_A_CHAT), filler, FILLER_A_CHAT_SESSION)
        yield world


def notes(values: dict[str, list[str]]) -> Iterator[World]:
    """A developer's notes and talk with an assistant."""
    threads = read_threads(HERE / "notes.txt")
    lines = [line.split(": ", 1) for line in (HERE / "note_filler.txt").read_text(encoding="utf-8").splitlines()]
    filler: list[list[tuple[str, str]]] = []
    for speaker, text in lines:
        if speaker == "S":
            filler[-1].append((speaker, text))
        else:
            filler.append([(speaker, text)])
    for number in range(NOTE_STORES):
        chance = random.Random(SEED + 100 + number)
        world = World(f"notes-{number + 1}", chance, Slots(values, chance), dict(_AUTHORS))
        build(world, chance.sample(threads, THREADS_A_NOTEBOOK), filler, FILLER_A_NOTE_SESSION)
        yield world


def scripted(name: str, company: World) -> World:
    """A set whose worlds are written out, in one store with the memories of another world."""
    store = World(name, random.Random(SEED), company.slots, company.authors)
    store.memories = [memory | {"store": name} for memory in company.memories]
    answers = (HERE / "worlds" / "answers.txt").read_text(encoding="utf-8").strip().split("\n\n\n")
    for world, part in SCRIPTS[name]:
        labelled: dict[str, str] = {}
        moment, topic, session = datetime(2025, 1, 1, tzinfo=UTC), "", ""
        lines = (HERE / "worlds" / f"{name}_{world}.txt").read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines):
            if line.startswith("== "):
                day, _, topic = line[3:].partition(" | ")
                moment, session = datetime.fromisoformat(day).replace(tzinfo=UTC), f"{world} {day}"
            elif line.startswith("? "):
                head, text = line[2:].split(" | ", 1)
                category, labels = head.split(" ")
                relevant = [labelled[label] for label in labels.split(",")]
                store.questions.append(
                    {"store": name, "question": text, "relevant": relevant, "category": category, "part": part}
                )
            elif turn := _TURN.fullmatch(line):
                moment += timedelta(minutes=2)
                identifier, author = f"{world}-{number}", _AUTHORS.get(turn["speaker"], turn["speaker"])
                labelled[turn["label"] or ""] = identifier
                more = store.random.sample(answers, int(turn["more"] or 0))
                text = "\n\n".join([turn["text"].replace("\\n", "\n"), *more]).replace("{topic}", topic)
                memory = {"store": name, "id": identifier, "content": text, "created_at": moment.isoformat(), "session": session}
                store.memories.append(memory | ({"author": author} if author else {}))
    return store


def told_by(world: World, names: dict[str, str]) -> World:
    """A world whose people have other names."""
    lines = json.dumps(world.memories)
    for name, other in names.items():
        lines = lines.replace(name, other)
    return World(world.name, world.random, world.slots, dict(world.authors), json.loads(lines))


def main() -> None:
    values = tomllib.loads((HERE / "slots.toml").read_text(encoding="utf-8"))
    sets = {"chats": list(chats(values)), "notes": list(notes(values))}
    company = {"assistant": sets["notes"][0], "friends": sets["chats"][0], "terse": sets["notes"][1]}
    company |= {"pals": told_by(sets["chats"][4], {"Birgit": "Lena", "Dario": "Marcus"}), "coach": sets["notes"][4]}
    company |= {
        "texting": told_by(sets["chats"][3], {"Emeka": "Jun", "Pauline": "Wren"}),
        "album": told_by(sets["chats"][2], {"Zeynep": "Inês", "Hollis": "Ravi"}),
        "desk": sets["notes"][3],
        "duo": told_by(sets["chats"][1], {"Tobias": "Cleo", "Freya": "Anton"}),
        "tides": sets["notes"][2],
        "mates": told_by(sets["chats"][0], {"Oriane": "Tove", "Malik": "Hamid"}),
        "shop": sets["notes"][5],
    }
    sets |= {name: [scripted(name, world)] for name, world in company.items()}
    for name, worlds in sets.items():
        for kind in ("memories", "questions"):
            rows = [row for world in worlds for row in getattr(world, kind)]
            lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            (HERE / f"{name}_{kind}.jsonl").write_text(lines, encoding="utf-8")
            print(f"{name}: {len(rows)} {kind}")


if __name__ == "__main__":
    main()
