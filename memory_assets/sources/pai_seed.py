"""pai-seed's `seed.json`: learnings, and proposals that wait for a decision."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from memory_assets.models import FileStamp, Kind, Refusal, Scan, Source, SourceItem
from memory_assets.sources.files import RefusedFileError, decode, shown_path, text_fault
from memory_assets.sources.json_fields import (
    Fault,
    Fields,
    OptionalText,
    OptionalTime,
    Text,
    Texts,
    Time,
    loads,
    member,
    type_name,
)
from memory_assets.sources.scanning import Parsed, ScanBuilder

MAX_SEED_BYTES = 16 << 20
"""Largest seed.json that is read: tens of thousands of learnings."""
SUPPORTED_MAJOR = 1

LEARNING_KINDS = {"patterns": Kind.PATTERN, "insights": Kind.INSIGHT, "selfKnowledge": Kind.SELF_KNOWLEDGE}

_UNCONFIRMED_CONFIDENCE = 0.5
_KNOWN_KEYS = frozenset(("version", "identity", "learned", "state", "tanaIntegration"))


def scan(path: Path, known: Mapping[str, FileStamp] | None, *, max_bytes: int = MAX_SEED_BYTES) -> Scan:
    """Read seed.json unless its stamp equals the known one.

    A learning becomes an item of its array's kind, with confidence 1.0 if it is confirmed, else 0.5. A proposal becomes an item that
    is only listed (`remember` is False), with its own confidence or 0.5, and its status in the metadata. An accepted proposal is
    remembered under its type if its learning is missing, and skipped if it is present. An entry that is invalid or repeats an id is
    refused alone, with its JSON path. A link may not leave the file's folder. `known` maps absolute paths to the stamps of the last
    scan.
    """
    path = path.absolute()
    builder = ScanBuilder(Source.PAI_SEED, path.parent, known)
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        builder.absent(path, "pai-seed learnings", "MEMORY_PAI_SEED")
        return builder.scan()
    except OSError:
        pass
    builder.read(str(path), lambda data: _Seed(shown_path(str(path)), builder.notes).parse(data), max_bytes)
    return builder.scan()


@dataclass(slots=True)
class _Seed:
    path: str
    notes: list[str]
    items: list[SourceItem] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    paths_by_id: dict[str, str] = field(default_factory=dict)
    decoding: dict[str, Any] = field(default_factory=dict)

    def parse(self, data: bytes) -> Parsed:
        text, note = decode(data, allow_controls=True)
        if note:
            self.decoding = {"decoding": note}
        seed = loads(text)
        if not isinstance(seed, dict):
            reason = seed.reason if isinstance(seed, Fault) else f"it is {type_name(seed)}, not an object"
            raise RefusedFileError(reason, "restore the file from git")
        self._check_version(seed.get("version"))
        learned = self._section(seed, "learned", dict, required=True) or {}
        state = self._section(seed, "state", dict) or {}
        for name, kind in LEARNING_KINDS.items():
            where = f"$.learned.{name}"
            for index, entry in enumerate(self._section(learned, name, list, "$.learned") or ()):
                self._add_entry(entry, f"{where}[{index}]", kind)
        for index, entry in enumerate(self._section(state, "proposals", list, "$.state") or ()):
            self._add_entry(entry, f"$.state.proposals[{index}]", Kind.PROPOSAL)
        unknown = [member("$", key) for key in seed if key not in _KNOWN_KEYS]
        unknown += [member("$.learned", key) for key in learned if key not in LEARNING_KINDS]
        if unknown:
            shown = shown_path(", ".join(unknown)[:300])
            self.notes.append(f"{self.path} has unknown parts, which were not read: {shown}.")
        names = self._section(state, "activeProjects", list, "$.state") or ()
        projects = [name.strip() for name in names if isinstance(name, str) and name.strip() and not text_fault(name)]
        return Parsed(self.items, self.refusals, projects=projects)

    def _check_version(self, version: Any) -> None:
        if version is None:
            self.notes.append(f"{self.path} has no version; it is read as version {SUPPORTED_MAJOR}.")
            return
        found = re.match(r"(\d{1,9})(?:\.|\Z)", version) if isinstance(version, str) else None
        if found is None:
            raise RefusedFileError("`version` is not a version such as 1.0.0", "write the schema's version there", "$.version")
        if int(found[1]) != SUPPORTED_MAJOR:
            raise RefusedFileError(
                f"its schema has major version {int(found[1])}, and only {SUPPORTED_MAJOR} is read",
                "update memory_assets, or convert the file with pai-seed",
                "$.version",
            )

    def _section(self, parent: dict[str, Any], name: str, kind: type, where: str = "$", *, required: bool = False) -> Any:
        """Return a part of the file that is a `kind`; None where it is missing or refused."""
        value = parent.get(name)
        if isinstance(value, kind) or (value is None and not required):
            return value
        wanted = "an object" if kind is dict else "an array"
        found = "missing" if value is None else value.reason if isinstance(value, Fault) else f"{type_name(value)}, not {wanted}"
        self.refusals.append(
            Refusal(Source.PAI_SEED, self.path, f"`{name}` is {found}", f"make it {wanted}", member(where, name))
        )
        return None

    def _add_entry(self, entry: Any, where: str, kind: Kind) -> None:
        entry_id = entry.get("id") if isinstance(entry, dict) else None
        key = _key(shown_path(entry_id.strip())) if isinstance(entry_id, str) and entry_id.strip() else None
        try:
            if kind is Kind.PROPOSAL:
                item = self._proposal(read := _Proposal.read(entry, where))
            else:
                item = self._learning(read := _Learning.read(entry, where), kind)
            if item is None:
                return
            if read.id in self.paths_by_id:
                raise RefusedFileError(
                    f"its id `{read.id[:60]}` is already used by {self.paths_by_id[read.id]}",
                    "give it an id of its own or delete it",
                    f"{where}.id",
                )
        except RefusedFileError as error:
            self.refusals.append(error.refusal(Source.PAI_SEED, self.path, key))
            return
        self.paths_by_id[read.id] = where
        self.items.append(item)

    def _learning(self, read: "_Learning", kind: Kind) -> SourceItem:
        return self._item(
            read,
            kind=kind,
            created_at=read.confirmed_at or read.extracted_at,
            confidence=1.0 if read.confirmed else _UNCONFIRMED_CONFIDENCE,
            metadata={"origin": read.source, "confirmed": read.confirmed, "extracted_at": read.extracted_at.isoformat()},
        )

    def _proposal(self, read: "_Proposal") -> SourceItem | None:
        """Return a proposal's item, or None if it was accepted and its learning is among the items."""
        accepted = read.status == "accepted"
        if accepted and self.paths_by_id.get(read.id, "").startswith("$.learned"):
            return None
        metadata = {
            "origin": read.source,
            "status": read.status,
            "proposed_kind": read.type,
            "extracted_at": read.extracted_at.isoformat(),
            **({"method": read.method} if read.method else {}),
            **({"decided_at": read.decided_at.isoformat()} if read.decided_at else {}),
        }
        return self._item(
            read,
            kind=Kind(read.type) if accepted else Kind.PROPOSAL,
            created_at=(read.decided_at if accepted else None) or read.extracted_at,
            confidence=read.confidence,
            remember=accepted,
            metadata=metadata,
        )

    def _item(self, read: "_Entry", metadata: dict[str, Any], **fields: Any) -> SourceItem:
        extra = {"extra": read.model_extra} if read.model_extra else {}
        return SourceItem(
            source=Source.PAI_SEED,
            key=_key(read.id),
            body=read.content,
            tags=tuple(read.tags),
            session=read.source if read.source.lower().startswith("session") else "",
            metadata={"path": self.path, **metadata, **self.decoding, **extra},
            **fields,
        )


class _Entry(Fields):
    id: Text
    content: Text
    source: Text
    extracted_at: Time
    tags: Texts = Field([])


class _Learning(_Entry):
    confirmed: bool
    confirmed_at: OptionalTime = None


class _Proposal(_Entry):
    type: Literal["pattern", "insight", "self_knowledge"]
    status: Literal["pending", "accepted", "rejected"]
    method: OptionalText = ""
    decided_at: OptionalTime = None
    confidence: float = Field(_UNCONFIRMED_CONFIDENCE, ge=0, le=1)


def _key(entry_id: str) -> str:
    return f"{Source.PAI_SEED}:{entry_id}"
