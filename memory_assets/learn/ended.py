"""The queue of ended sessions. The hook at a session's end adds to it and imports nothing heavy; a run reads the sessions."""

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


def queue_session(folder: Path, ended: Ended) -> None:
    """Let the next run read a session. `folder` is the tenant's."""
    from memory_assets.stores.files import replace_file

    queue = folder / QUEUE
    queue.mkdir(parents=True, mode=0o700, exist_ok=True)
    replace_file(
        queue / f"{hashlib.blake2b(ended.session.encode('utf-8', 'replace'), digest_size=8).hexdigest()}.json",
        json.dumps(asdict(ended)),
    )


def has_queued(folder: Path) -> bool:
    """Whether a session waits to be read."""
    return any((folder / QUEUE).glob("*.json"))
