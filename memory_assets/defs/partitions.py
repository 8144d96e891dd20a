"""Partitions: one per tenant, added when a run is requested for it and deleted with the tenant."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

PARTITION_SET = "tenant"
TENANTS = dg.DynamicPartitionsDefinition(name=PARTITION_SET)


@contextmanager
def accepted_previews() -> Iterator[None]:
    """Silence Dagster 1.13's warnings about preview features: code references and partitioned checks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.PreviewWarning)
        warnings.simplefilter("ignore", dg.BetaWarning)
        yield
