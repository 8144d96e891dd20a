"""Train the linear classifiers of `memory_assets/language/classifier.py`: `lasting` and `prompts`.

    python tools/classifiers.py lasting [--write]
    python tools/classifiers.py prompts [--write]

`lasting` finds sentences of a user that later sessions should know, and their kind; it is trained on `lasting_train.jsonl`. `prompts`
finds prompts that need a memory; it is trained on the sessions of `sessions_train.jsonl` and on the questions of `stores_train` and
`silos_train`. Both print the area under the ROC curve by cross-validation, in which all sessions of a writer stay together, and what the
written classifier does on the frozen sets. `--write` writes it.
"""

import argparse
import json
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold, cross_val_predict

from memory_assets.language.classifier import BUCKETS, features, load
from memory_assets.learn.noted import KINDS, LASTING_FROM, NONE, kind_of
from memory_assets.operations.prompt import read_question

ROOT = Path(__file__).parents[1]
SETS = ROOT / "benchmarks" / "sets"
LASTING = {"identity": "user", "wish": "feedback", "correction": "feedback", NONE: NONE}
"""Kinds of the labels; of all others `project`."""
Training = tuple[list[str], dict[str, Any], list[str], Any]
"""Texts; for each label, which of them have it; the group of each text, which folds keep together; and the weight of each."""
STRENGTH = {"lasting": 20.0, "prompts": 10.0}
"""Inverse of the regularisation."""
QUESTION_WEIGHT = 0.3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=STRENGTH)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    texts, labels, groups, weights = lasting() if given.name == "lasting" else prompts_and_questions()
    found = matrix(texts)
    folds = GroupKFold(5, shuffle=True, random_state=0)
    models = dict[str, LogisticRegression]()
    for label, wanted in labels.items():
        model = LogisticRegression(C=STRENGTH[given.name], max_iter=3000)
        scores: Any = cross_val_predict(
            model, found, wanted, groups=groups, cv=folds, method="decision_function", params={"sample_weight": weights}
        )
        models[label] = model.fit(found, wanted, weights)
        quantiles = ", ".join(f"{np.quantile(scores[~wanted], share):.2f}" for share in (0.9, 0.95, 0.97))
        print(f"{label}: {len(wanted)} texts, {wanted.mean():.0%} positive, area {roc_auc_score(wanted, scores):.3f}")
        print(f"  log odds that 10, 5 and 3 % of the others reach: {quantiles}")
    if given.write:
        write(given.name, models)
    print_frozen(given.name)


def lasting() -> Training:
    rows = read(SETS / "lasting_train.jsonl")
    kinds = np.array([LASTING.get(row["label"], "project") for row in rows])
    labels = {"lasting": kinds != NONE} | {kind: kinds == kind for kind in KINDS}
    return [row["text"] for row in rows], labels, list(map(str, range(len(rows)))), np.ones(len(rows))


def prompts(path: Path) -> tuple[list[str], Any, list[str]]:
    """Return the prompts of sessions, which of them need a memory, and the writer of each."""
    rows = [(prompt, session["id"].rstrip("0123456789")) for session in read(path) for prompt in session["prompts"]]
    needed = np.array([bool(prompt["useful"]) for prompt, _ in rows])
    return [read_question(prompt["text"]) for prompt, _ in rows], needed, [writer for _, writer in rows]


def prompts_and_questions() -> Training:
    """Return prompts, and questions to a memory, all of which need one: without them a short question looks like talk."""
    texts, needed, writers = prompts(SETS / "sessions_train.jsonl")
    files = sorted(file for folder in ("stores_train", "silos_train") for file in (SETS / folder).glob("*/questions.jsonl"))
    asked = [(row["question"], file.parent.name) for file in files for row in read(file)]
    return (
        [*texts, *(question for question, _ in asked)],
        {"needs": np.concatenate([needed, np.ones(len(asked), bool)])},
        [*writers, *(folder for _, folder in asked)],
        np.concatenate([np.ones(len(texts)), np.full(len(asked), QUESTION_WEIGHT)]),
    )


def print_frozen(name: str) -> None:
    """Print how well the shipped classifier does on sets that never trained it."""
    if name == "prompts":
        for path in ("sessions.jsonl", "sessions_second.jsonl"):
            texts, needed, _ = prompts(SETS / "holds" / path)
            scores = [load(name).scores(text)["needs"] for text in texts]
            print(f"{path}: area {roc_auc_score(needed, scores):.3f}")
        return
    for lang in ("en", "de"):
        rows = [row for row in read(SETS / "holds" / "lasting.jsonl") if row["lang"] == lang]
        noted = {last: [kind_of(row["text"]) != NONE for row in rows if (row["label"] != NONE) == last] for last in (True, False)}
        share = f"{np.mean(noted[True]):.0%} of the lasting sentences, {np.mean(noted[False]):.1%} of the others"
        print(f"{lang}: notes {share}, from log odds of {LASTING_FROM}")


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def matrix(texts: Sequence[str]) -> Any:
    """Return one row of features per text."""
    rows = [features(text) for text in texts]
    values = [value for row in rows for value in row.values()]
    columns = [bucket for row in rows for bucket in row]
    starts = np.cumsum([0, *map(len, rows)])
    return csr_matrix((values, columns, starts), shape=(len(texts), BUCKETS))


def write(name: str, models: dict[str, LogisticRegression]) -> None:
    """Write the weights as signed bytes with one unit per label."""
    coefficients = [np.asarray(model.coef_)[0] for model in models.values()]
    units = [float(np.abs(each).max() / 127) for each in coefficients]
    held = {
        "labels": list(models),
        "units": [round(unit, 6) for unit in units],
        "biases": [round(float(np.asarray(model.intercept_)[0]), 4) for model in models.values()],
        "weights": [
            b64encode(np.round(each / unit).astype(np.int8).tobytes()).decode()
            for each, unit in zip(coefficients, units, strict=True)
        ],
    }
    path = ROOT / "memory_assets" / "language" / f"{name}.json"
    path.write_text(json.dumps(held, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
