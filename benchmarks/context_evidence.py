"""What share of the evidence of a question is inside a document about it: `memory context` against search's hits printed whole.

    python benchmarks/context_evidence.py --sets tides pals ... [--home DIR]

Stores and questions are those of recall_quality.py. `whole` counts a relevant memory whose whole text is in the document, `some` one
of which at least one sentence is. `hits` prints search's hits whole one below the other, each under a line with its id and date, as
many as the budget holds. Words are compared without marks of quotation.
"""

import argparse
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from recall_quality import fill_all, memories_by_store, open_tenant, read_lines

from memory_assets.language.tokens import count_tokens
from memory_assets.language.words import sentences
from memory_assets.operations.context import context
from memory_assets.recall.search import search
from memory_assets.settings import load_settings
from memory_assets.tenants import Tenant

SETS = Path(__file__).parent / "sets"
BUDGETS = (500, 1_000, 2_000, 4_000)
MOST_HITS = 60


def print_hits(tenant: Tenant, question: str, budget: int, now: datetime) -> str:
    """As many of the hits as the budget holds."""
    text = ""
    for hit in search(tenant, question, limit=MOST_HITS, now=now):
        longer = f"{text}id {hit.memory.id} · {hit.memory.created_at:%-d %b %Y}\n{hit.memory.content}\n\n"
        if count_tokens(longer) > budget:
            break
        text = longer
    return text


def plain(text: str) -> str:
    """A text in one line, without marks of quotation."""
    return " ".join(text.replace("\n>", " ").split())


def measure(home: Path, name: str, most: int | None) -> list[float]:
    """Whole and some of the evidence, in percent, of context and of hits at each budget."""
    stores = memories_by_store(SETS / f"{name}_memories.jsonl")
    fill_all(home, stores, 2)
    tenants = {store: open_tenant(load_settings(data_dir=home), store) for store in stores}
    texts = {(store, memory.external_id): memory.content for store, memories in stores.items() for memory in memories}
    asked = [row for row in read_lines(SETS / f"{name}_questions.jsonl", ("store", "question", "relevant")) if row["relevant"]]
    shares: list[float] = []
    for budget in BUDGETS:
        counts = [0, 0, 0, 0]
        needed = 0
        for row in asked[:most]:
            tenant = tenants[row["store"]]
            known = tenant.memories.scan(("created_at",))["created_at"]
            now = max(known.to_pylist(), default=datetime.now(UTC))
            documents = (
                context(tenant, [row["question"]], max_tokens=budget, offline=True).document,
                print_hits(tenant, row["question"], budget, now),
            )
            needed += len(row["relevant"])
            for place, document in enumerate(map(plain, documents)):
                for relevant in row["relevant"]:
                    text = texts[row["store"], str(relevant)]
                    counts[2 * place] += plain(text) in document
                    counts[2 * place + 1] += any(plain(sentence) in document for sentence in sentences(text))
        shares += [100 * count / needed for count in counts]
    return shares


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", required=True)
    parser.add_argument("--most", type=int, help="ask at most so many questions of each set")
    parser.add_argument("--home", type=Path, help="keep the filled stores here and use them again; default: a temporary folder")
    arguments = parser.parse_args()
    print(f"{'whole / some':12}" + "".join(f"{f'{name} {budget}':>22}" for budget in BUDGETS for name in ("context", "hits")))
    with tempfile.TemporaryDirectory(prefix="context_evidence_") as folder:
        for name in arguments.sets:
            shares = measure((arguments.home or Path(folder)) / name, name, arguments.most)
            cells = [f"{whole:.0f} / {some:.0f}" for whole, some in zip(shares[::2], shares[1::2], strict=True)]
            print(f"{name:12}" + "".join(f"{cell:>22}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
