"""The cluster cycle groups memories that are close together into MetaPatterns with a summary.

HDBSCAN runs on the components of a sparse nearest-neighbour graph, never on all pairs. New clusters are matched with old ones by their
share of common members, the best match first. A matched cluster keeps its id and, if its members did not change, its words.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from itertools import chain, count
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, Field

from memory_assets.arrays import Floats, Rows
from memory_assets.graph.neighbours import nearest_of_all, read_vectors, scale_of_live
from memory_assets.graph.outdated import list_replaced, read_changes, strip_marks
from memory_assets.graph.summaries import summarise
from memory_assets.language.embedders.calibration import UNCALIBRATED, Scale
from memory_assets.language.entity_types import EntityType
from memory_assets.language.tags import normalise_tag
from memory_assets.language.words import sentences
from memory_assets.models import State
from memory_assets.stores.catalog import Catalog
from memory_assets.stores.graph_builds import record_build
from memory_assets.stores.rows import derived_id
from memory_assets.stores.schema import table

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from memory_assets.tenants import Tenant

NEIGHBOURS = 12
LEAST_MEMBERS = 3
LEAST_OVERLAP = 0.3
"""Jaccard overlap of members from which a new cluster counts as an old one."""
_MIN_SAMPLES = 2
"""Neighbours by whose distance HDBSCAN measures the density around a memory."""
_UNDIVIDED_MEMBERS = 12
"""Members up to which a component is one cluster; HDBSCAN divides larger ones."""
_MAX_DISTANCE = 2.0
_MAX_TEXTS = 40


class Cluster(BaseModel):
    """A MetaPattern: a dense group of memories."""

    id: int
    label: str
    summary: str
    members: tuple[int, ...] = Field(description="In the order of their ids.")
    cohesion: float = Field(description="Mean cosine of the members with their mean.")


class ClusterOutcome(BaseModel):
    """Outcome of a cluster cycle."""

    memories: int = Field(description="Embedded active memories that were compared.")
    kept: int = Field(description="Clusters that existed before.")
    founded: int
    dissolved: int
    written: int = Field(description="Changed rows.")
    clusters: tuple[Cluster, ...] = Field(description="Largest first.")


def find_clusters(tenant: "Tenant", now: datetime, *, dry_run: bool = False) -> ClusterOutcome:
    """Cluster the active memories, summarise the clusters, and write the difference to the last cycle."""
    catalog, memories = tenant.catalog, tenant.memories
    ids, vectors = read_vectors(memories, (State.ACTIVE,))
    labels = label_dense(vectors, tenant.settings.cluster_similarity, scale_of_live(memories))
    groups: dict[int, list[int]] = defaultdict(list)
    for place, label in enumerate(labels.tolist()):
        if label >= 0:
            groups[label].append(place)
    with catalog.read() as connection:
        known: dict[int, set[int]] = defaultdict(set)
        for number, cluster in connection.execute("SELECT memory_id, cluster_id FROM cluster_members").fetchall():
            known[cluster].add(number)
        words = {row[0]: row[1:] for row in connection.execute("SELECT id, label, summary FROM clusters").fetchall()}
    members = [frozenset(ids[places].tolist()) for places in groups.values()]
    grouped = dict(zip(match_clusters(members, known), members, strict=True))
    cohesions, closeness, summarised = {}, {}, {}
    for places, (number, group) in zip(groups.values(), grouped.items(), strict=True):
        mean = vectors[places].mean(axis=0)
        near = vectors[places] @ mean / (np.linalg.norm(mean) or 1.0)
        closeness |= dict(zip(ids[places].tolist(), np.clip(near, 0, 1).tolist(), strict=True))
        if known.get(number) != group or number not in words:
            summarised[number] = ids[np.array(places)[np.argsort(-near, kind="stable")[:_MAX_TEXTS]]].tolist()
        cohesions[number] = float(near.mean())
    words |= _summaries(tenant, summarised, {number: len(group) for number, group in grouped.items()})
    found = [
        Cluster(
            id=number, label=words[number][0], summary=words[number][1], members=tuple(sorted(group)), cohesion=cohesions[number]
        )
        for number, group in grouped.items()
    ]
    found.sort(key=lambda cluster: (-len(cluster.members), cluster.id))
    written = _record(catalog, found, closeness, now, dry_run=dry_run)
    kept = sum(number in known for number in grouped)
    return ClusterOutcome(
        memories=len(ids),
        kept=kept,
        founded=len(found) - kept,
        dissolved=len(known.keys() - grouped.keys()),
        written=written,
        clusters=tuple(found),
    )


def read_clusters(connection: "DuckDBPyConnection", most: int) -> tuple[Cluster, ...]:
    """Return the `most` largest clusters of the last cycle, the largest first."""
    rows = connection.execute(
        """
        SELECT id, label, summary, list(memory_id ORDER BY memory_id) AS members, cohesion
        FROM (FROM clusters ORDER BY size DESC, id LIMIT $1) c JOIN cluster_members m ON m.cluster_id = c.id
        GROUP BY ALL ORDER BY len(members) DESC, id
        """,
        [most],
    )
    return tuple(Cluster.model_validate(row) for row in rows.to_arrow_table().to_pylist())


def label_dense(vectors: Floats, least_similarity: float, scale: Scale = UNCALIBRATED) -> Rows:
    """Return each unit vector's cluster, counted from 0, or -1 for none. Vectors below `least_similarity` are not neighbours."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    total = len(vectors)
    labels = np.full(total, -1, np.int64)
    if total < LEAST_MEMBERS:
        return labels
    places, similarity = nearest_of_all(vectors, min(NEIGHBOURS, total - 1), least=scale.cosine(least_similarity))
    close = places >= 0
    rows = np.repeat(np.arange(total), places.shape[1]).reshape(places.shape)[close]
    distances = np.clip(1 - scale.similarity(similarity[close]), 1e-6, _MAX_DISTANCE).astype(np.float64)
    graph = csr_array((distances, (rows, places[close])), shape=(total, total))
    graph = graph.maximum(graph.T).tocsr()
    count, component = connected_components(graph, directed=False)
    order = np.argsort(component, kind="stable")
    bounds = np.searchsorted(component[order], np.arange(count + 1))
    next_label = 0
    for number in range(count):
        inside = order[bounds[number] : bounds[number + 1]]
        if len(inside) < LEAST_MEMBERS:
            continue
        found = np.zeros(len(inside), np.int64) if len(inside) <= _UNDIVIDED_MEMBERS else _run_hdbscan(graph[inside][:, inside])
        labels[inside[found >= 0]] = found[found >= 0] + next_label
        next_label += int(found.max(initial=-1)) + 1
    return labels


def _run_hdbscan(graph: Any) -> Rows:
    """Run HDBSCAN on one connected component, given as a sparse symmetric matrix of distances.

    HDBSCAN needs two neighbours for every point. Points with a single neighbour are removed first, which leaves the rest connected, and
    then join the cluster of that neighbour.
    """
    from sklearn.cluster import HDBSCAN

    total = graph.shape[0]
    inner = np.arange(total)
    while len(inner):
        degrees = np.diff(graph[inner][:, inner].tocsr().indptr)
        if degrees.min() >= _MIN_SAMPLES:
            break
        inner = inner[degrees >= _MIN_SAMPLES]
    if len(inner) <= _UNDIVIDED_MEMBERS:
        return np.zeros(total, np.int64)
    model = HDBSCAN(
        min_cluster_size=LEAST_MEMBERS + 1,
        min_samples=_MIN_SAMPLES,
        metric="precomputed",
        metric_params={"max_distance": _MAX_DISTANCE},
        cluster_selection_method="leaf",
        copy=True,  # pyright: ignore[reportArgumentType]
    )
    labels = np.full(total, -1, np.int64)
    labels[inner] = model.fit(graph[inner][:, inner].tocsr()).labels_
    if labels.max() < 0:
        return np.zeros(total, np.int64)
    for place in np.setdiff1d(np.arange(total), inner):
        neighbours = graph[[place]]
        labels[place] = labels[neighbours.indices[np.argmin(neighbours.data)]]
    return labels


def match_clusters(groups: Sequence[frozenset[int]], known: Mapping[int, set[int]]) -> list[int]:
    """Return each group's id: the id of the known cluster it overlaps most, else one derived from its members.

    Overlap is the share of common members among the members of both (Jaccard). The best pair is matched first, ties by id.
    """
    owner = {member: cluster for cluster, members in known.items() for member in members}
    claims = []
    for place, group in enumerate(groups):
        for cluster, common in Counter(owner[member] for member in group if member in owner).items():
            overlap = common / (len(group) + len(known[cluster]) - common)
            if overlap >= LEAST_OVERLAP:
                claims.append((-overlap, cluster, min(group), place))
    ids: dict[int, int] = {}
    taken: set[int] = set()
    for _, cluster, _, place in sorted(claims):
        if place not in ids and cluster not in taken:
            ids[place] = cluster
            taken.add(cluster)
    for place, group in enumerate(groups):
        if place not in ids:
            key = f"cluster:{','.join(map(str, sorted(group)))}"
            candidates = (derived_id(key, str(attempt)) for attempt in count())
            ids[place] = next(number for number in candidates if number not in taken and number not in known)
            taken.add(ids[place])
    return [ids[place] for place in range(len(groups))]


def _summaries(tenant: "Tenant", chosen: Mapping[int, Sequence[int]], sizes: Mapping[int, int]) -> dict[int, tuple[str, str]]:
    wanted = sorted(set(chain.from_iterable(chosen.values())))
    parts = (wanted[start : start + 1000] for start in range(0, len(wanted), 1000))
    rows = {memory.id: memory for part in parts for memory in tenant.memories.get(part)}
    names: dict[int, list[str]] = defaultdict(list)
    people: set[str] = set()
    """Tags that are names, first names or last names of people."""
    with tenant.catalog.read() as connection:
        connection.register("chosen", pa.table({"id": pa.array(wanted, pa.int64())}))
        mentions = connection.execute("""
            SELECT m.memory_id, n.label, n.type FROM graph_mentions m SEMI JOIN chosen c ON c.id = m.memory_id
            JOIN graph_nodes n ON n.id = m.entity_id
            WHERE n.type NOT IN ('FILE', 'URL', 'EMAIL', 'ENV_VAR', 'TAG') ORDER BY ALL
        """).fetchall()
        replaced = list_replaced(read_changes(connection))
    for number, label, kind in mentions:
        names[number].append(label)
        if kind == EntityType.PERSON:
            people |= {normalise_tag(name) for name in (label, *label.split())}
    found = {}
    for cluster, numbers in chosen.items():
        known = [rows[number] for number in numbers if number in rows]
        label, text = summarise(
            [_without(memory.content, [each.old_text for each in replaced.get(memory.id, ())]) for memory in known],
            [names[memory.id] for memory in known],
            [memory.created_at for memory in known],
            [[tag for tag in memory.tags if tag not in people] for memory in known],
        )
        found[cluster] = label, text.replace(f"{len(known)} memories", f"{sizes[cluster]} memories", 1)
    return found


def _without(text: str, outdated: Collection[str]) -> str:
    """Return a text without its outdated sentences; nothing if the whole text is, which an empty sentence says."""
    return "\n".join(each for each in sentences(text) if not {"", strip_marks(each)} & set(outdated)) if outdated else text


def _record(catalog: Catalog, found: Sequence[Cluster], closeness: Mapping[int, float], now: datetime, *, dry_run: bool) -> int:
    clusters = pa.Table.from_pylist(
        [
            {"id": c.id, "label": c.label, "summary": c.summary, "size": len(c.members), "cohesion": round(c.cohesion, 4)}
            for c in found
        ],
        schema=table("clusters").arrow("id", "label", "summary", "size", "cohesion"),
    )
    members = pa.Table.from_pylist(
        [
            {"memory_id": number, "cluster_id": cluster.id, "closeness": round(closeness[number], 4)}
            for cluster in found
            for number in cluster.members
        ],
        schema=table("cluster_members").arrow(),
    )
    with catalog.read() as connection:
        connection.register("found", clusters)
        connection.register("members", members)
        (differs,) = connection.execute("""
            SELECT count(*) FROM (
                (FROM members EXCEPT FROM cluster_members) UNION ALL (FROM cluster_members EXCEPT FROM members) UNION ALL
                (SELECT id, id, 0 FROM (FROM found EXCEPT SELECT id, label, summary, size, cohesion FROM clusters)) UNION ALL
                (SELECT id, id, 0 FROM clusters ANTI JOIN found USING (id))
            )
        """).fetchone() or (0,)
    if differs and not dry_run:
        with catalog.write() as connection:
            connection.register("found", clusters)
            connection.register("members", members)
            connection.execute(
                """
                CREATE TEMP TABLE renewed AS
                    SELECT f.*, coalesce(c.first_seen, $1::TIMESTAMPTZ) AS first_seen, $1::TIMESTAMPTZ AS updated_at
                    FROM (FROM found EXCEPT SELECT id, label, summary, size, cohesion FROM clusters) f
                    LEFT JOIN clusters c USING (id)
                """,
                [now],
            )
            connection.execute("""
                DELETE FROM graph_edges WHERE origin = 'cluster';
                DELETE FROM graph_nodes WHERE kind = 'pattern' AND id NOT IN (SELECT id FROM found);
                DELETE FROM clusters WHERE id NOT IN (SELECT id FROM found);
                DELETE FROM cluster_members;
                INSERT INTO cluster_members BY NAME FROM members;
            """)
            connection.execute(table("clusters").merge("FROM renewed"))
            connection.execute(
                table("graph_nodes").merge(
                    "SELECT id, 'pattern' AS kind, label, '' AS revision, 'MetaPattern' AS type FROM clusters"
                )
            )
            connection.execute("""
                INSERT INTO graph_edges BY NAME
                    SELECT memory_id AS source_id, cluster_id AS target_id, 'PART_OF' AS type, closeness AS confidence,
                           closeness AS similarity, 'cluster' AS origin, 0 AS evidence_id, 'one of a cluster' AS note
                    FROM cluster_members SEMI JOIN graph_nodes n ON n.id = memory_id;
            """)
            record_build(connection)
    return differs
