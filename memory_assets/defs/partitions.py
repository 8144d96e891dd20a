"""Partitions: one per tenant, added when a run is requested for it and deleted with the tenant."""

import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager

import dagster as dg

PARTITION_SET = "memory_tenant"
"""Its name is in the records of the whole instance, where other projects may have a set `tenant`."""
FORMER_SET = "tenant"
TENANTS = dg.DynamicPartitionsDefinition(name=PARTITION_SET)


def adopt_partitions(instance: dg.DagsterInstance, tenants: Collection[str]) -> set[str]:
    """Add these tenants' partitions of release 0.1, which named its set `tenant`; return the tenants that have a partition."""
    present = set(instance.get_dynamic_partitions(PARTITION_SET)).intersection(tenants)
    if former := set(instance.get_dynamic_partitions(FORMER_SET)).intersection(tenants) - present:
        instance.add_dynamic_partitions(PARTITION_SET, sorted(former))
    return present | former


@contextmanager
def accepted_previews() -> Iterator[None]:
    """Silence Dagster 1.13's warnings about preview features: code references and partitioned checks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.PreviewWarning)
        warnings.simplefilter("ignore", dg.BetaWarning)
        yield
