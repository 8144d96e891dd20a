"""Asset checks: one for each of `memory_assets.invariants`. Each looks at the partition of its run alone."""

import dagster as dg

from memory_assets.defs.failures import translate_errors
from memory_assets.defs.partitions import TENANTS, accepted_previews
from memory_assets.defs.resources import MemoryResource
from memory_assets.invariants import INVARIANTS, Invariant

_NAMED = 20
"""Rows that a check names."""


def build_checks() -> list[dg.AssetChecksDefinition]:
    """One check for each invariant."""
    with accepted_previews():
        return [_check(invariant) for invariant in INVARIANTS]


def _check(invariant: Invariant) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        name=invariant.name,
        asset=invariant.asset,
        description=invariant.promise,
        blocking=invariant.is_blocking,
        partitions_def=TENANTS,
    )
    @translate_errors
    def evaluate(context: dg.AssetCheckExecutionContext, memory: MemoryResource) -> dg.AssetCheckResult:
        found = invariant.find(memory.open_for(context))
        return dg.AssetCheckResult(
            passed=not found,
            severity=dg.AssetCheckSeverity.WARN if invariant.is_warning else dg.AssetCheckSeverity.ERROR,
            description=invariant.mend if found else "",
            metadata={"faults": len(found), "rows": dg.TextMetadataValue(", ".join(found[:_NAMED]))},
        )

    return evaluate
