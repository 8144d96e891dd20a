"""What Claude Code's sessions were told: one small file a session, a line for each memory."""

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

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
    for line in lines:
        with suppress(ValueError):  # a line that a kill cut short
            number, digest, reason, at = line.split()
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
