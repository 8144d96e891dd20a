"""Freshness of learnings (seed 000, FR-5 and FR-13): days since the confirmation or the activity of linked nodes, whichever is later.

fresh_at = max(confirmed, activity of linked projects, people and the meetings with them);  fresh if days since then < threshold

Activity that Tana reports as within the threshold is dated exactly that long before the reading, so it counts for a day longer.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

from memory_assets.models import Source
from memory_assets.tana.schema import LEARNING, Entry, SeedFile, read_seed
from memory_assets.tana.state import Activity, LinkedNode, Mapping
from memory_assets.tenants import Tenant

_READING_DAYS = 1
"""Days for which a reading of Tana counts as current."""


@dataclass(frozen=True, slots=True)
class Freshness:
    """A learning's freshness and its causes."""

    entry: Entry
    node: str
    confirmed_at: datetime
    activity: datetime | None
    """Activity of the linked node that was active last."""
    fresh_at: datetime
    because: str
    days: float
    fresh: bool
    linked: tuple[LinkedNode, ...]


def freshness(
    tenant: Tenant, *, threshold: int | None = None, kind: str = "", now: datetime | None = None, seed: SeedFile | None = None
) -> list[Freshness]:
    """Return the freshness of the confirmed learnings as of the last reading of Tana, the stalest first.

    `kind` is pattern, insight or self_knowledge, or empty for all; `threshold` is in days, by default the setting's; `seed` is the
    content of seed.json if it was read already.
    """
    threshold = threshold or tenant.settings.freshness_days
    now = now or datetime.now(UTC)
    mapped = Mapping.load(tenant.settings.pai_mapping).nodes
    known = Activity.load(tenant.folder)
    found: list[Freshness] = []
    for entry in (seed or read_seed(tenant)).entries.values():
        if entry.tag != LEARNING or (kind and entry.fields["Type"] != kind):
            continue
        linked = tuple(known.nodes[node] for node in known.links.get(entry.seed_id, ()) if node in known.nodes)
        liveliest = max((node for node in linked if node.active_at), key=lambda node: node.active_at or entry.at, default=None)
        activity = liveliest.active_at if liveliest else None
        alive = liveliest is not None and activity is not None and activity > entry.at
        fresh_at = activity if alive and activity else entry.at
        days = max(0.0, (now - fresh_at).total_seconds() / 86_400)
        because = f"{liveliest.kind or 'node'} {liveliest.name} is worked on in Tana" if alive and liveliest else "confirmed then"
        node = mapped.get(entry.seed_id, "")
        fresh = days < (threshold + _READING_DAYS if alive else threshold)
        found.append(Freshness(entry, node, entry.at, activity, fresh_at, because, days, fresh, linked))
    return sorted(found, key=lambda one: (one.fresh_at, one.entry.seed_id))


def store_activity(tenant: Tenant) -> int:
    """Write to the catalog, if it differs, the learnings that activity in Tana keeps fresh; return their number."""
    import pyarrow as pa

    if not Activity.load(tenant.folder).read_at:
        return 0
    alive = [found for found in freshness(tenant) if found.fresh_at > found.confirmed_at]
    rows = pa.table(
        {
            "source_key": [f"{Source.PAI_SEED}:{found.entry.seed_id}" for found in alive],
            "active_at": pa.array([found.fresh_at for found in alive], pa.timestamp("us", tz="UTC")),
            "because": pa.array([found.because for found in alive], pa.string()),
        }
    )
    with tenant.catalog.read() as connection:
        connection.register("alive", rows)
        (differing,) = connection.execute(
            "SELECT count(*) FROM ((FROM alive EXCEPT FROM tana_activity) UNION ALL (FROM tana_activity EXCEPT FROM alive))"
        ).fetchone() or (0,)
    if differing:
        with tenant.catalog.write() as connection:
            connection.register("alive", rows)
            connection.execute("DELETE FROM tana_activity; INSERT INTO tana_activity BY NAME FROM alive")
    return len(alive)
