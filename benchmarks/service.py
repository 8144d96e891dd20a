"""Measure how fast the HTTP service stores and searches, next to the bare LanceDB calls of each request, in one run.

    python benchmarks/service.py [--memories 100000] [--edges] [--seconds 10] [--embedder auto] [--workers 1,4] [--warm 6]
        [--folder DIR] [--json]

Fills a tenant with memories of invented words and unit vectors around 400 topics and starts `memory serve`. Clients, each with its own
loopback connection, store and search: one alone for the times, eight at once for the rates. The bare LanceDB calls are timed in this
process on the same tables before the service starts: appending one row, and the two index look-ups of a search plus reading ten rows.
`--folder` keeps the tenant for the next run.

`--workers` lists numbers of worker processes, one run for each (default: that of `memory serve`). Memory is the sum of the proportional
set sizes of all processes.

`--edges` also builds the graph, with one or two edges per memory, and measures the cost of one stored memory until graph and scores are
finished. `--memories 1000000 --edges --folder DIR` takes half an hour the first time. `MEMORY_RESIDENT_BYTES` limits the service's
resident copy, by default to half a gigabyte: enough for 200,000 memories.
"""

import argparse
import http.client
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from memory_assets.graph.edges import refresh_graph
from memory_assets.graph.known_names import refresh_known_names
from memory_assets.graph.relevance import decay_cycle
from memory_assets.ingest.direct import store_memories
from memory_assets.language.entity_types import EntityType
from memory_assets.models import Entity, Kind, Memory, NewMemory, Source
from memory_assets.settings import Settings, load_settings
from memory_assets.stores.keys import KeyStore
from memory_assets.stores.memories import Filters
from memory_assets.stores.rows import content_hash, new_id
from memory_assets.tenants import Tenant

ROOT = Path(__file__).parents[1]
CHUNK = 10_000
TOPICS = 400
WARM_SECONDS = 6.0
"""After the first request the service copies the tenant's table and searches on disk until done. A million memories need 60."""
PEOPLE = ["Alice", "Bob", "Carol", "Dora", "Emil", "Farah", "Goran", "Hana"]
VERBS = ["moved", "fixed", "reviewed", "renamed", "measured", "deployed", "reverted", "described"]
THINGS = [
    "billing export",
    "session store",
    "search index",
    "retry loop",
    "login page",
    "nightly backup",
    "rate limit",
    "report template",
]
SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in ("a", "en", "il", "o", "ur")][:32]
PLACES = ["Atlas", "Borealis", "Cygnus", "Delphi", "Ember", "Fjord", "Garnet", "Harbor"]
Request = tuple[str, dict[str, object]]


def person(chance: random.Random) -> str:
    """Return one of 256,000 names."""
    return f"{chance.choice(PEOPLE)} {''.join(chance.choice(SYLLABLES) for _ in range(3)).title()}"


def sentence(chance: random.Random, people: Sequence[str] = ()) -> str:
    thing, place = chance.choice(THINGS), chance.choice(PLACES)
    one, other = people or (chance.choice(PEOPLE), chance.choice(PEOPLE))
    return (
        f"{one} {chance.choice(VERBS)} the {thing} in {place} because of ticket {chance.randrange(100_000)}; "
        f"{other} will check word{chance.randrange(5_000)} and word{chance.randrange(5_000)} next week."
    )


def fill(tenant: Tenant, count: int) -> None:
    chance, vectors = random.Random(7), np.random.default_rng(7)
    centres, now = vectors.standard_normal((TOPICS, tenant.embedder.dimension)), datetime.now(UTC)
    for start in range(len(tenant.memories), count, CHUNK):
        size = min(CHUNK, count - start)
        people = [(person(chance), person(chance)) for _ in range(size)]
        texts = [sentence(chance, each) for each in people]
        memories = [
            Memory(
                new_id(),
                text,
                Kind.NOTE,
                Source.IMPORT,
                "",
                at,
                at,
                tags=("bench",),
                entities=tuple(Entity(name, EntityType.PERSON) for name in dict.fromkeys(people[number])),
                session=f"session {(start + number) // 10}",
                content_hash=content_hash(text),
                revision="b",
            )
            for number, text in enumerate(texts)
            for at in [now - timedelta(minutes=start + number)]
        ]
        embeddings = 0.6 * centres[vectors.integers(0, TOPICS, size)] + vectors.standard_normal((size, tenant.embedder.dimension))
        embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
        tenant.memories.put(memories, embeddings.astype(np.float32), tenant.embedder.name)
        print(f"  filled {start + size:,}", file=sys.stderr)
    tenant.memories.upkeep.optimize()


def build(tenant: Tenant) -> dict[str, object]:
    """Build graph and scores; return the processor seconds of each step after one more memory (median of five)."""
    chance, steps = random.Random(10), ("graph", "names", "scores")
    edges, taken = _built(tenant)[0], []
    for _ in range(5):
        store_memories(tenant, [NewMemory(sentence(chance, (person(chance), person(chance))), Source.HTTP)])
        taken.append(_built(tenant)[1])
    medians = np.median(taken, axis=0)
    results: dict[str, object] = {
        f"after one memory: {step}, CPU s": round(float(each), 2) for step, each in zip(steps, medians, strict=True)
    }
    return results | {"edges": edges}


def _built(tenant: Tenant) -> tuple[int, list[float]]:
    """Return the number of edges and the processor seconds of each build step."""
    moments = [time.process_time()]
    outcome = refresh_graph(tenant.catalog, tenant.memories, tenant.relations, tenant.analyzer.gazetteer.canonical)
    moments.append(time.process_time())
    refresh_known_names(tenant)
    moments.append(time.process_time())
    decay_cycle(tenant, datetime.now(UTC))
    moments.append(time.process_time())
    return sum(outcome.edges_by_type.values()), np.diff(moments).tolist()


def milliseconds(work: Callable[[], object], seconds: float) -> "np.ndarray":
    work()
    taken, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        begun = time.perf_counter()
        work()
        taken.append((time.perf_counter() - begun) * 1e3)
    return np.array(taken)


def bare(tenant: Tenant, seconds: float) -> dict[str, "np.ndarray"]:
    store, chance = tenant.memories, random.Random(8)
    now = datetime.now(UTC)
    embedder = tenant.embedder

    def append() -> None:
        text = sentence(chance)
        memory = Memory(new_id(), text, Kind.NOTE, Source.HTTP, "", now, now, content_hash=content_hash(text), revision="b")
        store.add([memory], embedder.embed([text]), embedder.name)

    def look_up() -> None:
        text = sentence(chance)
        found = store.nearest(embedder.embed([text])[0], embedder.name, 50, Filters())
        store.matching(text, 50, Filters())
        store.get(found["id"].to_pylist()[:10])

    def understand() -> None:
        tenant.analyzer.analyze(sentence(chance))

    return {
        "bare: two look-ups and ten rows": milliseconds(look_up, seconds),
        "bare: one row appended": milliseconds(append, seconds),
        "language alone": milliseconds(understand, min(seconds, 5)),
    }


class Client:
    """A loopback connection with a key."""

    def __init__(self, url: str, tenant: str, key: str) -> None:
        address = urlsplit(url)
        self.connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=120)
        self.prefix = f"/api/v1/{tenant}"
        self.headers = {"X-API-Key": key, "Content-Type": "application/json"}

    def send(self, request: Request) -> None:
        """Send a request; fail unless it succeeds."""
        path, body = request
        self.connection.request("POST", self.prefix + path, json.dumps(body), self.headers)
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise SystemExit(f"{path} answered {answer.status}: {text!r}")


def storing(chance: random.Random) -> Request:
    return "/store", {"content": sentence(chance)}


def searching(chance: random.Random) -> Request:
    return "/search", {"query": sentence(chance).partition(";")[0]}


def rate(make_client: Callable[[], Client], make: Callable[[random.Random], Request], clients: int, seconds: float) -> float:
    done = [0] * clients
    end = time.perf_counter() + seconds

    def work(number: int) -> None:
        client, chance = make_client(), random.Random(1_000 + number)
        while time.perf_counter() < end:
            client.send(make(chance))
            done[number] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(clients)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) / (time.perf_counter() - begun)


def beside(make_client: Callable[[], Client], seconds: float) -> dict[str, dict[str, float]]:
    """Time one client that searches while four others store ten memories a second."""
    end = time.perf_counter() + seconds
    searches: list[float] = []
    stores: list[float] = []

    def work(number: int, make: Callable[[random.Random], Request], times: list[float], pause: float) -> None:
        client, chance = make_client(), random.Random(2_000 + number)
        while time.perf_counter() < end:
            begun = time.perf_counter()
            client.send(make(chance))
            taken = time.perf_counter() - begun
            times.append(taken * 1e3)
            time.sleep(max(0.0, pause - taken))

    threads = [threading.Thread(target=work, args=(0, searching, searches, 0.0))]
    threads += [threading.Thread(target=work, args=(number, storing, stores, 0.4)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"search beside ten stores a second": spread(np.array(searches)), "store beside it": spread(np.array(stores))}


def megabytes(parent: int) -> float:
    """Return the memory of a process and its children; shared pages count once."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="ascii").split()
    total = 0
    for pid in (parent, *children):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
        total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


def processor_seconds(parent: int) -> float:
    """Return the processor time of a process and its children."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="ascii").split()
    fields = [Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split() for pid in (parent, *children)]
    return sum(int(each[11]) + int(each[12]) for each in fields) / os.sysconf("SC_CLK_TCK")


def measure_bare(tenant: Tenant, seconds: float) -> dict[str, object]:
    results: dict[str, object] = {name: spread(times) for name, times in bare(tenant, seconds).items()}
    tenant.memories.upkeep.optimize()
    return results


def measure(settings: Settings, tenant: Tenant, seconds: float, workers: int | None, warm: float) -> dict[str, object]:
    results: dict[str, object] = {}
    key = KeyStore(tenant.state).create("benchmark")[1]
    environment = os.environ | {
        "MEMORY_DATA_DIR": str(settings.data_dir),
        "MEMORY_EMBEDDER": settings.embedder,
        "MEMORY_WATCH_SOURCES": "off",
        "PYTHONPATH": str(ROOT),
        "LOG_LEVEL": "WARNING",
    }
    command = [sys.executable, "-m", "memory_assets.cli", "serve", "--port", "0"]
    command += ["--workers", str(workers)] if workers else []
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:

        def client() -> Client:
            return Client(url, tenant.name, key)

        try:
            assert process.stderr
            url = process.stderr.readline().rpartition(" ")[2].strip()
            threading.Thread(target=process.stderr.read, daemon=True).start()
            for _ in range(3):  # one process copies the table, and the others map it
                rate(client, searching, 8 * (workers or 2), WARM_SECONDS / 2)
                time.sleep(warm)
            alone, chance = client(), random.Random(9)
            alone.send(storing(chance))
            results["memory before, MB"] = round(megabytes(process.pid))
            for name, make in (("search", searching), ("store", storing)):
                results[f"{name}, one client"] = spread(milliseconds(lambda make=make: alone.send(make(chance)), seconds))
            for name, make in (("searches", searching), ("stores", storing)):
                begun = processor_seconds(process.pid)
                made = rate(client, make, 8, seconds)
                results[f"{name} a second, 8 clients"] = round(made, 1)
                taken = (processor_seconds(process.pid) - begun) / (made * seconds)
                results[f"processor time of one of these {name}, ms"] = round(1e3 * taken, 1)
            results |= beside(client, seconds)
            results["memory after, MB"] = round(megabytes(process.pid))
        finally:
            process.terminate()
    return results


def spread(times: "np.ndarray") -> dict[str, float]:
    p50, p99 = np.percentile(times, [50, 99])
    return {"p50_ms": round(float(p50), 1), "p99_ms": round(float(p99), 1), "calls": len(times)}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--memories", type=int, default=100_000)
    options.add_argument("--edges", action="store_true")
    options.add_argument("--seconds", type=float, default=10)
    options.add_argument("--embedder", default="auto")
    options.add_argument("--workers", type=lambda text: [int(each) for each in text.split(",")], default=[None])
    options.add_argument("--warm", type=float, default=WARM_SECONDS)
    options.add_argument("--folder", type=Path)
    options.add_argument("--json", action="store_true")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        settings = load_settings(data_dir=given.folder or Path(temporary), embedder=given.embedder)
        tenant = Tenant(settings, "bench")
        fill(tenant, given.memories)
        results: dict[str, object] = {"memories": len(tenant.memories), "embedder": tenant.embedder.name}
        results |= build(tenant) if given.edges else {}
        results |= measure_bare(tenant, given.seconds)
        for count in given.workers:
            measured = measure(settings, tenant, given.seconds, count, given.warm)
            results |= {f"{name}{f' [{count}]' if count else ''}": value for name, value in measured.items()}
            tenant.memories.upkeep.optimize()
    if given.json:
        print(json.dumps(results, indent=2))
        return
    for name, value in results.items():
        shown = ", ".join(f"{part} {number}" for part, number in value.items()) if isinstance(value, dict) else value
        print(f"{name:<50} {shown}")


if __name__ == "__main__":
    main()
