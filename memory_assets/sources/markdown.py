"""Memories as Markdown files with frontmatter, the format of Claude Code's silos and PAI's LEARNING homes."""

import re
from collections.abc import Callable, Collection
from pathlib import PurePath
from typing import Any

from memory_assets.language.words import WIKI_LINK, without_code
from memory_assets.models import Kind, Source, SourceItem
from memory_assets.sources.dating import Dating, is_in_future, utc_time
from memory_assets.sources.files import RefusedFileError, decode
from memory_assets.sources.frontmatter import parse
from memory_assets.sources.scanning import Parsed, ScanBuilder

_CODE = re.compile(r"`[^`\n]*`")


def link_targets(text: str) -> tuple[str, ...]:
    """Return the targets of a Markdown text's `[[name]]` links, without duplicates, in order of appearance.

    The target of `[[name#heading]]` and `[[name|shown]]` is `name`. Links in code blocks and code spans do not count.
    """
    names = (found[1].strip() for found in WIKI_LINK.finditer(_CODE.sub(" ", without_code(text))))
    return tuple(dict.fromkeys(name for name in names if name))


_KIND_BY_NAME = {
    Kind.USER: re.compile(
        r"\b(?:about (?:me|the user)|myself|who (?:am i|i am|the user is)"
        r"|user(?: (?:background|bio|context|details|expertise|facts|identity|info|information|persona|pref\w*|profile|role|skills"
        r"|style))?)$",
        re.MULTILINE,
    ),
    Kind.FEEDBACK: re.compile(
        r"\b(?:avoid|conventions?|corrections?|feedback|gotchas?|guidelines?|lessons?|pitfalls?|practices?|preferences?|principles?"
        r"|rules?|style)\b"
    ),
    Kind.REFERENCE: re.compile(
        r"\b(?:address|addresses|api|cheatsheet|commands?|docs|documentation|environment|files?|hosts?|inventory|links?|locations?"
        r"|paths?|references?|resources?|tools?|urls?|where)\b"
    ),
}
"""Words in a file name or heading that indicate a kind; the first match wins. All projects are told what is about the user, so that kind
takes a whole name: `user_profile.md`, not `user-login.md` or `contact-form.md`."""
_KIND_BY_LINE = {
    Kind.FEEDBACK: re.compile(r"\b(?:always|avoid|do not|don['’]t|must|never|prefer|should)\b", re.IGNORECASE),
    Kind.REFERENCE: re.compile(r"https?://|(?:^|[\s`(])[~/][\w.-]+/"),
}


def guess_kind(place: str, text: str) -> Kind:
    """Guess a note's kind from `place` (file name and headings, each on a line), else from the wording of most lines."""
    named = re.sub(r"[_-]", " ", place.lower())
    for kind, words in _KIND_BY_NAME.items():
        if words.search(named):
            return kind
    lines = [line for line in text.split("\n") if line.strip()]
    for kind, words in _KIND_BY_LINE.items():
        if 2 * sum(words.search(line) is not None for line in lines) > len(lines):
            return kind
    return Kind.PROJECT


MEMORY_TYPES = {kind.value: kind for kind in (Kind.USER, Kind.FEEDBACK, Kind.PROJECT, Kind.REFERENCE)}
GUESSED_DATE = "date_guessed"
"""Field of a curated file whose date is only the modification time of the file that it came from."""
PROVENANCE = ("source_cwd", "ingested_at", "original_path")

_SUBFOLDER = ("unrecognised: memories in subfolders are not read", "move its files up")
_NOT_MARKDOWN = ("unrecognised: it is not a .md file", "rename it or move it out of this folder")
_TEMPORARY_NAME = re.compile(r"^(?:\.|~\$|#)|(?:~|#|\.tmp|\.temp|\.sw[a-z]|\.bak|\.orig)$", re.IGNORECASE)
_TEMPORARY_FILE = ("it is a hidden or temporary file", "")
TYPE_MEND = f"give it a `type:` of {', '.join(MEMORY_TYPES)}"


def scan_folder(
    builder: ScanBuilder,
    folder: str,
    parse_file: Callable[[bytes, str, str], Parsed],
    *,
    key_prefix: str,
    skipped_names: Collection[str],
    max_bytes: int,
) -> None:
    """Read every `.md` file of a folder of memories. Pass over temporary files; refuse subfolders and other files.

    `parse_file` takes a file's content, path and key (`key_prefix` and the file name). Another reader handles `skipped_names`.
    """
    try:
        entries = builder.entries(folder) if builder.is_inside(folder) else []
    except FileNotFoundError:
        return
    for entry in entries:
        path = entry.path
        if entry.name in skipped_names:
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
    """Return the memory in a Markdown file.

    `name`, `description`, `type`, `originSessionId`, `tags` and the provenance are read from the top level of the frontmatter, else
    from `metadata:`. The time comes from `modified`, `created`, `date` or `ingested_at`, in this order, else from `dating`. Without a
    name, the file's stem is the title; without a body, the description is the body; without `kind` and a `type` that names one, the kind
    is guessed; without `project`, it is `source_cwd`. RefusedFileError: the file is empty, malformed, or dated in the future.
    """
    text, note = decode(data)
    if not text.strip():
        raise RefusedFileError("the file is empty", "")
    mapping, body = parse(text)
    nested = mapping.get("metadata")
    nested = dict(nested) if isinstance(nested, dict) else {}
    top = {name: value for name, value in mapping.items() if name != "metadata" or not isinstance(value, dict)}
    names = ("modified", "created", "date", "ingested_at")
    written = next(filter(None, (utc_time(fields.get(name)) for name in names for fields in (top, nested))), None)
    type_form = ""
    if written and is_in_future(written):
        raise RefusedFileError(f"its time {written:%Y-%m-%d} lies in the future", "write a time up to now", transient=True)
    if kind is None:
        kind, type_form = _pop_kind(top, nested)
    elif top.get("type") == kind:
        del top["type"]
    name = _pop_text("name", top, nested)
    description = _pop_text("description", top, nested)
    session = _pop_text("originSessionId", top, nested)
    stem = PurePath(path).stem
    body = body.strip() or description
    heading = body.partition("\n")[0].lstrip("#").strip() if body.startswith("#") else ""
    guessed = [] if kind else ["kind"]
    if written and top.get(GUESSED_DATE) == "true":
        guessed.append("created_at")
    found = dating.date(path, data, (stem, heading), session) if dating and not written else None
    if not body:
        raise RefusedFileError("unrecognised: it has neither a body nor a description", "write what to remember")
    tags = _parse_tags(_pop("tags", top, nested))
    provenance = {name: value for name in PROVENANCE if (value := _pop_text(name, top, nested))}
    leftovers = top | ({"metadata": nested} if nested else {})
    return SourceItem(
        source=source,
        key=key,
        kind=kind or guess_kind(f"{stem}\n{name}\n{heading}", f"{description}\n{body}"),
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


def _pop(name: str, top: dict[str, Any], nested: dict[str, Any]) -> Any:
    """Remove a field and return its value at the top level, else below `metadata:`."""
    below = nested.pop(name, "") if not top.get(name) else ""
    return top.pop(name, "") or below


def _pop_text(name: str, top: dict[str, Any], nested: dict[str, Any]) -> str:
    value = _pop(name, top, nested)
    if not isinstance(value, str):
        raise RefusedFileError(f"unrecognised: `{name}` is not text", "write it on one line", location=f"frontmatter.{name}")
    return value.strip()


def _pop_kind(top: dict[str, Any], nested: dict[str, Any]) -> tuple[Kind | None, str]:
    """Remove `type` where it names a kind; return that kind, and whether it is `top-level` or `nested`; None if it names none, or two."""
    named = {
        form: (fields, MEMORY_TYPES[name])
        for form, fields in (("top-level", top), ("nested", nested))
        if (name := str(fields.get("type", "")).strip().lower()) in MEMORY_TYPES
    }
    kinds = {kind for _, kind in named.values()}
    if len(kinds) != 1:
        return None, ""
    for fields, _ in named.values():
        del fields["type"]
    return kinds.pop(), next(iter(named))


def _parse_tags(value: Any) -> tuple[str, ...]:
    words = value if isinstance(value, list) else str(value).split(",")
    return tuple(dict.fromkeys(tag for word in words if isinstance(word, str) and (tag := word.strip())))
