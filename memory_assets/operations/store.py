"""Store a text, and return the memories that it repeats, contradicts or calls to mind."""

import logging
from collections.abc import Sequence

from pydantic import Field

from memory_assets.errors import InvalidInputError, format_trace
from memory_assets.ingest.direct import Stored, store_memories, store_once
from memory_assets.learn.briefing import update_brief
from memory_assets.models import NewMemory
from memory_assets.operations.answers import LocalTime, MemoryView, describe_masked, path_of
from memory_assets.recall.similar import Echo, find_neighbours, judge_neighbours
from memory_assets.sources.dating import CLOCK_DIFFERENCE, EARLIEST, is_in_future
from memory_assets.tenants import Tenant

_log = logging.getLogger(__name__)


_TOUCHES = "It touches what is remembered: the same, replaced, or do both hold?"
_HEADINGS = {Echo.REPEATED: "It repeats", Echo.CONTRADICTED: _TOUCHES, Echo.CHANGED: _TOUCHES, Echo.ALIKE: _TOUCHES}


class RelatedView(MemoryView):
    """A memory that is related to the new one but not the same."""

    similarity: float = Field(description="How alike the two texts are on the scale of all embedders, between 0.7 and 0.9.")


class EchoView(MemoryView):
    """A memory that the new one repeats, changes or contradicts, or that is very similar to it."""

    echo: Echo
    evidence: str = Field(default="", description="The difference between the two, in words.")
    similarity: float = Field(description="How alike the two texts are, above 0.7.")

    @property
    def why(self) -> str:
        differs = self.evidence if self.echo in (Echo.CHANGED, Echo.CONTRADICTED) else ""
        return differs or f"similarity {self.similarity:.2f}"


class StoredMemory(MemoryView):
    """The stored memory, with at most three related ones (`splash`) and three that repeat, change or contradict it (`echoes`)."""

    splash: list[RelatedView]
    echoes: list[EchoView]
    masked: list[str] = Field(description="Kinds of keys and passwords that were masked in it.")
    version: int = Field(description="Version of the store that holds it.")

    def text(self, local: LocalTime) -> str:
        lines = [f"Stored {self.id}"]
        if self.updated_at - self.created_at > CLOCK_DIFFERENCE:
            lines.append(f"  created   {self.created_at.astimezone(local.zone):%A, %-d %B %Y}")
        if self.masked:
            lines.append(f"  masked    {describe_masked(self.masked)}")
        entities = [f"{entity.text} ({entity.type})" for entity in self.entities]
        for name, values in (("tags", self.tags), ("entities", entities), ("actions", self.actions)):
            if values:
                lines.append(f"  {name:<9} {', '.join(values)}")
        for heading in dict.fromkeys(_HEADINGS.values()):
            echoes = [each for each in self.echoes if _HEADINGS[each.echo] == heading]
            if echoes:
                lines.append(heading)
                lines += [each.entry(local, "  ", note=each.why) for each in echoes]
                if heading == _TOUCHES:
                    older, newer = sorted((echoes[0], self), key=lambda each: each.created_at)
                    replaces = "The new one replaces it" if newer is self else "It is later and replaces the new one"
                    path = path_of(older)
                    how = f"change it in {path}" if path else f"{local.program}supersede {older.id} {newer.id}"
                    lines.append(f"  {replaces}: {how}")
                    lines.append(f"  Both hold: {local.keep_both(self.id, echoes[0].id)}")
                lines.append(f"  To take the new one back: {local.program}undo {self.id}")
        echoed = {each.id for each in self.echoes}
        if related := [each for each in self.splash if each.id not in echoed]:
            lines.append("It calls to mind")
            lines += [each.entry(local, "  ", note=f"similarity {each.similarity:.2f}") for each in related]
        return "\n".join(lines)


def store(tenant: Tenant, given: NewMemory) -> StoredMemory:
    """Store one text. Texts that other threads store in the same tenant at the same time share its commit."""
    if given.created_at and is_in_future(given.created_at):
        raise InvalidInputError(f"created_at {given.created_at:%Y-%m-%d} lies in the future; give a time up to now.")
    if given.created_at and given.created_at <= EARLIEST:  # an earlier one that was typed has become this
        raise InvalidInputError(f"created_at lies before {EARLIEST:%Y}; leave it out if the time is unknown.")
    if given.id is None:
        return tenant.commits.run(given, lambda batch: _answer_stored(tenant, store_memories(tenant, batch)))
    return _answer_stored(tenant, [store_once(tenant, given)])[0]


def _answer_stored(tenant: Tenant, stored: Sequence[Stored]) -> list[StoredMemory]:
    """Return the answers of committed memories. They are built one by one: in parallel they would delay searches."""
    answers = [_answer_with_neighbours(tenant, each) for each in stored]
    if tenant.on_commit:
        tenant.on_commit(len(answers))
    else:
        tenant.memories.upkeep.after_commit()
        update_brief(tenant, [(None, each.memory) for each in stored])
    return answers


def _answer_with_neighbours(tenant: Tenant, stored: Stored) -> StoredMemory:
    """Return the answer of a committed memory. If its neighbours cannot be found, it has none: the text must not be stored twice."""
    related, repeated, version = [], [], 0
    try:
        version = tenant.memories.stored.newest_version
        near = find_neighbours(tenant.memories, stored.memory, stored.meaning, tenant.embedder.name)
        alike, echoes = judge_neighbours(stored.memory, near)
        related = [RelatedView.of(each.memory, similarity=each.similarity) for each in alike]
        repeated = [
            EchoView.of(each.memory, echo=each.echo, evidence=each.evidence, similarity=each.similarity)
            for each in echoes
            if each.echo
        ]
    except Exception as error:  # noqa: BLE001 - see above
        _log.warning("no splash: %s", format_trace(error))
    return StoredMemory.of(stored.memory, splash=related, echoes=repeated, masked=stored.masked, version=version)
