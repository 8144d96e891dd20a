"""Measure how much of a question's evidence a context document holds: `memory context` against search's hits printed whole.

    python benchmarks/context_evidence.py --sets tides pals ... [--most 40] [--home DIR]
    python benchmarks/context_evidence.py --silos silos silos_more

Stores and questions are those of recall_quality.py. A fixed sample of `--most` questions is asked of each set; "now" is the time of the
store's newest memory. `--silos` uses the frozen folders of sets/silos, on whose texts no rule was tuned: they are ingested as by `memory
run`, the evidence is the sentences that answer, and the output says how many topics that nobody wrote about are refused.

`whole` counts evidence whose full text is in the document; `some`, evidence of which at least one sentence is. `hits` prints as many whole
search hits as fit, one below the other, each in the document's form (id, day and text) with nothing around them. Quotation marks are
ignored when words are compared.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from recall_quality import fill_all, memories_by_store, open_tenant, read_lines

from memory_assets.context.assembly import Request, assemble
from memory_assets.context.document import Markdown
from memory_assets.context.filling import fit
from memory_assets.context.model import Ranked, Visit
from memory_assets.context.store import StoreReader
from memory_assets.language.tokens import count_tokens
from memory_assets.language.words import sentences
from memory_assets.recall.search import search_with_bridges
from memory_assets.settings import load_settings
from memory_assets.tenants import Tenant

SETS = Path(__file__).parent / "sets"
BUDGETS = (500, 1_000, 2_000, 4_000)
MOST_HITS = 150


class Asked(NamedTuple):
    """A question and the texts that answer it."""

    tenant: Tenant
    question: str
    evidence: list[str]
    now: datetime


def documents(asked: Asked) -> list[tuple[str, str]]:
    """Return the context and the hits at each budget."""
    reader = StoreReader(asked.tenant)
    found = assemble(reader, Request((asked.question,)), asked.now)
    hits = search_with_bridges(asked.tenant, asked.question, limit=MOST_HITS, bridges=0, now=asked.now).hits
    nodes = reader.nodes([str(hit.memory.id) for hit in hits])
    told = []
    for budget in BUDGETS:
        form = Markdown(replace(found, request=replace(found.request, max_tokens=budget), short=reader.short_ids()))
        printed = ""
        for node in nodes.values():
            longer = printed + form.render_node(Ranked(node, Visit(0), 0.0, None), node.content) + "\n\n"
            if count_tokens(longer) > budget:
                break
            printed = longer
        text = fit(form, budget).text
        assert count_tokens(text) <= budget, (asked.question, budget)
        told.append((plain(text), plain(printed)))
    return told


def plain(text: str) -> str:
    """Return a text on one line, without quotation marks and escapes."""
    return " ".join(text.replace("\n>", " ").replace("\\<", "<").replace("!\\[", "![").split())


def measure(questions: list[Asked]) -> list[float]:
    """Return the percentages `whole` and `some` of the context and of the hits at each budget."""
    counts = [[0, 0, 0, 0] for _ in BUDGETS]
    for asked in questions:
        for place, pair in enumerate(documents(asked)):
            for which, document in enumerate(pair):
                for text in asked.evidence:
                    counts[place][2 * which] += plain(text) in document
                    counts[place][2 * which + 1] += any(plain(sentence) in document for sentence in sentences(text))
    needed = sum(len(asked.evidence) for asked in questions)
    return [100 * count / needed for row in counts for count in row]


def of_set(home: Path, name: str, most: int) -> list[Asked]:
    stores = memories_by_store(SETS / f"{name}_memories.jsonl")
    fill_all(home, stores, 2)
    tenants = {store: open_tenant(load_settings(data_dir=home), store) for store in stores}
    texts = {(store, memory.external_id): memory.content for store, memories in stores.items() for memory in memories}
    newest = {store: max(tenant.memories.scan(("created_at",))["created_at"].to_pylist()) for store, tenant in tenants.items()}
    rows = [row for row in read_lines(SETS / f"{name}_questions.jsonl", ("store", "question", "relevant")) if row["relevant"]]
    random.Random(1).shuffle(rows)
    return [
        Asked(tenants[s], row["question"], [texts[s, str(each)] for each in row["relevant"]], newest[s])
        for row in rows[:most]
        for s in (row["store"],)
    ]


def of_silos(home: Path, folder: Path) -> tuple[list[Asked], list[str]]:
    """Return the questions about memory folders with their evidence, and the topics that nobody wrote about."""
    tenant, now = taken_in(home, folder), datetime.now(UTC)
    rows = [json.loads(line) for line in (folder / "questions.jsonl").read_text(encoding="utf-8").splitlines()]
    answered = [Asked(tenant, row[QUESTION], row[EVIDENCE], now) for row in rows if row.get(EVIDENCE)]
    return answered, [row[QUESTION] for row in rows if not row.get(EVIDENCE)]


def taken_in(home: Path, folder: Path) -> Tenant:
    """Ingest memory folders into a new home and return the tenant."""
    projects = home / ".claude" / "projects"
    for silo in folder.iterdir():
        if silo.is_dir():
            shutil.copytree(silo, projects / silo.name)
    os.environ |= {
        "HOME": str(home),
        "MEMORY_CLAUDE_PROJECTS_DIR": str(projects),
        "MEMORY_DATA_DIR": str(home / "data"),
        "MEMORY_CONFIG": os.devnull,
        "MEMORY_PAI_SEED": str(home / "none.json"),
        "MEMORY_PAI_LEARNING_DIR": str(home / "none"),
    }
    subprocess.run([sys.executable, "-m", "memory_assets.cli", "run"], check=True, stdout=subprocess.DEVNULL)
    return Tenant(load_settings())


QUESTION, EVIDENCE = "question", "evidence"
"""Keys in questions.jsonl."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=[])
    parser.add_argument("--silos", nargs="*", default=[], help="folders of sets with memory folders")
    parser.add_argument("--most", type=int, default=40, help="ask at most this many questions of each set")
    parser.add_argument("--home", type=Path, help="keep the filled stores here and reuse them (default: a temporary folder)")
    arguments = parser.parse_args()
    print(f"{'whole / some':12}" + "".join(f"{f'{name} {budget}':>16}" for budget in BUDGETS for name in ("context", "hits")))
    with tempfile.TemporaryDirectory(prefix="context_evidence_") as folder:
        for name in arguments.sets:
            report(name, of_set((arguments.home or Path(folder)) / name, name, arguments.most))
        for name in arguments.silos:
            questions, foreign = of_silos(Path(folder) / name, SETS / name)
            report(name, questions)
            tenant = questions[0].tenant
            by_search = sum(search_with_bridges(tenant, topic, bridges=0, floor=True).below_floor for topic in foreign)
            by_context = sum(not assemble(StoreReader(tenant), Request((topic,))).nodes for topic in foreign)
            print(f"of {len(foreign)} topics that nobody wrote about, search refuses {by_search} and context {by_context}")


def report(name: str, questions: list[Asked]) -> None:
    shares = measure(questions)
    cells = [f"{whole:.0f} / {some:.0f}" for whole, some in zip(shares[::2], shares[1::2], strict=True)]
    print(f"{name:12}" + "".join(f"{cell:>16}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
