"""Invariants of a tenant's data, each with its mend. `memory doctor` and Dagster's checks share this list.

Statistics do not belong here but in the assets' metadata.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from memory_assets.graph.decided_names import read_spellings
from memory_assets.graph.edges import refresh_graph
from memory_assets.graph.relevance import decay_cycle
from memory_assets.ingest.backfill import reembed
from memory_assets.ingest.scans import DANGLING_HOOKS
from memory_assets.language.embedders.protocol import are_whole
from memory_assets.learn.memory_files import read_homes
from memory_assets.models import Source, State
from memory_assets.stores import lance
from memory_assets.stores.embedding_columns import meaning_column
from memory_assets.stores.memories import SUPERSEDABLE
from memory_assets.stores.schema import LANCE_TABLES, MEMORIES
from memory_assets.stores.schema_differences import catalog_differences, differences
from memory_assets.tenants import Tenant

_SAMPLE = 20_000
"""Embeddings that are checked: those of the rows written last."""
_LARGE_SHARE = 0.5
_DOCTOR = "Run `memory doctor --mend`."
_GRAPH = "graph_nodes graph_edges graph_mentions graph_aliases graph_memories graph_surfaces graph_cues graph_position".split()  # noqa: SIM905
_SCORES = ("relevance_scores", "scored_memories", "scored_position")


Find = Callable[[Tenant], list[str]]
Repair = Callable[[Tenant], None]


@dataclass(frozen=True, slots=True)
class Invariant:
    """A condition that every tenant's data must meet."""

    name: str
    asset: str
    """The asset to which Dagster attaches the check."""
    promise: str
    find: Find
    """Returns the names of the rows, files or columns that break it."""
    mend: str = _DOCTOR
    repair: Repair | None = None
    """Carries out the mend for `memory doctor --mend`; None if only a person can."""
    is_blocking: bool = False
    """Whether downstream assets must not run if it is broken."""
    is_warning: bool = False
    """Whether it only warns, mostly about files that the user owns."""
    broken: str = ""
    """Sentence for a broken invariant; empty: made from the promise."""


def _find_table_differences(tenant: Tenant) -> list[str]:
    tables = zip((tenant.memories.stored, tenant.relations.stored), LANCE_TABLES, strict=True)
    there = [(table, stored.reading.schema) for stored, table in tables if stored.exists]
    return [each for table, schema in there for each in differences(table, {field.name: str(field.type) for field in schema})]


def _find_catalog_differences(tenant: Tenant) -> list[str]:
    with tenant.catalog.read() as connection:
        return catalog_differences(connection)


def _delete_older_duplicates(tenant: Tenant, broken: Sequence[str]) -> None:
    for name in broken:
        table, number = name.split()
        stored = (tenant.memories if table == MEMORIES.name else tenant.relations).stored
        time = "updated_at" if table == MEMORIES.name else "created_at"
        rows = lance.scan(stored.reading).where(f"id = {number}").select([time]).with_row_id(True).to_arrow().to_pylist()
        newest, writing = max(rows, key=lambda row: row[time]), stored.writing
        where = f"_rowid IN ({', '.join(str(row['_rowid']) for row in rows if row is not newest)})"
        lance.commit(
            stored, lambda writing=writing, where=where: writing.delete(where), f"Duplicates in {stored.uri} could not be removed"
        )


def _find_without_unit_embedding(tenant: Tenant) -> list[str]:
    column = tenant.memories.columns.live
    active = f"state = '{State.ACTIVE}'"
    rows = tenant.memories.scan(("id", "updated_at"), active)
    if column is None or not rows.num_rows:
        return [f"memory {number}" for number in rows["id"].to_pylist()]
    newest = rows.sort_by([("updated_at", "descending")])["id"].slice(0, _SAMPLE).to_pylist()
    found = tenant.memories.scan(("id", column), f"{active} AND {lance.ids_in(newest)}")
    vectors = found[column].combine_chunks()
    whole = np.asarray(vectors.is_valid())
    whole[whole] = are_whole(vectors.drop_null().flatten().to_numpy().reshape(-1, vectors.type.list_size))
    return [f"memory {number}" for number in found["id"].to_numpy()[~whole]]


def _embed_again(tenant: Tenant, broken: Sequence[str]) -> None:
    if column := tenant.memories.columns.live:
        empty = (column, meaning_column(column))
        _set_columns(dict.fromkeys(empty), tenant, broken)
    reembed(tenant.memories, tenant.embedder, lambda _done, _total: None)


def _set_columns(values: dict[str, Any], tenant: Tenant, names: Sequence[str]) -> None:
    rows = tenant.memories.scan(("id", "updated_at"), lance.ids_in(_parse_ids(names)))
    schema = tenant.memories.table.schema
    columns = {name: pa.array([value] * rows.num_rows, schema.field(name).type) for name, value in values.items()}
    now = pa.array([datetime.now(UTC)] * rows.num_rows, schema.field("updated_at").type)
    tenant.memories.update(pa.table({"id": rows["id"], **columns, "updated_at": now}), rows["updated_at"].to_pylist())


def _parse_ids(names: Iterable[str]) -> list[int]:
    """Parse the ids in names such as `memory 3`."""
    return [int(name.split()[1]) for name in names]


def _supersede_older(tenant: Tenant, broken: Sequence[str]) -> None:
    for name in broken:
        newest, *older = map(int, name.removeprefix("memories ").split(", "))
        tenant.memories.transition(older, SUPERSEDABLE, State.SUPERSEDED, superseded_by=[newest] * len(older))


def _rebuild_graph(tenant: Tenant, _broken: Sequence[str]) -> None:
    _clear_tables(tenant, _GRAPH)
    refresh_graph(tenant.catalog, tenant.memories, tenant.relations, read_spellings(tenant))


def _score_again(tenant: Tenant, _broken: Sequence[str]) -> None:
    _clear_tables(tenant, _SCORES)
    decay_cycle(tenant, datetime.now(UTC))


def _clear_tables(tenant: Tenant, tables: Sequence[str]) -> None:
    with tenant.catalog.write() as connection:
        for table in tables:
            connection.execute(f"DELETE FROM {table}")


def _delete_dangling(tables: Sequence[str], tenant: Tenant, _broken: Sequence[str]) -> None:
    _clear_tables(tenant, [f"{table} WHERE {_DANGLING[table]}" for table in tables])


def _find_by_query(query: str, tenant: Tenant) -> list[str]:
    """Run a query over the catalog and the stores; its one column names the rows."""
    words = set(re.findall(r"\w+", query))
    with tenant.catalog.read() as connection:
        if "stored_memories" in words:
            columns = [column.name for column in MEMORIES.columns if column.name in words]
            connection.register("stored_memories", tenant.memories.scan(columns))
        if "stored_relations" in words:
            connection.register("stored_relations", tenant.relations.scan())
        return [name for (name,) in connection.execute(query).fetchall()]


def _find_duplicate_names(tenant: Tenant) -> list[str]:
    by_name: dict[tuple[str, str], list[str]] = {}
    for entry in read_homes(tenant).entries:
        by_name.setdefault((entry.item.kind, entry.item.title), []).append(str(entry.path))
    return [path for _, *later in by_name.values() for path in later]


def _refused_files_invariant(asset: str, source: Source) -> Invariant:
    """Return the invariant for a source's refused files. It leaves out reasons, which may quote a file."""
    query = f"""
        SELECT DISTINCT path || if(location = '', '', ' at ' || location) FROM source_refusals
        WHERE source = '{source}' AND mend <> '' ORDER BY ALL
    """
    return Invariant(
        f"no_file_of_{asset}_is_refused",
        asset,
        "Every file is taken in, or skipped for a reason that needs no mend.",
        partial(_find_by_query, query),
        "`memory status --refused` says why, and how to mend each file; everything else was taken in.",
        is_warning=True,
        broken="Files, or parts of them, were not taken in",
    )


_DANGLING = {
    "creative_links": "EXISTS (FROM graph_position) AND "
    "(source_id NOT IN (SELECT id FROM graph_memories) OR target_id NOT IN (SELECT id FROM graph_memories))",
    "cluster_members": "memory_id NOT IN (SELECT id FROM graph_memories) OR cluster_id NOT IN (SELECT id FROM clusters)",
    "tana_links": "source NOT IN (SELECT id FROM tana_nodes)",
    "tana_fields": "node NOT IN (SELECT id FROM tana_nodes)",
}
"""Table of the catalog -> condition for rows that point to nothing."""
_INVARIANTS = f"""
every_text_is_analysed (memories, warning): Every text can be analysed and embedded.
    SELECT content_hash FROM extracted_features WHERE fault IS NOT NULL

few_memories_are_archived (relevance_scores, warning): At most {_LARGE_SHARE:.0%} of the active and archived memories are archived.
    SELECT concat(count_if(state = 'archived'), ' archived, ', count_if(state = 'active'), ' in recall')
    FROM stored_memories WHERE state IN ('archived', 'active')
    HAVING count_if(state = 'archived') > {_LARGE_SHARE} * count(*)

every_memory_is_scored (relevance_scores): Every memory that the last scoring pass found active has a score.
    SELECT concat('score of ', id) FROM scored_memories ANTI JOIN relevance_scores USING (id) WHERE state = 'active'

every_memory_is_a_node (graph_edges): Every memory that takes part in the graph is a node of it.
    SELECT concat('node ', id) FROM graph_memories ANTI JOIN graph_nodes USING (id) WHERE live

edges_within_bounds (graph_edges): The confidence of every edge lies within 0 and 1, and none leads from a node to itself.
    SELECT concat('edge ', source_id, ' to ', target_id) FROM graph_edges
    WHERE NOT coalesce(confidence BETWEEN 0 AND 1, false) OR source_id = target_id

catalog_is_as_registered (memory_entries, blocking): The catalog has the tables and columns of the registry of schemas.

tables_are_as_registered (memories, blocking): The tables of memories and relations have the columns of the registry of schemas.

every_key_is_unique (memories, blocking): No two memories, and no two relations, have one id.
    SELECT concat('memories ', id) FROM stored_memories GROUP BY id HAVING count(*) > 1
    UNION ALL SELECT concat('relations ', id) FROM stored_relations GROUP BY id HAVING count(*) > 1

every_memory_has_a_unit_embedding (memories): Every memory in recall has an embedding of unit length; looks at the {_SAMPLE:,}
written last.

one_memory_per_source_key (memories): Each file or entry of this machine has one current memory.
    SELECT concat('memories ', string_agg(id, ', ' ORDER BY updated_at DESC)) FROM stored_memories s
    SEMI JOIN entry_keys k ON k.key = source_key AND k.content_hash = s.content_hash
    WHERE state IN {lance.quoted(SUPERSEDABLE)} GROUP BY source_key HAVING count(*) > 1 ORDER BY source_key

no_memory_of_a_vanished_file (memories): Every memory from a file that was read here comes from a file that the catalog knows.
    SELECT concat('memory ', id, ' of ', source_key) FROM stored_memories s
    SEMI JOIN entry_keys k ON k.key = source_key AND k.content_hash = s.content_hash
    WHERE state = 'active' AND source_key NOT IN (SELECT key FROM memory_entries)

no_active_memory_is_superseded (memories): A memory that another one replaced is not in recall.
    SELECT concat('memory ', id) FROM stored_memories WHERE superseded_by IS NOT NULL AND state = 'active'

importance_and_confidence_within_bounds (memories): Importance and confidence lie within 0 and 1.
    SELECT concat('memory ', id) FROM stored_memories
    WHERE NOT coalesce(importance BETWEEN 0 AND 1 AND confidence BETWEEN 0 AND 1, false)

no_memory_of_the_future (memories, warning): No memory in recall was created in the future, as a clock that was ahead makes them.
    SELECT concat('memory ', id) FROM stored_memories WHERE state = 'active' AND created_at > now() + INTERVAL 1 DAY

no_relation_dangles (graph_edges): Both memories of every stated relation exist.
    SELECT concat('relation ', id) FROM stored_relations
    WHERE source_id NOT IN (SELECT id FROM stored_memories) OR target_id NOT IN (SELECT id FROM stored_memories)

no_edge_dangles (graph_edges): Both ends of every edge and mention are nodes.
    SELECT edge FROM (
        SELECT unnest([source_id, target_id]) AS id, concat('edge ', source_id, ' to ', target_id) AS edge FROM graph_edges
        UNION ALL SELECT unnest([memory_id, entity_id]), concat('mention ', memory_id, ' of ', entity_id) FROM graph_mentions
    ) ANTI JOIN graph_nodes USING (id)

no_creative_link_dangles (creative_links): Both memories of every creative link are known.
    SELECT concat('link ', source_id, ' to ', target_id) FROM creative_links WHERE {_DANGLING["creative_links"]}

no_member_dangles (clusters): Every member of a cluster is a known memory of a known cluster.
    SELECT concat('member ', memory_id, ' of ', cluster_id) FROM cluster_members WHERE {_DANGLING["cluster_members"]}

scores_within_bounds (relevance_scores): Scores lie within 0 and 1.
    SELECT concat('score of ', id) FROM relevance_scores WHERE NOT coalesce(relevance BETWEEN 0 AND 1, false)

no_link_of_an_unknown_tana_node (tana_graph): Every link and field belongs to a node of Tana that is known.
    SELECT concat('link of ', source) FROM tana_links WHERE {_DANGLING["tana_links"]}
    UNION ALL SELECT concat('field of ', node) FROM tana_fields WHERE {_DANGLING["tana_fields"]}

every_canonical_entry_has_provenance (canonical_entries, warning): Every entry of the homes says where and when it was learned
(source_cwd and ingested_at).

no_name_twice_in_a_home (canonical_entries, warning): No two entries of one home have the same name.

no_index_line_without_a_file (silo_backlog, warning): Every file to which a line of a silo's MEMORY.md points exists.
    SELECT concat(path, ': ', file) FROM {DANGLING_HOOKS}
"""
"""One paragraph each: name, asset, mark, promise, and a query whose rows break it; without a query, see `_FINDERS`.

A query reads the catalog and LanceDB's `stored_relations` and `stored_memories`; the latter has only columns that the query names.
"""
_PARAGRAPH = re.compile(r"(?P<name>\w+) \((?P<asset>\w+)(, (?P<mark>\w+))?\): (?P<promise>.+?)(\n {4}(?P<query>.+))?", re.DOTALL)
_FINDERS: dict[str, Find] = {
    "catalog_is_as_registered": _find_catalog_differences,
    "tables_are_as_registered": _find_table_differences,
    "every_memory_has_a_unit_embedding": _find_without_unit_embedding,
    "every_canonical_entry_has_provenance": lambda tenant: [
        str(entry.path) for entry in read_homes(tenant).entries if entry.missing_provenance
    ],
    "no_name_twice_in_a_home": _find_duplicate_names,
}
_MENDS = {
    "every_text_is_analysed": "`memory status --refused` names the file; shorten the text.",
    "few_memories_are_archived": (
        "`memory search '' --archived` shows them; if too many, lower MEMORY_ARCHIVE_THRESHOLD or MEMORY_DECAY_RATE, then `memory run`."
    ),
    "catalog_is_as_registered": "Run `memory doctor --mend`, then `memory run`, which derives the catalog anew.",
    "tables_are_as_registered": "Restore the tables with `memory restore`, or upgrade memory_assets if a newer release wrote them.",
    "no_memory_of_a_vanished_file": "Run `memory run`, which takes memories of missing files out of recall.",
    "no_memory_of_the_future": (
        "`memory edit` its text, which gives it the present time, or forget it; in a file, write its `date` into the frontmatter."
    ),
    "every_canonical_entry_has_provenance": (
        "Write source_cwd and ingested_at into the frontmatter of those entries; entries that apply writes have them."
    ),
    "no_name_twice_in_a_home": "Give one of them another name, or merge them by hand.",
    "no_index_line_without_a_file": "`memory status --refused` names the lines; remove them, or restore the files.",
}
_BROKEN = {
    "every_text_is_analysed": "Some texts cannot be analysed or embedded",
    "few_memories_are_archived": f"More than {_LARGE_SHARE:.0%} of the active and archived memories are archived",
    "no_memory_of_the_future": "Memories are dated in the future, so they count as newer than all others",
    "every_canonical_entry_has_provenance": "Entries of the homes do not say where and when they were learned",
    "no_name_twice_in_a_home": "Entries of one home have the name of an earlier one",
    "no_index_line_without_a_file": "Lines of a silo's MEMORY.md point to files that do not exist",
}
_REPAIRS: dict[str, Callable[[Tenant, Sequence[str]], None]] = {
    "every_memory_is_scored": _score_again,
    "every_memory_is_a_node": _rebuild_graph,
    "edges_within_bounds": _rebuild_graph,
    "catalog_is_as_registered": lambda tenant, _broken: tenant.catalog.set_aside(),
    "every_key_is_unique": _delete_older_duplicates,
    "every_memory_has_a_unit_embedding": _embed_again,
    "one_memory_per_source_key": _supersede_older,
    "no_active_memory_is_superseded": partial(_set_columns, {"superseded_by": None}),
    "importance_and_confidence_within_bounds": partial(_set_columns, {"importance": 0.5, "confidence": 1.0}),
    "no_relation_dangles": lambda tenant, broken: tenant.relations.withdraw(_parse_ids(broken)),
    "no_edge_dangles": _rebuild_graph,
    "no_creative_link_dangles": partial(_delete_dangling, ["creative_links"]),
    "no_member_dangles": partial(_delete_dangling, ["cluster_members"]),
    "scores_within_bounds": _score_again,
    "no_link_of_an_unknown_tana_node": partial(_delete_dangling, ["tana_links", "tana_fields"]),
}


def _parse_invariant(paragraph: str) -> Invariant:
    found = _PARAGRAPH.fullmatch(paragraph)
    assert found, paragraph
    name, query, mark, repair = found["name"], found["query"], found["mark"], _REPAIRS.get(found["name"])
    find = partial(_find_by_query, query) if query else _FINDERS[name]
    return Invariant(
        name,
        found["asset"],
        " ".join(found["promise"].split()),
        find,
        _MENDS.get(name, _DOCTOR),
        (lambda tenant: repair(tenant, find(tenant))) if repair else None,
        is_blocking=mark == "blocking",
        is_warning=mark == "warning",
        broken=_BROKEN.get(name, ""),
    )


INVARIANTS = (
    *map(_refused_files_invariant, ("silo_files", "seed_entries", "learning_entries"), Source),
    *map(_parse_invariant, _INVARIANTS.strip().split("\n\n")),
)
