"""What an apply is going to do: which canonical files it writes, and which silo files are deleted once they stand there.

A silo file is taken only if it is, byte for byte, what the last check read. Of several memories of one name in one home, those that
say the same are merged; of those that say different things the newest stands, and the others are kept as history.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from memory_assets.errors import StoreError
from memory_assets.learn.candidates import Candidate, Waiting, candidates, iso, said_by
from memory_assets.learn.canonical import (
    HOME_OF,
    canonical_key,
    file_name,
    provenance,
    with_fields,
)
from memory_assets.learn.homes import CanonicalEntry, Homes
from memory_assets.learn.journal import Placed, Plan, Taken
from memory_assets.learn.proposals import Decisions
from memory_assets.learn.silos import SiloEntry, Silos, digest_of
from memory_assets.models import Kind


@dataclass(frozen=True, slots=True)
class Outdone:
    """What a newer memory of the same name says differently: it is kept as history."""

    key: str
    """Under which `memory run` knows it, or would."""
    canonical_key: str
    """Of what outdoes it."""
    name: str
    kind: Kind
    description: str
    body: str
    hooks: tuple[str, ...]
    project: str
    written_at: datetime


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan with the files that it needs, before anything is done."""

    plan: Plan
    contents: dict[str, bytes]
    """Every file that is written or changed, by digest."""
    outdone: tuple[Outdone, ...]
    waiting: tuple[Waiting, ...]


def make_plan(number: int, silos: Silos, homes: Homes, decisions: Decisions, learning_dir: Path, now: datetime) -> Planned:
    """Return what an apply would do now; nothing is written.

    Args:
        number: of the apply.
        silos: as they are now.
        homes: as they are now.
        decisions: the last check, and what a person accepted.
        learning_dir: the folder that the homes lie in.
        now: UTC.

    Raises:
        StoreError: a home is a link.
    """
    waiting: list[Waiting] = []
    wishes = list(candidates(silos, decisions, waiting))
    groups: dict[tuple[Kind, str], list[Candidate]] = defaultdict(list)
    for candidate in wishes:
        groups[candidate.kind, candidate.name].append(candidate)
    taken_names = {kind: _names_in(learning_dir / home) for kind, home in HOME_OF.items()}
    builder = _Builder(learning_dir, now, {(each.kind, each.name): each for each in reversed(homes.entries)}, taken_names)
    for (kind, name), group in sorted(groups.items()):
        builder.add(kind, name, group)
    accepted = tuple(candidate.proposal.id for candidate in wishes if candidate.proposal)
    plan = Plan(number, iso(now), tuple(builder.placed), tuple(builder.taken), accepted, tuple(builder.told))
    return Planned(plan, builder.contents, tuple(builder.outdone), tuple(waiting))


@dataclass(slots=True)
class _Builder:
    """Collects the steps, one name of one home after the other."""

    learning_dir: Path
    now: datetime
    standing: dict[tuple[Kind, str], CanonicalEntry]
    """What the homes hold under each name."""
    names: dict[Kind, set[str]]
    """Of the files in each home, casefolded."""
    placed: list[Placed] = field(default_factory=list)
    taken: list[Taken] = field(default_factory=list)
    outdone: list[Outdone] = field(default_factory=list)
    contents: dict[str, bytes] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)

    def add(self, kind: Kind, name: str, group: list[Candidate]) -> None:
        """Decide between all that have one name in one home."""
        there = self.standing.get((kind, name))
        newest = max(group, key=lambda each: (each.written_at, [str(source.path) for source in each.sources]))
        stays = there is not None and (
            there.written_at > newest.written_at or said_by(there.description, there.body) == newest.said
        )
        path = there.path if there else self._new_path(kind, name)
        said = said_by(there.description, there.body) if there and stays else newest.said
        alike = [source for each in group if each.said == said for source in each.sources]
        hooks = list(dict.fromkeys(hook for source in alike for hook in source.hooks))
        if there and stays:
            stands = self._keep(there, alike, hooks)
        else:
            others = [str(source.path) for each in group if each is not newest for source in each.sources]
            new = newest.file(self.now, self.learning_dir, hooks, others)
            stands = self._place(path, new, there.path.read_bytes() if there else None)
            if there:
                self._outdo(there, path)
        for candidate in group:
            for source in candidate.sources:
                self._take(source, path, stands)
                if candidate.said != said:
                    self._outdo(source, path)
        self._tell(kind, name, len(group) + bool(there), sum(each.said == said for each in group) + bool(there and stays))

    def _new_path(self, kind: Kind, name: str) -> Path:
        home = self.learning_dir / HOME_OF[kind]
        if home.is_symlink() or (home.exists() and not home.is_dir()):
            raise StoreError(f"{home} is a link or a file; put a folder there instead, nothing was written.")
        new = file_name(kind, name, self.names[kind])
        self.names[kind].add(new.casefold())
        return home / new

    def _keep(self, there: CanonicalEntry, alike: list[SiloEntry], hooks: list[str]) -> str:
        """Let an entry stand; it gets the provenance that it lacks, and what indexes said of the memories merged into it."""
        before = there.path.read_bytes()
        known = there.fields.get("index_hook", [])
        known = known if isinstance(known, list) else [known]
        fields: dict[str, object] = {}
        if there.missing_provenance and alike:
            fields |= {name: value for name, value in provenance(alike[0], self.now).items() if not there.fields.get(name)}
        if set(hooks) - set(known):
            fields["index_hook"] = list(dict.fromkeys([*known, *hooks]))
        return self._place(there.path, with_fields(before, fields), before) if fields else digest_of(before)

    def _place(self, path: Path, content: bytes, before: bytes | None) -> str:
        """Write a canonical file; return the digest of what it will hold."""
        digest = self._held(content)
        self.placed.append(Placed(str(path), digest, None if before is None else self._held(before)))
        return digest

    def _take(self, source: SiloEntry, path: Path, stands: str) -> None:
        self.taken.append(
            Taken(
                path=str(source.path),
                digest=self._held(source.data),
                mtime_ns=source.mtime_ns,
                mode=source.mode,
                key=source.item.key,
                canonical=str(path),
                canonical_digest=stands,
                canonical_key=canonical_key(path),
            )
        )

    def _outdo(self, old: SiloEntry | CanonicalEntry, path: Path) -> None:
        key = canonical_key(path)
        if isinstance(old, CanonicalEntry):
            said = Outdone(key, key, old.name, old.kind, old.description, old.body, (), old.source_cwd, old.written_at)
        else:
            item = old.item
            texts = said_by(item.description, item.body)
            said = Outdone(item.key, key, item.title, item.kind, *texts, old.hooks, item.project, old.written_at)
        self.outdone.append(said)

    def _held(self, content: bytes) -> str:
        digest = digest_of(content)
        self.contents[digest] = content
        return digest

    def _tell(self, kind: Kind, name: str, together: int, alike: int) -> None:
        if alike > 1:
            self.told.append(f"{HOME_OF[kind]}: {alike} that are called {name!r} say the same and become one.")
        if together > alike:
            self.told.append(
                f"{HOME_OF[kind]}: of {together} that are called {name!r} the newest stands, {together - alike} kept as history."
            )


def _names_in(folder: Path) -> set[str]:
    return {each.name.casefold() for each in folder.iterdir()} if folder.is_dir() else set()
