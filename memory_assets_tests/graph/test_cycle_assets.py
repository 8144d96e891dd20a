import os
import signal
from contextlib import contextmanager
from typing import Any

import dagster as dg
import pytest

from memory_assets.defs.assets.cycles import ARCHIVING, archived_memories, clusters, creative_links
from memory_assets.defs.assets.graph import graph_edges, relevance_scores
from memory_assets.defs.partitions import PARTITION_SET
from memory_assets.defs.resources import MemoryResource
from memory_assets.defs.schedules import build_schedules
from memory_assets.models import Kind
from memory_assets.stores.catalog import Catalog
from memory_assets_tests.graph.conftest import World
from memory_assets_tests.graph.test_edges import fill
from memory_assets_tests.graph.test_sleep import around
from memory_assets_tests.torture import zygote

ASSETS = [graph_edges, relevance_scores, creative_links, clusters, archived_memories]


def materialize(world) -> dict[str, dict[str, Any]]:
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions(PARTITION_SET, ["main"])
        result = dg.materialize(
            ASSETS,
            instance=instance,
            partition_key="main",
            run_config=ARCHIVING,
            resources={"memory": MemoryResource(data_dir=str(world.settings.data_dir), tenant="main")},
        )
        return {
            name: {key: value.value for key, value in result.asset_materializations_for_node(name)[-1].metadata.items()}
            for name in (asset.key.to_user_string() for asset in ASSETS)
        }


def test_the_cycles_materialise_with_what_changed_and_a_second_time_change_nothing(world):
    for number in range(1, 11):
        text = f"The export of Kontora was slow on day {number}."
        world.put(number, text, vector=around(0, number), kind=Kind.PROJECT, days=2500, protected=True)
    world.put(11, days=2500)
    first = materialize(world)
    assert first["graph_edges"]["written"] > 0
    assert sum(first["relevance_scores"]["distribution"].values()) == first["relevance_scores"]["dagster/partition_row_count"] > 0
    assert first["clusters"]["founded"] == 1
    assert "Kontora" not in str(first)
    assert first["archived_memories"]["archived"] == 1
    world.refresh()
    second = materialize(world)
    assert second["creative_links"]["links_found"] == 0
    assert second["archived_memories"]["archived"] == 0


def test_every_schedule_runs_in_the_zone_of_the_settings():
    assert {schedule.name: schedule.cron_schedule for schedule in build_schedules("Asia/Tokyo", "weekly")} == {
        "decay_daily": "10 3 * * *",
        "creative_weekly": "10 4 * * 0",
        "cluster_monthly": "10 5 1 * *",
        "forget_quarterly": "10 6 1 1,4,7,10 *",
        "tana_hourly": "25 * * * *",
        "backup_regularly": "40 3 * * 1",
        "backup_check_weekly": "40 4 * * 0",
    }


def _refresh_and_die(folder):
    """Rebuild the graph and die by SIGKILL just before the commit."""
    world = World(folder)
    write = Catalog.write

    @contextmanager
    def dying(catalog):
        with write(catalog) as connection:
            yield connection
            os.kill(os.getpid(), signal.SIGKILL)

    Catalog.write = dying  # type: ignore[method-assign]
    world.refresh()


@pytest.mark.parametrize("built_before", [False, True])
def test_a_build_killed_before_its_commit_is_completed_by_the_next(world, built_before):
    fill(world)
    if built_before:
        world.refresh()
        world.put(55, "This led to [[b]].", links=("b",), session="s")
    else:
        with world.catalog.write():
            pass
    before = world.edges()
    assert zygote.shared().call(_refresh_and_die, world.settings.data_dir).wait().killed
    assert world.edges() == before
    assert world.refresh().written > 0
    assert world.edges("link") >= {(11, 22, "RELATES_TO")}
    assert world.refresh().written == 0
