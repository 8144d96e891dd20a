"""Rendering: Jinja2 templates with every value escaped, Markdown without HTML, static files, and text differences."""

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
from memory_assets.language.passages import passage
from memory_assets.operations.answers import name_of
from memory_assets.operations.graph import read_script

if TYPE_CHECKING:
    from jinja2 import Environment
    from markdown_it import MarkdownIt

_WORDS = re.compile(r"\s+|\w+|[^\w\s]")
_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_MAX_BY_WORDS = 10_000
"""Characters up to which texts are compared by words, in time quadratic in their number."""
_MARKS = re.compile(r"[*_`\[<>#\\&~|]|^\s*(?:[-+=]|\d+[.)])", re.MULTILINE)
"""Characters without which `plain` leaves a text unchanged."""
_CACHED_TEXTS = 500
"""Cached texts; while somebody types, most results repeat."""
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
        finalize=_escape_controls,
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


def _escape_controls(value: object) -> object:
    """Return a template's value with control characters and changes of writing direction escaped."""
    return visible(value) if type(value) is str else "" if value is None else value


def render(template: str, values: Mapping[str, Any]) -> str:
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
    """Return Markdown as HTML, without embedded HTML and images, and with links only to web pages and mail addresses."""
    return Markup(_markdown().render(visible(text)))  # noqa: S704 - markdown-it escapes foreign HTML


@lru_cache(_CACHED_TEXTS)
def plain(text: str) -> str:
    """Return a text without Markdown markup, for lists and names; list items begin with a number or a dot."""
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
    """Return a message of the program as HTML, in which only backticks are markup, for commands."""
    return Markup(_code_alone().renderInline(visible(text)))  # noqa: S704 - markdown-it escapes foreign HTML


@cache
def assets() -> Mapping[str, tuple[bytes, str]]:
    """Return the static files: name -> content and media type. Raise SettingsError if the package with htmx is missing."""
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
    """Return the path of a static file below the pages, with a digest of its content, so that browsers may cache it."""
    return f"/static/{hashlib.sha256(assets()[name][0]).hexdigest()[:12]}/{name}"


def difference(before: str, after: str) -> Markup:
    """Return `after` with additions as `<ins>` and removals as `<del>`, by words, or by lines for long texts."""
    pattern = _WORDS if max(len(before), len(after)) <= _MAX_BY_WORDS else _LINES
    old, new = pattern.findall(visible(before)), pattern.findall(visible(after))
    parts: list[Markup] = []
    for operation, start, end, begin, stop in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        removed, added = "".join(old[start:end]), "".join(new[begin:stop])
        if operation == "equal":
            parts.append(escape(added))
            continue
        parts += [Markup("<del>{}</del>").format(removed)] if removed else []
        parts += [Markup("<ins>{}</ins>").format(added)] if added else []
    return Markup().join(parts)
