"""Make text from outside safe and short enough to show on a terminal, to an assistant or in a log."""

import re

_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that move a terminal's cursor, end a line or reorder letters: the controls (C0, C1) except line feed and tab, the line
and paragraph separators, the bidirectional overrides, embeddings and isolates (Unicode 16, section 23.2), and halves of surrogate pairs,
which cannot be written as UTF-8."""


def visible(text: str) -> str:
    r"""Return `text` with CRLF as LF and every control character escaped as `\u001b`; JSON keeps its meaning."""
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text.replace("\r\n", "\n"))


def counted(number: int, noun: str = "memory", plural: str = "memories") -> str:
    """Return `number` with a thousands separator, followed by its singular or plural phrase."""
    return f"{number:,} {noun if number == 1 else plural}"


def shortened(text: str, most: int) -> str:
    """Return `text` as one line of at most `most` characters, cut between words."""
    line = " ".join(text.split())
    if len(line) <= most:
        return line
    cut = line[: most - 1]
    return f"{cut[: cut.rfind(' ')] if ' ' in cut[most // 2 :] else cut}…"
