"""Which texts count as equal, the cost of finding them, and the nodes that another machine's sync made."""

import time
from pathlib import Path

import pytest

from memory_assets.settings import Settings
from memory_assets.tana.changes import SyncOptions
from memory_assets.tana.matching import equivalent
from memory_assets.tana.sync import sync
from memory_assets.tenants import Tenant
from memory_assets_tests.tana.seeds import HOSTILE, SLOW_REVIEW, TEST_FIRST, counts, learning, mapping, write_seed
from memory_assets_tests.tana.stand_in import StandIn

RULE = "Always run the migrations before the release of the billing service"


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (f"  {RULE.upper()}!", True),
        (RULE.replace("migrations", "migratons"), True),
        (RULE.replace("before", "after"), False),
        (RULE.replace("run", "not run"), False),
        (f"{RULE} 2", False),
        ("", False),
    ],
)
def test_a_slip_of_the_pen_is_no_other_fact(other: str, same: bool) -> None:
    assert equivalent(RULE, other) == equivalent(other, RULE) == same


def test_no_text_is_equivalent_to_nothing() -> None:
    assert not equivalent("", "...")
    assert equivalent("2 of 3", "2 of 3.")
    assert not equivalent("2 of 3", "3 of 2")


def test_thousands_of_pairs_of_texts_are_compared_in_a_moment() -> None:
    rules = [f"Rule {number}: {RULE}" for number in range(300)]
    begun = time.process_time()
    assert sum(equivalent(one, other.upper()) for one in rules for other in rules) == len(rules)
    assert time.process_time() - begun < 2


@pytest.fixture
def other(settings: Settings, tmp_path: Path) -> Tenant:
    """Another machine with the same seed.json and the same workspace."""
    return Tenant(settings.model_copy(update={"data_dir": tmp_path / "other", "pai_mapping": tmp_path / "other/map/m.json"}))


def test_a_dry_run_on_a_second_machine_plans_to_take_over_the_nodes(
    workspace: StandIn, tenant: Tenant, other: Tenant, settings: Settings
) -> None:
    write_seed(settings.pai_seed, [TEST_FIRST], [], [], [SLOW_REVIEW])
    sync(tenant)
    write_seed(settings.pai_seed, [TEST_FIRST, HOSTILE], [learning("prop_077", SLOW_REVIEW["content"])])
    writes = workspace.writes
    report = sync(other, SyncOptions(dry_run=True))
    assert {each.seed_id: each.action for each in report.outcomes} == {
        "pat_0001": "update",
        "pat_0002": "create",
        "prop_077": "create",
    }
    assert workspace.writes == writes and not other.folder.exists() and not other.settings.pai_mapping.exists()


def test_what_another_machine_sent_from_the_same_seed_is_no_edit(
    workspace: StandIn, tenant: Tenant, other: Tenant, settings: Settings
) -> None:
    for content in ("Atlas deploys at night", "Atlas deploys at noon on Tuesdays"):
        write_seed(settings.pai_seed, [learning("pat_0001", content)])
        reports = [sync(machine) for machine in (tenant, other)]
    assert [report.edited for report in reports] == [{}, {}]
    workspace.update(mapping(settings)["pat_0001"], "Atlas deploys whenever", None)
    assert sync(other).edited == {"pat_0001": ["name"]}


def test_a_second_machine_takes_over_the_node_of_an_accepted_proposal(
    workspace: StandIn, tenant: Tenant, other: Tenant, settings: Settings
) -> None:
    for machine in (tenant, other):
        write_seed(settings.pai_seed, [], [], [], [SLOW_REVIEW])
        sync(machine)
    write_seed(settings.pai_seed, [], [learning("prop_077", SLOW_REVIEW["content"])])
    sync(tenant)
    node = mapping(settings)["prop_077"]
    note = workspace.add_node("What I wrote below it", parent=node)
    sync(other)
    assert mapping(other.settings) == {"prop_077": node} and counts(workspace) == (1, 0) and not note.in_trash
    writes = workspace.writes
    sync(tenant)
    sync(other)
    assert workspace.writes == writes
