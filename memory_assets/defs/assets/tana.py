"""The tana group: what Tana holds, as last read. What talks to Tana is imported where it does: most runs do not."""

from collections import Counter
from time import perf_counter

import dagster as dg

from memory_assets.defs.assets.sources import seed_entries
from memory_assets.defs.failures import told
from memory_assets.defs.partitions import TENANTS, partitioned_checks
from memory_assets.defs.resources import MemoryResource
from memory_assets.tana.config import integration
from memory_assets.tana.errors import TanaAwayError
from memory_assets.tenants import Tenant

GROUP = "tana"

with partitioned_checks():
    agrees = dg.AssetCheckSpec(
        "mapping_and_tana_agree",
        asset="tana_learnings",
        description="Every mapped node is in Tana, and no entry of seed.json has two nodes there.",
        partitions_def=TENANTS,
    )


def _unused(tenant: Tenant) -> str:
    """Why Tana is left alone, so that materialising all succeeds without it; empty where it is used."""
    from memory_assets.tana.client import token_of

    settings = tenant.settings
    if not tenant.is_sources_tenant:
        return f"Tana belongs to the tenant {settings.tenant!r}."
    if integration(settings).enabled is False:
        return "tanaIntegration is switched off in pai-seed's configuration."
    if not (settings.tana_replay or token_of(settings)):
        return "there is no token for Tana; set MEMORY_TANA_TOKEN."
    return ""


@dg.asset(partitions_def=TENANTS, group_name=GROUP, kinds={"duckdb"}, owners=["team:memory"])
@told
def tana_graph(context: dg.AssetExecutionContext, memory: MemoryResource) -> dg.MaterializeResult:
    """Nodes, fields and links of a workspace of Tana: what changed is read, a few thousand nodes at a time, none from the trash."""
    from memory_assets.operations.tana import read_tana

    started = perf_counter()
    tenant = memory.open(context.partition_key)
    if why_not := _unused(tenant):
        return dg.MaterializeResult(metadata={"note": f"Nothing is read: {why_not}"})
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


@dg.asset(
    partitions_def=TENANTS,
    group_name=GROUP,
    kinds={"sqlite"},
    owners=["team:memory"],
    deps=[seed_entries],
    check_specs=[agrees],
)
@told
def tana_learnings(context: dg.AssetExecutionContext, memory: MemoryResource) -> dg.MaterializeResult:
    """seed.json mirrored in Tana: what changed is created, updated or trashed, nothing twice. Waits where Tana is away."""
    from memory_assets.tana.agreement import disagreement
    from memory_assets.tana.client import TanaClient
    from memory_assets.tana.sync import sync

    started = perf_counter()
    tenant = memory.open(context.partition_key)
    if why_not := _unused(tenant):
        unseen = dg.AssetCheckResult(passed=True, description=f"Nothing was compared: {why_not}")
        return dg.MaterializeResult(metadata={"note": f"Nothing is sent: {why_not}"}, check_results=[unseen])
    client = TanaClient.open(tenant.settings)
    report = sync(tenant, client=client, progress=lambda done, total: context.log.info(f"sent {done} of {total} changes"))
    if report.away:
        raise TanaAwayError(f"{report.away} {len(report.queued)} changes wait.")
    found = disagreement(tenant, client)
    actions = Counter(outcome.action for outcome in report.outcomes)
    return dg.MaterializeResult(
        metadata={
            "dagster/partition_row_count": report.total,
            **{name: actions[name] for name in ("created", "updated", "trashed", "archived", "skipped", "failed")},
            "held_back": len(report.held_back),
            "stale": len(report.stale),
            "seconds": round(perf_counter() - started, 3),
        },
        check_results=[
            dg.AssetCheckResult(
                passed=not (found.lost or found.twice),
                description="Run `memory pai sync --resync` for what is lost; trash one of the nodes of what is there twice."
                if found.lost or found.twice
                else "",
                metadata={"lost": len(found.lost), "twice": len(found.twice)},
            )
        ],
    )


@dg.asset(partitions_def=TENANTS, group_name=GROUP, kinds={"duckdb"}, owners=["team:memory"], deps=[tana_learnings])
@told
def freshness(context: dg.AssetExecutionContext, memory: MemoryResource) -> dg.MaterializeResult:
    """What keeps learnings alive in Tana: the activity of what they are linked to, for the scores."""
    from memory_assets.operations.pai_context import read_tana_activity
    from memory_assets.tana.freshness import store_activity

    started = perf_counter()
    tenant = memory.open(context.partition_key)
    why_not = _unused(tenant) or read_tana_activity(tenant)
    alive = store_activity(tenant)
    return dg.MaterializeResult(
        metadata={"dagster/partition_row_count": alive, "note": why_not, "seconds": round(perf_counter() - started, 3)}
    )
