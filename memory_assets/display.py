"""Text that others wrote, as it may be shown: on a terminal, to an assistant, in a log."""

import re

_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""What moves a terminal's cursor, ends a line or turns the order of letters: controls (C0, C1) but line feed and tab, the two
separators, and what overrides, embeds or isolates directions of writing (Unicode 16, section 23.2)."""


def visible(text: str) -> str:
    r"""`text` with every control character as its escape, `\u001b`; JSON stays the same JSON."""
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def counted(number: int, noun: str = "memory", plural: str = "memories") -> str:
    """`number` with its noun, or with its verb."""
    return f"{number:,} {noun if number == 1 else plural}"


def shortened(text: str, most: int) -> str:
    """`text` in one line of at most `most` characters, cut between words."""
    line = " ".join(text.split())
    if len(line) <= most:
        return line
    cut = line[: most - 1]
    return f"{cut[: cut.rfind(' ')] if ' ' in cut[most // 2 :] else cut}…"
