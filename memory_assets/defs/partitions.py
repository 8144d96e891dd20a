"""Partitions: one a tenant, added when the tenant is first run."""

import dagster as dg

PARTITION_SET = "tenant"
TENANTS = dg.DynamicPartitionsDefinition(name=PARTITION_SET)


def tenants_of(instance: dg.DagsterInstance) -> list[str]:
    """The tenants that were ever run on this instance."""
    return sorted(instance.get_dynamic_partitions(PARTITION_SET))
