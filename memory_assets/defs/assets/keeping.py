"""The keeping group: scheduled backups if MEMORY_BACKUP_TO is set, and a check that the newest one can be restored."""

from typing import TYPE_CHECKING, Any

import dagster as dg

from memory_assets.defs.assets.graph import relevance_scores
from memory_assets.defs.failures import translate_errors
from memory_assets.defs.partitions import TENANTS, accepted_previews
from memory_assets.defs.resources import MemoryResource
from memory_assets.defs.tenant_assets import Page, due_within, tenant_asset
from memory_assets.errors import DamagedError
from memory_assets.tenants import Tenant

if TYPE_CHECKING:
    from memory_assets.keeping.repository import Repository

GROUP = "keeping"
_NO_PLACE = "Nothing is backed up: no place is set; set MEMORY_BACKUP_TO."
_NO_IDENTITY = "Every stored byte was compared, but no text was restored: the backup is encrypted; set MEMORY_BACKUP_IDENTITY."


@tenant_asset(
    GROUP,
    "lancedb",
    page=Page(("added_bytes", "removed_backups")),
    deps=[relevance_scores],
    freshness_policy=due_within(8, 9),
)
def backup(context: dg.AssetExecutionContext, memory: MemoryResource) -> dict[str, Any]:
    """A copy of all data of a tenant that cannot be derived, in MEMORY_BACKUP_TO. A run writes only changes."""
    from memory_assets.keeping.copying import back_up

    tenant = memory.open_for(context)
    repository = _repository(tenant)
    if repository is None:
        return {"note": _NO_PLACE}
    taken, gone = back_up(tenant, repository)
    rows = {name: copy.rows for name, copy in taken.tables.items()}
    return {
        "dagster/partition_row_count": rows.get("memories", 0),
        "relations": rows.get("relations", 0),
        "files": len(taken.files),
        "bytes": taken.stored_bytes,
        "added_bytes": taken.added_bytes,
        "removed_backups": len(gone),
        "shown_by": "memory backup list",
    }


def _repository(tenant: Tenant) -> "Repository | None":
    """Return the tenant's backup repository, or None if no place is set, so that "Materialize all" succeeds without one."""
    from memory_assets.keeping.repository import Repository

    to = tenant.settings.backup_to
    return Repository.of(tenant.settings, to) if to else None


with accepted_previews():

    @dg.asset_check(
        asset=backup,
        description="The newest backup restores into a scratch folder, and every row equals the original. Of an "
        "encrypted one without its identity, every stored byte is compared.",
        partitions_def=TENANTS,
    )
    @translate_errors
    def newest_backup_restores(context: dg.AssetCheckExecutionContext, memory: MemoryResource) -> dg.AssetCheckResult:
        """Restore the newest backup, compare it, and delete the copy. Only bytes are compared if it cannot be decrypted."""
        from memory_assets.keeping.restoring import find_damage, try_restore

        tenant = memory.open_for(context)
        repository = _repository(tenant)
        if repository is None:
            return dg.AssetCheckResult(passed=False, severity=dg.AssetCheckSeverity.WARN, description=_NO_PLACE)
        try:
            snapshot = repository.require(tenant.name)
            if not repository.can_decrypt(snapshot):
                damage = find_damage(repository, snapshot, decrypting=False)
                return dg.AssetCheckResult(
                    passed=not damage, description="\n".join(damage) or None, metadata={"note": _NO_IDENTITY}
                )
            restored = try_restore(repository, tenant)
        except DamagedError as error:
            return dg.AssetCheckResult(passed=False, description=str(error))
        return dg.AssetCheckResult(passed=True, metadata=dict(restored.rows))
