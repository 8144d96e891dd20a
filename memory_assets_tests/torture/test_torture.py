"""The campaigns for a minute; `make torture` runs them for an hour."""

from pathlib import Path

import pytest

from memory_assets_tests.torture import commands, full_disk, history, hostile, mutants
from memory_assets_tests.torture.zygote import Zygote, shared

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def zygote() -> Zygote:
    return shared()


def test_what_is_killed_or_done_at_once_leaves_what_was_promised(zygote: Zygote, tmp_path: Path) -> None:
    report = history.History(zygote, tmp_path, 1, cold=0).go(6)
    assert report.failures == []
    assert report.kills


def test_commands_that_are_killed_end_as_undisturbed_when_run_again(zygote: Zygote, tmp_path: Path) -> None:
    assert commands.campaign(zygote, tmp_path, 1, 1, ("import", "session-end")).failures == []


def test_hostile_files_are_accounted_for_and_hold_nothing_up(zygote: Zygote, tmp_path: Path) -> None:
    assert hostile.campaign(zygote, tmp_path, hostile.QUICK, ("deep",)).failures == []


@pytest.mark.skipif(not full_disk.mountable(), reason="this process may not mount a file system")
def test_a_full_and_a_read_only_disk_are_read_and_said(zygote: Zygote, tmp_path: Path) -> None:
    assert full_disk.campaign(zygote, tmp_path / "world", ("search", "store")).failures == []


@pytest.mark.parametrize("mutant", ["a store that commits nothing", "a lock that is not taken"])
def test_a_planted_fault_is_found(mutant: str, tmp_path: Path) -> None:
    assert mutants.campaign(tmp_path, 300, 1, [mutant]).failures == []
