"""Export memories as JSON Lines, and import such lines from `memory export` or another program."""

import json
import os
import sys
from codecs import BOM_UTF8
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, BinaryIO

from pydantic import AwareDatetime, BaseModel, Field, TypeAdapter, ValidationError

from memory_assets.display import counted
from memory_assets.errors import InvalidInputError, first_fault
from memory_assets.language.secrets import mask
from memory_assets.language.validation import validate_memory
from memory_assets.models import MAX_IMPORTED_LENGTH, REVISES, Memory, NewMemory, RelationType, SecretPolicy, Source, State
from memory_assets.operations.answers import Answer, LocalTime
from memory_assets.operations.changes import changed_at, last_change, record_change
from memory_assets.sources.dating import EARLIEST, LATEST, is_in_future
from memory_assets.sources.files import RefusedFileError, open_regular
from memory_assets.stores.files import writing
from memory_assets.stores.memories import SUPERSEDABLE, follow_versions
from memory_assets.stores.relations import StatedRelation
from memory_assets.stores.rows import to_arrow, to_jsonl
from memory_assets.stores.tombstones import Tombstone, Tombstones
from memory_assets.tenants import Tenant


class Exported(Answer):
    """The file that an export wrote."""

    file: Path
    memories: int

    def text(self, local: LocalTime) -> str:
        return f"{counted(self.memories)} written to {self.file}"


def export(tenant: Tenant, file: Path) -> Exported:
    """Write all memories to `file`, one a line, in the store's order; only one batch is in RAM at a time."""
    written = 0
    with writing(file) as lines:
        for text in _memory_lines(tenant):
            lines.write(text.encode())
            written += text.count("\n")
        lines.writelines(map(str.encode, _erased_lines(tenant)))
    return Exported(file=file.absolute(), memories=written)


def export_lines(tenant: Tenant) -> Iterator[str]:
    """Yield all memories as JSON Lines, a batch at a time, then the ids of erased ones with the digests of their texts."""
    yield from _memory_lines(tenant)
    yield from _erased_lines(tenant)


def _memory_lines(tenant: Tenant) -> Iterator[str]:
    with tenant.memories.stored.explaining_errors():
        tenant.memories.stored.raise_if_lost()
    relations: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in tenant.relations.scan().sort_by([("target_id", "ascending"), ("type", "ascending")]).to_pylist():
        relations[row.pop("source_id")].append({name: value for name, value in row.items() if name != "id"})
    for memories in tenant.memories.batches():
        yield to_jsonl(memories, relations)


def _erased_lines(tenant: Tenant) -> Iterator[str]:
    for key, stone in Tombstones(tenant.state).keyed:
        compared = {"key": key, "digests": stone.digests} if stone.digests else {}
        yield f"{json.dumps({'id': stone.id, 'erased_at': stone.erased_at} | compared)}\n"


class Imported(Answer):
    """Counts of an import's lines."""

    added: int
    updated: int
    unchanged: int
    refused: int
    erased: int = 0
    """Left out, because their texts were erased here."""
    removed: int = 0
    """Erased here, because they were erased at the lines' origin."""
    repeated: int = 0
    """Left out, because a later line gives the same memory."""
    retired: int = 0
    """Taken out of recall, because they were forgotten or superseded at the lines' origin."""

    def text(self, local: LocalTime) -> str:
        left_out = f", {self.erased} left out (erased before)" if self.erased else ""
        repeated = f", {self.repeated} left out (a later line gives the same memory)" if self.repeated else ""
        removed = f", {self.removed} erased as there" if self.removed else ""
        retired = f", {self.retired} forgotten or superseded as there" if self.retired else ""
        return (
            f"{self.added} added, {self.updated} updated, {self.unchanged} unchanged, {self.refused} refused"
            f"{left_out}{repeated}{removed}{retired}"
        )


class _Relation(BaseModel):
    target_id: int
    type: RelationType
    confidence: float = Field(1.0, ge=0, le=1)
    note: str | None = None
    stated_by: str = Source.IMPORT.value
    created_at: AwareDatetime | None = None


class _Line(BaseModel):
    relations: tuple[_Relation, ...]


class _Erased(BaseModel):
    id: int = Field(gt=0, lt=1 << 53)
    erased_at: AwareDatetime
    key: str = Field("", pattern=r"^([0-9a-f]{64})?$")
    digests: tuple[Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")], ...] = ()

    @property
    def tombstone(self) -> Tombstone:
        at = self.erased_at.astimezone(UTC).isoformat(timespec="seconds")
        return Tombstone(self.id, at, self.digests if self.key else (), finished=True)


_OBJECT = TypeAdapter(dict[str, Any])
_ID = TypeAdapter(Annotated[int | str | None, Field(union_mode="left_to_right")])
_MEMORY = TypeAdapter(NewMemory)
_MOMENT = TypeAdapter(AwareDatetime | None)
_RETIRED = ("id", "state", "superseded_by", "metadata", "updated_at")
_OUT = (State.FORGOTTEN, State.SUPERSEDED)
_DERIVED = frozenset({"active", "actions", "entities", "pipeline", "updated_at"})


def _parse_memory(line: dict[str, Any]) -> NewMemory:
    """Parse a line. An id that is no integer becomes the external id; unknown fields go to `metadata`."""
    named = {field.name for field in fields(NewMemory)}
    known = {name: value for name, value in line.items() if name in named and value is not None}
    unknown = {name: value for name, value in line.items() if name not in named | _DERIVED | {"relations"}}
    if (source := known.get("source", "")) not in list(Source):
        known["source"] = Source.IMPORT
        unknown |= {"source": source} if source else {}
    number = _ID.validate_python(known.get("id"))
    if isinstance(number, str):
        known |= {"id": None, "external_id": number}
    elif number is not None and not 0 < number < 1 << 53:
        raise InvalidInputError("id: an integer must lie within 1 and 2^53 - 1; give it as a string to keep it as it is")
    memory = _MEMORY.validate_python(known)
    if memory.superseded_by is not None and (memory.state is not State.SUPERSEDED or memory.superseded_by == memory.id):
        raise InvalidInputError('superseded_by: leave it out, or name another memory and give the state "superseded"')
    if created := memory.created_at:
        created = created if created.tzinfo else created.replace(tzinfo=UTC)
        if not EARLIEST <= created <= LATEST:
            raise InvalidInputError(f"created_at: {created.year} is no year of a memory; leave it out if the time is unknown")
        if is_in_future(created) and "pipeline" not in line:  # an export's times come from this program
            raise InvalidInputError(f"created_at: {created:%Y-%m-%d} lies in the future; give a time up to now")
    memory = replace(memory, created_at=created, metadata=memory.metadata | unknown)
    validate_memory(memory, MAX_IMPORTED_LENGTH)
    return memory


@contextmanager
def open_lines(file: Path) -> Iterator[BinaryIO]:
    """Open a file, a pipe or `-` (standard input) for import; raise InvalidInputError if it cannot be read."""
    if str(file) == "-":
        yield sys.stdin.buffer
        return
    try:
        with open_regular(file, or_pipe=True) as descriptor, os.fdopen(descriptor, "rb", closefd=False) as lines:
            yield lines
    except RefusedFileError as error:
        raise InvalidInputError(f"{file} cannot be imported: {error.reason}; name a file or a pipe.") from error


def import_lines(
    tenant: Tenant,
    name: str,
    lines: Iterable[bytes],
    *,
    skip_invalid: bool,
    on_fault: Callable[[str], None],
    on_progress: Callable[[int, int], None],
    on_check: Callable[[int, int], None] = lambda _done, _total: None,
) -> Imported:
    """Import the memories of a JSON Lines file. A known id is updated, so an import can be repeated.

    If the lines come from `memory export`, changes at their origin are merged:

    - A memory that was forgotten or superseded there after its last change here leaves recall here too.
    - A memory returns to recall only if the version that replaced it was taken back there.
    - A memory that a source file here contains keeps its text; it can only be forgotten.
    - A memory that was erased there is erased here and stays out.

    Nothing is imported if a line is invalid, unless `skip_invalid` is set. `on_fault` gets a sentence for each invalid line before the
    import begins, `on_progress` (done, total) while memories are stored, `on_check` while secrets are looked for.
    """
    from memory_assets.ingest.direct import import_memories
    from memory_assets.ingest.memories import find_said
    from memory_assets.keeping.erasing import erase_as_elsewhere
    from memory_assets.learn.briefing import renew_brief

    given: list[NewMemory] = []
    stated: dict[int, tuple[_Relation, ...]] = {}
    exported: dict[int | None, datetime | None] = {}
    erased: dict[tuple[str, Tombstone], None] = {}
    refused = 0
    for number, marked in enumerate(lines, start=1):
        if not (line := marked.removeprefix(BOM_UTF8)).strip():
            continue
        try:
            read = _OBJECT.validate_json(line)
            if "erased_at" in read and "content" not in read:
                gone = _Erased.model_validate(read)
                erased[gone.key, gone.tombstone] = None
                continue
            relations = _Line(relations=read.get("relations") or ()).relations
            given.append(memory := _parse_memory(read))
            if relations and memory.id is not None:
                stated[memory.id] = relations
            if "pipeline" in read:
                exported[memory.id] = _MOMENT.validate_python(read.get("updated_at"))
        except (ValidationError, InvalidInputError) as error:
            refused += 1
            fault = str(error) if isinstance(error, InvalidInputError) else first_fault(error, "the line")
            on_fault(f"{name} line {number}, {fault.removesuffix('.')}.")
    if refused and not skip_invalid:
        raise InvalidInputError(
            f"{refused} line(s) of {name} are invalid, so nothing was imported; mend them, or skip them "
            "(--skip-invalid; over HTTP skip_invalid=true)."
        )
    in_sources = find_said(tenant.catalog, tenant.memories).intersection(exported) if exported else frozenset[int]()
    removed = erase_as_elsewhere(tenant, erased)  # it empties the catalog
    tombstones = Tombstones(tenant.state)
    out = {stone.id for stone in tombstones.all}
    wanted = given
    if tombstones:
        wanted = [each for each in given if each.id not in out and not tombstones.find(each.content, mask(each.content))]
    outcome = import_memories(tenant, wanted, on_progress, exported, in_sources, on_check)
    retired = _retire_memories(tenant, wanted, exported, in_sources)
    _import_relations(tenant, stated)
    renew_brief(tenant)
    return Imported.of(outcome, refused=refused, erased=len(given) - len(wanted), removed=removed, retired=retired)


def _retire_memories(
    tenant: Tenant, lines: Sequence[NewMemory], exported: Mapping[int | None, datetime | None], in_sources: Collection[int]
) -> int:
    """Forget and supersede memories as the lines say; return how many left recall.

    A memory is not superseded by a missing one, by one that it superseded here, or if a source file contains it (`in_sources`). If a
    version that was taken back at the origin is forgotten here, the memory that it replaced returns to recall.
    """
    there = {line.id: line for line in lines if line.id is not None and exported.get(line.id)}
    if not there:
        return 0
    rows = tenant.memories.scan(("id", "superseded_by"))
    newer = dict(zip(rows["id"].to_pylist(), rows["superseded_by"].to_pylist(), strict=True))
    differing = [number for number, line in there.items() if line.state in _OUT or newer.get(number)]
    memories = {memory.id: memory for memory in tenant.memories.get(differing)}
    retired: list[tuple[Memory, Memory]] = []
    for number, memory in memories.items():
        line = there[number]
        at = _decided_at(line, there, exported)
        if memory.state not in SUPERSEDABLE or at is None or at <= (changed_at(memory) or _untimed_change(memory)):
            continue
        if line.state is State.FORGOTTEN:
            retired.append((memory, record_change(memory, "forget", memory.state, at, state=line.state)))
        elif (
            line.state is State.SUPERSEDED
            and number not in in_sources
            and line.superseded_by in newer
            and number not in follow_versions(line.superseded_by, newer.get)
        ):
            newer[number] = line.superseded_by
            after = record_change(memory, "supersede", memory.state, at, state=line.state, superseded_by=line.superseded_by)
            retired.append((memory, after))
    forgotten = {after.id for _, after in retired if after.state is State.FORGOTTEN}
    back = [
        (memory, record_change(memory, "undo", at=changed_at(line), state=State.ACTIVE, superseded_by=None))
        for memory, line in ((memory, there[number]) for number, memory in memories.items())
        if line.state is State.ACTIVE and memory.state is State.SUPERSEDED and memory.superseded_by in forgotten
    ]
    if not retired:
        return 0
    before, after = zip(*retired, *back, strict=True)
    now = datetime.now(UTC)
    rows = to_arrow([replace(each, updated_at=now) for each in after])
    written = tenant.memories.update(rows.select(_RETIRED), [each.updated_at for each in before])
    return max(0, written - len(back))


def _decided_at(
    line: NewMemory, lines: Mapping[int, NewMemory], exported: Mapping[int | None, datetime | None]
) -> datetime | None:
    """Return when a line's memory left recall: by its recorded change, the edit that replaced it, or its last write, perhaps an import."""
    newer = lines.get(line.superseded_by or 0)
    edited = newer.created_at if newer and newer.metadata.get(REVISES) == line.id else None
    return changed_at(line) or edited or exported.get(line.id)


def _untimed_change(memory: Memory) -> datetime:
    """Return the last change of a memory that records no time: its storing, or a change that an earlier release recorded."""
    return memory.updated_at if last_change(memory)[0] else memory.created_at


def _import_relations(tenant: Tenant, stated: Mapping[int, Sequence[_Relation]]) -> None:
    """Store the lines' relations between known memories, unless they exist or were taken back here later."""
    if not stated:
        return
    there = set(tenant.memories.scan(("id",))["id"].to_pylist())
    now, is_open = datetime.now(UTC), tenant.settings.secrets is SecretPolicy.ALLOW
    given = {
        StatedRelation(
            source,
            each.target_id,
            each.type,
            each.confidence,
            each.note or "" if is_open else mask(each.note or ""),
            each.stated_by,
        ): each.created_at or now
        for source, relations in stated.items()
        for each in relations
        if {source, each.target_id} <= there and source != each.target_id
    }
    undone: dict[int, datetime] = {}
    for memory in tenant.memories.get({end for each in given for end in (each.source_id, each.target_id)}):
        did, before = last_change(memory)
        if did == "undo" and isinstance(before, dict) and (at := changed_at(memory)):
            undone[before["id"]] = at
    tenant.relations.insert({each: at for each, at in given.items() if each.id not in undone or at > undone[each.id]})
