"""Storing texts that people and agents give directly. A failure stores nothing and names the step."""

import json
import socket
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from functools import partial

from memory_assets.arrays import Floats
from memory_assets.errors import ChangedMeanwhileError, ConflictError, InvalidInputError
from memory_assets.language.embedders import Embedder
from memory_assets.language.guard import kinds_of, known_secrets, refusal_of, without_secrets
from memory_assets.language.pipeline import Analyzer
from memory_assets.language.process import ProcessingError, Step, process_batch
from memory_assets.language.secrets import mask
from memory_assets.language.validation import validate_memory
from memory_assets.models import (
    LAST_CHANGE,
    MACHINE,
    MAX_CONTENT_LENGTH,
    MAX_IMPORTED_LENGTH,
    REVISES,
    Memory,
    NewMemory,
    SecretPolicy,
    TextVectors,
)
from memory_assets.stores import tombstones
from memory_assets.stores.rows import content_hash, derived_id, headed, new_id, to_arrow
from memory_assets.stores.tombstones import Tombstones
from memory_assets.tenants import Tenant

_CHUNK = 512
"""Memories per commit of an import."""
_SHOWN = 80
"""Characters of a refused text shown in its error."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A committed memory, the unit vector of its meaning, shape (dimension,), and the kinds of the secrets masked in it."""

    memory: Memory
    meaning: Floats
    masked: list[str]


def store_memories(tenant: Tenant, given: Sequence[NewMemory]) -> list[Stored]:
    """Store several texts without ids in one commit: all of them or none. A ProcessingError names the text."""
    return _store(tenant, given, tenant.memories.add)


def store_once(tenant: Tenant, given: NewMemory) -> Stored:
    """Store a text once under its own id, which must be no other memory's; an existing memory is kept, even if it was forgotten since."""
    (stored,) = _store(tenant, [given], tenant.memories.insert)
    (kept,) = tenant.memories.get([stored.memory.id])
    if kept.revision != stored.memory.revision:
        raise ConflictError("this key was used for another memory; retry with the same content or choose a new key")
    return replace(stored, memory=kept)


def revise_memory(tenant: Tenant, old: Memory, given: NewMemory) -> Stored:
    """Store a newer version of `old`, and supersede `old` in the same commit.

    Raises ConflictError if `old` is already superseded or forgotten, or changed concurrently; then nothing is changed.
    """

    def supersede(newer: list[Memory], vectors: TextVectors, embedder: str) -> None:
        (memory,) = newer
        rows = tenant.memories.columns.fill(to_arrow(newer), vectors, embedder)
        if not tenant.memories.insert_superseding(rows, {old.id: memory.id}, [old.updated_at]):
            tenant.memories.delete([memory.id])
            raise ChangedMeanwhileError(
                f"The memory {old.id} is {old.state} or was just changed; look at it again (show {old.id})."
            )

    (stored,) = _store(tenant, [given], supersede)
    return stored


def _store(
    tenant: Tenant, given: Sequence[NewMemory], commit: Callable[[list[Memory], TextVectors, str], object]
) -> list[Stored]:
    guarded, now = _validate_and_guard(tenant, given), datetime.now(UTC)
    masked = [[] if kept is each else kinds_of(each) for kept, each in zip(guarded, given, strict=True)]

    def store(embedder: Embedder) -> list[Stored]:
        memories, vectors = _process(tenant.analyzer, embedder, guarded, now)
        memories = [replace(each, metadata={MACHINE: socket.gethostname()} | each.metadata) for each in memories]
        commit(memories, vectors, embedder.name)
        return [Stored(*each) for each in zip(memories, vectors.meanings, masked, strict=True)]

    return tenant.with_embedder(store)


@dataclass(frozen=True, slots=True)
class ImportOutcome:
    """Counts of an import."""

    added: int
    updated: int
    unchanged: int
    repeated: int
    """Lines overridden by a later line for the same memory."""


def import_memories(
    tenant: Tenant,
    given: Sequence[NewMemory],
    on_progress: Callable[[int, int], None],
    exported: Collection[int | None] = (),
    kept: Collection[int] = (),
    on_check: Callable[[int, int], None] = lambda _done, _total: None,
) -> ImportOutcome:
    """Store many memories. An import can be repeated, and after a failure finished commits are kept.

    Two memories are the same if they have the same id or external id, or, without either, the same text, time, session and author. An
    unchanged memory is not written. A changed one is updated, but keeps its state, its protection and the user's tags, and its creation
    time unless the line states one. A memory that changes while its chunk is written is skipped. Memories of one session with the same
    time, or none, are stored a microsecond apart, to keep their order; a line with an id keeps its stated time. The ids `exported` are of
    memories that `memory export` wrote, which get no automatic tags; a text that the export only masked is kept. Memories with ids in
    `kept` are not updated. `on_progress` and `on_check` get (done, total) while memories are stored and while secrets are looked for.
    """
    given = _validate_and_guard(tenant, given, MAX_IMPORTED_LENGTH, is_one_file=True, on_check=on_check)
    existing = tenant.memories.scan(("id", "revision"))
    revisions = dict(zip(existing["id"].to_pylist(), existing["revision"].to_pylist(), strict=True))
    with_ids = {memory.id: memory for memory in (replace(each, id=_import_id(each)) for each in given)}
    todo = [memory for number, memory in with_ids.items() if number not in kept and revisions.get(number) != _revision(memory)]
    exact = {each.id for each in given if each.id is not None and each.created_at}
    ordinals, now = _ordinals(with_ids.values()) | dict.fromkeys(exact, 0), datetime.now(UTC)
    updated = 0
    for start in range(0, len(todo), _CHUNK):
        chunk = todo[start : start + _CHUNK]
        put = partial(_write_lines, tenant, chunk, now, [ordinals[each.id] for each in chunk], exported)
        updated += tenant.with_embedder(put)
        on_progress(start + len(chunk), len(todo))
    tenant.memories.upkeep.after_commit()
    added = sum(memory.id not in revisions for memory in todo)
    return ImportOutcome(added, updated, len(with_ids) - added - updated, len(given) - len(with_ids))


def _write_lines(
    tenant: Tenant,
    given: Sequence[NewMemory],
    now: datetime,
    ordinals: Sequence[int],
    exported: Collection[int | None],
    embedder: Embedder,
) -> int:
    old = {memory.id: memory for memory in tenant.memories.get(each.id for each in given if each.id is not None)}
    analysed = [memory for memory in old.values() if memory.id not in exported]
    found = tenant.analyzer.analyze_batch([memory.content for memory in analysed])
    automatic = {memory.id: features.tags for memory, features in zip(analysed, found, strict=True)}
    unmasked = (_restore_masked(each, old[each.id]) if each.id in old and each.id in exported else each for each in given)
    drafts = [_merge_kept_fields(each, old[each.id], automatic.get(each.id, ())) if each.id in old else each for each in unmasked]
    changed = [
        place
        for place, draft in enumerate(drafts)
        if draft.id not in old or draft.id in automatic or draft != _to_new_memory(old[draft.id])
    ]
    if not changed:
        return 0
    given, drafts = [given[place] for place in changed], [drafts[place] for place in changed]
    memories, vectors = _process(tenant.analyzer, embedder, drafts, now, [ordinals[place] for place in changed])
    written_at = datetime.now(UTC)
    rows = []
    for memory, line, draft in zip(memories, given, drafts, strict=True):
        created_at = memory.created_at if line.created_at or memory.id not in old else old[memory.id].created_at
        tags = draft.tags if memory.id in exported else memory.tags
        rows.append(replace(memory, created_at=created_at, updated_at=written_at, revision=_revision(line), tags=tags))
    tenant.memories.put(rows, vectors, embedder.name, [memory.updated_at for memory in old.values()])
    return sum(row.id in old for row in rows)


def _to_new_memory(memory: Memory) -> NewMemory:
    return NewMemory(**{field.name: getattr(memory, field.name) for field in fields(NewMemory)})


def _restore_masked(line: NewMemory, old: Memory) -> NewMemory:
    """Return a line of another machine's export with the fields of `old` that the machine only masked."""
    masked = without_secrets(old)
    names = [field.name for field in fields(NewMemory)]
    return replace(line, **{name: getattr(old, name) for name in names if getattr(masked, name) == getattr(line, name)})


def _merge_kept_fields(line: NewMemory, old: Memory, automatic: Collection[str]) -> NewMemory:
    kept = (tag for tag in old.tags if tag not in automatic)
    notes = (LAST_CHANGE, REVISES, MACHINE) if line.content == old.content else (LAST_CHANGE, REVISES)
    return replace(
        line,
        created_at=line.created_at or old.created_at,
        tags=tuple(dict.fromkeys((*kept, *line.tags))),
        protected=line.protected or old.protected,
        state=old.state,
        superseded_by=old.superseded_by,
        metadata=line.metadata | {key: old.metadata[key] for key in notes if key in old.metadata},
    )


def _ordinals(given: Iterable[NewMemory]) -> dict[int | None, int]:
    """Return by id the number of earlier lines of the same session and time."""
    seen: Counter[tuple[str, datetime | None]] = Counter()
    ordinals: dict[int | None, int] = {}
    for each in given:
        moment = (each.session, each.created_at)
        ordinals[each.id] = seen[moment] if each.session else 0
        seen[moment] += 1
    return ordinals


def _validate_and_guard(
    tenant: Tenant,
    given: Sequence[NewMemory],
    longest: int = MAX_CONTENT_LENGTH,
    *,
    is_one_file: bool = False,
    on_check: Callable[[int, int], None] = lambda _done, _total: None,
) -> list[NewMemory]:
    """Validate memories and mask or refuse secrets, as the settings say, those of one file in all of it. The first step."""
    policy, erased = tenant.settings.secrets, Tombstones(tenant.state)
    for index, each in enumerate(_counted(given, on_check) if policy is SecretPolicy.REFUSE else given):
        try:
            validate_memory(each, longest)
        except InvalidInputError as error:
            raise ProcessingError(Step.VALIDATION, str(error), index) from error
        if erased and (stone := erased.find(each.content, mask(each.content))):
            raise ProcessingError(Step.VALIDATION, f"{tombstones.refusal_of(stone)}; {tombstones.MEND.format(stone.id)}.", index)
        if policy is SecretPolicy.REFUSE and (reason := refusal_of(each)):
            shown = mask(each.content)[:_SHOWN]
            raise ProcessingError(Step.VALIDATION, f"{reason}: {shown!r}; take it out, or set MEMORY_SECRETS to mask.", index)
    if policy is not SecretPolicy.MASK:
        return list(given)
    known = known_secrets(_counted(given, on_check)) if is_one_file else None
    return list(given) if known == {} else [without_secrets(each, known) for each in given]


def _counted(given: Sequence[NewMemory], on_check: Callable[[int, int], None]) -> Iterator[NewMemory]:
    """Yield each memory, and tell every `_CHUNK` of them, and at the end, how many of them are done."""
    for done, each in enumerate(given):
        if done % _CHUNK == 0:
            on_check(done, len(given))
        yield each
    on_check(len(given), len(given))


def _process(
    analyzer: Analyzer,
    embedder: Embedder,
    given: Sequence[NewMemory],
    now: datetime,
    ordinals: Sequence[int] | None = None,
) -> tuple[list[Memory], TextVectors]:
    drafts = [_draft(each, now, ordinal) for each, ordinal in zip(given, ordinals or [0] * len(given), strict=True)]
    return process_batch(drafts, [headed(draft) for draft in drafts], analyzer, embedder)


def _draft(given: NewMemory, now: datetime, ordinal: int) -> Memory:
    fields = asdict(given) | {
        "id": given.id if given.id is not None else new_id(),
        "created_at": (given.created_at or now) + timedelta(microseconds=ordinal),
    }
    return Memory(**fields, updated_at=now, content_hash=content_hash(given.content), revision=_revision(given))


def _import_id(given: NewMemory) -> int:
    if given.id is not None:
        return given.id
    if given.external_id:
        return derived_id(f"{given.source}:{given.external_id}", "")
    return derived_id(f"{given.created_at}\0{given.session}\0{given.author}", content_hash(given.content))


def _revision(given: NewMemory) -> str:
    fields = asdict(given)
    del fields["id"]
    return content_hash(json.dumps(fields, ensure_ascii=False, sort_keys=True, default=str))
