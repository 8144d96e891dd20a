"""What a newer memory of its name outdid is kept as history in the store, if the store never saw it."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from memory_assets.ingest.direct import import_memories
from memory_assets.language.guard import refusal_of, without_secrets
from memory_assets.learn.plan import Outdone
from memory_assets.models import NewMemory, SecretPolicy, Source, State
from memory_assets.stores.lance import quoted
from memory_assets.stores.rows import content_hash, derived_id

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant


def keep_history(tenant: "Tenant", outdone: Iterable[Outdone]) -> int:
    """Remember as superseded what is not in the store yet, under the id that `memory run` would have given it.

    Return how many were added; `memory search --history` finds them. After an error finished commits stay.
    """
    policy = tenant.settings.secrets
    wanted = [_memory(each) for each in outdone]
    if policy is SecretPolicy.REFUSE:
        wanted = [memory for memory in wanted if not refusal_of(memory)]
    elif policy is SecretPolicy.MASK:
        wanted = [without_secrets(memory) for memory in wanted]
    wanted = [replace(each, id=derived_id(each.metadata["silo_key"], content_hash(each.content))) for each in wanted]
    if not wanted:
        return 0
    digests = quoted(tuple(content_hash(memory.content) for memory in wanted))
    known = set(tenant.memories.scan(("content_hash",), f"content_hash IN {digests}")["content_hash"].to_pylist())
    new = [memory for memory in wanted if content_hash(memory.content) not in known]
    return import_memories(tenant, new, lambda _done, _total: None).added if new else 0


def _memory(outdone: Outdone) -> NewMemory:
    """A memory with the text that `memory run` makes of its file."""
    head = "\n".join(filter(None, (outdone.description, "\n".join(sorted(outdone.hooks)))))
    return NewMemory(
        content="\n\n".join(filter(None, (head, outdone.body))).strip(),
        source=Source.PAI_LEARNING if outdone.key == outdone.canonical_key else Source.CLAUDE_SILO,
        kind=outdone.kind,
        title=outdone.name,
        created_at=outdone.written_at,
        project=outdone.project,
        state=State.SUPERSEDED,
        source_key=outdone.canonical_key,
        metadata={"silo_key": outdone.key},
    )
