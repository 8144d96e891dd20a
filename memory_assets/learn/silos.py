"""What lies in Claude Code's silos, as the curator sees it: memories that it may take, and all the rest, which it leaves alone.

Stricter than reading: a memory that is taken is deleted from its silo. So it must be a regular file, reached over no link, whose
frontmatter names one of the four types, and a name or description. The silo's index must be one that can be edited.
"""

import hashlib
import stat
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path, PurePath

from memory_assets.learn.index import hooks_of
from memory_assets.models import Kind, Refusal, Source, SourceItem
from memory_assets.sources.claude_silos import working_directory
from memory_assets.sources.dating import Dating
from memory_assets.sources.files import MAX_BYTES, RefusedFileError, decode, denied, read_source_file
from memory_assets.sources.frontmatter import parse
from memory_assets.sources.markdown import memory_item, scan_folder
from memory_assets.sources.memory_index import INDEX_NAME
from memory_assets.sources.scanning import Parsed, ScanBuilder

_LINK = ("it is a symbolic link, and nothing is taken over links", "put the file there instead of the link")
_MEND = "give it a name, a description and a type, or leave it where it is"


@dataclass(frozen=True, slots=True)
class SiloEntry:
    """A memory in a silo that may be taken into its canonical home."""

    item: SourceItem
    """What it says, as `memory run` reads it; `item.title` is its name."""
    path: Path
    slug: str
    data: bytes
    """The file, byte for byte."""
    written_at: datetime
    """When its owner says it was written, UTC; else when the file was."""
    mtime_ns: int
    mode: int
    """Its permissions."""
    hooks: tuple[str, ...]
    """What the silo's index says of it and it does not say itself."""

    @property
    def digest(self) -> str:
        """SHA-256 of the file."""
        return digest_of(self.data)


@dataclass(frozen=True, slots=True)
class Silos:
    """One pass over all silos."""

    entries: tuple[SiloEntry, ...]
    """By path."""
    left: tuple[Refusal, ...]
    """What is left alone, why, and what its owner can do: nothing to mend where it is passed over."""

    @property
    def counts(self) -> dict[Kind, int]:
        """Entries by type."""
        return dict(Counter(entry.item.kind for entry in self.entries))


def digest_of(data: bytes) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def scan_silos(root: Path, *, max_bytes: int = MAX_BYTES) -> Silos:
    """Read every silo below Claude Code's folder of projects. Nothing is written; a missing folder holds none.

    Args:
        root: the folder of projects.
        max_bytes: refuse a larger file without reading it.
    """
    builder = ScanBuilder(Source.CLAUDE_SILO, root, {})
    entries: list[SiloEntry] = []
    dating = Dating(builder.root)
    for folder in builder.top_folders(""):
        silo = Path(folder.path)
        if silo.is_symlink() or (silo / "memory").is_symlink():
            builder.refuse(str(silo if silo.is_symlink() else silo / "memory"), RefusedFileError(*_LINK))
        else:
            _scan_silo(builder, silo, dating, max_bytes, entries)
    left = (refusal for file in builder.scan().changed for refusal in file.refusals)
    return Silos(tuple(entries), tuple(left))


def _scan_silo(builder: ScanBuilder, silo: Path, dating: Dating, max_bytes: int, entries: list[SiloEntry]) -> None:
    project = cache(partial(working_directory, silo, builder.root))
    index_fault: RefusedFileError | None = None
    hooks: dict[str, tuple[str, ...]] = {}
    try:
        hooks = hooks_of(read_index(silo / "memory" / INDEX_NAME, builder.root))
    except RefusedFileError as error:
        index_fault = error

    def read(data: bytes, path: str, key: str) -> Parsed:
        file = Path(path)
        if file.is_symlink():
            raise RefusedFileError(*_LINK)
        if file.name.casefold() == INDEX_NAME.casefold():
            raise RefusedFileError("it is the index of its silo, not a memory", "")
        item = memory_item(
            data,
            source=Source.CLAUDE_SILO,
            key=key,
            path=path,
            dating=dating,
            project=project(),
            metadata={"slug": silo.name},
        )
        _require_memory(item, data)
        if index_fault:
            raise index_fault
        status = file.stat()
        written = item.created_at or datetime.fromtimestamp(status.st_mtime, UTC)
        mode = stat.S_IMODE(status.st_mode)
        said = _not_said(item, hooks.get(file.name, ()))
        entries.append(SiloEntry(item, file, silo.name, data, written, status.st_mtime_ns, mode, said))
        return Parsed(())

    prefix = f"{Source.CLAUDE_SILO}:{silo.name}/"
    scan_folder(builder, str(silo / "memory"), read, key_prefix=prefix, passed_over=(), max_bytes=max_bytes)


def read_index(path: Path, root: Path) -> bytes:
    """Return the content of a silo's index, empty where there is none.

    Raises:
        RefusedFileError: it is a link, or not a file that can be read.
    """
    if path.is_symlink():
        raise RefusedFileError("its silo's MEMORY.md is a symbolic link", "put the file there instead of the link")
    try:
        return read_source_file(path, root, MAX_BYTES)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise denied(error) from error
    except RefusedFileError as error:
        raise RefusedFileError(f"its silo's MEMORY.md cannot be edited ({error.reason})", error.mend) from error


def _not_said(item: SourceItem, hooks: tuple[str, ...]) -> tuple[str, ...]:
    """The hooks that say more than the file: the rule by which `memory run` adds them to its text."""
    text = f"{item.title} {item.description} {item.body}".lower()
    return tuple(hook for hook in hooks if hook.rstrip(".…").lower() not in text)


def _require_memory(item: SourceItem, data: bytes) -> None:
    """Refuse what is read but may be somebody else's file: without a type, or without anything that names it."""
    if "kind" in item.metadata.get("guessed", ()):
        named = "its frontmatter names no type" if parse(decode(data)[0])[0] else "it has no frontmatter"
        raise RefusedFileError(f"unrecognised: {named}", _MEND)
    if item.description or item.title != PurePath(item.metadata["path"]).stem:
        return
    fields, _ = parse(decode(data)[0])
    nested = fields.get("metadata")
    if not (fields.get("name") or (isinstance(nested, dict) and nested.get("name"))):
        raise RefusedFileError("unrecognised: it has neither a name nor a description", _MEND)
