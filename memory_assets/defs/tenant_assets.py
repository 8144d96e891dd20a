"""What the assets of a tenant share: partitions, owner, errors, versions, and what their pages show.

A page shows figures of the last run, and beside them the last change: which run wrote something, how much, and a look at the table
as it was left. The last change is kept in the instance's key-value storage, so that a run that finds nothing new repeats it.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import wraps
from hashlib import blake2b
from time import perf_counter, time
from typing import Any

import dagster as dg
from dagster._core.definitions.data_version import DATA_VERSION_TAG

from memory_assets.defs.failures import translate_errors
from memory_assets.defs.partitions import TENANTS, accepted_previews
from memory_assets.defs.resources import MemoryResource
from memory_assets.defs.upkeep import read_values, write_value
from memory_assets.stores.schema import Store, table
from memory_assets.tenants import Tenant

OWNERS = ["team:memory"]
Step = Callable[..., dg.MaterializeResult | Mapping[str, Any]]
"""Returns the metadata of the materialisation, or the whole result."""


@dataclass(frozen=True, slots=True)
class Page:
    """What the page of an asset shows beside the figures of its last run."""

    changes: tuple[str, ...] = ()
    """Figures that say that a run wrote something."""
    look: str = ""
    """A query on the catalog for a look at the table: counts, ids, kinds and dates, no texts."""
    is_result: bool = False
    """Whether the figures that changed are shown as a tag of the run, too."""


def tenant_asset(
    group: str,
    *kinds: str,
    writes: str = "",
    rules: int = 1,
    page: Page | None = None,
    is_of_sources: bool = False,
    **given: Any,
) -> Callable[[Step], dg.AssetsDefinition]:
    """Make an asset with a partition for each tenant; its metadata says how many `seconds` the step took.

    `writes` names the registered table that it writes; `rules` the version of its rules. Both, and the table's schema, make the code
    version. `is_of_sources` tells of an asset that is empty for tenants without files of their own. `given` goes to `dagster.asset`.
    """

    def decorate(step: Step) -> dg.AssetsDefinition:
        @translate_errors
        @wraps(step)
        def timed(context: dg.AssetExecutionContext, memory: MemoryResource, **named: Any) -> dg.MaterializeResult:
            started, tenant = perf_counter(), memory.open_for(context)
            is_empty = is_of_sources and not tenant.is_sources_tenant
            taken = {"dagster/partition_row_count": 0} if is_empty else step(context, memory, **named)
            result = taken if isinstance(taken, dg.MaterializeResult) else dg.MaterializeResult(metadata=taken)
            found = dict(result.metadata or {})
            if page:
                found = {**_last_change(context, tenant, found, page), **found}
            if writes:
                settings, in_lance = tenant.settings, table(writes).store is Store.MEMORIES
                lance = f"{settings.tenant_vectors_uri(tenant.name)}/{writes}.lance"
                found["dagster/uri"] = lance if in_lance else settings.tenant_catalog_uri(tenant.name)
            return result._replace(metadata={**found, "seconds": round(perf_counter() - started, 3)})

        with accepted_previews():
            place = dg.LocalFileCodeReference(file_path=step.__code__.co_filename, line_number=step.__code__.co_firstlineno)
            references = dg.CodeReferencesMetadataValue(code_references=[place])
        timed.__annotations__ = {**step.__annotations__, "return": dg.MaterializeResult}  # Dagster reads them
        return dg.asset(
            partitions_def=TENANTS,
            group_name=group,
            kinds=set(kinds),
            owners=OWNERS,
            code_version=f"rules-{rules}.{schema_version(writes)}" if writes else f"rules-{rules}",
            metadata={**(table_metadata(writes) if writes else {}), "dagster/code_references": references},
            **given,
        )(timed)

    return decorate


def due_within(warn_days: int, fail_days: int) -> dg.FreshnessPolicy:
    """The policy of an asset that a schedule makes: a warning after the first run that was missed, a failure after the second."""
    return dg.FreshnessPolicy.time_window(fail_window=timedelta(days=fail_days), warn_window=timedelta(days=warn_days))


def external_asset(name: str, group: str, *kinds: str, description: str, **given: Any) -> dg.AssetSpec:
    """An asset that others write or read; runs report what they saw of it."""
    return dg.AssetSpec(name, group_name=group, kinds=set(kinds), owners=OWNERS, description=description, **given)


def report_external(
    context: dg.AssetExecutionContext, spec: dg.AssetSpec, version: str, metadata: Mapping[str, Any], partition: str | None = None
) -> None:
    """Report within a run what it saw of an external asset; the record goes with the run."""
    tags = {DATA_VERSION_TAG: version}
    context.log_event(dg.AssetMaterialization(spec.key, partition=partition, metadata={**metadata}, tags=tags))


def report_progress(context: dg.AssetExecutionContext, sentence: str) -> Callable[[int, int], None]:
    """Say how far a step is, by a sentence with gaps for what is done and what there is to do."""
    return lambda done, total: context.log.info(sentence.format(done, total))


def table_metadata(name: str) -> dict[str, Any]:
    """Name, store and column schema of a table, for the asset that writes it."""
    registered = table(name)
    columns = [
        dg.TableColumn(
            column.name,
            column.type.value,
            description=column.meaning,
            constraints=dg.TableColumnConstraints(
                unique=registered.key == (column.name,), nullable=column.name not in registered.key
            ),
        )
        for column in registered.columns
    ]
    return {
        "dagster/table_name": name,
        "dagster/column_schema": dg.TableSchema(columns=columns),
        "store": registered.store.value,
        "meaning": registered.meaning,
    }


def schema_version(name: str) -> str:
    """A short digest of the columns of a table: assets are stale when their table gets other columns."""
    return blake2b(table(name).ddl().encode(), digest_size=3).hexdigest()


def _last_change(context: dg.AssetExecutionContext, tenant: Tenant, found: Mapping[str, Any], page: Page) -> dict[str, Any]:
    """When something was written last, what, and a look at the table after it: of this run, else as it was kept."""
    key = f"last_change:{context.asset_key.to_user_string()}"
    figures = [f"{found[name]} {name.replace('_', ' ')}" for name in page.changes if found.get(name)]
    if figures:
        looked = read_rows(tenant, page.look) if page.look else []
        rows = [{name: value if isinstance(value, int | float) else str(value) for name, value in row.items()} for row in looked]
        kept: dict[str, Any] = {"at": time(), "what": ", ".join(figures), "rows": rows}
        write_value(context.instance, tenant.name, key, json.dumps(kept))
        if page.is_result:
            context.instance.add_run_tags(context.run.run_id, {context.asset_key.to_user_string(): kept["what"]})
    else:
        (value,) = read_values(context.instance, tenant.name, [key])
        if not value:
            return {}
        kept = json.loads(value)
    shown: dict[str, Any] = {"last_change": kept["what"], "last_changed_at": dg.TimestampMetadataValue(kept["at"])}
    if rows := kept["rows"]:
        shown["look"] = dg.MetadataValue.table([dg.TableRecord(row) for row in rows])
    return shown


def read_rows(tenant: Tenant, query: str) -> list[dict[str, Any]]:
    """The rows of a query on the catalog, by column."""
    with tenant.catalog.read() as connection:
        return connection.execute(query).to_arrow_table().to_pylist()
