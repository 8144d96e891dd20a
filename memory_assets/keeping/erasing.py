"""Erasure: remove memories' texts and everything derived from them from all files of the tenant, so that no source brings them back.

Tombstones are written first, so that nothing brings a text back meanwhile. Then the kept files are purged, and derived data, from which
a run could recreate the memory. The memory itself goes last: while it exists, a repeated erasure finds the text and so its other
places. A kill leaves unfinished tombstones; the next erasure continues with them.
"""

import json
import logging
import mmap
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from memory_assets.compute import pc
from memory_assets.errors import DamagedError, StoreError
from memory_assets.keeping.copying import drop_pins
from memory_assets.keeping.matching import Finder
from memory_assets.keeping.packs import from_bytes
from memory_assets.keeping.repository import Repository, Snapshot
from memory_assets.language.guard import iter_secrets
from memory_assets.language.words import sentences
from memory_assets.learn.briefing import renew_brief
from memory_assets.learn.journal import Journal
from memory_assets.learn.reports import REPORTS
from memory_assets.learn.session_start import drop_digests
from memory_assets.models import Memory, Source
from memory_assets.stores.files import replace_file
from memory_assets.stores.lance import quoted
from memory_assets.stores.layout import CACHE, Care, care_of, entries_of, files_of, read_entry, regular_files, write_entry
from memory_assets.stores.locks import alone, locked
from memory_assets.stores.resident.copies import remove_copies
from memory_assets.stores.rows import COLUMNS, from_arrow
from memory_assets.stores.tombstones import ERASED, Tombstone, Tombstones, folded
from memory_assets.stores.upkeep import drop_older_versions, rewrite
from memory_assets.tana.formats import node_name
from memory_assets.tana.state import Mapping, forget_entries
from memory_assets.tenants import Tenant, tenant_names

_log = logging.getLogger(__name__)

_BATCH = 4_096
"""Memories that are searched at a time."""
_TEXTLESS = ("keys/*", "access/*", "erased.json", "backups.json")
"""Kept files without texts of memories."""
_DECIDED = frozenset({"quiet.json", "projects.json", "names.json", "learn/moves.json"})
"""Files with what a person decided about projects, names and files; an erasure leaves them alone."""
_PLACES = frozenset({"id", "key", "path", "canonical", "canonical_key", "folders", "project", "session", "digest", "before"})
"""Fields of the other files that name an entry or a file, and stay, too."""
_SAID = """
    SELECT unnest([body, if(trim(body) = '', description, '')]) FROM source_items WHERE key = $1
    UNION ALL SELECT hook FROM source_hooks WHERE target = $1
"""
_MIN_CHARACTERS = 16
"""Fewest characters of a sentence or title that is searched for by itself."""


@dataclass(frozen=True, slots=True)
class Removal:
    """The transformations that remove the erased texts."""

    memories: Callable[[pa.Table], pa.Table]
    """All rows of the memories (all columns) -> the rows to keep."""
    relations: Callable[[pa.Table], pa.Table]
    json: Callable[[Any], Any]
    """JSON value of a kept file -> the part to keep; None if nothing."""
    is_in: Callable[[str], bool]
    """Returns whether a text contains something to remove."""
    spared: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class OtherTenant:
    """Another tenant that still holds a removed text."""

    name: str
    ids: list[int]
    """Ids of its memories with the text, in any state."""
    files: list[Path]


@dataclass(frozen=True, slots=True)
class Remains:
    """Places in the data folder that still hold a removed text."""

    strays: list[Path]
    """Files that neither a store nor Dagster needs."""
    needed: list[Path]
    """Files of the tenant's own stores and of Dagster's records."""
    others: list[OtherTenant]


def versions_of(tenant: Tenant, ids: Iterable[int]) -> list[Memory]:
    """Return memories, and those whose erasure was killed, with their earlier versions, and all memories with exactly the same text."""
    found: dict[int, Memory] = {}
    waiting = tenant.memories.get({*ids, *Tombstones(tenant.state).unfinished})
    while waiting:
        found |= {memory.id: memory for memory in waiting}
        listed = ", ".join(str(memory.id) for memory in waiting)
        alike = quoted(sorted({memory.content_hash for memory in waiting}))
        where = f"superseded_by IN ({listed}) OR (content_hash IN {alike} AND content_hash <> '')"
        waiting = [memory for memory in from_arrow(tenant.memories.scan(COLUMNS, where)) if memory.id not in found]
    return list(found.values())


def erase(tenant: Tenant, memories: Sequence[Memory], *, of_machine: bool = False) -> Remains:
    """Erase memories, as returned by `versions_of`, and finish erasures that were killed. Waits for another erasure of the tenant.

    Returns where parts of the text remain. `of_machine` includes other tenants, which someone with a key to one tenant must not see.
    """
    with alone(tenant.folder, "erasing", parents=not tenant.location.is_folder):
        ids = {memory.id for memory in memories}
        texts = [text for memory in memories for text in _find_searchable(memory)]
        said = {memory.id: _tombstone_texts(tenant, memory) for memory in memories}
        tombstones, _ = Tombstones.change(tenant.state, lambda stones: stones.add(said))
        ids |= tombstones.unfinished
        unique = _find_unique(tenant, ids, texts)
        removal = _build_removal(ids, [memory.content for memory in memories], unique, tombstones)
        purge_files(tenant, removal)
        forget_entries(tenant, _find_mirrored(tenant, memories))
        purge_derived(tenant)
        purge_tables(tenant, removal)
        purge_derived(tenant)  # again, because a run may have read the memory meanwhile
        renew_brief(tenant)
        remains = find_remains(tenant, unique, of_machine=of_machine)
        Tombstones.change(tenant.state, Tombstones.finish)
        return remains


def clean_again(tenant: Tenant) -> bool:
    """Remove what earlier erasures had to leave in object storage: older versions of the tables, and derived data.

    Returns whether it removed derived data, so that the next run builds the graph again.
    """
    if tenant.location.is_folder:
        return False
    with alone(tenant.folder, "erasing", parents=True):
        for stored in (tenant.relations.stored, tenant.memories.stored):
            if stored.exists:
                drop_older_versions(stored)
        purge_derived(tenant)
    return True


def erase_as_elsewhere(tenant: Tenant, there: Collection[tuple[str, Tombstone]]) -> int:
    """Erase memories that another machine erased; return how many exist here. The others are refused later.

    `there` has the other machine's tombstones, each with the key of its digests. A text that was erased and then allowed here is kept.
    """
    stones = Tombstones(tenant.state)
    wanted = {stone.id for _, stone in there} - stones.allowed
    memories = versions_of(tenant, wanted) if wanted else []
    if memories:
        erase(tenant, memories)
    wanted -= {memory.id for memory in memories} | {stone.id for stone in stones.all if stone.digests}
    noted = {stone.id for stone in stones.all}
    if new := [(key, stone) for key, stone in there if stone.id in wanted and (stone.digests or stone.id not in noted)]:
        tenant.memories.prepare()
        new = _without_said(tenant, new)
        Tombstones.change(tenant.state, lambda stones: stones.adopt(new))
    return len(memories)


def _without_said(tenant: Tenant, stones: Sequence[tuple[str, Tombstone]]) -> list[tuple[str, Tombstone]]:
    """Return tombstones without the digests of texts that a memory here still says: they ban that id alone."""
    gone = Tombstones(tenant.state, None)
    gone.adopt(stones)
    said = {found.digests for text in tenant.memories.scan(("content",))["content"].to_pylist() if (found := gone.find(text))}
    return [(key, replace(stone, digests=()) if stone.digests in said else stone) for key, stone in stones]


def allow_again(tenant: Tenant, ids: Iterable[int]) -> int:
    """Allow the texts of erased memories to come back, and have the sources read again; return the number of memories."""
    _, lifted = Tombstones.change(tenant.state, lambda stones: stones.lift(set(ids)))
    if lifted and tenant.catalog.exists:
        with tenant.catalog.write() as connection:
            connection.execute("UPDATE source_files SET size = -1 WHERE path IN (SELECT path FROM source_refusals)")
    return len(lifted)


def backups_holding(repository: Repository, tenant: str, ids: Iterable[int], files: Collection[str] = ()) -> list[str]:
    """Return the names of a tenant's backups that hold any of some memories and relations, or one of some files with a secret."""
    wanted = np.array(sorted(ids), np.int64)
    held: dict[str, bool] = {}

    def holds(name: str, snapshot: Snapshot, is_held: Callable[[bytes], bool]) -> bool:
        if name not in held:
            held[name] = is_held(repository.get(name, snapshot.objects[name]))
        return held[name]

    def has_row(pack: bytes) -> bool:
        return bool(np.isin(from_bytes(pack)["id"].to_numpy(), wanted).any())

    def has_secret(file: bytes) -> bool:
        return any(iter_secrets(file.decode("utf-8", "replace")))

    found = []
    for snapshot in repository.snapshots(tenant):
        packs = (pack.index for pack in chain.from_iterable(copy.packs for copy in snapshot.tables.values()))
        kept = (snapshot.files[name] for name in files if name in snapshot.files)
        if any(holds(each, snapshot, has_row) for each in packs) or any(holds(each, snapshot, has_secret) for each in kept):
            found.append(snapshot.name)
    return found


def _tombstone_texts(tenant: Tenant, memory: Memory) -> list[str]:
    """Return the texts that must not come back: the memory's text, and the parts in its source that it was joined from."""
    texts = [memory.content]
    if memory.source_key:
        texts.append(memory.content.partition("\n\n")[2])
        if tenant.catalog.exists:
            with suppress(StoreError):
                texts += [text for (text,) in tenant.catalog.fetch(_SAID, [memory.source_key])]
    return [*texts, *map(node_name, texts)]


def _find_searchable(memory: Memory) -> list[str]:
    """Return the text, and its title and sentences that are long enough to be distinctive."""
    lines = chain.from_iterable(map(str.splitlines, sentences(memory.content)))
    parts = (memory.content, memory.title, *lines)
    return list(dict.fromkeys(part.strip() for part in parts if part == memory.content or len(part.strip()) >= _MIN_CHARACTERS))


def _build_removal(ids: set[int], contents: Sequence[str], texts: Sequence[str], erased: Tombstones) -> Removal:
    wholes = [folded(content) for content in contents]
    parts = Finder(map(folded, texts))

    def is_in(text: str) -> bool:
        whole_text = folded(text)
        inner, is_cut = whole_text.rstrip("…. "), whole_text.rstrip().endswith("…")
        return parts.is_any_in(whole_text.encode("utf-8", "surrogatepass")) or (
            is_cut and len(inner) >= _MIN_CHARACTERS and any(inner in whole for whole in wholes)
        )

    def cleaned(value: Any) -> Any:
        if isinstance(value, str):
            return ERASED if is_in(value) or erased.find(value) else value
        if isinstance(value, list):
            return [kept for each in value if (kept := cleaned(each)) not in (ERASED, None)]
        if isinstance(value, dict):
            if value.get("id") in ids and "content" in value:
                return None
            kept = {key: each if key in _PLACES else cleaned(each) for key, each in value.items()}
            return None if ERASED in (kept.get("text"), kept.get("content")) else kept
        return value

    def others(rows: pa.Table, *names: str) -> pa.Table:
        wanted = np.array(sorted(ids), np.int64)
        gone = np.zeros(rows.num_rows, bool)
        for name in names:
            gone |= np.isin(rows[name].to_numpy(), wanted)
        return rows.filter(pa.array(~gone))

    def unlinked(rows: pa.Table) -> pa.Table:
        notes = pa.array([cleaned(note) if note else note for note in rows["note"].to_pylist()], pa.string())
        place = rows.schema.get_field_index("note")
        return others(rows.set_column(place, rows.schema.field(place), notes), "source_id", "target_id")

    return Removal(lambda rows: others(rows, "id"), unlinked, cleaned, is_in, _DECIDED)


def _find_unique(tenant: Tenant, ids: Iterable[int], texts: Sequence[str]) -> list[str]:
    """Return the texts that occur in no remaining memory, because only these reveal the erased ones."""
    if not texts:
        return []
    staying = tenant.memories.scan(("content", "title"), f"id NOT IN ({', '.join(map(str, ids))})")
    said = "\0".join(text for name in staying.column_names for text in staying[name].to_pylist())
    known = set(Finder(texts).find_in(said.encode("utf-8", "surrogatepass")))
    return [text for text in texts if text not in known]


def mirroring_nodes(tenant: Tenant, memories: Sequence[Memory]) -> dict[str, str]:
    """Return seed.json id -> node in Tana that mirrors one of the memories."""
    keys = _find_mirrored(tenant, memories)
    nodes = Mapping.load(tenant.settings.pai_mapping).nodes if keys else {}
    return {key: nodes[key] for key in keys if key in nodes}


def _find_mirrored(tenant: Tenant, memories: Sequence[Memory]) -> list[str]:
    seeds = (memory.source_key for memory in memories if memory.source is Source.PAI_SEED and memory.source_key)
    return [key.partition(":")[2] for key in seeds] if tenant.is_sources_tenant else []


def purge_files(tenant: Tenant, removal: Removal) -> None:
    """Purge the kept files, the logs and the records of what sessions were told, and delete temp files that a kill left.

    Copies of finished applies that contain the text are deleted whole, so these can no longer be undone.
    """
    for path in copies_of_applies(tenant):
        if removal.is_in(_read_text(path)):
            path.unlink(missing_ok=True)
    for relative, values in kept_values(tenant):
        if relative not in removal.spared:
            _purge_json(tenant, relative, values, removal)
    for relative, care in list(files_of(tenant.folder)):
        path = tenant.folder / relative
        if care is Care.DERIVED and relative.endswith(".tmp") and removal.is_in(_read_text(path)):
            path.unlink(missing_ok=True)
    drop_digests(tenant.folder)
    for log in tenant.settings.data_dir.glob("*.log"):
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
        if kept := [line for line in lines if not removal.is_in(line)]:
            if len(kept) < len(lines):
                replace_file(log, "".join(kept))
        elif lines:
            log.unlink()


def purge_tables(tenant: Tenant, removal: Removal) -> None:
    """Rewrite both tables without the text and their older versions. After a failure, a repeated call completes it."""
    pin = tenant.location.pin
    with locked(pin) if tenant.location.is_folder else nullcontext():  # waits for a running backup
        drop_pins(pin)
        if tenant.relations.stored.exists:
            rewrite(tenant.relations.stored, removal.relations)
        if tenant.memories.exists:
            rewrite(tenant.memories.stored, removal.memories)


def purge_derived(tenant: Tenant) -> None:
    """Reset the catalog and other derived files; of the catalog, only tables that no run can rebuild are kept, which hold no text."""
    if tenant.catalog.exists:
        try:
            tenant.catalog.recreate()
        except DamagedError:
            tenant.catalog.reset()
    for relative, care in list(files_of(tenant.folder)):
        if care is Care.DERIVED and fnmatchcase(relative, "*catalog.duckdb.[!w]*"):
            (tenant.folder / relative).unlink(missing_ok=True)
    tenant.state.remove("brief.json", "known_names.json", "settled.json")
    remove_copies(tenant.folder / CACHE)


def copies_of_applies(tenant: Tenant) -> list[Path]:
    """Return the undo copies of finished applies; those of a killed apply are needed to finish it."""
    journal = Journal(tenant.folder / "learn" / "applies")
    unfinished = journal.unfinished()
    finished = [journal.copies(number) for number in journal.numbers() if number != unfinished]
    return [path for copies in finished for path in (copies, *copies.parent.glob("index-*")) if path.exists()]


def reports_holding(tenant: Tenant, memories: Sequence[Memory]) -> list[Path]:
    """Return the reports of `memory learn check` that quote the memories; the next check writes them anew."""
    reports = [tenant.settings.pai_learning_dir / name for name in REPORTS] if tenant.is_sources_tenant else []
    return _holding(filter(Path.is_file, reports), chain.from_iterable(map(_find_searchable, memories)))


def files_holding(folder: Path, texts: Iterable[str]) -> list[Path]:
    """Return the files below `folder` that contain one of the texts, as bytes or as JSON escapes it."""
    return _holding(regular_files(folder), texts)


def _holding(paths: Iterable[Path], texts: Iterable[str]) -> list[Path]:
    wanted = Finder(form for text in texts for form in (text, json.dumps(text)[1:-1]))
    holding = []
    for path in paths:
        with suppress(FileNotFoundError), path.open("rb") as file:
            if not os.fstat(file.fileno()).st_size:
                continue
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                if wanted.is_any_in(data):
                    holding.append(path)
    return holding


def find_remains(tenant: Tenant, texts: Collection[str], *, of_machine: bool) -> Remains:
    """Return where the texts remain below the data folder; other tenants are included only if `of_machine`."""
    found = Remains([], [], [])
    names, theirs = set(tenant_names(tenant.settings)), dict[str, list[Path]]()
    outside = tenant.location.path.parent if tenant.location.is_folder else tenant.folder
    if texts and not outside.is_relative_to(tenant.settings.data_dir):
        found.needed.extend(files_holding(outside, texts))
    for path in files_holding(tenant.settings.data_dir, texts) if texts else ():
        owner, _, inner = path.relative_to(tenant.settings.data_dir).as_posix().partition("/")
        if owner in names - {tenant.name} and not of_machine:
            continue
        if owner == "dagster" or (owner in names and care_of(inner)):
            theirs.setdefault(owner, []).append(path)
        else:
            found.strays.append(path)
    for owner in [each for each in theirs if each in (tenant.name, "dagster")]:
        found.needed.extend(theirs.pop(owner))
    for owner in sorted(names - {tenant.name}) if of_machine and texts else ():  # no file shows a text that Lance compressed
        ids, files = _ids_saying(Tenant(tenant.settings, owner), texts), theirs.get(owner, [])
        if ids or files:
            found.others.append(OtherTenant(owner, ids, files))
    return found


def _ids_saying(tenant: Tenant, texts: Collection[str]) -> list[int]:
    try:
        rows = tenant.memories.scan(("id", "content", "title"))
    except StoreError as error:
        _log.warning("the tenant %s may still have the text: %s", tenant.name, error)
        return []
    wanted, saying = Finder(texts), list[int]()
    for batch in rows.to_batches(_BATCH):
        said = pc.binary_join_element_wise(batch["content"], batch["title"], "\n").to_pylist()
        present = set(wanted.find_in("\n".join(said).encode("utf-8", "surrogatepass")))
        numbers = batch["id"].to_pylist()
        saying += [number for number, text in zip(numbers, said, strict=True) if any(each in text for each in present)]
    return saying


def kept_values(tenant: Tenant) -> Iterator[tuple[str, list[Any]]]:
    """Yield name and content of the kept JSON and JSON Lines files and values that may hold texts."""
    for relative, care in list(entries_of(tenant.state, tenant.folder)):
        is_textless = any(fnmatchcase(relative, pattern) for pattern in _TEXTLESS)
        if care is not Care.KEPT or is_textless or not relative.endswith((".json", ".jsonl")):
            continue
        content = read_entry(tenant.state, tenant.folder, relative) or b""
        lines = content.split(b"\n") if relative.endswith(".jsonl") else [content]
        try:
            values = [json.loads(line) for line in lines if line.strip()]
        except (ValueError, RecursionError):
            continue
        yield relative, values


def _purge_json(tenant: Tenant, relative: str, before: list[Any], removal: Removal) -> None:
    after = [kept for value in before if (kept := removal.json(value)) is not None]
    if after == before:
        return
    if relative.endswith(".jsonl"):
        purged = "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in after)
    else:
        purged = json.dumps(after[0] if after else None, ensure_ascii=False, indent=1) + "\n"
    write_entry(tenant.state, tenant.folder, relative, purged.encode("utf-8", "surrogatepass"))


def _read_text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace")
