"""Dagster's storage: its own SQLite files, over connections that stay open.

Dagster opens a connection for each statement, and SQLite then checkpoints its log and waits for the disk each time: half of a run's
time, and most of the cost of an idle daemon. With open connections a power cut may lose the last records, but damages no earlier one.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from dagster._core.storage.event_log import SqliteEventLogStorage, SqlPollingEventWatcher
from dagster._core.storage.event_log.schema import DynamicPartitionsTable
from dagster._core.storage.runs import SqliteRunStorage
from dagster._core.storage.schedules import SqliteScheduleStorage
from dagster._core.storage.sqlite import SQLITE_BUSY_TIMEOUT_SECONDS
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage
from dagster._serdes import ConfigurableClassData
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.dialects.sqlite import insert

from memory_assets.stores.records import prepare_records

_log = logging.getLogger(__name__)
_OPEN_FILES = 16
"""Engines kept open; each run has its own file."""
_engines: dict[str, Engine] = {}
"""By address of the file, the most recently used last."""


class Storage(DagsterSqliteStorage):
    """Storage that `dagster.yaml` names."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        for sentence in prepare_records(Path(base_dir), lambda new: DagsterSqliteStorage(str(new)).dispose()):
            _log.warning("memory: %s", sentence)
        super().__init__(base_dir, inst_data)
        runs, events, schedules = self._run_storage, self._event_log_storage, self._schedule_storage
        self._run_storage = _Runs(runs._conn_string)
        self._event_log_storage = _Events(events._base_dir)
        self._schedule_storage = _Schedules(schedules._conn_string)

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]) -> Self:
        return cls.from_local(config_value["base_dir"], inst_data)


def _engine(address: str) -> Engine:
    if (engine := _engines.pop(address, None)) is None:
        engine = create_engine(address, connect_args={"timeout": SQLITE_BUSY_TIMEOUT_SECONDS})
        event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA synchronous = NORMAL"))
    _engines[address] = engine
    if len(_engines) > _OPEN_FILES:
        _engines.pop(next(iter(_engines))).dispose()
    return engine


@contextmanager
def _transaction(address: str) -> Iterator[Connection]:
    with _engine(address).connect() as connection, connection.begin():
        yield connection


class _OneFileStorage:
    _conn_string: str

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        with _transaction(self._conn_string) as connection:
            yield connection


class _Runs(_OneFileStorage, SqliteRunStorage): ...


class _Schedules(_OneFileStorage, SqliteScheduleStorage): ...


class _Events(SqliteEventLogStorage):
    """Event log that the UI polls, because a run's file is not written for each event."""

    def __init__(self, base_dir: str) -> None:
        self._tables_found: set[str] = set()
        super().__init__(base_dir)
        self._polling = SqlPollingEventWatcher(self)

    def has_table(self, table_name: str) -> bool:
        """Return whether a table exists. Dagster asks before it stores an event and opens a connection to look; no table is dropped."""
        if table_name not in self._tables_found and super().has_table(table_name):
            self._tables_found.add(table_name)
        return table_name in self._tables_found

    @contextmanager
    def _connect(self, shard: str) -> Iterator[Connection]:
        address = self.conn_string_for_shard(shard)
        with self._db_lock:
            if shard not in self._initialized_dbs:
                self._initdb(_engine(address))
                self._initialized_dbs.add(shard)
            with _transaction(address) as connection:
                yield connection

    def add_dynamic_partitions(self, partitions_def_name: str, partition_keys: Sequence[str]) -> None:
        """Add partitions; one that is there, or that another process adds meanwhile, is no error, as in Dagster's PostgreSQL storage."""
        self._check_partitions_table()
        rows = [{"partitions_def_name": partitions_def_name, "partition": key} for key in partition_keys]
        if rows:
            with self.index_connection() as connection:
                connection.execute(insert(DynamicPartitionsTable).on_conflict_do_nothing(), rows)

    def watch(self, run_id: str, cursor: str | None, callback: Callable[..., Any]) -> None:
        self._polling.watch_run(run_id, cursor, callback)

    def end_watch(self, run_id: str, handler: Callable[..., Any]) -> None:
        self._polling.unwatch_run(run_id, handler)

    def dispose(self) -> None:
        self._polling.close()
        while _engines:
            _engines.popitem()[1].dispose()
