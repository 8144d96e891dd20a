"""What the assets of a tenant share: partitions, owner, errors, and the columns of the table that each writes."""

from collections.abc import Callable
from functools import wraps
from time import perf_counter
from typing import Any

import dagster as dg

from memory_assets.defs.failures import translate_errors
from memory_assets.defs.partitions import TENANTS
from memory_assets.stores.schema import table

OWNERS = ["team:memory"]


def tenant_asset(
    group: str, *kinds: str, writes: str = "", **given: Any
) -> Callable[[Callable[..., dg.MaterializeResult]], dg.AssetsDefinition]:
    """Make an asset with a partition for each tenant; its metadata says how many `seconds` the step took.

    `writes` names the registered table that it writes; `given` goes to `dagster.asset`.
    """

    def decorate(step: Callable[..., dg.MaterializeResult]) -> dg.AssetsDefinition:
        metadata = table_metadata(writes) if writes else None

        @wraps(step)
        def timed(*resources: Any, **named: Any) -> dg.MaterializeResult:
            started = perf_counter()
            result = translate_errors(step)(*resources, **named)
            return result._replace(metadata={**(result.metadata or {}), "seconds": round(perf_counter() - started, 3)})

        return dg.asset(partitions_def=TENANTS, group_name=group, kinds=set(kinds), owners=OWNERS, metadata=metadata, **given)(
            timed
        )

    return decorate


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
