"""Dates for files that state none: from the file name, from Git or from the session's transcript."""

import hashlib
import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from pathlib import Path

from memory_assets.sources.files import head_objects

Dated = tuple[datetime, str]
"""A time in UTC and its origin: `name`, `git` or `transcript`."""

EARLIEST, LATEST = datetime(1700, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
"""Limits of a memory's time; a program that knows none often writes the year 1 or 9999."""
CLOCK_DIFFERENCE = timedelta(days=1)
_GIT_SECONDS = 5.0
_BULK_COMMIT_FILES = 10
"""Files whose last commit is the same: from this many on it imported them, and its date does not say when they were written."""
_DATE = re.compile(r"(?<!\d)(20\d\d)([-_.]?)(0[1-9]|1[0-2])\2(0[1-9]|[12]\d|3[01])(?!\d)")
SESSION_NAME = re.compile(r"[\w-]{1,128}")
"""Name of a session that has a transcript, `<session>.jsonl`."""
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_SAFE_CONFIG = {"core.hooksPath": os.devnull, "core.fsmonitor": "false", "protocol.allow": "never", "log.showSignature": "false"}
"""Overrides of a repository's own configuration, so that Git runs no program that it names and contacts no other machine."""
_LOG = ["log", "-z", "--raw", "--no-abbrev", "--no-renames", "--no-ext-diff", "--no-textconv", "--format=%x01%at"]


class Dating:
    """Finder of times for the files of one scan. Git runs once per repository, and only if a file needs it."""

    def __init__(self, root: Path) -> None:
        """Cache the commits and transcripts below `root`; a transcript's link may not leave it."""
        self._find_repository = cache(_find_repository)
        self._read_commits = cache(lambda top: _read_commits(top, root if root.is_relative_to(top) else top))
        self._first_timestamp = cache(partial(_first_timestamp, root=root))

    def date(self, path: str, data: bytes, names: Iterable[str], session: str = "") -> Dated | None:
        """Return the first time found that is not in the future: a date in a name, the commit of exactly this content, the session's start.

        `names` are file names and headings. The transcript of `session` is `<session>.jsonl` beside the silo's memory folder.
        """
        for name in names:
            if moment := _find_date(name):
                return moment, "name"
        if (moment := self._find_commit_time(Path(path), data)) and not is_in_future(moment):
            return moment, "git"
        begun = self._first_timestamp(Path(path).parents[1] / f"{session}.jsonl") if SESSION_NAME.fullmatch(session) else None
        return (begun, "transcript") if begun and not is_in_future(begun) else None

    def _find_commit_time(self, path: Path, data: bytes) -> datetime | None:
        if (top := self._find_repository(path.parent)) is None:
            return None
        moment, blob = self._read_commits(top).get(path.relative_to(top).as_posix(), (None, ""))
        digest = hashlib.new("sha256" if len(blob) == 64 else "sha1", b"blob %d\0" % len(data), usedforsecurity=False)
        digest.update(data)
        return moment if digest.hexdigest() == blob else None


def utc_time(text: object) -> datetime | None:
    """Parse an ISO 8601 date or time to aware UTC (UTC if it names no zone); return None if it is neither, or beyond `EARLIEST`."""
    if not isinstance(text, str) or not _ISO_DATE.match(text.strip()):
        return None
    try:
        moment = datetime.fromisoformat(text.strip())
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return moment.astimezone(UTC) if EARLIEST <= moment <= LATEST else None
    except (ValueError, OverflowError):
        return None


def moment_of(seconds: float) -> datetime | None:
    """Return a time in seconds since 1970 as aware UTC; None if it is beyond `EARLIEST` or `LATEST`."""
    inside = EARLIEST.timestamp() <= seconds <= LATEST.timestamp()
    return datetime.fromtimestamp(seconds, UTC) if inside else None


def is_in_future(moment: datetime) -> bool:
    """Whether a time lies in the future by more than clocks differ (one day)."""
    return moment > datetime.now(UTC) + CLOCK_DIFFERENCE


def utc_seconds(moment: datetime) -> str:
    """Return an aware time as `2026-01-31T09:30:00Z`."""
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _find_date(name: str) -> datetime | None:
    """Return the first valid date in a name that is not in the future."""
    for found in _DATE.finditer(name):
        moment = utc_time(f"{found[1]}-{found[3]}-{found[4]}")
        if moment and moment <= datetime.now(UTC):
            return moment
    return None


def _read_commits(top: Path, below: Path) -> dict[str, tuple[datetime, str]]:
    """Return author time and blob of each path's last commit, unless that is a bulk import; empty if Git fails or takes too long."""
    config = [part for name, value in _SAFE_CONFIG.items() for part in ("-c", f"{name}={value}")]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        log = subprocess.run(  # noqa: S603
            ["git", "--no-pager", "--no-optional-locks", *config, "-C", top, *_LOG, "--", below],  # noqa: S607
            env=clean | {"GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_GIT_SECONDS,
            check=True,
        ).stdout.decode("utf-8", "surrogateescape")
    except (OSError, subprocess.SubprocessError):
        return {}
    commits: dict[str, tuple[datetime, str]] = {}
    moment: datetime | None = None
    blob = ""
    for part in log.split("\0"):
        entry = part.lstrip("\n")
        if entry.startswith("\x01"):
            moment = moment_of(int(entry[1:])) if entry[1:].lstrip("-").isdecimal() else None
        elif entry.startswith(":") and not blob:
            blob = entry.split(" ")[3]
        elif blob:
            if moment:
                commits.setdefault(part, (moment, blob))
            blob = ""
    files = Counter(moment for moment, _ in commits.values())
    return {path: each for path, each in commits.items() if files[each[0]] < _BULK_COMMIT_FILES}


def _find_repository(folder: Path) -> Path | None:
    return next((each for each in (folder, *folder.parents) if os.path.lexists(each / ".git")), None)


def _first_timestamp(transcript: Path, root: Path) -> datetime | None:
    moments = (utc_time(entry.get("timestamp")) for entry in head_objects(transcript, root, b'"timestamp"'))
    return next(filter(None, moments), None)
