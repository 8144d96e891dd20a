"""Train the judge of lasting sentences: `python tools/lasting_judge.py` prints its scores; `--write` also writes `learn/lasting.json`.

`--frozen` scores the shipped judge, with the wordings of `learn/noted.py`, on a set that was never trained on.

The training set is `benchmarks/sets/lasting_train.jsonl`; scores are cross-validated. At the threshold, three in a hundred sentences that
are not worth keeping pass.
"""

import argparse
import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from memory_assets.learn.lasting import BUCKETS, MODEL, NONE, features
from memory_assets.learn.noted import kind_of

SETS = Path(__file__).parents[1] / "benchmarks" / "sets"
SET = SETS / "lasting_train.jsonl"
FROZEN = SETS / "holds" / "lasting.jsonl"
CLASSES = (NONE, "user", "feedback", "project")
KINDS = {"identity": "user", "wish": "feedback", "correction": "feedback", NONE: NONE}
_FALSE_ALARMS = 0.03
_STRENGTH = 20.0
_FOLDS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--frozen", action="store_true")
    given = parser.parse_args()
    if given.frozen:
        judge_frozen()
        return
    rows = read(SET)
    wanted = np.array([CLASSES.index(KINDS.get(each["label"], "project")) for each in rows])
    found = matrix([each["text"] for each in rows])
    model = LogisticRegression(C=_STRENGTH, max_iter=3000)
    folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=0)
    scores: Any = cross_val_predict(model, found, wanted, cv=folds, method="decision_function")
    ahead = scores[:, 1:].max(axis=1) - scores[:, 0]
    threshold = float(np.quantile(ahead[wanted == 0], 1 - _FALSE_ALARMS))
    passed = ahead >= threshold
    right = passed & (scores[:, 1:].argmax(axis=1) + 1 == wanted)
    print(f"{len(rows)} sentences, {np.mean(wanted > 0):.0%} of them lasting")
    print(f"noted {passed[wanted > 0].mean():.0%} of the lasting ones, {passed[wanted == 0].mean():.1%} of the others")
    print(f"of those noted rightly, {right.sum() / max(1, passed[wanted > 0].sum()):.0%} have the right kind")
    for label in sorted({each["label"] for each in rows} - {NONE}):
        mine = np.array([each["label"] == label for each in rows])
        print(f"  {label:<12} {passed[mine].mean():.0%}")
    if given.write:
        write(model.fit(found, wanted), threshold)


def read(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def judge_frozen() -> None:
    """Print the noted share of the lasting sentences and of the others."""
    rows = read(FROZEN)
    for lang in ("en", "de"):
        mine = [each for each in rows if each["lang"] == lang]
        noted = {
            last: [kind_of(each["text"]) != NONE for each in mine if (each["label"] != NONE) == last] for last in (True, False)
        }
        print(f"{lang}: noted {np.mean(noted[True]):.0%} of the lasting ones, {np.mean(noted[False]):.1%} of the others")


def matrix(texts: list[str]) -> Any:
    """Return one row of features per text."""
    rows = [features(text) for text in texts]
    values = [value for row in rows for value in row.values()]
    columns = [bucket for row in rows for bucket in row]
    starts = np.cumsum([0, *map(len, rows)])
    return csr_matrix((values, columns, starts), shape=(len(texts), BUCKETS))


def write(model: LogisticRegression, threshold: float) -> None:
    """Write the weights rounded to bytes, which changes no judgement that matters."""
    unit = float(np.abs(model.coef_).max() / 127)
    weights = [b64encode(np.round(row / unit).astype(np.int8).tobytes()).decode() for row in np.asarray(model.coef_)]
    held = {
        "classes": CLASSES,
        "weights": weights,
        "biases": [round(float(bias), 4) for bias in np.asarray(model.intercept_)],
        "unit": round(unit, 6),
        "threshold": round(threshold, 3),
    }
    MODEL.write_text(json.dumps(held, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
