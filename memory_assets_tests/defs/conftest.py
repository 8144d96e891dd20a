"""Fixtures for Dagster: an instance with the tenant `main`, and the definitions over the test's stores."""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from memory_assets.defs import sensors
from memory_assets.defs.build import build_defs
from memory_assets.defs.partitions import PARTITION_SET
from memory_assets.defs.resources import MemoryResource
from memory_assets.defs.upkeep import MEMORY_RUN
from memory_assets.tenants import Tenant


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a tick check all tenants, however slow the machine is."""
    monkeypatch.setattr(sensors, "_BUDGET_SECONDS", 60.0)


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        made.add_dynamic_partitions(PARTITION_SET, ["main"])
        yield made


@pytest.fixture
def disk_instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    """Make an instance like `instance`, but on disk, as the evaluation of schedules requires."""
    (tmp_path / "dagster").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "dagster")) as made:
        made.add_dynamic_partitions(PARTITION_SET, ["main"])
        yield made


def run(
    instance: dg.DagsterInstance, job: str = "remember", tenant: str = "main", *, only: Sequence[str] = (), **given: Any
) -> dg.ExecuteInProcessResult:
    """Run a job for a tenant, in this process; or only some of its assets, without their checks, which take longer than they do.

    Makes the tenant, as `memory run` does.
    """
    models = MemoryResource().settings()
    Tenant(models, tenant).state.claim()
    resolved = _resolved(job, tuple(only), models.spacy_model, models.embedder)
    given["tags"] = {**MEMORY_RUN, **given.get("tags", {})}
    return resolved.execute_in_process(instance=instance, partition_key=tenant, raise_on_error=False, **given)


@cache
def _resolved(job: str, only: tuple[str, ...], *_models: str) -> dg.JobDefinition:
    """Build a job once for all runs with these models; each run opens the stores of its own settings."""
    built = build_defs(MemoryResource()).resolve_job_def(job)
    return built.get_subset(asset_selection=set(map(dg.AssetKey, only)), asset_check_selection=set()) if only else built


def metadata(result: dg.ExecuteInProcessResult, asset: str) -> dict[str, Any]:
    """Return the metadata that the materialisation of an asset reported."""
    (event,) = [each for each in result.asset_materializations_for_node(asset) if each.asset_key == dg.AssetKey(asset)]
    return {name: value.value for name, value in event.metadata.items()}
