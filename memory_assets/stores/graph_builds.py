"""Builds of the graph: a counter of changes, and the nodes that recent changes touched.

Every transaction that changes edges, mentions or names of nodes records a build. A change touches a node if it changes the node's name,
its mentions, or its edges in either direction.
"""

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_MAX_LOGGED_NODES = 20_000
"""Most touched nodes that are kept. A reader that lags further behind reads everything again."""


@dataclass(frozen=True, slots=True)
class Build:
    """A version of the graph."""

    lineage: int
    """A random number, drawn with the first build of a catalog, so a rebuilt catalog has another one."""
    number: int
    """Grows with every change; 0 before the first."""
    logged_since: int = 0
    """The oldest build after which all touched nodes are known."""

    def leads_to(self, later: "Build") -> bool:
        """Return whether all nodes touched between this build and a later one are known."""
        return self.lineage == later.lineage and later.logged_since <= self.number <= later.number


NO_BUILD = Build(0, 0)


def read_build(connection: "DuckDBPyConnection") -> Build:
    """Return the build that a connection sees."""
    row = connection.execute("SELECT lineage, number, logged_since FROM graph_builds").fetchone()
    return Build(*row) if row else NO_BUILD


def touched_since(connection: "DuckDBPyConnection", build: Build) -> pa.Table:
    """Return column `node`: nodes touched since a build that leads to the current one."""
    return connection.execute("SELECT DISTINCT node FROM graph_touched WHERE build > $1", [build.number]).to_arrow_table()


def record_build(connection: "DuckDBPyConnection", touched: pa.Table | None = None) -> None:
    """Count a change inside its transaction. `touched` has the column `node`; None makes readers read everything again."""
    present = read_build(connection)
    number, logged_since = present.number + 1, present.logged_since
    (kept,) = connection.execute("SELECT count(*) FROM graph_touched").fetchone() or (0,)
    if touched is None or kept + touched.num_rows > _MAX_LOGGED_NODES:
        connection.execute("DELETE FROM graph_touched")
        logged_since = number
    else:
        connection.register("touched_nodes", touched)
        connection.execute("INSERT INTO graph_touched SELECT $1, node FROM touched_nodes", [number])
    connection.execute("DELETE FROM graph_builds")
    connection.execute(
        "INSERT INTO graph_builds VALUES ($1, $2, $3)", [present.lineage or secrets.randbelow(1 << 62) + 1, number, logged_since]
    )
