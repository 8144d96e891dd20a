"""Nearest memories by meaning, for many memories at once, without comparing all pairs.

A few memories are looked up in the store's index, some in one streamed pass over the vectors, and all of them by k-means cells.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from memory_assets.arrays import Floats, Ids, Mask, Rows
from memory_assets.language.embedders.calibration import Scale, scale_of
from memory_assets.models import State
from memory_assets.stores import lance
from memory_assets.stores.memories import Filters, MemoryStore

LIVE = (State.ACTIVE, State.ARCHIVED)
_MAX_SEARCHES = 16
"""Memories up to which the store's own search is cheaper than reading all vectors of a small store."""
_ROWS_PER_SEARCH = 4_000
"""Vectors read in the time of one search: the larger the store, the more memories are searched for one by one."""
_BLOCK_BYTES = 64 << 20
_CELL_SIZE = 256
"""Vectors per cell: small enough to compare all with all, large enough that neighbours mostly share one."""
_MAX_EXACT = 8_000
"""Vectors up to which all pairs are compared."""
_CELLS_PER_VECTOR = 6

EMPTY = pa.table({"id": pa.array([], pa.int64()), "other": pa.array([], pa.int64()), "similarity": pa.array([], pa.float32())})


def nearest_to(
    store: MemoryStore, ids: Sequence[int], count: int, states: Sequence[State] = LIVE, *, least: float = -1.0
) -> pa.Table:
    """Return columns `id`, `other`, `similarity`: the `count` nearest memories of each of `ids` whose similarity is above `least`.

    Both similarities are on the common scale. The table is empty before the first embedding.
    """
    column, scale = store.columns.meaning, scale_of_live(store)
    if column is None or not ids:
        return EMPTY
    least = scale.cosine(least)
    if len(ids) > len(store) // 4 and len(ids) > _MAX_EXACT:
        known, vectors = read_vectors(store, states)
        found, similarity = nearest_of_all(vectors, count, least=least)
        pairs = _pairs(scale, known, known[found], similarity, found >= 0)
        return pairs.filter(pa.compute.is_in(pairs["id"], pa.array(ids)))  # type: ignore[attr-defined]
    known, vectors = read_vectors(store, (), ids)
    if len(known) <= max(_MAX_SEARCHES, len(store) // _ROWS_PER_SEARCH):
        tables = []
        for number, vector in zip(known.tolist(), vectors, strict=True):
            found = store.alike(vector, count + 1, Filters(states=states), least)
            others, scores = found["id"].to_numpy(), found["similarity"].to_numpy()
            keep = others != number
            tables.append(_pairs(scale, np.array([number]), others[keep][None, :count], scores[keep][None, :count]))
        return pa.concat_tables(tables) if tables else EMPTY
    best_ids = np.full((len(known), count), -1, np.int64)
    best = np.full((len(known), count), least, np.float32)
    for others, batch in _batches(store, column, _where(states)):
        for start in range(0, len(batch), step := max(1, _BLOCK_BYTES // (4 * len(known)))):
            block = vectors @ batch[start : start + step].T
            columns = others[start : start + step]
            _, mine, same = np.intersect1d(known, columns, assume_unique=True, return_indices=True)
            block[mine, same] = -2
            better = np.flatnonzero(block.max(axis=1) > best[:, -1])
            block = block[better]
            best_ids[better], best[better] = _merge(best_ids[better], best[better], np.broadcast_to(columns, block.shape), block)
    return _pairs(scale, known, best_ids, best, best_ids >= 0)


def scale_of_live(store: MemoryStore) -> Scale:
    """Return the scale that maps cosines of the store's vectors to common similarities."""
    return scale_of(store.columns.embedder, store.columns.scale)


def read_vectors(store: MemoryStore, states: Sequence[State], ids: Sequence[int] = ()) -> tuple[Ids, Floats]:
    """Return ids and unit vectors of meaning, ordered by id: of memories in `states` (any if empty), or of `ids` if given."""
    column = store.columns.meaning
    if column is None:
        return np.empty(0, np.int64), np.empty((0, 0), np.float32)
    numbers, parts = [], []
    chunks = [ids[start : start + 1000] for start in range(0, len(ids), 1000)] or [()]
    for chunk in chunks:
        where = lance.ids_in(chunk) if chunk else _where(states)
        for found, batch in _batches(store, column, where):
            numbers.append(found)
            parts.append(batch)
    if not parts:
        return np.empty(0, np.int64), np.empty((0, 0), np.float32)
    known, vectors = np.concatenate(numbers), np.concatenate(parts)
    order = np.argsort(known)
    return known[order], vectors[order]


def nearest_of_all(vectors: Floats, count: int, *, least: float = -1.0) -> tuple[Rows, Floats]:
    """Return places and cosines, shape (n, count), of each unit vector's nearest others above `least`; a missing place is -1.

    Up to 8,000 vectors the result is exact. Beyond that k-means divides the vectors into cells of some hundreds, and each vector is
    compared with those of its nearest cells, which rarely misses a near neighbour.
    """
    total = len(vectors)
    places = np.full((total, count), -1, np.int64)
    similarity = np.full((total, count), least, np.float32)
    for rows, members, is_home in _cells(vectors):
        inside = vectors[members]
        for start in range(0, len(rows), step := max(1, _BLOCK_BYTES // (4 * len(members)))):
            part = rows[start : start + step]
            block = vectors[part] @ inside.T
            if is_home:
                np.fill_diagonal(block[:, start:], -2)
            better = np.flatnonzero(block.max(axis=1) > similarity[part, -1])
            part, block = part[better], block[better]
            places[part], similarity[part] = _merge(places[part], similarity[part], np.broadcast_to(members, block.shape), block)
    return places, similarity


def _cells(vectors: Floats) -> Iterator[tuple[Rows, Rows, bool]]:
    """Yield triples (rows, members, is_home): rows to compare with members, which are the same vectors if `is_home`.

    No pair of row and member occurs in two triples.
    """
    total = len(vectors)
    everything = np.arange(total)
    if total <= _MAX_EXACT:
        yield everything, everything, True
        return
    from sklearn.cluster import MiniBatchKMeans

    cells = total // _CELL_SIZE
    sample = np.random.default_rng(0).choice(total, min(total, 50 * cells), replace=False)
    model = MiniBatchKMeans(cells, random_state=0, batch_size=4096, n_init="auto", max_iter=5, init="random")
    centres = np.asarray(model.fit(vectors[sample]).cluster_centers_, np.float32)
    half = (centres**2).sum(axis=1) / 2
    probes = np.empty((total, _CELLS_PER_VECTOR), np.int32)
    for start in range(0, total, 8192):
        closeness = vectors[start : start + 8192] @ centres.T - half
        best = np.argpartition(-closeness, _CELLS_PER_VECTOR - 1, axis=1)[:, :_CELLS_PER_VECTOR]
        ranked = np.argsort(-np.take_along_axis(closeness, best, axis=1), axis=1)
        probes[start : start + 8192] = np.take_along_axis(best, ranked, axis=1)
    members_of = _grouped(probes[:, 0], cells)
    for probe in range(_CELLS_PER_VECTOR):
        for rows, members in zip(_grouped(probes[:, probe], cells), members_of, strict=True):
            if len(rows) and len(members):
                yield rows, members, probe == 0


def _grouped(labels: npt.NDArray[np.int32], groups: int) -> list[Rows]:
    order = np.argsort(labels, kind="stable")
    bounds = np.searchsorted(labels[order], np.arange(groups + 1))
    return [order[bounds[number] : bounds[number + 1]] for number in range(groups)]


def _merge(ids: Ids, best: Floats, others: Ids, scores: Floats) -> tuple[Ids, Floats]:
    """Return the best `count` of the kept and the new pairs, row by row, best first."""
    count = best.shape[1]
    if scores.shape[1] > count:
        keep = np.argpartition(-scores, count - 1, axis=1)[:, :count]
        others, scores = np.take_along_axis(others, keep, axis=1), np.take_along_axis(scores, keep, axis=1)
    all_ids, all_scores = np.hstack([ids, others]), np.hstack([best, scores])
    order = np.argsort(-all_scores, axis=1, kind="stable")[:, :count]
    return np.take_along_axis(all_ids, order, axis=1), np.take_along_axis(all_scores, order, axis=1)


def _batches(store: MemoryStore, column: str, where: str) -> Iterator[tuple[Ids, Floats]]:
    dimension = store.table.schema.field(column).type.list_size
    reader = lance.scan(store.table).where(f"({where}) AND {column} IS NOT NULL").select(["id", column]).to_batches()
    for batch in reader:
        flat = batch[column].flatten().to_numpy(zero_copy_only=False)
        yield batch["id"].to_numpy(), flat.reshape(-1, dimension)


def _where(states: Sequence[State]) -> str:
    return f"state IN {lance.quoted(states)}" if states else "true"


def _pairs(scale: Scale, ids: Ids, others: Ids, scores: Floats, kept: Mask | None = None) -> pa.Table:
    rows = np.repeat(ids, others.shape[1]).reshape(others.shape)
    kept = np.ones(others.shape, bool) if kept is None else kept
    return pa.table(
        {
            "id": pa.array(rows[kept], pa.int64()),
            "other": pa.array(others[kept], pa.int64()),
            "similarity": pa.array(scale.similarity(scores[kept]), pa.float32()),
        }
    )
