"""Recall memories for a prompt: those that fit it, and of each what the session was not given yet."""

from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from pathlib import Path

from pydantic import Field

from memory_assets.graph.outdated import Outdated, on_day
from memory_assets.language.passages import Weigh, find_best_sentence, passage
from memory_assets.language.times import day_in
from memory_assets.language.tokens import count_tokens
from memory_assets.language.words import sentences
from memory_assets.learn.brief import LONGEST_LINE, render_frame, render_line
from memory_assets.learn.session_start import PROMPT, digest_sentences, is_quiet, record_told, still_told
from memory_assets.learn.transcripts import find_taken_back, is_by_program, without_logs
from memory_assets.models import Memory, is_time_guessed
from memory_assets.operations.answers import LocalTime, View, begins_with, without_title
from memory_assets.operations.arguments import Narrowing
from memory_assets.recall.prompt import find_for_prompt
from memory_assets.recall.reading import weigh_answers
from memory_assets.recall.search import Hit
from memory_assets.recall.view import find_outdated_of
from memory_assets.sources.projects import Project
from memory_assets.tenants import Tenant

HEADING = "Recalled for this prompt"
_MOST_LINES = 4
_LEAST_TOKENS = 80
"""Tokens below which a memory is told whole or not at all."""
_LIKELY = 0.5
"""Likelihood to answer from which the best memory gets all room."""
_POINTER_TOKENS, _LONGEST_POINTER = 30, 130
"""Room that is kept for a line that points at a memory, and its most characters."""
_LEAST_PASSAGE = 110
"""Characters of a passage that a long title leaves."""
LONGEST_PROMPT = 2_000
"""Characters of a prompt that are read, half of them from its end: some people paste first and ask below."""
_FRAME_TOKENS = 60
"""Most tokens of the frame with label and heading; a test counts them."""


class PromptRecall(View):
    """Memories for a prompt; empty if nothing fits or the session has them already."""

    ids: tuple[int, ...] = Field(default=(), description="The recalled memories, the newest first.")
    framed: str = Field(default="", description="The text for the model.")


def recall_for_prompt(
    tenant: Tenant,
    prompt: str,
    session: str = "",
    here: Project | None = None,
    is_awaited: Callable[[], bool] = lambda: True,
    transcript: Path | None = None,
) -> PromptRecall:
    """Return the memories that a prompt needs and the session lacks, framed, within `MEMORY_PROMPT_RECALL_TOKENS`.

    The best memory gets the room that it needs, a next one what is left; of the best, the network reads the sentences. If it hardly
    answers, the others are pointed at with a line each: once, and without counting as given. The newest comes first, so that the model
    reads a current fact before an unnoticed outdated one. If `is_awaited` returns false after the search, the result is empty and nothing
    is recorded as given. What was given with prompts that the `transcript` shows as taken back is given again.
    """
    wanted = tenant.settings.prompt_recall
    if wanted == "off" or is_by_program(prompt) or not tenant.exists or is_quiet(tenant.folder, here):
        return PromptRecall()
    text = read_question(prompt)
    known = still_told(tenant.folder, session, find_taken_back(transcript) if transcript else ())
    filters = Narrowing(here=here).filters(tenant)
    room = tenant.settings.prompt_recall_tokens - _FRAME_TOKENS
    zone = LocalTime.of(tenant.settings).zone
    told: list[tuple[Memory, str, str]] = []  # with its line, and what of it counts as given

    def is_known(hit: Hit) -> bool:
        digests = known.get(hit.memory.id)
        return bool(digests) and digest_sentences(find_best_sentence(hit.memory.content, text)) <= digests

    hits = find_for_prompt(tenant, text, filters, datetime.now(UTC), is_known, only_sure=wanted == "sure")
    outdated = find_outdated_of(tenant, [hit.memory for hit in hits])
    is_sure = any((hit.likelihood or 0.0) >= _LIKELY for hit in hits)
    new_ones = [hit for hit in hits[1:_MOST_LINES] if hit.memory.id not in known]
    left, kept = room, 0 if is_sure else max(0, min(_POINTER_TOKENS * len(new_ones), room - _LEAST_TOKENS))
    weigh = weigh_answers(text)
    for hit in hits[:_MOST_LINES]:
        new = replace(hit, memory=_leave_out(hit.memory, known.get(hit.memory.id, set())))
        rendered, tokens = _render(new, text, weigh, outdated.get(hit.memory.id, ()), zone, left - kept)
        line = rendered
        if not rendered and not is_sure and hit.memory.id not in known:
            line, tokens = _point(hit, outdated.get(hit.memory.id, ()), zone, left)
        weigh, kept = None, 0
        if line:
            left -= tokens
            told.append((hit.memory, line, rendered))
    if not told or not is_awaited():
        return PromptRecall()
    told.sort(key=lambda each: each[0].created_at, reverse=True)
    record_told(tenant.folder, session, [(memory.id, given) for memory, _, given in told], PROMPT)
    ids = tuple(memory.id for memory, _, _ in told)
    return PromptRecall(ids=ids, framed=render_frame([(HEADING, [line for _, line, _ in told])]))


def read_question(prompt: str) -> str:
    """Return a prompt without pasted code and logs, unless it is nothing else; of a long one the beginning and the end."""
    text = without_logs(prompt).strip() or prompt.strip()
    half = LONGEST_PROMPT // 2
    return text if len(text) <= LONGEST_PROMPT else f"{text[:half]}\n{text[-half:]}"


def _leave_out(memory: Memory, known: Set[str]) -> Memory:
    """Return a memory without the sentences whose digests are known."""
    new = [each for each in sentences(memory.content) if not digest_sentences(each) <= known] if known else []
    return replace(memory, content="\n".join(new)) if new else memory


def _render(hit: Hit, prompt: str, weigh: Weigh | None, outdated: Sequence[Outdated], zone: tzinfo, room: int) -> tuple[str, int]:
    """Return the line of a memory and its tokens, at most `room`; an empty one if there is room for a rest of it only."""
    most = LONGEST_LINE
    while True:
        line = render_line(_describe(hit, prompt, weigh, outdated, zone, most), most)
        tokens = count_tokens(f"{line}\n")
        if tokens <= room:
            return line, tokens
        if room < _LEAST_TOKENS:
            return "", 0
        most = min(most, len(line)) * room // tokens


def _point(hit: Hit, outdated: Sequence[Outdated], zone: tzinfo, room: int) -> tuple[str, int]:
    """Return a line with a memory's first one, which summarises a note, and its tokens: none above `room`, or if that is outdated."""
    beginning, _, rest = hit.memory.content.strip().lstrip("# ").partition("\n")
    if any(each.is_in(beginning) for each in outdated):
        return "", 0
    line = render_line(f"{_head(hit, zone)} {beginning}{' …' if rest else ''}", _LONGEST_POINTER)
    tokens = count_tokens(f"{line}\n")
    return (line, tokens) if tokens <= room else ("", 0)


def _head(hit: Hit, zone: tzinfo) -> str:
    day = "" if is_time_guessed(hit.memory.metadata) else f"{day_in(hit.memory.created_at, zone)} "
    outdated = f" [outdated: replaced by {hit.replaced_by.id}{on_day(hit.replaced_on, zone)}]" if hit.replaced_by else ""
    return f"{day}(id {hit.memory.id}){outdated}"


def _describe(hit: Hit, prompt: str, weigh: Weigh | None, outdated_sentences: Sequence[Outdated], zone: tzinfo, most: int) -> str:
    memory, newer = hit.memory, hit.replaced_by
    head = _head(hit, zone)
    content = without_title(memory.content, memory.title)
    named = notes = ""
    for _ in range(2):  # the notes that a passage needs take room from it
        room = max(most - len(f"… {head}{notes} {memory.title}: "), _LEAST_PASSAGE)
        shown = passage(content, prompt, room, weigh)
        is_named = begins_with(shown, memory.title) or memory.title.casefold() in shown.casefold()
        named = shown if is_named else f"{memory.title}: {shown}"
        notes = "".join(
            f" [{'outdated: ' if each.verdict == 'replaced' else ''}{each.line(zone)}]"
            for each in outdated_sentences
            if each.is_in(named) and (newer is None or newer.id != each.replaced_by)
        )
        if not notes:
            break
    return f"{head}{notes} {named}"
