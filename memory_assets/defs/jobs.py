"""Jobs: `remember` goes from the sources to the scores, `reflect` from the memories, `decay` renews the scores."""

import dagster as dg

remember = dg.define_asset_job(
    "remember",
    selection=dg.AssetSelection.assets("relevance_scores").upstream(),
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


JOBS = [remember, reflect, decay]
