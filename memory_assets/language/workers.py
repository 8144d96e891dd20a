"""Many texts analysed by a process a core, because spaCy holds its interpreter.

A child reads and writes pipes, and ends when its input ends, however the parent died. multiprocessing would import the parent's main module
again, and would leave its children waiting if the parent was killed.
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
"""Characters whose analysis takes a core twice as long as the start of a process."""
_MOST = 4
"""Processes; each takes 250 MB."""
_AT_ONCE = 10_000
"""Characters that a process is given, and analyses in one turn: nobody waits for it, and longer slices take a tenth less time."""

Outcome = Features | AnalysisError

_log = logging.getLogger(__name__)


def outcomes_of_many(analyzer: Analyzer, texts: Sequence[str], ready: "Workers | None" = None) -> Iterator[Outcome]:
    """As `Analyzer.outcomes`, by a process a core where that is sooner done; an error's index counts in what its process was given.

    What was given to a process that died is analysed here. `ready` is a process that has been started; it ends with the last text.
    """
    count = min(_MOST, os.cpu_count() or 1) if sum(map(len, texts)) >= _WORTH_WORKERS else 1
    if count == 1 and not ready:
        yield from analyzer.outcomes(texts)
        return
    _ = analyzer.gazetteer  # what is wrong with it is told here
    with closing(ready or Workers(analyzer)) as workers:
        workers.grow(count)
        coming = deque[Future[list[Outcome]]]()
        for chunk in in_chunks(texts, len, _AT_ONCE):
            coming.append(workers.submit(chunk))
            if len(coming) > 2 * count:
                yield from coming.popleft().result()
        while coming:
            yield from coming.popleft().result()


class Workers:
    """Children that wait for texts, and for each a thread that waits for its answer."""

    def __init__(self, analyzer: Analyzer) -> None:
        """Start one, which loads the pipeline before it is asked."""
        self._analyzer = analyzer
        self._workers: list[subprocess.Popen[bytes]] = []
        self._idle: SimpleQueue[subprocess.Popen[bytes] | None] = SimpleQueue()
        """None stands for one that has died."""
        self._strangers: set[subprocess.Popen[bytes]] = set()
        """Those that were not told yet which analyzer to be."""
        self._threads = ThreadPoolExecutor(_MOST, thread_name_prefix="analysing")
        self.closed = False
        """Whether it takes no more texts."""
        self.grow(1)
        self.submit(())

    def grow(self, count: int) -> None:
        """Have at least so many."""
        for _ in range(count - len(self._workers)):
            worker = _start()
            self._workers.append(worker)
            self._strangers.add(worker)
            self._idle.put(worker)

    def submit(self, texts: Sequence[str]) -> "Future[list[Outcome]]":
        """Have some texts analysed by whoever is idle first."""
        return self._threads.submit(self._analyse, texts)

    def close(self) -> None:
        """End the children, in the middle of a text if need be."""
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
            _log.warning("A process that analyses texts has died; its parent analyses its texts.")
        finally:
            self._idle.put(worker)
        return list(self._analyzer.outcomes(texts))

    def _ask(self, worker: "subprocess.Popen[bytes]", texts: Sequence[str]) -> "list[Outcome]":
        assert worker.stdin
        assert worker.stdout
        if worker in self._strangers:
            self._strangers.remove(worker)
            pickle.dump(self._analyzer, worker.stdin)
        pickle.dump(texts, worker.stdin)
        worker.stdin.flush()
        return pickle.load(worker.stdout)  # noqa: S301 - what this program's own child says


def _start() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        # -P: nothing is imported from the folder that a command is run in.
        [sys.executable, "-P", "-m", "memory_assets.language.workers"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for the parent, which ends its children
    )


def _main() -> None:
    """Answer each batch of texts on the input with its outcomes on the output, until there are no more or nobody listens."""
    given, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints is no answer
    try:
        analyzer: Analyzer = pickle.load(given)  # noqa: S301 - what this program's own parent says
        analyzer.turn_length = _AT_ONCE
        analyzer.load()
        while True:
            pickle.dump(list(analyzer.outcomes(pickle.load(given))), answers)  # noqa: S301
            answers.flush()
    except (EOFError, BrokenPipeError, MemoryAssetsError):
        os._exit(0)


if __name__ == "__main__":
    _main()
