"""The `[[name]]` links between memories."""

import re

_CODE = re.compile(r"^[ \t]*(?P<fence>```+|~~~+)(?s:.*?)(?:^[ \t]*(?P=fence)|\Z)|`[^`\n]*`", re.MULTILINE)
_LINK = re.compile(r"\[\[([^\[\]|#\n]+)(?:#[^\[\]|\n]*)?(?:\|[^\[\]\n]*)?\]\]")


def link_targets(text: str) -> tuple[str, ...]:
    """Return what the `[[name]]` links of a Markdown text point to, in order of first appearance, each once.

    `[[name#heading]]` and `[[name|shown]]` point to `name`. Code blocks and code spans hold no links.
    """
    names = (found[1].strip() for found in _LINK.finditer(_CODE.sub(" ", text)))
    return tuple(dict.fromkeys(name for name in names if name))
