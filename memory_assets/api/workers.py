"""The processes that answer for one service: forked from a parent that loaded what they share, and kept running by it."""

import asyncio
import gc
import logging
import math
import mmap
import os
import signal
import socket
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Thread

import numpy as np
import uvicorn

_log = logging.getLogger(__name__)

_ENDING = {signal.SIGTERM, signal.SIGINT}
_WATCHED = {*_ENDING, signal.SIGCHLD, signal.SIGALRM}
_SOON_SECONDS = 10.0
"""A worker that ended sooner is started again after a pause."""
_LONGEST_PAUSE_SECONDS = 30
_LOOK_SECONDS = 5.0
"""How often the parent looks for workers that hang."""
_HUNG_SECONDS = 30.0
"""A worker whose event loop stood still for so long is killed."""
_BEAT_SECONDS = 1.0


class Workers:
    """Forked processes that do the same work. The parent has no thread at work, so that a fork finds no lock held."""

    def __init__(
        self,
        count: int,
        work: Callable[[Callable[[], None]], object],
        on_end: Callable[[int], object],
        patience: float,
        hung: float = _HUNG_SECONDS,
    ) -> None:
        """Start nothing yet. `on_end` gets the id of each process that ended; after `patience` seconds one that shall end is killed.

        `work` gets what it must call again within `hung` seconds, or its process is killed and started again.
        """
        self._count = count
        self._work = work
        self._on_end = on_end
        self._patience = patience
        self._hung = hung
        self._lifeline, self._held = os.pipe()
        self._started: dict[int, float] = {}
        self._places: dict[int, int] = {}
        """By process: where it notes that it works."""
        self._beats = np.frombuffer(mmap.mmap(-1, 8 * count), np.float64)
        self._pause = 1

    def run(self) -> int:
        """Keep them running until SIGTERM or SIGINT, end all, and return the signal. None outlives this process."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
        try:
            warnings.filterwarnings("ignore", message="lancedb fork support")
            gc.collect()
            gc.freeze()  # the collector writes into what it visits, and what is written is shared no more
            self._start_missing()
            while (number := self._next_signal()) not in _ENDING:
                if number == signal.SIGCHLD:
                    self._note_ends()
                elif number == signal.SIGALRM:
                    self._start_missing()
                self._kill_hung()
            self._stop(number)
            return number
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _WATCHED)

    def _next_signal(self) -> int:
        """The next signal; 0 if none came for a while."""
        received = signal.sigtimedwait(_WATCHED, min(_LOOK_SECONDS, self._hung))
        return received.si_signo if received else 0

    def _start_missing(self) -> None:
        while len(self._started) < self._count:
            sys.stdout.flush()
            sys.stderr.flush()
            place = min(set(range(self._count)) - set(self._places.values()))
            self._beat(place)
            pid = os.fork()
            if not pid:
                self._be_worker(place)
            self._started[pid], self._places[pid] = time.monotonic(), place

    def _beat(self, place: int) -> None:
        self._beats[place] = time.monotonic()

    def _kill_hung(self) -> None:
        for pid, place in self._places.items():
            if time.monotonic() - self._beats[place] > self._hung:
                _log.error("worker %d has hung for %g seconds and is killed", pid, self._hung)
                self._beats[place] = math.inf  # once
                os.kill(pid, signal.SIGKILL)

    def _be_worker(self, place: int) -> None:
        """What a forked process does; it never returns."""
        status = 1
        try:
            os.close(self._held)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _WATCHED)
            Thread(target=self._end_with_parent, name="lifeline", daemon=True).start()
            self._work(partial(self._beat, place))
            status = 0
        except KeyboardInterrupt:
            status = 0
        except BaseException:  # noqa: BLE001 - the parent's code must not run here
            _log.exception("a worker failed")
        finally:
            os._exit(status)

    def _end_with_parent(self) -> None:
        os.read(self._lifeline, 1)  # ends when the parent does: nobody writes
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(self._patience)
        os._exit(1)

    def _note_ends(self) -> None:
        for pid, since in list(self._started.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if not ended:
                continue
            del self._started[pid], self._places[pid]
            self._on_end(pid)
            how = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit {os.WEXITSTATUS(status)}"
            _log.warning("worker %d ended (%s) and is started again", pid, how)
            if time.monotonic() - since > _SOON_SECONDS:
                self._pause = 1
                self._start_missing()
            else:
                signal.alarm(self._pause)
                self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS)

    def _stop(self, number: int) -> None:
        signal.alarm(0)
        ended_at = time.monotonic() + self._patience
        self._signal(number)
        while self._started:
            signal.alarm(max(1, round(ended_at - time.monotonic())))
            number = signal.sigwait(_WATCHED)
            if number != signal.SIGCHLD:
                self._signal(signal.SIGKILL if number == signal.SIGALRM else number)
            for pid in [pid for pid in self._started if os.waitpid(pid, os.WNOHANG)[0]]:
                del self._started[pid]
        signal.alarm(0)

    def _signal(self, number: int) -> None:
        for pid in self._started:
            with suppress(ProcessLookupError):
                os.kill(pid, number)


class SharingServer(uvicorn.Server):
    """Accepts one connection at a time from a socket that several processes listen on, so that each gets its share of the clients.

    asyncio accepts as many at once as the backlog in `uvicorn.Config` says, which must be 1. uvloop accepts all that wait.
    """

    def __init__(self, config: uvicorn.Config, waiting_connections: int, beat: Callable[[], None]) -> None:
        """`beat` is called every second, until the last request is answered."""
        super().__init__(config)
        self._waiting_connections = waiting_connections
        self._beat = beat

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Let the sockets hold as many waiting connections as before."""
        await super().startup(sockets)
        self._beating = asyncio.create_task(self._keep_beating())
        for each in sockets or ():
            each.listen(self._waiting_connections)

    async def _keep_beating(self) -> None:
        while True:
            self._beat()
            await asyncio.sleep(_BEAT_SECONDS)
