"""Synchronises the `memories` table with entries and their features: new, changed, superseded, vanished and returned memories.

DuckDB compares the table with the entries as sets; only differences are embedded and written. If a run is killed, the next one continues
after the last commit.
"""

import json
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from memory_assets.compute import pc
from memory_assets.ingest.features import moves_table
from memory_assets.language.embedders.context import embed_in_context
from memory_assets.language.embedders.protocol import Embedder, EmbedderAwayError, EmbedderError
from memory_assets.language.tags import merge_tags
from memory_assets.models import LAST_CHANGE, MACHINE, Memory, State
from memory_assets.stores.catalog import Catalog
from memory_assets.stores.lance import ids_in, quoted
from memory_assets.stores.layout import read_moves
from memory_assets.stores.memories import SUPERSEDABLE, MemoryStore
from memory_assets.stores.rows import DERIVED, SCHEMA, derived_id, from_arrow, headed, rows_of, to_arrow

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from memory_assets.language.embedders.protocol import Embedder
    from memory_assets.tenants import Tenant

_CHUNK = 512
"""Memories per commit."""

_COMPARED = ("id", "source", "source_key", "state", "content_hash", "revision", "updated_at")
_GONE = (State.VANISHED, State.SUPERSEDED)
"""States from which a memory returns when its source contains it again."""
_SAME_TEXT = "e.key = x.source_key AND e.content_hash = x.content_hash"
_USERS_OWN = ("state", "superseded_by", "protected", "external_id")
"""Columns that an update from a source does not write, because they may have changed since they were read."""


@dataclass(slots=True)
class MemoriesOutcome:
    """Counts of one synchronisation."""

    added: int = 0
    updated: int = 0
    superseded: int = 0
    vanished: int = 0
    returned: int = 0
    not_embedded: int = 0
    """Texts that the embedder refuses; `memory status --refused` names them, and the next run tries them again."""

    @property
    def changed(self) -> int:
        """Number of rows written."""
        return self.added + self.updated + self.superseded + self.vanished + self.returned


def sync_memories(tenant: "Tenant", on_progress: Callable[[int, int], None]) -> MemoriesOutcome:
    """Update the `memories` table from `memory_entries` and `extracted_features`.

    A changed text becomes a new memory that supersedes the old one; a changed attribute updates its memory; a memory that vanished from
    its source is deactivated until it returns. Memories that were restored or imported and never read from this machine's files are
    kept, even beside a file of the same key. Forgotten and archived memories stay so. Finished commits are kept. The embedder is opened
    only if there is something to embed; a text that it refuses is recorded with its fault.
    """
    catalog, store, moves = tenant.catalog, tenant.memories, read_moves(tenant.folder)
    existing = store.scan(_COMPARED, "source_key <> ''")
    with catalog.read() as connection:
        _find_own(connection, store, existing, moves)
        keys, covered, displaced = _find_moved(connection)
        plan = None if keys else _plan(connection, covered)
    if plan is None:
        read_at = existing.filter(pc.field("id").isin(list(keys)))["updated_at"].to_pylist()
        store.update(rows_of(id=list(keys), source_key=list(keys.values())), read_at)
        existing = store.scan(_COMPARED, "source_key <> ''")
        with catalog.read() as connection:
            _find_own(connection, store, existing, moves)
            plan = _plan(connection, covered)
    to_write, to_return, to_supersede, vanished = plan
    outcome = MemoriesOutcome()
    embedder = tenant.embedder if to_write.num_rows else None
    done, refused, unmade = 0, list[tuple[str, str]](), set[int]()
    for batch in to_write.to_batches(max_chunksize=_CHUNK):
        assert embedder is not None
        for rows, fault in write_accepted(batch, partial(_write_batch, store, embedder, outcome=outcome), embedder):
            (row,) = rows.to_pylist()
            refused.append((row["content_hash"], f"the text cannot be embedded: {fault}"))
            if row["same_id"] is None:
                unmade.add(derived_id(row["key"], row["content_hash"]))
        done += batch.num_rows
        on_progress(done, to_write.num_rows)
    if refused:
        outcome.not_embedded = len(refused)
        with catalog.write() as connection:
            # Without a pipeline, the next run analyses and embeds the text again.
            note = "UPDATE extracted_features SET pipeline = '', fault = $2 WHERE content_hash = $1"
            connection.executemany(note, refused)
    for state, back in to_return.items():
        outcome.returned += len(store.transition(back, _GONE, state, superseded_by=[None] * len(back)))
    for states, replaced in to_supersede.items():
        old = [number for number, newer in replaced.items() if newer not in unmade]
        new = [replaced[number] for number in old]
        outcome.superseded += len(store.transition(old, states, State.SUPERSEDED, superseded_by=new))
    outcome.vanished = len(store.transition([*vanished, *displaced], (State.ACTIVE,), State.VANISHED))
    store.upkeep.after_commit()
    return outcome


def find_said(catalog: Catalog, store: MemoryStore) -> frozenset[int]:
    """Return the ids of the memories whose text a current entry of the same key has."""
    existing = store.scan(("id", "source_key", "content_hash"), "source_key <> ''")
    with catalog.read() as connection:
        connection.register("existing", existing)
        said = connection.execute(f"SELECT x.id FROM existing x SEMI JOIN memory_entries e ON {_SAME_TEXT}").fetchall()
    return frozenset(number for (number,) in said)


def is_unsaid(catalog: Catalog, memory: Memory) -> bool:
    """Return whether a memory was read from a file of this machine that no longer says its text."""
    unsaid = "SELECT 1 FROM entry_keys ANTI JOIN memory_entries USING (key, content_hash) WHERE key = ? AND content_hash = ?"
    return bool(catalog.fetch(unsaid, [memory.source_key, memory.content_hash]))


def _find_own(connection: "DuckDBPyConnection", store: MemoryStore, existing: pa.Table, moves: Mapping[str, str]) -> None:
    """Create the tables `existing`, `moves` and `own`: the memories that were read from files of this machine.

    Two machines may have different files with the same key. A rebuilt catalog does not know which files it had read; then the recorded
    machine and the file's folder, or the curation, decide.
    """
    connection.register("existing", existing)
    connection.register("moves", moves_table(moves))
    connection.execute("""
        CREATE TEMP TABLE own AS SELECT x.id, any_value(text_hash) AS text_hash FROM existing x JOIN (
            FROM entry_keys UNION ALL BY NAME SELECT k.* REPLACE (m.canonical AS key) FROM entry_keys k JOIN moves m ON m.silo = k.key
        ) k ON k.key = x.source_key AND k.content_hash = x.content_hash GROUP BY x.id
    """)
    unread = connection.execute(f"""
        SELECT x.id FROM existing x SEMI JOIN source_scans s USING (source) ANTI JOIN own o ON o.id = x.id
        WHERE x.state IN {quoted(SUPERSEDABLE)} AND (x.state = 'active' OR x.source_key IN (SELECT key FROM memory_entries))
    """).fetchall()
    if unread:
        folders = {PurePath(path).parent for (path,) in connection.execute("SELECT path FROM source_files").fetchall()}
        rows = store.scan(("id", "source_key", "metadata"), ids_in(number for (number,) in unread)).to_pylist()
        noted = [(row["id"], row["source_key"], json.loads(row["metadata"])) for row in rows]
        own = [
            number
            for number, key, each in noted
            if each.get(MACHINE) == socket.gethostname() and (key in moves or PurePath(each.get("path", "")).parent in folders)
        ]
        connection.execute("INSERT INTO own (id) SELECT unnest($1::BIGINT[])", [own])


def _find_moved(connection: "DuckDBPyConnection") -> tuple[dict[int, str], list[str], list[int]]:
    """Return new source keys by memory whose source moved, the keys of entries that another memory already covers, and displaced memories.

    A curated silo memory gets the key of its canonical file. It gets its first key back if the curation is undone, or if the file returns
    after the canonical one is gone; its id, derived from the first key and text, identifies it. A renamed or moved file keeps its memory,
    and with it the user's decisions about it. A memory that it displaces, whose file it overwrote, gets its former key: it vanished, and
    nothing replaced it.
    """
    adopted = connection.execute("""
        SELECT x.id, m.canonical FROM existing x SEMI JOIN own o ON o.id = x.id
        JOIN moves m ON m.silo = x.source_key
        JOIN memory_entries e ON e.key = m.canonical
        ANTI JOIN memory_entries s ON s.key = x.source_key AND s.content_hash = x.content_hash
        WHERE x.content_hash <> e.content_hash
           OR NOT EXISTS (FROM existing y WHERE y.source_key = e.key AND y.content_hash = e.content_hash)
        QUALIFY x.content_hash <> e.content_hash
             OR row_number() OVER (PARTITION BY e.key, x.content_hash ORDER BY x.state <> 'active', x.id) = 1
    """).fetchall()
    missing = connection.execute("""
        SELECT e.key, e.content_hash FROM memory_entries e
        ANTI JOIN existing x ON x.source_key = e.key AND x.content_hash = e.content_hash
    """).fetchall()
    keys = dict(adopted)
    if not missing:
        return keys, [], []
    said = connection.execute(f"SELECT x.id FROM existing x SEMI JOIN memory_entries e ON {_SAME_TEXT}").fetchall()
    there = {number for (number,) in connection.execute("SELECT id FROM existing").fetchall()}
    taken = {number: key for key, digest in missing if (number := derived_id(key, digest)) in there and number not in keys}
    alive = {number for (number,) in said}
    returned = {number: key for number, key in taken.items() if number not in alive}
    connection.execute(
        """
        CREATE TEMP TABLE renamed AS
        WITH left_behind AS (
            SELECT x.id, x.state, x.source, x.source_key, x.content_hash, row_number() OVER (
                PARTITION BY x.source, x.content_hash ORDER BY x.state <> 'forgotten', x.state <> 'active', x.source_key, x.id
            ) AS place
            FROM existing x SEMI JOIN entry_keys k ON k.key = x.source_key
            ANTI JOIN memory_entries s ON s.key = x.source_key AND s.content_hash = x.content_hash
            WHERE x.state <> 'superseded' AND NOT list_contains($1, x.id)
        ), unknown AS (
            SELECT e.key, e.source, e.content_hash, row_number() OVER (PARTITION BY e.source, e.content_hash ORDER BY e.key) AS place,
                   e.key NOT IN (SELECT source_key FROM existing) AS is_new
            FROM memory_entries e ANTI JOIN existing x ON x.source_key = e.key AND x.content_hash = e.content_hash
            WHERE NOT list_contains($2, e.key)
        )
        SELECT id, key, source_key, state FROM left_behind JOIN unknown USING (source, content_hash, place)
        WHERE is_new OR state IN ('active', 'forgotten')
        """,
        [[*keys, *taken], [*keys.values(), *taken.values()]],
    )
    renamed = connection.execute("SELECT id, key FROM renamed").fetchall()
    displaced = connection.execute(
        f"""
        SELECT x.id, r.source_key FROM existing x SEMI JOIN own o ON o.id = x.id JOIN renamed r ON r.key = x.source_key
        ANTI JOIN renamed n ON n.id = x.id ANTI JOIN memory_entries s ON s.key = r.source_key
        WHERE x.state IN {quoted(SUPERSEDABLE)} AND r.state <> 'vanished' AND NOT list_contains($1, x.id)
        """,
        [[*keys, *taken]],
    ).fetchall()
    covered = [key for number, key in taken.items() if number in alive]
    return keys | returned | dict(displaced) | dict(renamed), covered, [number for number, _ in displaced]


def _plan(
    connection: "DuckDBPyConnection", covered: Sequence[str]
) -> tuple[pa.Table, dict[State, list[int]], dict[tuple[State, ...], dict[int, int]], list[int]]:
    """Return entries to write, memories that return (by new state), new versions (by the old ones' states), and memories that vanished.

    A new version that says the same as a forgotten memory apart from index lines is forgotten, too, and supersedes it. A renamed file
    whose index line is lost supersedes the memory that it left behind.
    """
    connection.execute(f"""
        CREATE TEMP TABLE wanted AS
        SELECT e.* EXCLUDE (entry_hash), f.entities, f.actions, f.tags AS auto_tags, f.pipeline, read_on.machine,
               md5(entry_hash || f.pipeline) AS revision
        FROM memory_entries e JOIN extracted_features f USING (content_hash)
        LEFT JOIN (SELECT key, machine FROM source_items JOIN source_files USING (source, path)) read_on USING (key) WHERE f.fault IS NULL;
        CREATE TEMP TABLE current AS SELECT x.*, text_hash FROM existing x JOIN own USING (id) WHERE state <> 'superseded';
        CREATE TEMP TABLE reworded AS
        WITH left_behind AS (
            SELECT x.id, x.state, x.source, text_hash,
                   row_number() OVER (PARTITION BY x.source, text_hash ORDER BY x.source_key, x.id) AS place
            FROM current x ANTI JOIN wanted w ON w.key = x.source_key AND w.text_hash = x.text_hash
        ), unknown AS (
            SELECT w.key, w.source, text_hash, row_number() OVER (PARTITION BY w.source, text_hash ORDER BY w.key) AS place,
                   w.key NOT IN (SELECT source_key FROM existing) AS is_new
            FROM wanted w ANTI JOIN current x ON x.source_key = w.key AND x.text_hash = w.text_hash
        )
        SELECT id, key FROM left_behind JOIN unknown USING (source, text_hash, place) WHERE is_new OR state IN ('active', 'forgotten');
        CREATE TEMP TABLE heads AS
        SELECT w.key, any_value(x.id) FILTER (x.content_hash = w.content_hash) AS same_id,
               list(x.id ORDER BY x.id) FILTER (x.content_hash <> w.content_hash AND x.state IN {quoted(SUPERSEDABLE)}
                                                AND x.id = o.id) AS older,
               list(x.id ORDER BY x.id) FILTER (x.content_hash <> w.content_hash AND x.state = 'forgotten'
                                                AND o.text_hash = w.text_hash) AS forgotten
        FROM wanted w JOIN (
            SELECT source_key AS key, id FROM existing ANTI JOIN reworded USING (id) UNION ALL SELECT key, id FROM reworded
        ) k USING (key)
        JOIN existing x ON x.id = k.id LEFT JOIN own o ON o.id = x.id GROUP BY w.key;
    """)
    to_write = connection.execute(
        """
        SELECT w.*, h.same_id, h.older, h.forgotten, x.updated_at AS read_at
        FROM wanted w LEFT JOIN heads h USING (key) LEFT JOIN existing x ON x.id = h.same_id
        WHERE (x.id IS NULL OR x.revision <> w.revision) AND NOT list_contains($1, w.key)
        ORDER BY length(w.content), w.key
    """,
        [list(covered)],
    ).to_arrow_table()
    to_return: dict[State, list[int]] = {State.ACTIVE: [], State.FORGOTTEN: []}
    returned = (
        f"SELECT x.id, forgotten FROM heads JOIN existing x ON x.id = same_id WHERE x.state IN {quoted(_GONE)} ORDER BY x.id"
    )
    for number, forgotten in connection.execute(returned).fetchall():
        to_return[State.FORGOTTEN if forgotten else State.ACTIVE].append(number)
    older = "SELECT unnest(older), same_id FROM heads WHERE same_id IS NOT NULL"
    same = (
        "SELECT unnest(forgotten), key, content_hash, same_id FROM heads JOIN wanted USING (key) WHERE NOT list_contains($1, key)"
    )
    to_supersede: dict[tuple[State, ...], dict[int, int]] = {
        SUPERSEDABLE: dict(connection.execute(older).fetchall()),
        (State.FORGOTTEN,): {
            number: newer or derived_id(key, digest)
            for number, key, digest, newer in connection.execute(same, [list(covered)]).fetchall()
        },
    }
    vanished = connection.execute("""
        SELECT x.id FROM existing x SEMI JOIN own o ON o.id = x.id SEMI JOIN source_scans s USING (source)
        WHERE x.state = 'active' AND x.source_key NOT IN (SELECT key FROM memory_entries) ORDER BY x.id
    """).fetchall()
    return to_write, to_return, to_supersede, [number for (number,) in vanished]


def write_accepted(
    batch: pa.RecordBatch, write: Callable[[pa.RecordBatch], None], embedder: "Embedder"
) -> Iterator[tuple[pa.RecordBatch, str]]:
    """Embed and write a batch, except for texts that the embedder refuses: yield the row of each, and the fault."""
    parts, is_well = [batch], False
    while parts:
        part = parts.pop()
        try:
            write(part)
        except EmbedderError as error:
            if isinstance(error, EmbedderAwayError) and not error.failed:
                raise
            if not is_well:
                embedder.embed(["health"])
                is_well = True
            if part.num_rows == 1:
                yield part, str(error).partition("; ")[0]
            else:
                half = part.num_rows // 2
                parts += [part.slice(half), part.slice(0, half)]


def _write_batch(store: MemoryStore, embedder: "Embedder", batch: pa.RecordBatch, outcome: MemoriesOutcome) -> None:
    now = datetime.now(UTC)
    rows = batch.to_pylist()
    memories = _record_machines(store, from_arrow(_memory_rows(rows, now)), rows)
    headings, statements = zip(*map(headed, memories), strict=True)
    vectors = store.columns.fill(to_arrow(memories), embed_in_context(embedder, statements, headings), embedder.name)
    known = np.array([row["same_id"] is not None for row in rows])
    changed = vectors.filter(pa.array(known)).drop_columns(list(_USERS_OWN))
    new = vectors.filter(pa.array(~known))
    replaced = {
        old: memory.id for row, memory in zip(rows, memories, strict=True) if row["same_id"] is None for old in row["older"] or ()
    }
    if new.num_rows:
        outcome.superseded += store.insert_superseding(new, replaced)
    outcome.updated += store.update(changed, [row["read_at"] for row in rows if row["same_id"] is not None])
    outcome.added += new.num_rows


def _record_machines(store: MemoryStore, memories: Sequence[Memory], rows: Sequence[dict[str, Any]]) -> list[Memory]:
    """Record the machine on which each text was first read; known texts keep this record and that of their last change."""
    noted = {each.id: {MACHINE: row["machine"] or socket.gethostname()} for each, row in zip(memories, rows, strict=True)}
    known = store.get([row["same_id"] for row in rows if row["same_id"]])
    noted |= {each.id: {key: value for key, value in each.metadata.items() if key in (MACHINE, LAST_CHANGE)} for each in known}
    return [replace(each, metadata=each.metadata | noted[each.id]) for each in memories]


def _memory_rows(rows: Sequence[dict[str, Any]], now: datetime) -> pa.Table:
    fresh = {"external_id": "", "protected": False, "superseded_by": None, "updated_at": now}
    return pa.Table.from_pylist(
        [
            row
            | fresh
            | {
                "id": row["same_id"] or derived_id(row["key"], row["content_hash"]),
                "source_key": row["key"],
                "state": State.FORGOTTEN if row["forgotten"] else State.ACTIVE,
                "tags": list(merge_tags(row["tags"], row["auto_tags"])),
            }
            for row in rows
        ],
        schema=pa.schema([field for field in SCHEMA if field.name not in DERIVED]),
    )
