"""Asset checks: what must always hold of one tenant, each with the command that mends it.

Each looks at the partition of its run alone. They are made of the registry below; a new invariant is a new row of it.
Statistics belong to the assets' metadata.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import dagster as dg

from memory_assets.defs.assets.curation import canonical_entries, silo_backlog
from memory_assets.defs.assets.graph import graph_edges, relevance_scores
from memory_assets.defs.assets.memory import memories
from memory_assets.defs.assets.tana import tana_graph
from memory_assets.defs.failures import told
from memory_assets.defs.partitions import TENANTS, partitioned_checks
from memory_assets.defs.resources import MemoryResource
from memory_assets.models import State
from memory_assets.tenants import Tenant

if TYPE_CHECKING:
    from memory_assets.learn.homes import Homes

_LENGTH_TOLERANCE = 1e-3
_SAMPLE = 2_000
"""Embeddings that a check reads: of the rows written last, which are those that a run may have spoiled."""


@dataclass(frozen=True, slots=True)
class Invariant:
    """What must hold of every tenant."""

    name: str
    asset: dg.AssetsDefinition
    promise: str
    faults: Callable[[Tenant], int]
    """How often it does not hold."""
    mend: str


def _without_unit_embedding(tenant: Tenant) -> int:
    import numpy as np

    column = tenant.memories.columns.live
    active = f"state = '{State.ACTIVE}'"
    rows = tenant.memories.scan(("id", "updated_at"), active)
    if column is None:
        return rows.num_rows
    if not rows.num_rows:
        return 0
    newest = rows.sort_by([("updated_at", "descending")])["id"].slice(0, _SAMPLE).to_pylist()
    vectors = tenant.memories.scan((column,), f"{active} AND id IN ({', '.join(map(str, newest))})")[column].combine_chunks()
    flat = vectors.drop_null().flatten().to_numpy().reshape(-1, vectors.type.list_size)
    lengths = np.linalg.norm(flat, axis=1)
    return vectors.null_count + int((np.abs(lengths - 1) > _LENGTH_TOLERANCE).sum())


def _doubled_source_keys(tenant: Tenant) -> int:
    keys = tenant.memories.scan(("source_key",), f"source_key <> '' AND state <> '{State.SUPERSEDED}'")["source_key"]
    return len(keys) - len(keys.unique())


def _strangers(tenant: Tenant) -> int:
    rows = tenant.memories.scan(("source_key",), f"source_key <> '' AND state = '{State.ACTIVE}'")
    with tenant.catalog.read() as connection:
        connection.register("rows", rows)
        found = connection.execute("SELECT count(*) FROM rows ANTI JOIN memory_entries e ON e.key = rows.source_key").fetchone()
    return found[0] if found else 0


def _dangling(tenant: Tenant) -> int:
    from memory_assets.learn.backlog import dangling_pointers

    return dangling_pointers(tenant.settings.claude_projects_dir) if tenant.is_sources_tenant else 0


def _of_homes(faults: "Callable[[Homes], int]") -> Callable[[Tenant], int]:
    def count(tenant: Tenant) -> int:
        from memory_assets.learn.homes import load_pai_memories

        owns_files = tenant.is_sources_tenant
        return faults(load_pai_memories(tenant.settings.pai_learning_dir)) if owns_files else 0

    return count


def _doubled_names(homes: "Homes") -> int:
    from memory_assets.learn.backlog import doubled_names

    return doubled_names(homes)


def _counted(query: str) -> Callable[[Tenant], int]:
    def count(tenant: Tenant) -> int:
        with tenant.catalog.read() as connection:
            found = connection.execute(query).fetchone()
        return found[0] if found else 0

    return count


INVARIANTS = (
    Invariant(
        "every_memory_has_a_unit_embedding",
        memories,
        f"Every memory in recall has an embedding of unit length; looks at the {_SAMPLE:,} written last.",
        _without_unit_embedding,
        "Run `memory backfill` to fill the missing vectors.",
    ),
    Invariant(
        "one_memory_per_source_key",
        memories,
        "No two memories that are not superseded come from one source key.",
        _doubled_source_keys,
        "Run `memory run`: it supersedes all but the newest.",
    ),
    Invariant(
        "no_memory_of_another_tenant",
        memories,
        "Every memory from a file comes from a file that this tenant's catalog knows.",
        _strangers,
        "These memories' sources are not this tenant's; run `memory run` for the tenant.",
    ),
    Invariant(
        "no_edge_dangles",
        graph_edges,
        "Both ends of every edge and mention are nodes.",
        _counted("""
            SELECT count(*) FROM (
                SELECT source_id AS id FROM graph_edges UNION ALL SELECT target_id FROM graph_edges
                UNION ALL SELECT memory_id FROM graph_mentions UNION ALL SELECT entity_id FROM graph_mentions
            ) ends ANTI JOIN graph_nodes USING (id)
        """),
        "Materialise graph_edges again.",
    ),
    Invariant(
        "scores_within_bounds",
        relevance_scores,
        "Scores lie within 0..1.",
        _counted(
            "SELECT count(*) FROM relevance_scores WHERE relevance IS NULL OR isnan(relevance) OR relevance NOT BETWEEN 0 AND 1"
        ),
        "Check importance and confidence of the memories, then materialise relevance_scores again.",
    ),
    Invariant(
        "no_link_of_an_unknown_tana_node",
        tana_graph,
        "Every link and field belongs to a node of Tana that is known.",
        _counted("""
            SELECT count(*) FROM (SELECT source AS id FROM tana_links UNION ALL SELECT node FROM tana_fields) told
            ANTI JOIN tana_nodes USING (id)
        """),
        "Materialise tana_graph again.",
    ),
    Invariant(
        "every_canonical_entry_has_provenance",
        canonical_entries,
        "Every entry of the homes says where and when it was learned: source_cwd and ingested_at.",
        _of_homes(lambda homes: sum(bool(entry.missing_provenance) for entry in homes.entries)),
        "Write source_cwd and ingested_at into the frontmatter of those entries; what apply writes has them.",
    ),
    Invariant(
        "no_name_twice_in_a_home",
        canonical_entries,
        "No two entries of one home have the same name.",
        _of_homes(_doubled_names),
        "Give one of them another name, or merge them by hand.",
    ),
    Invariant(
        "no_index_line_without_a_file",
        silo_backlog,
        "Every line of a silo's MEMORY.md that points to a file points to one that is there.",
        _dangling,
        "`memory status --refused` names the lines; take them out, or put the files back.",
    ),
)


def build_checks() -> list[dg.AssetChecksDefinition]:
    """One check an invariant."""
    with partitioned_checks():
        return [_check(invariant) for invariant in INVARIANTS]


def _check(invariant: Invariant) -> dg.AssetChecksDefinition:
    @dg.asset_check(name=invariant.name, asset=invariant.asset, description=invariant.promise, partitions_def=TENANTS)
    @told
    def evaluate(context: dg.AssetCheckExecutionContext, memory: MemoryResource) -> dg.AssetCheckResult:
        tenant = memory.open(context.partition_key)
        settling = memory.settling(tenant)
        if settling.holds(invariant.name):
            return dg.AssetCheckResult(passed=True, metadata={"faults": 0})
        faults = invariant.faults(tenant)
        settling.keep_check(invariant.name, held=not faults)
        return dg.AssetCheckResult(passed=not faults, description=invariant.mend if faults else "", metadata={"faults": faults})

    return evaluate
