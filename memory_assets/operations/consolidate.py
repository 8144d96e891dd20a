"""Run a sleep cycle now: decay, creative, cluster or forget. `dry_run` only reports what it would do."""

from collections.abc import Sequence
from datetime import UTC, datetime
from shlex import quote

from pydantic import Field

from memory_assets.display import counted
from memory_assets.graph.clusters import Cluster, ClusterOutcome, find_clusters, read_clusters
from memory_assets.graph.creative import CreativeOutcome, find_links
from memory_assets.graph.decided_names import read_spellings
from memory_assets.graph.edges import refresh_graph
from memory_assets.graph.forgetting import forget as forget_memories
from memory_assets.graph.relevance import RelevanceOutcome, decay_cycle
from memory_assets.learn.briefing import renew_brief
from memory_assets.operations.answers import Answer, Instant, LocalTime, View, name_of
from memory_assets.tana.freshness import store_activity
from memory_assets.tenants import Tenant

_SHOWN = 20
_BAR = 40


class _Cycle(Answer):
    dry_run: bool


class Decayed(_Cycle, RelevanceOutcome):
    """Statistics of the memories' new relevance."""

    archive_threshold: float
    grace_days: float

    def text(self, local: LocalTime) -> str:
        would = "would change" if self.dry_run else "changed"
        lines = [
            f"{counted(self.scored)} scored, {self.written} scores {would}, {len(self.woken)} back from the archive",
            f"{self.below_archive} lie below the archive threshold of {self.archive_threshold:g}"
            f"{_explain_kept(self.protected, self.recent, self.grace_days)}",
        ]
        for low, count in enumerate(self.histogram):
            bar = "█" * round(_BAR * count / max(1, self.scored))
            lines.append(f"  {low / 10:.1f} to {(low + 1) / 10:.1f}  {count:>6}  {bar}".rstrip())
        return "\n".join(lines)


class Linked(_Cycle, CreativeOutcome):
    """New edges between similar memories that no edge connected."""

    def text(self, local: LocalTime) -> str:
        verb = "would be connected" if self.dry_run else "connected"
        drawn = f"{self.week}: {counted(self.sampled)} drawn, {self.compared} close neighbours, {len(self.links)} {verb}"
        return _list_first(
            drawn, [f"  {each.similarity:.2f}  {each.source_label}  {each.type}  {each.target_label}" for each in self.links]
        )


class Clustered(_Cycle, ClusterOutcome):
    """Clusters of similar memories."""

    def text(self, local: LocalTime) -> str:
        counts = (
            f"{counted(len(self.clusters), 'cluster', 'clusters')} among {counted(self.memories)}: {self.kept} kept, "
            f"{self.founded} new, {self.dissolved} dissolved{' (nothing written)' if self.dry_run else ''}"
        )
        entries = [f"\n{each.label} · {len(each.members)} members · {each.id}\n  {each.summary}" for each in self.clusters]
        return _list_first(counts, entries)


class LeavingMemory(View):
    """A memory that leaves recall."""

    id: int
    title: str
    name: str = Field(description="Its title, or how it begins.")
    created_at: Instant
    relevance: float


class Forgotten(_Cycle):
    """The memories that left recall, the least relevant first."""

    held_back: bool = Field(description="Whether nothing was (or would be) done, because too many would leave.")
    at_most: float = Field(description="The share of active memories that may leave without confirmation.")
    scored: int
    active: int = Field(description="Memories that were in recall before.")
    protected: int = Field(description="Active ones below the archive threshold that stay because they are protected.")
    recent: int = Field(description="Active ones below it that stay because of a sign of life within the grace days.")
    grace_days: float
    archived: tuple[LeavingMemory, ...]
    deleted: tuple[LeavingMemory, ...]
    file: str | None = Field(description="File that keeps the deleted memories.")

    @property
    def is_failure(self) -> bool:
        return self.held_back and not self.dry_run

    def text(self, local: LocalTime) -> str:
        would = "would be " if self.dry_run or self.held_back else ""
        counts = (
            f"{counted(self.scored)} scored, {len(self.archived)} {would}archived, {len(self.deleted)} {would}deleted"
            f"{_explain_kept(self.protected, self.recent, self.grace_days)}"
        )
        entries = [
            f"  {each.relevance:.3f}  {each.id}  {local.day(each.created_at)}  {each.name}"
            for each in (*self.deleted, *self.archived)
        ]
        return "\n".join([_list_first(counts, entries), *self._what_next(local)])

    def _what_next(self, local: LocalTime) -> Sequence[str]:
        if self.file:
            return [f"{self.file} keeps the deleted memories; `{local.program}import {quote(str(self.file))}` brings them back."]
        if self.held_back:
            nothing = f"nothing {'would be' if self.dry_run else 'was'} done"
            of_all = f", or of all {self.scored} for deletions" if self.deleted else ""
            share = f"{self.at_most:.0%} of the {self.active} active memories{of_all}"
            return [f"That is more than {share}, so {nothing}; look at them, then add --yes."]
        if self.archived and not self.dry_run:
            back, find = f"forget {self.archived[0].id} --restore", "search '' --archived"
            return [f"`{local.program}{back}` brings one back, `{local.program}{find}` finds them."]
        return []


def decay(tenant: Tenant, *, dry_run: bool = False) -> Decayed:
    """Score every memory as of now, and return archived ones that became relevant again to recall."""
    if not dry_run:
        _refresh_graph(tenant)
        store_activity(tenant)
    outcome = decay_cycle(tenant, datetime.now(UTC), dry_run=dry_run)
    settings = tenant.settings
    return Decayed.of(
        outcome, dry_run=dry_run, archive_threshold=settings.archive_threshold, grace_days=settings.forget_grace_days
    )


def creative(tenant: Tenant, *, dry_run: bool = False) -> Linked:
    """Connect similar memories that no edge connects."""
    return Linked.of(find_links(tenant, datetime.now(UTC), dry_run=dry_run), dry_run=dry_run)


def cluster(tenant: Tenant, *, dry_run: bool = False) -> Clustered:
    """Cluster similar memories into patterns, each with a summary."""
    return Clustered.of(find_clusters(tenant, datetime.now(UTC), dry_run=dry_run), dry_run=dry_run)


def list_clusters(tenant: Tenant, most: int) -> tuple[Cluster, ...]:
    """Return the `most` largest clusters of the last cycle, the largest first."""
    with tenant.catalog.read() as connection:
        return read_clusters(connection, most)


def forget(tenant: Tenant, *, dry_run: bool = False, however_many: bool = False) -> Forgotten:
    """Archive memories of low relevance; delete them only if the settings say so.

    With `dry_run` nothing changes. `however_many` confirms that more than `forget_at_most` may leave.
    """
    if not dry_run:
        _refresh_graph(tenant)
    outcome = forget_memories(tenant, datetime.now(UTC), dry_run=dry_run, however_many=however_many)
    if not (dry_run or outcome.held_back):
        renew_brief(tenant)
    archived, deleted = (
        tuple(LeavingMemory.of(memory, name=name_of(memory), relevance=relevance) for memory, relevance in leaving)
        for leaving in (outcome.archived, outcome.deleted)
    )
    settings = tenant.settings
    return Forgotten.of(
        outcome,
        dry_run=dry_run,
        at_most=settings.forget_at_most,
        grace_days=settings.forget_grace_days,
        archived=archived,
        deleted=deleted,
    )


def _refresh_graph(tenant: Tenant) -> None:
    """Connect the memories stored since the last run, so that they do not count as isolated."""
    refresh_graph(tenant.catalog, tenant.memories, tenant.relations, read_spellings(tenant))


def _explain_kept(protected: int, recent: int, grace_days: float) -> str:
    reasons = [f"{protected} are protected"] * bool(protected) + [
        f"{recent} showed a sign of life within {grace_days:g} days"
    ] * bool(recent)
    return f"; of those below the threshold, {' and '.join(reasons)}, so they stay" if reasons else ""


def _list_first(head: str, entries: Sequence[str]) -> str:
    more = [f"  and {len(entries) - _SHOWN} more; --json lists all"] if len(entries) > _SHOWN else []
    return "\n".join([head, *entries[:_SHOWN], *more])
