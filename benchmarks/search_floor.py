"""Measure what the search's score floor hides: answers that were found, and hits for questions that nothing answers.

    python benchmarks/search_floor.py [--sets terse friends ...] [--home DIR]

`lost` counts questions of benchmarks/sets with an answer among the first ten hits without the floor and none with it; it must be 0.
`hidden` is the share of the first ten hits that the floor hides, for hits that answer and for the others.
`refused` is the share of the questions in sets/foreign.txt, asked of every store, that find nothing.
"""

import argparse
import os
import tempfile
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from recall_quality import fill_all, memories_by_store, open_tenant, read_lines

from memory_assets.recall.search import search_with_bridges
from memory_assets.settings import load_settings
from memory_assets.tenants import Tenant

SETS = Path(__file__).parent / "sets"
NAMES = ("chats", "notes", "assistant", "friends", "terse", "pals", "coach", "languages")


def refused(tenant: Tenant, question: str, now: datetime) -> bool:
    """Return whether the floor hides every hit."""
    return search_with_bridges(tenant, question, bridges=0, now=now, floor=True).below_floor


def measured(home: Path, name: str, foreign: list[str]) -> str:
    """Return one line of the table: a set's name, its questions, the lost ones, and the share of foreign questions refused."""
    stores = memories_by_store(SETS / f"{name}_memories.jsonl")
    fill_all(home, stores, os.cpu_count() or 1)
    tenants = {store: open_tenant(load_settings(data_dir=home), store) for store in stores}
    asked = read_lines(SETS / f"{name}_questions.jsonl", ("store", "question", "relevant"))
    lost = 0
    counts: Counter[tuple[bool, bool]] = Counter()
    for row in asked:
        tenant = tenants[row["store"]]
        known = tenant.memories.scan(("created_at",))["created_at"]
        now = max(known.to_pylist(), default=datetime.now(UTC))
        found = search_with_bridges(tenant, row["question"], bridges=0, now=now).hits
        kept = search_with_bridges(tenant, row["question"], bridges=0, now=now, floor=True).hits
        left = {hit.memory.id for hit in kept}
        answering = [(hit.memory.external_id in row["relevant"], hit.memory.id not in left) for hit in found]
        counts.update(answering)
        lost += (True, True) in answering and (True, False) not in answering
    turned_away = sum(refused(tenant, question, datetime.now(UTC)) for tenant in tenants.values() for question in foreign)
    hidden = [f"{100 * counts[right, True] / max(1, counts[right, True] + counts[right, False]):.1f}" for right in (True, False)]
    return (
        f"{name:12}{len(asked):>10}{lost:>8}{' / '.join(hidden):>14}{100 * turned_away / (len(foreign) * len(tenants)):>9.0f} %"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--home", type=Path, help="keep the filled stores here and reuse them (default: a temporary folder)")
    arguments = parser.parse_args()
    lines = (SETS / "foreign.txt").read_text(encoding="utf-8").splitlines()
    foreign = [line for line in lines if line and not line.startswith("#")]
    print(f"{'set':12}{'questions':>10}{'lost':>8}{'hidden':>14}{'refused':>11}")
    with tempfile.TemporaryDirectory(prefix="search_floor_") as folder:
        for name in arguments.sets:
            print(measured((arguments.home or Path(folder)) / name, name, foreign), flush=True)


if __name__ == "__main__":
    main()
