"""Frontmatter as people and models really write it: YAML where it is YAML, else line by line.

Every scalar stays the text that was written (no dates, numbers or booleans are made of it), so that both ways
give the same values.
"""

import re
import textwrap
from collections.abc import Iterator
from typing import Any

from memory_assets.sources.files import RefusedFileError, text_fault

MAX_CHARACTERS = 65_536
"""Longest frontmatter that is parsed, in characters."""
MAX_DEPTH = 16
"""Deepest nesting that is parsed."""

_OPENING = re.compile(r"\A\s*^---[ \t]*\n", re.MULTILINE)
_CLOSING = re.compile(r"^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.MULTILINE)
_KEY_LINE = re.compile(r"([A-Za-z_][\w-]*)[ \t]*:(?:[ \t]+(.*))?$")
_BLOCK_SCALAR = re.compile(r"([|>])[-+]?\d?$")
_PLAIN_WITH_HASH = re.compile(r"^(?:name|description):[ \t]+[^\s\"'|>\[{&*!#].*[ \t]#", re.MULTILINE)
_NULLS = frozenset(("~", "null", "Null", "NULL"))
_MEND_CLOSE = "close it with a line of three dashes"
_MEND_SYNTAX = "write it as `key: value` lines between two lines of three dashes"


class _NotYamlError(Exception):
    """A block is not the plain YAML that is read here; its lines may still be readable."""


def parse(text: str) -> tuple[dict[str, Any], str]:
    r"""Return the frontmatter of a Markdown text as a mapping, and the body after it.

    The mapping holds text, lists and mappings only; it is empty where there is no frontmatter. Where a block
    is not valid YAML (an unquoted colon, a tab, a leading asterisk), each of its keys is read by itself, as
    YAML if it is, else as the text of its lines. In `name` and `description` a ` #` belongs to the text
    (`description: see PR #42`), though YAML would take the rest for a comment. The text must have `\n` as line ends.
    """
    opening = _OPENING.match(text)
    if opening is None:
        return {}, text
    closing = _CLOSING.search(text, opening.end())
    if closing is None:
        raise _malformed("the frontmatter is opened but never closed", _MEND_CLOSE)
    block = text[opening.end() : closing.start()]
    if len(block) > MAX_CHARACTERS:
        raise _malformed(f"the frontmatter is longer than {MAX_CHARACTERS:,} characters", "shorten it")
    try:
        mapping = _line_by_line(block) if _PLAIN_WITH_HASH.search(block) else _yaml(block)
    except _NotYamlError:
        mapping = _line_by_line(block)
    return mapping, text[closing.end() :]


def _malformed(reason: str, mend: str = _MEND_SYNTAX) -> RefusedFileError:
    return RefusedFileError(f"unrecognised: {reason}", mend, location="frontmatter")


def _yaml(block: str) -> dict[str, Any]:
    import yaml

    try:
        events = iter(yaml.parse(block, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
        first = next((event for event in events if isinstance(event, yaml.NodeEvent)), None)
        if first is None:
            return {}
        value = _node(first, events, 0)
        if any(isinstance(event, yaml.NodeEvent) for event in events):
            raise _NotYamlError
    except (yaml.YAMLError, UnicodeEncodeError) as error:
        raise _NotYamlError from error
    if not isinstance(value, dict):
        raise _NotYamlError
    return value


def _node(event: Any, events: Iterator[Any], depth: int) -> Any:
    """Build the value that starts with `event`, taking what belongs to it from `events`."""
    import yaml

    if depth > MAX_DEPTH:
        raise _malformed(f"the frontmatter is nested deeper than {MAX_DEPTH} levels", "flatten it")
    if isinstance(event, yaml.AliasEvent) or event.tag is not None:
        raise _NotYamlError
    if event.anchor is not None:
        raise _malformed("the frontmatter uses a YAML anchor (`&name`)", "write the value out or put it in quotes")
    if isinstance(event, yaml.ScalarEvent):
        if text_fault(event.value):
            raise _malformed("a value in the frontmatter is escaped to a control character", "remove the escape")
        return "" if event.implicit[0] and event.value in _NULLS else event.value
    if isinstance(event, yaml.SequenceStartEvent):
        items: list[Any] = []
        while not isinstance(item := next(events), yaml.SequenceEndEvent):
            items.append(_node(item, events, depth + 1))
        return items
    mapping: dict[str, Any] = {}
    while not isinstance(key_event := next(events), yaml.MappingEndEvent):
        key = _node(key_event, events, depth + 1)
        if not isinstance(key, str):
            raise _NotYamlError
        _put(mapping, key, _node(next(events), events, depth + 1))
    return mapping


def _line_by_line(block: str, depth: int = 0) -> dict[str, Any]:
    """Read each key of a block by itself."""
    if depth > MAX_DEPTH:
        raise _malformed(f"the frontmatter is nested deeper than {MAX_DEPTH} levels", "flatten it")
    mapping: dict[str, Any] = {}
    for chunk in _chunks(block):
        try:
            if _PLAIN_WITH_HASH.match(chunk):
                raise _NotYamlError
            for key, value in _yaml(chunk).items():
                _put(mapping, key, value)
        except _NotYamlError:
            first, _, rest = chunk.partition("\n")
            found = _KEY_LINE.match(first)
            if found is None:
                raise _malformed(f"the frontmatter has a line that belongs to no key: `{first[:60]}`") from None
            _put(mapping, found[1], _written(found[2] or "", textwrap.dedent(rest), depth))
    return mapping


def _chunks(block: str) -> Iterator[str]:
    """Split a block at its unindented `key:` lines; comment lines between them are left out."""
    chunk: list[str] = []
    for line in block.split("\n"):
        if line.startswith("#") or not (chunk or line.strip()):
            continue
        if chunk and _KEY_LINE.match(line):
            yield "\n".join(chunk)
            chunk = []
        chunk.append(line)
    if chunk:
        yield "\n".join(chunk)


def _written(value: str, rest: str, depth: int) -> Any:
    """Return the value of a key that is not YAML: what stands on its line and on the lines below it."""
    value = value.strip()
    lines = [line.strip() for line in rest.split("\n") if line.strip()]
    if block_scalar := _BLOCK_SCALAR.match(value):
        return rest.strip("\n") if block_scalar[1] == "|" else " ".join(lines)
    if not value and lines and _KEY_LINE.match(lines[0]):
        return _line_by_line(rest, depth + 1)
    if not value and lines and all(line.startswith("- ") for line in lines):
        return [_unquoted(line[2:].strip()) for line in lines]
    return _unquoted(" ".join([value, *lines]).strip())


def _unquoted(value: str) -> str:
    """Return a value without the quotes around it, unless the same quote stands within it too."""
    quote = value[:1]
    if len(value) > 1 and quote in ('"', "'") and value.endswith(quote) and quote not in value[1:-1]:
        return value[1:-1]
    return value


def _put(mapping: dict[str, Any], key: str, value: Any) -> None:
    if key in mapping:
        raise _malformed(f"the frontmatter has the key `{key[:60]}` twice", "keep one of them")
    mapping[key] = value
