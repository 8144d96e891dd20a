"""Claude Code's auto memory: `<projects>/<slug>/memory/*.md`, one silo for each working directory.

Claude Code asks for an index `MEMORY.md` of pointers with one-line hooks. Half of the time the index holds facts that no other file
holds, so its sections are read too.
"""

import heapq
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from memory_assets.language.secrets import mask, secrets_in
from memory_assets.models import FileStamp, Hook, Refusal, Scan, Source, SourceItem
from memory_assets.sources.dating import Dating
from memory_assets.sources.files import MAX_BYTES, decode, head_objects, text_fault
from memory_assets.sources.frontmatter import parse
from memory_assets.sources.markdown import guess_kind, link_targets, memory_item, scan_folder
from memory_assets.sources.projects import is_slug_of, slug_of
from memory_assets.sources.scanning import Parsed, ScanBuilder

INDEX_NAME = "MEMORY.md"

_LINK = r"\[[^\[\]]*\]\(<?(?:\./)?(?P<linked>[^()\[\]<>/\\#]+\.md)(?:#[^()\s>]*)?>?(?:\s+\"[^\"]*\")?\)"
_WIKI = r"\[\[(?P<wiki>[^\[\]|#/\\\n]+)(?:#[^\[\]|\n]*)?(?:\\?\|[^\[\]\n]*)?\]\]"
_TARGET = rf"(?:{_LINK}|{_WIKI}|(?P<ticks>`?)(?P<bare>[\w.-]+\.md)(?P=ticks))"
_POINTER = re.compile(
    r"\s*(?P<mark>(?:[-*+]|\d{1,9}[.)])\s+)?(?:\[[ xX]\]\s+)?\*{0,3}"
    rf"{_TARGET}\*{{0,3}}(?:(?P<dash>\s*[-–—:]+\*{{0,3}})?\s+(?P<hook>\S.*))?\s*",
    re.IGNORECASE,
)
_CELL = re.compile(rf"\s*\*{{0,3}}{_TARGET}\*{{0,3}}\s*", re.IGNORECASE)
_BETWEEN_CELLS = re.compile(r"(?<!\\)\|")
_OTHER_LINK = re.compile(r"\]\(|\[\[")
_BLANK_LINE = re.compile(r"\s*(?:[-*_=]{3,}|(?:[-*_]\s+){2,}[-*_]|<!--[^<>]*-->|[-*+]|)\s*")
_TABLE_RULE = re.compile(r"\s*\|?(?:\s*:?-+:?\s*\|)+(?:\s*:?-+:?\s*)?")
_INDEX_HEADINGS = frozenset(("", "memory", "memory index", "memories", "index", "auto memory", "memory.md", "project memory"))
"""Headings that name the index itself, not a topic."""


class Pointer(NamedTuple):
    """A line of an index that points to a file of its silo."""

    name: str
    hook: str
    """The line's description of the file; may be empty."""
    is_wiki: bool = False
    """Whether it is a `[[name]]` link, which may mean a memory's name instead of a file."""


def parse_index(data: bytes, *, prefix: str, path: str, dating: Dating, project: str, metadata: dict[str, Any]) -> Parsed:
    """Return the sections of an index as items, and its pointers as hooks.

    A section's key ends in its heading, so that an edit below the heading changes one item. A section of blank lines and rules alone
    is skipped. Every key starts with `prefix`; `project` is the silo's working directory, or its slug.
    """
    text, note = decode(data)
    known = secrets_in([text])
    items: list[SourceItem] = []
    hooks: list[Hook] = []
    seen: Counter[str] = Counter()
    for title, heading, lines in _split_sections(parse(text)[1]):
        kept: list[str] = []
        for line in lines:
            pointed = parse_pointer(line)
            if pointed and not pointed.is_wiki:
                hooks.append(Hook(prefix + pointed.name, pointed.hook))
            elif kept or not _BLANK_LINE.fullmatch(line):
                kept.append(line)
        while kept and (_BLANK_LINE.fullmatch(kept[-1]) or _TABLE_RULE.fullmatch(kept[-1])):
            if _TABLE_RULE.fullmatch(kept.pop()):
                del kept[-1:]  # the head of a table whose rows are pointers
        if not kept:
            continue
        body = "\n".join(kept)
        found = dating.date(path, data, [heading])
        name = " ".join(mask(heading, known=known).casefold().split())[:120]
        seen[name] += 1
        items.append(
            SourceItem(
                source=Source.CLAUDE_SILO,
                key=f"{prefix}{INDEX_NAME}#{name}" + (f"~{seen[name]}" if seen[name] > 1 else ""),
                kind=guess_kind(title, body),
                body=body,
                title=title,
                created_at=found[0] if found else None,
                links=link_targets(body),
                project=project,
                metadata={
                    "path": path,
                    **metadata,
                    "section": heading,
                    "guessed": ["kind"],
                    **({"dated_by": found[1]} if found else {}),
                    **({"decoding": note} if note else {}),
                },
            )
        )
    only_pointers = Refusal(Source.CLAUDE_SILO, path, "it holds nothing but pointers to other files", "")
    return Parsed(items, () if items else [only_pointers], hooks)


def parse_pointer(line: str) -> Pointer | None:
    """Parse a line of an index; return None unless it is a pointer and nothing else.

    A pointer is a list item, a plain line or a table row. A checkbox before the link and a dash before the hook are optional.
    """
    if line.lstrip().startswith("|"):
        cells = [cell.strip() for cell in _BETWEEN_CELLS.split(line.strip().strip("|"))]
        targets = [(cell, found) for cell in cells if (found := _CELL.fullmatch(cell))]
        others = [cell for cell in cells if not _CELL.fullmatch(cell)]
        if len(targets) != 1 or any(map(_OTHER_LINK.search, others)):
            return None
        return _build_pointer(targets[0][1], " · ".join(filter(None, others)))
    found = _POINTER.fullmatch(line)
    if found is None:
        return None
    hook = found["hook"] or ""
    if hook and not found["dash"] and (not found["mark"] or _OTHER_LINK.search(hook) or (found["bare"] and not found["ticks"])):
        return None
    return _build_pointer(found, hook.strip())


def _build_pointer(found: re.Match[str], hook: str) -> Pointer:
    if found["wiki"]:
        name = found["wiki"].strip()
        return Pointer(name if name.lower().endswith(".md") else f"{name}.md", hook, is_wiki=True)
    return Pointer(unquote(found["linked"] or found["bare"]), hook)


def _split_sections(text: str) -> Iterator[tuple[str, str, list[str]]]:
    """Yield title, heading and lines of the text before the first heading and of each section, without its subsections.

    The title is the heading, prefixed with the heading above it. Only `#` headings count: an underline is more often a rule below a
    paragraph. Block quotes are not parsed, because fences in them cost markdown-it quadratic time.
    """
    from markdown_it import MarkdownIt

    lines = text.split("\n")
    tokens = MarkdownIt("commonmark").disable(["inline", "lheading", "blockquote"]).parse(text)
    headings = [(0, 0, 0, "")] + [
        (token.map[0], token.map[1], int(token.tag[1:]), " ".join(content.content.split()))
        for token, content in pairwise(tokens)
        if token.type == "heading_open" and token.level == 0 and token.map
    ]
    ends = [start for start, *_ in headings[1:]] + [len(lines)]
    above: dict[int, str] = {}
    for (_, begin, depth, heading), end in zip(headings, ends, strict=True):
        above = {level: name for level, name in above.items() if level < depth and name.casefold() not in _INDEX_HEADINGS}
        yield ": ".join([*list(above.values())[-1:], heading]), heading, lines[begin:end]
        above[depth] = heading


_TRANSCRIPTS_READ = 5


def scan(root: Path, known: Mapping[str, FileStamp] | None, *, max_bytes: int = MAX_BYTES) -> Scan:
    """Read every memory file below `root` whose stamp differs from the known one.

    Each `.md` file becomes an item; if it names no kind, the kind is guessed. The sections of an index that hold more than pointers
    become items too. Empty and temporary files are passed over; everything else in a silo (a subfolder counts once) is refused.
    `known` maps absolute paths to the stamps of the last scan. A file above `max_bytes` is refused unread.
    """
    builder = ScanBuilder(Source.CLAUDE_SILO, root, known)
    dating = Dating(builder.root)
    for entry in builder.top_folders("Claude Code memories", "MEMORY_CLAUDE_PROJECTS_DIR"):
        if builder.is_inside(entry.path) and entry.is_dir():
            _scan_silo(builder, Path(entry.path), dating, max_bytes)
    return builder.scan()


def working_directory(silo: Path, root: Path) -> str:
    """Return the working directory that a silo's newest transcripts name, or the silo's slug if they name none.

    A slug cannot be decoded, and a session may change its directory, so only a directory with the silo's slug counts. Symbolic links
    that leave `root` are not followed.
    """
    try:
        with os.scandir(silo) as listing:
            transcripts = [
                (entry.stat(follow_symlinks=False).st_mtime_ns, entry.name) for entry in listing if entry.name.endswith(".jsonl")
            ]
    except OSError:
        return silo.name
    fitting: list[str] = []
    for _, name in heapq.nlargest(_TRANSCRIPTS_READ, transcripts):
        for entry in head_objects(silo / name, root, b'"cwd"'):
            cwd = entry.get("cwd")
            if isinstance(cwd, str) and not text_fault(cwd) and is_slug_of(silo.name, cwd):
                if slug_of(cwd) == silo.name:
                    return cwd
                fitting.append(cwd)
    return min(fitting, key=len, default=silo.name)  # the folders below one whose name is cut fit, too


def _scan_silo(builder: ScanBuilder, silo: Path, dating: Dating, max_bytes: int) -> None:
    project = cache(partial(working_directory, silo, builder.root))
    prefix = f"{Source.CLAUDE_SILO}:{silo.name}/"

    def parse_file(data: bytes, path: str, key: str) -> Parsed:
        about: dict[str, Any] = {"path": path, "dating": dating, "project": project(), "metadata": {"slug": silo.name}}
        if key == prefix + INDEX_NAME:
            return parse_index(data, prefix=prefix, **about)
        return Parsed([memory_item(data, source=Source.CLAUDE_SILO, key=key, **about)])

    scan_folder(builder, str(silo / "memory"), parse_file, key_prefix=prefix, skipped_names=(), max_bytes=max_bytes)
