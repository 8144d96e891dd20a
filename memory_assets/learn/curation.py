"""Curation of one tenant: `check` reads and proposes, a person decides, `apply` executes the decisions, `undo` reverts them.

Each step may be killed anywhere and run again. Silos and homes are read from the catalog, which each step refreshes first.
"""

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import filterfalse
from pathlib import Path

from memory_assets.errors import ConflictError, NotFoundError
from memory_assets.ingest.direct import import_memories
from memory_assets.ingest.scans import drop_path, refresh_sources
from memory_assets.language.guard import mask_value, refusal_of, without_secrets
from memory_assets.learn.apply import execute, lock_curation, undo
from memory_assets.learn.brief import Backlog
from memory_assets.learn.journal import Decisions, Journal, Plan, Proposal, Status, read_decisions, write_decisions
from memory_assets.learn.memory_files import FileReader, read_homes, read_silos
from memory_assets.learn.plan import Planned, make_plan
from memory_assets.learn.reports import (
    REVIEW_NAME,
    SYNTHESIS_NAME,
    Checked,
    Decided,
    highest_number,
    last_synthesis,
    read_review,
    render_review,
)
from memory_assets.learn.signals import file_signals, read_signals
from memory_assets.learn.synthesis import rewording, synthesise
from memory_assets.models import Kind, NewMemory, SecretPolicy, Source
from memory_assets.sources.files import MAX_BYTES, RefusedFileError, decode, digest_of, read_source_file
from memory_assets.stores.files import replace_file
from memory_assets.stores.lance import quoted
from memory_assets.stores.rows import content_hash, derived_id
from memory_assets.tenants import Tenant

_STALE_AFTER = timedelta(hours=24)
_MAX_REVIEW_BYTES = 16 << 20
_REPLACEMENT = "\ufffd"


@dataclass(frozen=True, slots=True)
class ApplyOutcome:
    """The result of an apply."""

    planned: Planned
    finished: Plan | None
    """An interrupted apply that this one finished first."""
    left: tuple[str, ...]
    """Sentences about files that were left alone."""
    history: int
    """Number of memories added to the store as history."""


class Curation:
    """The steps of curation over one tenant's silos, homes, decisions and journal."""

    def __init__(self, tenant: Tenant, now: datetime | None = None) -> None:
        """Set up for the tenant that owns the sources, without reading anything. Raise InvalidInputError for another tenant."""
        tenant.must_own_sources()
        settings = tenant.settings
        self.tenant = tenant
        self.now = now or datetime.now(UTC)
        self.folder = tenant.folder / "learn"
        self.projects_dir = settings.claude_projects_dir
        self.learning_dir = settings.pai_learning_dir
        self.journal = Journal(self.folder / "applies")
        self.review_path = Path(os.path.realpath(self.learning_dir / REVIEW_NAME))
        self._review = ""
        """`review.md` as last read or written."""

    def refresh(self) -> None:
        """Update the catalog from the silos and homes."""
        refresh_sources(self.tenant, (Source.CLAUDE_SILO, Source.PAI_LEARNING))

    def backlog(self) -> Backlog:
        """Count the silo memories of the last scan that are not curated yet."""
        silos = read_silos(self.tenant)
        rejected = {
            each.key: each.digest
            for proposal in read_decisions(self.folder).proposals
            if proposal.status is Status.REJECTED
            for each in proposal.silo_files
        }
        open_ones = [entry for entry in silos.entries if rejected.get(entry.item.key) != entry.digest]
        return Backlog(
            by_type=dict(sorted(Counter(entry.item.kind.value for entry in open_ones).items())),
            silos=len({entry.slug for entry in open_ones}),
            rejected=len(silos.entries) - len(open_ones),
            left=sum(not refusal.passed_over for refusal in silos.left),
        )

    def decisions(self) -> Decisions:
        """Return the stored decisions, merged with a person's edits in `review.md`. Write nothing."""
        stored = read_decisions(self.folder)
        self._review = text = self._read_review_file()
        if not text or digest_of(text.encode()) in stored.reviews:
            return stored
        return self._merge_review(stored, stored, text)

    def _merge_review(self, decisions: Decisions, shown: Decisions, text: str) -> Decisions:
        """Merge a person's edits in `review.md`, relative to the decisions that it showed, into decisions."""
        changes = read_review(text, shown.proposals)
        return decisions.with_proposals(self._apply_change(decisions.find(change.id), change) for change in changes)

    def is_stale(self) -> bool:
        """Whether the last check is more than a day old, or there was none."""
        checked_at = read_decisions(self.folder).checked_at
        return not checked_at or self.now - datetime.fromisoformat(checked_at) > _STALE_AFTER

    def check(self, *, deeper: bool = False) -> Checked:
        """Read silos and signals, make proposals and write PAI's two reports. `deeper` also proposes to consolidate other homes."""
        with lock_curation(self.folder, self.projects_dir):
            self.refresh()
            silos = read_silos(self.tenant)
            before = self.decisions()
            projects = {each.item.session: each.item.project for each in silos.entries if each.item.session}
            signals = read_signals(self.tenant.catalog, projects)
            notes: list[str] = []
            proposals = synthesise(
                [*file_signals(silos.entries, Kind.FEEDBACK, "silo"), *signals.reflections, *signals.ratings],
                before,
                read_homes(self.tenant).entries,
                self.now,
                lambda texts: self.tenant.with_embedder(lambda embedder: embedder.embed(texts)),
                rewording(self.tenant.settings, notes),
                highest_number(self._review),
                deeper=deeper,
            )
            report = Path(os.path.realpath(self.learning_dir / SYNTHESIS_NAME))
            checked = Checked(self.now, silos, signals, proposals, (report, self.review_path), notes)
            after = replace(
                before,
                checked_at=self.now.isoformat(),
                checked={entry.item.key: entry.digest for entry in silos.entries},
                proposals=proposals,
                reflections=len(signals.reflections),
                ratings=len(signals.ratings),
            )
            if self.learning_dir.is_dir():
                replace_file(report, last_synthesis(checked))
            else:
                notes.append(f"{self.learning_dir} does not exist, so no reports are written; decide with `memory learn review`.")
            self._save(after, before)
            if self.journal.unfinished() is not None:
                notes.append("An apply was interrupted; `memory learn apply` finishes it.")
        return checked

    def decide(self, changes: Iterable[Decided]) -> Decisions:
        """Save a person's decisions, including edits in `review.md`."""
        with lock_curation(self.folder, self.projects_dir):
            decisions = self.decisions()
            for change in changes:
                proposal = decisions.find(change.id)
                if proposal.status in (Status.APPLIED, Status.WITHDRAWN):
                    raise ConflictError(f"{proposal.id} is {proposal.status.value} already; that cannot be changed.")
                decisions = decisions.with_proposals([self._apply_change(proposal, change)])
            self._save(decisions)
            return decisions

    def plan(self) -> Planned:
        """Return what `apply` would do now. Only the catalog is written."""
        self.refresh()
        reader = FileReader(self.projects_dir, self.learning_dir, self.tenant.settings.source_max_bytes or MAX_BYTES)
        silos, homes = read_silos(self.tenant), read_homes(self.tenant)
        number, decisions = max(self.journal.numbers(), default=0) + 1, self.decisions()
        return make_plan(number, silos, homes, decisions, reader, self.now, self.journal.written())

    def apply(self) -> ApplyOutcome:
        """Finish an interrupted apply or undo, then execute the decisions."""
        with lock_curation(self.folder, self.projects_dir):
            finished, left = None, list[str]()
            if (number := self.journal.unfinished()) is not None:
                finished = self.journal.plan(number)
                left = self._execute(finished, is_undo=self.journal.has(number, "undoing"))
            self._save(self.decisions())
            planned = self.plan()
            history = 0
            if planned.plan.placed or planned.plan.taken:
                history = keep_history(self.tenant, planned.superseded)
                self.journal.begin(planned.plan, planned.contents)
                left += self._execute(planned.plan, is_undo=False)
        return ApplyOutcome(planned, finished, tuple(left), history)

    def undo(self) -> tuple[Plan, tuple[str, ...]]:
        """Revert the last apply; return its plan, and sentences about files that were left alone."""
        with lock_curation(self.folder, self.projects_dir):
            number = self.journal.latest()
            if number is None:
                raise ConflictError("There is no apply to undo.")
            plan = self.journal.plan(number)
            left = self._execute(plan, is_undo=True)
        return plan, tuple(left)

    def _execute(self, plan: Plan, *, is_undo: bool) -> list[str]:
        left = (undo if is_undo else execute)(plan, self.journal, self.folder, self.projects_dir)
        # Else a run would assume that a home that undo removed is not mounted, and keep its memories.
        for made in filterfalse(os.path.lexists, plan.folders):
            with suppress(NotFoundError):
                drop_path(self.tenant.catalog, Path(made))
        self._save(read_decisions(self.folder))
        self.journal.mark(plan.number, "undone" if is_undo else "done")
        return left

    def _read_review_file(self) -> str:
        """Return the text of `review.md`, empty without one. ConflictError if its text would be lost when it is written again."""
        try:
            text, note = decode(read_source_file(self.review_path, None, _MAX_REVIEW_BYTES))
        except FileNotFoundError:
            return ""
        except RefusedFileError as error:
            raise ConflictError(f"{self.review_path} cannot be read: {error.reason}; {error.mend}, or move it away.") from error
        if note and _REPLACEMENT in text:
            raise ConflictError(f"{self.review_path} is not valid UTF-8 ({note}); save it as UTF-8, or move it away.")
        return text

    def _save(self, decisions: Decisions, shown: Decisions | None = None) -> None:
        """Write the decisions and `review.md`. Merge what a person wrote there since it was read, when it showed the decisions `shown`."""
        before = self._read_review_file()
        if before != self._review and digest_of(before.encode()) not in decisions.reviews:
            decisions = self._merge_review(decisions, shown or decisions, before)
        at = decisions.checked_at or self.now.isoformat()
        text = render_review(decisions.proposals, before, at=at, reflections=decisions.reflections, ratings=decisions.ratings)
        wanted = self.learning_dir.is_dir() and (bool(decisions.proposals) or bool(before))
        if digest_of(text.encode()) not in decisions.reviews or text != before:
            decisions = replace(decisions, reviews=(digest_of(before.encode()), digest_of(text.encode())))
        if decisions != read_decisions(self.folder):
            write_decisions(self.folder, decisions)
        if wanted and text != before:
            replace_file(self.review_path, text)
        self._review = text if wanted else before

    def _apply_change(self, proposal: Proposal, change: Decided) -> Proposal:
        """Apply a person's change to a proposal. Secrets in their text are masked unless the settings allow them."""
        if proposal.status in (Status.APPLIED, Status.WITHDRAWN):
            return proposal
        mask = str if self.tenant.settings.secrets is SecretPolicy.ALLOW else mask_value
        if change.note is not None:
            proposal = replace(proposal, note=mask(change.note))
        if change.description is not None:
            proposal = replace(proposal, description=mask(change.description), body=mask(change.body or ""), edited=True)
        status = change.status or (proposal.status if change.description is not None else Status.PENDING)
        return proposal if status is Status.PENDING and not change.status else proposal.decided(status, self.now.isoformat())


def keep_history(tenant: Tenant, wanted: Sequence[NewMemory]) -> int:
    """Store memories that are not in the store yet as superseded, with the ids that `memory run` would have given them; return how many."""
    policy = tenant.settings.secrets
    if policy is SecretPolicy.REFUSE:
        wanted = [memory for memory in wanted if not refusal_of(memory)]
    elif policy is SecretPolicy.MASK:
        wanted = [without_secrets(memory) for memory in wanted]
    wanted = [replace(each, id=derived_id(each.metadata["silo_key"], content_hash(each.content))) for each in wanted]
    if not wanted:
        return 0
    digests = quoted(tuple(content_hash(memory.content) for memory in wanted))
    known = set(tenant.memories.scan(("content_hash",), f"content_hash IN {digests}")["content_hash"].to_pylist())
    new = [memory for memory in wanted if content_hash(memory.content) not in known]
    return import_memories(tenant, new, lambda _done, _total: None).added if new else 0
