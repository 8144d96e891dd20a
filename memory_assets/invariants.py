"""What must hold of every tenant: one list for `memory doctor` and for Dagster's checks, each with the mend that mends it.

An invariant that follows from the registry of schemas is made from it. Statistics belong to the assets' metadata.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute

from memory_assets.ingest.scans import DANGLING_HOOKS
from memory_assets.models import Source, State
from memory_assets.stores import lance
from memory_assets.stores.schema import LANCE_TABLES, MEMORIES, Table, catalog_differences, differences
from memory_assets.stores.tables import StoredTable

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant

pc: Any = pyarrow.compute
"""Its functions are made at import, where no type checker sees them."""
_LENGTH_TOLERANCE = 1e-3
_SAMPLE = 20_000
"""Embeddings that are looked at: of the rows written last."""
_DOCTOR = "Run `memory doctor --mend`."
_GRAPH = "graph_nodes graph_edges graph_mentions graph_aliases graph_memories graph_surfaces graph_cues graph_position".split()  # noqa: SIM905
_SCORES = ("relevance_scores", "scored_memories", "scored_position")


@dataclass(frozen=True, slots=True)
class Invariant:
    """What must hold of every tenant."""

    name: str
    asset: str
    """The asset that it is checked for."""
    promise: str
    find: "Callable[[Tenant], Sequence[str]]"
    """The rows, files or columns that break it, each named."""
    mend: str = _DOCTOR
    """What a person does."""
    repair: "Callable[[Tenant], None] | None" = None
    """What `memory doctor --mend` does; None if only a person can."""
    is_blocking: bool = False
    """Whether the steps after the asset must not run on it."""
    is_warning: bool = False
    """Whether it lies in files of others, so that it fails nothing of ours."""


def _columns(stored: StoredTable, *names: str) -> pa.Table:
    if not stored.exists:
        return pa.table({name: pa.array([], pa.int64()) for name in names})
    return stored.reading.search().select(list(names)).limit(None).to_arrow()


def _repeated(rows: pa.Table, column: str) -> list[Any]:
    """The values that a column has more than once."""
    counted = rows.group_by(column).aggregate([([], "count_all")])
    return counted.filter(pc.field("count_all") > 1)[column].to_pylist()


def _tables(tenant: "Tenant") -> "Iterator[tuple[StoredTable, Table]]":
    return zip((tenant.memories.stored, tenant.relations.stored), LANCE_TABLES, strict=True)


def _unregistered(tenant: "Tenant") -> list[str]:
    there = [(table, stored.reading.schema) for stored, table in _tables(tenant) if stored.exists]
    return [each for table, schema in there for each in differences(table, {field.name: str(field.type) for field in schema})]


def _unregistered_catalog(tenant: "Tenant") -> list[str]:
    if not tenant.catalog.exists:
        return []
    with tenant.catalog.read() as connection:
        return catalog_differences(connection)


def _doubled(tenant: "Tenant") -> list[str]:
    keys = [(stored, table.name, key) for stored, table in _tables(tenant) for key in table.key]
    return [f"{name} {value}" for stored, name, key in keys for value in _repeated(_columns(stored, key), key)]


def _drop_twins(tenant: "Tenant") -> None:
    for name in _doubled(tenant):
        table, number = name.split()
        stored = (tenant.memories if table == MEMORIES.name else tenant.relations).stored
        time = "updated_at" if table == MEMORIES.name else "created_at"
        twins = stored.reading.search().where(f"id = {number}").select([time]).with_row_id(True).to_arrow().to_pylist()
        newest = max(twins, key=lambda row: row[time])
        older = [str(row["_rowid"]) for row in twins if row is not newest]
        stored.writing.delete(f"_rowid IN ({', '.join(older)})")


def _without_unit_embedding(tenant: "Tenant") -> list[str]:
    return [f"memory {number}" for number in _ids_without_embedding(tenant)]


def _ids_without_embedding(tenant: "Tenant") -> list[int]:
    import numpy as np

    column = tenant.memories.columns.live
    active = f"state = '{State.ACTIVE}'"
    rows = tenant.memories.scan(("id", "updated_at"), active)
    if column is None or not rows.num_rows:
        return rows["id"].to_pylist()
    newest = rows.sort_by([("updated_at", "descending")])["id"].slice(0, _SAMPLE).to_pylist()
    found = tenant.memories.scan(("id", column), f"{active} AND {lance.ids_in(newest)}")
    vectors = found[column].combine_chunks()
    there = np.asarray(vectors.is_valid())
    lengths = np.zeros(len(vectors))
    lengths[there] = np.linalg.norm(vectors.drop_null().flatten().to_numpy().reshape(-1, vectors.type.list_size), axis=1)
    return found["id"].to_numpy()[~(np.abs(lengths - 1) <= _LENGTH_TOLERANCE)].tolist()


def _embed_again(tenant: "Tenant") -> None:
    from memory_assets.ingest.backfill import reembed
    from memory_assets.stores.embedding_columns import meaning_column

    if column := tenant.memories.columns.live:
        empty = (column, meaning_column(column))
        _set(tenant, _ids_without_embedding(tenant), dict.fromkeys(empty))
    reembed(tenant.memories, tenant.embedder, lambda _done, _total: None)


def _set(tenant: "Tenant", ids: Sequence[int], values: dict[str, Any]) -> None:
    """Give these memories the same values."""
    if not ids:
        return
    rows = tenant.memories.scan(("id", "updated_at"), lance.ids_in(ids))
    schema = tenant.memories.table.schema
    columns = {name: pa.array([value] * rows.num_rows, schema.field(name).type) for name, value in values.items()}
    now = pa.array([datetime.now(UTC)] * rows.num_rows, schema.field("updated_at").type)
    tenant.memories.update(pa.table({"id": rows["id"], **columns, "updated_at": now}), rows["updated_at"].to_pylist())


def _with_one_source_key(tenant: "Tenant") -> Iterator[list[dict[str, Any]]]:
    """The memories of each source key that several are said to hold by, newest first."""
    rows = tenant.memories.scan(("id", "source_key", "updated_at"), f"source_key <> '' AND state <> '{State.SUPERSEDED}'")
    repeated = pa.array(_repeated(rows, "source_key"), pa.string())
    ordered = rows.filter(pc.is_in(rows["source_key"], repeated)).sort_by(
        [("source_key", "ascending"), ("updated_at", "descending")]
    )
    for _, same in groupby(ordered.to_pylist(), key=itemgetter("source_key")):
        yield list(same)


def _doubled_source_keys(tenant: "Tenant") -> list[str]:
    return [f"memories {', '.join(str(row['id']) for row in same)}" for same in _with_one_source_key(tenant)]


def _supersede_older(tenant: "Tenant") -> None:
    for newest, *older in _with_one_source_key(tenant):
        ids = [row["id"] for row in older]
        states = [state for state in State if state is not State.SUPERSEDED]
        tenant.memories.transition(ids, states, State.SUPERSEDED, superseded_by=[newest["id"]] * len(ids))


def _strangers(tenant: "Tenant") -> list[str]:
    rows = tenant.memories.scan(("id", "source_key"), f"source_key <> '' AND state = '{State.ACTIVE}'")
    with tenant.catalog.read() as connection:
        connection.register(
            "rows", rows
        )  # before the first run, and after an erase, a catalog knows no entry: then none is strange
        found = connection.execute("""
            SELECT id, source_key FROM rows ANTI JOIN memory_entries e ON e.key = rows.source_key
            WHERE EXISTS (FROM memory_entries)
        """)
        return [f"memory {number} of {key}" for number, key in found.fetchall()]


def _superseded_but_active(tenant: "Tenant") -> list[int]:
    return tenant.memories.scan(("id",), f"superseded_by IS NOT NULL AND state = '{State.ACTIVE}'")["id"].to_pylist()


def _out_of_bounds(tenant: "Tenant") -> list[int]:
    fraction = "({0} IS NULL OR isnan({0}) OR {0} < 0 OR {0} > 1)"
    where = " OR ".join(fraction.format(name) for name in ("importance", "confidence"))
    return tenant.memories.scan(("id",), where)["id"].to_pylist()


def _dangling_relations(tenant: "Tenant") -> list[int]:
    rows = _columns(tenant.relations.stored, "id", "source_id", "target_id")
    known = tenant.memories.scan(("id",))["id"].combine_chunks() if rows.num_rows else pa.array([], pa.int64())
    both = pc.and_(pc.is_in(rows["source_id"], known), pc.is_in(rows["target_id"], known))
    return rows.filter(pc.invert(both))["id"].to_pylist()


def _drop_relations(tenant: "Tenant") -> None:
    if ids := _dangling_relations(tenant):
        tenant.relations.stored.writing.delete(lance.ids_in(ids))


def _rebuild_graph(tenant: "Tenant") -> None:
    from memory_assets.graph.edges import refresh_graph

    _empty(tenant, _GRAPH)
    refresh_graph(tenant.catalog, tenant.memories, tenant.relations, tenant.analyzer.gazetteer.canonical)


def _score_again(tenant: "Tenant") -> None:
    from memory_assets.graph.relevance import decay_cycle

    _empty(tenant, _SCORES)
    decay_cycle(tenant, datetime.now(UTC))


def _empty(tenant: "Tenant", tables: Sequence[str]) -> None:
    with tenant.catalog.write() as connection:
        for table in tables:
            connection.execute(f"DELETE FROM {table}")


def _named(name: str, find: "Callable[[Tenant], list[int]]") -> "Callable[[Tenant], list[str]]":
    return lambda tenant: [f"{name} {number}" for number in find(tenant)]


def _selected(query: str) -> "Callable[[Tenant], list[str]]":
    """What a query on the catalog finds, whose one column names the rows."""

    def find(tenant: "Tenant") -> list[str]:
        with tenant.catalog.read() as connection:
            return [name for (name,) in connection.execute(query).fetchall()]

    return find


def _executed(statement: str) -> "Callable[[Tenant], None]":
    def repair(tenant: "Tenant") -> None:
        with tenant.catalog.write() as connection:
            connection.execute(statement)

    return repair


_LOST_LINKS = "source NOT IN (SELECT id FROM tana_nodes)"
_LOST_FIELDS = "node NOT IN (SELECT id FROM tana_nodes)"
_LOST_MEMBERS = "memory_id NOT IN (SELECT id FROM graph_memories) OR cluster_id NOT IN (SELECT id FROM clusters)"
_LOST_CREATIVE = "source_id NOT IN (SELECT id FROM graph_memories) OR target_id NOT IN (SELECT id FROM graph_memories)"


def _without_provenance(tenant: "Tenant") -> list[str]:
    from memory_assets.learn.memory_files import read_homes

    return [str(entry.path) for entry in read_homes(tenant).entries if entry.missing_provenance]


def _doubled_names(tenant: "Tenant") -> list[str]:
    from memory_assets.learn.memory_files import read_homes

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
        "Every file is taken in, or passed over for a reason that needs no mend.",
        _selected(query),
        "`memory status --refused` says why, and what mends each file; everything else was taken in.",
        is_warning=True,
    )


_LARGE_SHARE = 0.5
_UNSCORED = """
    SELECT concat('score of ', id) FROM graph_memories ANTI JOIN relevance_scores USING (id)
    WHERE state = 'active' AND EXISTS (FROM scored_position)
"""


def _mostly_archived(tenant: "Tenant") -> list[str]:
    if not tenant.memories.exists:
        return []
    archived, active = (tenant.memories.table.count_rows(f"state = '{state}'") for state in (State.ARCHIVED, State.ACTIVE))
    return [f"{archived} archived, {active} in recall"] if archived > _LARGE_SHARE * (archived + active) else []


INVARIANTS = (
    *map(_no_refused_file, ("silo_files", "seed_entries", "learning_entries"), Source),
    Invariant(
        "every_text_is_analysed",
        "extracted_features",
        "No text is too much for the language pipeline.",
        _selected("SELECT content_hash FROM extracted_features WHERE fault IS NOT NULL"),
        "`memory status --refused` names its file; shorten the text.",
        is_warning=True,
    ),
    Invariant(
        "few_memories_are_archived",
        "relevance_scores",
        f"At most {_LARGE_SHARE:.0%} of what could be in recall is archived.",
        _mostly_archived,
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
        _doubled,
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
        _doubled_source_keys,
        repair=_supersede_older,
    ),
    Invariant(
        "no_memory_of_another_tenant",
        "memories",
        "Every memory from a file comes from a file that this tenant's catalog knows.",
        _strangers,
        "Run `memory run`: memories of files that it does not find leave recall.",
    ),
    Invariant(
        "no_active_memory_is_superseded",
        "memories",
        "A memory that another one replaced is not in recall.",
        _named("memory", _superseded_but_active),
        repair=lambda tenant: _set(tenant, _superseded_but_active(tenant), {"superseded_by": None}),
    ),
    Invariant(
        "importance_and_confidence_within_bounds",
        "memories",
        "Importance and confidence lie within 0 and 1.",
        _named("memory", _out_of_bounds),
        repair=lambda tenant: _set(tenant, _out_of_bounds(tenant), {"importance": 0.5, "confidence": 1.0}),
    ),
    Invariant(
        "no_relation_dangles",
        "graph_edges",
        "Both memories of every stated relation exist.",
        _named("relation", _dangling_relations),
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
    Invariant(
        "no_creative_link_dangles",
        "creative_links",
        "Both memories of every creative link are known.",
        _selected(f"SELECT concat('link ', source_id, ' to ', target_id) FROM creative_links WHERE {_LOST_CREATIVE}"),
        repair=_executed(f"DELETE FROM creative_links WHERE {_LOST_CREATIVE}"),
    ),
    Invariant(
        "no_member_dangles",
        "clusters",
        "Every member of a cluster is a known memory of a known cluster.",
        _selected(f"SELECT concat('member ', memory_id, ' of ', cluster_id) FROM cluster_members WHERE {_LOST_MEMBERS}"),
        repair=_executed(f"DELETE FROM cluster_members WHERE {_LOST_MEMBERS}"),
    ),
    Invariant(
        "scores_within_bounds",
        "relevance_scores",
        "Scores lie within 0 and 1.",
        _selected("SELECT concat('score of ', id) FROM relevance_scores WHERE NOT coalesce(relevance BETWEEN 0 AND 1, false)"),
        repair=_score_again,
    ),
    Invariant(
        "no_link_of_an_unknown_tana_node",
        "tana_graph",
        "Every link and field belongs to a node of Tana that is known.",
        _selected(f"""
            SELECT concat('link of ', source) FROM tana_links WHERE {_LOST_LINKS}
            UNION ALL SELECT concat('field of ', node) FROM tana_fields WHERE {_LOST_FIELDS}
        """),
        repair=_executed(f"DELETE FROM tana_links WHERE {_LOST_LINKS}; DELETE FROM tana_fields WHERE {_LOST_FIELDS}"),
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
