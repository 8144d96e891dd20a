"""Tana's two text formats: Markdown in answers, and Tana Paste, which creates a node with its tag and fields in one call."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from memory_assets.display import shortened, visible

_NODE_ID = re.compile(r"\s*<!-- node-id: ([\w-]+) -->\s*$")
_BOX = re.compile(r"^\[[ xX]\] ")
_FIELD = re.compile(r"^\*\*(.+?)\*\*:(?:\s+(.*))?$", re.DOTALL)
_REFERENCE = re.compile(r"^\[(.*)\]\(tana:([\w-]+)\)$", re.DOTALL)
INLINE = re.compile(r'<span data-inlineref-node="([\w-]+)">(.*?)</span>', re.DOTALL)
_TAGS = re.compile(r"(?:\s+#(?:\[\[[^\]]+\]\]|[^\s#]+))+$")
_TAG = re.compile(r"#(?:\[\[([^\]]+)\]\]|([^\s#]+))")
_TEMPLATE_FIELD = re.compile(r"^- \*\*(.+)\*\* \(id:([\w-]+)\):: ?(.*)$")
_OPTION = re.compile(r"^\s+- (.*) \(id:([\w-]+)\)\s*$")


@dataclass(frozen=True, slots=True)
class FieldValue:
    """Value of a field: a text, or the name of the node or option `ref`."""

    text: str
    ref: str = ""


@dataclass(slots=True)
class Outline:
    """A node with its fields and descendants, as deep as it was read."""

    name: str
    id: str = ""
    """Empty if Tana sends none."""
    tags: str = ""
    """Its tags as written after the name: ` #project #[[big idea]]`."""
    description: str = ""
    fields: dict[str, list[FieldValue]] = field(default_factory=dict)
    """Values by field name as Tana spells it; fields of the same name are merged."""
    children: list["Outline"] = field(default_factory=list)
    references: list[str] = field(default_factory=list)
    """Ids of the nodes that its name refers to."""

    @property
    def tag_names(self) -> list[str]:
        return [found[1] or found[2] for found in _TAG.finditer(self.tags)]

    def values(self, name: str) -> list[FieldValue]:
        """Return a field's values; the field's name may be spelled in any way."""
        return [value for each, values in self.fields.items() if plain(each) == plain(name) for value in values]

    def texts(self, name: str) -> list[str]:
        return [value.text for value in self.values(name)]

    def refs(self, name: str) -> list[str]:
        """Return the ids of the nodes that a field refers to."""
        return [value.ref for value in self.values(name) if value.ref]


def plain(name: str) -> str:
    """Return a name for comparison: `Seed Entry ID`, `seedEntryId` and `seed_entry_id` are equal."""
    return re.sub(r"[\W_]", "", name.casefold())


def read_node(markdown: str) -> Outline:
    """Parse the Markdown of a `nodes.read` answer; return an empty node if it has none."""
    root = Outline("")
    stack: list[tuple[int, Outline | list[FieldValue]]] = [(-1, root)]
    for level, text in _items(markdown):
        while len(stack) > 1 and stack[-1][0] >= level:
            stack.pop()
        above = stack[-1][1]
        if isinstance(above, list):
            above.append(_value(text))
            continue
        if (named := _FIELD.match(text)) and above is not root:
            values = above.fields.setdefault(named[1], [])
            if named[2]:
                values.append(_value(named[2]))
            stack.append((level, values))
            continue
        node = _node(text)
        above.children.append(node)
        stack.append((level, node))
    return root.children[0] if root.children else root


def _items(markdown: str) -> Iterator[tuple[int, str]]:
    """Yield the items of a list with their levels; a line that starts no item continues the last one."""
    item: tuple[int, str] | None = None
    for line in markdown.split("\n"):
        bare = line.lstrip(" ")
        if bare.startswith("- "):
            if item:
                yield item
            item = ((len(line) - len(bare)) // 2, bare[2:])
        elif item and bare:
            item = (item[0], f"{item[1]}\n{bare}")
    if item:
        yield item


def _node(text: str) -> Outline:
    text, node_id = _without_id(text)
    text = _BOX.sub("", text)
    tags = found[0] if (found := _TAGS.search(text)) else ""
    text = text[: len(text) - len(tags)]
    references = [inline[1] for inline in INLINE.finditer(text)]
    if reference := _REFERENCE.match(text.strip()):
        inner, node_id = reference[1], node_id or reference[2]
        tags = found[0] if (found := _TAGS.search(inner)) else ""
        text = inner[: len(inner) - len(tags)]
        references.append(reference[2])
    return Outline(INLINE.sub(r"\2", text).strip(), node_id, tags, references=references)


def _value(text: str) -> FieldValue:
    text, _ = _without_id(text)
    if reference := _REFERENCE.match(text.strip()):
        return FieldValue(_TAGS.sub("", reference[1]), reference[2])
    return FieldValue(INLINE.sub(r"\2", text).strip())


def _without_id(text: str) -> tuple[str, str]:
    found = _NODE_ID.search(text)
    return (text[: found.start()], found[1]) if found else (text, "")


@dataclass(frozen=True, slots=True)
class TemplateField:
    """A field of a supertag."""

    id: str
    name: str
    type: str
    """First word of its label: `options`, `date`, `instance`, `number`."""
    options: dict[str, str] = field(default_factory=dict)


def read_schema(markdown: str) -> dict[str, TemplateField]:
    """Parse a `tags.getSchema` answer and return its fields by name; the first of several with one name."""
    found: dict[str, TemplateField] = {}
    last: TemplateField | None = None
    for line in markdown.split("\n"):
        if named := _TEMPLATE_FIELD.match(line):
            last = TemplateField(named[2], named[1], named[3].strip().partition(" ")[0].lower())
            found.setdefault(last.name, last)
        elif last and (option := _OPTION.match(line)):
            last.options.setdefault(option[1], option[2])
    return found


NAME_LENGTH = 100
_MARKS = re.compile(r"::|[#\[\]<>`^|~{}]|\*\*|__|%%|!!|https?:|^\W|^\d+[.)]\s")
"""Markup of Tana Paste, which has no escapes."""


def one_line(text: str) -> str:
    """Return a text without line breaks and control characters, which Tana cannot hold."""
    return " ".join(visible(text).split())


def node_name(content: str) -> str:
    """Return a text as a node's name: on one line, shortened between words to 100 characters."""
    return shortened(visible(content), NAME_LENGTH)


def is_plain(text: str) -> bool:
    """Whether Tana Paste takes a text literally."""
    return bool(text) and not _MARKS.search(text)


def paste(name: str, tag: str, fields: dict[str, list[str]]) -> str:
    """Return Tana Paste for one node. `name` and the values (by field id) are plain texts or made by the functions below."""
    lines = [f"- {name} #[[^{tag}]]"]
    for field_id, values in fields.items():
        if len(values) == 1:
            lines.append(f"  - {field_id}:: {values[0]}")
        elif values:
            lines += [f"  - {field_id}::", *(f"    - {value}" for value in values)]
    return "\n".join(lines)


def reference(node: str) -> str:
    """Return a node or an option as a value."""
    return f"[[^{node}]]"


def date(day: str) -> str:
    """Return a day such as 2026-01-31 as a value."""
    return f"[[date:{day}]]"
