"""Partitions: one a tenant, added when a run of it is asked for, deleted with the tenant."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

PARTITION_SET = "tenant"
TENANTS = dg.DynamicPartitionsDefinition(name=PARTITION_SET)


@contextmanager
def accepted_previews() -> Iterator[None]:
    """Silence Dagster 1.13's warnings about what it may still change: references to code, and checks with a result a tenant."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.PreviewWarning)
        warnings.simplefilter("ignore", dg.BetaWarning)
        yield
