"""Write what a search finds for questions whose answers are known: what the network learns from, to tell answers from what is near.

    PYTHONPATH=benchmarks python tools/statement_judge/hits.py --out hits.jsonl

Each line has a question, the texts that answer it, and the other texts among the first hits, best first, as the full-text index
reads them. Questions are those of the sets that docs/recall.md lists as training sets, and of `benchmarks/sets/stores_train`.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from examples import SESSIONS
from recall_quality import fill, memories_by_store, open_tenant, read_lines

from memory_assets.models import NewMemory, Source
from memory_assets.recall.search import search
from memory_assets.settings import load_settings
from memory_assets.stores.rows import indexed_text

SETS = Path(__file__).parents[2] / "benchmarks/sets"
TRAINING = ("pals", "terse", "shop", "mates", "friends", "assistant")
DEPTH = 16


def of_sets() -> Iterator[tuple[str, list[NewMemory], list[dict[str, Any]]]]:
    """Name, memories and questions of each store of the training sets."""
    for name in TRAINING:
        asked = read_lines(SETS / f"{name}_questions.jsonl", ("store", "question", "relevant"))
        foreign = (SETS / "foreign.txt").read_text(encoding="utf-8").splitlines()
        for store, memories in memories_by_store(SETS / f"{name}_memories.jsonl").items():
            questions = [
                {"question": row["question"], "answers": list(map(str, row["relevant"]))}
                for row in asked
                if row["store"] == store
            ]
            yield store, memories, questions + [{"question": line, "answers": []} for line in foreign if line.strip()]


def of_folders(folder: Path) -> Iterator[tuple[str, list[NewMemory], list[dict[str, Any]]]]:
    """The same of a folder with a folder for each store."""
    for each in sorted(folder.iterdir()):
        if not each.is_dir():
            continue
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
        yield each.name, memories, read_lines(each / "questions.jsonl", ("question", "answers"))


def of_sessions() -> Iterator[tuple[str, list[NewMemory], list[dict[str, Any]]]]:
    """What people type while they work, as questions to the memories of some sessions together."""
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
                questions.append(
                    {
                        "question": prompt["text"],
                        "answers": [names[place] for place in useful],
                        "outdated": [names[each["old"]] for each in session["outdated"] if each["by"] in useful],
                    }
                )
        yield f"sessions-{start // SESSIONS}", memories, questions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as home, given.out.open("w", encoding="utf-8") as out:
        for store, memories, questions in [*of_sets(), *of_folders(SETS / "stores_train"), *of_sessions()]:
            fill(Path(home), store, memories)
            tenant = open_tenant(load_settings(data_dir=Path(home)), store)
            newest = max(tenant.memories.scan(("created_at",))["created_at"].to_pylist())
            for row in questions:
                found = [hit.memory for hit in search(tenant, row["question"], limit=DEPTH, now=newest)]
                answering = {*row["answers"], *row.get("outdated", ())}
                line = {
                    "store": store,
                    "question": row["question"],
                    "answers": [indexed_text(each) for each in found if each.external_id in row["answers"]],
                    "others": [indexed_text(each) for each in found if each.external_id not in answering],
                }
                out.write(json.dumps(line, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
