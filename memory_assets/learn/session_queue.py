"""The queue of ended sessions. The hook at a session's end appends to it and imports nothing heavy; a run reads the sessions."""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

QUEUE = "ended"
"""Folder in the tenant's folder, with one small file per session."""


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
    key = (ended.session or ended.transcript).encode("utf-8", "replace")
    path = queue / f"{hashlib.blake2b(key, digest_size=8).hexdigest()}.json"
    if ended.is_summarised or not path.exists():  # never downgrade a session that is queued to be summarised
        replace_file(path, json.dumps(asdict(ended)))


def has_queued(folder: Path) -> bool:
    """Whether any session is queued."""
    return any((folder / QUEUE).glob("*.json"))
