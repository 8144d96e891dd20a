"""Which backups stay: of the last days, weeks and months one each."""

from collections.abc import Sequence
from datetime import tzinfo

from memory_assets.keeping.repository import Repository, Snapshot

_PERIODS = ("%Y-%m-%d", "%G-W%V", "%Y-%m")
"""What names a day, a week, a month."""


def kept_of(snapshots: Sequence[Snapshot], keep: Sequence[int], zone: tzinfo) -> list[Snapshot]:
    """The backups of one tenant, the oldest first, that stay: the newest of each of the last `keep` days, weeks and months in `zone`."""
    kept: set[str] = {snapshots[-1].name} if snapshots else set()
    for period, most in zip(_PERIODS, keep, strict=True):
        newest: dict[str, str] = {}
        for each in reversed(snapshots):
            newest.setdefault(each.taken_at.astimezone(zone).strftime(period), each.name)
        kept.update(list(newest.values())[:most])
    return [each for each in snapshots if each.name in kept]


def prune(repository: Repository, tenant: str, keep: Sequence[int], zone: tzinfo) -> list[Snapshot]:
    """Remove the backups of a tenant that need not stay, with what no other backup needs; return those that were removed.

    If a manifest of the tenant is damaged, nothing is removed.
    """
    with repository.alone():
        snapshots = repository.snapshots(tenant)
        kept = {each.name for each in kept_of(snapshots, keep, zone)}
        gone = [each for each in snapshots if each.name not in kept]
        if gone:
            repository.remove(gone)
    return gone
