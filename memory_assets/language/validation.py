"""Validation of a memory's text, tags and other fields, before any other step.

Invalid input raises `InvalidInputError`; its message names the field, the position (counted from 0) and the fix.
"""

import re
import unicodedata
from collections.abc import Iterable

from memory_assets.errors import InvalidInputError
from memory_assets.models import MAX_CONTENT_LENGTH, NewMemory

MAX_TAG_LENGTH = 200
"""Maximum characters of a tag; a longer one is a sentence that belongs in the content."""
MAX_LINE_LENGTH = 1_000
"""Maximum characters of a one-line field, except the title, which a file may give a memory in any length."""
_MAX_TAGS = 1_000
_LINES = ("title", "project", "session", "author", "external_id")
"""Fields of a memory that hold one line each."""
_LINE_END = re.compile("[\t\n\r\u2028\u2029]")
_ALLOWED_CONTROLS = frozenset("\n\t\r")
_NONCHARACTERS = frozenset(range(0xFDD0, 0xFDF0)) | {plane << 16 | low for plane in range(17) for low in (0xFFFE, 0xFFFF)}
"""The 66 code points that Unicode reserves for internal use (Unicode 16, section 23.7)."""


def validate_content(text: str, longest: int = MAX_CONTENT_LENGTH) -> None:
    """Raise unless `text` can be a memory's content: 1 to `longest` storable characters, not all blank."""
    if len(text) > longest:
        raise InvalidInputError(
            f"content has {len(text):,} characters, and at most {longest:,} are stored: "
            "shorten it or split it into several memories."
        )
    if is_blank(text):
        raise InvalidInputError("content is empty or blank: write at least one visible character.")
    reject_unstorable(text, "content")


def validate_memory(given: NewMemory, longest: int = MAX_CONTENT_LENGTH) -> None:
    """Raise `InvalidInputError` if a field of a record cannot be stored; the same rules apply to every interface and file."""
    validate_content(given.content, longest)
    validate_tags(given.tags)
    for field in _LINES:
        validate_line(getattr(given, field), field, longest if field == "title" else MAX_LINE_LENGTH)
    for field in ("importance", "confidence"):
        if not 0 <= getattr(given, field) <= 1:
            raise InvalidInputError(f"{field} is {getattr(given, field)}: give a number within 0 and 1.")


def validate_line(text: str, field: str, longest: int = MAX_LINE_LENGTH) -> str:
    """Return `text` unchanged if it has at most `longest` storable characters, without tabs and line ends. It may be empty."""
    if len(text) > longest:
        raise InvalidInputError(f"{field} has {len(text):,} characters, and at most {longest:,} are stored: shorten it.")
    reject_unstorable(text, field)
    if found := _LINE_END.search(text):
        raise InvalidInputError(
            f"{field} has a tab or a line end (U+{ord(found[0]):04X}) at position {found.start()}: write it in one line."
        )
    return text


def validate_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return the tags without surrounding white space, in order, each once. A blank tag is refused, not dropped."""
    unique: dict[str, None] = {}
    for index, tag in enumerate(tags):
        field = f"tags[{index}]"
        if is_blank(tag):
            raise InvalidInputError(f"{field} is empty or blank: leave it out or give it a name.")
        unique[validate_line(tag.strip(), field, MAX_TAG_LENGTH)] = None
    if len(unique) > _MAX_TAGS:
        raise InvalidInputError(f"tags has {len(unique):,} tags, and at most {_MAX_TAGS:,} are stored: leave some out.")
    return tuple(unique)


def is_blank(text: str) -> bool:
    """Return whether `text` consists of white space and invisible format characters only."""
    return all(char.isspace() or unicodedata.category(char) == "Cf" for char in text)


def reject_unstorable(text: str, field: str) -> None:
    """Raise on a lone surrogate, a noncharacter, or a control character other than line feed, tab and carriage return."""
    if text.isprintable():
        return
    for position, char in enumerate(text):
        code = ord(char)
        if 0xD800 <= code <= 0xDFFF:
            kind, mend = "a lone surrogate", "send valid Unicode"
        elif unicodedata.category(char) == "Cc" and char not in _ALLOWED_CONTROLS:
            kind, mend = "a control character", "remove it"
        elif code in _NONCHARACTERS:
            kind, mend = "a Unicode noncharacter", "remove it"
        else:
            continue
        raise InvalidInputError(f"{field} has {kind} (U+{code:04X}) at position {position}: {mend}.")
