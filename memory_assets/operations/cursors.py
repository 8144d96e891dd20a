"""Where a page ends, as text that a client hands back unread.

A place in the order of time needs only the last memory's time and id. A ranking has no such order, because scores depend on what
else is found; its cursor names what was shown, so that no page repeats another, and the moment the question was first asked,
so that what is stored while somebody turns pages does not push in.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

PLACE = r"^[0-9a-f]{32}$"
SEEN = r"^[0-9a-f]{16}([0-9a-f]{14})*$"
MOST_SEEN = 500
"""Memories that a client may page through with one question."""
SEEN_LENGTH = 16 + 14 * MOST_SEEN
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_LATEST = (datetime(2200, 1, 1, tzinfo=UTC) - _EPOCH) // _MICROSECOND
_OFFSET = 1 << 60
"""Added to times so that those before 1970 have no sign."""


def place(created_at: datetime, number: int) -> str:
    """The cursor of what comes after the memory of this creation time and id."""
    return f"{_ticks(created_at):016x}{number:016x}"


def read_place(cursor: str) -> tuple[datetime, int]:
    """The time and id that `place` was given; of any 32 hexadecimal digits, some time and some id."""
    return _moment(cursor[:16]), min(int(cursor[16:], 16), (1 << 63) - 1)


def seen(asked_at: datetime, numbers: Sequence[int]) -> str:
    """The cursor of what was not shown yet when `numbers` were."""
    return f"{_ticks(asked_at):016x}" + "".join(f"{number:014x}" for number in numbers)


def read_seen(cursor: str) -> tuple[datetime, list[int]]:
    """What `seen` was given."""
    ids = cursor[16:]
    return _moment(cursor[:16]), [int(ids[start : start + 14], 16) for start in range(0, len(ids), 14)]


def _ticks(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND + _OFFSET


def _moment(digits: str) -> datetime:
    return _EPOCH + _MICROSECOND * max(-_LATEST, min(int(digits, 16) - _OFFSET, _LATEST))
