"""Memories as Markdown files in silos and canonical homes.

Their texts come from the catalog, with secrets masked. Only a plan opens the files, because it copies and deletes bytes. This module
also edits a silo's `MEMORY.md` byte by byte, and renders canonical files: flat frontmatter with provenance, as in PAI's homes.
"""

import re
import stat
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from memory_assets.ingest.scans import StoredItem, read_items, refusals_of
from memory_assets.models import Kind, Refusal, Source
from memory_assets.sources.claude_silos import INDEX_NAME, Pointer, parse_pointer
from memory_assets.sources.dating import utc_seconds
from memory_assets.sources.files import (
    MAX_BYTES,
    RefusedFileError,
    decode,
    denied,
    digest_of,
    is_link,
    read_source_file,
    wide_encoding,
)
from memory_assets.sources.frontmatter import parse
from memory_assets.sources.markdown import GUESSED_DATE, memory_item
from memory_assets.sources.pai_learning import HOMES
from memory_assets.tenants import Tenant

_LINK = ("it is a symbolic link, and links are not curated", "put the file there instead of the link")
_MEND = "give it a name, a description and a type, or leave it where it is"
_PROVENANCE = ("source_cwd", "ingested_at")


@dataclass(frozen=True, slots=True)
class MemoryFile(StoredItem):
    """A memory in a Markdown file; `item.title` is its name."""

    data: bytes = b""
    """Content of the file; empty until it is opened."""
    mtime_ns: int = 0
    mode: int = 0

    @property
    def slug(self) -> str:
        return self.path.parent.parent.name

    @property
    def written_at(self) -> datetime:
        """Time (UTC) that the memory states, else the file's modification time."""
        assert self.item.created_at  # the catalog has a time for every item
        return self.item.created_at

    @property
    def missing_provenance(self) -> tuple[str, ...]:
        """Required fields of a canonical file that this one lacks."""
        return tuple(name for name in _PROVENANCE if not self.item.metadata.get(name))


@dataclass(frozen=True, slots=True)
class MemoryFiles:
    """The memories of all silos, or of all canonical homes."""

    entries: tuple[MemoryFile, ...]
    left: tuple[Refusal, ...]
    """Files that are not curated; those without a fix are passed over."""

    @property
    def counts(self) -> dict[Kind, int]:
        return dict(Counter(entry.item.kind for entry in self.entries))


def read_silos(tenant: Tenant) -> MemoryFiles:
    """Return the silo memories that may be curated, by path, as of the last scan.

    Curation deletes a file from its silo. So the file must not be, or be reached through, a symbolic link; its frontmatter must have a
    type and a name or description; and the silo's index must be editable.
    """
    root = tenant.settings.claude_projects_dir
    items, left = _read(tenant, Source.CLAUDE_SILO)
    silos: dict[Path, list[StoredItem]] = defaultdict(list)
    for stored in items:
        silos[stored.path.parent].append(stored)
    entries: list[MemoryFile] = []
    for folder, found in silos.items():
        over_link = is_link(folder) or is_link(folder.parent)
        index_fault: RefusedFileError | None = None
        try:
            parse_hooks(read_index(folder / INDEX_NAME, root))
        except RefusedFileError as error:
            index_fault = error
        for stored in found:
            fault = RefusedFileError(*_LINK) if over_link else _find_fault(stored) or index_fault
            if fault is None:
                entries.append(_entry(stored))
            elif not left or left[-1].path != str(stored.path):
                left.append(fault.refusal(Source.CLAUDE_SILO, str(stored.path)))
    return MemoryFiles(tuple(entries), tuple(left))


def read_homes(tenant: Tenant) -> MemoryFiles:
    """Return the memories of the four canonical homes as of the last scan, by type and then newest first."""
    stored, left = _read(tenant, Source.PAI_LEARNING)
    entries = [_entry(each) for each in stored if each.path.suffix.lower() == ".md"]
    entries.sort(key=lambda entry: (entry.item.kind, -entry.written_at.timestamp(), entry.item.title))
    refused = (each for each in left if Path(each.path).parent.name in HOMES)
    return MemoryFiles(tuple(entries), tuple(refused))


@dataclass(slots=True)
class FileReader:
    """Reader of the files of a plan. Their texts are not masked, because they are moved unchanged."""

    projects_dir: Path
    learning_dir: Path
    max_bytes: int = MAX_BYTES
    _hooks: dict[Path, dict[str, tuple[str, ...]]] = field(default_factory=dict)

    def open_silo(self, entry: MemoryFile) -> MemoryFile | None:
        """Return a silo file with its content and the hooks that add to its text; None if it is missing or differs from the catalog."""
        try:
            opened = self._open(entry, self.projects_dir)
            folder = entry.path.parent
            if folder not in self._hooks:
                self._hooks[folder] = parse_hooks(read_index(folder / INDEX_NAME, self.projects_dir))
        except (FileNotFoundError, RefusedFileError):
            return None
        if opened.digest != entry.digest or entry.path.is_symlink():
            return None
        status = entry.path.stat()
        text = f"{opened.item.title} {opened.item.description} {opened.item.body}".lower()
        hooks = (hook for hook in self._hooks[folder].get(entry.path.name, ()) if hook.rstrip(".…").lower() not in text)
        return replace(opened, hooks=tuple(hooks), mtime_ns=status.st_mtime_ns, mode=stat.S_IMODE(status.st_mode))

    def open_canonical(self, entry: MemoryFile) -> MemoryFile | None:
        """Return a canonical file with its current content; None if it is missing or no longer a valid memory."""
        try:
            return self._open(entry, self.learning_dir)
        except (FileNotFoundError, RefusedFileError):
            return None

    def _open(self, entry: MemoryFile, root: Path) -> MemoryFile:
        data = read_source_file(entry.path, root, self.max_bytes)
        known = entry.item
        item = memory_item(data, source=known.source, key=known.key, path=str(entry.path), kind=known.kind, project=known.project)
        guessed = {"guessed": known.metadata["guessed"]} if "guessed" in known.metadata else {}
        item = replace(item, created_at=known.created_at, metadata=item.metadata | guessed)
        return replace(entry, item=item, data=data, digest=digest_of(data))


def read_index(path: Path, root: Path) -> bytes:
    """Return the content of a silo's index; empty if there is none."""
    if is_link(path):
        raise RefusedFileError("its silo's MEMORY.md is a symbolic link", "put the file there instead of the link")
    try:
        return read_source_file(path, root)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise denied(error) from error
    except RefusedFileError as error:
        raise RefusedFileError(f"its silo's MEMORY.md cannot be edited ({error.reason})", error.mend) from error


def _entry(stored: StoredItem) -> MemoryFile:
    return MemoryFile(stored.item, stored.path, stored.digest, stored.hooks)


def _read(tenant: Tenant, source: Source) -> tuple[list[StoredItem], list[Refusal]]:
    """Return the items of a source and the refusals of its memory files, from one connection: opening one takes longer than reading."""
    with tenant.catalog.read() as connection:
        refused = refusals_of(connection, source)
        items = read_items(tenant.catalog, source)
    return items, [each for each in refused if each.path.lower().endswith(".md") or each.key is None]


def _find_fault(stored: StoredItem) -> RefusedFileError | None:
    """Return why a file may not be curated: it is the index, a link, or perhaps not a memory at all; None if it may."""
    if stored.path.name.casefold() == INDEX_NAME.casefold():
        return RefusedFileError("it is the index of its silo, not a memory", "")
    if is_link(stored.path):
        return RefusedFileError(*_LINK)
    if "kind" in stored.item.metadata.get("guessed", ()):
        return RefusedFileError("unrecognised: no frontmatter names one of the four types", _MEND)
    if stored.item.metadata.get("unnamed"):
        return RefusedFileError("unrecognised: it has neither a name nor a description", _MEND)
    return None


_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def parse_hooks(data: bytes) -> dict[str, tuple[str, ...]]:
    """Return the names of the files that an index points to, each with its hooks."""
    hooks: dict[str, list[str]] = defaultdict(list)
    for _, pointed in _split_lines(data):
        if pointed:
            hooks[pointed.name] += [pointed.hook] if pointed.hook else []
    return {name: tuple(dict.fromkeys(found)) for name, found in hooks.items()}


def remove_pointers(data: bytes, names: Collection[str]) -> bytes:
    """Return an index without the lines that point to the named files; every other byte stays."""
    kept = (line for line, pointed in _split_lines(data) if not (pointed and pointed.name in names))
    return (_BYTE_ORDER_MARK if data.startswith(_BYTE_ORDER_MARK) else b"") + b"".join(kept)


def select_pointers(data: bytes, names: Collection[str]) -> bytes:
    """Return the lines of an index that point to the named files."""
    return b"".join(line for line, pointed in _split_lines(data) if pointed and pointed.name in names)


def find_mentions(data: bytes, names: Collection[str]) -> Iterator[tuple[int, str]]:
    """Yield line number and file name of what `remove_pointers` leaves: mentions of these files, and lines indented below their pointers.

    The numbers count the lines that are left.
    """
    patterns = {name: _mention_pattern(name) for name in names}
    number, pointer, depth = 0, "", 0
    for line, pointed in _split_lines(data):
        text = unquote(line.decode("utf-8", "replace")).expandtabs()
        indent = len(text) - len(text.lstrip())
        if pointer and text.strip() and indent <= depth:
            pointer = ""
        if pointed and pointed.name in patterns:
            pointer, depth = (pointer, depth) if pointer else (pointed.name, indent)
            continue
        number += 1
        yield from ((number, name) for name in patterns if patterns[name].search(text) or (name == pointer and text.strip()))


def _mention_pattern(name: str) -> re.Pattern[str]:
    """Return a pattern for a file's name, and for its stem in brackets, as the last part of a path, or before a colon."""
    stem = re.escape(Path(name).stem)
    return re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])|[\[(/]{stem}[\])|#]|^\W*{stem}\s*:", re.IGNORECASE)


def _split_lines(data: bytes) -> Iterator[tuple[bytes, Pointer | None]]:
    """Yield each line, with its line end and without the byte order mark, and its pointer."""
    if wide := wide_encoding(data):
        raise RefusedFileError(f"its silo's MEMORY.md is {wide.upper()}", "save that as UTF-8")
    for found in _LINE.finditer(data.removeprefix(_BYTE_ORDER_MARK)):
        line = found[0]
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            text = line.decode("cp1252", "replace")
        yield line, parse_pointer(text.rstrip("\r\n"))


HOME_OF = {kind: home for home, kind in HOMES.items()}
_MAX_SLUG_LENGTH = 60
_ALWAYS_FIRST = ("name", "description", "type")
_OURS = ("source_cwd", "ingested_at", "original_path", "source_hash", "index_hook", "merged_from", "merged_hashes")
_DATES = ("modified", "created", "date")


def moved_file(entry: MemoryFile, ingested_at: datetime, merged: Sequence[MemoryFile] = ()) -> bytes:
    """Render the canonical file of a silo memory: its body and all its fields, unknown ones too, with provenance."""
    fields, body = parse(decode(entry.data)[0])
    nested = fields.pop("metadata", {})
    if not isinstance(nested, dict):
        fields["metadata"], nested = nested, {}
    left = {key: value for key, value in nested.items() if key not in ("name", "description", "type", *_OURS)}
    fields |= {"metadata": left} if left else {}
    if not any(fields.get(name) or left.get(name) for name in _DATES):
        fields |= written_fields(entry)
    item = entry.item
    fields |= {"name": item.title, "description": item.description, "type": item.kind.value}
    return render(fields | provenance(entry, ingested_at, merged), body)


def written_fields(entry: MemoryFile) -> dict[str, str]:
    """Return the fields with the time of a memory, and with a flag if that is a guess."""
    guessed = {GUESSED_DATE: "true"} if "created_at" in entry.item.metadata.get("guessed", ()) else {}
    return {"created": utc_seconds(entry.written_at), **guessed}


def hash_of(entry: MemoryFile) -> str:
    """Return the digest of a file in the form that canonical files use."""
    return f"sha256:{entry.digest}"


def provenance(entry: MemoryFile, ingested_at: datetime, merged: Sequence[MemoryFile] = ()) -> dict[str, Any]:
    """Return a canonical file's provenance: where it came from, and the hooks of its silo's index."""
    return {
        "source_cwd": entry.item.project,
        "ingested_at": utc_seconds(ingested_at),
        "original_path": str(entry.path),
        "source_hash": hash_of(entry),
        **({"merged_from": [str(each.path) for each in merged], "merged_hashes": list(map(hash_of, merged))} if merged else {}),
        **({"index_hook": list(entry.hooks)} if entry.hooks else {}),
    }


def render(fields: Mapping[str, Any], body: str) -> bytes:
    """Render a Markdown file with frontmatter, so that `sources.frontmatter.parse` returns `fields` and `body`."""
    import yaml

    first = [name for name in _ALWAYS_FIRST if name in fields]
    last = [name for name in _OURS if name in fields]
    ordered = {name: fields[name] for name in (*first, *(name for name in fields if name not in {*first, *last}), *last)}
    block = yaml.dump(
        ordered, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), allow_unicode=True, sort_keys=False, width=1 << 30
    )
    return f"---\n{block}---\n{body}".encode()


def file_name(kind: Kind, name: str, taken: Container[str]) -> str:
    """Return a file name not yet `taken` for a memory in its home, such as `feedback_<short_slug>.md` in PAI's convention."""
    plain = unicodedata.normalize("NFKC", name).casefold()
    slug = re.sub(r"[\W_]+", "_", plain).strip("_").removeprefix(f"{kind.value}_")[:_MAX_SLUG_LENGTH].strip("_")
    short = blake2b(name.encode(), digest_size=3).hexdigest()
    found = f"{kind.value}_{slug or short}.md"
    return found if found.casefold() not in taken else f"{kind.value}_{slug}_{short}.md"


def canonical_key(path: Path) -> str:
    """Return the key of a canonical file in the catalog."""
    return f"pai_learning:{path.parent.name}/{path.name}"
