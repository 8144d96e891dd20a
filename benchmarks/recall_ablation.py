"""Measure what each part of the search contributes: the same questions with one part switched off.

    python benchmarks/recall_ablation.py --memories M.jsonl --questions Q.jsonl [--json] [--home DIR]

Files, stores and metrics are those of recall_quality.py. The eight components are switched off by their weights; then the four sources
of the relation component and further mechanisms, one at a time.
"""

import json
import sys
from dataclasses import fields, replace
from datetime import datetime
from types import ModuleType
from unittest.mock import patch

from recall_quality import DEPTH, System, parse_arguments, run

from memory_assets.recall import scoring, support
from memory_assets.recall import search as search_module
from memory_assets.recall.question import Question
from memory_assets.recall.scoring import Weights
from memory_assets.recall.search import search
from memory_assets.tenants import Tenant

SOURCES = {"SESSION": (), "NAMED": 0.0, "EDGE": 0.0, "ENTITY": 0.0}
"""Source of support -> the value that switches it off."""
SHOWN = ("recall@5", "recall@10", "recall@20", "mrr", "ndcg@10")


def with_weights(weights: Weights) -> System:
    def system(tenant: Tenant, text: str, now: datetime) -> list[int]:
        return [hit.memory.id for hit in search(tenant, text, limit=DEPTH, now=now, weights=weights)]

    return system


def without(owner: ModuleType | type, name: str, value: object) -> System:
    def system(tenant: Tenant, text: str, now: datetime) -> list[int]:
        with patch.object(owner, name, value):
            return [hit.memory.id for hit in search(tenant, text, limit=DEPTH, now=now)]

    return system


def variants() -> dict[str, System]:
    """Return the full search and the search without each of its parts."""
    whole = Weights()
    found: dict[str, System] = {"whole": with_weights(whole)}
    found |= {f"- {field.name}": with_weights(replace(whole, **{field.name: 0.0})) for field in fields(Weights)}
    found |= {f"- relation: {name.lower()}": without(support, name, off) for name, off in SOURCES.items()}
    found["neighbours in the session alone"] = without(support, "SESSION", support.SESSION[:1])
    found["both sides of a talk alike"] = without(scoring, "OTHER_SIDE", 1.0)
    found["what asks counts in full"] = without(scoring, "ASKING", 1.0)
    found["no turn before"] = without(scoring, "with_turn_before", lambda found, _rows, _view: found.cosine)
    found["no preferences"] = without(search_module, "PREFERENCE_RANKS", ())
    found["no first person"] = without(Question, "in_first_person", lambda question, _names: question.text)
    found["all matches support"] = without(support, "_SUPPORTERS", 10_000)
    found["keyword not by coverage"] = without(scoring, "trust_in_words", lambda _coverage: 1.0)
    found["question words in full text"] = without(Question, "keywords", property(lambda question: question.text))
    found["text only"] = with_weights(replace(Weights(*[0.0] * 8), vector=0.25, keyword=0.15, content=0.25))
    return found


def main() -> None:
    result = run(parse_arguments(__doc__).parse_args(), variants())
    if "--json" in sys.argv:
        print(json.dumps(result, indent=1))
        return
    print(f"{'':30}" + "".join(f"{name:>11}" for name in SHOWN) + "   recall@10 by category")
    for name, rows in result.items():
        cells = "".join(f"{100 * rows['all'][metric]:11.1f}" for metric in SHOWN)
        categories = ", ".join(f"{key} {100 * row['recall@10']:.1f}" for key, row in rows.items() if key != "all")
        print(f"{name:30}{cells}   {categories}")


if __name__ == "__main__":
    main()
