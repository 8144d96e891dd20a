"""Rows of the `memories` table with their vectors and words. They never change, except for which rows are current."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from memory_assets.arrays import Floats, Ids, Mask, Rows, Times, places_of
from memory_assets.compute import pc
from memory_assets.models import OF_EVERY_PROJECT, Entity, State
from memory_assets.stores.embedding_columns import meaning_column
from memory_assets.stores.feed import microseconds
from memory_assets.stores.filters import GUESSED_TIME, Filters
from memory_assets.stores.resident.words import Stem, Words
from memory_assets.stores.search import UNMEASURED

_Piece = tuple[pa.RecordBatch, npt.NDArray[np.integer], npt.NDArray[np.integer]]
"""Rows, their vectors and their meanings."""

ROW_ID = pa.field("_rowid", pa.uint64())
"""LanceDB's address of a row when it was read; null in rows appended since."""
_PARTS = {
    "vectors": ("codes", "units", "signs"),
    "meanings": ("codes", "units", "signs"),
    "words": ("starts", "rows", "weights"),
}
"""Field -> its arrays, each of which has a file."""
_DERIVED_BYTES = 11
"""Bytes a row of derived arrays: its place in the order of ids (8), and the flags active, current, and both."""


_OVERSAMPLING = 20
"""Candidates that are measured for each wanted vector."""
_MIN_CANDIDATES = 500
_MEASURE_BATCH = 512
_SPAN_ROWS = 65_536
_SIGN_BATCH = 16_384
"""Number of vectors whose signs are compared at once: as many as fit the processor's cache."""


@dataclass(frozen=True, slots=True)
class Vectors:
    """Unit vectors: the signs of components find candidates (binary quantisation), the components measure them.

    Comparing the 384 sign bits of 100,000 vectors takes less than a millisecond. With `_OVERSAMPLING`, 98.8 % of the nearest hundred and
    99.9 % of the nearest ten are found (22,000 sentences, MiniLM).
    """

    codes: npt.NDArray[np.integer]
    """Components, shape (n, dimension), each row in its own scale. 16 bits move a cosine by less than 0.0002, 8 bits by at most 0.003."""
    units: Floats
    """Factor that scales each row to length 1, shape (n,); 0 without a vector."""
    signs: npt.NDArray[np.uint64]
    """Sign bits, shape (dimension / 64, n); a bit is set if the component is positive."""

    @classmethod
    def of(cls, codes: npt.NDArray[np.integer]) -> "Vectors":
        units, signs = np.zeros(len(codes), np.float32), np.empty((-(-codes.shape[1] // 64), len(codes)), np.uint64)
        for span in spans(len(codes)):
            lengths = np.linalg.norm(codes[span].astype(np.float32), axis=1)
            np.divide(1, lengths, out=units[span], where=lengths > 0)
            signs[:, span] = _signs(codes[span])
        return cls(codes, units, signs)

    @property
    def nbytes(self) -> int:
        return self.codes.nbytes + self.units.nbytes + self.signs.nbytes

    def cosines(self, rows: Rows, vector: Floats) -> Floats:
        """Return the cosines of some rows with a unit vector; `UNMEASURED` without a vector. Batches stay within the processor's cache."""
        products, units = np.empty(len(rows), np.float32), self.units[rows]
        for start in range(0, len(rows), _MEASURE_BATCH):
            span = slice(start, start + _MEASURE_BATCH)
            np.matmul(self.codes.take(rows[span], axis=0).astype(np.float32), vector, out=products[span])
        return np.where(units > 0, products * units, np.float32(UNMEASURED))

    def nearest(self, vector: Floats, allowed: Mask, limit: int) -> tuple[Rows, Floats]:
        """Return at most `limit` of the allowed rows (mask, shape (n,)) nearest to a unit vector, and their cosines, best first."""
        rows = self._find_candidates(vector, allowed & (self.units > 0), max(_MIN_CANDIDATES, limit * _OVERSAMPLING))
        similarity = self.cosines(rows, vector)
        if len(rows) > limit:
            best = np.sort(np.argpartition(similarity, -limit)[-limit:])
            rows, similarity = rows[best], similarity[best]
        order = np.argsort(-similarity, kind="stable")
        return rows[order], similarity[order]

    def _find_candidates(self, vector: Floats, allowed: Mask, wanted: int) -> Rows:
        """Return the allowed rows whose signs differ least from a vector's; at least `wanted`, if there are as many."""
        asked, differing = _signs(vector[None]), np.empty(len(self.codes), np.uint16)
        for start in range(0, len(differing), _SIGN_BATCH):
            span = slice(start, start + _SIGN_BATCH)
            np.bitwise_count(self.signs[:, span] ^ asked).sum(axis=0, dtype=np.uint16, out=differing[span])
        differing[~allowed] = len(vector) + 1
        most = np.partition(differing, wanted)[wanted] if wanted < len(differing) else len(vector)
        return np.flatnonzero(differing <= min(most, len(vector)))


def quantised(matrix: npt.NDArray[np.floating], size: type[np.signedinteger]) -> npt.NDArray:
    """Return vectors of any length, shape (n, dimension), as integers of type `size`; a zero vector remains zero."""
    largest = np.abs(matrix).max(axis=1, initial=0.0, keepdims=True)
    return np.rint(matrix * (np.iinfo(size).max / np.where(largest > 0, largest, 1))).astype(size)


def spans(rows: int) -> Iterator[slice]:
    """Split `rows` into slices of bounded size."""
    return (slice(start, start + _SPAN_ROWS) for start in range(0, rows, _SPAN_ROWS))


def _signs(matrix: npt.NDArray) -> npt.NDArray[np.uint64]:
    bits = np.packbits(matrix > 0, axis=1)
    padded = np.zeros((len(bits), bits.shape[1] + -bits.shape[1] % 8), np.uint8)
    padded[:, : bits.shape[1]] = bits
    return np.ascontiguousarray(padded.view(np.uint64).T)


@dataclass(frozen=True)
class Segment:
    """A set of memories, in any order."""

    rows: pa.RecordBatch
    """All columns except vectors."""
    column: str
    vectors: Vectors
    meanings: Vectors
    """Vectors of the texts alone; of zero components if the table has none."""
    words: Words
    current: Mask
    ids: Ids
    by_id: Rows
    created: Times
    updated: Times
    active: Mask
    file: str = ""
    """Name of the folder from which it is mapped; empty if it is in this process's own memory."""

    @classmethod
    def of(
        cls, batches: Iterable[pa.RecordBatch], schema: pa.Schema, column: str, stem: Stem, mean_length: float | None = None
    ) -> "Segment":
        """Build a segment of rows with the columns of `schema`.

        `column` is the searched vector column; its `meaning_column` is read if it exists. `mean_length` is the mean number of terms of a
        text in the whole table; by default that of these texts.
        """
        meaning = meaning_column(column)
        others = [name for name in schema.names if name not in (column, meaning)]

        def pieces() -> "Iterator[_Piece]":
            for batch in chain([pa.RecordBatch.from_pylist([], schema)], batches):
                says = _to_matrix(batch.column(meaning)) if meaning in schema.names else np.zeros((len(batch), 0))
                # Copy the rows: Arrow keeps a batch from LanceDB, with its vectors, as long as any of its columns is in use.
                rows = batch.select(others).take(pa.array(np.arange(len(batch))))
                yield rows, quantised(_to_matrix(batch.column(column)), np.int16), quantised(says, np.int8)

        return cls._assemble(pieces(), column, stem, mean_length)

    @classmethod
    def joined(cls, segments: "Sequence[Segment]", stem: Stem, mean_length: float | None) -> "Segment":
        pieces = (
            (
                each.rows.slice(span.start, span.stop - span.start).filter(pa.array(each.current[span])),
                each.vectors.codes[span][each.current[span]],
                each.meanings.codes[span][each.current[span]],
            )
            for each in segments
            for span in spans(len(each))
        )
        return cls._assemble(pieces, segments[0].column, stem, mean_length)

    @classmethod
    def _assemble(cls, pieces: "Iterable[_Piece]", column: str, stem: Stem, mean_length: float | None) -> "Segment":
        vectors: list[npt.NDArray[np.integer]] = []
        meanings: list[npt.NDArray[np.integer]] = []
        columns: dict[str, list[pa.Array]] = {}
        for rows, some_vectors, some_meanings in pieces:
            vectors.append(some_vectors)
            meanings.append(some_meanings)
            for name, values in zip(rows.schema.names, rows.columns, strict=True):
                columns.setdefault(name, []).append(values)
        arrays = {name: pa.concat_arrays(columns.pop(name)) for name in list(columns)}
        rows = pa.RecordBatch.from_arrays(list(arrays.values()), list(arrays))
        coded = Vectors.of(np.concatenate(vectors)), Vectors.of(np.concatenate(meanings))
        vectors.clear()
        meanings.clear()
        if len(rows) > _SPAN_ROWS:  # also frees memory that the next request would allocate again
            pa.default_memory_pool().release_unused()
        words = Words.of(pc.fill_null(rows["indexed_text"], ""), stem, mean_length)
        by_id = np.argsort(rows["id"].to_numpy(), kind="stable")
        return cls._build(rows, column, *coded, words, by_id, _match_values(rows["state"], [State.ACTIVE]))

    @classmethod
    def _build(
        cls, rows: pa.RecordBatch, column: str, vectors: Vectors, meanings: Vectors, words: Words, by_id: Rows, active: Mask
    ) -> "Segment":
        created, updated = (rows[name].cast(pa.int64()).to_numpy() for name in ("created_at", "updated_at"))
        current, ids = np.ones(rows.num_rows, bool), rows["id"].to_numpy()
        return cls(rows, column, vectors, meanings, words, current, ids, by_id, created, updated, active)

    def save(self, folder: Path) -> None:
        vectors = {f"{part}.{name}": getattr(getattr(self, part), name) for part, names in _PARTS.items() for name in names}
        for name, values in (vectors | {"by_id": self.by_id, "active": self.active}).items():
            np.save(folder / f"{name}.npy", values)
        about = {"column": self.column, "length": str(self.words.length)}
        terms = pa.record_batch({"term": self.words.terms})
        for name, batch in (("rows", self.rows), ("terms", terms.replace_schema_metadata(about))):
            with pa.ipc.new_file(str(folder / f"{name}.arrow"), batch.schema) as file:
                file.write_batch(batch)

    @classmethod
    def open(cls, folder: Path) -> "Segment":
        """Map a segment that `save` wrote; all processes share its memory. OSError if the folder is missing or incomplete."""
        arrays = {
            part: {name: np.load(folder / f"{part}.{name}.npy", mmap_mode="r").view(np.ndarray) for name in names}
            for part, names in _PARTS.items()
        }
        by_id, active = (np.load(folder / f"{name}.npy", mmap_mode="r").view(np.ndarray) for name in ("by_id", "active"))
        rows, terms = (pa.ipc.open_file(pa.memory_map(str(folder / f"{name}.arrow"))).get_batch(0) for name in ("rows", "terms"))
        about = {key.decode(): value.decode() for key, value in terms.schema.metadata.items()}
        words = Words(terms["term"], length=int(about["length"]), **arrays["words"])
        opened = cls._build(
            rows, about["column"], Vectors(**arrays["vectors"]), Vectors(**arrays["meanings"]), words, by_id, active
        )
        return replace(opened, file=folder.name)

    def __len__(self) -> int:
        return self.rows.num_rows

    @cached_property
    def nbytes(self) -> int:
        return self.nbytes_of_rows + self.words.vocabulary_nbytes

    @property
    def nbytes_of_rows(self) -> int:
        vectors = self.vectors.nbytes + self.meanings.nbytes
        return self.rows.get_total_buffer_size() + vectors + self.words.nbytes + len(self) * _DERIVED_BYTES

    @cached_property
    def count(self) -> int:
        return int(self.current.sum())

    def without(self, ids: Ids) -> "Segment":
        places = self.places(ids)
        current = self.current.copy()
        current[places[places >= 0]] = False
        return replace(self, current=current)

    def places(self, ids: Ids) -> Rows:
        """Return the row of each id; -1 if it is missing or no longer current."""
        found = places_of(ids, self.ids, self.by_id)
        return np.where(self.current[found], found, -1) if len(self) else found

    def taken(self, places: Rows, columns: Sequence[str]) -> pa.RecordBatch:
        return self.rows.select(list(columns)).take(pa.array(places))

    def _match_lists(self, column: str, wanted: Callable[[pa.Array], Mask]) -> Mask:
        """Return which rows have a value, in a column of lists, that `wanted` accepts."""
        lists = self.rows.column(column)
        having = np.zeros(len(self), bool)
        having[pc.list_parent_indices(lists).to_numpy()[wanted(lists.flatten())]] = True
        return having

    def passing(self, filters: Filters) -> Mask:
        """Return which current rows pass, with the meaning of `Filters.sql`."""
        only_active = filters.states == (State.ACTIVE,)
        passing = self.current & self.active if only_active else self.current.copy()
        states = () if only_active else filters.states
        for name, accepted in (
            ("state", states),
            ("kind", filters.kinds),
            ("source", filters.sources),
            ("project", filters.projects),
        ):
            if accepted:
                passing &= _match_values(self.rows.column(name), accepted)
        if filters.here:
            in_project = _match_values(pc.utf8_lower(self.rows.column("project")), ["", *filters.here])
            passing &= in_project | _match_values(self.rows.column("kind"), OF_EVERY_PROJECT)
        for name, wanted in (("tags", filters.tags), ("actions", filters.actions)):
            for value in wanted:
                passing &= self._match_lists(name, lambda values, value=value: _match_values(values, [value]))
        for spellings in filters.entities:
            passing &= self._match_lists("entities", lambda entities, spellings=spellings: _match_entity(entities, spellings))
        if filters.preferences:
            passing &= pc.fill_null(self.rows.column("wish"), False).to_numpy(zero_copy_only=False)
        if filters.since:
            passing &= self.created >= microseconds(filters.since)
        if filters.until:
            passing &= self.created < microseconds(filters.until)
        if filters.dated:
            passing &= ~pc.match_like(self.rows.column("metadata"), GUESSED_TIME).to_numpy(zero_copy_only=False)
        if filters.after:
            moment, number = microseconds(filters.after[0]), filters.after[1]
            passing &= (self.created < moment) | ((self.created == moment) & (self.ids < number))
        return passing


def _match_entity(entities: pa.StructArray, spellings: Iterable[Entity]) -> Mask:
    found = np.zeros(len(entities), bool)
    for entity in spellings:
        found |= _match_values(entities.field("text"), [entity.text]) & _match_values(entities.field("type"), [entity.type])
    return found


def _match_values(values: pa.Array, wanted: Iterable[str]) -> Mask:
    accepted = pa.array([str(value) for value in wanted], pa.string())
    return pc.is_in(values, value_set=accepted).to_numpy(zero_copy_only=False)


def _to_matrix(vectors: pa.FixedSizeListArray) -> Floats:
    """Return the vectors as a matrix, with zeros for nulls."""
    size = vectors.type.list_size
    values = vectors.values.slice(vectors.offset * size, len(vectors) * size).fill_null(0.0)
    matrix = values.to_numpy(zero_copy_only=False).reshape(-1, size)
    return np.where(vectors.is_valid().to_numpy(zero_copy_only=False)[:, None], matrix, 0.0) if vectors.null_count else matrix
