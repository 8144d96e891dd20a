"""Dagster's records over connections that stay open: many processes write them, and who follows a run sees each event."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import dagster as dg
import pytest
from dagster._core.storage.event_log import SqliteEventLogStorage

from memory_assets.defs import storage
from memory_assets.defs.instance import open_instance
from memory_assets.settings import Settings, load_settings
from memory_assets_tests.torture import zygote

_EVENTS = 40


@pytest.fixture
def home(settings: Settings) -> Iterator[dg.DagsterInstance]:
    with open_instance(settings) as instance:
        yield instance


def _write(data_dir: Path, run_id: str) -> None:
    with open_instance(load_settings(data_dir=data_dir)) as instance:
        run = instance.get_run_by_id(run_id)
        for number in range(_EVENTS):
            instance.report_engine_event(f"{os.getpid()} wrote {number}", run)


def test_processes_that_write_at_once_lose_nothing_and_a_follower_sees_it(home: dg.DagsterInstance, settings: Settings) -> None:
    run = home.add_run(dg.DagsterRun("remember", run_id=str(uuid4()), status=dg.DagsterRunStatus.STARTED))
    seen: list[str] = []
    home.event_log_storage.watch(run.run_id, None, lambda entry, _cursor: seen.append(entry.message))
    writers = [zygote.shared().call(_write, settings.data_dir, run.run_id) for _ in range(3)]
    assert [each.wait().code for each in writers] == [0, 0, 0]
    messages = [each.message for each in home.all_logs(run.run_id)]
    assert sorted(messages) == sorted(f"{each.pid} wrote {number}" for each in writers for number in range(_EVENTS))
    deadline = time.monotonic() + 60
    while len(seen) < len(messages) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert seen == messages


def test_few_files_of_runs_stay_open_and_none_after_the_end(home: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "_OPEN_FILES", 4)
    for number in range(8):
        run = home.add_run(dg.DagsterRun("remember", run_id=str(uuid4())))
        home.report_engine_event(f"event {number}", run)
    assert _open_files(home.root_directory) <= 2 * 3 * 4
    home.dispose()
    assert _open_files(home.root_directory) == 0


def test_a_table_is_looked_for_over_a_connection_of_its_own_only_once(
    home: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    events, looked, look = home.event_log_storage, list[str](), SqliteEventLogStorage.has_table
    assert isinstance(events, SqliteEventLogStorage)

    def note(self: SqliteEventLogStorage, table_name: str) -> bool:
        looked.append(table_name)
        return look(self, table_name)

    monkeypatch.setattr(SqliteEventLogStorage, "has_table", note)
    assert not events.has_table("no_such_table")
    assert [events.supports_asset_checks for _ in range(3)] == [True] * 3
    assert looked == ["no_such_table", "asset_check_executions"]


def _open_files(folder: str) -> int:
    targets = [str(each.readlink()) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    return sum(target.startswith(folder) and ".db" in target for target in targets)
