"""Packs: rows of a table in immutable groups. Unchanged rows stay in packs of the last backup."""

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from memory_assets.arrays import Ids, Mask, Times, places_of
from memory_assets.keeping.repository import Pack, TableCopy, canonical
from memory_assets.stores import lance
from memory_assets.stores.tables import StoredTable
from memory_assets.stores.upkeep import REWRITTEN_FACT

if TYPE_CHECKING:
    from memory_assets.keeping.copying import Writer

PACK_ROWS = 4_096
_SMALL_ROWS = PACK_ROWS // 4
_MAX_SMALL_PACKS = 16
"""Number of small packs from which their rows are written together."""
_MAX_LOOKUPS = 2_000
"""Most rows that are looked up by id; for more, the table is scanned."""
_DIGEST = pa.binary(16)
INDEX = pa.schema([pa.field("id", pa.int64()), pa.field("stamp", pa.int64()), pa.field("digest", _DIGEST)])


@dataclass(frozen=True, slots=True)
class _KnownPack:
    """A reusable pack of the last backup, with the ids and stamps of its rows."""

    pack: Pack
    ids: Ids
    stamps: Times


def index_of(rows: pa.Table) -> pa.Table:
    """Return id, stamp and digest of each row. Two rows with the same id and stamp are equal.

    The stamp is `updated_at`, which every writer of memories sets; relations have none, so theirs is the beginning of the digest.
    """
    digests = row_digests(rows)
    if "updated_at" in rows.column_names:
        stamps = rows["updated_at"].cast(pa.int64())
    else:
        stamps = pa.array([int.from_bytes(digest[:8], "big", signed=True) for digest in digests], pa.int64())
    return pa.table([rows["id"].cast(pa.int64()), stamps, pa.array(digests, _DIGEST)], schema=INDEX)


def row_digests(rows: pa.Table) -> list[bytes]:
    """Return a digest over all values of each row, the same on every machine."""
    names = sorted(rows.column_names)
    vectors = [name for name in names if pa.types.is_fixed_size_list(rows.schema.field(name).type)]
    plain = rows.select([name for name in names if name not in vectors]).to_pylist()
    digests = [blake2b(canonical(row), digest_size=16) for row in plain]
    for name in vectors:
        column = rows[name].combine_chunks()
        width = column.type.list_size
        flat = column.fill_null([0.0] * width).flatten().to_numpy(zero_copy_only=False)
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        for digest, present, vector in zip(digests, valid, flat.reshape(-1, width), strict=True):
            digest.update(name.encode() + (vector.tobytes() if present else b""))
    return [digest.digest() for digest in digests]


def to_bytes(rows: pa.Table) -> bytes:
    """Return a table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows.combine_chunks())
    return sink.getvalue().to_pybytes()


def from_bytes(data: bytes) -> pa.Table:
    """Return the table of an Arrow stream."""
    return pa.ipc.open_stream(data).read_all()


def copy_table(stored: StoredTable, writer: "Writer", last: TableCopy | None) -> TableCopy:
    """Copy a table at its current version: rows of the last backup stay in its packs, all others form new packs."""
    with stored.explaining_errors():
        table = stored.reading
        version = table.version
        if stored.exists:
            table.checkout(version)  # other processes may commit unless the table is pinned
        schema, count = table.schema, table.count_rows()
        known = list(_load_packs(writer, last, schema))
        columns = ["id", "updated_at"] if "updated_at" in schema.names else schema.names
        light = lance.scan(table).select(columns).to_arrow()
        ids = light["id"].to_numpy()
        stamps = (
            light["updated_at"].cast(pa.int64()).to_numpy()
            if "updated_at" in schema.names
            else index_of(light)["stamp"].to_numpy()
        )
        rewritten = lance.facts_of(schema).get(REWRITTEN_FACT, "")
        kept = _select_packs(known, ids, stamps, whole=last is not None and last.rewritten != rewritten)
        held = np.concatenate([each.ids[live] for each, live in kept]) if kept else np.array([], np.int64)
        todo = ids[~np.isin(ids, held)]
        packs = [each.pack.keeping(live) for each, live in kept]
        for pack in packs:
            writer.reuse(pack.rows)
            writer.reuse(pack.index)
        for rows in _read_batches(table, todo, ids):
            ordered = rows.sort_by("id")
            index = writer.put(to_bytes(index_of(ordered)), secret=False)
            packs.append(Pack(rows=writer.put(to_bytes(ordered)), index=index, count=rows.num_rows))
    arrow_schema = base64.b64encode(schema.serialize().to_pybytes()).decode()
    return TableCopy(version=version, rows=count, arrow_schema=arrow_schema, packs=packs, rewritten=rewritten)


def _load_packs(writer: "Writer", last: TableCopy | None, schema: pa.Schema) -> Iterator[_KnownPack]:
    """Yield the packs of the last backup whose objects exist; none if the schema differs."""
    if last is None or not last.table_schema.equals(schema):
        return
    for pack in last.packs:
        if writer.has(pack.rows) and (index := writer.read(pack.index)):
            held = from_bytes(index)
            yield _KnownPack(pack, held["id"].to_numpy(), held["stamp"].to_numpy())


def _select_packs(known: list[_KnownPack], ids: Ids, stamps: Times, *, whole: bool) -> list[tuple[_KnownPack, Mask]]:
    """Return the packs to reuse, each with a mask of live rows. Mostly dead packs are left out, and small ones if there are many.

    If `whole`, packs with any dead row are left out, because that row may hold a text that was erased or masked.
    """
    order = np.argsort(ids)
    kept: list[tuple[_KnownPack, Mask]] = []
    for each in known:
        place = places_of(each.ids, ids, order)
        live = each.pack.live
        live &= (place >= 0) & (stamps[place] == each.stamps) if len(ids) else False
        if live.all() if whole else live.sum() * 2 > each.pack.count:
            kept.append((each, live))
    small = [pair for pair in kept if pair[1].sum() < _SMALL_ROWS]
    return kept if len(small) < _MAX_SMALL_PACKS else [pair for pair in kept if pair[1].sum() >= _SMALL_ROWS]


def _read_batches(table: Any, todo: Ids, ids: Ids) -> Iterator[pa.Table]:
    """Yield the rows with the ids `todo`, a pack's number at a time."""
    if not len(todo):
        return
    query = lance.scan(table)
    if len(todo) <= min(_MAX_LOOKUPS, len(ids) // 2):
        query = query.where(lance.ids_in(todo.tolist()))
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
