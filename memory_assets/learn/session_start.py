"""The text that a session is shown at its start, and a record of it: one small file per session with a line for each memory.

A session is shown standing facts (its project's first), feedback that fits, the last session's outcome, then relevant and fresh memories.
This module reads only the brief, without a store or heavy libraries. A compacted or cleared session is shown the text again.
"""

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from memory_assets.display import counted
from memory_assets.errors import DamagedError, InvalidInputError, forgo_on_full_disk
from memory_assets.hook_settings import HookSettings
from memory_assets.learn.brief import ENDS, LIST_GOES_ON, LONGEST_JOINED, Brief, BriefLine, read_brief, render_frame, render_line
from memory_assets.learn.checkouts import note_checkout, project_names, remotes_of
from memory_assets.learn.noted import Noted, read_noted
from memory_assets.learn.session_queue import Ended, list_by_age, record_begun
from memory_assets.sources.files import RefusedFileError, read_head, read_own_file
from memory_assets.sources.projects import Project, project_of, session_directory

_FRAME_TOKENS = 103
"""Upper bound for the frame with its label and all headings; a test counts them."""
_NUDGE_TOKENS = 35
"""Upper bound for the longest nudge; a test counts it."""
_SECTIONS = (
    ("About the user", 0.24),
    ("Feedback that fits here", 0.49),
    ("Known of this project", 1.0),
    ("Known of no one project", 1.0),
)
"""Heading, and the cumulative share of the tokens that this and the earlier sections may use."""
_MAX_GENERAL_LINES = 5
_JOINT = len("; ")
_FORK = "fork"
_FORKED_FROM, _FORK_BYTES = re.compile(rb'"forkedFrom":\s*\{[^{}]*"sessionId":\s*"([\w-]{1,100})"'), 1 << 20
"""What names the session that a transcript was copied from, and the size of the beginning in which it is looked for."""
_KEEPING_SOURCES = frozenset({"resume", _FORK})
"""Kinds of start after which the session still has the text."""
_COMPACTED = "compact"
_NOTED_HEADING = "Noted in this session, not stored yet"
_MAX_NOTED_LINES = 5
_QUIET_NAME = "quiet.json"


@dataclass(frozen=True, slots=True)
class Hook:
    """Claude Code's message on standard input when a session starts, is compacted or ends."""

    session: str = ""
    source: str = "startup"
    directory: str = ""
    event: str = ""
    transcript: str = ""
    agent: str = ""
    """Id of the subagent that was compacted; empty for the session itself."""

    @classmethod
    def parse(cls, text: str) -> "Hook":
        """Parse the hook's JSON; without input, as on a terminal, return a hook with default fields.

        Raise ValueError if the text is not JSON, InvalidInputError if it is no object or a field is not text.
        """
        given = json.loads(text) if text.strip() else {}
        if not isinstance(given, dict):
            raise InvalidInputError("The hook's input is not a JSON object.")
        fields = {
            "session": "session_id",
            "source": "source",
            "directory": "cwd",
            "event": "hook_event_name",
            "transcript": "transcript_path",
            "agent": "agent_id",
        }
        values = {field: given[name] for field, name in fields.items() if given.get(name) is not None}
        if wrong := [fields[field] for field, value in values.items() if not isinstance(value, str)]:
            raise InvalidInputError(f"The hook's input has fields that are not text: {', '.join(wrong)}.")
        return cls(**values)

    @property
    def project(self) -> Project | None:
        """Return the project in which the session began, or to which its user moved; the assistant's own `cd` changes nothing."""
        working = Path(self.directory or ".")
        return project_of(session_directory(Path(self.transcript), working) or working)


def session_start(settings: HookSettings, hook: Hook) -> str:
    """Return the text for a session's start, and record it; empty for a subagent or a quiet project, or with nothing to show."""
    if hook.agent:
        return ""
    project = hook.project
    is_compacted = hook.source == _COMPACTED
    if project:
        note_checkout(settings.folder, project)
    if settings.session_summary == "on" and hook.session and hook.transcript and settings.folder.is_dir():
        transcript = str(Path(hook.transcript).expanduser())
        with forgo_on_full_disk():
            record_begun(settings.folder, Ended(hook.session, transcript, project.folder if project else ""))
    if hook.source == _FORK:
        _copy_record(settings.folder, hook)
    if is_compacted and _record_file(settings.folder, hook.session).exists():
        record_told(settings.folder, hook.session, [(_NOTHING, "")], _COMPACTED)
    if is_quiet(settings.folder, project) or settings.session_start == "off" or hook.source in _KEEPING_SOURCES:
        return ""
    brief = read_brief(settings.folder)
    known = _read_notes(settings.folder) if is_compacted and hook.session else ()
    noted = [render_line(each.text) for each in known if each.session == hook.session][-_MAX_NOTED_LINES:]
    nudges = _make_nudges(settings.folder, brief, settings.nudge_from) if settings.is_sources_tenant and not is_compacted else []
    # An estimate without loading an encoding: no token is shorter than two bytes in prose.
    room = _available_tokens(settings.session_start_tokens, nudges) - sum(len(each.encode()) // 2 for each in noted)
    chosen = _choose_lines(brief.lines if brief else (), _names(settings.folder, project), room)
    if not (any(chosen) or noted or nudges):
        return ""
    chosen = [_join_facts(lines) for lines in chosen]
    if shown := [(each.id, each.text) for lines in chosen for each in lines]:
        record_told(settings.folder, hook.session, shown, _COMPACTED if is_compacted else "start")
    sections = [(heading, [each.text for each in lines]) for (heading, _), lines in zip(_SECTIONS, chosen, strict=True)]
    return render_frame([*sections, (_NOTED_HEADING, noted), ("Waiting", nudges)])


def preview_lines(
    brief: Brief | None, folder: Path, project: Project | None, tokens: int, nudge_from: int | None
) -> list[tuple[str, list[BriefLine], list[BriefLine]]]:
    """Return each section of the text for a new session: heading, lines in it, and lines that do not fit into `tokens`.

    The text mentions un-ingested memories from `nudge_from` on; pass None for a tenant that does not own the silos.
    """
    names, lines = _names(folder, project), brief.lines if brief else ()
    nudges = [] if nudge_from is None else _make_nudges(folder, brief, nudge_from)
    chosen = _choose_lines(lines, names, _available_tokens(tokens, nudges))
    return [
        (heading, _join_facts(shown), [each for each in candidates if each not in shown])
        for (heading, _), shown, candidates in zip(_SECTIONS, chosen, _split_by_section(lines, names), strict=True)
    ]


def is_quiet(folder: Path, project: Project | None) -> bool:
    """Whether a project's sessions are shown nothing. `folder` is the tenant's."""
    return project is not None and bool(_quiet_names(folder, project))


def set_quiet(folder: Path, project: Project, *, quiet: bool) -> None:
    """Switch the text off for sessions in a project, in all checkouts of its remote, or on again."""
    from memory_assets.stores.files import replace_file
    from memory_assets.stores.locks import locked_in_time

    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with locked_in_time(folder):
        name = next(iter(remotes_of(folder, project)), project.folder)
        others = _read_quiet(folder) - _quiet_names(folder, project)
        replace_file(folder / _QUIET_NAME, json.dumps(sorted(others | {name} if quiet else others)))


def _quiet_names(folder: Path, project: Project) -> set[str]:
    remotes = remotes_of(folder, project)
    return {each for each in _read_quiet(folder) if each == project.folder or each.casefold() in remotes}


def _names(folder: Path, project: Project | None) -> frozenset[str]:
    return frozenset(project_names(folder, project)) if project else frozenset()


def _choose_lines(lines: tuple[BriefLine, ...], names: frozenset[str], room: int) -> list[list[BriefLine]]:
    """Choose the lines of each section that fit into `room` tokens, each fact once; spare lines get what others leave.

    Of a memory, whose facts share a line, only those are chosen that the line has room for.
    """
    by_section = list(_split_by_section(lines, names))
    chosen: list[dict[str, BriefLine]] = [{} for _ in _SECTIONS]
    lengths: list[dict[int, int]] = [{} for _ in _SECTIONS]
    shown: set[str] = set()
    left = room
    everything = [1.0] * len(_SECTIONS)
    for is_spare, shares in ((False, [share for _, share in _SECTIONS]), (False, everything), (True, everything)):
        for section, length, share, candidates in zip(chosen, lengths, shares, by_section, strict=True):
            floor = room * (1 - share)
            for each in candidates:
                begun = length.get(each.id, 0) if each.begin else 0
                cost, added = (each.more, _JOINT + len(each.fact)) if begun else (each.tokens, len(each.text))
                fits = left - cost >= floor and (not begun or begun + added <= LONGEST_JOINED)
                if each.spare is is_spare and each.fact not in shown and fits:
                    section[each.text] = each
                    shown.add(each.fact)
                    left -= cost
                    if each.begin:
                        length[each.id] = begun + added
    return [[each for each in candidates if each.text in section] for section, candidates in zip(chosen, by_section, strict=True)]


def _join_facts(lines: Iterable[BriefLine]) -> list[BriefLine]:
    """Join the facts of each memory in its order, and items of one list under one lead."""
    groups: dict[int | str, list[BriefLine]] = {}
    for each in lines:
        groups.setdefault(each.id if each.begin else each.text, []).append(each)
    return [_join(group) for group in groups.values()]


def _join(lines: Sequence[BriefLine]) -> BriefLine:
    """Join facts of one memory behind the head of the line that was chosen first, whose tokens were counted."""
    first, *others = sorted(lines, key=lambda each: each.place)
    text, before = f"{lines[0].text[: lines[0].begin]}{first.fact}", first
    for each in others:
        has_lead = each.lead and before.lead == each.lead and before.fact[: each.lead] == each.fact[: each.lead]
        text = text.removesuffix(LIST_GOES_ON) if has_lead else text
        text = f"{text}{'' if text.endswith(ENDS) else ';'} {each.fact[each.lead :] if has_lead else each.fact}"
        before = each
    return replace(lines[0], text=text, tokens=lines[0].tokens + sum(each.more for each in lines[1:]))


def _split_by_section(lines: tuple[BriefLine, ...], names: frozenset[str]) -> Iterator[list[BriefLine]]:
    own = {each for each in lines if each.project.lower() in names}
    standing = ("user", "self_knowledge")
    about_user = [each for each in lines if each.kind in standing]
    # The first fact of every memory goes before the further facts of any.
    first = {each.id: each for each in reversed(about_user)}
    yield sorted(about_user, key=lambda each: (first[each.id] is not each, each not in own))
    feedback = [each for each in lines if each.kind == "feedback"]
    general = [each for each in feedback if not each.project]
    curated_elsewhere = [each for each in feedback if each.curated and each.project and each not in own]
    yield [*(each for each in feedback if each in own), *general, *curated_elsewhere]
    others = [each for each in lines if each.kind not in (*standing, "feedback")]
    yield sorted((each for each in others if each in own), key=lambda each: each.kind != "session")
    # The outcome of a session without a project concerns only sessions that have none either.
    yield [each for each in others if not each.project and (each.kind != "session" or not names)][:_MAX_GENERAL_LINES]


def _available_tokens(tokens: int, nudges: list[str]) -> int:
    return tokens - _FRAME_TOKENS - _NUDGE_TOKENS * len(nudges)


def _make_nudges(folder: Path, brief: Brief | None, nudge_from: int) -> list[str]:
    nudges: list[str] = []
    if brief and brief.backlog.memories >= nudge_from:
        nudges.append(f"{brief.backlog}: the user may curate them (/memory:learn, or `memory learn check`).")
    if noted := len(_read_notes(folder)):
        nudges.append(
            f"{counted(noted, 'sentence', 'sentences')} of earlier sessions noted but not stored: `memory noted` lists them."
        )
    return nudges


def _read_notes(folder: Path) -> tuple[Noted, ...]:
    with suppress(DamagedError):  # `memory noted` and `memory doctor` report it
        return read_noted(folder)
    return ()


def _read_quiet(folder: Path) -> set[str]:
    try:
        projects = json.loads(read_own_file(folder / _QUIET_NAME))
    except (OSError, ValueError):
        return set()
    return set(projects) if isinstance(projects, list) else set()


_FOLDER = "sessions"
_MAX_SESSIONS = 200
PROMPT = "prompt"
"""Reason of a memory that was shown with a prompt."""


@dataclass(frozen=True, slots=True)
class Told:
    """A memory that a session was shown."""

    memory: int
    reason: str
    """`start`, `compact` or `prompt`."""
    at: datetime
    digests: tuple[str, ...] = ()
    """Digests of the sentences that it was shown; empty in the records of earlier releases."""


_SENTENCE_ENDS = re.compile(r"([.!?:;…·|\]]+)[*_`\"')\]]*(?:\s|$)")
_BULLET = re.compile(r"(?:^|\s)[-*+•](?!\S)")
_NUMBER = re.compile(r"(?<!\S)(\d{1,3})[.)](?=\s)")
_IN_SENTENCE = r"\1"
_READINGS = (_IN_SENTENCE, r"· \1", r"\1 ·")
"""What a number with a full stop may be: a part of its sentence ("on 12. May"), an item's, or the end of a sentence."""
_WORDS = re.compile(r"[^\W_]+")
_NOTHING = 0
"""No memory's id: the record of a compaction, after which a session knows nothing that it was shown."""


def read_told(folder: Path, session: str) -> list[Told]:
    """Return the memories that a session was shown, in order; empty without a record. `folder` is the tenant's."""
    return _list_shown(_record_file(folder, session))


def still_told(folder: Path, session: str, taken_back: Sequence[tuple[datetime, datetime]] = ()) -> dict[int, set[str]]:
    """Return what a session still has in its context: what it was shown since its start or last compaction or clearing.

    What it was shown with prompts between the times `taken_back` is left out. The values are the digests (`digest_sentences`) of what it
    was shown of each memory.
    """
    known: defaultdict[int, set[str]] = defaultdict(set)
    begun: datetime | None = None
    # A record has whole seconds.
    spans = [(start.replace(microsecond=0), end.replace(microsecond=0)) for start, end in taken_back]
    for each in _parse_record(_record_file(folder, session)):
        if each.reason != PROMPT and each.at != begun:
            known.clear()
            begun = each.at
        if each.reason == PROMPT and any(start <= each.at < end for start, end in spans):
            continue
        known[each.memory].update(each.digests)
    known.pop(_NOTHING, None)
    return dict(known)


def digest_sentences(text: str) -> set[str]:
    """Return a digest of each sentence or item, without markup, and without a label unless a single word follows it.

    A number with a full stop ends no sentence, so that two dates are not taken for each other. `record_told` records what is shown in one
    line, in which it may also be an item's number or end a sentence.
    """
    return _digest(text, _IN_SENTENCE)


def _digest(text: str, number: str) -> set[str]:
    parts = _SENTENCE_ENDS.split(_BULLET.sub(" · ", _NUMBER.sub(number, text)))
    told: list[str] = []
    label = ""
    for part, mark in zip(parts[::2], [*parts[1::2], ""], strict=True):
        words = _WORDS.findall(part.casefold())
        said = " ".join(words if len(words) > 1 else [*label.split(), *words])
        label = said if mark.startswith(":") else ""
        if said and not label:
            told.append(said)
    return {hashlib.blake2b(each.encode(), digest_size=4).hexdigest() for each in told}


def read_last_told(folder: Path) -> list[Told]:
    """Return the memories that the most recent session was shown."""
    files = list_by_age(folder / _FOLDER)
    return _list_shown(files[-1]) if files else []


def record_told(folder: Path, session: str, told: Iterable[tuple[int, str]], reason: str) -> None:
    """Record that a session was shown these lines of memories. Delete all but the newest 200 records."""
    if not session:
        return
    path, now = _record_file(folder, session), datetime.now(UTC).isoformat(timespec="seconds")
    shown = [(number, line.partition(")")[2]) for number, line in told]
    digests = [(number, sorted({each for reading in _READINGS for each in _digest(text, reading)})) for number, text in shown]
    written = "".join(" ".join([str(number), *each, reason, now]) + "\n" for number, each in digests).encode("ascii")
    with forgo_on_full_disk():
        path.parent.mkdir(mode=0o700, exist_ok=True)
        with path.open("ab", buffering=0) as file:
            end = file.tell()
            if file.write(written) < len(written):  # the next line would be joined to half a line
                file.truncate(end)
        for old in list_by_age(path.parent)[:-_MAX_SESSIONS]:
            old.unlink(missing_ok=True)


def _copy_record(folder: Path, hook: Hook) -> None:
    """Give a fork the record of the session that its transcript was copied from; Claude Code names that one in each copied line."""
    from memory_assets.stores.files import replace_file

    transcript, record = Path(hook.transcript).expanduser(), _record_file(folder, hook.session)
    with forgo_on_full_disk(), suppress(FileNotFoundError, RefusedFileError):  # no transcript, or that session was shown nothing
        origin = _FORKED_FROM.search(read_head(transcript, transcript.parent, _FORK_BYTES))
        if origin and hook.session and not record.exists():
            replace_file(record, _record_file(folder, origin[1].decode()).read_bytes())


def drop_digests(folder: Path) -> None:
    """Leave only the ids in the records: a digest of an erased sentence would confirm a guess."""
    from memory_assets.stores.files import replace_file

    for path in list_by_age(folder / _FOLDER):
        if lines := [f"{each.memory} {each.reason} {each.at.isoformat(timespec='seconds')}\n" for each in _parse_record(path)]:
            replace_file(path, "".join(lines))


def _list_shown(path: Path) -> list[Told]:
    return [each for each in _parse_record(path) if each.memory != _NOTHING]


def _parse_record(path: Path) -> list[Told]:
    try:
        lines = read_own_file(path).decode("ascii").splitlines()
    except (OSError, ValueError):
        return []
    told = []
    for each in lines:
        with suppress(ValueError):  # a line cut short by a kill
            number, *digests, reason, at = each.split()
            told.append(Told(int(number), reason, datetime.fromisoformat(at), tuple(digests)))
    return told


def _record_file(folder: Path, session: str) -> Path:
    return folder / _FOLDER / hashlib.blake2b(session.encode("utf-8", "replace"), digest_size=16).hexdigest()
