"""A short form of the campaigns; `make torture` runs the long ones. Damage and load have tests in stores/ and api/."""

from pathlib import Path

import pytest

from memory_assets_tests.torture import full_disk, hostile, kills

pytestmark = pytest.mark.long


def test_what_is_killed_loses_nothing_and_can_be_run_again(tmp_path: Path) -> None:
    assert kills.campaign(tmp_path, 1, ("edit",)).failures == []


def test_hostile_files_are_accounted_for_and_hold_nothing_up(tmp_path: Path) -> None:
    assert hostile.campaign(tmp_path, seeds=("deep",)).failures == []


@pytest.mark.skipif(not full_disk.mountable(), reason="this process may not mount a file system")
def test_a_full_and_a_read_only_disk_are_read_and_said(tmp_path: Path) -> None:
    assert full_disk.campaign(tmp_path / "world", ("search", "store")).failures == []
