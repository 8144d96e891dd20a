"""What was noted at the end of sessions: to be stored as memories, or dropped."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import BaseModel, Field

from memory_assets.errors import NotFoundError
from memory_assets.learn.noted import Noted, read_noted, settle
from memory_assets.models import Kind, NewMemory, Source
from memory_assets.operations.answers import Answer, LocalTime

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant


class NotedView(BaseModel):
    """A sentence of the user that may be worth remembering."""

    number: int = Field(description="Its place in the list.")
    text: str
    project: str
    said_at: str
    session: str
    stored: int | None = Field(default=None, description="The memory that it became.")


class NotedSentences(Answer):
    """What was noted, the oldest first, or what became of some of it."""

    noted: tuple[NotedView, ...]
    count: int
    outcome: str = ""
    """"stored", "dropped" or nothing."""

    def text(self, local: LocalTime) -> str:  # noqa: ARG002
        """A line a sentence."""
        if not self.noted:
            return "Nothing is noted."
        lines = [
            f"{each.number}. {each.text}{f' · {each.project}' if each.project else ''}{f' · id {each.stored}' if each.stored else ''}"
            for each in self.noted
        ]
        return "\n".join([f"{self.outcome.capitalize()}:", *lines] if self.outcome else lines)


def noted(tenant: "Tenant") -> NotedSentences:
    """What was noted and neither stored nor dropped."""
    held = read_noted(tenant.folder)
    return NotedSentences(noted=tuple(_view(number, each) for number, each in enumerate(held, 1)), count=len(held))


def store_noted(tenant: "Tenant", numbers: Sequence[int]) -> NotedSentences:
    """Remember the sentences of these numbers, all of them where none is given, as feedback.

    Raises:
        NotFoundError: there is none of such a number.
        ProcessingError: one cannot be stored; those before it are, and are no longer noted. A kill lets none be stored twice.
    """
    from memory_assets.ingest.direct import store_once
    from memory_assets.learn.briefing import tell_brief
    from memory_assets.stores.rows import content_hash, derived_id

    stored: list[NotedView] = []
    for number, each in _picked(tenant, numbers):
        given = NewMemory(
            each.text,
            Source.CLI,
            Kind.FEEDBACK,
            id=derived_id(f"noted:{each.session}", content_hash(each.text)),
            project=each.project,
            session=each.session,
            author="user",
        )
        memory = store_once(tenant, given).memory
        settle(tenant.folder, [each])
        tell_brief(tenant, [memory])
        stored.append(_view(number, each, memory.id))
    tenant.memories.upkeep.after_commit()
    return NotedSentences(noted=tuple(stored), count=len(stored), outcome="stored")


def drop_noted(tenant: "Tenant", numbers: Sequence[int]) -> NotedSentences:
    """Note the sentences of these numbers no longer, all of them where none is given.

    Raises:
        NotFoundError: there is none of such a number.
    """
    picked = _picked(tenant, numbers)
    settle(tenant.folder, [each for _, each in picked])
    return NotedSentences(noted=tuple(_view(*each) for each in picked), count=len(picked), outcome="dropped")


def _picked(tenant: "Tenant", numbers: Sequence[int]) -> list[tuple[int, Noted]]:
    held = dict(enumerate(read_noted(tenant.folder), 1))
    for number in numbers:
        if number not in held:
            raise NotFoundError(f"Nothing is noted under the number {number}; `memory noted` lists what is.")
    return [(number, each) for number, each in held.items() if not numbers or number in numbers]


def _view(number: int, each: Noted, stored: int | None = None) -> NotedView:
    return NotedView(
        number=number, text=each.text, project=each.project, said_at=each.said_at, session=each.session, stored=stored
    )
