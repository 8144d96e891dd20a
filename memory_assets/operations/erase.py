"""Erase memories: remove their texts from every file of the data folder, and keep sources from bringing them back."""

import os
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Annotated

from pydantic import Field

from memory_assets.display import counted
from memory_assets.errors import InvalidInputError, MemoryAssetsError, NotFoundError
from memory_assets.keeping import erasing
from memory_assets.language.validation import is_blank
from memory_assets.models import Memory, Source, State
from memory_assets.operations.answers import Answer, Instant, LocalTime, View, describe_remains, name_of, path_of
from memory_assets.operations.arguments import digits_of, find_memory
from memory_assets.operations.backup import find_backups
from memory_assets.operations.fields import Moment, Query, Reference
from memory_assets.sources.dating import SESSION_NAME
from memory_assets.stores.filters import Filters
from memory_assets.stores.lance import quoted
from memory_assets.stores.tombstones import Tombstone, Tombstones
from memory_assets.tana.client import TanaClient
from memory_assets.tenants import Tenant

_MOST_LISTED = 20


class ErasedMemory(View):
    """A memory that was erased, or would be."""

    id: int
    name: str = Field(description="Its title, or how it begins; empty once it is erased.")
    state: State
    created_at: Instant


class EarlierErasure(View):
    """A memory that was erased before."""

    id: int
    erased_at: Instant


class OtherTenantView(View):
    """Another tenant that still has the text."""

    name: str
    ids: list[int] = Field(description="Its memories with the text.")


class Erased(Answer):
    """What an erasure did, or would do."""

    done: bool = Field(description="Whether the memories were erased; otherwise this is a preview.")
    memories: list[ErasedMemory] = Field(description="Including earlier versions, and all memories with exactly the same text.")
    earlier: list[EarlierErasure] = Field(
        description="Those that were asked for and do not exist any more, and those of a killed erasure."
    )
    files: list[str] = Field(description="Source files that still contain the text; `memory run` does not take it in again.")
    transcripts: list[str] = Field(default=[], description="Transcripts of the memories' sessions; they stay.")
    nodes: list[str] = Field(description="Nodes in Tana that mirror the memories.")
    trashed: bool = Field(description="Whether those nodes were moved to Tana's trash.")
    backups: list[str] = Field(description="Backups that still contain a memory, and places that could not be read.")
    remains: list[str] = Field(
        description="Files of the data folder that still contain some of the text and that no store needs."
    )
    needed: list[str] = Field(description="Files that still contain some of the text and that the program needs.")
    others: list[OtherTenantView] = Field(description="Other tenants with the text; given only on the machine itself.")
    rebuilds: bool = Field(default=False, description="Whether the graph was removed, so that the next run builds it again.")

    def text(self, local: LocalTime) -> str:
        lines = [f"Memory {each.id} was erased on {local.day(each.erased_at)}" for each in self.earlier]
        if self.memories or not lines:
            lines.append(f"{counted(len(self.memories))} {'erased' if self.done else 'to erase'}")
        lines += [f"  {each.id}  {each.state}  {each.name}".rstrip() for each in self.memories[:_MOST_LISTED]]
        if len(self.memories) > _MOST_LISTED:
            lines.append(f"  and {len(self.memories) - _MOST_LISTED} more")
        lines += [f"Its file still says it: {path}" for path in self.files]
        lines += [f"Its session's transcript stays: {path}" for path in self.transcripts]
        verb = "Moved to Tana's trash" if self.trashed else "Still in Tana; --trash-in-tana moves it to the trash"
        lines += [f"{verb}: node {node}" for node in self.nodes]
        commands = {other.name: f"memory erase {' '.join(map(str, other.ids))} --tenant {other.name}" for other in self.others}
        lines += describe_remains(self.backups, self.remains, self.needed, commands)
        if self.rebuilds:
            lines.append(f"{local.command('run')} builds the graph again.")
        return "\n".join(lines)


class Allowed(Answer):
    """Result of lifting the ban on erased texts."""

    memories: int

    def text(self, local: LocalTime) -> str:
        return f"The texts of {counted(self.memories)} may come back: store them, or let {local.command('run')} read their files again."


def erase(
    tenant: Tenant,
    ids: Annotated[Sequence[Reference], Field(max_length=1_000, description="Besides those that meet all conditions.")] = (),
    *,
    matching: Annotated[Query, Field(description="All whose text or title contains this, in any case.")] = "",
    source: Annotated[Annotated[Source, Field(strict=False)] | None, Field(description="All from this source.")] = None,
    before: Annotated[Moment | None, Field(description="All created before this time.")] = None,
    confirm: Annotated[bool, Field(description="Erase; otherwise only show what would go.")] = False,
    trash_in_tana: bool = False,
    of_machine: bool = False,
) -> Erased:
    """Erase memories for good, so that no file contains their texts; without `confirm`, show which would go.

    Erases the memories of `ids` and those that meet all other conditions, with their earlier versions and all with the same text. After
    an interruption or failure run it again: an erased memory is found by its id. Repeated later, it removes what stayed in object
    storage. `trash_in_tana` moves the nodes that mirror the memories to the trash. `of_machine` also names other tenants that have the
    text.
    """
    memories, earlier = _find_chosen(tenant, ids, matching, source, before)
    answer = _preview(tenant, memories, earlier, done=confirm)
    if not confirm:
        return answer
    if not memories and all(each.finished for each in earlier):
        return answer.model_copy(update={"rebuilds": erasing.clean_again(tenant)})
    trashed = trash_in_tana and _trash_nodes(tenant, answer.nodes)  # first: after an interruption the nodes may be unknown
    left = erasing.erase(tenant, memories, of_machine=of_machine)
    unsaid = [path for other in left.others if not other.ids for path in other.files]
    return answer.model_copy(
        update={
            "trashed": trashed,
            "rebuilds": True,
            "remains": [str(path) for path in left.strays],
            "needed": [str(path) for path in (*left.needed, *unsaid)],
            "others": [OtherTenantView.of(other) for other in left.others if other.ids],
        }
    )


def allow_again(tenant: Tenant, ids: Sequence[str]) -> Allowed:
    """Allow the texts of erased memories to be stored again."""
    try:
        lifted = erasing.allow_again(tenant, map(int, map(digits_of, ids)))
    except ValueError:
        raise InvalidInputError("Give the whole ids of erased memories, as the refusal names them.") from None
    if not lifted:
        raise NotFoundError("No memory of these ids was erased; `memory status --refused` names what is refused as erased.")
    return Allowed(memories=lifted)


def _find_chosen(
    tenant: Tenant, references: Sequence[str | int], matching: str, source: Source | None, before: datetime | None
) -> tuple[list[Memory], list[Tombstone]]:
    """Return the memories to erase, and the tombstones of those that exist no more but were asked for, or whose erasure was killed."""
    stones = {each.id: each for each in Tombstones(tenant.state).all}
    wanted = {each.id for each in stones.values() if not each.finished}
    has_conditions = matching or source or before
    if (matching and is_blank(matching)) or not (references or has_conditions or wanted):
        raise InvalidInputError("Name what to erase: ids, or a text (matching), a source or a time (before).")
    ids: list[int] = []
    for reference in references:
        try:
            ids.append(find_memory(tenant, reference).id)
        except NotFoundError:
            erased = {number for number in stones if str(number).startswith(digits_of(str(reference)))}
            if not erased:
                raise
            wanted |= erased
    if has_conditions:
        where = Filters(sources=[source] if source else (), until=before, states=()).sql()
        if matching:
            text = quoted([matching])
            where += f" AND (strpos(lower(content), lower{text}) > 0 OR strpos(lower(title), lower{text}) > 0)"
        ids += tenant.memories.scan(("id",), where)["id"].to_pylist()
    memories = erasing.versions_of(tenant, ids)
    if not memories and not wanted:
        raise NotFoundError("No memory fits; nothing is to be erased.")
    return memories, [stones[each] for each in sorted(wanted - {memory.id for memory in memories})]


def _preview(tenant: Tenant, memories: list[Memory], earlier: list[Tombstone], *, done: bool) -> Erased:
    paths = (path for path in map(path_of, memories) if os.path.isabs(path) and os.path.exists(path))  # noqa: PTH110, PTH117 - of any length
    return Erased(
        done=done,
        memories=[ErasedMemory.of(memory, name="" if done else name_of(memory)) for memory in memories],
        earlier=[EarlierErasure.of(each) for each in earlier],
        files=list(dict.fromkeys([*paths, *map(str, erasing.reports_holding(tenant, memories))])),
        transcripts=_find_transcripts(tenant, memories),
        nodes=list(erasing.mirroring_nodes(tenant, memories).values()),
        trashed=False,
        backups=find_backups(tenant, [each.id for each in (*memories, *earlier)]),
        remains=[],
        needed=[],
        others=[],
    )


def _find_transcripts(tenant: Tenant, memories: Sequence[Memory]) -> list[str]:
    sessions = dict.fromkeys(memory.session for memory in memories if SESSION_NAME.fullmatch(memory.session))
    return [str(path) for each in sessions for path in tenant.settings.claude_projects_dir.glob(f"*/{each}.jsonl")]


def _trash_nodes(tenant: Tenant, nodes: Sequence[str]) -> bool:
    """Move nodes to Tana's trash; return False if there are none or Tana does not answer."""
    with suppress(MemoryAssetsError):
        client = TanaClient.open(tenant.settings)
        for node in nodes:
            client.trash(node)
        return bool(nodes)
    return False
