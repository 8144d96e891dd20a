"""Measure how well the pair judge and the graph tell current facts from outdated ones, on the frozen sets of benchmarks/sets/holds.

    python benchmarks/holds.py pairs more siblings changes second names

`pairs`, `more` and `siblings` judge two texts at a time. `changes` and `second` store the facts of each world with their dates, build the
graph and ask each question: an outdated fact must not rank above the current one, and a fact that never changed must not be marked as
outdated.
`names` reads notes about pets, people and projects. Only counts are printed, no texts.
"""

import argparse
import json
import tempfile
from collections import Counter, defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from recall_quality import open_tenant

from memory_assets.graph.edges import refresh_graph
from memory_assets.language.changes import find_changes, is_certain
from memory_assets.language.judge import classify_relations
from memory_assets.language.pipeline import open_analyzer
from memory_assets.language.statements import find_replaced
from memory_assets.models import NewMemory, Source
from memory_assets.operations.store import store
from memory_assets.recall.search import search_with_bridges
from memory_assets.settings import load_settings

SETS = Path(__file__).parent / "sets" / "holds"


def read(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (SETS / name).read_text(encoding="utf-8").splitlines()]


def judge_pairs(name: str) -> None:
    """Print the precision and recall of each verdict."""
    pairs = read(name)
    found = [relation.name.lower() for relation in classify_relations([(pair["a"], pair["b"]) for pair in pairs])]
    for part in ("all", "en", "de"):
        counts = Counter(
            (pair["label"], answer) for pair, answer in zip(pairs, found, strict=True) if part in ("all", pair["lang"])
        )
        print(part, {f"{label} -> {answer}": count for (label, answer), count in sorted(counts.items())})
        same = sum(count for (_, answer), count in counts.items() if answer == "same")
        wanted = sum(count for (label, _), count in counts.items() if label == "same")
        print(f"  same: precision {counts['same', 'same'] / max(1, same):.3f}, recall {counts['same', 'same'] / wanted:.3f}")
        kinds = ("changed", "opposite")
        differs = sum(count for (_, answer), count in counts.items() if answer in kinds)
        right = sum(counts[label, answer] for label in kinds for answer in kinds)
        wanted = sum(count for (label, _), count in counts.items() if label in kinds)
        print(f"  changed or opposite: precision {right / max(1, differs):.3f}, recall {right / wanted:.3f}")


def judge_siblings() -> None:
    """Print, for pairs about one subject, how many current facts are marked as replaced and how many replaced ones are found."""
    pairs = read("siblings.jsonl")
    texts = [(pair["old"], pair["new"]) for pair in pairs]
    counts: Counter[str] = Counter()
    for pair, change in zip(pairs, find_changes(texts, [0.0] * len(texts)), strict=True):
        kind = f"{pair['lang']} {pair['label']}"
        counts[kind] += 1
        is_certain_change = change and change.is_sure and is_certain(pair["old"], pair["new"], change.probability)
        is_marked = bool(is_certain_change or find_replaced(pair["old"], pair["new"]))
        counts[f"{kind}: marked"] += is_marked
        counts[f"{kind}: perhaps"] += bool(change and not is_marked)
    print(dict(sorted(counts.items())))


def judge_names() -> None:
    """Print the scores of entities (by text) and actions, and count tags that must not appear."""
    counts: Counter[str] = Counter()
    analyzer = open_analyzer()
    for row in read("notes_names.jsonl"):
        found = analyzer.analyze(row["text"])
        for name, wanted, given in (
            ("entities", {entity[0].casefold() for entity in row["entities"]}, {each.text.casefold() for each in found.entities}),
            ("actions", set(row["actions"]), set(found.actions)),
        ):
            counts[f"{name} right"] += len(wanted & given)
            counts[f"{name} found"] += len(given)
            counts[f"{name} wanted"] += len(wanted)
        counts["bad tags"] += len(set(row["tags_bad"]) & set(found.tags))
        counts["good tags found"] += len(set(row["tags_good"]) & set(found.tags))
        counts["good tags"] += len(row["tags_good"])
        counts["notes of three to five tags"] += 3 <= len(found.tags) <= 5
        counts["notes"] += 1
    print(dict(counts))
    for name in ("entities", "actions"):
        right = counts[f"{name} right"]
        print(f"  {name}: precision {right / counts[f'{name} found']:.3f}, recall {right / counts[f'{name} wanted']:.3f}")


def ask_changes(folder: Path, names: tuple[str, str]) -> None:
    """Print which fact ranks first, by whether the newer text has words of change, and how many marks are wrong."""
    changes, constants = map(read, names)
    worlds: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for row in changes:
        worlds[row["world"]] += [(f"{row['key']}/{age}", row[age]["text"], row[age]["date"]) for age in ("old", "new")]
    for row in constants:
        worlds[row["world"]].append((f"{row['key']}/constant", row["text"], row["date"]))
    counts: Counter[str] = Counter()
    for world, facts in worlds.items():
        tenant = open_tenant(load_settings(data_dir=folder), world)
        ids = {}
        for key, text, day in sorted(facts, key=lambda fact: fact[2]):
            at = datetime.fromisoformat(day)
            ids[key] = store(tenant, NewMemory(text, Source.CLI, created_at=at if at.tzinfo else at.replace(tzinfo=UTC))).id
        refresh_graph(tenant.catalog, tenant.memories, tenant.relations)
        with tenant.catalog.read() as connection:
            edges = connection.execute(
                "SELECT source_id, target_id FROM graph_edges WHERE type IN ('EVOLVED_INTO', 'INVALIDATED_BY')"
            )
            replaced = {(old, new) for old, new in edges.fetchall()}
        old_ends = {old for old, _ in replaced}
        counts["constants"] += sum(key.endswith("/constant") for key in ids)
        counts["constants marked"] += sum(key.endswith("/constant") and number in old_ends for key, number in ids.items())
        for row in (row for row in changes if row["world"] == world):
            kind = "marked" if row["marked"] else "unmarked"
            old, new = ids[f"{row['key']}/old"], ids[f"{row['key']}/new"]
            counts[kind] += 1
            counts[f"{kind} found"] += (old, new) in replaced
            counts[f"{kind} new marked"] += new in old_ends
            places = [
                hit.memory.id
                for hit in search_with_bridges(tenant, row["question"], bridges=0, now=datetime(2026, 11, 23, tzinfo=UTC)).hits
            ]
            before = old in places and (new not in places or places.index(old) < places.index(new))
            counts[f"{kind} outdated first"] += before
    print(dict(sorted(counts.items())))


_WORLDS = {
    "changes": ("changes_en.jsonl", "constants_en.jsonl"),
    "second": ("changes_second.jsonl", "constants_second.jsonl"),
    "second_train": ("../second_train/changes.jsonl", "../second_train/constants.jsonl"),
}
_PAIRS = {"pairs": "pairs.jsonl", "more": "pairs_more.jsonl", "third": "pairs_third.jsonl"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+", choices=(*_PAIRS, *_WORLDS, "siblings", "names"))
    for part in parser.parse_args().parts:
        if part in _PAIRS:
            judge_pairs(_PAIRS[part])
        elif part == "siblings":
            judge_siblings()
        elif part == "names":
            judge_names()
        else:
            with tempfile.TemporaryDirectory(prefix="holds_") as folder:
                ask_changes(Path(folder), _WORLDS[part])


if __name__ == "__main__":
    main()
