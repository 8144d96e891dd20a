"""Time the graph and the sleep cycles over a large store: `python benchmarks/consolidation.py [--memories 100000]`.

The store is synthetic: texts grouped by theme, vectors around their theme's centre, entities drawn by a power law, sessions of ten.
Prints one row per step with its seconds and the process's peak memory so far; nothing is kept unless --keep names a folder.
"""

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from memory_assets.graph.clusters import find_clusters
from memory_assets.graph.creative import find_links
from memory_assets.graph.edges import refresh_graph
from memory_assets.graph.forgetting import forget
from memory_assets.graph.relevance import refresh_relevance
from memory_assets.models import Entity, Kind, Memory, Source, State
from memory_assets.settings import load_settings
from memory_assets.stores.catalog import Catalog
from memory_assets.stores.graph_builds import record_build
from memory_assets.stores.memories import MemoryStore
from memory_assets.stores.rows import content_hash
from memory_assets.tenants import Tenant

NOW = datetime(2026, 6, 1, tzinfo=UTC)
DIMENSION = 256
THEMES_PER_THOUSAND = 20
CHUNK = 20_000
FIRST_ID = 1 << 52
VERBS = ("reviewed", "deployed", "measured", "rewrote", "discussed", "debugged", "planned", "dropped")
NOUNS = ("export", "cache", "schema", "queue", "portal", "index", "report", "backup", "login", "parser")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memories", type=int, default=100_000)
    parser.add_argument("--edges", type=int, default=300_000, help="fill the graph up to this many edges")
    parser.add_argument("--keep", type=Path, help="keep the store in this folder and reuse it")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.keep or Path(temporary)
        run(folder, chosen.memories, chosen.edges)


def run(folder: Path, count: int, edges: int) -> None:
    tenant = Tenant(load_settings(data_dir=folder, decay_rate=0.1, forget_at_most=1.0), "main")
    memories, relations, catalog = tenant.memories, tenant.relations, tenant.catalog
    print(f"{'step':<44}{'seconds':>9}{'CPU s':>9}{'peak MB':>9}  result")
    if len(memories) != count:
        timed("fill the store", lambda: fill(memories, count))
    timed("graph: first build", lambda: graph_line(refresh_graph(catalog, memories, relations)))
    timed("graph: nothing changed", lambda: graph_line(refresh_graph(catalog, memories, relations)))
    memories.transition([FIRST_ID + 7], State, State.ARCHIVED)
    timed("graph: one memory changed", lambda: graph_line(refresh_graph(catalog, memories, relations)))
    memories.transition([FIRST_ID + 7], State, State.ACTIVE)
    refresh_graph(catalog, memories, relations)
    timed("fill the graph with random edges", lambda: top_up(catalog, count, edges))
    timed("decay: all scores", lambda: decay(catalog, memories, NOW))
    timed("decay: a day later", lambda: decay(catalog, memories, NOW + timedelta(days=1)))
    timed("decay: same day again", lambda: decay(catalog, memories, NOW + timedelta(days=1)))
    timed("creative: 500 samples", lambda: creative(tenant))
    timed("cluster: first", lambda: clusters(tenant))
    timed("cluster: again", lambda: clusters(tenant))
    timed("forget: dry run", lambda: f"{len(forget(tenant, NOW, dry_run=True).archived)} would be archived")


def timed(name: str, step: Callable[[], str]) -> None:
    started, worked = time.perf_counter(), time.process_time()
    result = step()
    seconds, cpu = time.perf_counter() - started, time.process_time() - worked
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{name:<44}{seconds:>9.2f}{cpu:>9.2f}{peak:>9.0f}  {result}", flush=True)


def fill(memories: MemoryStore, count: int) -> str:
    random = np.random.default_rng(1)
    themes = max(3, count * THEMES_PER_THOUSAND // 1000)
    centres = random.normal(size=(themes, DIMENSION)).astype(np.float32)
    names = [f"{'Name' if number % 3 else 'Tool'}{number}" for number in range(max(10, count // 5))]
    for start in range(0, count, CHUNK):
        size = min(CHUNK, count - start)
        theme = random.integers(0, themes, size)
        spread = random.uniform(0.3, 1.2, (size, 1)).astype(np.float32)
        vectors = centres[theme] + spread * random.normal(size=(size, DIMENSION)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        named = np.minimum(random.zipf(1.3, (size, 3)) - 1, len(names) - 1)
        ages = random.exponential(20, size)
        rows = [
            memory(FIRST_ID + start + place, int(theme[place]), [names[n] for n in named[place]], float(ages[place]))
            for place in range(size)
        ]
        memories.put(rows, vectors, "synthetic")
    return f"{len(memories)} memories, {themes} themes"


def memory(number: int, theme: int, names: list[str], age: float) -> Memory:
    verb, noun = VERBS[number % len(VERBS)], NOUNS[theme % len(NOUNS)]
    text = f"{names[0]} {verb} the {noun} of area {theme} with {names[1]}. Note {number} mentions {names[2]} too."
    created = NOW - timedelta(days=age)
    return Memory(
        id=number,
        content=text,
        kind=Kind.NOTE,
        source=Source.CLI,
        source_key="",
        created_at=created,
        updated_at=created,
        entities=tuple(Entity(name, "TOOL" if name.startswith("Tool") else "NAME") for name in dict.fromkeys(names)),
        session=f"session-{number // 10}",
        importance=(number % 11) / 10,
        content_hash=content_hash(text),
        revision=content_hash(text),
        pipeline="synthetic",
    )


def top_up(catalog: Catalog, count: int, edges: int) -> str:
    """Add random edges until the graph has `edges` of them."""
    with catalog.write() as connection:
        (have,) = connection.execute("SELECT count(*) FROM graph_edges").fetchone() or (0,)
        connection.execute(
            f"""
            INSERT OR IGNORE INTO graph_edges BY NAME
            SELECT {FIRST_ID} + (hash(range) % {count})::BIGINT AS source_id,
                   {FIRST_ID} + (hash(range, 1) % {count})::BIGINT AS target_id,
                   'RELATES_TO' AS type, 0.4 AS confidence, NULL AS similarity, 'random' AS origin, 0 AS evidence_id, '' AS note
            FROM range({max(0, edges - have)})
            """
        )
        record_build(connection)
        (now,) = connection.execute("SELECT count(*) FROM graph_edges").fetchone() or (0,)
    return f"{have} from the rules, {now} now"


def graph_line(outcome: Any) -> str:
    return f"{outcome.changed} looked at, {outcome.written} rows written, {sum(outcome.edges_by_type.values())} edges"


def decay(catalog: Catalog, memories: MemoryStore, now: datetime) -> str:
    outcome = refresh_relevance(catalog, memories, now, rate=0.1, archive_threshold=0.2)
    return f"{outcome.scored} scored, {outcome.written} written, {outcome.below_archive} below 0.2"


def creative(tenant: Tenant) -> str:
    outcome = find_links(tenant, NOW)
    return f"{outcome.sampled} drawn, {len(outcome.links)} connected"


def clusters(tenant: Tenant) -> str:
    outcome = find_clusters(tenant, NOW)
    largest = max((len(cluster.members) for cluster in outcome.clusters), default=0)
    return f"{len(outcome.clusters)} clusters, {outcome.kept} kept, largest {largest}, {outcome.written} rows differ"


if __name__ == "__main__":
    main()
