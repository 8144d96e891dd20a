"""Quoting of untrusted texts in a document that an assistant reads.

Every line starts with "> ", so that no heading, fence or list of a text becomes one of the document. Names are one line without
characters that open code, HTML or links. Invisible characters, which can hide instructions, become escapes: controls, direction
overrides and invisible alphabets.
"""

import re

from memory_assets.display import visible

_HIDDEN = re.compile("[\u00ad\u061c\u115f\u1160\u180b-\u180f\u200b\u200e\u200f\u2060-\u2064\u206a-\u206f\u3164\ufeff\ufff9-\uffff"
                     "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]")  # fmt: skip
"""Invisible format characters in addition to those of `display.visible`, without the joiners that scripts and emoji need."""
_MARKUP = str.maketrans({"<": "‹", ">": "›", "`": "ʼ", "[": "(", "]": ")", "\\": "/", "|": "/"})
_LINE_ENDS = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_NUMBERED = re.compile(r"^(\d{1,9})[.)](?= |$)")
"""The start of an ordered list item."""
_ACTIVE_MARKUP = re.compile(r"(?<!\\)((?:\\\\)*)(?:(!)(?=\[)|<(?=[A-Za-z/!?]))")
"""The unescaped start of a picture, HTML or an automatic link."""
_MAX_NAME_LENGTH = 100


def plain(text: str) -> str:
    r"""Escape invisible characters, and normalise line ends to `\n` and tabs to spaces."""
    lines = _LINE_ENDS.sub("\n", text).replace("\t", "    ")
    return visible(_HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", lines))


def name(text: str) -> str:
    """Render a name for use within a line: at most a hundred characters, no markup."""
    line = _NUMBERED.sub(r"\1:", " ".join(plain(text).translate(_MARKUP).split()).lstrip("#>-+*=~ "))
    return line if len(line) <= _MAX_NAME_LENGTH else f"{line[: _MAX_NAME_LENGTH - 1]}…"


def quoted(text: str) -> str:
    """Render a text as a block quote, with pictures and HTML escaped and without blank lines at either end."""
    shown = _ACTIVE_MARKUP.sub(
        lambda found: f"{found[1]}{'!' if found[2] else ''}\\{'' if found[2] else '<'}", plain(text).strip()
    )
    return "\n".join(f"> {line.rstrip()}".rstrip() for line in shown.split("\n"))
