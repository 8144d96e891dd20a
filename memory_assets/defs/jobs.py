"""Jobs: `remember` runs from the sources to the scores, `reflect` from the memories; sleep cycles; Tana; curation; backups."""

from typing import TYPE_CHECKING

import dagster as dg

if TYPE_CHECKING:
    from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

_assets = dg.AssetSelection.assets


def _job(name: str, *assets: str, description: str) -> "UnresolvedAssetJobDefinition":
    return dg.define_asset_job(name, _assets(*assets), description=description)


remember = dg.define_asset_job(
    "remember",
    _assets("relevance_scores").upstream() - _assets("tana_learnings", "freshness"),
    description="From the sources to searchable, connected and scored memories.",
)
reflect = _job(
    "reflect", "graph_edges", "relevance_scores", description="Graph and scores of memories that were stored directly."
)
decay = _job("decay", "relevance_scores", description="The daily sleep cycle: every memory's relevance as of now.")
creative = _job(
    "creative", "creative_links", description="The weekly sleep cycle: edges between similar memories that none connects."
)
cluster = _job(
    "cluster", "clusters", description="The monthly sleep cycle: dense groups of memories become patterns with a summary."
)
forget = _job(
    "forget", "archived_memories", description="The quarterly sleep cycle: memories of low relevance leave recall, reversibly."
)
read_tana = _job("read_tana", "tana_graph", description="Reads changed nodes of Tana.")
mirror_tana = _job(
    "mirror_tana", "tana_learnings", "freshness", description="Mirrors seed.json in Tana, and reads the activity around it."
)
backlog = _job(
    "backlog",
    "silo_backlog",
    "canonical_entries",
    description="Counts memories that wait in the silos, and curated entries. Only reads.",
)
propose = _job(
    "propose",
    "silo_backlog",
    "canonical_entries",
    "proposals",
    description="`memory learn check`: proposals for a person to decide. Applies nothing.",
)
back_up = dg.define_asset_job("back_up", _assets("backup").without_checks(), description="A backup.")
check_backup = _job("check_backup", "backup", description="A backup, and whether it can be restored.")

JOBS = [remember, reflect, decay, creative, cluster, forget, read_tana, mirror_tana, backlog, propose, back_up, check_backup]
