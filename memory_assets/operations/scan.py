"""Find keys and passwords in stored texts, and mask them on demand so that no file contains them any more."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pydantic import Field

from memory_assets.display import counted, shortened
from memory_assets.ingest.backfill import reanalyse, reembed
from memory_assets.keeping.erasing import (
    Removal,
    copies_of_applies,
    find_remains,
    kept_values,
    purge_derived,
    purge_files,
    purge_tables,
)
from memory_assets.language.guard import iter_secrets, mask_value, secrets_of, without_secrets
from memory_assets.language.secrets import mask
from memory_assets.language.tags import normalise_tag
from memory_assets.learn.brief import NAME as BRIEF
from memory_assets.learn.briefing import renew_brief
from memory_assets.models import Memory
from memory_assets.operations.answers import Answer, LocalTime, View, describe_remains
from memory_assets.operations.backup import find_backups
from memory_assets.stores.files import replace_file
from memory_assets.stores.keys import KeyStore
from memory_assets.stores.lance import aligned
from memory_assets.stores.rows import COLUMNS, content_hash, from_arrow, to_arrow
from memory_assets.tenants import Tenant

_BATCH = 4_096
_MARKER = "masking.tmp"
"""File during a mend, with the ids and files in which it found secrets; if an interruption leaves it, the next mend repeats everything."""
_ITEMS = "SELECT path, title, description, body, tags, links, project, session, author, metadata FROM source_items"
_HOOKS = "SELECT path, hook FROM source_hooks"
_LINKS = "SELECT memory_id, note FROM analyzer_links"


class _Found(NamedTuple):
    """A place with kind and text of its secrets, if any."""

    place: str
    secrets: list[tuple[str, str]]
    id: int = 0
    """Id of the memory or relation."""
    file: str = ""
    """Name below the tenant's folder, of a file that backups copy."""


class Leak(View):
    """A stored text that contains secrets."""

    place: str = Field(description="A memory, relation, text read from a file, kept file, key, or copies of curated memories.")
    kinds: list[str]


class Scanned(Answer):
    """Secrets that were found, and after a mend the places that still contain one."""

    leaks: list[Leak]
    masked: bool = Field(description="Whether the secrets were masked.")
    remains: list[str] = Field(
        default_factory=list, description="Files below the data folder that still contain a secret and that no store needs."
    )
    needed: list[str] = Field(default_factory=list, description="Files that still contain a secret and that the program needs.")
    others: list[str] = Field(default_factory=list, description="Other tenants that still have a secret.")
    backups: list[str] = Field(
        default_factory=list,
        description="Backups with a memory, relation or file that was masked, and places that could not be read.",
    )

    @property
    def is_failure(self) -> bool:
        return bool(self.remains or self.needed or self.others or (self.leaks and not self.masked))

    def text(self, local: LocalTime) -> str:
        if not self.leaks:
            return "No stored text contains keys or passwords."
        lines = [f"{leak.place}: {', '.join(leak.kinds)}" for leak in self.leaks]
        lines.append("")
        places = counted(len(self.leaks), "place", "places")
        if not self.masked:
            lines.append(
                f"{places} with keys or passwords; {local.command('scan --mend')} masks them. Change them where they are used."
            )
            return "\n".join(lines)
        lines.append(f"{places} masked; {local.command('run')} builds the graph again. Change the secrets where they are used.")
        commands = {name: f"memory scan --mend --tenant {name}" for name in self.others}
        lines += describe_remains(self.backups, self.remains, self.needed, commands)
        return "\n".join(lines)


def scan(tenant: Tenant) -> Scanned:
    """Search all stored texts for secrets: stores, texts read from files, kept files, copies of curated ones, the brief, keys."""
    return Scanned(leaks=_list_leaks(_find_secrets(tenant)), masked=False)


def mend(tenant: Tenant) -> Scanned:
    """Mask all secrets that `scan` finds, whatever the settings say, so that no byte of them stays below the data folder.

    The tables are rewritten without their older versions. The catalog keeps only data that cannot be derived; the next run builds the
    rest. Memories with a secret are embedded and analysed again. If it fails, run it again to finish.
    """
    found = list(_find_secrets(tenant))
    leaks = _list_leaks(found)
    begun = tenant.folder / _MARKER
    if not leaks and not begun.exists():
        return Scanned(leaks=[], masked=True)
    holding = [each for each in found if each.secrets]
    earlier_ids, earlier_files = json.loads(begun.read_bytes() or b"[[], []]") if begun.exists() else ([], [])
    ids = sorted({*earlier_ids, *(each.id for each in holding if each.id)})
    files = sorted({*earlier_files, *(each.file for each in holding if each.file)})
    replace_file(begun, json.dumps([ids, files]))
    removal = Removal(_mask_memories, _mask_notes, mask_value, lambda text: any(iter_secrets(text)))
    purge_tables(tenant, removal)
    purge_files(tenant, removal)
    keys = KeyStore(tenant.state)
    for key in keys.list():
        if (description := mask(key.description)) != key.description:
            keys.describe(key, description)
    purge_derived(tenant)
    if tenant.memories.columns.embedder == tenant.embedder.name:
        reembed(tenant.memories, tenant.embedder, lambda *_: None)
    reanalyse(tenant.memories, tenant.analyzer, lambda *_: None)
    renew_brief(tenant)
    backups = find_backups(tenant, ids, files)
    begun.unlink()
    secrets = {secret for each in holding for _, secret in each.secrets}
    left = find_remains(tenant, secrets, of_machine=True)
    return Scanned(
        leaks=leaks,
        masked=True,
        remains=[str(path) for path in left.strays],
        needed=[str(path) for path in left.needed],
        others=[other.name for other in left.others],
        backups=backups,
    )


def _find_secrets(tenant: Tenant) -> Iterator[_Found]:
    """Yield every place with text; of the memories, only those with a secret."""
    for memory in chain.from_iterable(tenant.memories.batches()):
        if secrets := secrets_of(memory):
            yield _Found(f"Memory {memory.id} ({shortened(mask(memory.title or memory.content), 60)})", secrets, memory.id)
    for relation in tenant.relations.scan().to_pylist():
        yield _Found(f"The relation {relation['id']}", list(iter_secrets(relation["note"])), relation["id"])
    with tenant.catalog.read() as connection:
        for path, *texts in connection.execute(_ITEMS).fetchall() + connection.execute(_HOOKS).fetchall():
            yield _Found(f"Text read from {mask(path)}", list(iter_secrets(texts)))
        for number, note in connection.execute(_LINKS).fetchall():
            yield _Found(f"A relation that the chat model found for memory {number}", list(iter_secrets(note)))
    for file in copies_of_applies(tenant):
        if file.exists():
            secrets = list(iter_secrets(file.read_bytes().decode("utf-8", "replace")))
            yield _Found(f"The copies of curated memories, {file}", secrets, file=file.relative_to(tenant.folder).as_posix())
    state = tenant.state
    if brief := state.get(BRIEF):
        yield _Found(f"The brief for sessions, {state.where(BRIEF)}", list(iter_secrets(brief.decode("utf-8", "replace"))))
    for relative, values in kept_values(tenant):
        path = tenant.folder / relative
        yield _Found(str(path) if path.exists() else state.where(relative), list(iter_secrets(values)), file=relative)
    for key in KeyStore(state).list():
        yield _Found(f"The description of the key {key.id}", list(iter_secrets(key.description)))


def _list_leaks(found: Iterable[_Found]) -> list[Leak]:
    return [Leak(place=each.place, kinds=list(dict.fromkeys(kind for kind, _ in each.secrets))) for each in found if each.secrets]


def _mask_memories(rows: pa.Table) -> pa.Table:
    """Mask secrets in memories, and drop everything derived from these texts: vectors, entities, actions and digests."""
    now = datetime.now(UTC)
    masked = [
        _drop_derived(memory, without_secrets(memory), now)
        for batch in rows.select(list(COLUMNS)).to_batches(_BATCH)
        for memory in from_arrow(pa.Table.from_batches([batch]))
        if secrets_of(memory)
    ]
    changed = aligned(to_arrow(masked), rows.schema)
    kept = rows.filter(pa.array(~np.isin(rows["id"].to_numpy(), changed["id"].to_numpy())))
    return pa.concat_tables([kept, changed])


def _drop_derived(memory: Memory, masked: Memory, now: datetime) -> Memory:
    words = "".join("".join(filter(str.isalnum, secret)).lower() for _, secret in secrets_of(memory))
    tags = tuple(normalise_tag(tag) for tag in masked.tags if "".join(filter(str.isalnum, tag)) not in words)
    return replace(
        masked,
        tags=tags,
        entities=(),
        actions=(),
        pipeline="",
        content_hash=content_hash(masked.content),
        revision="",
        updated_at=now,
    )


def _mask_notes(rows: pa.Table) -> pa.Table:
    notes = pa.array([mask(note) for note in rows["note"].to_pylist()], pa.string())
    return rows.set_column(rows.schema.get_field_index("note"), rows.schema.field("note"), notes)
