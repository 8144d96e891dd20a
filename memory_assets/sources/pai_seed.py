"""pai-seed's `seed.json`: what was learned and confirmed, and the proposals that wait for a decision."""

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
"""Largest seed.json that is read, in bytes: some tens of thousands of learnings."""
SUPPORTED_MAJOR = 1
"""Major version of the schema that is read."""

LEARNING_KINDS = {
    "patterns": Kind.PATTERN,
    "insights": Kind.INSIGHT,
    "selfKnowledge": Kind.SELF_KNOWLEDGE,
}
"""The arrays of `learned`: a learning's type is the array it stands in."""

_UNCONFIRMED_CONFIDENCE = 0.5
_KNOWN_KEYS = frozenset(("version", "identity", "learned", "state", "tanaIntegration"))


def scan(path: Path, known: Mapping[str, FileStamp] | None, *, max_bytes: int = MAX_SEED_BYTES) -> Scan:
    """Read seed.json unless its stamp is the known one.

    Learnings become items of their array's kind, with confidence 1.0 where they are confirmed and 0.5 where
    not. Proposals become items that are only listed (`remember` is False), with their own confidence or 0.5
    and their status in the metadata; an accepted one whose learning is missing is remembered under its type,
    and one whose learning is there adds nothing. An entry that is broken, or whose id was used before, is
    refused with its JSON path, and the others go on. A link may not leave the file's folder; `known` holds the stamps of the last
    pass by absolute path.
    """
    path = path.absolute()
    builder = ScanBuilder(Source.PAI_SEED, path.parent, known)
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        builder.absent(
            f"{shown_path(str(path))} does not exist, so no pai-seed learnings are read; "
            "set MEMORY_PAI_SEED where the file is elsewhere.",
            str(path),
        )
        return builder.scan()
    except OSError:
        pass
    builder.read(str(path), lambda data: _Seed(shown_path(str(path)), builder.notes).parse(data), max_bytes)
    return builder.scan()


@dataclass(slots=True)
class _Seed:
    """What is gathered from one seed.json."""

    path: str
    notes: list[str]
    items: list[SourceItem] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    taken: dict[str, str] = field(default_factory=dict)
    """JSON path of each id that was taken in."""
    decoding: dict[str, Any] = field(default_factory=dict)

    def parse(self, data: bytes) -> Parsed:
        """Return the items and refusals of the file's content."""
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
                self._take(entry, f"{where}[{index}]", kind)
        for index, entry in enumerate(self._section(state, "proposals", list, "$.state") or ()):
            self._take(entry, f"$.state.proposals[{index}]", Kind.PROPOSAL)
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

    def _take(self, entry: Any, where: str, kind: Kind) -> None:
        """Take in one entry, or refuse it."""
        known_id = entry.get("id") if isinstance(entry, dict) else None
        key = _key(shown_path(known_id.strip())) if isinstance(known_id, str) and known_id.strip() else None
        try:
            if kind is Kind.PROPOSAL:
                item = self._proposal(read := _Proposal.read(entry, where))
            else:
                item = self._learning(read := _Learning.read(entry, where), kind)
            if item is None:
                return
            if read.id in self.taken:
                raise RefusedFileError(
                    f"its id `{read.id[:60]}` is that of {self.taken[read.id]}",
                    "give it an id of its own or delete it",
                    f"{where}.id",
                )
        except RefusedFileError as error:
            self.refusals.append(error.refusal(Source.PAI_SEED, self.path, key))
            return
        self.taken[read.id] = where
        self.items.append(item)

    def _learning(self, read: "_Learning", kind: Kind) -> SourceItem:
        said = {"origin": read.source, "confirmed": read.confirmed, "extracted_at": read.extracted_at.isoformat()}
        return self._item(
            read,
            kind=kind,
            created_at=read.confirmed_at or read.extracted_at,
            confidence=1.0 if read.confirmed else _UNCONFIRMED_CONFIDENCE,
            metadata=said,
        )

    def _proposal(self, read: "_Proposal") -> SourceItem | None:
        """Return a proposal, or None where it was accepted and its learning has been taken in."""
        accepted = read.status == "accepted"
        if accepted and self.taken.get(read.id, "").startswith("$.learned"):
            return None
        said = {
            "origin": read.source,
            "status": read.status,
            "proposed_kind": read.type,
            "extracted_at": read.extracted_at.isoformat(),
        }
        said |= {"method": read.method} if read.method else {}
        said |= {"decided_at": read.decided_at.isoformat()} if read.decided_at else {}
        return self._item(
            read,
            kind=Kind(read.type) if accepted else Kind.PROPOSAL,
            created_at=(read.decided_at if accepted else None) or read.extracted_at,
            confidence=read.confidence,
            remember=accepted,
            metadata=said,
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
