"""The sleep cycles, now: decay, creative, cluster and forget; each can also only say what it would do."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from memory_assets.operations.answers import Answer, Instant, LocalTime, counted, listed, shortened

if TYPE_CHECKING:
    from memory_assets.models import Memory
    from memory_assets.tenants import Tenant

_SHOWN = 20
"""Entries that a text form lists; the JSON form has all."""
_BAR = 40
"""Characters of a bar that stands for all memories."""


class _Cycle(Answer):
    """What a cycle did, or with `dry_run` would do."""

    dry_run: bool


class Decayed(_Cycle):
    """Every memory's relevance as of now."""

    scored: int
    below_archive: int = Field(description="Active memories below the archive threshold.")
    archive_threshold: float
    histogram: list[int] = Field(description="Scores in each tenth of 0 to 1.")
    written: int
    woken: tuple[int, ...] = Field(description="Archived memories that matter again.")

    def text(self, local: LocalTime) -> str:  # noqa: ARG002
        """What changed, and how the scores are spread."""
        would = "would change" if self.dry_run else "changed"
        lines = [
            f"{counted(self.scored)} scored, {self.written} scores {would}, {len(self.woken)} back from the archive",
            f"{self.below_archive} lie below the archive threshold of {self.archive_threshold:g}",
        ]
        for low, count in enumerate(self.histogram):
            bar = "█" * round(_BAR * count / max(1, self.scored))
            lines.append(f"  {low / 10:.1f} to {(low + 1) / 10:.1f}  {count:>6}  {bar}".rstrip())
        return listed(lines)


class LinkView(BaseModel):
    """A new edge between two memories that are alike."""

    source_id: int
    target_id: int
    type: str
    similarity: float
    source_label: str
    target_label: str


class Linked(_Cycle):
    """What is alike and was never connected."""

    week: str = Field(description="The ISO week whose sample was drawn.")
    sampled: int
    compared: int = Field(description="Neighbours above the threshold, connected or not.")
    links: tuple[LinkView, ...] = Field(description="The most alike first.")

    def text(self, local: LocalTime) -> str:  # noqa: ARG002
        """What was drawn, and a line a link."""
        verb = "would be connected" if self.dry_run else "connected"
        drawn = f"{self.week}: {counted(self.sampled)} drawn, {self.compared} close neighbours, {len(self.links)} {verb}"
        return _first(
            drawn, [f"  {each.similarity:.2f}  {each.source_label}  {each.type}  {each.target_label}" for each in self.links]
        )


class ClusterView(BaseModel):
    """A dense group of memories with its pattern."""

    model_config = ConfigDict(from_attributes=True)

    id: int
    label: str
    summary: str
    members: tuple[int, ...]
    cohesion: float


class Clustered(_Cycle):
    """The dense groups of memories."""

    memories: int
    kept: int
    founded: int
    dissolved: int
    written: int
    clusters: tuple[ClusterView, ...] = Field(description="Largest first.")

    def text(self, local: LocalTime) -> str:  # noqa: ARG002
        """The counts, and each cluster with its summary."""
        counts = (
            f"{counted(len(self.clusters), 'cluster', 'clusters')} among {counted(self.memories)}: {self.kept} kept, "
            f"{self.founded} new, {self.dissolved} dissolved{' (nothing written)' if self.dry_run else ''}"
        )
        told = [f"\n{each.label} · {len(each.members)} members · {each.id}\n  {each.summary}" for each in self.clusters]
        return _first(counts, told)


class LeavingMemory(BaseModel):
    """A memory that no longer matters."""

    id: int
    title: str
    name: str = Field(description="Its title, or how it begins.")
    created_at: Instant
    relevance: float

    @classmethod
    def of(cls, memory: "Memory", relevance: float) -> "LeavingMemory":
        """A memory with its relevance."""
        name = memory.title or shortened(memory.content, 60)
        return cls(id=memory.id, title=memory.title, name=name, created_at=memory.created_at, relevance=relevance)


class Cleaned(_Cycle):
    """What left recall, the least relevant first."""

    held_back: bool = Field(description="Whether nothing was done, or would be, because too many would have gone.")
    at_most: float = Field(description="The share of active memories that may go unasked.")
    scored: int
    active: int = Field(description="Memories that were in recall before.")
    archived: tuple[LeavingMemory, ...]
    deleted: tuple[LeavingMemory, ...]
    file: Path | None = Field(description="Where deleted ones were written to.")

    def text(self, local: LocalTime) -> str:
        """How many go, which, and how they come back."""
        would = "would be " if self.dry_run or self.held_back else ""
        counts = f"{counted(self.scored)} scored, {len(self.archived)} {would}archived, {len(self.deleted)} {would}deleted"
        entries = [
            f"  {each.relevance:.3f}  {each.id}  {each.created_at.astimezone(local.zone):%Y-%m-%d}  {each.name}"
            for each in (*self.deleted, *self.archived)
        ]
        return listed([_first(counts, entries), *self._what_next()])

    def _what_next(self) -> Sequence[str]:
        if self.file:
            return [f"What was deleted is kept in {self.file}; `memory import` takes it back."]
        if self.held_back:
            nothing = f"nothing {'would be' if self.dry_run else 'was'} done"
            share = f"{self.at_most:.0%} of the {self.active} active memories"
            return [f"That is more than {share}, so {nothing}; look at them, then add --yes."]
        if self.archived and not self.dry_run:
            return ["`memory forget ID --restore` brings one back, `memory search --archived` finds them."]
        return []


def decay(tenant: "Tenant", *, dry_run: bool = False) -> Decayed:
    """Score every memory as of now; archived ones that matter again come back.

    Raises:
        StoreError: a store cannot be read or written; finished commits stay.
    """
    from memory_assets.graph.sleep import decay_cycle
    from memory_assets.tana.freshness import store_activity

    if not dry_run:
        _refresh_graph(tenant)
        store_activity(tenant)
    outcome = decay_cycle(tenant, datetime.now(UTC), dry_run=dry_run)
    return Decayed(
        dry_run=dry_run,
        scored=outcome.scored,
        below_archive=outcome.below_archive,
        archive_threshold=tenant.settings.archive_threshold,
        histogram=outcome.histogram,
        written=outcome.written,
        woken=outcome.woken,
    )


def creative(tenant: "Tenant", *, dry_run: bool = False) -> Linked:
    """Connect what is alike and was never connected.

    Raises:
        StoreError: a store cannot be read or written; nothing was written.
    """
    from memory_assets.graph.sleep import creative_cycle

    outcome = creative_cycle(tenant, datetime.now(UTC), dry_run=dry_run)
    links = tuple(map(LinkView.model_validate, outcome.links))
    return Linked(dry_run=dry_run, week=outcome.week, sampled=outcome.sampled, compared=outcome.compared, links=links)


def cluster(tenant: "Tenant", *, dry_run: bool = False) -> Clustered:
    """Make patterns with a summary of dense groups of memories.

    Raises:
        StoreError: a store cannot be read or written; nothing was written.
    """
    from memory_assets.graph.sleep import cluster_cycle

    outcome = cluster_cycle(tenant, datetime.now(UTC), dry_run=dry_run)
    counts: dict[str, Any] = {name: getattr(outcome, name) for name in ("memories", "kept", "founded", "dissolved", "written")}
    return Clustered(dry_run=dry_run, **counts, clusters=tuple(map(ClusterView.model_validate, outcome.clusters)))


def clean(tenant: "Tenant", *, dry_run: bool = False, however_many: bool = False) -> Cleaned:
    """Archive what no longer matters; delete only where the settings say so.

    Args:
        tenant: whose memories.
        dry_run: find, but change nothing.
        however_many: a person has seen how many would go, and lets them.

    Raises:
        StoreError: a store cannot be read or written; finished commits stay.
        OSError: the file of deleted memories cannot be written; nothing was deleted.
    """
    from memory_assets.graph.sleep import forget_cycle
    from memory_assets.learn.briefing import renew_brief

    if not dry_run:
        _refresh_graph(tenant)
    outcome = forget_cycle(tenant, datetime.now(UTC), dry_run=dry_run, however_many=however_many)
    if not (dry_run or outcome.held_back):
        renew_brief(tenant)
    return Cleaned(
        dry_run=dry_run,
        held_back=outcome.held_back,
        at_most=tenant.settings.forget_at_most,
        scored=outcome.scored,
        active=outcome.active,
        archived=tuple(LeavingMemory.of(*each) for each in outcome.archived),
        deleted=tuple(LeavingMemory.of(*each) for each in outcome.deleted),
        file=outcome.file,
    )


def _refresh_graph(tenant: "Tenant") -> None:
    """What was stored since the last run must not look unconnected."""
    from memory_assets.graph.edges import refresh_graph

    refresh_graph(tenant.catalog, tenant.memories, tenant.relations, tenant.analyzer.gazetteer.canonical)


def _first(head: str, entries: Sequence[str]) -> str:
    """`head`, and below it the entries that there is room for."""
    more = [f"  and {len(entries) - _SHOWN} more; --json lists all"] if len(entries) > _SHOWN else []
    return listed([head, *entries[:_SHOWN], *more])
