"""Templates: Jinja2 with every value escaped, Markdown without HTML, and numbers as small drawings."""

import hashlib
import re
from collections.abc import Mapping
from difflib import SequenceMatcher
from functools import cache, lru_cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from markupsafe import Markup, escape

from memory_assets.display import counted, shortened, visible
from memory_assets.errors import SettingsError
from memory_assets.operations.answers import name_of, passage
from memory_assets.operations.graph import read_script

if TYPE_CHECKING:
    from jinja2 import Environment
    from markdown_it import MarkdownIt

_WORDS = re.compile(r"\s+|\w+|[^\w\s]")
_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_LONGEST_BY_WORDS = 10_000
"""Characters; comparing takes time with the square of the words."""
_MARKS = re.compile(r"[*_`\[<>#\\&~|]|^\s*(?:[-+=]|\d+[.)])", re.MULTILINE)
"""What a text needs for Markdown to take something out of it."""
_KNOWN_PLAIN = 500
"""Texts; while somebody types, most results are those of the letter before."""
_LINKED_SCHEMES = frozenset({"http", "https", "mailto"})
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
NAVIGATION = (
    ("/", "Start"),
    ("/search", "Search"),
    ("/names", "Names"),
    ("/timeline", "Timeline"),
    ("/review", "Review"),
    ("/graph", "Graph"),
    ("/context", "Context"),
    ("/session", "Session"),
    ("/sleep", "Sleep"),
    ("/health", "Health"),
)
"""Paths and names of the views that the head of each page links to."""


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("memory_assets.ui"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        finalize=_shown,
    )
    environment.filters |= {
        "markdown": markdown,
        "plain": plain,
        "coded": coded,
        "passage": lambda text, query="": passage(plain(text), query),
        "shortened": lambda text, most: shortened(plain(text), most),
        "name_of": lambda memory: name_of(memory, plain),
    }
    environment.globals |= {"navigation": NAVIGATION, "counted": counted, "asset": asset_path}
    return environment


def _shown(value: object) -> object:
    """What a template writes of a value: control characters and turned writing directions as escapes."""
    return visible(value) if type(value) is str else "" if value is None else value


def render(template: str, values: Mapping[str, Any]) -> str:
    """The template as HTML."""
    return _environment().get_template(template).render(values)


@cache
def _markdown() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("image")
    parser.validateLink = lambda url: urlsplit(url.strip()).scheme.lower() in _LINKED_SCHEMES
    parser.add_render_rule("link_open", _open_link)
    return parser


def _open_link(renderer: Any, tokens: Any, place: int, options: Any, _env: Any) -> str:
    tokens[place].attrSet("rel", "noopener noreferrer")
    return renderer.renderToken(tokens, place, options, _env)


def markdown(text: str) -> Markup:
    """A text as HTML: no HTML of its own, no image, and links to web pages and mail addresses alone."""
    return Markup(_markdown().render(visible(text)))  # noqa: S704 - markdown-it escapes what is not its own


@lru_cache(_KNOWN_PLAIN)
def plain(text: str) -> str:
    """A text without the marks of Markdown, for lists and names; a number or a dot stands before what is an item of a list."""
    if not _MARKS.search(text):
        return text
    lines, mark = [], ""
    for token in _markdown().parse(text):
        if token.type == "list_item_open":
            mark = f"{token.info}{token.markup} " if token.info else "· "
        elif token.children is not None or token.type in ("fence", "code_block"):
            parts = (token,) if token.children is None else token.children
            lines.append(mark + "".join("\n" if part.type in ("softbreak", "hardbreak") else part.content for part in parts))
            mark = ""
    return "\n".join(lines) or text


@cache
def _code_alone() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    return MarkdownIt("zero", {"html": False}).enable("backticks")


def coded(text: str) -> Markup:
    """A sentence of the program as HTML: what stands between backticks, such as a command, as code; nothing else is a mark."""
    return Markup(_code_alone().renderInline(visible(text)))  # noqa: S704 - markdown-it escapes what is not its own


@cache
def assets() -> Mapping[str, tuple[bytes, str]]:
    """The files that pages load: name -> content and media type.

    Raises:
        SettingsError: the package that carries htmx is not installed.
    """
    package = find_spec("js_lib_htmx")
    if package is None or package.origin is None:
        raise SettingsError("The pages need the package django-js-lib-htmx, which is not installed; install memory_assets again.")
    own = [file for file in (files("memory_assets.ui") / "static").iterdir() if Path(file.name).suffix in _TYPES]
    found = {file.name: file.read_bytes() for file in own}
    found["graph.js"] = read_script()
    found["htmx.js"] = (Path(package.origin).parent / "static/htmx/htmx.min.js").read_bytes()
    return {name: (content, _TYPES[Path(name).suffix]) for name, content in found.items()}


@cache
def asset_path(name: str) -> str:
    """The path of a file below the pages, another one for another content, so that browsers may keep it."""
    return f"/static/{hashlib.sha256(assets()[name][0]).hexdigest()[:12]}/{name}"


def difference(before: str, after: str) -> Markup:
    """`after` with what is new in it as `<ins>` and what is gone as `<del>`, word by word; of long texts line by line."""
    pattern = _WORDS if max(len(before), len(after)) <= _LONGEST_BY_WORDS else _LINES
    old, new = pattern.findall(visible(before)), pattern.findall(visible(after))
    parts: list[Markup] = []
    for what, start, end, begin, stop in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        gone, come = "".join(old[start:end]), "".join(new[begin:stop])
        if what == "equal":
            parts.append(escape(come))
            continue
        parts += [Markup("<del>{}</del>").format(gone)] if gone else []
        parts += [Markup("<ins>{}</ins>").format(come)] if come else []
    return Markup().join(parts)
