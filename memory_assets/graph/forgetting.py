"""The forget cycle archives memories of low relevance, which is reversible, and can delete the least relevant ones.

Archiving changes only the state. Before the cycle deletes, it writes the memories to a file of the tenant that `memory import` reads.
A memory whose source still contains it is archived instead, because the next run would store it again. If more than a tenth of the
active memories (`forget_at_most`) would leave recall, a person must confirm: the cause is mostly a setting, or a store that was never
searched. A memory that changes during the cycle is skipped. A memory that replaces another stays while that one stays, which would
otherwise count as current again.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from memory_assets.graph.neighbours import LIVE
from memory_assets.graph.outdated import read_successors
from memory_assets.graph.relevance import compute_scores
from memory_assets.models import Memory, State
from memory_assets.stores.access_log import AccessLog, fold_accesses
from memory_assets.stores.catalog import Catalog
from memory_assets.stores.memories import MemoryStore
from memory_assets.stores.rows import to_jsonl

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant

FOLDER = "deleted"
_PER_COMMIT = 500
_Scored = tuple[tuple[Memory, float], ...]


@dataclass(frozen=True, slots=True)
class ForgetOutcome:
    """Outcome of a forget cycle; in a dry run, or if it was held back, what it would do."""

    scored: int
    active: int
    protected: int
    """Active memories below the archive threshold that stay because they are protected."""
    recent: int
    """Unprotected ones that stay because of a sign of life within the days of grace."""
    held_back: bool
    """Whether the cycle does nothing because too many memories would go."""
    archived: _Scored
    """Memories with their relevance, lowest first."""
    deleted: _Scored
    file: str | None
    """Where the cycle wrote the deleted memories."""


def forget(tenant: "Tenant", now: datetime, *, dry_run: bool = False, however_many: bool = False) -> ForgetOutcome:
    """Archive memories of low relevance and, if the settings say so, delete. A second run finds nothing left to do.

    `however_many` is the confirmation of a person who has seen how many would go: without it, nothing is done if the settings' share of
    the active memories would leave recall, or of all memories be deleted. The scores are computed for `now`, never read from an
    earlier pass. A kill after the file was written leaves the file; the next run writes another with the memories that are still there.
    """
    settings, memories = tenant.settings, tenant.memories
    log = AccessLog(tenant.state)
    if not dry_run:
        fold_accesses(tenant.catalog, log, now)
    scores = compute_scores(tenant.catalog, memories, now, settings.decay_rate, preview=log if dry_run else None)
    sourced = _ids_with_source(tenant.catalog, memories)
    latest = now.astimezone(UTC) - timedelta(days=settings.forget_grace_days)
    to_archive: dict[int, float] = {}
    to_delete: dict[int, float] = {}
    steps: dict[int, int] = {}
    active = protected = recent = 0
    for row in scores.select(["id", "state", "protected", "lasting", "fresh_at"]).to_pylist():
        is_active = row["state"] == State.ACTIVE
        active += is_active
        steps[row["id"]] = 0 if is_active else 1
        if row["protected"] or row["fresh_at"] > latest:
            is_low = is_active and row["lasting"] < settings.archive_threshold
            protected += is_low and row["protected"]
            recent += is_low and not row["protected"]
            continue
        if settings.forget_deletes and row["lasting"] < settings.delete_threshold and row["id"] not in sourced:
            to_delete[row["id"]] = row["lasting"]
        elif is_active and row["lasting"] < settings.archive_threshold:
            to_archive[row["id"]] = row["lasting"]
    _keep_successors(tenant.catalog, steps, to_archive, to_delete)
    leaving = sum(not steps[number] for number in (*to_archive, *to_delete))
    shares = ((leaving, active), (len(to_delete), scores.num_rows))
    held_back = not however_many and any(gone > settings.forget_at_most * of for gone, of in shares)
    archived, deleted = _read_forgettable(memories, to_archive, (State.ACTIVE,)), _read_forgettable(memories, to_delete, LIVE)
    file = None
    if not dry_run and not held_back:
        moved: set[int] = set()
        for ids, read_at in _chunks(archived):
            moved.update(memories.transition(ids, (State.ACTIVE,), State.ARCHIVED, read_at=read_at))
        archived = tuple(item for item in archived if item[0].id in moved)
        if deleted:
            name = f"{FOLDER}/{now.astimezone(UTC):%Y-%m-%dT%H%M%S%fZ}.jsonl"
            tenant.state.put(name, to_jsonl(replace(memory, state=State.ACTIVE) for memory, _ in deleted).encode())
            file = tenant.state.where(name)
            for ids, read_at in _chunks(deleted):
                memories.delete(ids, read_at)
                kept = {memory.id for memory in memories.get(ids)}
                deleted = tuple(item for item in deleted if item[0].id not in kept)
    return ForgetOutcome(scores.num_rows, active, protected, recent, held_back, archived, deleted, file)


def _keep_successors(catalog: Catalog, steps: dict[int, int], to_archive: dict[int, float], to_delete: dict[int, float]) -> None:
    """Let no memory leave further than one that it replaces. `steps` are 0 for active memories, 1 for archived ones."""
    with catalog.read() as connection:
        found = read_successors(connection)
    afterwards = steps | dict.fromkeys(to_archive, 1) | dict.fromkeys(to_delete, 2)
    both = zip(found["old_id"].to_pylist(), found["new_id"].to_pylist(), strict=True)
    pairs = [(old, new) for old, new in both if old in afterwards and new in afterwards]
    while early := {new for old, new in pairs if afterwards[new] > max(afterwards[old], steps[new])}:
        for new in early:
            to_archive.pop(new, None)
            to_delete.pop(new, None)
            afterwards[new] = steps[new]


def _ids_with_source(catalog: Catalog, memories: MemoryStore) -> set[int]:
    rows = memories.scan(("id", "source_key"), "source_key <> ''")
    with catalog.read() as connection:
        connection.register("rows", rows)
        found = connection.execute("SELECT id FROM rows SEMI JOIN memory_entries e ON e.key = rows.source_key").fetchall()
    return {number for (number,) in found}


def _chunks(found: _Scored) -> Iterator[tuple[list[int], list[datetime]]]:
    """Yield the ids, and the `updated_at` values as read, of the memories of each commit."""
    for start in range(0, len(found), _PER_COMMIT):
        chunk = [memory for memory, _ in found[start : start + _PER_COMMIT]]
        yield [memory.id for memory in chunk], [memory.updated_at for memory in chunk]


def _read_forgettable(memories: MemoryStore, relevance: dict[int, float], states: Collection[State]) -> _Scored:
    """Return the memories that may still be forgotten, with their relevance, lowest first."""
    ids = list(relevance)
    found = [memory for start in range(0, len(ids), _PER_COMMIT) for memory in memories.get(ids[start : start + _PER_COMMIT])]
    free = [(memory, relevance[memory.id]) for memory in found if memory.state in states and not memory.protected]
    return tuple(sorted(free, key=lambda item: (item[1], item[0].id)))
