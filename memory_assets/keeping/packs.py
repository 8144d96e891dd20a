"""Rows of a table as packs: what is unchanged since the last backup stays in the pack that holds it already."""

import base64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from memory_assets.arrays import Ids, Mask, Times
from memory_assets.keeping.repository import Pack, TableCopy, canonical
from memory_assets.stores import lance
from memory_assets.stores.tables import StoredTable

if TYPE_CHECKING:
    from memory_assets.keeping.copying import Writer

PACK_ROWS = 4_096
_SMALL_ROWS = PACK_ROWS // 4
_MOST_SMALL = 16
"""Small packs that are let stand before their rows are written together."""
_FEW = 2_000
"""Rows up to which they are looked up by id instead of among all."""
_DIGEST = pa.binary(16)
INDEX = pa.schema([pa.field("id", pa.int64()), pa.field("stamp", pa.int64()), pa.field("digest", _DIGEST)])


@dataclass(frozen=True, slots=True)
class _Known:
    """A pack of the last backup that can be used again, and what it holds."""

    pack: Pack
    ids: Ids
    stamps: Times


def index_of(rows: pa.Table) -> pa.Table:
    """Id, stamp and digest of each row. A row with the same stamp is the same row.

    The stamp is `updated_at`, which every writer of memories sets; of relations, which have none, the beginning of the digest.
    """
    digests = row_digests(rows)
    if "updated_at" in rows.column_names:
        stamps = rows["updated_at"].cast(pa.int64())
    else:
        stamps = pa.array([int.from_bytes(digest[:8], "big", signed=True) for digest in digests], pa.int64())
    return pa.table([rows["id"].cast(pa.int64()), stamps, pa.array(digests, _DIGEST)], schema=INDEX)


def row_digests(rows: pa.Table) -> list[bytes]:
    """A digest of every value of each row, the same wherever and whenever it is made."""
    names = sorted(rows.column_names)
    vectors = [name for name in names if pa.types.is_fixed_size_list(rows.schema.field(name).type)]
    plain = rows.select([name for name in names if name not in vectors]).to_pylist()
    digests = [blake2b(canonical(row, _moment), digest_size=16) for row in plain]
    for name in vectors:
        column = rows[name].combine_chunks()
        width = column.type.list_size
        flat = (
            column.fill_null([0.0] * width).flatten().to_numpy(zero_copy_only=False)
            if column.null_count
            else column.flatten().to_numpy()
        )
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        for digest, present, vector in zip(digests, valid, flat.reshape(-1, width), strict=True):
            digest.update(name.encode() + (vector.tobytes() if present else b""))
    return [digest.digest() for digest in digests]


def _moment(value: Any) -> str:
    return value.isoformat(timespec="microseconds")


def to_bytes(rows: pa.Table) -> bytes:
    """A table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows.combine_chunks())
    return sink.getvalue().to_pybytes()


def from_bytes(data: bytes) -> pa.Table:
    """The table of an Arrow stream."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as stream:
        return stream.read_all()


def copy_table(stored: StoredTable, writer: "Writer", last: TableCopy | None) -> TableCopy:
    """Copy a table at its present version: what the last backup holds is taken from there, the rest becomes new packs."""
    with stored.explained():
        table = stored.reading
        version = table.version
        if stored.exists:
            table.checkout(version)  # others may commit to a table that is not pinned
        schema, count = table.schema, table.count_rows()
        known = list(_known(writer, last, schema))
        columns = ["id", "updated_at"] if "updated_at" in schema.names else schema.names
        light = table.search().select(columns).to_arrow()
        ids = light["id"].to_numpy()
        stamps = (
            light["updated_at"].cast(pa.int64()).to_numpy()
            if "updated_at" in schema.names
            else index_of(light)["stamp"].to_numpy()
        )
        kept = _kept(known, ids, stamps)
        held = np.concatenate([each.ids[live] for each, live in kept]) if kept else np.array([], np.int64)
        todo = ids[~np.isin(ids, held)]
        packs = [each.pack.keeping(live) for each, live in kept]
        for pack in packs:
            writer.reuse(pack.rows)
            writer.reuse(pack.index)
        packs += [_write(writer, rows) for rows in _rows(table, todo, ids)]
    return TableCopy(
        version=version, rows=count, arrow_schema=base64.b64encode(schema.serialize().to_pybytes()).decode(), packs=packs
    )


def _known(writer: "Writer", last: TableCopy | None, schema: pa.Schema) -> Iterator[_Known]:
    """The packs of the last backup whose objects are there; none of another schema."""
    if last is None or not last.table_schema.equals(schema):
        return
    for pack in last.packs:
        if writer.has(pack.rows) and (index := writer.read(pack.index)):
            held = from_bytes(index)
            yield _Known(pack, held["id"].to_numpy(), held["stamp"].to_numpy())


def _kept(known: list[_Known], ids: Ids, stamps: Times) -> list[tuple[_Known, Mask]]:
    """The packs to use again, with the rows of each that the table still holds: not those that are mostly dead, or small and many."""
    order = np.argsort(ids)
    sorted_ids, sorted_stamps = ids[order], stamps[order]
    kept: list[tuple[_Known, Mask]] = []
    for each in known:
        place = np.minimum(np.searchsorted(sorted_ids, each.ids), max(0, len(ids) - 1))
        live = each.pack.live
        live &= (sorted_ids[place] == each.ids) & (sorted_stamps[place] == each.stamps) if len(ids) else False
        if live.sum() * 2 > each.pack.count:
            kept.append((each, live))
    small = [pair for pair in kept if pair[1].sum() < _SMALL_ROWS]
    return kept if len(small) < _MOST_SMALL else [pair for pair in kept if pair[1].sum() >= _SMALL_ROWS]


def _rows(table: Any, todo: Ids, ids: Ids) -> Iterator[pa.Table]:
    """The rows of some ids, so many at a time as a pack holds."""
    if not len(todo):
        return
    query = table.search()
    if len(todo) <= min(_FEW, len(ids) // 2):
        query = query.where(f"id IN ({', '.join(map(str, todo.tolist()))})")
    wanted = np.sort(todo)
    waiting: list[pa.Table] = []
    for batch in query.to_batches(PACK_ROWS):
        rows = pa.Table.from_batches([batch])
        waiting.append(rows.filter(pa.array(np.isin(rows["id"].to_numpy(), wanted))))
        while sum(map(len, waiting)) >= PACK_ROWS:
            together = pa.concat_tables(waiting)
            yield together.slice(0, PACK_ROWS)
            waiting = [together.slice(PACK_ROWS)]
    if rest := [rows for rows in waiting if rows.num_rows]:
        yield pa.concat_tables(rest)


def _write(writer: "Writer", rows: pa.Table) -> Pack:
    rows = rows.sort_by("id")
    return Pack(rows=writer.put(to_bytes(rows)), index=writer.put(to_bytes(index_of(rows)), secret=False), count=rows.num_rows)


def rows_of(packs: Iterable[tuple[Pack, bytes]], schema: pa.Schema) -> Iterator[pa.Table]:
    """The live rows of packs in a table's schema."""
    for pack, content in packs:
        yield lance.aligned(from_bytes(content).filter(pa.array(pack.live)), schema)
