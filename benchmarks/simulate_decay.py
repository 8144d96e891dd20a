"""Simulate how relevance changes over a year: `python benchmarks/simulate_decay.py`.

Two stores are simulated day by day with the default settings: the sample home's memories (ingested into a temporary folder on day 0),
and 10,000 synthetic ones in stories of twenty, of which every fifth remains live work. Each day some memories are recalled; if there is
live work, new memories are stored that link to earlier ones of their story. The tables print the share of day-0 memories at or above the
archive threshold (0.2) and the delete threshold (0.05): with age counted from the last sign of life, as the project does; with age counted
from creation; and for memories linked to live work. Each quarter, memories below 0.2 without a sign of life in 30 days are archived. The
last lines count how many of these are recalled later in the year and how many are standing wishes.
"""

import argparse
import os
import shutil
import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from memory_assets.graph.relevance import LIVELY_CONFIDENCE, score_rows
from memory_assets.models import STANDING_KINDS
from memory_assets.settings import Settings, load_settings
from memory_assets.tenants import Tenant

DAYS = 365
PRINTED = (0, 7, 14, 30, 60, 90, 120, 180, 270, 365)
QUARTER = 91
STORY = 20
LIVE_SHARE = 0.2
SAMPLE = Path(__file__).parents[1] / "data" / "sample"


@dataclass
class Store:
    """A growing store; times are in days since the start of the simulation."""

    start: datetime
    created: list[float]
    importance: list[float]
    confidence: list[float]
    edges: list[tuple[int, int, float, str]]
    """Ends, confidence and origin."""
    story: list[int]
    live: set[int]
    seen: list[float]
    """Day on which the store first saw each memory."""
    kind: list[str]
    last_access: dict[int, float] = field(default_factory=dict)
    accesses: dict[int, int] = field(default_factory=dict)
    archived: dict[int, int] = field(default_factory=dict)
    """Memory -> the day on which it was archived."""
    missed: set[int] = field(default_factory=set)
    """Archived memories that were recalled later."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memories", type=int, default=10_000)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        simulate("the sample home, 3 recalls a day, nothing new", sample_store(Path(folder)), recalls=3, stored=0)
    simulate(
        f"{chosen.memories:,} synthetic memories, 40 recalls and 20 new ones a day",
        synthetic(chosen.memories),
        recalls=40,
        stored=20,
    )


def sample_store(folder: Path) -> Store:
    home = folder / "home"
    shutil.copytree(SAMPLE, home)
    os.environ |= {
        "MEMORY_DATA_DIR": str(folder / "data"),
        "MEMORY_CLAUDE_PROJECTS_DIR": str(home / ".claude/projects"),
        "MEMORY_PAI_SEED": str(home / ".pai/seed.json"),
        "MEMORY_PAI_LEARNING_DIR": str(home / ".pai/MEMORY/LEARNING"),
    }
    from memory_assets.operations.run import run

    tenant = Tenant(load_settings())
    run(tenant, lambda *_: None, lambda *_: None)
    rows = tenant.memories.scan(("id", "kind", "created_at", "importance", "confidence"), "state = 'active'").to_pylist()
    start = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    place = {row["id"]: number for number, row in enumerate(rows)}
    with tenant.catalog.read() as connection:
        edges = connection.execute("SELECT source_id, target_id, confidence, origin FROM graph_edges").fetchall()
    return Store(
        start,
        [min(0.0, (row["created_at"] - start).total_seconds() / 86_400) for row in rows],
        [row["importance"] for row in rows],
        [row["confidence"] for row in rows],
        [(place[a], place[b], confidence, origin) for a, b, confidence, origin in edges if a in place and b in place],
        list(range(len(rows))),
        set(),
        [0.0] * len(rows),
        [row["kind"] for row in rows],
    )


def synthetic(count: int) -> Store:
    random = np.random.default_rng(7)
    stories = count // STORY
    story = [number // STORY for number in range(count)]
    created = (-random.uniform(0, 365, count)).tolist()
    edges = []
    for number in range(count):
        first = story[number] * STORY
        edges += [
            (number, first + int(other), 0.9, "link") for other in random.integers(0, STORY, 2) if first + int(other) != number
        ]
    live = set(random.choice(stories, int(stories * LIVE_SHARE), replace=False).tolist())
    start = datetime(2026, 6, 1, tzinfo=UTC)
    importance = random.beta(2, 2, count).tolist()
    return Store(start, created, importance, [1.0] * count, edges, story, live, list(created), ["note"] * count)


def simulate(title: str, store: Store, *, recalls: int, stored: int) -> None:
    random = np.random.default_rng(11)
    settings = load_settings()
    before = len(store.created)
    print(f"\n{title}")
    print(f"{'':>5} | {'age from the last sign of life':^31} | {'age from creation':^21} | {'linked to live work':^31}")
    shares = f"{'>= 0.2':>9} {'>= 0.05':>9}"
    print(f"{'day':>5} | {shares} {'median':>11} | {shares:>21} | {'memories':>9} {shares:>21}")
    relevance = np.ones(before)
    for day in range(DAYS + 1):
        if day in PRINTED or day % 7 == 0 or day % QUARTER == 0:
            scores = score(store, day, settings.decay_rate)
            relevance = scores["relevance"].to_numpy()
            if day in PRINTED:
                print_day(store, day, before, scores, settings)
            if day and day % QUARTER == 0:
                archive(store, day, scores, settings)
        weights = relevance[: len(store.created)] ** 2
        weights = np.pad(weights, (0, len(store.created) - len(weights)), constant_values=0.36)
        for number in random.choice(len(weights), recalls, replace=False, p=weights / weights.sum()):
            store.last_access[int(number)] = day
            store.accesses[int(number)] = store.accesses.get(int(number), 0) + 1
            if number in store.archived:
                store.missed.add(int(number))
        add_live_work(store, day, stored, random)

    standing = {number for number in store.archived if store.kind[number] in STANDING_KINDS}
    print(
        f"archived {len(store.archived)} of {len(store.created)}, recalled later {len(store.missed)}, standing wishes {len(standing)}"
    )


def archive(store: Store, day: int, scores: pa.Table, settings: Settings) -> None:
    latest = store.start + timedelta(days=day - settings.forget_grace_days)
    for number, lasting, fresh_at in zip(*(scores[name].to_pylist() for name in ("id", "lasting", "fresh_at")), strict=True):
        if lasting < settings.archive_threshold and fresh_at <= latest:
            store.archived.setdefault(number, day)


def add_live_work(store: Store, day: int, stored: int, random: np.random.Generator) -> None:
    live = sorted(store.live)
    for _ in range(stored):
        story = int(random.choice(live))
        number = len(store.created)
        store.created.append(float(day))
        store.importance.append(0.5)
        store.confidence.append(1.0)
        store.seen.append(float(day))
        store.kind.append("note")
        store.story.append(story)
        store.edges += [(number, story * STORY + int(other), 0.9, "link") for other in random.integers(0, STORY, 2)]


def score(store: Store, day: int, rate: float) -> pa.Table:
    """Return the result of `score_rows` for all memories on a day."""
    count = len(store.created)
    ids = np.arange(count)
    moments = [store.start + timedelta(days=moment) for moment in store.created]
    when = pa.timestamp("us", tz="UTC")
    rows = pa.table(
        {
            "id": ids,
            "state": ["active"] * count,
            "kind": store.kind,
            "source_key": ["file"] * count,
            "created_at": pa.array(moments, when),
            "importance": store.importance,
            "confidence": store.confidence,
            "protected": [False] * count,
            "updated_at": pa.array([store.start + timedelta(days=moment) for moment in store.seen], when),
        }
    )
    accessed = list(store.last_access)
    access = pa.table(
        {
            "id": pa.array(accessed, pa.int64()),
            "last_at": pa.array([store.start + timedelta(days=store.last_access[number]) for number in accessed], when),
            "accesses": pa.array([store.accesses[number] for number in accessed], pa.int64()),
        }
    )
    columns = zip(*store.edges, strict=True) if store.edges else ((), (), (), ())
    edges = pa.table(dict(zip(("source_id", "target_id", "confidence", "origin"), map(pa.array, columns), strict=True)))
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("LOAD icu; SET TimeZone = 'UTC'")
        for name, table in (("graph_edges", edges), ("memory_access", access), ("given_rows", rows)):
            connection.register(f"{name}_arrow", table)
            connection.execute(f"CREATE TABLE {name} AS FROM {name}_arrow")
        connection.execute("CREATE TABLE memory_first_seen (id BIGINT, seen_at TIMESTAMPTZ)")
        connection.execute("CREATE TABLE tana_activity (source_key VARCHAR, active_at TIMESTAMPTZ, because VARCHAR)")
        connection.register("rows", rows)
        connection.register("concerned", rows.select(["id"]))
        return score_rows(connection, store.start + timedelta(days=day), rate)


def print_day(store: Store, day: int, before: int, scores: pa.Table, settings: Settings) -> None:
    kept, relevance, decay = (scores[name].to_numpy()[:before] for name in ("lasting", "relevance", "decay"))
    ages = day - np.array(store.created[:before])
    from_creation = np.minimum(1, relevance / np.maximum(decay, 1e-300) * np.exp(-settings.decay_rate * ages))
    fresh = {
        number
        for number, created in enumerate(store.created)
        if max(created, store.last_access.get(number, -9e9)) > day - 7 and created <= day
    }
    linked = {b for a, b, c, _ in store.edges if a in fresh and c >= LIVELY_CONFIDENCE}
    linked |= {a for a, b, c, _ in store.edges if b in fresh and c >= LIVELY_CONFIDENCE}
    live = np.array(sorted(number for number in linked if number < before), int)

    def share(values: np.ndarray, least: float) -> str:
        return f"{100 * (values >= least).mean():.1f} %" if len(values) else "-"

    archive, delete = settings.archive_threshold, settings.delete_threshold
    print(
        f"{day:>5} | {share(kept, archive):>9} {share(kept, delete):>9} {np.median(kept):>11.3f} "
        f"| {share(from_creation, archive):>10} {share(from_creation, delete):>10} "
        f"| {len(live):>9} {share(kept[live], archive):>9} {share(kept[live], delete):>11}"
    )


if __name__ == "__main__":
    main()
