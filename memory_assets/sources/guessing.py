"""What kind a note is that does not say it itself: guessed from where it stands and how it is worded."""

import re

from memory_assets.models import Kind

_PLACES = {
    Kind.USER: re.compile(r"\b(?:about|bio|contacts?|identity|me|myself|people|profile|role|team|user|who)\b"),
    Kind.FEEDBACK: re.compile(
        r"\b(?:avoid|conventions?|corrections?|feedback|gotchas?|guidelines?|lessons?|pitfalls?|practices?|preferences?|principles?"
        r"|rules?|style)\b"
    ),
    Kind.REFERENCE: re.compile(
        r"\b(?:address|addresses|api|cheatsheet|commands?|docs|documentation|environment|files?|hosts?|inventory|links?|locations?"
        r"|paths?|references?|resources?|tools?|urls?|where)\b"
    ),
}
"""What a file name or heading says of its kind; the first kind that fits is it."""
_WORDINGS = {
    Kind.FEEDBACK: re.compile(r"\b(?:always|avoid|do not|don['’]t|must|never|prefer|should)\b", re.IGNORECASE),
    Kind.REFERENCE: re.compile(r"https?://|(?:^|[\s`(])[~/][\w.-]+/"),
}
"""What a line says of its kind."""


def guess_kind(place: str, text: str) -> Kind:
    """Return the kind of a note: named by its place, else that of more than half of its lines, else `project`.

    Args:
        place: file name and headings.
        text: what the note says.
    """
    named = re.sub(r"[_-]", " ", place.lower())
    for kind, words in _PLACES.items():
        if words.search(named):
            return kind
    lines = [line for line in text.split("\n") if line.strip()]
    for kind, words in _WORDINGS.items():
        if 2 * sum(words.search(line) is not None for line in lines) > len(lines):
            return kind
    return Kind.PROJECT
