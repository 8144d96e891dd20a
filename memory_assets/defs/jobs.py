"""Jobs: `remember` from the sources to the scores, `reflect` from the memories to the scores, sleep cycles, Tana, curation, backups."""

from typing import Any

import dagster as dg

from memory_assets.defs.assets.curation import PROPOSING
from memory_assets.defs.assets.memory import MOVING

_assets = dg.AssetSelection.assets
_SOURCES_TO_SCORES = _assets("relevance_scores").upstream() - _assets("tana_learnings", "freshness")
_MOVE = (
    "Moves every memory to the embedder and pipeline of the settings. Launch it as a backfill of all tenants: one run each, which can "
    "be stopped and repeated."
)
_UNCURATED = ("silo_backlog", "canonical_entries")


def _job(name: str, description: str, *selected: str, selection: dg.AssetSelection | None = None, **options: Any) -> Any:
    return dg.define_asset_job(name, selection or _assets(*selected), description=description, **options)


JOBS = [
    _job("remember", "From the sources to searchable, connected and scored memories.", selection=_SOURCES_TO_SCORES),
    _job("reflect", "Graph and scores of directly stored memories.", "graph_edges", "relevance_scores"),
    _job("move_models", _MOVE, "extracted_features", "memories", "graph_edges", "relevance_scores", config=MOVING),
    _job("decay", "The daily sleep cycle: every memory's current relevance.", "relevance_scores"),
    _job("creative", "The weekly sleep cycle: edges between similar memories that no edge connects.", "creative_links"),
    _job("cluster", "The monthly sleep cycle: dense groups of memories become patterns with a summary.", "clusters"),
    _job("forget", "The quarterly sleep cycle: memories of low relevance leave recall, reversibly.", "archived_memories"),
    _job("read_tana", "Reads changed nodes of Tana.", "tana_graph"),
    _job("mirror_tana", "Mirrors seed.json in Tana, and reads the activity around it.", "tana_learnings", "freshness"),
    _job("backlog", "Counts memories waiting in the silos, and curated entries. Read-only.", *_UNCURATED),
    _job("propose", "`memory learn check`: proposals for a person. Applies nothing.", *_UNCURATED, "proposals", config=PROPOSING),
    _job("back_up", "A backup.", selection=_assets("backup").without_checks()),
    _job("check_backup", "A backup, and a test of its restoration.", "backup"),
]
