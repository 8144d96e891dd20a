"""Where Dagster keeps its records: its own SQLite files, over connections that stay open.

Dagster connects anew for each statement, and SQLite then writes its log into the database and waits for the disk each time: half of a
run's time, and most of what an idle daemon costs. Here a power cut may lose the last records, which breaks none that came before.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from dagster._core.storage.event_log import SqliteEventLogStorage, SqlPollingEventWatcher
from dagster._core.storage.runs import SqliteRunStorage
from dagster._core.storage.schedules import SqliteScheduleStorage
from dagster._core.storage.sqlite import SQLITE_BUSY_TIMEOUT_SECONDS
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage
from dagster._serdes import ConfigurableClassData
from sqlalchemy import Connection, Engine, create_engine, event

from memory_assets.stores.records import prepare_records

_log = logging.getLogger(__name__)
_OPEN_FILES = 16
"""Each run has a file of its own."""
_engines: dict[str, Engine] = {}
"""By the address of a file, the one that was used last at the end."""


class Storage(DagsterSqliteStorage):
    """What `dagster.yaml` names as the storage."""

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
        """The storage in the folder of the configuration."""
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


class _InOneFile:
    _conn_string: str

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        with _transaction(self._conn_string) as connection:
            yield connection


class _Runs(_InOneFile, SqliteRunStorage): ...


class _Schedules(_InOneFile, SqliteScheduleStorage): ...


class _Events(SqliteEventLogStorage):
    """The UI follows a run by asking for its events, as the file of a run is no longer written for each of them."""

    def __init__(self, base_dir: str) -> None:
        super().__init__(base_dir)
        self._polling = SqlPollingEventWatcher(self)

    @contextmanager
    def _connect(self, shard: str) -> Iterator[Connection]:
        address = self.conn_string_for_shard(shard)
        with self._db_lock:
            if shard not in self._initialized_dbs:
                self._initdb(_engine(address))
                self._initialized_dbs.add(shard)
            with _transaction(address) as connection:
                yield connection

    def watch(self, run_id: str, cursor: str | None, callback: Callable[..., Any]) -> None:
        self._polling.watch_run(run_id, cursor, callback)

    def end_watch(self, run_id: str, handler: Callable[..., Any]) -> None:
        self._polling.unwatch_run(run_id, handler)

    def dispose(self) -> None:
        self._polling.close()
        while _engines:
            _engines.popitem()[1].dispose()
