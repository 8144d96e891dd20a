"""Measure how many of the answers to a question are found, by this search and by the methods that it is built on.

    python benchmarks/recall_quality.py --memories M.jsonl --questions Q.jsonl [--part testing] [--json] [--home DIR]

Memories: {"store", "id", "content", "created_at"?, "session"?, "author"?}. Questions: {"store", "question", "relevant": [ids],
"category"?, "part"?}. Each store is a tenant of its own, filled through the ordinary import, with its graph; memories of one session with
equal times, or without any, keep the order of the file. "Now" is the time of a store's newest memory.

Systems: `fulltext` (LanceDB's BM25), `vector` (cosine of the default embedder), `fusion` (reciprocal ranks of the two, k = 60),
`lancedb_hybrid` (LanceDB's own hybrid query), `memory` (this project's search). Metrics per category: recall@5, @10 and @20 (share
of the relevant memories found), mrr, ndcg@10, p50 and p95 in milliseconds including the embedding of the question, and the number of
questions.
"""

import argparse
import json
import math
import os
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from hashlib import blake2b
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from memory_assets.graph.edges import refresh_graph
from memory_assets.ingest.direct import import_memories
from memory_assets.models import NewMemory, Source
from memory_assets.recall.search import search
from memory_assets.settings import Settings, load_settings
from memory_assets.stores.memories import Filters
from memory_assets.tenants import Tenant

DEPTH = 20
"""Number of results asked of every system."""
POOL = 100
"""Number of results that plain rank fusion takes from each list."""
RRF_K = 60
CUTOFFS = (5, 10, 20)


@dataclass(frozen=True)
class Question:
    """One line of the question file."""

    store: str
    text: str
    relevant: frozenset[str]
    category: str


def read_lines(path: Path, needed: Sequence[str]) -> list[dict[str, Any]]:
    """Read the objects of a JSON Lines file; exit with one sentence if a line is unusable."""
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            sys.exit(f"{path} line {number} is not JSON ({error.msg}); correct or remove it.")
        missing = [name for name in needed if name not in row]
        if missing:
            sys.exit(f"{path} line {number} lacks {missing[0]!r}; add it.")
        rows.append(row)
    return rows


def memories_by_store(path: Path) -> dict[str, list[NewMemory]]:
    """Return the memories of each store, in the order of the file."""
    stores: dict[str, list[NewMemory]] = defaultdict(list)
    for row in read_lines(path, ("store", "id", "content")):
        stores[str(row["store"])].append(
            NewMemory(
                content=row["content"],
                source=Source.IMPORT,
                external_id=str(row["id"]),
                created_at=_moment(row.get("created_at"), path),
                session=str(row.get("session") or ""),
                author=str(row.get("author") or ""),
            )
        )
    return stores


def _moment(text: str | None, path: Path) -> datetime | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        sys.exit(f"{path}: created_at {text!r} is not an ISO 8601 time; write it like 2026-03-14T09:30:00+00:00.")
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def tenant_name(store: str) -> str:
    """Return the tenant name for a store."""
    return f"s{blake2b(store.encode(), digest_size=8).hexdigest()}"


def open_tenant(settings: Settings, store: str) -> Tenant:
    """Open a store as a tenant; all tenants of this process share the embedder and the language pipeline."""
    tenant = Tenant(settings, tenant_name(store))
    shared = _tools(settings.data_dir)
    tenant.__dict__ |= {"embedder": shared.embedder, "analyzer": shared.analyzer}
    return tenant


@cache
def _tools(home: Path) -> Tenant:
    return Tenant(load_settings(data_dir=home), "tools")


def fill(home: Path, store: str, memories: Sequence[NewMemory]) -> int:
    """Import a store's memories and build its graph; memories already there are skipped."""
    tenant = open_tenant(load_settings(data_dir=home), store)
    import_memories(tenant, memories, lambda _done, _total: None)
    refresh_graph(tenant.catalog, tenant.memories, tenant.relations)
    return len(memories)


def fill_all(home: Path, stores: Mapping[str, Sequence[NewMemory]], jobs: int) -> float:
    """Fill every store, largest first, and return the seconds taken."""
    started = time.perf_counter()
    done, total = 0, sum(map(len, stores.values()))
    ordered = sorted(stores, key=lambda name: -len(stores[name]))
    with ProcessPoolExecutor(max_workers=jobs, mp_context=get_context("spawn")) as pool:
        for count in pool.map(fill, [home] * len(ordered), ordered, [stores[name] for name in ordered]):
            done += count
            print(f"\r{done} of {total} memories in {time.perf_counter() - started:.0f} s", end="", file=sys.stderr)
    print(file=sys.stderr)
    return time.perf_counter() - started


System = Callable[[Tenant, str, datetime], list[int]]


def fulltext(tenant: Tenant, text: str, _now: datetime) -> list[int]:
    return tenant.memories.matching(text, DEPTH, Filters())["id"].to_pylist()


def vector(tenant: Tenant, text: str, _now: datetime) -> list[int]:
    embedder = tenant.embedder
    return tenant.memories.nearest(embedder.embed([text], "query")[0], embedder.name, DEPTH, Filters())["id"].to_pylist()


def fusion(tenant: Tenant, text: str, _now: datetime) -> list[int]:
    embedder = tenant.embedder
    lists = (
        tenant.memories.matching(text, POOL, Filters()),
        tenant.memories.nearest(embedder.embed([text], "query")[0], embedder.name, POOL, Filters()),
    )
    scores: dict[int, float] = defaultdict(float)
    for found in lists:
        for rank, number in enumerate(found["id"].to_pylist(), start=1):
            scores[number] += 1 / (RRF_K + rank)
    return sorted(scores, key=lambda number: -scores[number])[:DEPTH]


def lancedb_hybrid(tenant: Tenant, text: str, _now: datetime) -> list[int]:
    store = tenant.memories
    query: Any = store.table.search(query_type="hybrid", vector_column_name=store.columns.live, fts_columns="indexed_text")
    found = query.vector(tenant.embedder.embed([text], "query")[0]).text(text).distance_type("cosine")
    return found.where(Filters().sql()).limit(DEPTH).to_arrow()["id"].to_pylist()


def memory(tenant: Tenant, text: str, now: datetime) -> list[int]:
    return [hit.memory.id for hit in search(tenant, text, limit=DEPTH, now=now)]


SYSTEMS: dict[str, System] = {
    "fulltext": fulltext,
    "vector": vector,
    "fusion": fusion,
    "lancedb_hybrid": lancedb_hybrid,
    "memory": memory,
}


def metrics(ranked: Sequence[str], relevant: frozenset[str]) -> dict[str, float]:
    """Return recall at the cut-offs, reciprocal rank and nDCG@10 of one question."""
    places = [place for place, number in enumerate(ranked, start=1) if number in relevant]
    ideal = sum(1 / math.log2(place + 1) for place in range(1, min(10, len(relevant)) + 1))
    return {
        **{f"recall@{cutoff}": sum(place <= cutoff for place in places) / len(relevant) for cutoff in CUTOFFS},
        "mrr": 1 / places[0] if places else 0.0,
        "ndcg@10": sum(1 / math.log2(place + 1) for place in places if place <= 10) / ideal,
    }


def evaluate(home: Path, questions: Iterable[Question], systems: Mapping[str, System]) -> dict[str, dict[str, dict[str, float]]]:
    """Return the mean of every metric by system and category; the category `all` covers every question."""
    settings = load_settings(data_dir=home)
    by_store: dict[str, list[Question]] = defaultdict(list)
    for question in questions:
        by_store[question.store].append(question)
    rows: dict[tuple[str, str], list[dict[str, float]]] = defaultdict(list)
    for number, (store, asked) in enumerate(by_store.items(), start=1):
        tenant = open_tenant(settings, store)
        known = tenant.memories.scan(("id", "external_id", "created_at"))
        external = dict(zip(known["id"].to_pylist(), known["external_id"].to_pylist(), strict=True))
        now = max(known["created_at"].to_pylist(), default=datetime.now(UTC))
        for name, system in systems.items():
            system(tenant, asked[0].text, now)
            for question in asked:
                started = time.perf_counter()
                found = system(tenant, question.text, now)
                elapsed = (time.perf_counter() - started) * 1000
                row = metrics([external[each] for each in found], question.relevant) | {"ms": elapsed}
                for category in (question.category, "all"):
                    rows[name, category].append(row)
        print(f"\r{number} of {len(by_store)} stores", end="", file=sys.stderr)
    print(file=sys.stderr)
    result: dict[str, dict[str, dict[str, float]]] = {name: {} for name in systems}
    for (name, category), values in sorted(rows.items()):
        times = [row["ms"] for row in values]
        result[name][category] = {
            **{key: float(np.mean([row[key] for row in values])) for key in values[0] if key != "ms"},
            "p50_ms": float(np.percentile(times, 50)),
            "p95_ms": float(np.percentile(times, 95)),
            "questions": len(values),
        }
    return result


def print_tables(result: dict[str, dict[str, dict[str, float]]]) -> None:
    """Print one table per category with one row per system."""
    categories = sorted({category for rows in result.values() for category in rows}, key=lambda name: (name == "all", name))
    for category in categories:
        rows = {system: values[category] for system, values in result.items() if category in values}
        print(f"\n{category} ({int(next(iter(rows.values()))['questions'])} questions)")
        columns = [key for key in next(iter(rows.values())) if key != "questions"]
        print(f"{'':16}" + "".join(f"{column:>11}" for column in columns))
        for system, values in rows.items():
            cells = (f"{values[c]:11.1f}" if c.endswith("_ms") else f"{100 * values[c]:11.1f}" for c in columns)
            print(f"{system:16}" + "".join(cells))


def parse_arguments(description: str | None) -> argparse.ArgumentParser:
    """Return a parser of the arguments that this benchmark and the ablation share."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=Path, required=True)
    parser.add_argument("--questions", type=Path, required=True)
    parser.add_argument("--part", help="ask only the questions of this part, such as testing")
    parser.add_argument("--json", action="store_true", help="print one object {system: {category: {metric: value}}}")
    parser.add_argument("--home", type=Path, help="keep the filled stores here and reuse them (default: a temporary folder)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="number of processes that fill stores")
    return parser


def run(arguments: argparse.Namespace, systems: Mapping[str, System]) -> dict[str, dict[str, dict[str, float]]]:
    """Fill the stores, ask every question of every system, and return the means."""
    stores = memories_by_store(arguments.memories)
    questions = [
        Question(str(row["store"]), row["question"], frozenset(map(str, row["relevant"])), str(row.get("category") or "none"))
        for row in read_lines(arguments.questions, ("store", "question", "relevant"))
        if not arguments.part or row.get("part") == arguments.part
    ]
    for question in questions:
        if question.store not in stores:
            sys.exit(f"{arguments.questions}: no memory has the store {question.store!r} of the question {question.text!r}.")
    asked = [question for question in questions if question.relevant]
    if len(asked) < len(questions):
        print(f"{len(questions) - len(asked)} questions name no relevant memory and are skipped", file=sys.stderr)
    home = arguments.home or Path(tempfile.mkdtemp(prefix="recall_quality_"))
    try:
        seconds = fill_all(home, stores, arguments.jobs)
        count = sum(map(len, stores.values()))
        print(f"{count} memories in {len(stores)} stores filled in {seconds:.0f} s ({count / seconds:.0f}/s)", file=sys.stderr)
        return evaluate(home, asked, systems)
    finally:
        if arguments.home is None:
            shutil.rmtree(home)


def main() -> None:
    result = run(parse_arguments(__doc__).parse_args(), SYSTEMS)
    if "--json" in sys.argv:
        print(json.dumps(result, indent=1))
    else:
        print_tables(result)


if __name__ == "__main__":
    main()
