"""Sentences that the user said in a session and that sound as if they should last, noted when it ends or is compacted.

They are proposals: nothing is remembered of them until somebody stores them. Read are the transcript's own lines of the user, not what
tools returned, and only wordings that ask for lasting: "from now on", "always", "remember that", "we decided".
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from memory_assets.display import visible

NAME = "noted.json"
_MOST = 100
_MOST_SETTLED = 2_000
"""Digests that are kept of what was stored or dropped."""
_MOST_OF_A_SESSION = 20
_TAIL_BYTES = 8 << 20
"""Of a transcript so much is read, from its end."""
_SHORTEST, _LONGEST = 12, 400
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_CUE = re.compile(
    r"\b(?:remember (?:that|this|to)|from now on|in (?:the )?future|next time|don't ever|stop \w+ing"
    r"|please (?:don't|stop)|I (?:prefer|want you to|hate it)|we (?:decided|agreed|have decided|chose)|that(?:'s| is) (?:wrong|not right)"
    r"|for the record)\b|(?:^|\bplease |\byou (?:should|must) |\bwe )(?:always|never)\b",
    re.IGNORECASE,
)
_QUESTION = re.compile(r"\?\s*$")
_NOT_SAID = ("<", "Caveat:", "[Request interrupted", "This session is being continued", "/")
"""How what a program put in the user's place begins."""


@dataclass(frozen=True, slots=True)
class Noted:
    """A sentence that may be worth remembering."""

    text: str
    project: str
    """Folder that it was said in."""
    said_at: str
    """ISO time, or empty."""
    session: str


def read_noted(folder: Path) -> tuple[Noted, ...]:
    """What was noted for the tenant in `folder` and neither stored nor dropped, the oldest first."""
    return _read(folder).noted


def note(folder: Path, found: Sequence[Noted]) -> None:
    """Add what was found and was neither noted nor settled yet; of more than a hundred the newest stay.

    Raises:
        OSError: it cannot be written.
    """
    if not found:
        return

    def added(held: "_Held") -> "_Held":
        known = {each.text for each in held.noted}
        fresh = [each for each in found if each.text not in known and _digest(each) not in held.settled]
        return _Held((*held.noted, *fresh)[-_MOST:], held.settled)

    _change(folder, added)


def settle(folder: Path, settled: Sequence[Noted]) -> None:
    """Note what was stored or dropped no longer, also where its session, read once more, still says it.

    Raises:
        OSError: it cannot be written.
    """

    def without(held: "_Held") -> "_Held":
        gone = [_digest(each) for each in settled]
        left = tuple(each for each in held.noted if _digest(each) not in gone)
        return _Held(left, (*held.settled, *gone)[-_MOST_SETTLED:])

    _change(folder, without)


@dataclass(frozen=True, slots=True)
class _Held:
    """The file: what is noted, and digests of what was noted and is settled."""

    noted: tuple[Noted, ...] = ()
    settled: tuple[str, ...] = ()


def _read(folder: Path) -> _Held:
    try:
        said = json.loads((folder / NAME).read_bytes())
        noted, settled = (said, []) if isinstance(said, list) else (said["noted"], said["settled"])
        return _Held(tuple(Noted(**each) for each in noted), tuple(map(str, settled)))
    except (OSError, ValueError, KeyError, TypeError):
        return _Held()


def _change(folder: Path, change: Callable[[_Held], _Held]) -> None:
    """Replace the file by what `change` makes of it, one process at a time."""
    from memory_assets.stores.files import replace_file
    from memory_assets.stores.locks import locked

    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with locked(folder):
        held = _read(folder)
        if (changed := change(held)) != held:
            replace_file(folder / NAME, json.dumps(asdict(changed), ensure_ascii=False))


def _digest(each: Noted) -> str:
    return hashlib.blake2b(each.text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def find_sentences(transcript: Path, project: str, session: str) -> list[Noted]:
    """What the user said in a transcript that sounds as if it should last; keys and passwords in it are masked.

    Raises:
        OSError: the transcript cannot be read.
    """
    from memory_assets.language.secrets import mask

    found: dict[str, Noted] = {}
    for entry in _entries(transcript):
        for sentence in _SENTENCE_END.split(_said(entry)):
            text = " ".join(visible(sentence).split())
            if _SHORTEST <= len(text) <= _LONGEST and _CUE.search(text) and not _QUESTION.search(text):
                moment = entry.get("timestamp")
                found.setdefault(text, Noted(mask(text), project, moment if isinstance(moment, str) else "", session))
    return list(found.values())[-_MOST_OF_A_SESSION:]


def _entries(transcript: Path) -> Iterator[dict[str, Any]]:
    with transcript.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL_BYTES))
        for line in file.read(_TAIL_BYTES).split(b"\n"):
            if b'"user"' not in line:
                continue
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(entry, dict):
                yield entry


def _said(entry: dict[str, Any]) -> str:
    """What the user wrote in a line of a transcript; empty where a program wrote it."""
    message = entry.get("message")
    made = any(entry.get(name) for name in ("isMeta", "isSidechain", "isCompactSummary", "toolUseResult"))
    if made or entry.get("type") != "user" or not isinstance(message, dict):
        return ""
    content = message.get("content")
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    texts = [
        each["text"]
        for each in blocks
        if isinstance(each, dict) and each.get("type") == "text" and isinstance(each.get("text"), str)
    ]
    return "\n".join(text for text in texts if not text.lstrip().startswith(_NOT_SAID))
