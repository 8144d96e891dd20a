"""Curation of one tenant: check reads and proposes, a person decides, apply does what was decided, undo takes it back.

Each step may be killed anywhere and run again. Silos and homes are read from the catalog, which every step brings up to date first.
"""

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import filterfalse
from pathlib import Path
from typing import TYPE_CHECKING

from memory_assets.errors import ConflictError, NotFoundError
from memory_assets.ingest.direct import import_memories
from memory_assets.ingest.scans import drop_path, refresh_source
from memory_assets.language.guard import mask_value, refusal_of, without_secrets
from memory_assets.learn.apply import alone, execute, undo
from memory_assets.learn.brief import Backlog
from memory_assets.learn.journal import Decisions, Journal, Plan, Proposal, Status, read_decisions, write_decisions
from memory_assets.learn.memory_files import FileReader, read_homes, read_silos
from memory_assets.learn.plan import Planned, make_plan
from memory_assets.learn.reports import (
    REVIEW_NAME,
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
from memory_assets.sources.files import MAX_BYTES, RefusedFileError, digest_of, read_source_file
from memory_assets.stores.files import replace_file
from memory_assets.stores.lance import quoted
from memory_assets.stores.rows import content_hash, derived_id

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant

_STALE = timedelta(hours=24)
_MOST_REVIEW_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class ApplyOutcome:
    """What an apply did, or would do."""

    planned: Planned
    finished: Plan | None
    """The apply that a kill had left, which is finished now."""
    left: tuple[str, ...]
    history: int
    """Memories that were added to the store as history."""


class Curation:
    """One tenant's silos, homes, decisions and journal, and the steps over them."""

    def __init__(self, tenant: "Tenant", now: datetime | None = None) -> None:
        """Name the settings' tenant, whose files they are; nothing is read yet."""
        tenant.must_own_sources()
        settings = tenant.settings
        self.tenant = tenant
        self.now = now or datetime.now(UTC)
        self.folder = tenant.folder / "learn"
        self.projects_dir = settings.claude_projects_dir
        self.learning_dir = settings.pai_learning_dir
        self.journal = Journal(self.folder / "applies")
        self.review_path = Path(os.path.realpath(self.learning_dir / REVIEW_NAME))
        self._read = ""
        """`review.md` as it was read or written last."""

    def refresh(self) -> None:
        """Bring the catalog to what silos and homes hold now."""
        for source in (Source.CLAUDE_SILO, Source.PAI_LEARNING):
            refresh_source(self.tenant, source)

    def backlog(self) -> Backlog:
        """Count the silo memories of the last scan that were not curated yet."""
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
        """What was decided, with what a person changed in `review.md`; nothing is written."""
        kept = read_decisions(self.folder)
        self._read = text = self._review_text()
        if not text or digest_of(text.encode()) in kept.reviews:
            return kept
        return self._edited(kept, kept, text)

    def _edited(self, decisions: Decisions, shown: Decisions, text: str) -> Decisions:
        """Decisions with what a person changed in `review.md`, compared with those that it showed."""
        changes = read_review(text, shown.proposals)
        return decisions.with_proposals(self._decided(decisions.find(change.id), change) for change in changes)

    def is_stale(self) -> bool:
        """Whether the last check is more than a day old, or there was none."""
        checked_at = read_decisions(self.folder).checked_at
        return not checked_at or self.now - datetime.fromisoformat(checked_at) > _STALE

    def check(self, *, deeper: bool = False) -> Checked:
        """Read everything, propose, and write PAI's two files; `deeper` looks at what passed through, too."""
        with alone(self.folder, self.projects_dir):
            self.refresh()
            silos = read_silos(self.tenant)
            before = self.decisions()
            projects = {each.item.session: each.item.project for each in silos.entries if each.item.session}
            signals = read_signals(self.tenant.catalog, projects)
            told: list[str] = []
            proposals = synthesise(
                [*file_signals(silos.entries, Kind.FEEDBACK, "silo"), *signals.reflections, *signals.ratings],
                before,
                read_homes(self.tenant).entries,
                self.now,
                lambda texts: self.tenant.with_embedder(lambda embedder: embedder.embed(texts)),
                rewording(self.tenant.settings, told),
                highest_number(self._read),
                deeper=deeper,
            )
            report = Path(os.path.realpath(self.learning_dir / "last-synthesis.md"))
            checked = Checked(self.now, silos, signals, proposals, (report, self.review_path), told)
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
                told.append(f"{self.learning_dir} does not exist, so no reports are written; `memory learn review` decides.")
            self._keep(after, before)
            if self.journal.unfinished() is not None:
                told.append("An apply was interrupted; `memory learn apply` finishes it.")
        return checked

    def decide(self, changes: Iterable[Decided]) -> Decisions:
        """Keep a person's decisions, those in `review.md` too."""
        with alone(self.folder, self.projects_dir):
            decisions = self.decisions()
            for change in changes:
                proposal = decisions.find(change.id)
                if proposal.status in (Status.APPLIED, Status.WITHDRAWN):
                    raise ConflictError(f"{proposal.id} is {proposal.status.value} already; that cannot be changed.")
                decisions = decisions.with_proposals([self._decided(proposal, change)])
            self._keep(decisions)
            return decisions

    def plan(self) -> Planned:
        """Return what apply would do now. Only the catalog is written."""
        self.refresh()
        reader = FileReader(self.projects_dir, self.learning_dir, self.tenant.settings.source_max_bytes or MAX_BYTES)
        silos, homes = read_silos(self.tenant), read_homes(self.tenant)
        number, decisions = max(self.journal.numbers(), default=0) + 1, self.decisions()
        return make_plan(number, silos, homes, decisions, reader, self.now, self.journal.written())

    def apply(self) -> ApplyOutcome:
        """Finish what a kill left; then do what was decided."""
        with alone(self.folder, self.projects_dir):
            finished, left = None, list[str]()
            if (number := self.journal.unfinished()) is not None:
                finished = self.journal.plan(number)
                left = self._carry_out(finished, is_undo=self.journal.has(number, "undoing"))
            self._keep(self.decisions())
            planned = self.plan()
            history = 0
            if planned.plan.placed or planned.plan.taken:
                history = keep_history(self.tenant, planned.outdone)
                self.journal.begin(planned.plan, planned.contents)
                left += self._carry_out(planned.plan, is_undo=False)
        return ApplyOutcome(planned, finished, tuple(left), history)

    def undo(self) -> tuple[Plan, tuple[str, ...]]:
        """Take the last apply back; return its plan, and what was left alone."""
        with alone(self.folder, self.projects_dir):
            number = self.journal.latest()
            if number is None:
                raise ConflictError("There is no apply to undo.")
            plan = self.journal.plan(number)
            left = self._carry_out(plan, is_undo=True)
        return plan, tuple(left)

    def _carry_out(self, plan: Plan, *, is_undo: bool) -> list[str]:
        left = (undo if is_undo else execute)(plan, self.journal, self.folder, self.projects_dir)
        # A run would take a home that undo removed for one that is not mounted, and keep its memories.
        for made in filterfalse(os.path.lexists, plan.folders):
            with suppress(NotFoundError):
                drop_path(self.tenant.catalog, Path(made))
        self._keep(read_decisions(self.folder))
        self.journal.mark(plan.number, "undone" if is_undo else "done")
        return left

    def _review_text(self) -> str:
        """The file as it is; empty where there is none."""
        try:
            return read_source_file(self.review_path, None, _MOST_REVIEW_BYTES).decode("utf-8", "replace")
        except (FileNotFoundError, RefusedFileError):
            return ""

    def _keep(self, decisions: Decisions, shown: Decisions | None = None) -> None:
        """Write the decisions and `review.md`, each if it differs.

        `shown` is what `review.md` said when it was read: what a person wrote there since counts too.
        """
        before = self._review_text()
        if before != self._read and digest_of(before.encode()) not in decisions.reviews:
            decisions = self._edited(decisions, shown or decisions, before)
        at = decisions.checked_at or self.now.isoformat()
        text = render_review(decisions.proposals, before, at=at, reflections=decisions.reflections, ratings=decisions.ratings)
        wanted = self.learning_dir.is_dir() and (bool(decisions.proposals) or bool(before))
        if digest_of(text.encode()) not in decisions.reviews or text != before:
            decisions = replace(decisions, reviews=(digest_of(before.encode()), digest_of(text.encode())))
        if decisions != read_decisions(self.folder):
            write_decisions(self.folder, decisions)
        if wanted and text != before:
            replace_file(self.review_path, text)
        self._read = text if wanted else before

    def _decided(self, proposal: Proposal, change: Decided) -> Proposal:
        """A proposal after a person's change; keys and passwords in what they wrote are masked unless the settings allow them."""
        if proposal.status in (Status.APPLIED, Status.WITHDRAWN):
            return proposal
        kept = str if self.tenant.settings.secrets is SecretPolicy.ALLOW else mask_value
        if change.note is not None:
            proposal = replace(proposal, note=kept(change.note))
        if change.description is not None:
            proposal = replace(proposal, description=kept(change.description), body=kept(change.body or ""), edited=True)
        status = change.status or (proposal.status if change.description is not None else Status.PENDING)
        return proposal if status is Status.PENDING and not change.status else proposal.decided(status, self.now.isoformat())


def keep_history(tenant: "Tenant", wanted: Sequence[NewMemory]) -> int:
    """Remember as superseded what is not in the store yet, under the id that `memory run` would have given it.

    Return how many were added; `memory search --history` finds them. After an error finished commits stay.
    """
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
