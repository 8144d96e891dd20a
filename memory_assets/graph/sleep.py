"""The sleep cycles of one tenant with its settings, for schedules and `memory consolidate`. Each cycle has a module of its own."""

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from memory_assets.graph.clusters import ClusterOutcome, find_clusters
from memory_assets.graph.creative import CreativeOutcome, find_links
from memory_assets.graph.forgetting import ForgetOutcome, ForgetRules, forget
from memory_assets.graph.relevance import RelevanceOutcome, refresh_relevance, wake
from memory_assets.stores.access_log import AccessLog, fold_accesses

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant


def decay_cycle(tenant: "Tenant", now: datetime, *, dry_run: bool = False) -> RelevanceOutcome:
    """Fold in what was recalled, score everything, and wake archived memories that matter again.

    Raises:
        StoreError: a store cannot be read or written; finished commits stay.
    """
    settings = tenant.settings
    if not dry_run:
        fold_accesses(tenant.catalog, AccessLog(tenant.folder), now)
    threshold = settings.archive_threshold

    def score() -> RelevanceOutcome:
        return refresh_relevance(
            tenant.catalog, tenant.memories, now, rate=settings.decay_rate, archive_threshold=threshold, dry_run=dry_run
        )

    outcome, woken = score(), []
    while outcome.woken and not dry_run:
        woken += wake(tenant.memories, outcome.woken)
        outcome = score()
    return replace(outcome, woken=(*woken, *outcome.woken))


def creative_cycle(tenant: "Tenant", now: datetime, *, dry_run: bool = False) -> CreativeOutcome:
    """Connect similar memories.

    Raises:
        StoreError: a store cannot be read or written; nothing was written.
    """
    settings = tenant.settings
    return find_links(
        tenant.catalog,
        tenant.memories,
        now,
        sample=settings.creative_sample,
        least_similarity=settings.creative_similarity,
        dry_run=dry_run,
    )


def cluster_cycle(tenant: "Tenant", now: datetime, *, dry_run: bool = False) -> ClusterOutcome:
    """Cluster and summarise.

    Raises:
        StoreError: a store cannot be read or written; nothing was written.
    """
    least = tenant.settings.cluster_similarity
    return find_clusters(tenant.catalog, tenant.memories, now, least_similarity=least, dry_run=dry_run)


def forget_cycle(tenant: "Tenant", now: datetime, *, dry_run: bool = False, however_many: bool = False) -> ForgetOutcome:
    """Archive, and delete if the settings say so, by scores of this moment.

    With `however_many` a person has seen how many would go, and lets them.

    Raises:
        StoreError: a store cannot be read or written; finished commits stay.
        OSError: the file of deleted memories cannot be written; nothing was deleted.
    """
    settings = tenant.settings
    rules = ForgetRules(
        settings.archive_threshold,
        settings.delete_threshold,
        settings.forget_deletes,
        settings.forget_grace_days,
        1.0 if however_many else settings.forget_at_most,
    )
    if not dry_run:
        fold_accesses(tenant.catalog, AccessLog(tenant.folder), now)
    return forget(tenant.catalog, tenant.memories, tenant.folder, now, rate=settings.decay_rate, rules=rules, dry_run=dry_run)
