"""The faces group: the interfaces that read the memory, at the end of the lineage. They are never materialised."""

import dagster as dg

from memory_assets.defs.assets.curation import canonical_entries, proposals, silo_backlog
from memory_assets.defs.assets.cycles import archived_memories, clusters, creative_links
from memory_assets.defs.assets.graph import graph_edges, relevance_scores
from memory_assets.defs.assets.memory import memories, stored_memories
from memory_assets.defs.assets.tana import tana_graph, tana_learnings
from memory_assets.defs.partitions import TENANTS
from memory_assets.defs.tenant_assets import external_asset

GROUP = "faces"


def _face(name: str, kind: str, command: str, about: str, *deps: dg.AssetsDefinition | dg.AssetSpec) -> dg.AssetSpec:
    metadata = {"command": command}
    return external_asset(name, GROUP, kind, description=about, deps=deps, partitions_def=TENANTS, metadata=metadata)


_recall = (memories, stored_memories, graph_edges, relevance_scores, creative_links, clusters)
_found = "Searches, context documents and single memories"
_told = "What a new session reads at its start about its user and its project."
_decided = "The LEARNING homes after a person's decisions about the proposals."
command_line = _face(
    "command_line", "shell", "memory search", f"{_found} on the command line.", *_recall, archived_memories, tana_graph
)
http_service = _face("http_service", "python", "memory serve", f"{_found} for every tenant that has a key.", *_recall)
mcp_tools = _face("mcp_tools", "claude", "memory mcp", "The tools that an assistant calls.", *_recall, tana_graph)
session_start = _face("session_start", "claude", "memory session-start", _told, relevance_scores, silo_backlog)
graph_picture = _face("graph_picture", "html", "memory graph", "The graph as one HTML file.", graph_edges, clusters)
curated_homes = _face("curated_homes", "markdown", "memory learn apply", _decided, canonical_entries, proposals)
tana_mirror = _face("tana_mirror", "tana", "memory pai sync", "The mirror of seed.json in Tana.", tana_learnings)
