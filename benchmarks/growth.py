"""Measure how the cost of a store, a search, a run and a night grows with memories and tenants.

    python -m benchmarks.growth [--memories 1000 10000 100000] [--tenants 1 10 100] [--each 20] [--cluster] [--json]

Measures one tenant at each number of `--memories`, then each number of `--tenants` with `--each` memories. `--cluster` starts an S3
server, DuckLake and PostgreSQL for the stores and counts the requests to the S3 server by kind. Times are medians of wall seconds in this
process: a store with its embedding; a search; a run (graph and scores after one stored memory); a night (the decay of every memory); a
tenant's first search, which opens it; an idle tick of the sensor that watches all tenants. The exponent is the slope of the line fitted in
logarithms: 0 is constant, 1 is proportional.
"""

import argparse
import json
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import dagster as dg
import numpy as np

from benchmarks.service import fill, person, sentence
from memory_assets.defs.resources import MemoryResource
from memory_assets.defs.sensors import build_sensors, tenant_digest
from memory_assets.graph.edges import refresh_graph
from memory_assets.graph.relevance import decay_cycle
from memory_assets.ingest.direct import store_memories
from memory_assets.ingest.stamps import table_stamps
from memory_assets.language.embedders import Embedder
from memory_assets.models import NewMemory, Source
from memory_assets.operations.search import search
from memory_assets.settings import Settings, load_settings
from memory_assets.tenants import Tenant, create_tenant
from memory_assets_tests.cluster import engine_settings
from memory_assets_tests.services import ObjectStorage, PostgreSQL

_TIMES = 5
Figures = dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--tenants", type=int, nargs="+", default=[1, 10, 100])
    parser.add_argument("--each", type=int, default=20, help="memories of each tenant in the runs with --tenants")
    parser.add_argument("--cluster", action="store_true")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, engines(Path(folder), shared=given.cluster) as requests:
        by_memories = measure_sizes(given.memories, requests)
        by_tenants = measure_tenants(given.tenants, given.each, requests)
    if given.json:
        print(json.dumps({"memories": by_memories, "tenants": by_tenants}))
        return
    show("memories of one tenant", by_memories)
    show(f"tenants of {given.each} memories", by_tenants)


@contextmanager
def engines(folder: Path, *, shared: bool) -> Iterator[Callable[[], Counter[str]]]:
    """Set where the stores are kept; yield a function that counts the requests to object storage."""
    os.environ |= {
        "MEMORY_DATA_DIR": str(folder / "data"),
        "MEMORY_CONFIG": os.devnull,
        "DAGSTER_HOME": str(folder),
    }
    if not shared:
        yield Counter
        return
    with PostgreSQL(folder / "postgresql") as postgresql, ObjectStorage(folder / "s3") as storage:
        postgresql.create_database("memory")
        os.environ |= engine_settings(postgresql, storage)
        yield storage.requests


def timed(work: Callable[[], object], times: int = _TIMES) -> float:
    taken: list[float] = []
    for _ in range(times):
        begun = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begun)
    return float(np.median(taken))


def counted(
    figures: Figures, name: str, work: Callable[[], object], requests: Callable[[], Counter[str]], times: int = _TIMES
) -> None:
    """Record the time of `work` and its requests to object storage by kind."""
    before = requests()
    figures[f"{name}, s"] = timed(work, times)
    for kind, count in (requests() - before).items():
        figures[f"{name}: {kind}"] = count / times


def measure_sizes(sizes: list[int], requests: Callable[[], Counter[str]]) -> dict[int, Figures]:
    found: dict[int, Figures] = {}
    chance = random.Random(5)
    tenant = Tenant(load_settings(), "growth")
    for size in sorted(sizes):
        fill(tenant, size)
        run(tenant)
        figures = found[size] = {}

        def store() -> None:
            store_memories(tenant, [NewMemory(sentence(chance, (person(chance), person(chance))), Source.HTTP)])

        def store_and_run() -> None:
            store()
            run(tenant)

        store()
        search(tenant, sentence(chance))
        counted(figures, "store", store, requests)
        counted(figures, "search", lambda: search(tenant, sentence(chance)), requests)
        counted(figures, "run", store_and_run, requests, 3)
        counted(figures, "night", lambda: decay_cycle(tenant, datetime.now(UTC)), requests, 3)
    return found


def run(tenant: Tenant) -> None:
    refresh_graph(tenant.catalog, tenant.memories, tenant.relations, tenant.analyzer.gazetteer.canonical)
    decay_cycle(tenant, datetime.now(UTC))


def measure_tenants(counts: list[int], each: int, requests: Callable[[], Counter[str]]) -> dict[int, Figures]:
    found: dict[int, Figures] = {}
    chance = random.Random(6)
    settings = load_settings()
    made = 0
    embedders = Tenant(settings, "growth").embedder
    shared = {embedders.name: embedders}
    for count in sorted(counts):
        begun, first = time.perf_counter(), made
        while made < count:
            tenant = Tenant(settings, f"tenant{made:05}", embedders=dict(shared))
            create_tenant(tenant)
            store_memories(tenant, [NewMemory(sentence(chance), Source.HTTP) for _ in range(each)])
            run(tenant)
            made += 1
        figures = found[count] = {}
        figures["making a tenant with its first run, s"] = (time.perf_counter() - begun) / (count - first)

        names = [f"tenant{chance.randrange(made):05}" for _ in range(_TIMES)]
        counted(figures, "opening a tenant", partial(each_of, names, partial(open_tenant, settings, shared)), requests, 1)
        counted(figures, "night of a tenant", partial(each_of, names, partial(night_of, settings)), requests, 1)
        for name in ("opening a tenant", "night of a tenant"):
            figures |= {key: value / _TIMES for key, value in figures.items() if key.startswith(name)}
        found[count] = figures
        with dg.DagsterInstance.ephemeral() as instance:
            counted(figures, "tick", Tick(instance, settings), requests)
    return found


def each_of(names: list[str], work: Callable[[str], object]) -> None:
    for name in names:
        work(name)


def open_tenant(settings: Settings, embedders: dict[str, Embedder], name: str) -> None:
    search(Tenant(settings, name, embedders=dict(embedders)), "who moved the billing export")


def night_of(settings: Settings, name: str) -> None:
    decay_cycle(Tenant(settings, name), datetime.now(UTC))


class Tick:
    """An idle tick of the sensor over all tenants."""

    def __init__(self, instance: dg.DagsterInstance, settings: Settings) -> None:
        self._instance = instance
        self._cursor = " ".join(tenant_digest(name, stamp) for name, stamp in table_stamps(settings).items())
        (self._sensor,) = (each for each in build_sensors(MemoryResource()) if each.name == "stored_memories_sensor")

    def __call__(self) -> None:  # noqa: D102
        with dg.build_sensor_context(instance=self._instance, cursor=self._cursor) as context:
            outcome = self._sensor(context)
        assert isinstance(outcome, dg.SensorResult) and not outcome.run_requests


def show(what: str, found: Mapping[int, Figures]) -> None:
    sizes = sorted(found)
    names = list(dict.fromkeys(name for size in sizes for name in found[size]))
    print(f"\n| {what} | {' | '.join(f'{size:,}' for size in sizes)} | exponent |\n|---|{'---|' * (len(sizes) + 1)}")
    for name in names:
        values = [found[size].get(name, 0.0) for size in sizes]
        exponent = ""
        if len(sizes) > 1 and min(values) > 0:
            exponent = f"{np.polyfit(np.log(sizes), np.log(values), 1)[0]:.2f}"
        print(f"| {name} | {' | '.join(f'{value:.3g}' for value in values)} | {exponent} |")


if __name__ == "__main__":
    main()
