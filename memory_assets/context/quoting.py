"""Quote texts of others in a document that an assistant reads as its own.

Every line begins with "> ", so no heading, fence or list of a text becomes one of the document. Names are one line without characters
that open code, HTML or links. Invisible characters are shown as escapes: controls, direction overrides, and invisible alphabets, which
can hide instructions.
"""

import re

from memory_assets.display import visible

_HIDDEN = re.compile("[\u00ad\u061c\u115f\u1160\u180b-\u180f\u200b\u200e\u200f\u2060-\u2064\u206a-\u206f\u3164\ufeff\ufff9-\uffff"
                     "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]")  # fmt: skip
"""Invisible format characters beside those of `display.visible`; the joiners that scripts and emoji need are not among them."""
_MARKUP = str.maketrans({"<": "‹", ">": "›", "`": "ʼ", "[": "(", "]": ")", "\\": "/", "|": "/"})
_LINE_ENDS = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_NUMBERED = re.compile(r"^(\d{1,9})[.)](?= |$)")
"""What begins an ordered list."""
_LIVE = re.compile(r"(?<!\\)((?:\\\\)*)(?:(!)(?=\[)|<(?=[A-Za-z/!?]))")
"""What begins a picture, HTML or an automatic link, unless it is escaped already."""
_LONGEST_NAME = 100


def plain(text: str) -> str:
    """`text` with every invisible character as its escape, and one way to end a line."""
    lines = _LINE_ENDS.sub("\n", text).replace("\t", "    ")
    return visible(_HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", lines))


def name(text: str) -> str:
    """`text` as a name within a line: at most a hundred characters, no markup."""
    line = _NUMBERED.sub(r"\1:", " ".join(plain(text).translate(_MARKUP).split()).lstrip("#>-+*=~ "))
    return line if len(line) <= _LONGEST_NAME else f"{line[: _LONGEST_NAME - 1]}…"


def quoted(text: str) -> str:
    """`text` as a quotation, a line each, pictures and HTML as text; blank lines at either end are left out."""
    shown = _LIVE.sub(lambda found: f"{found[1]}{'!' if found[2] else ''}\\{'' if found[2] else '<'}", plain(text).strip())
    return "\n".join(f"> {line.rstrip()}".rstrip() for line in shown.split("\n"))
