"""What was told of a topic the last time, so that the next time can tell what changed: ids and digests, no text."""

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path

from memory_assets.context.assembly import Context, Request
from memory_assets.context.model import Ranked

NOTHING_CHANGED = "nothing has changed"
_MOST_NAMED = 20
_MOST_KEPT = 500
"""Topics that are remembered; the one that was asked for longest ago is forgotten."""


class Seen:
    """The last assembly of one tenant for the same topics, lens and depth."""

    def __init__(self, tenant_folder: Path, request: Request) -> None:
        self._folder = tenant_folder / "contexts"
        topics = sorted(" ".join(topic.casefold().split()) for topic in request.topics)
        key = "\0".join([*topics, request.lens.name, str(request.depth)])
        self._file = self._folder / f"{blake2b(key.encode(), digest_size=16).hexdigest()}.json"

    def since(self, context: Context) -> Context:
        """Of a context what is new or says something else than the last time; all of it the first time."""
        try:
            last = json.loads(self._file.read_text(encoding="utf-8"))
            at, before = datetime.fromisoformat(last["at"]), dict(last["nodes"])
        except (OSError, ValueError, KeyError, TypeError):
            return replace(context, warnings=(*context.warnings, "These topics were not assembled before: everything is told."))
        now = _digests(context.nodes)
        changed = tuple(ranked for ranked in context.nodes if now[ranked.node.id] != before.get(ranked.node.id))
        gone = [node for node in before if node not in now]
        left = f", gone: id {', '.join(gone[:_MOST_NAMED])}" if gone else ""
        told = f"Since {at:%Y-%m-%d %H:%M} UTC: {len(changed)} new or changed{left}."
        return replace(context, nodes=changed, warnings=(*context.warnings, told), nothing=NOTHING_CHANGED)

    def record(self, context: Context) -> None:
        """Note what is known of the topics now; where nothing can be written, nothing is noted."""
        told = {"at": datetime.now(UTC).isoformat(), "nodes": _digests(context.nodes)}
        with suppress(OSError):
            self._folder.mkdir(exist_ok=True, mode=0o700)
            temporary = self._file.with_suffix(f".{os.getpid()}.tmp")
            temporary.write_text(json.dumps(told), encoding="utf-8")
            temporary.replace(self._file)
            kept = sorted(self._folder.iterdir(), key=os.path.getmtime, reverse=True)
            for old in kept[_MOST_KEPT:]:
                old.unlink(missing_ok=True)


def _digests(nodes: Sequence[Ranked]) -> dict[str, str]:
    """What each node says now, as a digest."""
    return {
        ranked.node.id: blake2b(f"{ranked.node.name}\0{ranked.node.content}\0{ranked.fields}".encode(), digest_size=8).hexdigest()
        for ranked in nodes
    }
