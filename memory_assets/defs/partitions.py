"""Partitions: one a tenant, added when a run of it is asked for, deleted with the tenant."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from memory_assets.settings import Settings
from memory_assets.tenants import tenant_names

PARTITION_SET = "tenant"
TENANTS = dg.DynamicPartitionsDefinition(name=PARTITION_SET)


@contextmanager
def accepted_previews() -> Iterator[None]:
    """Silence Dagster 1.13's warnings about what it may still change: references to code, and checks with a result a tenant."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.PreviewWarning)
        warnings.simplefilter("ignore", dg.BetaWarning)
        yield


def tenants_of(instance: dg.DagsterInstance, settings: Settings) -> list[str]:
    """The tenants that were ever run on this instance and still exist."""
    return sorted(set(instance.get_dynamic_partitions(PARTITION_SET)).intersection(tenant_names(settings)))
