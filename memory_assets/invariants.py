"""What must hold of every tenant: one list for `memory doctor` and for Dagster's checks, each with the mend that mends it.

An invariant that follows from the registry of schemas is made from it. Statistics belong to the assets' metadata.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from memory_assets.graph.decided_names import spellings_of
from memory_assets.graph.edges import refresh_graph
from memory_assets.graph.relevance import decay_cycle
from memory_assets.ingest.backfill import reembed
from memory_assets.ingest.scans import DANGLING_HOOKS
from memory_assets.learn.memory_files import read_homes
from memory_assets.models import Source, State
from memory_assets.stores import lance
from memory_assets.stores.embedding_columns import meaning_column
from memory_assets.stores.schema import LANCE_TABLES, MEMORIES, catalog_differences, differences
from memory_assets.tenants import Tenant

_LENGTH_TOLERANCE = 1e-3
_SAMPLE = 20_000
"""Embeddings that are looked at: of the rows written last."""
_DOCTOR = "Run `memory doctor --mend`."
_GRAPH = "graph_nodes graph_edges graph_mentions graph_aliases graph_memories graph_surfaces graph_cues graph_position".split()  # noqa: SIM905
_SCORES = ("relevance_scores", "scored_memories", "scored_position")


Find = Callable[[Tenant], list[str]]


@dataclass(frozen=True, slots=True)
class Invariant:
    """What must hold of every tenant."""

    name: str
    asset: str
    """The asset that it is checked for."""
    promise: str
    find: Find
    """The rows, files or columns that break it, each named."""
    mend: str = _DOCTOR
    """What a person does."""
    repair: Callable[[Tenant], None] | None = None
    """What `memory doctor --mend` does; None if only a person can."""
    is_blocking: bool = False
    """Whether the steps after the asset must not run on it."""
    is_warning: bool = False
    """Whether it lies in files of others, so that it fails nothing of ours."""


def _unregistered(tenant: Tenant) -> list[str]:
    tables = zip((tenant.memories.stored, tenant.relations.stored), LANCE_TABLES, strict=True)
    there = [(table, stored.reading.schema) for stored, table in tables if stored.exists]
    return [each for table, schema in there for each in differences(table, {field.name: str(field.type) for field in schema})]


def _unregistered_catalog(tenant: Tenant) -> list[str]:
    if not tenant.catalog.exists:
        return []
    with tenant.catalog.read() as connection:
        return catalog_differences(connection)


def _drop_twins(tenant: Tenant) -> None:
    for name in _DOUBLED(tenant):
        table, number = name.split()
        stored = (tenant.memories if table == MEMORIES.name else tenant.relations).stored
        time = "updated_at" if table == MEMORIES.name else "created_at"
        twins = stored.reading.search().where(f"id = {number}").select([time]).with_row_id(True).to_arrow().to_pylist()
        newest = max(twins, key=lambda row: row[time])
        older = [str(row["_rowid"]) for row in twins if row is not newest]
        stored.writing.delete(f"_rowid IN ({', '.join(older)})")


def _without_unit_embedding(tenant: Tenant) -> list[str]:
    column = tenant.memories.columns.live
    active = f"state = '{State.ACTIVE}'"
    rows = tenant.memories.scan(("id", "updated_at"), active)
    if column is None or not rows.num_rows:
        return [f"memory {number}" for number in rows["id"].to_pylist()]
    newest = rows.sort_by([("updated_at", "descending")])["id"].slice(0, _SAMPLE).to_pylist()
    found = tenant.memories.scan(("id", column), f"{active} AND {lance.ids_in(newest)}")
    vectors = found[column].combine_chunks()
    there = np.asarray(vectors.is_valid())
    lengths = np.zeros(len(vectors))
    lengths[there] = np.linalg.norm(vectors.drop_null().flatten().to_numpy().reshape(-1, vectors.type.list_size), axis=1)
    return [f"memory {number}" for number in found["id"].to_numpy()[~(np.abs(lengths - 1) <= _LENGTH_TOLERANCE)]]


def _embed_again(tenant: Tenant) -> None:
    if column := tenant.memories.columns.live:
        empty = (column, meaning_column(column))
        _set(tenant, _without_unit_embedding(tenant), dict.fromkeys(empty))
    reembed(tenant.memories, tenant.embedder, lambda _done, _total: None)


def _set(tenant: Tenant, names: Sequence[str], values: dict[str, Any]) -> None:
    """Give the memories of these names the same values."""
    if not names:
        return
    rows = tenant.memories.scan(("id", "updated_at"), lance.ids_in(_numbers(names)))
    schema = tenant.memories.table.schema
    columns = {name: pa.array([value] * rows.num_rows, schema.field(name).type) for name, value in values.items()}
    now = pa.array([datetime.now(UTC)] * rows.num_rows, schema.field("updated_at").type)
    tenant.memories.update(pa.table({"id": rows["id"], **columns, "updated_at": now}), rows["updated_at"].to_pylist())


def _numbers(names: Iterable[str]) -> list[int]:
    """The ids in names such as `memory 3`."""
    return [int(name.split()[1]) for name in names]


def _supersede_older(tenant: Tenant) -> None:
    for name in _DOUBLED_SOURCE_KEYS(tenant):
        newest, *older = map(int, name.removeprefix("memories ").split(", "))
        states = [state for state in State if state is not State.SUPERSEDED]
        tenant.memories.transition(older, states, State.SUPERSEDED, superseded_by=[newest] * len(older))


def _drop_relations(tenant: Tenant) -> None:
    if dangling := _DANGLING_RELATIONS(tenant):
        tenant.relations.stored.writing.delete(lance.ids_in(_numbers(dangling)))


def _rebuild_graph(tenant: Tenant) -> None:
    _empty(tenant, _GRAPH)
    refresh_graph(tenant.catalog, tenant.memories, tenant.relations, spellings_of(tenant))


def _score_again(tenant: Tenant) -> None:
    _empty(tenant, _SCORES)
    decay_cycle(tenant, datetime.now(UTC))


def _empty(tenant: Tenant, tables: Sequence[str]) -> None:
    with tenant.catalog.write() as connection:
        for table in tables:
            connection.execute(f"DELETE FROM {table}")


def _selected(query: str, *columns: str) -> Find:
    """What a query finds, whose one column names the rows.

    It may read the catalog, and of LanceDB `stored_relations` and `stored_memories`, which has the given columns.
    """

    def find(tenant: Tenant) -> list[str]:
        stored = {"stored_memories": tenant.memories.scan(columns)} if columns else {}
        if "stored_relations" in query:
            stored["stored_relations"] = tenant.relations.scan()
        with tenant.catalog.read() as connection:
            for name, rows in stored.items():
                connection.register(name, rows)
            return [name for (name,) in connection.execute(query).fetchall()]

    return find


def _no_dangling(name: str, asset: str, promise: str, lost: dict[str, tuple[str, str]]) -> Invariant:
    """Nothing refers to what is not there. `lost`: table of the catalog -> the name of a row, and the condition of a lost one."""
    found = (f"SELECT {row} FROM {table} WHERE {condition}" for table, (row, condition) in lost.items())

    def repair(tenant: Tenant) -> None:
        with tenant.catalog.write() as connection:
            for table, (_, condition) in lost.items():
                connection.execute(f"DELETE FROM {table} WHERE {condition}")

    return Invariant(name, asset, promise, _selected(" UNION ALL ".join(found)), repair=repair)


_DOUBLED = _selected(
    """
    SELECT concat('memories ', id) FROM stored_memories GROUP BY id HAVING count(*) > 1
    UNION ALL SELECT concat('relations ', id) FROM stored_relations GROUP BY id HAVING count(*) > 1
    """,
    "id",
)
_DOUBLED_SOURCE_KEYS = _selected(
    f"""
    SELECT concat('memories ', string_agg(id, ', ' ORDER BY updated_at DESC)) FROM stored_memories
    WHERE source_key <> '' AND state <> '{State.SUPERSEDED}' GROUP BY source_key HAVING count(*) > 1 ORDER BY source_key
    """,
    *("id", "source_key", "state", "updated_at"),
)
_DANGLING_RELATIONS = _selected(
    """
    SELECT concat('relation ', id) FROM stored_relations
    WHERE source_id NOT IN (SELECT id FROM stored_memories) OR target_id NOT IN (SELECT id FROM stored_memories)
    """,
    "id",
)
_SUPERSEDED_BUT_ACTIVE = _selected(
    f"SELECT concat('memory ', id) FROM stored_memories WHERE superseded_by IS NOT NULL AND state = '{State.ACTIVE}'",
    *("id", "superseded_by", "state"),
)
_OUT_OF_BOUNDS = _selected(
    """
    SELECT concat('memory ', id) FROM stored_memories
    WHERE NOT coalesce(importance BETWEEN 0 AND 1 AND confidence BETWEEN 0 AND 1, false)
    """,
    *("id", "importance", "confidence"),
)


def _without_provenance(tenant: Tenant) -> list[str]:
    return [str(entry.path) for entry in read_homes(tenant).entries if entry.missing_provenance]


def _doubled_names(tenant: Tenant) -> list[str]:
    by_name: dict[tuple[str, str], list[str]] = {}
    for entry in read_homes(tenant).entries:
        by_name.setdefault((entry.item.kind, entry.item.title), []).append(str(entry.path))
    return [path for _, *later in by_name.values() for path in later]


def _no_refused_file(asset: str, source: Source) -> Invariant:
    """Reasons are left out: they may quote a file."""
    query = f"""
        SELECT DISTINCT path || if(location = '', '', ' at ' || location) FROM source_refusals
        WHERE source = '{source}' AND mend <> '' ORDER BY ALL
    """
    return Invariant(
        f"no_file_of_{asset}_is_refused",
        asset,
        "Every file is taken in, or skipped for a reason that needs no mend.",
        _selected(query),
        "`memory status --refused` says why, and what mends each file; everything else was taken in.",
        is_warning=True,
    )


_LARGE_SHARE = 0.5
_KNOWN = "(SELECT id FROM graph_memories)"
_UNSCORED = """
    SELECT concat('score of ', id) FROM graph_memories ANTI JOIN relevance_scores USING (id)
    WHERE state = 'active' AND EXISTS (FROM scored_position)
"""


INVARIANTS = (
    *map(_no_refused_file, ("silo_files", "seed_entries", "learning_entries"), Source),
    Invariant(
        "every_text_is_analysed",
        "extracted_features",
        "The language pipeline can analyse every text.",
        _selected("SELECT content_hash FROM extracted_features WHERE fault IS NOT NULL"),
        "`memory status --refused` names its file; shorten the text.",
        is_warning=True,
    ),
    Invariant(
        "few_memories_are_archived",
        "relevance_scores",
        f"At most {_LARGE_SHARE:.0%} of what could be in recall is archived.",
        _selected(
            f"""
            SELECT concat(count_if(state = '{State.ARCHIVED}'), ' archived, ', count_if(state = '{State.ACTIVE}'), ' in recall')
            FROM stored_memories WHERE state IN ('{State.ARCHIVED}', '{State.ACTIVE}')
            HAVING count_if(state = '{State.ARCHIVED}') > {_LARGE_SHARE} * count(*)
            """,
            "state",
        ),
        "Look with `memory search --archived`; lower MEMORY_ARCHIVE_THRESHOLD or MEMORY_DECAY_RATE if too much left, then `memory run`.",
        is_warning=True,
    ),
    Invariant(
        "every_memory_is_scored",
        "relevance_scores",
        "Every active memory of the graph has a score.",
        _selected(_UNSCORED),
        repair=_score_again,
    ),
    Invariant(
        "every_memory_is_a_node",
        "graph_edges",
        "Every memory that takes part in the graph is a node of it.",
        _selected("SELECT concat('node ', id) FROM graph_memories ANTI JOIN graph_nodes USING (id) WHERE live"),
        repair=_rebuild_graph,
    ),
    Invariant(
        "edges_within_bounds",
        "graph_edges",
        "The confidence of every edge lies within 0 and 1, and none leads from a node to itself.",
        _selected("""
            SELECT concat('edge ', source_id, ' to ', target_id) FROM graph_edges
            WHERE NOT coalesce(confidence BETWEEN 0 AND 1, false) OR source_id = target_id
        """),
        repair=_rebuild_graph,
    ),
    Invariant(
        "catalog_is_as_registered",
        "memory_entries",
        "The catalog has the tables and columns of the registry of schemas.",
        _unregistered_catalog,
        "Run `memory doctor --mend`, then `memory run`, which derives the catalog anew.",
        lambda tenant: tenant.catalog.set_aside(),
        is_blocking=True,
    ),
    Invariant(
        "tables_are_as_registered",
        "memories",
        "The tables of memories and relations have the columns of the registry of schemas.",
        _unregistered,
        "Restore the tables with `memory restore`, or upgrade memory_assets if a newer release wrote them.",
        is_blocking=True,
    ),
    Invariant(
        "every_key_is_unique",
        "memories",
        "No two memories, and no two relations, have one id.",
        _DOUBLED,
        repair=_drop_twins,
        is_blocking=True,
    ),
    Invariant(
        "every_memory_has_a_unit_embedding",
        "memories",
        f"Every memory in recall has an embedding of unit length; looks at the {_SAMPLE:,} written last.",
        _without_unit_embedding,
        repair=_embed_again,
    ),
    Invariant(
        "one_memory_per_source_key",
        "memories",
        "No two memories that are not superseded come from one source key.",
        _DOUBLED_SOURCE_KEYS,
        repair=_supersede_older,
    ),
    Invariant(
        "no_memory_of_another_tenant",
        "memories",
        "Every memory from a file comes from a file that this tenant's catalog knows.",
        # before the first run, and after an erase, a catalog knows no entry: then none is strange
        _selected(
            f"""
            SELECT concat('memory ', id, ' of ', source_key) FROM stored_memories ANTI JOIN memory_entries e ON e.key = source_key
            WHERE source_key <> '' AND state = '{State.ACTIVE}' AND EXISTS (FROM memory_entries)
            """,
            *("id", "source_key", "state"),
        ),
        "Run `memory run`: memories of files that it does not find leave recall.",
    ),
    Invariant(
        "no_active_memory_is_superseded",
        "memories",
        "A memory that another one replaced is not in recall.",
        _SUPERSEDED_BUT_ACTIVE,
        repair=lambda tenant: _set(tenant, _SUPERSEDED_BUT_ACTIVE(tenant), {"superseded_by": None}),
    ),
    Invariant(
        "importance_and_confidence_within_bounds",
        "memories",
        "Importance and confidence lie within 0 and 1.",
        _OUT_OF_BOUNDS,
        repair=lambda tenant: _set(tenant, _OUT_OF_BOUNDS(tenant), {"importance": 0.5, "confidence": 1.0}),
    ),
    Invariant(
        "no_relation_dangles",
        "graph_edges",
        "Both memories of every stated relation exist.",
        _DANGLING_RELATIONS,
        repair=_drop_relations,
    ),
    Invariant(
        "no_edge_dangles",
        "graph_edges",
        "Both ends of every edge and mention are nodes.",
        _selected("""
            SELECT edge FROM (
                SELECT source_id AS id, concat('edge ', source_id, ' to ', target_id) AS edge FROM graph_edges
                UNION ALL SELECT target_id, concat('edge ', source_id, ' to ', target_id) FROM graph_edges
                UNION ALL SELECT memory_id, concat('mention ', memory_id, ' of ', entity_id) FROM graph_mentions
                UNION ALL SELECT entity_id, concat('mention ', memory_id, ' of ', entity_id) FROM graph_mentions
            ) ANTI JOIN graph_nodes USING (id)
        """),
        repair=_rebuild_graph,
    ),
    _no_dangling(
        "no_creative_link_dangles",
        "creative_links",
        "Both memories of every creative link are known.",
        {
            "creative_links": (
                "concat('link ', source_id, ' to ', target_id)",
                f"source_id NOT IN {_KNOWN} OR target_id NOT IN {_KNOWN}",
            )
        },
    ),
    _no_dangling(
        "no_member_dangles",
        "clusters",
        "Every member of a cluster is a known memory of a known cluster.",
        {
            "cluster_members": (
                "concat('member ', memory_id, ' of ', cluster_id)",
                f"memory_id NOT IN {_KNOWN} OR cluster_id NOT IN (SELECT id FROM clusters)",
            )
        },
    ),
    Invariant(
        "scores_within_bounds",
        "relevance_scores",
        "Scores lie within 0 and 1.",
        _selected("SELECT concat('score of ', id) FROM relevance_scores WHERE NOT coalesce(relevance BETWEEN 0 AND 1, false)"),
        repair=_score_again,
    ),
    _no_dangling(
        "no_link_of_an_unknown_tana_node",
        "tana_graph",
        "Every link and field belongs to a node of Tana that is known.",
        {
            "tana_links": ("concat('link of ', source)", "source NOT IN (SELECT id FROM tana_nodes)"),
            "tana_fields": ("concat('field of ', node)", "node NOT IN (SELECT id FROM tana_nodes)"),
        },
    ),
    Invariant(
        "every_canonical_entry_has_provenance",
        "canonical_entries",
        "Every entry of the homes says where and when it was learned: source_cwd and ingested_at.",
        _without_provenance,
        "Write source_cwd and ingested_at into the frontmatter of those entries; what apply writes has them.",
        is_warning=True,
    ),
    Invariant(
        "no_name_twice_in_a_home",
        "canonical_entries",
        "No two entries of one home have the same name.",
        _doubled_names,
        "Give one of them another name, or merge them by hand.",
        is_warning=True,
    ),
    Invariant(
        "no_index_line_without_a_file",
        "silo_backlog",
        "Every line of a silo's MEMORY.md that points to a file points to one that is there.",
        _selected(f"SELECT concat(path, ': ', file) FROM {DANGLING_HOOKS}"),
        "`memory status --refused` names the lines; take them out, or put the files back.",
        is_warning=True,
    ),
)
