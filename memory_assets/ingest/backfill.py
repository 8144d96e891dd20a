"""Backfill after a change of embedder or pipeline: recomputes vectors or features in batches, while the memories stay in use."""

import logging
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime

import pyarrow as pa

from memory_assets.ingest.memories import write_accepted
from memory_assets.language.embedders import Embedder, spec_to_move_to
from memory_assets.language.embedders.calibration import MEASURED, measure
from memory_assets.language.embedders.context import embed_in_context
from memory_assets.language.embedders.protocol import EmbedderError
from memory_assets.language.pipeline import Analyzer
from memory_assets.stores import lance
from memory_assets.stores.embedding_columns import meaning_column, vector_array
from memory_assets.stores.memories import MemoryStore
from memory_assets.stores.rows import SCHEMA, heading, rows_of, statement
from memory_assets.tenants import Tenant

_log = logging.getLogger(__name__)
_EMBEDDED = ("author", "created_at", "project", "title", "content")
_CHUNK = 512
"""Memories per commit: the most work that a kill can lose."""
_COMMITS_TO_MERGE = 8
"""Commits after which their rows are merged into the indices: lookups by id would scan them."""


def reembed(store: MemoryStore, embedder: Embedder, on_progress: Callable[[int, int], None]) -> int:
    """Compute this embedder's missing vectors, then make them live and drop the old ones. Returns how many memories were embedded.

    Further passes embed memories that were stored or changed meanwhile. The switch follows when none is left; later commits of the old
    embedder's vectors are refused. In object storage a commit may overlap the switch: a last pass, and `catch_up`, embed its memories.
    After a failure finished batches are kept, and the old vectors stay live. A text that the embedder refuses fails the move at its end.
    """
    column = _calibrate(store, embedder)
    meaning = meaning_column(column)
    missing = f"{column} IS NULL OR {meaning} IS NULL"
    done, refused = 0, dict[int, str]()

    def write(batch: pa.RecordBatch) -> None:
        nonlocal done
        author, created_at, project, title, content = (batch[name].to_pylist() for name in _EMBEDDED)
        headings = list(map(heading, author, created_at, project))
        vectors = embed_in_context(embedder, list(map(statement, title, content)), headings)
        filled = {column: vector_array(vectors.in_context), meaning: vector_array(vectors.meanings)}
        now = pa.array([datetime.now(UTC)] * batch.num_rows, SCHEMA.field("updated_at").type)
        rows = pa.table({"id": batch["id"], **filled, "updated_at": now})
        done += store.update(rows, batch["updated_at"].to_pylist())

    while True:
        todo = store.scan(("id", *_EMBEDDED, "updated_at"), missing)
        total = done + todo.num_rows
        for number, batch in enumerate(todo.to_batches(max_chunksize=_CHUNK), 1):
            refused |= {row["id"][0].as_py(): fault for row, fault in write_accepted(batch, write, embedder)}
            on_progress(done, total)
            if number % _COMMITS_TO_MERGE == 0:
                store.upkeep.after_commit()
        if refused:
            (number, fault), *more = refused.items()
            others = f" and {len(more)} more" if more else ""
            raise EmbedderError(
                f"Memory {number}{others} cannot be moved, all others are ready: {fault}; shorten it with `memory edit {number}`,"
                " or erase it, and run `memory backfill` again."
            )
        if store.columns.live == column and not store.table.count_rows(missing):
            return done
        with store.columns.switching():
            if not store.table.count_rows(missing):
                store.columns.make_live(column)


def catch_up(tenant: Tenant, on_progress: Callable[[int, int], None]) -> int:
    """Move the memories to the settings' embedder and its current method. Returns how many memories were embedded.

    If other hosts share them, only a move on purpose changes the embedder: hosts with different settings would move them in turn.
    """
    if tenant.memories.exists:
        tenant.memories.prepare()
    columns = tenant.memories.columns
    better = spec_to_move_to(tenant.settings.embedder, columns.embedder)
    if better and tenant.settings.state_uri:
        _log.warning(
            "memory: The memories of the tenant %r stay embedded by %s while MEMORY_EMBEDDER of this host is %s; give all hosts the same, "
            "and to move the memories to it launch `move_models`.",
            tenant.name,
            columns.embedder,
            better,
        )
        better = None
    if better or columns.outdated:
        return reembed(tenant.memories, tenant.open_embedder(better) if better else tenant.embedder, on_progress)
    if columns.live and tenant.memories.count_missing():
        return reembed(tenant.memories, tenant.embedder, on_progress)
    if columns.embedder and columns.embedder not in MEASURED and columns.scale is None:
        _calibrate(tenant.memories, tenant.embedder)
    return 0


def _calibrate(store: MemoryStore, embedder: Embedder) -> str:
    """Add the column of this embedder, and measure and store its scale unless that is known."""
    column = store.columns.add(embedder.name, embedder.dimension)
    if embedder.name not in MEASURED:
        store.columns.keep_scale(column, lambda: measure(embedder))
    return column


def outdated(analyzer: Analyzer) -> str:
    """Return a Lance filter for directly stored memories that another pipeline analysed; `memory run` updates those from files."""
    return f"source_key = '' AND pipeline <> {lance.quoted([analyzer.name])[1:-1]}"


def reanalyse(store: MemoryStore, analyzer: Analyzer, on_progress: Callable[[int, int], None]) -> int:
    """Recompute entities and actions, but no tags, that another pipeline found; return how many memories were analysed."""
    todo = store.scan(("id", "content", "updated_at"), outdated(analyzer))
    done = 0
    for batch in todo.to_batches(max_chunksize=_CHUNK):
        found = analyzer.analyze_batch(batch["content"].to_pylist())
        rows = rows_of(
            id=batch["id"].to_pylist(),
            entities=[[asdict(entity) for entity in features.entities] for features in found],
            actions=[list(features.actions) for features in found],
            pipeline=[analyzer.name] * batch.num_rows,
        )
        done += store.update(rows, batch["updated_at"].to_pylist())
        on_progress(done, todo.num_rows)
    return done
