"""Builds of the graph: how often it has changed, and which nodes the last changes touched.

Every transaction that changes edges, mentions or names of nodes records a build. A node is touched if its edges, in either direction, its
mentions or its name change.
"""

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_MOST_LOGGED = 20_000
"""Touched nodes that are kept; a reader that lags behind them reads everything again."""


@dataclass(frozen=True, slots=True)
class Build:
    """A state of the graph."""

    lineage: int
    """Random, drawn with the first build of a catalog: a catalog that was made anew has another."""
    number: int
    """Counts up with every change; 0 before the first."""
    logged_since: int = 0
    """The oldest build after which the touched nodes are known."""

    def leads_to(self, later: "Build") -> bool:
        """Whether what was touched between this build and a later one is known."""
        return self.lineage == later.lineage and later.logged_since <= self.number <= later.number


NO_BUILD = Build(0, 0)


def present_build(connection: "DuckDBPyConnection") -> Build:
    """The build that a connection sees."""
    row = connection.execute("SELECT lineage, number, logged_since FROM graph_builds").fetchone()
    return Build(*row) if row else NO_BUILD


def touched_since(connection: "DuckDBPyConnection", build: Build) -> pa.Table:
    """Column `node`: what the builds after one that leads to the present one have touched."""
    return connection.execute("SELECT DISTINCT node FROM graph_touched WHERE build > $1", [build.number]).to_arrow_table()


def record_build(connection: "DuckDBPyConnection", touched: pa.Table | None = None) -> None:
    """Count a change inside its transaction; `touched` has the column `node`, and is None if readers have to read all again."""
    present = present_build(connection)
    number, logged_since = present.number + 1, present.logged_since
    (kept,) = connection.execute("SELECT count(*) FROM graph_touched").fetchone() or (0,)
    if touched is None or kept + touched.num_rows > _MOST_LOGGED:
        connection.execute("DELETE FROM graph_touched")
        logged_since = number
    else:
        connection.register("touched_nodes", touched)
        connection.execute("INSERT INTO graph_touched SELECT $1, node FROM touched_nodes", [number])
    connection.execute("DELETE FROM graph_builds")
    connection.execute(
        "INSERT INTO graph_builds VALUES ($1, $2, $3)", [present.lineage or secrets.randbelow(1 << 62) + 1, number, logged_since]
    )
