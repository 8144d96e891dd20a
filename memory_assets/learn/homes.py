"""The four canonical homes, FEEDBACK, PROJECT, REFERENCE and USER, read by type: `loadPaiMemories` of seed 002.

One `.md` file is one entry, of its home's type. What `memory status --refused` says of a file holds here too: temporary files are
passed over, and what cannot be read is refused with its mend. Nothing is written.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from memory_assets.models import Kind, Refusal, Source
from memory_assets.sources.dating import utc_time
from memory_assets.sources.files import MAX_BYTES, RefusedFileError, decode
from memory_assets.sources.frontmatter import parse
from memory_assets.sources.markdown import scan_folder
from memory_assets.sources.pai_learning import HOMES
from memory_assets.sources.scanning import Parsed, ScanBuilder

_WRITTEN = ("modified", "created", "date", "ingested_at")
"""Where an entry says when it was written; the first that does counts."""
_REQUIRED = ("source_cwd", "ingested_at")


@dataclass(frozen=True, slots=True)
class CanonicalEntry:
    """One curated memory."""

    path: Path
    kind: Kind
    name: str
    """Its frontmatter's `name`, else the file's stem: no two entries of a home share one."""
    description: str
    body: str
    written_at: datetime
    """When its owner says it was written, UTC; else when the file was."""
    fields: dict[str, Any]
    """Its whole frontmatter: text, lists and mappings."""

    @property
    def source_cwd(self) -> str:
        """The working directory that it was learned in, or its slug; empty where it holds none."""
        return self._text("source_cwd")

    @property
    def ingested_at(self) -> datetime | None:
        """When it was taken out of its silo, UTC."""
        return utc_time(self.fields.get("ingested_at"))

    @property
    def missing_provenance(self) -> tuple[str, ...]:
        """What seed 002 wants every entry to carry and this one lacks: `source_cwd`, `ingested_at`."""
        return tuple(name for name in _REQUIRED if not self._text(name))

    def _text(self, name: str) -> str:
        value = self.fields.get(name)
        return value.strip() if isinstance(value, str) else ""


@dataclass(frozen=True, slots=True)
class Homes:
    """What the four homes hold."""

    entries: tuple[CanonicalEntry, ...]
    """By kind, in each the newest first."""
    refusals: tuple[Refusal, ...]

    def of(self, kind: Kind) -> tuple[CanonicalEntry, ...]:
        """The entries of one home, newest first."""
        return tuple(entry for entry in self.entries if entry.kind is kind)


def load_pai_memories(root: Path, *, max_bytes: int = MAX_BYTES) -> Homes:
    """Read every entry of the homes below `root`, PAI's LEARNING folder; without one there are none.

    Args:
        root: the folder that FEEDBACK, PROJECT, REFERENCE and USER lie in.
        max_bytes: refuse a larger file without reading it.
    """
    builder = ScanBuilder(Source.PAI_LEARNING, root, {})
    entries: list[CanonicalEntry] = []
    for home, kind in HOMES.items():
        read = partial(_read, kind=kind, entries=entries)
        folder = str(builder.root / home)
        scan_folder(builder, folder, read, key_prefix="", passed_over=(), max_bytes=max_bytes)
    entries.sort(key=lambda entry: (entry.kind, -entry.written_at.timestamp(), entry.name))
    refusals = (refusal for file in builder.scan().changed for refusal in file.refusals)
    return Homes(tuple(entries), tuple(refusals))


def _read(data: bytes, path: str, _key: str, *, kind: Kind, entries: list[CanonicalEntry]) -> Parsed:
    entries.append(entry_of(data, Path(path), kind))
    return Parsed(())


def entry_of(data: bytes, path: Path, kind: Kind) -> CanonicalEntry:
    """What a file of a home says.

    Raises:
        RefusedFileError: it is empty, is not text, or its frontmatter is broken.
        OSError: the file is gone.
    """
    fields, body = parse(decode(data)[0])
    if not (fields or body.strip()):
        raise RefusedFileError("the file is empty", "")
    nested = fields.get("metadata")
    places = (fields, nested if isinstance(nested, dict) else {})
    name, description = (_stated(field, places) for field in ("name", "description"))
    times = (utc_time(place.get(field)) for field in _WRITTEN for place in places)
    written = next((moment for moment in times if moment), None)
    return CanonicalEntry(
        path=path,
        kind=kind,
        name=" ".join(name.split()) or path.stem,
        description=description,
        body=body.strip(),
        written_at=written or datetime.fromtimestamp(path.stat().st_mtime, UTC),
        fields=fields,
    )


def _stated(field: str, places: tuple[dict[str, Any], dict[str, Any]]) -> str:
    values = (place.get(field) for place in places)
    return next((value.strip() for value in values if isinstance(value, str) and value.strip()), "")
