"""Common parts of a tenant's assets: partitions, owner, errors, versions, and the figures on their pages.

A page shows figures of the last run, and the last change: which run wrote something, how much, and a look at the table afterwards. The
last change is kept in the instance's key-value storage, so that a run without changes repeats it.
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
from memory_assets.stores.schema import table
from memory_assets.tenants import Tenant

OWNERS = ["team:memory"]
Step = Callable[..., dg.MaterializeResult | Mapping[str, Any]]
"""Function that returns the metadata of the materialisation, with its `data_version` if it has one, or the whole result."""


@dataclass(frozen=True, slots=True)
class Page:
    """What an asset's page shows beside the figures of the last run."""

    changes: tuple[str, ...] = ()
    """Figures that are not zero if a run wrote something."""
    look: str = ""
    """Query on the catalog for a look at the table: counts, ids, kinds and dates, no texts."""
    is_result: bool = False
    """Whether the run also gets a tag with the changed figures."""


def tenant_asset(
    group: str,
    *kinds: str,
    writes: str = "",
    rules: int = 1,
    page: Page | None = None,
    is_of_sources: bool = False,
    **options: Any,
) -> Callable[[Step], dg.AssetsDefinition]:
    """Make an asset with a partition for each tenant; its metadata includes the duration in `seconds`.

    `writes` names the registered table that it writes; `rules` the version of its rules. Both, and the table's schema, make the code
    version. With `is_of_sources` the asset is empty for tenants without source files. `options` goes to `dagster.asset`.
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
            if version := found.pop("data_version", None):
                result = result._replace(data_version=dg.DataVersion(str(version)))
            if page:
                found = {**_last_change(context, tenant, found, page), **found}
            if writes:
                settings, in_lance = tenant.settings, table(writes).store == "LanceDB"
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
            **options,
        )(timed)

    return decorate


def due_within(warn_days: int, fail_days: int) -> dg.FreshnessPolicy:
    """Return the freshness policy of a scheduled asset: a warning after one missed run, a failure after two."""
    return dg.FreshnessPolicy.time_window(fail_window=timedelta(days=fail_days), warn_window=timedelta(days=warn_days))


def external_asset(name: str, group: str, *kinds: str, description: str, **options: Any) -> dg.AssetSpec:
    """Return an asset that is written or read outside of Dagster; runs report the state they saw."""
    return dg.AssetSpec(name, group_name=group, kinds=set(kinds), owners=OWNERS, description=description, **options)


def report_external(
    context: dg.AssetExecutionContext, spec: dg.AssetSpec, version: str, metadata: Mapping[str, Any], partition: str | None = None
) -> None:
    """Report the state of an external asset that a run saw; the record is deleted with the run."""
    tags = {DATA_VERSION_TAG: version}
    context.log_event(dg.AssetMaterialization(spec.key, partition=partition, metadata={**metadata}, tags=tags))


def report_progress(context: dg.AssetExecutionContext, sentence: str) -> Callable[[int, int], None]:
    """Return a function that logs a step's progress; `sentence` has gaps for the number done and the total."""
    return lambda done, total: context.log.info(sentence.format(done, total))


def table_metadata(name: str) -> dict[str, Any]:
    """Return name, store and column schema of a table, as metadata of its asset."""
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
        "store": registered.store,
        "meaning": registered.meaning,
    }


def schema_version(name: str) -> str:
    """Return a short digest of a table's columns, so that assets become stale when the columns change."""
    return blake2b(table(name).ddl().encode(), digest_size=3).hexdigest()


def _last_change(context: dg.AssetExecutionContext, tenant: Tenant, found: Mapping[str, Any], page: Page) -> dict[str, Any]:
    """Return the time and figures of the last change and a look at the table after it: of this run, else as stored."""
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
    """Return the rows of a query on the catalog, by column."""
    with tenant.catalog.read() as connection:
        return connection.execute(query).to_arrow_table().to_pylist()
