"""Time how each cache over a large store follows one change, next to rebuilding the cache, in one run.

    python benchmarks/changes.py [--memories 100000] [--edges 100000] [--keep DIR]

The store is that of `consolidation.py`. Each line has the wall-clock and processor milliseconds of following one change (the median of
five) and of reading everything again: the timeline, the resident copy, recall's cached graph, the newest ten memories, the graph in the
catalog and its scores. The last lines compare matching names and equal texts with four times as many of each.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
from consolidation import DIMENSION, FIRST_ID, fill, memory, top_up

from memory_assets.graph.edges import refresh_graph
from memory_assets.graph.entities import Surface, resolve
from memory_assets.graph.relevance import compute_scores, refresh_relevance
from memory_assets.recall.timeline import read_timeline
from memory_assets.recall.view import read_graph
from memory_assets.stores.catalog import Catalog
from memory_assets.stores.filters import Filters
from memory_assets.stores.graph_builds import record_build
from memory_assets.stores.memories import MemoryStore
from memory_assets.stores.relations import RelationStore
from memory_assets.stores.resident.memories import Allowance
from memory_assets.stores.rows import new_id

_ALLOWANCE_BYTES = 8 << 30
Times = tuple[float, float]


def timed(work: Callable[[], object]) -> Times:
    """Return the wall-clock and processor milliseconds of one call."""
    begun, worked = time.perf_counter(), time.process_time()
    work()
    return (time.perf_counter() - begun) * 1e3, (time.process_time() - worked) * 1e3


def following(change: Callable[[int], object], follow: Callable[[], object], times: int = 5) -> Times:
    """Return the median time of `follow` after a change; the change itself is not timed."""
    taken = []
    for number in range(times):
        change(number)
        taken.append(timed(follow))
    return statistics.median(wall for wall, _ in taken), statistics.median(cpu for _, cpu in taken)


def line(name: str, after: Times, before: Times | None = None) -> None:
    """Print one row of the table."""
    anew = f"{before[0]:>12.1f}{before[1]:>10.1f}" if before else ""
    print(f"{name:<44}{after[0]:>12.1f}{after[1]:>10.1f}{anew}", flush=True)


class Measured:
    """A filled store and its caches."""

    def __init__(self, folder: Path, count: int, edges: int) -> None:
        self.store = MemoryStore(str(folder / "vectors"))
        self.relations = RelationStore(str(folder / "vectors"))
        self.catalog = Catalog(str(folder / "catalog.duckdb"), 30)
        if len(self.store) < count:
            fill(self.store, count)
            self.store.upkeep.optimize()
        self.store.prepare()
        refresh_graph(self.catalog, self.store, self.relations)
        top_up(self.catalog, count, edges)
        self._scored()
        self._made = count

    def stores_one(self, _: int = 0) -> None:
        """Store one more memory the way a service does."""
        self._made += 1
        vector = np.random.default_rng(self._made).normal(size=(1, DIMENSION)).astype(np.float32)
        names = [f"Name{self._made % 7}", "Tool3", f"Name{self._made}"]
        now = datetime.now(UTC)
        made = replace(memory(new_id(), 1, names, 0.0), created_at=now, updated_at=now)
        self.store.add([made], (vector / np.linalg.norm(vector)).astype(np.float32), "synthetic")

    def edge(self, number: int) -> None:
        """Write one more edge the way a build does."""
        with self.catalog.write() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO graph_edges (source_id, target_id, type, origin, confidence) VALUES (?, ?, 'X', 'bench', 1)",
                [FIRST_ID + number, FIRST_ID + 50],
            )
            record_build(connection, pa.table({"node": [FIRST_ID + number]}))

    def run(self) -> None:
        """Print the table."""
        print(f"{'':<44}{'one change':>22}{'all anew':>22}\n{'':<44}{'ms':>12}{'CPU ms':>10}{'ms':>12}{'CPU ms':>10}")
        self.timeline("timeline, on disk")
        line("newest ten, on disk", following(self.stores_one, self._newest), timed(self._newest_of_all))
        self.graph_view()
        line("graph in the catalog, one memory stored", following(self.stores_one, self._built))
        self._scored()
        line("scores after it", following(self._changes_the_graph, self._scored), timed(self._scored_all))
        self.store.keep_resident(Allowance(_ALLOWANCE_BYTES), Path(self.store.uri).parent / "cache")
        loading = timed(self.store.maintain_resident)
        beside = MemoryStore(self.store.uri)
        mine, self.store = self.store, beside
        line("resident copy, another process stored", following(self.stores_one, lambda: mine.recent(1, Filters())), loading)
        self.store = mine
        self.timeline("timeline, in memory")
        for count in (50_000, 200_000):
            line(f"names resolved, {count:,}", timed(lambda count=count: resolve(people(count))))

    def timeline(self, name: str) -> None:
        """Time recall's cached timeline of all rows."""
        known = read_timeline(self.store, None)

        def follow() -> None:
            nonlocal known
            known = read_timeline(self.store, known)

        line(name, following(self.stores_one, follow), timed(lambda: read_timeline(self.store, None)))

    def graph_view(self) -> None:
        """Time recall's cached graph."""
        known = read_graph(self.catalog, None)

        def follow() -> None:
            nonlocal known
            known = read_graph(self.catalog, known)

        line("graph that recall keeps", following(self.edge, follow), timed(lambda: read_graph(self.catalog, None)))

    def _newest(self) -> object:
        return self.store.recent(10, Filters())

    def _newest_of_all(self) -> None:
        keys = self.store.scan(("id", "created_at"), Filters().sql()).sort_by([("created_at", "descending")])
        self.store.get(keys["id"].slice(0, 10).to_pylist())

    def _built(self) -> object:
        return refresh_graph(self.catalog, self.store, self.relations)

    def _changes_the_graph(self, number: int) -> None:
        self.stores_one(number)
        self._built()

    def _scored_all(self) -> object:
        """Score everything, as on a new day."""
        return compute_scores(self.catalog, self.store, datetime.now(UTC), 0.01)

    def _scored(self) -> object:
        return refresh_relevance(self.catalog, self.store, datetime.now(UTC), rate=0.01, archive_threshold=0.2)


def people(count: int) -> list[Surface]:
    """Make names from few first names and many family names, so that the blocks to compare are large."""
    chance = Random(5)
    family = ["".join(chance.choices("abcdefghiklmnoprst", k=9)).title() for _ in range(count)]
    return [Surface(f"{('Ana', 'Ben', 'Cleo')[n % 3]} {name}", "PERSON", 1 + n % 5) for n, name in enumerate(family)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=100_000)
    parser.add_argument("--edges", type=int, help="fill the graph up to this many edges (default: as many as memories)")
    parser.add_argument("--keep", type=Path, help="keep the store in this folder and reuse it")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        Measured(chosen.keep or Path(temporary), chosen.memories, chosen.edges or chosen.memories).run()


if __name__ == "__main__":
    main()
