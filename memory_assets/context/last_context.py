"""The last context of a topic as ids and digests, so that the next one can say what changed. No text is kept."""

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
from memory_assets.stores.files import replace_file

NOTHING_CHANGED = "nothing has changed"
_MOST_NAMED = 20
_MOST_KEPT = 500
"""Topics that are remembered; the one that was asked for longest ago is forgotten."""


class LastContext:
    """The last assembly of one tenant for the same topics, lens and depth."""

    def __init__(self, tenant_folder: Path, request: Request) -> None:
        self._folder = tenant_folder / "contexts"
        topics = sorted(" ".join(topic.casefold().split()) for topic in request.topics)
        key = "\0".join([*topics, request.lens.name, str(request.depth)])
        self._file = self._folder / f"{blake2b(key.encode(), digest_size=16).hexdigest()}.json"

    def since(self, context: Context) -> Context:
        """A context reduced to the nodes that are new or changed since the last time; the first time it stays whole."""
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
        """Keep what a context says now. If the file cannot be written, nothing is kept."""
        told = {"at": datetime.now(UTC).isoformat(), "nodes": _digests(context.nodes)}
        with suppress(OSError):
            self._folder.mkdir(exist_ok=True, mode=0o700)
            replace_file(self._file, json.dumps(told))
            kept = sorted(self._folder.iterdir(), key=os.path.getmtime, reverse=True)
            for old in kept[_MOST_KEPT:]:
                old.unlink(missing_ok=True)


def _digests(nodes: Sequence[Ranked]) -> dict[str, str]:
    """What each node says now, as a digest."""
    return {
        ranked.node.id: blake2b(f"{ranked.node.name}\0{ranked.node.content}\0{ranked.fields}".encode(), digest_size=8).hexdigest()
        for ranked in nodes
    }
