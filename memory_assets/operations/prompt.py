"""Tell a session the memories that fit its user's prompt and that it was not told yet."""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, tzinfo

from pydantic import Field

from memory_assets.graph.outdated import Outdated
from memory_assets.language.times import day_in
from memory_assets.language.tokens import count_tokens
from memory_assets.learn.brief import framed, line
from memory_assets.learn.session_start import PROMPT, is_quiet, record_told, still_told
from memory_assets.models import Memory
from memory_assets.operations.answers import LocalTime, View, begins_with, passage, without_title
from memory_assets.operations.given import Narrowing
from memory_assets.recall.prompt import find_for_prompt
from memory_assets.recall.search import Hit
from memory_assets.recall.view import find_outdated_of
from memory_assets.sources.projects import Project
from memory_assets.tenants import Tenant

NOTHING = "{}"
"""The answer of a hook that has nothing to say."""
HEADING = "Recalled for this prompt"
_MOST_LINES = 4
_LONGEST_PROMPT = 2_000
"""Characters of a prompt that are read: what was pasted below them is no question."""
_FRAME_TOKENS = 90
"""Of the frame with its label and heading, at most; a test counts them."""


class PromptRecall(View):
    """What a prompt recalls; empty if nothing fits, or the session knows it already."""

    ids: tuple[int, ...] = Field(default=(), description="The memories told, the newest first.")
    framed: str = Field(default="", description="What the model is given.")

    def hook_output(self) -> str:
        """The answer of a UserPromptSubmit hook. An empty object says nothing; of an empty text Claude Code tells the model."""
        if not self.framed:
            return NOTHING
        return json.dumps({"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": self.framed}})


def recall_for_prompt(
    tenant: Tenant, prompt: str, session: str = "", here: Project | None = None, is_awaited: Callable[[], bool] = lambda: True
) -> PromptRecall:
    """The memories that a prompt needs, framed, within `MEMORY_PROMPT_RECALL_TOKENS`, and none that the session still has.

    The newest comes first: where nobody noticed that a fact has changed, what holds is read before what it replaced. If the answer is not
    awaited any more, it is empty, and nothing is noted as told.

    Raises:
        StoreError: the store's vectors are another embedder's, or it cannot be read.
        EmbedderError: the prompt cannot be embedded.
    """
    wanted = tenant.settings.prompt_recall
    text = prompt[:_LONGEST_PROMPT].strip()
    if wanted == "off" or text.startswith("/") or not tenant.exists or is_quiet(tenant.folder, here):
        return PromptRecall()
    known = still_told(tenant.folder, session)
    filters = Narrowing(here=here).filters(tenant)
    room = tenant.settings.prompt_recall_tokens - _FRAME_TOKENS
    zone = LocalTime.of(tenant.settings).zone
    told: list[tuple[Memory, str]] = []
    hits = find_for_prompt(tenant, text, filters, datetime.now(UTC), known, only_sure=wanted == "sure")
    outdated = find_outdated_of(tenant, [hit.memory for hit in hits])
    for hit in hits:
        rendered = line(_described(hit, text, outdated.get(hit.memory.id, ()), zone))
        room -= count_tokens(f"{rendered}\n")
        if room < 0 or len(told) == _MOST_LINES:
            break
        told.append((hit.memory, rendered))
    if not told or not is_awaited():
        return PromptRecall()
    told.sort(key=lambda each: each[0].created_at, reverse=True)
    lines = [(memory.id, rendered) for memory, rendered in told]
    record_told(tenant.folder, session, lines, PROMPT)
    return PromptRecall(ids=tuple(number for number, _ in lines), framed=framed([(HEADING, [text for _, text in lines])]))


def _described(hit: Hit, prompt: str, outdated_sentences: Sequence[Outdated], zone: tzinfo) -> str:
    memory = hit.memory
    said = passage(without_title(memory.content, memory.title), prompt)
    is_named = begins_with(said, memory.title) or memory.title.casefold() in said.casefold()
    named = said if is_named else f"{memory.title}: {said}"
    newer = hit.replaced_by
    outdated = f" [outdated: replaced on {day_in(hit.replaced_on, zone)} by {newer.id}]" if newer and hit.replaced_on else ""
    of_sentences = [
        f" [{'outdated: ' if each.verdict == 'replaced' else ''}{each.line(zone)}]"
        for each in outdated_sentences
        if each.is_in(named) and (newer is None or newer.id != each.replaced_by)
    ]
    day = "" if "created_at" in memory.metadata.get("guessed", ()) else f"{day_in(memory.created_at, zone)} "
    return f"{day}(id {memory.id}){outdated}{''.join(of_sentences)} {named}"
