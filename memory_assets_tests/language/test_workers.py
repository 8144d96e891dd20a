"""Parallel analysis of many texts in worker processes."""

import subprocess
import sys

import pytest

from memory_assets.errors import SettingsError
from memory_assets.language import workers
from memory_assets.language.pipeline import AnalysisError, Analyzer, open_analyzer
from memory_assets.language.workers import Workers, outcomes_of_many

TEXTS = [f"Priya moved the export of Zorblax in week {number}. Ask Tomasz who blamed the backup." for number in range(40)]
PARENT = """
from memory_assets.language import workers
from memory_assets.language.pipeline import open_analyzer
workers._WORTH_WORKERS = workers._CHUNK_LENGTH = 1
for _ in workers.outcomes_of_many(open_analyzer(), ["Priya moved the export."] * 50_000):
    print("working", flush=True)
"""


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> "list[subprocess.Popen[bytes]]":
    """The workers, with a threshold so low that a few texts already use them."""
    children: list[subprocess.Popen[bytes]] = []
    start = workers._start

    def noted() -> "subprocess.Popen[bytes]":
        children.append(start())
        return children[-1]

    monkeypatch.setattr(workers, "_start", noted)
    monkeypatch.setattr(workers, "_WORTH_WORKERS", 1)
    monkeypatch.setattr(workers, "_CHUNK_LENGTH", 200)
    monkeypatch.setattr(workers.os, "cpu_count", lambda: 2)
    return children


def test_workers_find_in_order_what_one_process_finds_and_know_the_same_names(
    started: "list[subprocess.Popen[bytes]]", caplog: pytest.LogCaptureFixture
) -> None:
    named = open_analyzer(known_names={"Zorblax": "PROJECT"})
    found = list(outcomes_of_many(named, TEXTS))
    assert found == named.analyze_batch(TEXTS)
    assert not caplog.records
    assert [worker.returncode for worker in started] == [-9, -9]


def test_what_a_worker_that_was_killed_had_is_analysed_all_the_same(
    analyzer: Analyzer, started: "list[subprocess.Popen[bytes]]", caplog: pytest.LogCaptureFixture
) -> None:
    outcomes = outcomes_of_many(analyzer, TEXTS)
    found = [next(outcomes)]
    for worker in started:
        worker.kill()
    assert found + list(outcomes) == analyzer.analyze_batch(TEXTS)
    assert len(caplog.records) == 2


def test_one_that_was_started_ahead_reads_a_few_texts_and_one_that_cannot_load_leaves_them_to_its_parent(
    analyzer: Analyzer, started: "list[subprocess.Popen[bytes]]", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "_WORTH_WORKERS", 1_000_000)
    ready = Workers(analyzer)
    assert list(outcomes_of_many(analyzer, TEXTS, ready)) == analyzer.analyze_batch(TEXTS)
    assert len(started) == 1
    assert ready.closed
    broken = Analyzer("broken", "/no/such/folder", "broken", (), {})
    with pytest.raises(SettingsError, match="cannot be loaded"):
        list(outcomes_of_many(broken, TEXTS, Workers(broken)))
    assert all(worker.returncode is not None for worker in started)


def test_workers_end_when_nobody_asks_any_more(
    analyzer: Analyzer, started: "list[subprocess.Popen[bytes]]", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers.os, "cpu_count", lambda: 1)
    outcomes = outcomes_of_many(analyzer, TEXTS, Workers(analyzer))
    next(outcomes)
    outcomes.close()  # pyright: ignore[reportAttributeAccessIssue]
    assert [worker.returncode for worker in started] == [-9]


def test_workers_end_with_a_parent_that_was_killed() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert parent.stdout
    parent.stdout.readline()
    parent.kill()
    _, complaints = parent.communicate(timeout=60)  # the end of what its workers have open, too
    assert complaints == b""


def test_an_error_of_a_text_comes_whole_out_of_another_process() -> None:
    error = AnalysisError(3, "IndexError: out of words")
    copy = workers.pickle.loads(workers.pickle.dumps(error))
    assert (str(copy), copy.index) == (str(error), 3)
