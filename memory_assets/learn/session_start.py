"""The text that a session is told at its start, and a record of it: one small file a session, a line for each memory.

A session is told standing facts, feedback that fits the project, what its last session left, then relevant and fresh memories. This module
reads the brief alone: it opens no store and imports no heavy library. A compacted or cleared session is told again; a resumed or forked
one still has the text.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from memory_assets.display import counted
from memory_assets.errors import DamagedError, InvalidInputError
from memory_assets.learn.brief import ENDS, Brief, BriefLine, framed, line, read_brief
from memory_assets.learn.checkouts import note_checkout, project_names
from memory_assets.learn.noted import Noted, read_noted
from memory_assets.sources.projects import Project, project_of

if TYPE_CHECKING:
    from memory_assets.places import HookSettings


_FRAME_TOKENS = 115
"""Of the frame with its label and all headings, at most; a test counts them."""
_NUDGE_TOKENS = 35
"""Of the longest nudge, at most; a test counts it."""
_SECTIONS = (
    ("About the user", 0.24),
    ("Feedback that fits here", 0.49),
    ("Known of this project", 1.0),
    ("Known of no one project", 1.0),
)
"""Heading, and the share of the tokens that is used up when its lines end."""
_GENERAL = 5
"""Lines at most that belong to no project."""
_HAS_IT_STILL = frozenset({"resume", "fork"})
_COMPACTED = "compact"
_NOTED_HEADING = "Noted in this session, not stored yet"
_MOST_NOTED = 5
_QUIET = "quiet.json"


@dataclass(frozen=True, slots=True)
class Hook:
    """What Claude Code says on standard input when a session begins, is compacted or ends."""

    session: str = ""
    source: str = "startup"
    directory: str = ""
    event: str = ""
    transcript: str = ""

    @classmethod
    def parse(cls, text: str) -> "Hook":
        """The hook's JSON; no input, as on a terminal, is a hook that says nothing.

        Raises:
            ValueError: it is no JSON.
            InvalidInputError: it is no object, or one of the fields holds no text.
        """
        given = json.loads(text) if text.strip() else {}
        if not isinstance(given, dict):
            raise InvalidInputError("The hook's input is no JSON object.")
        fields = {
            "session": "session_id",
            "source": "source",
            "directory": "cwd",
            "event": "hook_event_name",
            "transcript": "transcript_path",
        }
        values = {field: given[name] for field, name in fields.items() if given.get(name) is not None}
        if wrong := [fields[field] for field, value in values.items() if not isinstance(value, str)]:
            raise InvalidInputError(f"The hook's input holds no text as {', '.join(wrong)}.")
        return cls(**values)


def session_start(places: "HookSettings", hook: Hook) -> str:
    """The text for a session's beginning; empty if there is nothing to say, or a project does not want it."""
    project = project_of(Path(hook.directory or "."))
    if project:
        note_checkout(places.folder, project)
    if is_quiet(places.folder, project) or places.session_start == "off" or hook.source in _HAS_IT_STILL:
        return ""
    is_compacted = hook.source == _COMPACTED
    brief = read_brief(places.folder)
    known = _noted(places.folder) if is_compacted and hook.session else ()
    noted = [line(each.text) for each in known if each.session == hook.session][-_MOST_NOTED:]
    nudges = _nudges(places.folder, brief, places.nudge_from) if places.is_sources_tenant and not is_compacted else []
    # Without loading an encoding: no token is shorter than two bytes in prose.
    room = _room(places.session_start_tokens, nudges) - sum(len(each.encode()) // 2 for each in noted)
    chosen = _chosen(brief.lines if brief else (), _names(places.folder, project), room)
    if not (any(chosen) or noted or nudges):
        return ""
    chosen = [_joined(lines) for lines in chosen]
    lines = [(each.id, each.text) for lines in chosen for each in lines]
    if lines:
        record_told(places.folder, hook.session, lines, "compact" if is_compacted else "start")
    sections = [(heading, [each.text for each in lines]) for (heading, _), lines in zip(_SECTIONS, chosen, strict=True)]
    return framed([*sections, (_NOTED_HEADING, noted), ("Waiting", nudges)])


def preview_lines(
    brief: Brief | None, folder: Path, project: Project | None, tokens: int, nudge_from: int | None
) -> list[tuple[str, list[BriefLine], list[BriefLine]]]:
    """Each section of the text for a new session: its heading, the lines that it has, and those that do not fit into `tokens`.

    `nudge_from` is from how many un-ingested memories it mentions them; None for a tenant to which the silos do not belong.
    """
    names, lines = _names(folder, project), brief.lines if brief else ()
    nudges = [] if nudge_from is None else _nudges(folder, brief, nudge_from)
    chosen = _chosen(lines, names, _room(tokens, nudges))
    return [
        (heading, _joined(told), [each for each in wanted if each not in told])
        for (heading, _), told, wanted in zip(_SECTIONS, chosen, _by_section(lines, names), strict=True)
    ]


def is_quiet(folder: Path, project: Project | None) -> bool:
    """Whether a project's sessions are told nothing. `folder` is the tenant's."""
    return project is not None and project.folder in _quiet_projects(folder)


def set_quiet(folder: Path, project: Project, *, quiet: bool) -> None:
    """Let sessions in a project begin without a word from here, or with one again."""
    from memory_assets.stores.files import replace_file
    from memory_assets.stores.locks import locked

    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with locked(folder):
        held = _quiet_projects(folder) - {project.folder}
        replace_file(folder / _QUIET, json.dumps(sorted(held | {project.folder} if quiet else held)))


def _names(folder: Path, project: Project | None) -> frozenset[str]:
    return frozenset(project_names(folder, project)) if project else frozenset()


def _chosen(lines: tuple[BriefLine, ...], names: frozenset[str], room: int) -> list[list[BriefLine]]:
    """The lines of each section that fit, each fact once. `names` are those of the project at hand.

    What the sections leave of their shares goes to the lines that had no room, section by section, and then to spare lines.
    """
    wanted = list(_by_section(lines, names))
    chosen: list[dict[str, BriefLine]] = [{} for _ in _SECTIONS]
    told: set[str] = set()
    left = room
    everything = [1.0] * len(_SECTIONS)
    for is_spare, shares in ((False, [share for _, share in _SECTIONS]), (False, everything), (True, everything)):
        for section, share, candidates in zip(chosen, shares, wanted, strict=True):
            begun = {each.id for each in section.values() if each.begin}
            floor = room * (1 - share)
            for each in candidates:
                cost = each.more if each.begin and each.id in begun else each.tokens
                if each.spare is is_spare and each.fact not in told and left - cost >= floor:
                    section[each.text] = each
                    told.add(each.fact)
                    begun |= {each.id} if each.begin else set()
                    left -= cost
    return [[each for each in candidates if each.text in section] for section, candidates in zip(chosen, wanted, strict=True)]


def _joined(lines: Iterable[BriefLine]) -> list[BriefLine]:
    """The lines with the facts of one memory behind each other."""
    joined: dict[int | str, BriefLine] = {}
    for each in lines:
        key = each.id if each.begin else each.text
        if first := joined.get(key):
            mark = "" if first.text.endswith(ENDS) else ";"
            joined[key] = replace(first, text=f"{first.text}{mark} {each.fact}", tokens=first.tokens + each.more)
        else:
            joined[key] = each
    return list(joined.values())


def _by_section(lines: tuple[BriefLine, ...], names: frozenset[str]) -> Iterator[list[BriefLine]]:
    standing = ("user", "self_knowledge")
    yield [each for each in lines if each.kind in standing]
    feedback = [each for each in lines if each.kind == "feedback"]
    general = [each for each in feedback if not each.project]
    curated_elsewhere = [each for each in feedback if each.curated and each.project and each.project not in names]
    yield [*(each for each in feedback if each.project in names), *general, *curated_elsewhere]
    others = [each for each in lines if each.kind not in (*standing, "feedback")]
    yield sorted((each for each in others if each.project in names), key=lambda each: each.kind != "session")
    yield [each for each in others if not each.project][:_GENERAL]


def _room(tokens: int, nudges: list[str]) -> int:
    return tokens - _FRAME_TOKENS - _NUDGE_TOKENS * len(nudges)


def _nudges(folder: Path, brief: Brief | None, nudge_from: int) -> list[str]:
    nudges: list[str] = []
    if brief and brief.backlog.memories >= nudge_from:
        nudges.append(f"{brief.backlog}: the user may curate them (/memory:learn, or `memory learn check`).")
    if noted := len(_noted(folder)):
        nudges.append(
            f"{counted(noted, 'sentence', 'sentences')} of earlier sessions noted but not stored: `memory noted` lists them."
        )
    return nudges


def _noted(folder: Path) -> tuple[Noted, ...]:
    with suppress(DamagedError):  # `memory noted` and `memory doctor` tell it
        return read_noted(folder)
    return ()


def _quiet_projects(folder: Path) -> set[str]:
    try:
        held = json.loads((folder / _QUIET).read_bytes())
    except (OSError, ValueError):
        return set()
    return set(held) if isinstance(held, list) else set()


_FOLDER = "sessions"
_MOST_SESSIONS = 200
PROMPT = "prompt"
"""The reason of what a prompt needed."""


@dataclass(frozen=True, slots=True)
class Told:
    """A memory that a session was told."""

    memory: int
    """Its id."""
    digest: str
    """Of the line: a memory that was edited is told again."""
    reason: str
    """`start`, `compact` or `prompt`."""
    at: datetime


def digest_of(line: str) -> str:
    """The digest of a line."""
    return hashlib.blake2b(line.encode(), digest_size=8).hexdigest()


def read_told(folder: Path, session: str) -> list[Told]:
    """What a session was told, in order; nothing where there is no record. `folder` is the tenant's."""
    return _parse(_file(folder, session))


def still_told(folder: Path, session: str) -> set[int]:
    """Ids of what a session still has: what it was told since it began, or since its last compaction or clearing."""
    known: set[int] = set()
    begun: datetime | None = None
    for each in read_told(folder, session):
        if each.reason != PROMPT and each.at != begun:
            known, begun = set(), each.at
        known.add(each.memory)
    return known


def read_last_told(folder: Path) -> list[Told]:
    """What the session was told that was told something last."""
    files = _by_age(folder / _FOLDER)
    return _parse(files[-1]) if files else []


def record_told(folder: Path, session: str, lines: Iterable[tuple[int, str]], reason: str) -> None:
    """Note that a session was told these (id, line) pairs. Of more than 200 sessions the oldest records go."""
    if not session:
        return
    path, now = _file(folder, session), datetime.now(UTC).isoformat(timespec="seconds")
    written = "".join(f"{number} {digest_of(line)} {reason} {now}\n" for number, line in lines)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with path.open("a", encoding="ascii") as file:
        file.write(written)
    for old in _by_age(path.parent)[:-_MOST_SESSIONS]:
        old.unlink(missing_ok=True)


def _parse(path: Path) -> list[Told]:
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        return []
    told = []
    for each in lines:
        with suppress(ValueError):  # a line that a kill cut short
            number, digest, reason, at = each.split()
            told.append(Told(int(number), digest, reason, datetime.fromisoformat(at)))
    return told


def _file(folder: Path, session: str) -> Path:
    return folder / _FOLDER / hashlib.blake2b(session.encode("utf-8", "replace"), digest_size=16).hexdigest()


def _by_age(folder: Path) -> list[Path]:
    """The records, the oldest first."""

    def age(path: Path) -> float:
        try:
            return path.stat().st_mtime
        except FileNotFoundError:  # another session tidies up too
            return 0.0

    return sorted(folder.iterdir(), key=age) if folder.is_dir() else []
