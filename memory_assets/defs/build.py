"""Assembly of the Definitions from a resource: assets, a check for each invariant, jobs, schedules and sensors."""

from collections.abc import Callable, Iterator, Sequence

import dagster as dg
from dagster._core.definitions.assets.graph.asset_graph import AssetGraph

from memory_assets.defs import assets
from memory_assets.defs.assets import keeping
from memory_assets.defs.failures import translate_errors
from memory_assets.defs.jobs import JOBS
from memory_assets.defs.partitions import TENANTS, accepted_previews
from memory_assets.defs.resources import MemoryResource
from memory_assets.defs.schedules import build_schedules
from memory_assets.defs.sensors import build_sensors
from memory_assets.invariants import INVARIANTS
from memory_assets.language.times import display_zone
from memory_assets.settings import Settings

_MAX_ROWS = 20


def build_defs(memory: MemoryResource) -> dg.Definitions:
    """Return all definitions over the stores that `memory` opens; raise SettingsError if a setting is invalid."""
    settings = memory.settings()
    zone = display_zone(settings)
    schedules = build_schedules(zone.key, settings.backup_every)
    sensors = build_sensors(memory)
    found = dg.load_assets_from_package_module(assets, include_specs=True)
    loaded = [each for each in found if isinstance(each, dg.AssetsDefinition | dg.AssetSpec)]
    with accepted_previews():
        checks = [*map(_build_check, dict.fromkeys(each.asset for each in INVARIANTS)), keeping.newest_backup_restores]
    return dg.Definitions(
        assets=dg.map_asset_specs(_add_explanations(settings, loaded, [*schedules, *sensors]), loaded),
        asset_checks=checks,
        jobs=JOBS,
        schedules=schedules,
        sensors=sensors,
        resources={"memory": memory},
        executor=dg.in_process_executor,
    )


def _build_check(asset: str) -> dg.AssetChecksDefinition:
    """Return one step that checks an asset's invariants in the run's partition, up to a blocking one that fails."""
    invariants = sorted((each for each in INVARIANTS if each.asset == asset), key=lambda each: not each.is_blocking)
    specs = [
        dg.AssetCheckSpec(each.name, asset=asset, description=each.promise, blocking=each.is_blocking, partitions_def=TENANTS)
        for each in invariants
    ]

    @translate_errors
    def look(context: dg.AssetCheckExecutionContext, memory: MemoryResource) -> list[dg.AssetCheckResult]:
        tenant = memory.open_for(context)
        chosen = {key.name for key in context.selected_asset_check_keys}
        results: list[dg.AssetCheckResult] = []
        with tenant.catalog.read():  # kept open, because opening it takes longer than a check
            for invariant in invariants:
                if invariant.name in chosen:
                    found = invariant.find(tenant)
                    result = dg.AssetCheckResult(
                        check_name=invariant.name,
                        passed=not found,
                        severity=dg.AssetCheckSeverity.WARN if invariant.is_warning else dg.AssetCheckSeverity.ERROR,
                        description=invariant.mend if found else "",
                        metadata={"faults": len(found), "rows": dg.TextMetadataValue(", ".join(found[:_MAX_ROWS]))},
                    )
                    results.append(result)
                    if found and invariant.is_blocking:
                        break
        return results

    @dg.multi_asset_check(name=f"invariants_of_{asset}", specs=specs, can_subset=True)
    def evaluate(context: dg.AssetCheckExecutionContext, memory: MemoryResource) -> Iterator[dg.AssetCheckResult]:
        yield from look(context, memory)

    return evaluate


def _add_explanations(
    settings: Settings,
    loaded: Sequence[dg.AssetsDefinition | dg.AssetSpec],
    automation: Sequence[dg.ScheduleDefinition | dg.SensorDefinition],
) -> Callable[[dg.AssetSpec], dg.AssetSpec]:
    """Return a function that describes what starts an asset, and adds the asset's model to its code version."""
    made = [each for each in loaded if isinstance(each, dg.AssetsDefinition)]
    graph = AssetGraph.from_assets(made)
    selected = {job.name: job.selection.resolve(graph) for job in JOBS}
    models = {"extracted_features": settings.spacy_model, "memories": settings.embedder}
    starts: dict[dg.AssetKey, list[str]] = {asset.key: [] for asset in made}
    for each in automation:
        jobs = [each.job_name] if isinstance(each, dg.ScheduleDefinition) else [target.job_name for target in each.targets]
        for key in starts.keys() & {key for job in jobs for key in selected[job]}:
            starts[key].append(f"- `{each.name}`: {each.description}")

    def explain(spec: dg.AssetSpec) -> dg.AssetSpec:
        if spec.key not in starts:
            return spec
        model = models.get(spec.key.to_user_string())
        version = f"{spec.code_version}.{model}" if model else spec.code_version
        why = dg.MarkdownMetadataValue("\n".join([*starts[spec.key], "- a person who materialises it"]))
        due = None if spec.key == keeping.backup.key and not settings.backup_to else spec.freshness_policy
        metadata = {**spec.metadata, "what_starts_it": why}
        return spec.replace_attributes(code_version=version, metadata=metadata, freshness_policy=due)

    return explain
