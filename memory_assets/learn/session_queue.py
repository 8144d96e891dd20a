"""The queue of ended sessions. The hook at a session's end appends to it and imports nothing heavy; a run reads the sessions.

A session's start is recorded, so that a run also queues sessions that went silent without an end, as of a closed terminal.
"""

import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

QUEUE = "ended"
"""Folder in the tenant's folder, with one small file per session."""
_BEGUN = "begun"
"""The same for sessions that began and did not end yet. A file's time is that of the session's start, or of its last queueing."""
_MAX_BEGUN = 200
_SILENT_SECONDS = 3_600
_CLOCK_SLACK_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Ended:
    """A session that ended."""

    session: str
    transcript: str
    project: str
    """Working directory, or empty."""
    is_summarised: bool = True
    """Whether the session becomes a memory; else only the user's lasting sentences are noted."""


def queue_session(folder: Path, ended: Ended) -> None:
    """Queue a session for the next run. `folder` is the tenant's."""
    from memory_assets.stores.files import replace_file

    queue = folder / QUEUE
    queue.mkdir(parents=True, mode=0o700, exist_ok=True)
    path = queue / _file_name(ended.session or ended.transcript)
    with suppress(OSError, ValueError, TypeError):  # not queued, or damaged
        queued = Ended(**json.loads(path.read_bytes()))
        ended = replace(ended, is_summarised=ended.is_summarised or queued.is_summarised)
    replace_file(path, json.dumps(asdict(ended)))  # also renews its time, so that a run that reads it now reads it again


def record_begun(folder: Path, begun: Ended) -> None:
    """Record that a session began, or that Claude Code moved its transcript. Delete all but the newest 200 records."""
    from memory_assets.stores.files import replace_file

    path = folder / _BEGUN / _file_name(begun.session)
    with suppress(OSError, ValueError, TypeError):  # new, or damaged
        if Ended(**json.loads(path.read_bytes())).transcript == begun.transcript:
            return
    path.parent.mkdir(mode=0o700, exist_ok=True)
    replace_file(path, json.dumps(asdict(begun)))
    for old in list_by_age(path.parent)[:-_MAX_BEGUN]:
        old.unlink(missing_ok=True)


def list_by_age(folder: Path) -> list[Path]:
    """Return the files of a folder, oldest first. A file dated ahead counts as the oldest: the clock was set back after it was written."""
    return sorted(folder.iterdir(), key=_recorded_at) if folder.is_dir() else []


def forget_begun(folder: Path, session: str) -> None:
    """Forget that a session began, since its end was reported. `folder` is the tenant's."""
    (folder / _BEGUN / _file_name(session)).unlink(missing_ok=True)


def queue_silent(folder: Path) -> None:
    """Queue the sessions that went silent without an end; each once, unless it goes on. The caller holds the lock of the queue."""
    for path, silent in _find_silent(folder):
        queue_session(folder, silent)
        with suppress(FileNotFoundError):  # it ended meanwhile
            os.utime(path)


def has_queued(folder: Path) -> bool:
    """Whether any session is queued or went silent."""
    return any((folder / QUEUE).glob("*.json")) or any(_find_silent(folder))


def _find_silent(folder: Path) -> Iterator[tuple[Path, Ended]]:
    """Yield the sessions without an end that wrote to their transcripts since their records' times, but not in the last hour."""
    for path in (folder / _BEGUN).glob("*.json"):
        with suppress(OSError, ValueError, TypeError):  # damaged, or deleted meanwhile
            begun = Ended(**json.loads(path.read_bytes()))
            if _recorded_at(path) < _changed_at(Path(begun.transcript)) < time.time() - _SILENT_SECONDS:
                yield path, begun


def _file_name(key: str) -> str:
    return f"{hashlib.blake2b(key.encode('utf-8', 'replace'), digest_size=8).hexdigest()}.json"


def _recorded_at(path: Path) -> float:
    """Return the time of a record, 0 if it is dated ahead."""
    changed_at = _changed_at(path)
    return changed_at if changed_at <= time.time() + _CLOCK_SLACK_SECONDS else 0.0


def _changed_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # deleted meanwhile, or a session without a prompt
        return 0.0
