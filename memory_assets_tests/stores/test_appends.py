"""Concurrent appends to one table: each row is stored once, whichever process committed it or was killed."""

import fcntl
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Collection
from pathlib import Path
from threading import Event, Thread

import pyarrow as pa
import pytest

from memory_assets.errors import StoreError
from memory_assets.stores.resident.appends import Appends

_FORK = multiprocessing.get_context("fork")
_SECONDS = 30.0


class Ledger:
    """A table as `Appends` sees one: commits are lines of a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def append(self, rows: pa.Table) -> int:
        time.sleep(0.005)
        with self.path.open("a") as file:
            file.write(" ".join(map(str, rows["id"].to_pylist())) + "\n")
        return len(self.commits())

    def commits(self) -> list[list[int]]:
        return [[int(each) for each in line.split()] for line in self.path.read_text().splitlines()]

    def has(self, ids: Collection[int]) -> bool:
        return any(set(ids) <= set(commit) for commit in self.commits())


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger")


def appends_to(ledger: Ledger) -> Appends:
    return Appends(ledger.path.parent / "cache/appends", ledger.has)


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def append_many(ledger: Ledger, first: int, count: int) -> None:
    appends = appends_to(ledger)
    for number in range(first, first + count):
        appends.commit(rows(number), ledger.append)


def wait_until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + _SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def waiting(ledger: Ledger) -> int:
    return len(list((ledger.path.parent / "cache/appends").glob("waiting-*")))


def test_what_several_processes_append_is_there_once_in_fewer_commits(ledger: Ledger) -> None:
    processes = [_FORK.Process(target=append_many, args=(ledger, 100 * number, 25)) for number in range(4)]
    for each in processes:
        each.start()
    for each in processes:
        each.join(_SECONDS)
    ids = [number for commit in ledger.commits() for number in commit]
    assert sorted(ids) == [100 * process + number for process in range(4) for number in range(25)]
    assert len(ledger.commits()) < len(ids)
    handed = appends_to(ledger).rows_of(range(1, len(ledger.commits()) + 1))
    assert handed is not None
    assert [each["id"].to_pylist() for each in handed] == ledger.commits()
    assert not waiting(ledger)


@pytest.mark.parametrize("after_commit", [False, True])
def test_a_commit_for_others_whose_process_is_killed_is_done_once(ledger: Ledger, after_commit: bool) -> None:
    appends = appends_to(ledger)
    appends.commit(rows(1), ledger.append)
    held = _FORK.Event()

    def append_and_die(together: pa.Table) -> int:
        assert together.num_rows == 3
        if after_commit:
            ledger.append(together)
        os.kill(os.getpid(), signal.SIGKILL)
        return 0

    def die() -> None:
        folder = os.open(ledger.path.parent / "cache/appends", os.O_RDONLY)
        fcntl.flock(folder, fcntl.LOCK_EX)
        held.set()
        wait_until(lambda: waiting(ledger) == 2)
        appends._commit(folder, None, rows(2), append_and_die)

    killed = _FORK.Process(target=die)
    killed.start()
    assert held.wait(_SECONDS)
    others = [Thread(target=append_many, args=(ledger, number, 1)) for number in (10, 20)]
    for each in others:
        each.start()
    killed.join(_SECONDS)
    for each in others:
        each.join(_SECONDS)
    ids = [number for commit in ledger.commits() for number in commit]
    assert killed.exitcode == -signal.SIGKILL
    assert sorted(ids) == [1, *([2] if after_commit else []), 10, 20]
    assert not waiting(ledger)


def test_rows_that_spoil_a_common_commit_are_refused_alone(ledger: Ledger) -> None:
    def append(given: pa.Table) -> int:
        if 13 in given["id"].to_pylist():
            raise StoreError("13 is refused.")
        return ledger.append(given)

    held, refused = Event(), list[str]()

    def hold(given: pa.Table) -> int:
        held.set()
        wait_until(lambda: waiting(ledger) == 3)
        return ledger.append(given)

    def attempt(number: int) -> None:
        try:
            appends_to(ledger).commit(rows(number), append)
        except StoreError as error:
            refused.append(str(error))

    threads = [Thread(target=appends_to(ledger).commit, args=(rows(1), hold))]
    threads[0].start()
    held.wait(_SECONDS)
    threads += [Thread(target=attempt, args=(number,)) for number in (12, 13, 14)]
    for each in threads[1:]:
        each.start()
    for each in threads:
        each.join(_SECONDS)
    assert refused == ["13 is refused."]
    assert sorted(number for commit in ledger.commits() for number in commit) == [1, 12, 14]
