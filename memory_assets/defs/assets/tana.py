"""The tana group: what Tana holds, as last read."""

from time import perf_counter

import dagster as dg

from memory_assets.defs.failures import told
from memory_assets.defs.partitions import TENANTS
from memory_assets.defs.resources import MemoryResource
from memory_assets.operations.tana import read_tana
from memory_assets.tana.client import token_of
from memory_assets.tana.errors import TanaAwayError

GROUP = "tana"


@dg.asset(partitions_def=TENANTS, group_name=GROUP, kinds={"duckdb"}, owners=["team:memory"])
@told
def tana_graph(context: dg.AssetExecutionContext, memory: MemoryResource) -> dg.MaterializeResult:
    """Nodes, fields and links of a workspace of Tana: what changed is read, a few thousand nodes at a time, none from the trash."""
    started = perf_counter()
    tenant = memory.open(context.partition_key)
    if not (tenant.settings.tana_replay or token_of(tenant.settings)):
        return dg.MaterializeResult(metadata={"note": "Nothing is read: there is no token for Tana; set MEMORY_TANA_TOKEN."})
    try:
        done = read_tana(tenant, on_progress=lambda read, planned: context.log.info(f"read {read} of {planned} nodes"))
    except TanaAwayError as error:
        return dg.MaterializeResult(metadata={"note": f"{error} What was read before stays."})
    skipped = "\n".join(
        ["| node | why it is skipped |", "|---|---|", *(f"| {node} | {why} |" for node, why in done.skipped.items())]
    )
    return dg.MaterializeResult(
        metadata={
            "dagster/partition_row_count": done.nodes,
            "read": done.read,
            "gone": done.gone,
            "waiting": done.waiting,
            "skipped": dg.MarkdownMetadataValue(skipped),
            "note": " ".join(done.notes),
            "seconds": round(perf_counter() - started, 3),
        }
    )
