"""Jobs: `remember` goes from the sources to the scores, `reflect` from the memories; sleep cycles; what goes before curation."""

from typing import TYPE_CHECKING

import dagster as dg

if TYPE_CHECKING:
    from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition


def _job(name: str, *assets: str, description: str) -> "UnresolvedAssetJobDefinition":
    return dg.define_asset_job(name, dg.AssetSelection.assets(*assets), description=description)


remember = dg.define_asset_job(
    "remember",
    dg.AssetSelection.assets("relevance_scores").upstream() - dg.AssetSelection.assets("tana_learnings", "freshness"),
    description="From the sources to searchable, connected and scored memories.",
)
reflect = _job("reflect", "graph_edges", "relevance_scores", description="Graph and scores of what was stored directly.")
decay = _job("decay", "relevance_scores", description="The daily sleep cycle: every memory's relevance as of now.")
creative = _job("creative", "creative_links", description="The weekly sleep cycle: what is alike and was never connected.")
cluster = _job(
    "cluster", "clusters", description="The monthly sleep cycle: what lies close together becomes a pattern with a summary."
)
forget = _job(
    "forget", "archived_memories", description="The quarterly sleep cycle: what no longer matters leaves recall, reversibly."
)
read_tana = _job("read_tana", "tana_graph", description="What changed in Tana.")
mirror_tana = _job(
    "mirror_tana", "tana_learnings", "freshness", description="seed.json mirrored in Tana, and what lives around it there."
)
backlog = _job(
    "backlog", "silo_backlog", "canonical_entries", description="What waits in the silos, and what was curated; reads alone."
)
propose = _job(
    "propose",
    "silo_backlog",
    "canonical_entries",
    "proposals",
    description="`memory learn check`: proposals for a person to decide. Applies nothing.",
)

JOBS = [remember, reflect, decay, creative, cluster, forget, read_tana, mirror_tana, backlog, propose]
