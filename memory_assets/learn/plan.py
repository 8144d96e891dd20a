"""Planning of an apply: which canonical files it writes, and which silo files it deletes afterwards.

A silo file is moved only if it equals, byte for byte, what the last check read. Memories of one name in one home are merged if their
texts are equal. Otherwise the newest becomes the entry, and the others are kept as history.
"""

import getpass
import socket
import stat
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memory_assets.errors import StoreError
from memory_assets.language.secrets import mask
from memory_assets.learn.journal import Decisions, Placed, Plan, Proposal, Status, Taken
from memory_assets.learn.memory_files import (
    HOME_OF,
    FileReader,
    MemoryFile,
    MemoryFiles,
    canonical_key,
    file_name,
    hash_of,
    moved_file,
    provenance,
    render,
    written_fields,
)
from memory_assets.models import Kind, NewMemory, Source, State
from memory_assets.sources.dating import moment_of, utc_seconds
from memory_assets.sources.files import decode, digest_of
from memory_assets.sources.frontmatter import parse


@dataclass(frozen=True, slots=True)
class NotTaken:
    """A silo memory that this apply does not move, and the reason."""

    path: Path
    reason: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """A memory that competes for one name in a home."""

    kind: Kind
    name: str
    description: str
    body: str
    written_at: datetime
    sources: tuple[MemoryFile, ...]
    """Newest first; empty if it was learned from ratings and reflections alone."""
    proposal: Proposal | None = None

    @property
    def text(self) -> tuple[str, str]:
        """Description and body, for comparison."""
        return _comparable(self.description, self.body)

    def file(self, now: datetime, learning_dir: Path, hooks: Sequence[str], others: Sequence[MemoryFile]) -> bytes:
        """Render its canonical file, with `others` merged into it."""
        stated = {"name": self.name, "description": self.description, "type": self.kind.value}
        if not self.sources:
            assert self.proposal
            last = max(self.proposal.evidence, key=lambda each: each.at)
            quotes = "\n".join(each.quote for each in self.proposal.evidence)
            stated |= {
                "source_cwd": last.project or str(learning_dir),
                "ingested_at": utc_seconds(now),
                "original_path": last.path,
                "source_hash": f"sha256:{digest_of(quotes.encode())}",
            }
            return render(stated, f"\n{self.body}\n")
        newest = replace(self.sources[0], hooks=tuple(hooks))
        if self.proposal is None or (len(self.sources) == 1 and not self.proposal.edited):
            return moved_file(newest, now, others)
        merged = [*self.sources[1:], *others]
        return render(stated | written_fields(newest) | provenance(newest, now, merged), f"\n{self.body}\n")


def candidates(
    silos: MemoryFiles, decisions: Decisions, waiting: list[NotTaken], open_file: Callable[[MemoryFile], MemoryFile | None]
) -> Iterator[Candidate]:
    """Yield the silo memories and accepted proposals that an apply moves, with the content of their files.

    Append the others to `waiting`, with the reason. `open_file` returns a file with its content, or None if it changed since the scan.
    """
    proposed = {each.key: proposal for proposal in decisions.proposals for each in proposal.silo_files}
    accepted = {key for key, proposal in proposed.items() if proposal.status is Status.ACCEPTED}
    opened: dict[str, MemoryFile] = {}
    for entry in silos.entries:
        key = entry.item.key
        checked = decisions.checked.get(key)
        is_feedback = entry.item.kind is Kind.FEEDBACK
        file = open_file(entry) if checked == entry.digest and (not is_feedback or key in accepted) else None
        if checked == entry.digest and is_feedback and key not in accepted:
            if (proposal := proposed.get(key)) is None:
                reason = "it is feedback that no check has proposed yet"
            elif proposal.status is Status.REJECTED:
                reason = "its proposal was rejected"
            else:
                reason = f"its proposal is {proposal.status}; decide with `memory learn review`"
            waiting.append(NotTaken(entry.path, reason))
        elif file is None:
            waiting.append(NotTaken(entry.path, "it changed since the check" if checked else "no check has seen it yet"))
        else:
            opened[key] = file
            if not is_feedback:
                text = _comparable(file.item.description, file.item.body)
                yield Candidate(file.item.kind, file.item.title, *text, file.written_at, (file,))
    for proposal in decisions.proposals:
        if proposal.status is not Status.ACCEPTED or proposal.home_files:
            continue
        sources = [opened[each.key] for each in proposal.silo_files if each.key in opened]
        if len(sources) < len(proposal.silo_files):
            waiting += [NotTaken(entry.path, f"{proposal.id} is of a file that changed since the check") for entry in sources]
            continue
        sources.sort(key=lambda entry: entry.written_at, reverse=True)
        times = [datetime.fromisoformat(each.at or proposal.first_seen) for each in proposal.evidence]
        written = sources[0].written_at if sources else max(times)
        text = (proposal.description, proposal.body)
        if len(sources) == 1 and not proposal.edited:
            text = _comparable(sources[0].item.description, sources[0].item.body)
        yield Candidate(Kind.FEEDBACK, proposal.name, *text, written, tuple(sources), proposal)


def _comparable(description: str, body: str) -> tuple[str, str]:
    """Return an entry's description and body for comparison. A body that repeats the description counts as empty."""
    description, body = description.strip(), body.strip()
    return description, "" if body == description else body


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan before its execution."""

    plan: Plan
    contents: dict[str, bytes]
    """Old and new content of every file that the plan writes or deletes, by digest."""
    superseded: tuple[NewMemory, ...]
    """Older memories with other texts of the same names, to be kept as history."""
    waiting: tuple[NotTaken, ...]


def make_plan(
    number: int,
    silos: MemoryFiles,
    homes: MemoryFiles,
    decisions: Decisions,
    reader: FileReader,
    now: datetime,
    written: Mapping[str, Collection[str]],
) -> Planned:
    """Return the plan of an apply without writing anything. `silos` and `homes` must come from a scan just now.

    `written` has the digests of what earlier applies wrote, by path. A file with another digest was changed by a person, and dates
    from that change.
    """
    waiting: list[NotTaken] = []
    chosen = list(candidates(silos, decisions, waiting, reader.open_silo))
    groups: dict[tuple[Kind, str], list[Candidate]] = defaultdict(list)
    for candidate in chosen:
        groups[candidate.kind, candidate.name].append(candidate)
    taken_names = {
        kind: {each.name.casefold() for each in (reader.learning_dir / home).glob("*")} for kind, home in HOME_OF.items()
    }
    entries_by_name = {(each.item.kind, each.item.title): each for each in reversed(homes.entries)}
    builder = _Builder(reader, now, entries_by_name, taken_names, written)
    for (kind, name), group in sorted(groups.items()):
        builder.add(kind, name, group)
    accepted = [candidate.proposal.id for candidate in chosen if candidate.proposal]
    for proposal in decisions.proposals:
        if proposal.home_files and proposal.status is Status.ACCEPTED:
            entries = {entry.item.key: entry for entry in homes.entries}
            refused = builder.consolidate(proposal, entries)
            waiting += refused
            accepted += [] if refused else [proposal.id]
    folders = {folder for placed in builder.placed for folder in Path(placed.path).parents if not folder.exists()}
    plan = Plan(
        number,
        now.astimezone(UTC).isoformat(),
        tuple(builder.placed),
        tuple(builder.taken),
        tuple(accepted),
        tuple(builder.told),
        tuple(map(str, sorted(folders))),
        f"{getpass.getuser()} on {socket.gethostname()}",
    )
    return Planned(plan, builder.contents, tuple(builder.superseded), tuple(waiting))


@dataclass(slots=True)
class _Builder:
    """Collector of the steps, one name of one home after the other."""

    reader: FileReader
    now: datetime
    entries_by_name: dict[tuple[Kind, str], MemoryFile]
    file_names: dict[Kind, set[str]]
    """Casefolded names of the files in each home."""
    written: Mapping[str, Collection[str]]
    """Digests of what earlier applies wrote, by path."""
    placed: list[Placed] = field(default_factory=list)
    taken: list[Taken] = field(default_factory=list)
    superseded: list[NewMemory] = field(default_factory=list)
    contents: dict[str, bytes] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)

    def add(self, kind: Kind, name: str, group: list[Candidate]) -> None:
        """Choose among all candidates of one name in one home, and its present entry."""
        present = self._open_present(kind, name)
        newest = max(group, key=lambda each: (each.written_at, [str(source.path) for source in each.sources]))
        stays = present is not None and (present.written_at > newest.written_at or _text_of(present) == newest.text)
        path = present.path if present else self._new_path(kind, name)
        text = _text_of(present) if present and stays else newest.text
        equal = [source for each in group if each.text == text for source in each.sources]
        hooks = list(dict.fromkeys(hook for source in equal for hook in source.hooks))
        if present and stays:
            digest = self._update_present(present, equal, hooks)
        else:
            others = [source for each in group if each is not newest for source in each.sources]
            new = newest.file(self.now, self.reader.learning_dir, hooks, others)
            digest = self._place(path, new, present.data if present else None)
            if present:
                self._supersede(present, path)
        for candidate in group:
            for source in candidate.sources:
                self._take(source, path, digest)
                if candidate.text != text:
                    self._supersede(source, path)
        together, same = len(group) + bool(present), sum(each.text == text for each in group) + bool(present and stays)
        if same > 1:
            self.told.append(f"{HOME_OF[kind]}: {same} entries named {name!r} say the same and become one.")
        if together > same:
            self.told.append(
                f"{HOME_OF[kind]}: of {together} entries named {name!r} the newest wins, {together - same} kept as history."
            )

    def consolidate(self, proposal: Proposal, entries: Mapping[str, MemoryFile]) -> list[NotTaken]:
        """Consolidate canonical files into the newest one and delete the others. Return the files if any of them changed."""
        opened = [self.reader.open_canonical(entries[each.key]) if each.key in entries else None for each in proposal.home_files]
        files = [file for file, each in zip(opened, proposal.home_files, strict=True) if file and file.digest == each.digest]
        written = {placed.path for placed in self.placed}
        if len(files) < len(opened) or not written.isdisjoint(str(file.path) for file in files):
            why = f"{proposal.id} is of a file that changed since the check"
            return [NotTaken(Path(each.path), why) for each in proposal.home_files]
        *older, newest = files
        fields, _ = parse(decode(newest.data)[0])
        fields |= {"description": proposal.description} if proposal.description else {}
        fields |= _extend_merged(fields, older)
        digest = self._place(newest.path, render(fields, f"\n{proposal.body or proposal.description}\n"), newest.data)
        for file in older:
            status = file.path.stat()
            self._take(replace(file, mtime_ns=status.st_mtime_ns, mode=stat.S_IMODE(status.st_mode)), newest.path, digest)
        self.told.append(f"{HOME_OF[proposal.kind]}: {len(files)} entries become {proposal.name!r}.")
        return []

    def _open_present(self, kind: Kind, name: str) -> MemoryFile | None:
        """Open the present canonical file of a name. The catalog may have masked a secret in the name."""
        known = self.entries_by_name.get((kind, name)) or self.entries_by_name.get((kind, mask(name)))
        present = self.reader.open_canonical(known) if known else None
        if present is None or present.item.title != name:
            return None
        if present.digest in self.written.get(str(present.path), (present.digest,)):
            return present
        changed = moment_of(present.path.stat().st_mtime) or present.written_at
        return replace(present, item=replace(present.item, created_at=max(changed, present.written_at)))

    def _new_path(self, kind: Kind, name: str) -> Path:
        home = self.reader.learning_dir / HOME_OF[kind]
        if home.is_symlink() or (home.exists() and not home.is_dir()):
            raise StoreError(f"{home} is a link or a file; put a folder there instead, nothing was written.")
        new = file_name(kind, name, self.file_names[kind])
        self.file_names[kind].add(new.casefold())
        return home / new

    def _update_present(self, present: MemoryFile, equal: list[MemoryFile], hooks: list[str]) -> str:
        """Keep an entry; add missing provenance, and the files and hooks of the memories merged into it. Return its digest."""
        stated, body = parse(decode(present.data)[0])
        known = _texts_of(stated.get("index_hook"))
        fields: dict[str, object] = {}
        if present.missing_provenance and equal:
            fields |= {name: value for name, value in provenance(equal[0], self.now).items() if not stated.get(name)}
        known_hashes = {stated.get("source_hash"), fields.get("source_hash"), *_texts_of(stated.get("merged_hashes"))}
        if joined := [source for source in equal if hash_of(source) not in known_hashes]:
            fields |= _extend_merged(stated, joined)
        if set(hooks) - set(known):
            fields["index_hook"] = list(dict.fromkeys([*known, *hooks]))
        return self._place(present.path, render({**stated, **fields}, body), present.data) if fields else present.digest

    def _place(self, path: Path, content: bytes, before: bytes | None) -> str:
        digest = self._add_content(content)
        self.placed.append(Placed(str(path), digest, None if before is None else self._add_content(before)))
        return digest

    def _take(self, source: MemoryFile, path: Path, canonical_digest: str) -> None:
        self.taken.append(
            Taken(
                path=str(source.path),
                digest=self._add_content(source.data),
                mtime_ns=source.mtime_ns,
                mode=source.mode,
                key=source.item.key,
                canonical=str(path),
                canonical_digest=canonical_digest,
                canonical_key=canonical_key(path),
            )
        )

    def _supersede(self, old: MemoryFile, path: Path) -> None:
        """Add the memory of a file that is replaced by a newer one, with the text that `memory run` would give it."""
        item, (description, body) = old.item, _text_of(old)
        head = "\n".join(filter(None, (description, *sorted(old.hooks))))
        canonical = canonical_key(path)
        self.superseded.append(
            NewMemory(
                content="\n\n".join(filter(None, (head, body))).strip(),
                source=Source.PAI_LEARNING if item.key == canonical else Source.CLAUDE_SILO,
                kind=item.kind,
                title=item.title,
                created_at=old.written_at,
                project=item.project,
                state=State.SUPERSEDED,
                source_key=canonical,
                metadata={"silo_key": item.key},
            )
        )

    def _add_content(self, content: bytes) -> str:
        digest = digest_of(content)
        self.contents[digest] = content
        return digest


def _extend_merged(stated: Mapping[str, Any], files: Sequence[MemoryFile]) -> dict[str, list[str]]:
    paths, hashes = (_texts_of(stated.get(name)) for name in ("merged_from", "merged_hashes"))
    return {"merged_from": [*paths, *(str(each.path) for each in files)], "merged_hashes": [*hashes, *map(hash_of, files)]}


def _texts_of(value: object) -> list[str]:
    """Return a value of frontmatter that a person may have written in any form as a list of texts."""
    if isinstance(value, list):
        return [text for each in value for text in _texts_of(each)]
    if isinstance(value, dict):
        return [f"{name}: {', '.join(_texts_of(each))}" for name, each in value.items()]
    return [str(value)] if value else []


def _text_of(file: MemoryFile) -> tuple[str, str]:
    return _comparable(file.item.description, file.item.body)
