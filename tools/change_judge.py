"""Train the judge of changes: `python tools/change_judge.py` prints its scores; `--write` also writes `language/changes.json`.

The training sets are the worlds of facts in `benchmarks/sets/changes_*train.jsonl` and `constants_*train.jsonl`, sentences of the sample
home and of training silos that share rare words (`statements_train.jsonl`), and, with a small weight, the pairs of `pairs_train.jsonl`.
Scores are cross-validated by world: each newer fact replaces its most probable older one if the probability is high enough. `--wrong`
prints the missed changes and the facts wrongly called outdated.
"""

import argparse
import json
import zlib
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression

from memory_assets.language.changes import MODEL, features, is_ruled_out

SETS = Path(__file__).parents[1] / "benchmarks" / "sets"
_STRENGTH = 0.1
_PAIR_WEIGHT = 0.1
_LIKELY, _PERHAPS = 0.6, 0.12
_MOST_WORDS = 30
_FOLDS = 4
"""Number of parts of the note sentences; each part is held out like a world."""


class Fact(NamedTuple):
    """One fact of a world; `age` is `old`, `new` or empty."""

    key: str
    age: str
    text: str
    date: str
    marked: bool


def read_lines(pattern: str) -> list[dict[str, Any]]:
    return [json.loads(line) for file in sorted(SETS.glob(pattern)) for line in file.read_text(encoding="utf-8").splitlines()]


def read_worlds() -> dict[str, list[Fact]]:
    """Read the facts of each world, oldest first."""
    worlds: dict[str, list[Fact]] = defaultdict(list)
    for row in read_lines("changes_*train.jsonl"):
        worlds[row["world"]] += [
            Fact(row["key"], age, row[age]["text"], row[age]["date"], row["marked"]) for age in ("old", "new")
        ]
    for row in read_lines("constants_*train.jsonl"):
        worlds[row["world"]].append(Fact(row["key"], "", row["text"], row["date"], False))
    return {world: sorted(facts, key=lambda fact: fact.date) for world, facts in worlds.items()}


def read_pairs() -> list[tuple[dict[str, float], bool]]:
    """Read pairs of short texts, each with whether the second disagrees with the first."""
    rows = [row for row in read_lines("pairs_train.jsonl") if row["label"] != "same" and len(row["a"].split()) <= _MOST_WORDS]
    pairs = [(features(row["a"], row["b"]), row["label"] in ("changed", "opposite")) for row in rows]
    return [(found, differs) for found, differs in pairs if found["shared"] or differs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--wrong", action="store_true")
    given = parser.parse_args()
    worlds = read_worlds()
    pairs = [
        (world, old, new, features(old.text, new.text))
        for world, facts in worlds.items()
        for place, new in enumerate(facts)
        for old in facts[:place]
        if old.date < new.date
    ]
    right = [old.key == new.key and bool(old.age) for _, old, new, _ in pairs]
    for place, row in enumerate(read_lines("statements_train.jsonl")):
        sentences = Fact(f"old {place}", "", row["old"], "", True), Fact(row["new"], "", row["new"], "", True)
        pairs.append((f"home {zlib.crc32(row['new'].encode()) % _FOLDS}", *sentences, features(row["old"], row["new"])))
        right.append(row["replaces"])
    kept = [place for place, pair in enumerate(pairs) if pair[3]["shared"] or right[place]]
    pairs, labels = [pairs[place] for place in kept], np.array([right[place] for place in kept])
    beside = read_pairs()
    names = list(beside[0][0])
    columns = np.array([[found[name] for name in names] for *_, found in pairs])
    mean, scale = columns.mean(axis=0), columns.std(axis=0) + 1e-9
    more = (np.array([[found[name] for name in names] for found, _ in beside]) - mean) / scale
    more_labels = np.array([differs for _, differs in beside])
    columns = (columns - mean) / scale

    def trained(rows: Any) -> LogisticRegression:
        weights = np.concatenate([np.ones(rows.sum()), np.full(len(more), _PAIR_WEIGHT)])
        model = LogisticRegression(C=_STRENGTH, max_iter=2000)
        return model.fit(np.vstack([columns[rows], more]), np.concatenate([labels[rows], more_labels]), weights)

    found = np.zeros(len(labels))
    possible = np.array([not is_ruled_out(old.text, new.text) for _, old, new, _ in pairs])
    of_world = np.array([world for world, *_ in pairs])
    for world in sorted(set(of_world.tolist())):
        found[of_world == world] = trained(of_world != world).predict_proba(columns[of_world == world])[:, 1]
    found *= possible
    best: dict[tuple[str, str, str], int] = {}
    for place, (world, _, new, _) in enumerate(pairs):
        named = world, new.key, new.age
        best[named] = max(best.get(named, place), place, key=lambda each: found[each])
    for least in (_PERHAPS, 0.35, 0.5, _LIKELY, 0.8):
        chosen = [place for place in best.values() if found[place] >= least]
        counts = [sum(labels[place] and pairs[place][1].marked == marked for place in chosen) for marked in (True, False)]
        wrong = {(pairs[place][0], pairs[place][1].key) for place in chosen if not labels[place] and pairs[place][1].age != "old"}
        noted = [place for place in np.flatnonzero(found >= least) if pairs[place][0].startswith("home ")]
        if given.wrong and least == _LIKELY:
            for place in noted:
                print(f"  note {found[place]:.2f} {labels[place]}: {pairs[place][1].text[:90]} -> {pairs[place][2].text[:130]}")
        print(f"notes: {sum(labels[noted])} right, {len(noted) - sum(labels[noted])} wrong")
        chosen = [place for place in chosen if not pairs[place][0].startswith("home ")]
        counts = [sum(labels[place] and pairs[place][1].marked == marked for place in chosen) for marked in (True, False)]
        wrong = {(pairs[place][0], pairs[place][1].key) for place in chosen if not labels[place] and pairs[place][1].age != "old"}
        print(f"{least}: with words of change {counts[0]}, without {counts[1]}, of {labels.sum()}; holds and marked {len(wrong)}")
        if given.wrong and least == _LIKELY:
            for place in np.flatnonzero(labels):
                if place not in chosen:
                    print(f"  missed {found[place]:.2f}: {pairs[place][1].text} -> {pairs[place][2].text}")
            for place in chosen:
                if not labels[place]:
                    print(f"  wrong {found[place]:.2f}: {pairs[place][1].text} -> {pairs[place][2].text}")
    if given.write:
        model = trained(np.ones(len(labels), bool))
        weights: Any = model.coef_[0] / scale
        written = {
            "weights": dict(zip(names, np.round(weights, 4).tolist(), strict=True)),
            "intercept": round(float(np.asarray(model.intercept_)[0] - (weights * mean).sum()), 4),
            "perhaps": _PERHAPS,
        }
        MODEL.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
