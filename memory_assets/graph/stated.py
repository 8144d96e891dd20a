"""Which stated relations a build reads again: relations stated since the last build, and relations of changed memories.

A relation counts for the newest versions of its two memories. So a build reads it again if any memory of the chain of versions of one
of its ends changed, as the last build knew the chain or as it is now.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa

from memory_assets.stores.feed import CLOCK_SLACK

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from memory_assets.stores.relations import RelationStore

_EVER = datetime(1970, 1, 1, tzinfo=UTC)
_NONE = pa.table({"source_id": pa.array([], pa.int64()), "target_id": pa.array([], pa.int64())})
_SEEDS = """
CREATE TEMP TABLE seeds AS
    SELECT id FROM touched UNION SELECT source_id FROM news UNION SELECT target_id FROM news;
"""
_VERSIONS = """
CREATE TEMP TABLE versions AS
    WITH leads AS (
        SELECT id, superseded_by AS other FROM graph_memories WHERE superseded_by IS NOT NULL
        UNION SELECT id, superseded_by FROM changed WHERE superseded_by IS NOT NULL
    )
    FROM leads UNION SELECT other, id FROM leads;
"""
_CHAINS = """
WITH RECURSIVE chain AS (SELECT id FROM seeds UNION SELECT v.other FROM versions v JOIN chain USING (id))
FROM chain
"""


@dataclass(frozen=True, slots=True)
class StatedPosition:
    """How far the stated relations have been read."""

    version: int
    """Of the table."""
    count: int
    """Relations that there were."""
    last: int
    """When the last of them was stated, in microseconds since 1970."""


@dataclass(frozen=True, slots=True)
class Stated:
    """What a build reads again."""

    concerned: pa.Table
    """Column `id`: memories whose relations, and edges from relations, may differ from before."""
    position: StatedPosition
    moved: bool
    """Whether the position is another one than that of the last build."""


def find_stated(connection: "DuckDBPyConnection", relations: "RelationStore", *, whole: bool) -> Stated:
    """Compare the stated relations with the last build's position.

    The connection shows `changed` and `touched` too. With `whole` all are looked at, whatever the position says.
    """
    row = connection.execute("SELECT stated_version, stated_count, stated_last FROM graph_position").fetchone()
    known = StatedPosition(*row) if row and row[2] is not None else None
    followed = None if whole else known
    version = relations.version
    if followed and followed.version == version:
        position, news = followed, _NONE
    else:
        news = relations.ends_since(_EVER + timedelta(microseconds=followed.last) - CLOCK_SLACK if followed else _EVER)
        times = news["created_at"].cast(pa.int64()).to_numpy()
        position = StatedPosition(version, len(relations), int(times.max(initial=followed.last if followed else 0)))
        if followed and _is_another(followed, position, int((times > followed.last).sum())):
            followed, news = None, relations.ends_since(_EVER)
    connection.register("news", news)
    connection.execute(_SEEDS)
    if not followed:
        connection.execute("INSERT INTO seeds SELECT source_id FROM graph_edges WHERE origin = 'stated'")
    connection.execute(_VERSIONS)
    return Stated(connection.execute(_CHAINS).to_arrow_table(), position, position != known)


def _is_another(known: StatedPosition, position: StatedPosition, later: int) -> bool:
    """Whether the table was replaced, or older rows came: there are fewer than before, or more than were stated since."""
    return position.version < known.version or not known.count <= position.count <= known.count + later
