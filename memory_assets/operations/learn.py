"""Curate Claude Code's silos into the canonical homes: check, decide, apply, undo."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from memory_assets.display import counted
from memory_assets.errors import InvalidInputError
from memory_assets.language.validation import validate_content
from memory_assets.learn.briefing import renew_brief
from memory_assets.learn.curation import ApplyOutcome, Curation
from memory_assets.learn.journal import Decisions, Evidence, Proposal, Severity, Status, read_decisions
from memory_assets.learn.plan import NotTaken
from memory_assets.learn.reports import Decided, signal_line
from memory_assets.models import Kind, Refusal
from memory_assets.operations.answers import Answer, LocalTime, View
from memory_assets.operations.fields import Content, ProposalIds, Query
from memory_assets.tenants import Tenant

_SHOWN = 12
_CONFIRM = "Whether to apply; otherwise the answer shows what would be done."


class ProposalView(View):
    """A proposal of the curation."""

    id: str
    status: Status
    severity: Severity
    name: str
    description: str
    body: str
    signal: str
    trend: str
    first_seen: str
    edited: bool
    note: str
    files: list[str]
    """Files that accepting it deletes: its silo files, and all but the newest of canonical entries that it merges."""
    kind: Kind
    """Its home: feedback, or the type of the canonical entries that it merges."""
    evidence: tuple[Evidence, ...]

    def text(self, *, evidence: bool = False, body: bool = False) -> str:
        note = f"\n   Note: {self.note}" if self.note else ""
        lines = [
            f"{self.id} · {self.status} · {self.severity} · {self.name}",
            f"   {' '.join((self.description or self.body).split())}",
            f"   {self.signal}; {self.trend}{note}",
        ]
        if body:
            lines += ["", *(f"   {line}".rstrip() for line in self.body.split("\n"))]
        if evidence:
            lines += ["", *(f"   - {each.line()}" for each in self.evidence)]
        return "\n".join(lines)


class SiloView(View):
    """Contents of one silo."""

    slug: str
    cwd: str
    memories: dict[str, int]
    """Number of memories by type."""


class CheckAnswer(Answer):
    """What a check found."""

    by_type: dict[str, int]
    silos: list[SiloView]
    left: tuple[Refusal, ...]
    """Files that the curation leaves alone, and why."""
    reflections: int
    ratings: int
    inferred_ratings: int
    unreadable_lines: int
    proposals: list[ProposalView]
    """Pending, accepted and deferred proposals."""
    written: list[str]
    notes: list[str]

    def text(self, local: LocalTime) -> str:
        total = sum(self.by_type.values())
        lines = [
            f"{counted(total)} in {counted(len(self.silos), 'silo', 'silos')} may be curated: {_format_counts(self.by_type)}"
        ]
        lines += [f"  {silo.cwd}: {_format_counts(silo.memories)}" for silo in self.silos]
        reasons = Counter((each.reason, bool(each.mend)) for each in self.left)
        if reasons:
            lines += [f"{counted(len(self.left), 'file', 'files')} left alone:"]
            lines += [f"  {count} × {reason}" for (reason, _), count in reasons.most_common()]
        inferred = f" ({self.inferred_ratings} of them inferred)" if self.inferred_ratings else ""
        unread = f", {counted(self.unreadable_lines, 'line', 'lines')} that cannot be read" if self.unreadable_lines else ""
        lines += [
            f"{counted(self.reflections, 'reflection', 'reflections')}, {counted(self.ratings, 'rating', 'ratings')}{inferred}{unread}",
            *self.notes,
        ]
        lines += [f"{counted(len(self.proposals), 'proposal', 'proposals')}, the most urgent first:"] if self.proposals else []
        lines += [proposal.text() for proposal in self.proposals[:_SHOWN]]
        if len(self.proposals) > _SHOWN:
            lines.append(f"  and {len(self.proposals) - _SHOWN} more")
        lines += [f"Written: {', '.join(self.written)}"] if self.written else []
        pending = sum(each.status is Status.PENDING for each in self.proposals)
        after = "`memory learn review` decides on the proposals, " if pending else ""
        return "\n".join([*lines, f"{after}`memory learn apply --dry-run` shows what apply would do."])


class DecidedView(View):
    """A proposal that this call decided on."""

    id: str
    status: Status
    name: str
    files: int
    """Number of files that the next apply deletes because their content moves; 0 unless the proposal was accepted."""

    def line(self) -> str:
        files = f"; {counted(self.files, 'file leaves', 'files leave')} with the next apply" if self.files else ""
        return f"{self.id} {self.status.lower()}: {self.name}{files}"


class ReviewAnswer(Answer):
    """The proposals, and the decisions of this call."""

    decided: tuple[DecidedView, ...] = ()
    proposals: list[ProposalView]
    review: str
    """File with the same proposals, for editing by hand."""

    def text(self, local: LocalTime, *, evidence: bool = False, body: bool = False) -> str:
        if self.decided:
            pending = [each for each in self.proposals if each.status is Status.PENDING]
            accepted = counted(sum(each.status is Status.ACCEPTED for each in self.proposals), "proposal", "proposals")
            first = f", the most urgent first: {pending[0].id} · {pending[0].severity} · {pending[0].name}" if pending else ""
            left = f"{len(pending) or 'Nothing'} left to decide on{first}. `memory learn apply` carries out {accepted}."
            return "\n".join([*(each.line() for each in self.decided), left])
        if not self.proposals:
            return "There is nothing to decide on; `memory learn check` looks for more."
        shown = [proposal.text(evidence=evidence, body=body) for proposal in self.proposals]
        return "\n\n".join([*shown, f"The same to be edited by hand: {self.review}"])


class TakenView(View):
    """A silo file that moves into its canonical home."""

    path: str
    canonical: str


class ApplyAnswer(Answer):
    """What an apply did, or would do."""

    dry_run: bool
    folder: str
    """Folder of the canonical homes."""
    is_new_folder: bool
    """Whether the apply created the folder."""
    written: list[str]
    """Canonical files."""
    taken: list[TakenView]
    applied: list[str]
    """Ids of proposals."""
    waiting: tuple[NotTaken, ...]
    """Silo memories that were not moved, and why."""
    merged: list[str]
    """Entries that were merged, or that gave way to a newer one of the same name."""
    left: list[str]
    """Files that changed during the apply and stay."""
    history: int
    """Number of memories added to the store as history."""
    finished: int | None
    """Number of an interrupted apply that was finished first."""

    def text(self, local: LocalTime, *, verbose: bool = False) -> str:
        lines = [] if self.finished is None else [f"An interrupted apply was finished first (number {self.finished})."]
        written, deleted = ("would be written", "would be deleted") if self.dry_run else ("written", "deleted")
        lines.append(
            f"{counted(len(self.written), 'canonical file', 'canonical files')} {written}, "
            f"{counted(len(self.taken), 'silo file', 'silo files')} {deleted}."
        )
        if self.written:
            lines.append(f"Canonical files go to {self.folder}{', a new folder' if self.is_new_folder else ''}.")
        for silo in sorted({_silo_of(each.path) for each in (*self.taken, *self.waiting)}):
            taken = [each for each in self.taken if _silo_of(each.path) == silo]
            waiting = [each for each in self.waiting if _silo_of(each.path) == silo]
            stays = f", {len(waiting)} not taken" if waiting else ""
            lines.append(f"  {silo}: {len(taken)} {deleted}{stays}")
            lines += [f"    {each.path}\n      -> {each.canonical}" for each in taken if verbose]
            reasons = Counter(each.reason for each in waiting)
            lines += [f"    {count} × not taken: {reason}" for reason, count in reasons.most_common()]
            lines += [f"    {each.path}: {each.reason}" for each in waiting if verbose]
        if verbose:
            lines += [f"{written}: {path}" for path in self.written]
        lines += [*self.merged, *self.left]
        if self.taken and not self.dry_run:
            lines.append("`memory learn undo` takes this back; `memory run` takes in the new files.")
        return "\n".join(lines)


def _silo_of(path: str | Path) -> str:
    return Path(path).parent.parent.name


class UndoAnswer(Answer):
    """What an undo did."""

    number: int
    restored: list[str]
    left: list[str]

    def text(self, local: LocalTime) -> str:
        lines = [f"Apply {self.number} is undone: {counted(len(self.restored), 'file is', 'files are')} back."]
        return "\n".join([*lines, *self.left])


def check(tenant: Tenant) -> CheckAnswer:
    """Read silos, reflections and ratings, make proposals, and write PAI's files; no silo is changed."""
    outcome = Curation(tenant).check()
    renew_brief(tenant)
    silos: dict[str, SiloView] = {}
    for entry in outcome.silos.entries:
        view = silos.setdefault(entry.slug, SiloView(slug=entry.slug, cwd=entry.item.project, memories={}))
        view.memories[entry.item.kind] = view.memories.get(entry.item.kind, 0) + 1
    signals = outcome.signals
    return CheckAnswer(
        by_type={kind.value: count for kind, count in sorted(outcome.silos.counts.items())},
        silos=list(silos.values()),
        left=outcome.silos.left,
        reflections=len(signals.reflections),
        ratings=len(signals.ratings),
        inferred_ratings=sum(each.evidence.weight < 1 for each in signals.ratings),
        unreadable_lines=len(signals.refusals),
        proposals=_view_by_urgency(outcome.open),
        written=[str(path) for path in outcome.written if path.exists()],
        notes=list(outcome.told),
    )


def review(
    tenant: Tenant,
    *,
    accept: ProposalIds = (),
    reject: ProposalIds = (),
    defer: ProposalIds = (),
    note: Query | None = None,
    look: bool = True,
    deeper: bool = False,
) -> ReviewAnswer:
    """Decide on proposals; without a decision, list the open ones. The next apply carries out the accepted ones.

    With `look`, a check that is more than a day old is repeated first. `deeper` always checks, and also proposes to merge canonical
    entries that nearly say the same. A rejected proposal returns only with more evidence. A `note` belongs to one decision.
    """
    curation = Curation(tenant)
    chosen = [(accept, Status.ACCEPTED), (reject, Status.REJECTED), (defer, Status.DEFERRED)]
    given = (Decided(curation.decisions().find(each).id, status, note=note) for ids, status in chosen for each in ids)
    changes = list(dict.fromkeys(given))
    decided = [change.id for change in changes]
    if twice := {each for each in decided if decided.count(each) > 1}:
        raise InvalidInputError(f"More than one decision was given for {', '.join(sorted(twice))}; give one.")
    require_one_decision(note, changes)
    if deeper or (look and not changes and curation.is_stale()):
        curation.check(deeper=deeper)
    return _answer_review(curation, curation.decide(changes), decided)


def require_one_decision(note: str | None, decisions: Sequence[object]) -> None:
    """Raise InvalidInputError if a note is given with no decision, or with several."""
    if note is not None and len(decisions) != 1:
        raise InvalidInputError("A note belongs to one decision: decide on one proposal, or leave the note out.")


def count_pending(tenant: Tenant) -> int:
    """Return the number of pending proposals, as of the last check."""
    return sum(each.status is Status.PENDING for each in read_decisions(tenant.folder / "learn").proposals)


def silo_texts(tenant: Tenant, paths: Sequence[str]) -> dict[str, str]:
    """Return the texts of these files as last read, by path."""
    return dict(
        tenant.catalog.interactive.fetch("SELECT path, body FROM source_items WHERE list_contains($1, path)", [list(paths)])
    )


def reword(tenant: Tenant, reference: str, content: Content) -> ReviewAnswer:
    """Replace a proposal's text: the first paragraph is the description, the rest the body."""
    return reword_all(tenant, {reference: content})


def reword_all(tenant: Tenant, contents: Mapping[str, str]) -> ReviewAnswer:
    """Replace the texts of several proposals, all or none. `contents` maps their ids to texts as `reword` takes them."""
    curation, changes = Curation(tenant), list[Decided]()
    known = curation.decisions()
    for reference, content in contents.items():
        validate_content(content)
        description, _, body = (part.strip() for part in content.strip().partition("\n\n"))
        changes.append(Decided(known.find(reference).id, description=" ".join(description.split()), body=body))
    return _answer_review(curation, curation.decide(changes))


def apply(tenant: Tenant, *, confirm: Annotated[bool, Field(description=_CONFIRM)] = False) -> ApplyAnswer:
    """Move undisputed and accepted silo memories into the canonical homes; without `confirm`, show what would be done."""
    curation = Curation(tenant)
    outcome = curation.apply() if confirm else ApplyOutcome(curation.plan(), None, (), 0)
    if confirm:
        renew_brief(tenant)
    planned = outcome.planned
    return ApplyAnswer(
        dry_run=not confirm,
        folder=str(curation.learning_dir),
        is_new_folder=str(curation.learning_dir) in planned.plan.folders,
        written=[placed.path for placed in planned.plan.placed],
        taken=[TakenView.of(each) for each in planned.plan.taken],
        applied=list(planned.plan.proposals),
        waiting=planned.waiting,
        merged=list(planned.plan.told),
        left=list(outcome.left),
        history=outcome.history,
        finished=outcome.finished.number if outcome.finished else None,
    )


def undo(tenant: Tenant) -> UndoAnswer:
    """Undo the last apply: the silo files return, and the canonical files are as before."""
    plan, left = Curation(tenant).undo()
    renew_brief(tenant)
    restored = [each.path for each in plan.taken if Path(each.path).exists()]
    return UndoAnswer(number=plan.number, restored=restored, left=list(left))


def _answer_review(curation: Curation, decisions: Decisions, decided: Sequence[str] = ()) -> ReviewAnswer:
    renew_brief(curation.tenant)
    shown = [each for each in decisions.proposals if each.status not in (Status.APPLIED, Status.WITHDRAWN)]
    views = tuple(
        DecidedView.of(each, files=len(each.leaving) if each.status is Status.ACCEPTED else 0)
        for each in map(decisions.find, decided)
    )
    return ReviewAnswer(decided=views, proposals=_view_by_urgency(shown), review=str(curation.review_path))


def _view_by_urgency(proposals: Sequence[Proposal]) -> list[ProposalView]:
    ordered = sorted(proposals, key=lambda each: each.urgency)
    return [ProposalView.of(each, signal=signal_line(each), files=[file.path for file in each.leaving]) for each in ordered]


def _format_counts(by_type: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(by_type.items())) or "nothing"
