"""Analysis of many texts in one process per core, because spaCy holds the GIL.

A child communicates through pipes and ends when its input ends, however the parent died. multiprocessing would import the parent's main
module again, and would leave its children waiting if the parent was killed.
"""

import logging
import os
import pickle
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from queue import SimpleQueue

from memory_assets.errors import MemoryAssetsError
from memory_assets.language.pipeline import AnalysisError, Analyzer, in_chunks
from memory_assets.models import Features

_WORTH_WORKERS = 100_000
"""Characters from which more processes pay: analysing them takes twice as long as starting a process."""
_MAX_WORKERS = 4
"""Each process takes 250 MB."""
_CHUNK_LENGTH = 10_000
"""Characters that a process analyses in one turn: no other thread waits there, and longer slices take a tenth less time."""

Outcome = Features | AnalysisError

_log = logging.getLogger(__name__)


def outcomes_of_many(analyzer: Analyzer, texts: Sequence[str], ready: "Workers | None" = None) -> Iterator[Outcome]:
    """Yield as `Analyzer.outcomes`, in one process per core if that is faster; an error's index counts within its process's chunk.

    If a process dies, its texts are analysed here. `ready` is an already started pool; it is closed after the last text.
    """
    count = min(_MAX_WORKERS, os.cpu_count() or 1) if sum(map(len, texts)) >= _WORTH_WORKERS else 1
    if count == 1 and not ready:
        yield from analyzer.outcomes(texts)
        return
    _ = analyzer.gazetteer  # raises its errors here, not in a child
    with closing(ready or Workers(analyzer)) as workers:
        workers.grow(count)
        pending = deque[Future[list[Outcome]]]()
        for chunk in in_chunks(texts, len, _CHUNK_LENGTH):
            pending.append(workers.submit(chunk))
            if len(pending) > 2 * count:
                yield from pending.popleft().result()
        while pending:
            yield from pending.popleft().result()


class Workers:
    """A pool of child processes, with one thread for each that waits for its results."""

    def __init__(self, analyzer: Analyzer) -> None:
        """Start one child, which loads the pipeline before its first text."""
        self._analyzer = analyzer
        self._workers: list[subprocess.Popen[bytes]] = []
        self._idle: SimpleQueue[subprocess.Popen[bytes] | None] = SimpleQueue()
        """Idle children; None for one that has died."""
        self._uninitialised: set[subprocess.Popen[bytes]] = set()
        """Children that have not received the analyzer yet."""
        self._threads = ThreadPoolExecutor(_MAX_WORKERS, thread_name_prefix="analysing")
        self.closed = False
        """Whether the pool accepts no more texts."""
        self.grow(1)
        self.submit(())

    def grow(self, count: int) -> None:
        """Start children until there are at least `count`."""
        for _ in range(count - len(self._workers)):
            worker = _start()
            self._workers.append(worker)
            self._uninitialised.add(worker)
            self._idle.put(worker)

    def submit(self, texts: Sequence[str]) -> "Future[list[Outcome]]":
        """Analyse some texts in the first idle child."""
        return self._threads.submit(self._analyse, texts)

    def close(self) -> None:
        """Kill the children, even in the middle of a text."""
        self.closed = True
        for worker in self._workers:
            worker.kill()
        self._threads.shutdown(cancel_futures=True)
        for worker in self._workers:
            with suppress(BrokenPipeError), worker:
                pass

    def _analyse(self, texts: Sequence[str]) -> "list[Outcome]":
        worker = self._idle.get()
        try:
            if worker:
                return self._ask(worker, texts)
        except (OSError, EOFError, pickle.UnpicklingError):
            if self.closed:
                return []
            worker = None
            _log.warning("A process that analyses texts has died; the parent process analyses its texts.")
        finally:
            self._idle.put(worker)
        return list(self._analyzer.outcomes(texts))

    def _ask(self, worker: "subprocess.Popen[bytes]", texts: Sequence[str]) -> "list[Outcome]":
        assert worker.stdin
        assert worker.stdout
        if worker in self._uninitialised:
            self._uninitialised.remove(worker)
            pickle.dump(self._analyzer, worker.stdin)
        pickle.dump(texts, worker.stdin)
        worker.stdin.flush()
        return pickle.load(worker.stdout)  # noqa: S301 - written by this program's own child


def _start() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        # -P: import nothing from the working directory.
        [sys.executable, "-P", "-m", "memory_assets.language.workers"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C reaches only the parent, which ends its children
    )


def _main() -> None:
    """Read batches of texts from stdin and write their outcomes to stdout, until either pipe is closed."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # keep what libraries print out of the answers
    try:
        analyzer: Analyzer = pickle.load(requests)  # noqa: S301 - written by this program's own parent
        analyzer.turn_length = _CHUNK_LENGTH
        analyzer.load()
        while True:
            pickle.dump(list(analyzer.outcomes(pickle.load(requests))), answers)  # noqa: S301
            answers.flush()
    except (EOFError, BrokenPipeError, MemoryAssetsError):
        os._exit(0)


if __name__ == "__main__":
    _main()
