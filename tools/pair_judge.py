"""Train the judge of pairs: `python tools/pair_judge.py [--write]` prints how well it does, and writes `language/statements.json`.

The training set is `benchmarks/sets/pairs_train.jsonl`. It is judged by cross-validation: pairs of one subject are never on both
sides. Thresholds are chosen on what was held out, so that 95 of 100
pairs that are called the same are. A writer of few pairs counts more.
"""

import argparse
import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold

from memory_assets.language.embedders import open_embedder
from memory_assets.language.embedders.calibration import scale_of
from memory_assets.language.embedders.context import meanings_of
from memory_assets.language.english import pattern
from memory_assets.language.statements import MODEL, Model, features

PAIRS = Path(__file__).parents[1] / "benchmarks" / "sets" / "pairs_train.jsonl"
_FOLDS = 6
_ROUNDS = 4
_STRENGTH = 0.1
"""Of the weights against the penalty on large ones."""
_PRECISION = 0.95
_PRECISION_OF_CHANGES = 0.9
_PRECISION_OF_ANNOUNCED_CHANGES = 0.9
_LEAST_PAIRS = 10
"""Pairs in which one text alone has a word that has a weight of its own."""


def read_pairs(file: Path) -> list[dict[str, str]]:
    """The pairs of two unlike texts, each once."""
    pairs = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return list({frozenset((pair["a"], pair["b"])): pair for pair in pairs if pair["a"] != pair["b"]}.values())


def similarities(pairs: list[dict[str, str]]) -> list[float]:
    """By the default embedder, on the common scale."""
    embedder = open_embedder("auto")
    texts = sorted({pair[side] for pair in pairs for side in "ab"})
    vectors = dict(zip(texts, meanings_of(embedder, texts), strict=True))
    cosines = np.array([float(vectors[pair["a"]] @ vectors[pair["b"]]) for pair in pairs])
    return scale_of(embedder.name, None).similarity(cosines).tolist()


def untrained(found: list[dict[str, float]]) -> Model:
    """A model that knows the features, and weighs none yet."""
    counts = Counter(name for each in found for name in each)
    names = [name for name in found[0] if not name.startswith("only ")]
    words = sorted(
        name.removeprefix("only ") for name, count in counts.items() if name.startswith("only ") and count >= _LEAST_PAIRS
    )
    plain = np.array([[each[name] for name in names] for each in found])
    return Model(names, words, [], _rounded(plain.mean(axis=0)), _rounded(plain.std(axis=0)), [], [], 1.0, 1.0, 1.0)


def _rounded(values: Any) -> Any:
    return np.round(values, 4).tolist()


def trained(columns: Any, labels: Any, weights: Any) -> LogisticRegression:
    return LogisticRegression(C=_STRENGTH, max_iter=400).fit(columns, labels, weights)


def held_out(columns: Any, labels: Any, weights: Any, groups: list[str], seed: int) -> Any:
    """Probabilities of each pair by a model that has seen no pair of its subject."""
    shuffled = np.random.default_rng(seed).permutation(len(set(groups)))
    number = dict(zip(sorted(set(groups)), shuffled.tolist(), strict=True))
    found = np.zeros((len(labels), len(set(labels))))
    for seen, unseen in GroupKFold(_FOLDS).split(columns, labels, [number[group] for group in groups]):
        found[unseen] = trained(columns[seen], labels[seen], weights[seen]).predict_proba(columns[unseen])
    return found


def threshold(scores: Any, right: Any, weights: Any, precision: float) -> tuple[float, float]:
    """The lowest score from which so large a share is right, and the share of all that are right which it finds."""
    order = np.argsort(-scores)
    hits, named = (right * weights)[order].cumsum(), weights[order].cumsum()
    place = np.flatnonzero(hits / named >= precision)
    return (float(scores[order[place[-1]]]), float(hits[place[-1]] / (right * weights).sum())) if len(place) else (1.0, 0.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help=f"write {MODEL.name}")
    write = parser.parse_args().write
    pairs = read_pairs(PAIRS)
    found = [features(pair["a"], pair["b"], near) for pair, near in zip(pairs, similarities(pairs), strict=True)]
    model = untrained(found)
    columns = np.array([model.inputs(each) for each in found])
    labels, groups = np.array([pair["label"] for pair in pairs]), [pair["subject"] for pair in pairs]
    writers = [pair["writer"] for pair in pairs]
    weights = np.array([writers.count(writer) ** -0.5 for writer in writers])
    weights /= weights.mean()
    names = sorted(set(labels))
    shares = np.concatenate([held_out(columns, labels, weights, groups, seed) for seed in range(_ROUNDS)])
    truth, exchanged, languages, says_change, weight, writer = (
        np.tile(values, _ROUNDS)
        for values in (
            labels,
            [bool(each["values exchanged"]) for each in found],
            [pair["lang"] for pair in pairs],
            [any(pattern("statements.change").search(pair[side]) for side in "ab") for pair in pairs],
            weights,
            writers,
        )
    )
    differs = shares[:, names.index("changed")] + shares[:, names.index("opposite")]
    same = np.where(exchanged, 0.0, shares[:, names.index("same")])
    is_same, is_other = np.isin(truth, ["same"]), np.isin(truth, ["changed", "opposite"])

    def at(scores: Any, right: Any, some: Any, precision: float) -> tuple[float, float]:
        return threshold(scores[some], right[some], weight[some], precision)

    for part, some in [(each, languages == each) for each in ("en", "de")] + [
        (each, writer == each) for each in sorted(set(writers))
    ]:
        for precision in (0.9, _PRECISION):
            recalls = at(same, is_same, some, precision)[1], at(differs, is_other, some, precision)[1]
            print(f"{part}: precision {precision}: same {recalls[0]:.2f}, changed or opposite {recalls[1]:.2f}")
    everything = np.ones(len(truth), bool)
    least_same, recall = at(same, is_same, everything, _PRECISION)
    least_differs, found_differs = at(differs, is_other, everything, _PRECISION_OF_CHANGES)
    least_announced, found_announced = at(differs, is_other, says_change, _PRECISION_OF_ANNOUNCED_CHANGES)
    least_announced = max(least_announced, 0.5)
    print(f"{len(pairs)} pairs, {columns.shape[1]} columns")
    print(f"same from {least_same:.3f} ({recall:.2f}), differs from {least_differs:.3f} ({found_differs:.2f})")
    print(f"with words of change from {least_announced:.3f} ({found_announced:.2f})")
    if write:
        fitted = trained(columns, labels, weights)
        done = Model(
            model.names,
            model.words,
            names,
            model.mean,
            model.scale,
            _rounded(fitted.coef_),
            _rounded(fitted.intercept_),
            round(least_same, 3),
            round(least_differs, 3),
            round(least_announced, 3),
        )
        MODEL.write_text(json.dumps(asdict(done), ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
