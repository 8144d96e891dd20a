"""Write the search hits of questions with known answers; from them the network learns to tell answers from merely similar texts.

    PYTHONPATH=benchmarks python tools/statement_judge/hits.py --out hits.jsonl

Each line has a question, the texts that answer it, and the other texts among the first hits, best first, in the form that the network
gets from a search. The questions come from the training sets listed in docs/recall.md and from `stores_train` and `silos_train`.
"""

import argparse
import json
import tempfile
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from context_evidence import taken_in
from examples import SESSIONS
from recall_quality import fill, memories_by_store, open_tenant, read_lines

from memory_assets.language.words import stems
from memory_assets.models import Memory, NewMemory, Source
from memory_assets.recall.reading import passage
from memory_assets.recall.search import read_query, search
from memory_assets.recall.view import current_view
from memory_assets.settings import load_settings
from memory_assets.stores.rows import indexed_text
from memory_assets.tenants import Tenant

SETS = Path(__file__).parents[2] / "benchmarks/sets"
TRAINING = ("pals", "terse", "shop", "mates", "friends", "assistant")
DEPTH = 16
_MOST_WORDS = 0.8


class Asked(NamedTuple):
    """A question of a training set to a store, with its known answers."""

    text: str
    answers: frozenset[str] = frozenset()
    """External ids of the memories that answer, or that helped before they were replaced (whether these answer is unknown)."""
    outdated: frozenset[str] = frozenset()
    evidence: tuple[str, ...] = ()
    """The sentences that answer, for long memories; for outdated ones the label is again unknown."""
    outdated_evidence: tuple[str, ...] = ()

    def is_answered_by(self, memory: Memory) -> bool | None:
        """Return whether a memory answers; None if unknown."""
        if memory.external_id in self.answers or _say(memory.content, self.evidence):
            return True
        return None if memory.external_id in self.outdated or _say(memory.content, self.outdated_evidence) else False

    def is_answered_in(self, memory: Memory, part: str) -> bool | None:
        """Return whether a part of a memory answers; None if unknown."""
        answers = self.is_answered_by(memory)
        return None if answers and self.evidence and not _say(part, self.evidence) else answers


class Store(NamedTuple):
    """A store of the training sets with its questions, asked at the time of its newest memory."""

    name: str
    tenant: Tenant
    questions: list[Asked]
    now: datetime
    """The time of the newest memory."""

    @classmethod
    def of(cls, name: str, tenant: Tenant, questions: list[Asked]) -> "Store":
        """Make a store whose `now` is the time of its newest memory."""
        return cls(name, tenant, questions, max(tenant.memories.scan(("created_at",))["created_at"].to_pylist()))


def training_stores(home: Path, without: Collection[str] = ()) -> Iterator[Store]:
    """Yield every store of the training sets except `without`, each filled below `home` and opened in turn."""
    for name, memories, questions in [*of_sets(), *of_folders(SETS / "stores_train"), *of_sessions()]:
        if name not in without:
            fill(home, name, memories)
            yield Store.of(name, open_tenant(load_settings(data_dir=home), name), questions)
    for folder in sorted((SETS / "silos_train").glob("w*")):
        if folder.name in without:
            continue
        rows = read_lines(folder / "questions.jsonl", ("question", "evidence", "outdated"))
        questions = [
            Asked(row["question"], evidence=tuple(row["evidence"]), outdated_evidence=tuple(row["outdated"])) for row in rows
        ]
        yield Store.of(folder.name, taken_in(home / folder.name, folder), questions)


def of_sets() -> Iterator[tuple[str, list[NewMemory], list[Asked]]]:
    """Yield name, memories and questions of each store of the chat sets."""
    foreign = [Asked(line) for line in (SETS / "foreign.txt").read_text(encoding="utf-8").splitlines() if line.strip()]
    for name in TRAINING:
        asked = read_lines(SETS / f"{name}_questions.jsonl", ("store", "question", "relevant"))
        for store, memories in memories_by_store(SETS / f"{name}_memories.jsonl").items():
            questions = [Asked(row["question"], frozenset(map(str, row["relevant"]))) for row in asked if row["store"] == store]
            yield store, memories, questions + foreign


def of_folders(folder: Path) -> Iterator[tuple[str, list[NewMemory], list[Asked]]]:
    """Yield name, memories and questions of each store in a folder with one folder per store."""
    for each in sorted(folder.iterdir()):
        memories = [
            NewMemory(
                content=row["content"],
                source=Source.IMPORT,
                external_id=row["id"],
                created_at=datetime.fromisoformat(row["created_at"]),
                author=row.get("author") or "",
                project=row.get("project") or "",
            )
            for row in read_lines(each / "memories.jsonl", ("id", "content", "created_at"))
        ]
        rows = read_lines(each / "questions.jsonl", ("question", "answers"))
        yield each.name, memories, [Asked(row["question"], frozenset(row["answers"])) for row in rows]


def of_sessions() -> Iterator[tuple[str, list[NewMemory], list[Asked]]]:
    """Yield stores of several sessions' memories, with the prompts that people type while they work as questions."""
    found = read_lines(SETS / "sessions_train.jsonl", ("id", "memories", "prompts"))
    for start in range(0, len(found), SESSIONS):
        memories, questions = [], []
        for session in found[start : start + SESSIONS]:
            names = [f"{session['id']}-{place}" for place in range(len(session["memories"]))]
            memories += [
                NewMemory(
                    content=each["text"],
                    source=Source.IMPORT,
                    external_id=name,
                    created_at=datetime.fromisoformat(each["date"]).astimezone(),
                    project=each["project"],
                )
                for name, each in zip(names, session["memories"], strict=True)
            ]
            for prompt in session["prompts"]:
                useful = set(prompt["useful"])
                outdated = frozenset(names[each["old"]] for each in session["outdated"] if each["by"] in useful)
                questions.append(Asked(prompt["text"], frozenset(names[place] for place in useful), outdated))
        yield f"sessions-{start // SESSIONS}", memories, questions


def _say(text: str, sentences: Iterable[str]) -> bool:
    """Return whether a text has nearly all words of one of the sentences."""
    said = stems(text)
    return any(len(wanted & said) >= max(1, _MOST_WORDS * len(wanted)) for wanted in map(stems, sentences))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as home, given.out.open("w", encoding="utf-8") as out:
        for store in training_stores(Path(home)):
            idf, now = current_view(store.tenant).terms.idf, store.now
            for asked in store.questions:
                question = read_query(store.tenant, asked.text, now)
                found = [hit.memory for hit in search(store.tenant, question, limit=DEPTH, now=now)]
                parts = [passage(indexed_text(each), question, idf) for each in found]
                answered = [asked.is_answered_in(memory, part) for memory, part in zip(found, parts, strict=True)]
                line = {
                    "store": store.name,
                    "question": asked.text,
                    "answers": [part for part, answers in zip(parts, answered, strict=True) if answers],
                    "others": [part for part, answers in zip(parts, answered, strict=True) if answers is False],
                }
                out.write(json.dumps(line, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
