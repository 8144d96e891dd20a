"""A memory as a Markdown file with frontmatter, as Claude Code's silos and PAI's LEARNING homes have it."""

import re
from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from pathlib import PurePath
from typing import Any

from memory_assets.models import Kind, Source, SourceItem
from memory_assets.sources.dating import Dating, lies_ahead, utc_time
from memory_assets.sources.files import RefusedFileError, decode
from memory_assets.sources.frontmatter import parse
from memory_assets.sources.scanning import Parsed, ScanBuilder

_CODE = re.compile(r"^[ \t]*(?P<fence>```+|~~~+)(?s:.*?)(?:^[ \t]*(?P=fence)|\Z)|`[^`\n]*`", re.MULTILINE)
_LINK = re.compile(r"\[\[([^\[\]|#\n]+)(?:#[^\[\]|\n]*)?(?:\|[^\[\]\n]*)?\]\]")


def link_targets(text: str) -> tuple[str, ...]:
    """Return what the `[[name]]` links of a Markdown text point to, in order of first appearance, each once.

    `[[name#heading]]` and `[[name|shown]]` point to `name`. Code blocks and code spans hold no links.
    """
    names = (found[1].strip() for found in _LINK.finditer(_CODE.sub(" ", text)))
    return tuple(dict.fromkeys(name for name in names if name))


_PLACES = {
    Kind.USER: re.compile(r"\b(?:about|bio|contacts?|identity|me|myself|people|profile|role|team|user|who)\b"),
    Kind.FEEDBACK: re.compile(
        r"\b(?:avoid|conventions?|corrections?|feedback|gotchas?|guidelines?|lessons?|pitfalls?|practices?|preferences?|principles?"
        r"|rules?|style)\b"
    ),
    Kind.REFERENCE: re.compile(
        r"\b(?:address|addresses|api|cheatsheet|commands?|docs|documentation|environment|files?|hosts?|inventory|links?|locations?"
        r"|paths?|references?|resources?|tools?|urls?|where)\b"
    ),
}
"""What a file name or heading says of its kind; the first kind that fits is it."""
_WORDINGS = {
    Kind.FEEDBACK: re.compile(r"\b(?:always|avoid|do not|don['’]t|must|never|prefer|should)\b", re.IGNORECASE),
    Kind.REFERENCE: re.compile(r"https?://|(?:^|[\s`(])[~/][\w.-]+/"),
}
"""What a line says of its kind."""


def guess_kind(place: str, text: str) -> Kind:
    """Guess a note's kind: named by `place` (file name and headings), else that of more than half of its lines, else `project`."""
    named = re.sub(r"[_-]", " ", place.lower())
    for kind, words in _PLACES.items():
        if words.search(named):
            return kind
    lines = [line for line in text.split("\n") if line.strip()]
    for kind, words in _WORDINGS.items():
        if 2 * sum(words.search(line) is not None for line in lines) > len(lines):
            return kind
    return Kind.PROJECT


MEMORY_TYPES = {kind.value: kind for kind in (Kind.USER, Kind.FEEDBACK, Kind.PROJECT, Kind.REFERENCE)}
"""The four types of Claude Code's auto memory directive."""
GUESSED_DATE = "date_guessed"
"""Field of a curated file whose date nobody stated: it is the time of the file that it came from."""
PROVENANCE = ("source_cwd", "ingested_at", "original_path")
"""What a curated file says about where it came from."""

_SUBFOLDER = ("unrecognised: memories do not lie in subfolders", "move its files up")
_NOT_MARKDOWN = ("unrecognised: it is not a .md file", "rename it or move it out of this folder")
_TEMPORARY_NAME = re.compile(r"^(?:\.|~\$|#)|(?:~|#|\.tmp|\.temp|\.sw[a-z]|\.bak|\.orig)$", re.IGNORECASE)
_TEMPORARY_FILE = ("it is a hidden or temporary file", "")
_TYPE_MEND = f"give it a `type:` of {', '.join(MEMORY_TYPES)}"


def scan_folder(
    builder: ScanBuilder,
    folder: str,
    parse_file: Callable[[bytes, str, str], Parsed],
    *,
    key_prefix: str,
    passed_over: Collection[str],
    max_bytes: int,
) -> None:
    """Visit every entry of a folder of memories; subfolders and what is no `.md` file are refused, temporary files passed over.

    `parse_file` gives what a file holds from its content, path and key, which is `key_prefix` and its name. `passed_over` are names
    that another reader visits.
    """
    try:
        entries = builder.entries(folder) if builder.is_inside(folder) else []
    except FileNotFoundError:
        return
    for entry in entries:
        path = entry.path
        if entry.name in passed_over:
            continue
        if entry.is_dir(follow_symlinks=False):
            builder.refuse(path, RefusedFileError(*_SUBFOLDER))
        elif _TEMPORARY_NAME.search(entry.name):
            builder.refuse(path, RefusedFileError(*_TEMPORARY_FILE))
        elif not entry.name.lower().endswith(".md"):
            builder.refuse(path, RefusedFileError(*_NOT_MARKDOWN))
        else:
            key = f"{key_prefix}{entry.name}"
            builder.read(path, lambda data, path=path, key=key: parse_file(data, path, key), max_bytes)


def memory_item(
    data: bytes,
    *,
    source: Source,
    key: str,
    path: str,
    dating: Dating | None = None,
    kind: Kind | None = None,
    project: str = "",
    metadata: dict[str, Any] | None = None,
) -> SourceItem:
    """Return the memory that a Markdown file holds.

    `name`, `description`, `type`, `originSessionId`, `tags` and the provenance are looked for at the top
    level of the frontmatter and under `metadata:`. The latest word of its owner on its time is taken from
    `modified`, else `created`, else `date`, else `ingested_at`, else from what `dating` finds. Without a name the
    file's stem is the title; without a body the description is the body; without a type, or any frontmatter, the kind
    is guessed.

    `dating` finds times for files that state none. `kind` is that of the place where the file lies; None means that of its `type`.
    `project` is a working directory or project; if it is empty, `source_cwd` from the frontmatter. `metadata` is kept with the item.

    Raises:
        RefusedFileError: it says nothing, or a time of the future.
    """
    text, note = decode(data)
    if not text.strip():
        raise RefusedFileError("the file is empty", "")
    mapping, body = parse(text)
    nested = mapping.get("metadata")
    nested = dict(nested) if isinstance(nested, dict) else {}
    top = {name: value for name, value in mapping.items() if name != "metadata" or not isinstance(value, dict)}
    written = _first(("modified", "created", "date", "ingested_at"), top, nested)
    type_form = ""
    if written and lies_ahead(written):
        raise RefusedFileError(f"its time {written:%Y-%m-%d} lies in the future", "write a time up to now", transient=True)
    if kind is None:
        kind, type_form = _typed(top, nested)
    elif top.get("type") == kind:
        del top["type"]
    name = _text("name", top, nested)
    description = _text("description", top, nested)
    session = _text("originSessionId", top, nested)
    stem = PurePath(path).stem
    heading = body.partition("\n")[0].lstrip("#").strip() if body.startswith("#") else ""
    guessed = [] if kind else ["kind"]
    if written and top.get(GUESSED_DATE) == "true":
        guessed.append("created_at")
    found = dating.date(path, data, (stem, heading), session) if dating and not written else None
    body = body.strip() or description
    if not body:
        raise RefusedFileError("unrecognised: it has neither a body nor a description", "write what to remember")
    tags = _tags(_taken("tags", top, nested))
    provenance = {name: value for name in PROVENANCE if (value := _text(name, top, nested))}
    leftovers = top | ({"metadata": nested} if nested else {})
    return SourceItem(
        source=source,
        key=key,
        kind=kind or guess_kind(f"{stem} {name} {heading}", f"{description}\n{body}"),
        body=body,
        title=" ".join(name.split()) or stem,
        description=description,
        created_at=found[0] if found else written,
        tags=tags,
        links=link_targets(body),
        project=project or provenance.get("source_cwd", ""),
        session=session,
        metadata={
            "path": path,
            **(metadata or {}),
            **provenance,
            **({"type_form": type_form} if type_form else {}),
            **({"guessed": guessed} if guessed else {}),
            **({} if name or description else {"unnamed": True}),
            **({"dated_by": found[1]} if found else {}),
            **({"decoding": note} if note else {}),
            **({"frontmatter": leftovers} if leftovers else {}),
        },
    )


def _first(names: Iterable[str], top: dict[str, Any], nested: dict[str, Any]) -> datetime | None:
    """Return the time under the first of `names` that holds one; the fields stay among the leftovers."""
    moments = (utc_time(fields.get(name)) for name in names for fields in (top, nested))
    return next((moment for moment in moments if moment), None)


def _taken(name: str, top: dict[str, Any], nested: dict[str, Any]) -> Any:
    """Remove a field from the frontmatter and return it; `metadata:` counts where the top level is silent."""
    below = nested.pop(name, "") if not top.get(name) else ""
    return top.pop(name, "") or below


def _text(name: str, top: dict[str, Any], nested: dict[str, Any]) -> str:
    """Remove a field that must be text and return it, empty where it is missing."""
    value = _taken(name, top, nested)
    if not isinstance(value, str):
        raise RefusedFileError(f"unrecognised: `{name}` is not text", "write it on one line", location=f"frontmatter.{name}")
    return value.strip()


def _typed(top: dict[str, Any], nested: dict[str, Any]) -> tuple[Kind | None, str]:
    """Return the kind that the frontmatter names, if it does, and whether it stands `top-level` or `nested`."""
    found = [
        (form, str(value).strip())
        for form, fields in (("top-level", top), ("nested", nested))
        if (value := fields.pop("type", ""))
    ]
    if not found:
        return None, ""
    form, type_name = found[0]
    if any(other.lower() != type_name.lower() for _, other in found):
        raise RefusedFileError(
            f"unrecognised: `type` says `{type_name[:40]}` and `metadata.type` says `{found[1][1][:40]}`",
            "keep one of them",
            location="frontmatter.type",
        )
    if type_name.lower() not in MEMORY_TYPES:
        raise RefusedFileError(f"unrecognised: its type is `{type_name[:40]}`", _TYPE_MEND, location="frontmatter.type")
    return MEMORY_TYPES[type_name.lower()], form


def _tags(value: Any) -> tuple[str, ...]:
    """Return tags written as a list or as text with commas, each once."""
    words = value if isinstance(value, list) else str(value).split(",")
    return tuple(dict.fromkeys(tag for word in words if isinstance(word, str) and (tag := word.strip())))
