"""Fit the probability that a candidate memory answers, on the training stores, and show what each floor threshold loses and refuses.

    PYTHONPATH=benchmarks python tools/statement_judge/fit.py

Prints the weights and the constant of `memory_assets/recall/likelihood.py`, for stores of chats and of memory folders together and apart,
with equal weight for each kind of store. `lost` counts questions with an answer among the candidates that the threshold would refuse.
"""

import argparse
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from hits import Asked, Store, training_stores
from sklearn.linear_model import LogisticRegression

from memory_assets.arrays import Floats, Mask
from memory_assets.language.embedders.calibration import scale_of
from memory_assets.recall.likelihood import parts_of
from memory_assets.recall.reading import MOST_READ
from memory_assets.recall.scoring import Weights
from memory_assets.recall.search import has_floor, rank, read_query
from memory_assets.stores.filters import Filters

THRESHOLDS = (0.03, 0.06, 0.1, 0.15, 0.2, 0.25, 0.3)


class Read(NamedTuple):
    """Candidates of one question: their parts and log odds, shape (memories, 4), which of them answer, and the store."""

    parts: Floats
    answers: Mask
    kind: str
    is_bare: bool


def kind_of(store: Store) -> str:
    """Return the kind of a store: chats, sessions or folders."""
    return (
        "sessions"
        if store.name.startswith("sessions-")
        else "folders"
        if any(asked.evidence for asked in store.questions)
        else "chats"
    )


def read(store: Store, asked: Asked) -> Read | None:
    """Return the candidates that a search reads for a question; None if it reads none or does not judge."""
    tenant = store.tenant
    question = read_query(tenant, asked.text, store.now)
    ranked = rank(tenant, question, 10, Filters(), Weights.of(tenant.settings), store.now, MOST_READ)
    places = np.flatnonzero(~np.isnan(ranked.logits))
    if not len(places) or not has_floor(ranked):
        return None
    ids = ranked.found.ids[places].tolist()
    memories = tenant.memories.take(ids, ranked.found.row_ids[places].tolist())
    scale = scale_of(tenant.embedder.name, tenant.memories.columns.scale)
    parts = parts_of(question, ranked.found, ranked.judged.coverage, ranked.view, tenant.embedder, scale)[places]
    known = [asked.is_answered_by(memories[each]) for each in ids]
    kept = np.array([each is not None for each in known])
    rows = np.column_stack([parts, ranked.logits[places]])[kept]
    return Read(rows, np.array([bool(each) for each in known])[kept], kind_of(store), question.is_bare) if kept.any() else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--without", nargs="*", default=[], help="stores to leave out, such as those that the network learnt from most"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        stores = training_stores(Path(home), given.without)
        found = [each for store in stores for asked in store.questions if (each := read(store, asked))]
    for kinds in (("chats", "sessions", "folders"), ("chats",), ("sessions",), ("folders",)):
        chosen = [each for each in found if each.kind in kinds]
        rows, answers = np.concatenate([each.parts for each in chosen]), np.concatenate([each.answers for each in chosen])
        of_kind = np.concatenate([[each.kind] * len(each.answers) for each in chosen])
        weights = np.array([len(rows) / (of_kind == kind).sum() for kind in of_kind])
        model = LogisticRegression(C=10.0).fit(rows, answers, weights)
        print(kinds, len(chosen), np.round(model.coef_[0], 2).tolist(), round(float(model.intercept_[0]), 2))
        best = np.array([model.predict_proba(each.parts)[:, 1].max() for each in chosen])
        answered = np.array([each.answers.any() for each in chosen])
        for kind in kinds:
            of = np.array([each.kind == kind for each in chosen])
            lost = [int((best[of & answered] < least).sum()) for least in THRESHOLDS]
            refused = [int((best[of & ~answered] < least).sum()) for least in THRESHOLDS]
            print(f"  {kind}: lost {lost} of {(of & answered).sum()}, refused {refused} of {(of & ~answered).sum()}")


if __name__ == "__main__":
    main()
