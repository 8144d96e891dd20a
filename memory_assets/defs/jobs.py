"""Jobs: `remember` goes from the sources to the scores, `reflect` from the memories; sleep cycles; what goes before curation."""

import dagster as dg

remember = dg.define_asset_job(
    "remember",
    selection=dg.AssetSelection.assets("relevance_scores").upstream() - dg.AssetSelection.assets("tana_learnings", "freshness"),
    description="From the sources to searchable, connected and scored memories.",
)
reflect = dg.define_asset_job(
    "reflect",
    selection=dg.AssetSelection.assets("graph_edges", "relevance_scores"),
    description="Graph and scores of what was stored directly.",
)
decay = dg.define_asset_job(
    "decay",
    selection=dg.AssetSelection.assets("relevance_scores"),
    description="The daily sleep cycle: every memory's relevance as of now.",
)
creative = dg.define_asset_job(
    "creative",
    selection=dg.AssetSelection.assets("creative_links"),
    description="The weekly sleep cycle: what is alike and was never connected.",
)
cluster = dg.define_asset_job(
    "cluster",
    selection=dg.AssetSelection.assets("clusters"),
    description="The monthly sleep cycle: what lies close together becomes a pattern with a summary.",
)
forget = dg.define_asset_job(
    "forget",
    selection=dg.AssetSelection.assets("archived_memories"),
    description="The quarterly sleep cycle: what no longer matters leaves recall, reversibly.",
)
read_tana = dg.define_asset_job(
    "read_tana",
    selection=dg.AssetSelection.assets("tana_graph"),
    description="What changed in Tana.",
)
backlog = dg.define_asset_job(
    "backlog",
    selection=dg.AssetSelection.assets("silo_backlog", "canonical_entries"),
    description="What waits in the silos, and what was curated; reads alone.",
)
propose = dg.define_asset_job(
    "propose",
    selection=dg.AssetSelection.assets("silo_backlog", "canonical_entries", "proposals"),
    description="`memory learn check`: proposals for a person to decide. Applies nothing.",
)
mirror_tana = dg.define_asset_job(
    "mirror_tana",
    selection=dg.AssetSelection.assets("tana_learnings", "freshness"),
    description="seed.json mirrored in Tana, and what lives around it there.",
)


JOBS = [remember, reflect, decay, creative, cluster, forget, read_tana, mirror_tana, backlog, propose]
