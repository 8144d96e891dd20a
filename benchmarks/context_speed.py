"""Time a context over a large store and a large Tana workspace: warm at depths 2 and 5, and the whole command cold.

    python benchmarks/context_speed.py [--memories 100000] [--nodes 50000] [--queries 60] [--home DIR]

The memories are those of `search_latency.py`, with entities that ten memories each mention. Each Tana page has ten child nodes, each with
a field that links to another node. A question is five words of some memory with a vector near its own. `cpu` is the process's time.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from search_latency import FIRST_ID, SEED, SyntheticEmbedder, fill, questions

from memory_assets.operations.context import context
from memory_assets.settings import load_settings
from memory_assets.stores.graph_builds import record_build
from memory_assets.tenants import Tenant

NAMED_BY = 10
"""Number of memories that mention each entity."""


def add_entities(tenant: Tenant, memories: int) -> None:
    rng = np.random.default_rng(SEED)
    count = memories // NAMED_BY
    entities = np.arange(count) + 1
    nodes = pa.table(
        {"id": entities, "kind": ["entity"] * count, "label": [f"Thing {n}" for n in entities], "type": ["NAME"] * count}
    )
    ids = FIRST_ID + rng.permutation(memories)[: count * NAMED_BY]
    mentions = pa.table({"memory_id": ids, "entity_id": np.repeat(entities, NAMED_BY)})
    with tenant.catalog.write() as connection:
        connection.register("nodes", nodes)
        connection.register("mentions", mentions)
        connection.execute("INSERT INTO graph_nodes BY NAME FROM nodes; INSERT INTO graph_mentions BY NAME FROM mentions")
        record_build(connection)


def add_tana(tenant: Tenant, count: int) -> None:
    with tenant.catalog.write() as connection:
        connection.execute(
            f"""
            INSERT INTO tana_workspaces VALUES ('ws', 'main', now(), now());
            INSERT INTO tana_nodes SELECT 'node' || n, 'ws', 'thing ' || n, '', CASE WHEN n % 11 = 0 THEN [] ELSE ['project'] END, now(),
                now() - INTERVAL 1 DAY * (n % 400), 10, now(), NULL FROM range({count}) t(n);
            INSERT INTO tana_links SELECT 'node' || (n // 11 * 11), 'node' || n, 'CHILD', '', n % 11 FROM range({count}) t(n)
                WHERE n % 11 > 0;
            INSERT INTO tana_links SELECT 'node' || n, 'node' || (n * 7919 % {count}), 'FIELD', 'Related', 0 FROM range({count}) t(n)
                WHERE n % 11 > 0;
            INSERT INTO tana_fields SELECT source, label, 0, target FROM tana_links WHERE relation = 'FIELD';
            """
        )


def timed(tenant: Tenant, embedder: SyntheticEmbedder, asked: list[tuple[str, np.ndarray]], depth: int) -> dict[str, float]:
    wall, cpu = [], []
    for text, embedder.vector in asked:
        started, spent = time.perf_counter(), time.process_time()
        context(tenant, [text], depth=depth, offline=True)
        wall.append(time.perf_counter() - started)
        cpu.append(time.process_time() - spent)
    return {
        "p50_ms": round(1000 * float(np.median(wall)), 1),
        "p95_ms": round(1000 * float(np.quantile(wall, 0.95)), 1),
        "cpu_p50_ms": round(1000 * float(np.median(cpu)), 1),
    }


def cold(home: Path, topic: str) -> float:
    command = [sys.executable, "-m", "memory_assets.cli", "context", "--tenant", "large", "--offline", topic]
    settings = {"MEMORY_DATA_DIR": str(home), "MEMORY_CONFIG": os.devnull, "PATH": "", "HOME": str(home)}
    times = []
    for _ in range(3):
        started = time.perf_counter()
        subprocess.run(command, env=settings, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - started)
    return round(min(times), 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=100_000)
    parser.add_argument("--nodes", type=int, default=50_000)
    parser.add_argument("--queries", type=int, default=60)
    parser.add_argument("--home", type=Path, help="keep the store here and reuse it (default: a temporary folder)")
    given = parser.parse_args()
    home = given.home or Path(tempfile.mkdtemp(prefix="context_speed_"))
    try:
        tenant = Tenant(load_settings(data_dir=home), "large", freshness=0.5)
        real = tenant.embedder
        SyntheticEmbedder.name = real.name
        embedder = SyntheticEmbedder(real)
        tenant.__dict__["embedder"] = embedder
        if not len(tenant.memories):
            fill(tenant, given.memories, 3 * given.memories)
            add_entities(tenant, given.memories)
            add_tana(tenant, given.nodes)
        asked = questions(tenant, 2 * given.queries + 3)
        for text, embedder.vector in asked[:3]:
            context(tenant, [text], offline=True)
        result = {
            "depth 2, warm": timed(tenant, embedder, asked[3::2], 2),
            "depth 5, warm": timed(tenant, embedder, asked[4::2], 5),
            "the command, cold, seconds": cold(home, asked[0][0]),
        }
    finally:
        if given.home is None:
            shutil.rmtree(home)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
