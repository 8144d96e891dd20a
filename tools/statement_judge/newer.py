"""Fit the rule of `memory_assets.recall.newer`: when a newer candidate ranks before the best one.

    PYTHONPATH=benchmarks python tools/statement_judge/newer.py HOME

Asks the questions of the training sets named in docs/recall.md and prints the weights. A newer candidate counts if exactly one of it and
the best answers. HOME keeps the filled stores for the next run.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from answers import memories_of, read
from recall_quality import fill, memories_by_store, open_tenant, read_lines
from sklearn.linear_model import LogisticRegression

from memory_assets.models import NewMemory, Source
from memory_assets.recall import newer, search
from memory_assets.settings import load_settings

SETS = Path(__file__).parents[2] / "benchmarks" / "sets"
WORLDS = {
    "second_train": ("second_train/changes.jsonl", "second_train/constants.jsonl"),
    "changes": ("changes_train.jsonl", "constants_train.jsonl"),
    "more": ("changes_more_train.jsonl", "constants_more_train.jsonl"),
}
PEOPLE = ["assistant", "friends", "terse", "pals", "coach", "texting", "album", "desk", "duo", "tides", "mates", "shop"]
NOW = datetime(2026, 11, 23, tzinfo=UTC)
"""When the questions about worlds are asked, as by `benchmarks/holds.py`; others are asked at the time of the newest memory."""
Asked = tuple[str, list[str]]
"""A question and the external ids of its answers."""


def worlds() -> Iterator[tuple[str, list[NewMemory], list[Asked]]]:
    for name, (changes, constants) in WORLDS.items():
        memories: dict[str, list[NewMemory]] = defaultdict(list)
        asked: dict[str, list[Asked]] = defaultdict(list)
        for row in read(SETS / changes):
            for age in ("old", "new"):
                memories[row["world"]].append(_fact(row[age], f"{row['key']}/{age}"))
            asked[row["world"]].append((row["question"], [f"{row['key']}/new"]))
        for row in read(SETS / constants):
            memories[row["world"]].append(_fact(row, f"{row['key']}/constant"))
            if "question" in row:
                asked[row["world"]].append((row["question"], [f"{row['key']}/constant"]))
        yield from ((f"{name}-{world}", memories[world], asked[world]) for world in memories)


def _fact(row: dict[str, str], external_id: str) -> NewMemory:
    at = datetime.fromisoformat(row["date"])
    return NewMemory(row["text"], Source.IMPORT, external_id=external_id, created_at=at if at.tzinfo else at.replace(tzinfo=UTC))


def stores() -> Iterator[tuple[str, list[NewMemory], list[Asked]]]:
    for folder in sorted(SETS.joinpath("stores_train").iterdir()):
        yield folder.name, memories_of(folder), [(row["question"], row["answers"]) for row in read(folder / "questions.jsonl")]


def people() -> Iterator[tuple[str, list[NewMemory], list[Asked]]]:
    for name in PEOPLE:
        asked: dict[str, list[Asked]] = defaultdict(list)
        for row in read_lines(SETS / f"{name}_questions.jsonl", ("store", "question", "relevant")):
            asked[str(row["store"])].append((row["question"], list(map(str, row["relevant"]))))
        for store, memories in memories_by_store(SETS / f"{name}_memories.jsonl").items():
            yield f"{name}-{store}", memories, asked[store]


def main() -> None:
    home = Path(sys.argv[1])
    examples: list[np.ndarray] = []
    labels: list[bool] = []
    answers: set[str] = set()

    def collect(store, view, found, likely, outdated, scores) -> None:
        places, features = newer.newer_than_best(view, found, likely, outdated, scores)
        known = {each.id: each for each in store.get(found.ids[[*places, scores.argmax()]].tolist())}
        older = known.get(int(found.ids[scores.argmax()]))
        for place, row in zip(places.tolist(), features, strict=True):
            each = known.get(int(found.ids[place]))
            if newer.may_replace(older, each) and (each.external_id in answers) != (older.external_id in answers):
                examples.append(row)
                labels.append(each.external_id in answers)

    search.find_newer_answer = collect
    about = [*((each, NOW) for each in worlds()), *((each, None) for each in (*stores(), *people()))]
    for (name, memories, asked), now in about:
        fill(home, name, memories)
        tenant = open_tenant(load_settings(data_dir=home), name)
        newest = max(each.created_at for each in memories if each.created_at)
        for question, found in asked:
            answers = set(found)
            if answers:
                search.search(tenant, question, now=now or newest)
    table = np.array(examples)
    mean, deviation = table.mean(axis=0), table.std(axis=0)
    fitted = LogisticRegression(C=0.3, max_iter=2_000).fit((table - mean) / deviation, labels)
    weights = fitted.coef_[0] / deviation
    constant = float(fitted.intercept_[0] - weights @ mean)
    print(
        json.dumps(
            {"weights": weights.round(2).tolist(), "constant": round(constant, 2), "pairs": len(labels), "newer": sum(labels)}
        )
    )


if __name__ == "__main__":
    main()
