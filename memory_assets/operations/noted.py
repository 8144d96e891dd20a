"""Notes of earlier sessions: list them, store them as memories, or drop them. Also lists the memories that a session was given."""

from collections.abc import Sequence, Set

from pydantic import Field

from memory_assets.errors import InvalidInputError, NotFoundError
from memory_assets.language.passages import passage
from memory_assets.learn.noted import Noted, read_noted, settle, settled_ids
from memory_assets.learn.session_start import read_last_told, read_told
from memory_assets.learn.transcripts import read_moment
from memory_assets.models import Kind, NewMemory, Source
from memory_assets.operations.answers import Answer, Instant, LocalTime, View
from memory_assets.tenants import Tenant


class NotedView(View):
    """A sentence of the user that may be worth remembering."""

    id: str = Field(description="Eight digits that never change.")
    text: str
    project: str
    said_at: str
    session: str
    kind: str = Field(description="Kind of the memory that it becomes.")
    stored: int | None = Field(default=None, description="Id of the memory that it became.")


class NotedSentences(Answer):
    """Notes, the oldest first; of `store` and `drop`, the notes that they settled."""

    noted: tuple[NotedView, ...]
    count: int
    outcome: str = ""
    """"stored", "dropped" or empty."""
    settled: tuple[str, ...] = Field(default=(), description="Ids that an earlier call stored or dropped; nothing was done.")

    def text(self, local: LocalTime) -> str:
        lines = []
        for each in self.noted:
            said_at = read_moment(each.said_at)
            day = str(local.day(said_at)) if said_at else ""
            facts = (each.text, day, each.project, f"id {each.stored}" if each.stored else "")
            lines.append(f"{each.id}  {' · '.join(filter(None, facts))}")
        if lines and self.outcome:
            lines.insert(0, f"{self.outcome.capitalize()}:")
        lines += [f"{each} was stored or dropped before." for each in self.settled]
        return "\n".join(lines) or "Nothing is noted."


class ToldView(View):
    """A memory that a session was given."""

    memory: int
    content: str = Field(description="Its current text; empty if the memory is gone.")
    reason: str = Field(description="start: when the session began; compact: after a compaction; prompt: a prompt needed it.")
    at: Instant


class SessionTold(Answer):
    """The memories that a session was given, in order."""

    told: tuple[ToldView, ...]

    def text(self, local: LocalTime) -> str:
        lines = [
            f"{each.at.astimezone(local.zone):%Y-%m-%d %H:%M}  {each.reason:<7}  id {each.memory}  "
            f"{passage(each.content) or 'not there any more'}"
            for each in self.told
        ]
        return "\n".join(lines) or "No session was told anything."


def told(tenant: Tenant, session: str = "") -> SessionTold:
    """List the memories that a session was given; without an id, the last session that was given any."""
    listed = read_told(tenant.folder, session) if session else read_last_told(tenant.folder)
    contents = {memory.id: memory.content for memory in tenant.memories.get({each.memory for each in listed})} if listed else {}
    return SessionTold(told=tuple(ToldView.of(each, content=contents.get(each.memory, "")) for each in listed))


def noted(tenant: Tenant) -> NotedSentences:
    """Return the notes that are neither stored nor dropped."""
    return _answer([NotedView.of(each) for each in read_noted(tenant.folder)])


def store_noted(tenant: Tenant, ids: Sequence[str]) -> NotedSentences:
    """Store the notes with these ids or first digits, or all if none is given. A repeated call stores nothing twice."""
    from memory_assets.ingest.direct import store_once
    from memory_assets.learn.briefing import update_brief
    from memory_assets.stores.rows import derived_id

    picked, settled = _pick_notes(tenant, ids)
    stored: list[NotedView] = []
    for each in picked:
        given = NewMemory(
            each.text,
            Source.CLI,
            Kind(each.kind),
            id=derived_id(f"noted:{each.session}", each.digest),
            created_at=read_moment(each.said_at),
            project=each.project,
            session=each.session,
            author="user",
        )
        memory = store_once(tenant, given).memory
        settle(tenant.folder, [each])
        update_brief(tenant, [(None, memory)])
        stored.append(NotedView.of(each, stored=memory.id))
    tenant.memories.upkeep.after_commit()
    return _answer(stored, "stored", settled)


def drop_noted(tenant: Tenant, ids: Sequence[str]) -> NotedSentences:
    """Drop the notes with these ids or first digits."""
    if not ids:
        raise InvalidInputError("Add the ids of the notes to drop; `memory noted` lists them.")
    picked, settled = _pick_notes(tenant, ids)
    settle(tenant.folder, picked)
    return _answer([NotedView.of(each) for each in picked], "dropped", settled)


def _pick_notes(tenant: Tenant, references: Sequence[str]) -> tuple[list[Noted], tuple[str, ...]]:
    """Return the notes of these ids, and the ids that were settled before; the first digits of exactly one id are enough."""
    open_notes = read_noted(tenant.folder)
    known = {each.id for each in open_notes}
    # Settled ones count, so that a repeated call means the same note.
    wanted = [_resolve_id(each.casefold(), known | settled_ids(tenant.folder)) for each in references]
    picked = [each for each in open_notes if not wanted or each.id in wanted]
    return picked, tuple(each for each in wanted if each not in known)


def _resolve_id(reference: str, ids: Set[str]) -> str:
    found = [each for each in ids if reference and each.startswith(reference)]
    if len(found) > 1:
        raise InvalidInputError(f"{reference} is the beginning of several notes' ids; give more digits.")
    if not found:
        raise NotFoundError(f"Nothing is noted under the id {reference}; `memory noted` lists what is.")
    return found[0]


def _answer(views: Sequence[NotedView], outcome: str = "", settled: tuple[str, ...] = ()) -> NotedSentences:
    return NotedSentences(noted=tuple(views), count=len(views), outcome=outcome, settled=settled)
