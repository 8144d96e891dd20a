"""The tana group: the last reading of Tana, and the mirror of seed.json there. Clients are imported late, as most runs need none."""

from collections import Counter
from typing import Any

import dagster as dg

from memory_assets.defs.assets.sources import seed_entries
from memory_assets.defs.partitions import TENANTS, accepted_previews
from memory_assets.defs.resources import MemoryResource
from memory_assets.defs.tenant_assets import Page, external_asset, read_rows, report_external, report_progress, tenant_asset
from memory_assets.display import counted
from memory_assets.tana.client import TanaClient, find_token
from memory_assets.tana.config import integration
from memory_assets.tana.errors import TanaAwayError
from memory_assets.tenants import Tenant

GROUP = "tana"

with accepted_previews():
    agrees = dg.AssetCheckSpec(
        "mapping_and_tana_agree",
        asset="tana_learnings",
        description="Every mapped node is in Tana, and no entry of seed.json has two nodes there.",
        partitions_def=TENANTS,
    )


def _why_unused(tenant: Tenant) -> str:
    """Return why Tana is not used, or "" if it is, so that "Materialize all" succeeds without Tana."""
    settings = tenant.settings
    if not tenant.is_sources_tenant:
        return f"Tana belongs to the tenant {settings.tenant!r}."
    if not find_token(settings):
        return "there is no token for Tana; set MEMORY_TANA_TOKEN."
    if integration(settings).enabled is False:
        return "tanaIntegration is switched off in pai-seed's configuration."
    return ""


tana_workspace = external_asset(
    "tana_workspace", GROUP, "tana", description="The Tana workspace of the settings, read over Tana's Local API."
)
_NODES_DIGEST = "SELECT md5(coalesce(string_agg(concat(id, ' ', modified), ',' ORDER BY id), '')) AS digest FROM tana_nodes"
_NODES = Page(("read", "gone"), "SELECT name, read_at::DATE AS read FROM tana_workspaces ORDER BY ALL")


@tenant_asset(GROUP, "duckdb", writes="tana_nodes", page=_NODES, pool=GROUP, deps=[tana_workspace])
def tana_graph(context: dg.AssetExecutionContext, memory: MemoryResource) -> dict[str, Any]:
    """Nodes, fields and links of a Tana workspace, without its trash. A run reads the changed nodes, at most a few thousand."""
    from memory_assets.tana.reading import read_workspace

    tenant = memory.open_for(context)
    if why_not := _why_unused(tenant):
        return {"note": f"Nothing is read: {why_not}"}
    try:
        done = read_workspace(
            tenant, TanaClient.open(tenant.settings), on_progress=report_progress(context, "read {} of {} nodes")
        )
    except TanaAwayError as error:
        return {"note": f"{error} What was read before stays."}
    (edited,) = read_rows(tenant, _NODES_DIGEST)
    report_external(context, tana_workspace, edited["digest"], {"nodes": done.nodes})
    skipped = "\n".join(
        ["| node | why it is skipped |", "|---|---|", *(f"| {node} | {why} |" for node, why in done.skipped.items())]
    )
    return {
        "dagster/partition_row_count": done.nodes,
        "read": done.read,
        "gone": done.gone,
        "waiting": done.waiting,
        "skipped": dg.MarkdownMetadataValue(skipped),
        "note": " ".join(done.notes),
    }


@tenant_asset(
    GROUP,
    "json",
    page=Page(("created", "updated", "trashed", "archived", "failed")),
    pool=GROUP,
    deps=[seed_entries],
    check_specs=[agrees],
)
def tana_learnings(context: dg.AssetExecutionContext, memory: MemoryResource) -> dg.MaterializeResult:
    """The mirror of seed.json in Tana: changed entries are created, updated or trashed. The run is retried if Tana does not answer."""
    from memory_assets.tana.activity import compare_mapping
    from memory_assets.tana.sync import sync

    tenant = memory.open_for(context)
    if why_not := _why_unused(tenant):
        unseen = dg.AssetCheckResult(passed=True, description=f"Nothing was compared: {why_not}")
        return dg.MaterializeResult(metadata={"note": f"Nothing is sent: {why_not}"}, check_results=[unseen])
    client = TanaClient.open(tenant.settings)
    report = sync(tenant, client=client, progress=lambda done, total: context.log.info(f"sent {done} of {total} changes"))
    if report.away:
        raise TanaAwayError(f"{report.away} {counted(len(report.queued), 'change waits', 'changes wait')}.")
    lost, twice = compare_mapping(tenant, client)
    actions = Counter(outcome.action for outcome in report.outcomes)
    return dg.MaterializeResult(
        metadata={
            "dagster/partition_row_count": report.total,
            **{name: actions[name] for name in ("created", "updated", "trashed", "archived", "skipped", "failed")},
            "held_back": len(report.held_back),
            "stale": len(report.stale),
        },
        check_results=[
            dg.AssetCheckResult(
                passed=not (lost or twice),
                description="Run `memory pai sync --resync` for lost nodes; trash one of two nodes of the same entry."
                if lost or twice
                else "",
                metadata={"lost": len(lost), "twice": len(twice)},
            )
        ],
    )


@tenant_asset(GROUP, "duckdb", writes="tana_activity", pool=GROUP, deps=[tana_learnings, tana_workspace])
def freshness(context: dg.AssetExecutionContext, memory: MemoryResource) -> dict[str, Any]:
    """The latest activity of the Tana nodes linked to each learning, for the scores."""
    from memory_assets.tana.activity import read_tana_activity
    from memory_assets.tana.freshness import store_activity

    tenant = memory.open_for(context)
    why_not = _why_unused(tenant) or read_tana_activity(tenant)
    alive = store_activity(tenant)
    return {"dagster/partition_row_count": alive, "note": why_not}
