"""The queue of sessions to read. The hook at a session's end adds to it and imports nothing heavy; a run reads the sessions."""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

QUEUE = "ended"
"""Folder in a tenant's folder with a small file for each of them."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A session that ended, and where it can be read."""

    session: str
    transcript: str
    project: str
    """Folder that it worked in, or empty."""
    is_summarised: bool = True
    """Whether it becomes a memory; else only the user's lasting sentences are noted."""


def queue_session(folder: Path, ended: Ended) -> None:
    """Let the next run read a session. `folder` is the tenant's."""
    from memory_assets.stores.files import replace_file

    queue = folder / QUEUE
    queue.mkdir(parents=True, mode=0o700, exist_ok=True)
    key = (ended.session or ended.transcript).encode("utf-8", "replace")
    path = queue / f"{hashlib.blake2b(key, digest_size=8).hexdigest()}.json"
    if ended.is_summarised or not path.exists():  # what is queued there to be summarised has its sentences noted too
        replace_file(path, json.dumps(asdict(ended)))


def has_queued(folder: Path) -> bool:
    """Whether a session waits to be read."""
    return any((folder / QUEUE).glob("*.json"))
