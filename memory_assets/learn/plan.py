"""What an apply is going to do: which canonical files it writes, and which silo files are deleted once they stand there.

A silo file is taken only if it is, byte for byte, what the last check read. Of several memories of one name in one home, those that
say the same are merged. Of those of one project that say different things the newest stands, and the others are kept as history;
those of different projects all stand, each under a name of its own. Feedback of one name is one entry, because a person accepted it.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path, PurePath

from memory_assets.errors import StoreError
from memory_assets.learn.canonical import (
    HOME_OF,
    canonical_key,
    file_name,
    learned_file,
    moved_file,
    provenance,
    render,
    with_fields,
)
from memory_assets.learn.homes import CanonicalEntry, Homes
from memory_assets.learn.journal import Placed, Plan, Taken
from memory_assets.learn.proposals import Decisions, Evidence, Proposal, Status
from memory_assets.learn.silos import SiloEntry, Silos, digest_of
from memory_assets.models import Kind
from memory_assets.sources.projects import slug_of


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
class Waiting:
    """A silo memory that this apply does not take, and why."""

    path: Path
    reason: str


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan with the files that it needs, before anything is done."""

    plan: Plan
    contents: dict[str, bytes]
    """Every file that is written or changed, by digest."""
    outdone: tuple[Outdone, ...]
    waiting: tuple[Waiting, ...]


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Something that wants to be the entry of its name in its home."""

    kind: Kind
    name: str
    description: str
    body: str
    written_at: datetime
    sources: tuple[SiloEntry, ...]
    """Newest first; empty where it was learned from ratings and reflections alone."""
    proposal: Proposal | None = None

    @property
    def said(self) -> tuple[str, str]:
        return _said(self.description, self.body)

    @property
    def project(self) -> str:
        """The working directory that it comes from, or its slug."""
        return self.sources[0].item.project if self.sources else ""

    def file(self, now: datetime, learning_dir: Path, hooks: Sequence[str], others: Iterable[str]) -> bytes:
        """The canonical file that it would be."""
        if not self.sources:
            assert self.proposal
            return _learned(self, self.proposal.evidence, now, learning_dir)
        item = replace(self.sources[0].item, title=self.name)
        newest = replace(self.sources[0], item=item, hooks=tuple(hooks))
        if self.proposal is None or (len(self.sources) == 1 and not self.proposal.edited):
            return moved_file(newest, now, others)
        merged = [*(str(each.path) for each in self.sources[1:]), *others]
        fields = {"name": self.name, "description": self.description, "type": self.kind.value, "created": _iso(self.written_at)}
        return render(fields | provenance(newest, now, merged), f"\n{self.body}\n")


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
    candidates = list(_candidates(silos, decisions, waiting))
    groups: dict[tuple[Kind, str], list[_Candidate]] = defaultdict(list)
    for candidate in candidates:
        groups[candidate.kind, candidate.name].append(candidate)
    taken_names = {kind: _names_in(learning_dir / home) for kind, home in HOME_OF.items()}
    standing = _Standing(homes)
    builder = _Builder(learning_dir, now, standing, taken_names)
    for (kind, name), group in sorted(groups.items()):
        for called, members in _by_entry(kind, name, group, standing, builder.told).items():
            builder.add(kind, called, members)
    accepted = tuple(candidate.proposal.id for candidate in candidates if candidate.proposal)
    plan = Plan(number, _iso(now), tuple(builder.placed), tuple(builder.taken), accepted, tuple(builder.told))
    return Planned(plan, builder.contents, tuple(builder.outdone), tuple(waiting))


def _candidates(silos: Silos, decisions: Decisions, waiting: list[Waiting]) -> Iterable[_Candidate]:
    proposed = {each.key: proposal for proposal in decisions.proposals for each in proposal.silo_files}
    unchanged: dict[str, SiloEntry] = {}
    for entry in silos.entries:
        key = entry.item.key
        checked = decisions.checked.get(key)
        if checked != entry.digest:
            waiting.append(Waiting(entry.path, "it changed since the check" if checked else "no check has seen it yet"))
            continue
        unchanged[key] = entry
        if entry.item.kind is not Kind.FEEDBACK:
            said = _said(entry.item.description, entry.item.body)
            yield _Candidate(entry.item.kind, entry.item.title, *said, entry.written_at, (entry,))
        elif (proposal := proposed.get(key)) is None or proposal.status is not Status.ACCEPTED:
            waiting.append(Waiting(entry.path, _undecided(proposal)))
    for proposal in decisions.proposals:
        if proposal.status is not Status.ACCEPTED:
            continue
        sources = [unchanged[each.key] for each in proposal.silo_files if each.key in unchanged]
        if len(sources) < len(proposal.silo_files):
            waiting += [Waiting(entry.path, f"{proposal.id} is of a file that changed since the check") for entry in sources]
            continue
        sources.sort(key=lambda entry: entry.written_at, reverse=True)
        times = [datetime.fromisoformat(each.at) for each in proposal.evidence]
        written = sources[0].written_at if sources else max(times)
        said = (proposal.description, proposal.body)
        if len(sources) == 1 and not proposal.edited:
            said = _said(sources[0].item.description, sources[0].item.body)
        yield _Candidate(Kind.FEEDBACK, proposal.name, *said, written, tuple(sources), proposal)


class _Standing:
    """The entries of the homes, by what they are called and by what they say."""

    def __init__(self, homes: Homes) -> None:
        self._called: dict[tuple[Kind, str], CanonicalEntry] = {}
        self._saying: dict[tuple[Kind, tuple[str, str]], list[str]] = defaultdict(list)
        for entry in homes.entries:
            if self._called.setdefault((entry.kind, entry.name), entry) is entry:
                self._saying[entry.kind, _said(entry.description, entry.body)].append(entry.name)

    def called(self, kind: Kind, name: str) -> CanonicalEntry | None:
        """The entry of a name in its home."""
        return self._called.get((kind, name))

    def saying(self, kind: Kind, name: str, said: tuple[str, str]) -> list[str]:
        """What the entries are called that say it under a name, with or without a project behind it."""
        found = self._saying.get((kind, said), ())
        return [called for called in found if called == name or called.startswith(f"{name} (")]


def _by_entry(
    kind: Kind, name: str, group: list[_Candidate], standing: _Standing, told: list[str]
) -> dict[str, list[_Candidate]]:
    """Return which candidates of one name are for which entry, by the entry's name: that name, or with its project behind it."""
    if kind is Kind.FEEDBACK:
        return {name: group}
    of_project: dict[str, list[_Candidate]] = defaultdict(list)
    for candidate in sorted(group, key=lambda each: each.written_at, reverse=True):
        of_project[candidate.project].append(candidate)
    found: dict[str, list[_Candidate]] = {}
    says: dict[str, tuple[str, str]] = {}
    others: list[tuple[str, list[_Candidate]]] = []
    for project, members in of_project.items():
        named = (standing.called(kind, each) for each in (name, *_qualified(name, project)))
        own = next((entry for entry in named if entry and slug_of(entry.source_cwd) == slug_of(project)), None)
        if own:
            found[own.name] = members
            newer = own.written_at > members[0].written_at
            says[own.name] = _said(own.description, own.body) if newer else members[0].said
        else:
            others.append((project, members))
    for project, members in others:
        said = members[0].said
        alike = [called for called, text in says.items() if text == said]
        alike += [called for called in standing.saying(kind, name, said) if called not in says]
        names = [name, *_qualified(name, project)]
        free = (each for each in chain(names, map(f"{names[-1]} {{}}".format, count(2))) if each not in says)
        called = alike[0] if alike else next(each for each in free if not standing.called(kind, each))
        found.setdefault(called, []).extend(members)
        says.setdefault(called, said)
        if not alike and called != name:
            told.append(f"{HOME_OF[kind]}: {name!r} of {project} says something else than that of others and becomes {called!r}.")
    return found


def _qualified(name: str, project: str) -> tuple[str, str]:
    """Return a name with its project behind it, shortly and in full."""
    return f"{name} ({PurePath(project).name or project})", f"{name} ({project})"


def _undecided(proposal: Proposal | None) -> str:
    if proposal is None:
        return "it is feedback that no check has proposed yet"
    if proposal.status is Status.REJECTED:
        return "its proposal was rejected"
    return f"its proposal is {proposal.status}; `memory learn review` decides"


@dataclass(slots=True)
class _Builder:
    """Collects the steps, one name of one home after the other."""

    learning_dir: Path
    now: datetime
    standing: _Standing
    names: dict[Kind, set[str]]
    """Of the files in each home."""
    placed: list[Placed] = field(default_factory=list)
    taken: list[Taken] = field(default_factory=list)
    outdone: list[Outdone] = field(default_factory=list)
    contents: dict[str, bytes] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)

    def add(self, kind: Kind, name: str, group: list[_Candidate]) -> None:
        """Decide between all that have one name in one home."""
        there = self.standing.called(kind, name)
        newest = max(group, key=lambda each: (each.written_at, [str(source.path) for source in each.sources]))
        stays = there is not None and (
            there.written_at > newest.written_at or _said(there.description, there.body) == newest.said
        )
        path = there.path if there else self._new_path(kind, name)
        said = _said(there.description, there.body) if there and stays else newest.said
        alike = [source for each in group if each.said == said for source in each.sources]
        hooks = list(dict.fromkeys(hook for source in alike for hook in source.hooks))
        if there and stays:
            stands = self._keep(there, alike, hooks)
        else:
            others = [str(source.path) for each in group if each is not newest for source in each.sources]
            new = replace(newest, name=name).file(self.now, self.learning_dir, hooks, others)
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
        self.names[kind].add(new)
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
            texts = _said(item.description, item.body)
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


def _learned(candidate: _Candidate, evidence: Sequence[Evidence], now: datetime, learning_dir: Path) -> bytes:
    newest = max(evidence, key=lambda each: each.at)
    return learned_file(
        candidate.name,
        candidate.description,
        f"\n{candidate.body}\n",
        source_cwd=newest.project or str(learning_dir),
        original_path=newest.path,
        evidence="\n".join(each.quote for each in evidence).encode(),
        ingested_at=now,
    )


def _names_in(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()} if folder.is_dir() else set()


def _said(description: str, body: str) -> tuple[str, str]:
    description, body = description.strip(), body.strip()
    return description, "" if body == description else body


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat()
