"""Time a warm search on a large store and a cold `memory search` command.

    python benchmarks/search_latency.py [--memories 100000] [--edges 300000] [--queries 300] [--home DIR] [--json]

The store is synthetic: words by Zipf's law over 40,000, unit vectors of 384 dimensions around 400 topics, sessions of twenty
turns, three authors, typed edges between random memories of one topic. A question is five words of some memory with a vector near its
own; the default embedder embeds it too, so that its time counts. Every question is asked once. Searches run on disk, as in commands, and
in memory, as in the service.
"""

import argparse
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa

from memory_assets.language.embedders import Embedder
from memory_assets.language.embedders.protocol import Role
from memory_assets.models import Kind, Memory, RelationType, Source
from memory_assets.recall.candidates import FEWEST
from memory_assets.recall.search import search, search_with_bridges
from memory_assets.settings import load_settings
from memory_assets.stores.graph_builds import record_build
from memory_assets.stores.memories import Filters
from memory_assets.stores.resident.memories import Allowance
from memory_assets.stores.rows import content_hash
from memory_assets.tenants import Tenant

DIMENSIONS = 384
TOPICS = 400
WORDS = 40_000
BATCH = 10_000
FIRST_ID = 1 << 52
SEED = 7


class SyntheticEmbedder:
    """An embedder that takes the default embedder's time but returns the vector set for the next question."""

    name = "synthetic"
    dimension = DIMENSIONS

    def __init__(self, real: Embedder) -> None:
        self._real = real
        self.vector = np.zeros(DIMENSIONS, np.float32)

    def embed(self, texts: Sequence[str], role: Role = "document") -> np.ndarray:  # noqa: ARG002 - one for both
        """Embed only to spend the time; return the vector that was set."""
        self._real.embed(texts)
        return np.repeat(self.vector[None], len(texts), 0)


def vocabulary() -> list[str]:
    syllables = ["ka", "to", "mi", "ren", "sol", "vi", "da", "lu", "per", "shi", "gon", "tar", "el", "bro", "qua", "fin"]
    return ["".join(random.Random(n).choices(syllables, k=2 + n % 3)) + str(n)[-2:] for n in range(WORDS)]


def fill(tenant: Tenant, count: int, edges: int) -> dict[str, float]:
    """Write memories and edges and build the indices; return the seconds of each part."""
    rng = np.random.default_rng(SEED)
    words, centres = vocabulary(), rng.normal(size=(TOPICS, DIMENSIONS))
    frequency = 1 / np.arange(1, WORDS + 1)
    frequency /= frequency.sum()
    topics = rng.integers(0, TOPICS, count)
    start = datetime.now(UTC) - timedelta(minutes=count)
    began = time.perf_counter()
    for first in range(0, count, BATCH):
        numbers = range(first, min(first + BATCH, count))
        chosen = rng.choice(WORDS, size=(len(numbers), 25), p=frequency)
        vectors = centres[topics[first : first + len(numbers)]] * 0.6 + rng.normal(size=(len(numbers), DIMENSIONS))
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        memories = [
            Memory(
                id=FIRST_ID + number,
                content=(text := " ".join(words[word] for word in row)),
                kind=Kind.NOTE,
                source=Source.IMPORT,
                source_key="",
                created_at=start + timedelta(minutes=number),
                updated_at=start + timedelta(minutes=number),
                session=f"session {number // 20}",
                author=("Ann", "Bela", "Cid")[number % 3],
                tags=(words[int(topics[number])],),
                importance=float(rng.random()),
                content_hash=content_hash(text),
            )
            for number, row in zip(numbers, chosen, strict=True)
        ]
        tenant.memories.put(memories, vectors.astype(np.float32), SyntheticEmbedder.name)
        print(f"\r{numbers[-1] + 1} of {count} written", end="", file=sys.stderr)
    written = time.perf_counter()
    tenant.memories.upkeep.optimize()
    indexed = time.perf_counter()
    _write_edges(tenant, topics, edges, rng)
    done = time.perf_counter()
    print(file=sys.stderr)
    return {"write_s": written - began, "optimize_and_index_s": indexed - written, "edges_s": done - indexed}


def _write_edges(tenant: Tenant, topics: np.ndarray, edges: int, rng: np.random.Generator) -> None:
    by_topic = np.argsort(topics, kind="stable")
    places = rng.integers(0, len(topics) - 50, edges)
    source, target = by_topic[places], by_topic[places + rng.integers(1, 50, edges)]
    types = np.array([kind.value for kind in RelationType])[rng.integers(0, len(RelationType), edges)]
    rows = pa.table(
        {
            "source_id": FIRST_ID + source,
            "target_id": FIRST_ID + target,
            "type": types,
            "confidence": rng.uniform(0.4, 1.0, edges).astype(np.float32),
        }
    )
    with tenant.catalog.write() as connection:
        connection.register("made", rows)
        connection.execute(
            "INSERT INTO graph_edges (source_id, target_id, type, confidence, origin, note) "
            "SELECT source_id, target_id, type, any_value(confidence), 'stated', 'made up' FROM made GROUP BY ALL"
        )
        record_build(connection)


def questions(tenant: Tenant, count: int) -> list[tuple[str, np.ndarray]]:
    """Make `count` questions: five words of a memory with a vector near its own."""
    rng = np.random.default_rng(SEED + 1)
    column = tenant.memories.columns.live
    assert column is not None
    places = sorted(int(place) for place in rng.choice(len(tenant.memories), count, replace=False))
    rows = tenant.memories.table.take_offsets(places).select(["content", column]).to_arrow()
    made = []
    for text, vector in zip(rows["content"].to_pylist(), rows[column].to_pylist(), strict=True):
        near = np.array(vector) + 0.03 * rng.normal(size=DIMENSIONS)
        made.append((" ".join(rng.permutation(text.split())[:5]), (near / np.linalg.norm(near)).astype(np.float32)))
    rng.shuffle(made)
    return made


def timed(embedder: SyntheticEmbedder, asked: list[tuple[str, np.ndarray]], ask: Callable[[str], object]) -> dict[str, float]:
    """Return the milliseconds at the 50th, 95th and 99th percentile, and the processor milliseconds per question over all threads.

    Other load on the machine raises the former, not the latter.
    """
    times = []
    cpu = time.process_time()
    for text, embedder.vector in asked:
        started = time.perf_counter()
        ask(text)
        times.append((time.perf_counter() - started) * 1000)
    cpu_ms = (time.process_time() - cpu) / len(asked) * 1000
    return {f"p{share}_ms": round(float(np.percentile(times, share)), 1) for share in (50, 95, 99)} | {"cpu_ms": round(cpu_ms, 1)}


def bare(tenant: Tenant, embedder: SyntheticEmbedder, text: str) -> None:
    """Make the two LanceDB calls that a search is built on, one after the other."""
    tenant.memories.matching(text, FEWEST, Filters())
    tenant.memories.nearest(embedder.embed([text])[0], embedder.name, FEWEST, Filters())


def found_by_index(tenant: Tenant, asked: list[tuple[str, np.ndarray]]) -> float:
    """Return the share of the twenty truly nearest memories that are among a search's candidates."""
    column, shares = tenant.memories.columns.live, []
    for _, vector in asked:
        exact = tenant.memories.table.search(vector, vector_column_name=column).distance_type("cosine")  # pyright: ignore
        truth = set(exact.bypass_vector_index().select(["id"]).limit(20).to_arrow()["id"].to_pylist())
        found = tenant.memories.nearest(vector, SyntheticEmbedder.name, FEWEST, Filters())["id"].to_pylist()
        shares.append(len(truth & set(found)) / 20)
    return round(float(np.mean(shares)), 3)


def cold_command(home: Path) -> float:
    """Return the seconds of `memory search` in its own process, on a store with one memory and the default embedder."""
    environment = os.environ | {"MEMORY_DATA_DIR": str(home)}
    command = [sys.executable, "-m", "memory_assets.cli"]
    subprocess.run(
        [*command, "store", "The harbour was closed because of fog."], env=environment, check=True, capture_output=True
    )
    times = []
    for _ in range(3):
        started = time.perf_counter()
        subprocess.run([*command, "search", "why was the harbour closed"], env=environment, check=True, capture_output=True)
        times.append(time.perf_counter() - started)
    return round(min(times), 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=100_000)
    parser.add_argument("--edges", type=int, default=300_000)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--home", type=Path, help="keep the store here and reuse it (default: a temporary folder)")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    home = arguments.home or Path(tempfile.mkdtemp(prefix="search_latency_"))
    try:
        tenant = Tenant(load_settings(data_dir=home), "large", freshness=0.5)
        embedder = SyntheticEmbedder(tenant.embedder)
        tenant.__dict__["embedder"] = embedder
        result: dict[str, object] = {"memories": arguments.memories, "edges": arguments.edges}
        if not len(tenant.memories):
            result["fill"] = {name: round(value, 1) for name, value in fill(tenant, arguments.memories, arguments.edges).items()}
        asked = questions(tenant, 6 * arguments.queries)
        embedder.vector = asked[0][1]
        started = time.perf_counter()
        search(tenant, asked[0][0])
        result["first_search_s"] = round(time.perf_counter() - started, 2)
        for text, embedder.vector in asked[:20]:
            search_with_bridges(tenant, text)
        parts = [asked[number::6] for number in range(6)]
        result["embedding"] = timed(embedder, parts[0], lambda text: embedder.embed([text]))
        result["bare_vector_and_fulltext"] = timed(embedder, parts[3], lambda text: bare(tenant, embedder, text))
        result["search"] = timed(embedder, parts[1], lambda text: search(tenant, text))
        result["search_with_bridges"] = timed(embedder, parts[2], lambda text: search_with_bridges(tenant, text))
        result["recall@20_on_disk"] = found_by_index(tenant, parts[3][:50])
        started = time.perf_counter()
        tenant.memories.keep_resident(Allowance(tenant.settings.resident_bytes), tenant.folder / "cache")
        tenant.memories.maintain_resident()
        if tenant.memories.is_resident:
            result["load_into_memory_s"] = round(time.perf_counter() - started, 2)
            result["search_in_memory"] = timed(embedder, parts[4], lambda text: search(tenant, text))
            result["search_with_bridges_in_memory"] = timed(embedder, parts[5], lambda text: search_with_bridges(tenant, text))
            result["recall@20_in_memory"] = found_by_index(tenant, parts[3][:50])
        result["process_peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        result["cold_command_s"] = cold_command(home / "cold")
    finally:
        if arguments.home is None:
            shutil.rmtree(home)
    if arguments.json:
        print(json.dumps(result, indent=1))
    else:
        for name, value in result.items():
            print(f"{name:24}{value}")


if __name__ == "__main__":
    main()
