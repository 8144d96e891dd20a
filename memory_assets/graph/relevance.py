"""The relevance score of a memory (seed 003, section 2), computed set-wise in the catalog.

    relevance = decay * (0.3 + 0.3 * access_recency) * density * (0.5 + importance) * (0.7 + 0.3 * confidence), at most 1

    decay           exp(-rate * age); the rate is 0.01 a day by default (the seed's 0.1 archives an untouched memory in eleven days)
    age             days since the last sign of life (`fresh_at`): the latest of the memory's creation or confirmation, the day this
                    store first saw it, its last recall, work in Tana on nodes linked to it, and the same (except Tana) of any active
                    memory linked to it by an edge of confidence 0.5 or more. Only one step counts, so a memory linked to live work
                    does not sink, and a hub keeps nothing alive by itself. Edges of likeness and of sleep cycles do not count
    access_recency  exp(-0.05 * days since the last access / (1 + ln(1 + recalls))); creation and the first day in this store count
                    as accesses. A memory that was recalled often fades more slowly
    density         1 + 0.3 * ln(1 + n), where n is the number of memories and clusters linked to it, in either direction
    importance      0..1, 0.5 unless stated
    confidence      0..1, 1 unless stated

Days are counted to the start of the UTC day, so a second pass on one day changes nothing. A fresh memory without edges scores 0.6,
well above the archive threshold of 0.2. Active memories have a row in `relevance_scores`; the same formula decides whether archived
ones come back.

The archive threshold is compared with `lasting`. For most memories it is the relevance. Age alone never archives the kinds user,
feedback and self_knowledge, nor direct memories with an importance of 0.8 or more: their `lasting` is the relevance that they would
have on their first day. The catalog keeps the time at which the store first saw a memory: the row's `updated_at` at the first pass
over it. If the catalog is lost, the next pass sets it anew, so that the loss makes no memory older.

A score depends on a memory's row, accesses and edges, and on the rows and accesses of the memories linked to it. Within one day a pass
therefore reads only what the change feed, the graph's builds and the accesses name since the last pass, and the neighbours of that.
The first pass of a day scores all.
"""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
from pydantic import BaseModel, Field

from memory_assets.graph.outdated import read_successors
from memory_assets.language.times import Instant
from memory_assets.models import STANDING_KINDS, State
from memory_assets.stores.access_log import AccessLog, fold_accesses, preview_accesses
from memory_assets.stores.catalog import Catalog
from memory_assets.stores.feed import CatalogRows, Changes, Position
from memory_assets.stores.graph_builds import NO_BUILD, Build, read_build, touched_since
from memory_assets.stores.memories import MemoryStore

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from memory_assets.tenants import Tenant

ACCESS_DECAY_PER_DAY = 0.05
LIVELY_CONFIDENCE = 0.5
"""Least confidence of an edge that passes on signs of life."""
LIFELESS_ORIGINS = ("similar", "same text", "creative", "cluster")
"""Origins of edges that pass on no sign of life, because nobody said that the two belong together."""

STANDING_IMPORTANCE = 0.8
"""A direct memory of at least this importance is, like `STANDING_KINDS`, never archived by age alone."""

INPUT = ("id", "state", "kind", "source_key", "created_at", "importance", "confidence", "protected", "updated_at")

_SCORES = f"""
    WITH moments AS (
        SELECT r.*, coalesce(a.accesses, 0) AS accesses,
               coalesce(s.seen_at, CASE r.state WHEN 'archived' THEN r.created_at ELSE r.updated_at END) AS first_seen,
               greatest(r.created_at, first_seen) AS begun_at,
               greatest(begun_at, coalesce(a.last_at, begun_at)) AS accessed_at,
               kind IN {tuple(map(str, STANDING_KINDS))} OR (source_key = '' AND importance >= {STANDING_IMPORTANCE}) AS standing
        FROM rows r LEFT JOIN memory_access a USING (id) LEFT JOIN memory_first_seen s USING (id)
    ),
    sides AS (
        SELECT source_id AS id, target_id AS other, confidence, origin
        FROM graph_edges SEMI JOIN concerned ON concerned.id = source_id
        UNION ALL SELECT target_id, source_id, confidence, origin FROM graph_edges SEMI JOIN concerned ON concerned.id = target_id
    ),
    links AS (
        SELECT id, other, coalesce(max(confidence) FILTER (origin NOT IN {LIFELESS_ORIGINS}), 0) AS confidence FROM sides GROUP BY id, other
    ),
    neighbourhood AS (
        SELECT l.id, count(*) AS edges,
               max(o.accessed_at) FILTER (o.state = 'active' AND l.confidence >= {LIVELY_CONFIDENCE}) AS activity,
               arg_max(o.id, o.accessed_at) FILTER (o.state = 'active' AND l.confidence >= {LIVELY_CONFIDENCE}) AS lively_id
        FROM links l LEFT JOIN moments o ON o.id = l.other
        GROUP BY l.id
    ),
    ages AS (
        SELECT m.id, m.state, m.protected, m.standing, m.first_seen, m.importance, m.confidence, m.accesses, m.accessed_at,
               coalesce(n.edges, 0) AS edges,
               greatest(m.accessed_at, coalesce(n.activity, m.accessed_at), coalesce(t.active_at, m.accessed_at)) AS fresh_at,
               CASE WHEN t.active_at > greatest(m.accessed_at, coalesce(n.activity, m.accessed_at)) THEN t.because
                    WHEN n.activity > m.accessed_at THEN 'activity of ' || n.lively_id
                    WHEN m.accessed_at > m.begun_at THEN 'recalled'
                    WHEN m.begun_at > m.created_at THEN 'first seen here' ELSE 'created or confirmed' END AS fresh_because,
               greatest(0, date_diff('second', fresh_at, $now) / 86400.0) AS age,
               greatest(0, date_diff('second', m.accessed_at, $now) / 86400.0) AS unread
        FROM moments m SEMI JOIN concerned USING (id) LEFT JOIN neighbourhood n USING (id)
        LEFT JOIN tana_activity t ON t.source_key = m.source_key
        WHERE m.state IN ('active', 'archived')
    ),
    factors AS (
        SELECT id, state, protected, standing, first_seen, exp(-$rate * age) AS decay,
               0.3 + 0.3 * exp(-{ACCESS_DECAY_PER_DAY} * unread / (1 + ln(1 + accesses))) AS access,
               1 + 0.3 * ln(1 + edges) AS density, 0.5 + importance::DOUBLE AS importance,
               0.7 + 0.3 * confidence::DOUBLE AS confidence, fresh_at, accessed_at, accesses, edges, fresh_because
        FROM ages
    )
    SELECT *, least(1.0, decay * access * density * importance * confidence) AS relevance, $now AS computed_at,
           CASE WHEN standing THEN least(1.0, 0.6 * density * importance * confidence) ELSE relevance END AS lasting
    FROM factors
"""
_COLUMNS = (
    "id, decay, access, density, importance, confidence, relevance, fresh_at, accessed_at, accesses, edges, fresh_because, "
    "computed_at"
)
_NOW_ROWS = f"""
CREATE TEMP VIEW now_rows AS
    SELECT {", ".join(INPUT)} FROM scored_memories WHERE id NOT IN (SELECT id FROM changed UNION ALL FROM gone)
    UNION ALL SELECT {", ".join(INPUT)} FROM changed;
"""
_ALL_CONCERNED = """
CREATE TEMP TABLE concerned AS SELECT id FROM now_rows UNION SELECT id FROM relevance_scores UNION SELECT id FROM memory_first_seen;
CREATE TEMP VIEW rows AS FROM now_rows;
"""
_FEW_CONCERNED = """
CREATE TEMP TABLE moved AS
    SELECT id FROM changed UNION FROM gone
    UNION
    SELECT a.id FROM memory_access a SEMI JOIN (FROM now_rows WHERE state IN ('active', 'archived')) n ON n.id = a.id
    LEFT JOIN relevance_scores r ON r.id = a.id WHERE r.accesses IS DISTINCT FROM a.accesses
    UNION
    SELECT n.id FROM now_rows n JOIN tana_activity t USING (source_key) JOIN relevance_scores r ON r.id = n.id
    WHERE t.active_at > r.fresh_at;
CREATE TEMP TABLE concerned AS
    FROM moved UNION SELECT node FROM touched
    UNION SELECT target_id FROM graph_edges SEMI JOIN moved ON moved.id = source_id
    UNION SELECT source_id FROM graph_edges SEMI JOIN moved ON moved.id = target_id;
CREATE TEMP TABLE read AS
    FROM concerned
    UNION SELECT target_id FROM graph_edges SEMI JOIN concerned ON concerned.id = source_id
    UNION SELECT source_id FROM graph_edges SEMI JOIN concerned ON concerned.id = target_id;
CREATE TEMP TABLE rows AS FROM now_rows SEMI JOIN read USING (id);
"""
_NOW_SCORES = """
CREATE TEMP VIEW now_scores AS
    SELECT id, relevance, lasting, fresh_at FROM relevance_scores ANTI JOIN concerned USING (id)
    UNION ALL SELECT id, relevance, lasting, fresh_at FROM wanted_scores
"""
_DIFFERS = " OR ".join(
    f"w.{name} IS DISTINCT FROM r.{name}"
    for name in ("relevance", "lasting", "computed_at", "fresh_at", "accessed_at", "accesses", "edges", "fresh_because")
)
_DIFFERENCES = {
    "differing": f"""
        SELECT coalesce(w.id, r.id) AS id FROM wanted_scores w
        FULL JOIN (FROM relevance_scores SEMI JOIN concerned USING (id)) r ON r.id = w.id WHERE {_DIFFERS}
    """,
    "seen": "SELECT id, first_seen AS seen_at FROM scores ANTI JOIN memory_first_seen USING (id)",
    "unseen": "SELECT id FROM memory_first_seen SEMI JOIN concerned USING (id) ANTI JOIN scores USING (id)",
    "different_rows": f"SELECT {', '.join(INPUT)} FROM changed EXCEPT FROM scored_memories SEMI JOIN changed USING (id)",
}


class RelevanceOutcome(BaseModel):
    """Outcome of a decay pass."""

    scored: int
    below_archive: int = Field(description="Active memories below the archive threshold.")
    protected: int = Field(description="Of these, protected ones, which `forget` skips.")
    recent: int = Field(description="Of the others, those that `forget` skips because of a recent sign of life.")
    histogram: list[int] = Field(description="Number of scores in each tenth from 0 to 1.")
    written: int
    woken: tuple[int, ...] = Field(description="Archived memories that return to recall.")


class Factors(BaseModel):
    """One memory's score, factor by factor."""

    decay: float
    access: float
    """0.3 + 0.3 * access_recency."""
    density: float
    importance: float
    """0.5 + importance."""
    confidence: float
    """0.7 + 0.3 * confidence."""
    relevance: float
    fresh_at: Instant
    accessed_at: Instant
    accesses: int
    edges: int
    fresh_because: str
    """Reason for `fresh_at`."""
    computed_at: Instant


def compute_scores(
    catalog: Catalog, memories: MemoryStore, now: datetime, rate: float, *, preview: AccessLog | None = None
) -> pa.Table:
    """Return the scores of all active and archived memories at the start of `now`'s UTC day, as `score_rows` does. Writes nothing.

    `preview` counts recalls that are not folded in yet.
    """
    rows = memories.scan(INPUT)
    with catalog.read() as connection:
        if preview:
            preview_accesses(connection, preview)
        connection.register("rows", rows)
        connection.register("concerned", rows.select(["id"]))
        return score_rows(connection, _day(now), rate)


def score_rows(connection: "DuckDBPyConnection", moment: datetime, rate: float) -> pa.Table:
    """Return `relevance_scores` with `state`, `protected`, `lasting` and `first_seen`, for the ids in the table `concerned`.

    The table `rows`, with the columns of `INPUT`, must hold these memories and all that an edge links to them.
    """
    return connection.execute(
        f"SELECT {_COLUMNS}, state, protected, lasting, first_seen FROM ({_SCORES}) ORDER BY id", {"now": moment, "rate": rate}
    ).to_arrow_table()


def refresh_relevance(
    catalog: Catalog,
    memories: MemoryStore,
    now: datetime,
    *,
    rate: float,
    archive_threshold: float,
    grace_days: float = 0,
    preview: AccessLog | None = None,
) -> RelevanceOutcome:
    """Update the score of every active memory to the day of `now`. A second call for the same day changes nothing.

    With `preview`, recalls that are not folded in yet count, too, and nothing is written.

    If archived memories reach the archive threshold again, or replace an active memory, the outcome names them and nothing is written:
    the caller wakes them and calls again. A pass that is interrupted in between is thus repeated.
    """
    moment = _day(now)
    basis = f"{moment:%Y-%m-%d}|{rate!r}|{archive_threshold!r}"
    with catalog.read() as connection:
        since, before = _position(connection, basis)
        if preview:
            preview_accesses(connection, preview)
        found = memories.changes(since, CatalogRows(connection, "scored_memories"), INPUT)
        build = read_build(connection)
        _register(connection, found)
        connection.execute(_NOW_ROWS)
        if since is None or not before.leads_to(build):
            connection.execute(_ALL_CONCERNED)
        else:
            connection.register("touched", touched_since(connection, before))
            connection.execute(_FEW_CONCERNED)
        scores = score_rows(connection, moment, rate)
        connection.register("scores", scores)
        wanted = connection.execute(f"SELECT {_COLUMNS}, lasting FROM scores WHERE state = '{State.ACTIVE}'").to_arrow_table()
        connection.register("wanted_scores", wanted)
        connection.execute(_NOW_SCORES)
        difference = {name: connection.execute(query).to_arrow_table() for name, query in _DIFFERENCES.items()}
        scored, below, protected, recent = connection.execute(
            """
            SELECT count(*), count(*) FILTER (lasting < $1), count(*) FILTER (lasting < $1 AND protected),
                   count(*) FILTER (lasting < $1 AND NOT protected AND fresh_at > $2)
            FROM now_scores JOIN now_rows USING (id)
            """,
            [archive_threshold, now - timedelta(days=grace_days)],
        ).fetchone() or (0, 0, 0, 0)
        bins = dict(
            connection.execute(
                "SELECT least(9, floor(relevance * 10))::INTEGER AS bin, count(*) FROM now_scores GROUP BY bin"
            ).fetchall()
        )
        connection.register("successors", read_successors(connection))
        woken = connection.execute(
            f"""
            SELECT id FROM now_rows WHERE state = '{State.ARCHIVED}' AND (
                id IN (SELECT id FROM scores WHERE lasting >= $1)
                OR id IN (SELECT new_id FROM successors JOIN now_rows o ON o.id = old_id WHERE o.state = '{State.ACTIVE}')
            ) ORDER BY id
            """,
            [archive_threshold],
        ).fetchall()
    moved = since is None or found or (before.lineage, before.number) != (build.lineage, build.number)
    differs = any(rows.num_rows for rows in difference.values())
    if not (preview or woken) and (moved or differs):
        with catalog.write() as connection:
            _register(connection, found)
            for name, rows in {"wanted_scores": wanted, **difference}.items():
                connection.register(name, rows)
            connection.execute("""
                DELETE FROM memory_first_seen WHERE id IN (FROM unseen);
                MERGE INTO memory_first_seen USING seen USING (id) WHEN NOT MATCHED THEN INSERT BY NAME;
                DELETE FROM relevance_scores WHERE id IN (FROM differing);
                INSERT INTO relevance_scores BY NAME FROM wanted_scores SEMI JOIN differing USING (id);
                DELETE FROM scored_memories WHERE id IN (SELECT id FROM different_rows UNION ALL FROM gone);
                INSERT INTO scored_memories BY NAME FROM different_rows;
                DELETE FROM scored_position;
            """)
            position = [found.position.version, found.position.read_at, basis, build.lineage, build.number]
            connection.execute("INSERT INTO scored_position VALUES ($1, $2, $3, $4, $5)", position)
    histogram = [bins.get(number, 0) for number in range(10)]
    return RelevanceOutcome(
        scored=scored,
        below_archive=below,
        protected=protected,
        recent=recent,
        histogram=histogram,
        written=difference["differing"].num_rows,
        woken=tuple(number for (number,) in woken),
    )


def _position(connection: "DuckDBPyConnection", basis: str) -> tuple[Position | None, Build]:
    """Return the feed position of the last pass and the build it saw; None if all memories must be scored."""
    row = connection.execute("SELECT version, read_at, basis, lineage, build FROM scored_position").fetchone()
    if not row or row[2] != basis:
        return None, NO_BUILD
    return Position(row[0], row[1]), Build(row[3], row[4])


def _register(connection: "DuckDBPyConnection", found: Changes) -> None:
    connection.register("changed", found.rows)
    connection.register("gone", pa.table({"id": found.gone}))


def decay_cycle(tenant: "Tenant", now: datetime, *, dry_run: bool = False) -> RelevanceOutcome:
    """Fold in recalls, update the scores, and unarchive memories above the threshold. After a StoreError finished commits stay."""
    settings = tenant.settings
    log = AccessLog(tenant.state)
    if not dry_run:
        fold_accesses(tenant.catalog, log, now)
    woken: list[int] = []
    while True:
        outcome = refresh_relevance(
            tenant.catalog,
            tenant.memories,
            now,
            rate=settings.decay_rate,
            archive_threshold=settings.archive_threshold,
            grace_days=settings.forget_grace_days,
            preview=log if dry_run else None,
        )
        if dry_run or not outcome.woken:
            return outcome.model_copy(update={"woken": (*woken, *outcome.woken)})
        woken += tenant.memories.transition(outcome.woken, (State.ARCHIVED,), State.ACTIVE)


def explain(catalog: Catalog, number: int) -> Factors | None:
    """Return the factors of a memory's score, or None if it has not been scored."""
    if not catalog.exists:
        return None
    rows = catalog.fetch(f"SELECT {', '.join(Factors.model_fields)} FROM relevance_scores WHERE id = $1", [number])
    return Factors(**dict(zip(Factors.model_fields, rows[0], strict=True))) if rows else None


def _day(now: datetime) -> datetime:
    return now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
