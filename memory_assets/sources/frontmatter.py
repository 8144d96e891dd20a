"""Frontmatter as people and models really write it: parsed as YAML if it is valid, else line by line.

Every scalar stays text (never a date, number or boolean), so that both ways give the same values.
"""

import re
import textwrap
from collections.abc import Iterator
from typing import Any

from memory_assets.sources.files import RefusedFileError, text_fault

MAX_CHARACTERS = 65_536
MAX_DEPTH = 16

_OPENING = re.compile(r"\A\s*^---[ \t]*\n", re.MULTILINE)
_CLOSING = re.compile(r"^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.MULTILINE)
_KEY_LINE = re.compile(r"([A-Za-z_][\w-]*)[ \t]*:(?:[ \t]+(.*))?$")
_BLOCK_SCALAR = re.compile(r"([|>])[-+]?\d?$")
_PLAIN_WITH_HASH = re.compile(r"^(?:name|description):[ \t]+[^\s\"'|>\[{&*!#].*[ \t]#", re.MULTILINE)
_PARAGRAPH = re.compile(r"\n[ \t]*\n(\S.*)")
_UNINDENTED, _NO_ITEM = re.compile(r"\n(\S.*)"), re.compile(r"\n(?!- )(\S.*)")
_SHOWN = frozenset(("name", "description"))
"""Keys whose values are part of the memory's text."""
_NULLS = frozenset(("~", "null", "Null", "NULL"))
_MEND_CLOSE = "close it with a line of three dashes"
_MEND_SYNTAX = "write it as `key: value` lines between two lines of three dashes"


class _NotYamlError(Exception):
    """A block is not plain YAML; its lines may still be readable."""


def parse(text: str) -> tuple[dict[str, Any], str]:
    r"""Return the frontmatter of a Markdown text as a mapping, and the body after it.

    The mapping holds only text, lists and mappings, and is empty without frontmatter. If the block is not valid YAML (an unquoted
    colon, a tab, a leading asterisk), each key is parsed by itself: as YAML, else as the text of its lines. In `name` and
    `description`, ` #` belongs to the text (`description: see PR #42`), though YAML starts a comment there. Line ends must be `\n`.

    If the block is not closed, it reaches to a rule in the body. Such a block is refused if no YAML value contains an unindented line of
    it. `name` and `description` may be continued by such a line, a `description` before another key also by such paragraphs.
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
        mapping = _parse_line_by_line(block) if _PLAIN_WITH_HASH.search(block) else _parse_yaml(block)
    except _NotYamlError:
        mapping = _parse_line_by_line(block)
    return mapping, text[closing.end() :]


def _malformed(reason: str, mend: str = _MEND_SYNTAX) -> RefusedFileError:
    return RefusedFileError(f"unrecognised: {reason}", mend, location="frontmatter")


def _parse_yaml(block: str) -> dict[str, Any]:
    import yaml

    try:
        events = iter(yaml.parse(block, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
        first = next((event for event in events if isinstance(event, yaml.NodeEvent)), None)
        if first is None:
            return {}
        value = _build_value(first, events, 0)
        if any(isinstance(event, yaml.NodeEvent) for event in events):
            raise _NotYamlError
    except (yaml.YAMLError, UnicodeEncodeError) as error:
        raise _NotYamlError from error
    if not isinstance(value, dict):
        raise _NotYamlError
    return value


def _build_value(event: Any, events: Iterator[Any], depth: int) -> Any:
    """Build the value that starts with `event`, consuming the rest of it from `events`."""
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
            items.append(_build_value(item, events, depth + 1))
        return items
    mapping: dict[str, Any] = {}
    while not isinstance(key_event := next(events), yaml.MappingEndEvent):
        key = _build_value(key_event, events, depth + 1)
        if not isinstance(key, str):
            raise _NotYamlError
        _put(mapping, key, _build_value(next(events), events, depth + 1))
    return mapping


def _parse_line_by_line(block: str, depth: int = 0) -> dict[str, Any]:
    if depth > MAX_DEPTH:
        raise _malformed(f"the frontmatter is nested deeper than {MAX_DEPTH} levels", "flatten it")
    mapping: dict[str, Any] = {}
    chunks = list(_split_keys(block))
    for chunk in chunks:
        try:
            if _PLAIN_WITH_HASH.match(chunk):
                raise _NotYamlError
            for key, value in _parse_yaml(chunk).items():
                _put(mapping, key, value)
        except _NotYamlError:
            first, _, rest = chunk.partition("\n")
            found = _KEY_LINE.match(first)
            if found is None:
                raise _malformed(f"the frontmatter has a line that belongs to no key: `{first[:60]}`") from None
            stray = (_PARAGRAPH if found[1] in _SHOWN else _UNINDENTED if found[2] else _NO_ITEM).search(chunk)
            if stray and not depth and (found[1] != "description" or chunk is chunks[-1]):
                reason = f"the frontmatter is not closed before the line `{stray[1][:60]}`"
                raise _malformed(reason, f"{_MEND_CLOSE}, or indent the line") from None
            _put(mapping, found[1], _parse_text(found[2] or "", textwrap.dedent(rest), depth))
    return mapping


def _split_keys(block: str) -> Iterator[str]:
    """Split a block at its unindented `key:` lines, dropping comment lines."""
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


def _parse_text(value: str, rest: str, depth: int) -> Any:
    """Return the value of a key that is not valid YAML, from `value` on its line and `rest` on the lines below."""
    value = value.strip()
    lines = [line.strip() for line in rest.split("\n") if line.strip()]
    if block_scalar := _BLOCK_SCALAR.match(value):
        return rest.strip("\n") if block_scalar[1] == "|" else " ".join(lines)
    if not value and lines and _KEY_LINE.match(lines[0]):
        return _parse_line_by_line(rest, depth + 1)
    if not value and lines and all(line.startswith("- ") for line in lines):
        return [_strip_quotes(line[2:].strip()) for line in lines]
    return _strip_quotes(" ".join([value, *lines]).strip())


def _strip_quotes(value: str) -> str:
    """Remove the quotes around a value, unless it contains the same quote."""
    quote = value[:1]
    if len(value) > 1 and quote in ('"', "'") and value.endswith(quote) and quote not in value[1:-1]:
        return value[1:-1]
    return value


def _put(mapping: dict[str, Any], key: str, value: Any) -> None:
    if key in mapping:
        raise _malformed(f"the frontmatter has the key `{key[:60]}` twice", "keep one of them")
    mapping[key] = value
