"""Measure how search answers questions about three stores whose author had not seen the code; `--stores DIR` uses others of that form.

    python benchmarks/answers.py [--stores benchmarks/sets/stores]

Prints, by kind of question, how often an answer is the first hit and how often it is among the first three; for facts that changed, how
often the outdated one ranks above the newer one; and how many questions find nothing, with questions and bare topics that nothing
answers as kinds of their own.
"""

import argparse
import json
import tempfile
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from recall_quality import fill, open_tenant

from memory_assets.models import NewMemory, Source
from memory_assets.recall.search import search_with_bridges
from memory_assets.settings import load_settings

SETS = Path(__file__).parent / "sets" / "stores"


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def memories_of(folder: Path) -> list[NewMemory]:
    """Read the memories of one store."""
    return [
        NewMemory(
            content=row["content"],
            source=Source.IMPORT,
            external_id=row["id"],
            created_at=datetime.fromisoformat(row["created_at"]).astimezone(UTC),
            author=row.get("author") or "",
            project=row.get("project") or "",
        )
        for row in read(folder / "memories.jsonl")
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stores", type=Path, default=SETS)
    counts: Counter[tuple[str, str]] = Counter()
    folders = sorted(each for each in parser.parse_args().stores.iterdir() if each.is_dir())
    with tempfile.TemporaryDirectory(prefix="answers_") as home:
        for folder in folders:
            memories = memories_of(folder)
            fill(Path(home), folder.name, memories)
            tenant = open_tenant(load_settings(data_dir=Path(home)), folder.name)
            now = max(each.created_at for each in memories if each.created_at)
            for row in read(folder / "questions.jsonl"):
                found = search_with_bridges(tenant, row["question"], bridges=0, now=now, floor=True)
                ids = [hit.memory.external_id for hit in found.hits]
                kind, answers = row["kind"], row["answers"]
                counts[kind, "asked"] += 1
                counts[kind, "found nothing"] += not ids
                counts[kind, "first"] += bool(set(ids[:1]) & set(answers))
                counts[kind, "among three"] += bool(set(ids[:3]) & set(answers))
                if "outdated" in row:
                    outdated = row["outdated"] if isinstance(row["outdated"], str) else row["outdated"][0]
                    newer = ids.index(answers[0]) if answers[0] in ids else len(ids)
                    counts[kind, "outdated first"] += outdated in ids and ids.index(outdated) < newer
    columns = ("asked", "first", "among three", "outdated first", "found nothing")
    print(f"{'':14}" + "".join(f"{column:>16}" for column in columns))
    for kind in dict.fromkeys(kind for kind, _ in counts):
        print(f"{kind:14}" + "".join(f"{counts[kind, column]:16}" for column in columns))


if __name__ == "__main__":
    main()
