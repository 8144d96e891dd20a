"""Worker processes of a service. A parent loads what they share, forks them, and restarts those that end."""

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
from typing import NoReturn

import numpy as np
import uvicorn

_log = logging.getLogger(__name__)

_STOP_SIGNALS = {signal.SIGTERM, signal.SIGINT}
_HANDLED_SIGNALS = {*_STOP_SIGNALS, signal.SIGCHLD, signal.SIGALRM}
_EARLY_SECONDS = 10.0
"""A worker that ends earlier is restarted after a pause."""
_MAX_PAUSE_SECONDS = 30
_HANG_CHECK_SECONDS = 5.0
_HUNG_SECONDS = 30.0
"""Time without a heartbeat after which a worker is killed."""
_HEARTBEAT_SECONDS = 1.0


class Workers:
    """Forked processes that do the same work. No other thread of the parent is at work, so that no lock is held at a fork."""

    def __init__(
        self, count: int, work: Callable[[Callable[[], None]], object], on_end: Callable[[int], object], patience: float
    ) -> None:
        """Prepare `count` workers without starting them.

        `work` is called in each with a function that it must call again within half a minute, or the process is killed and replaced.
        `on_end` is called with the id of each ended process. At shutdown a worker is killed after `patience` seconds.
        """
        self._count = count
        self._work = work
        self._on_end = on_end
        self._patience = patience
        self._lifeline, self._held = os.pipe()
        self._started: dict[int, float] = {}
        self._slots: dict[int, int] = {}
        """Process id -> index of its heartbeat."""
        self._heartbeats = np.frombuffer(mmap.mmap(-1, 8 * count), np.float64)
        self._pause = 1
        self._looked_at = time.monotonic()

    def run(self) -> int:
        """Keep the workers running until SIGTERM or SIGINT, stop them, and return the signal. No worker outlives this process."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED_SIGNALS)
        try:
            warnings.filterwarnings("ignore", message="lancedb fork support")
            gc.collect()
            gc.freeze()  # the collector writes into the objects it visits, which unshares their memory pages
            self._start_missing()
            while (number := self._next_signal()) not in _STOP_SIGNALS:
                if number == signal.SIGCHLD:
                    self._restart_ended()
                elif number == signal.SIGALRM:
                    self._start_missing()
                self._kill_hung()
            self._stop(number)
            return number
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED_SIGNALS)

    def _next_signal(self) -> int:
        """Wait for the next signal; return 0 after a timeout."""
        received = signal.sigtimedwait(_HANDLED_SIGNALS, min(_HANG_CHECK_SECONDS, _HUNG_SECONDS))
        return received.si_signo if received else 0

    def _start_missing(self) -> None:
        while len(self._started) < self._count:
            sys.stdout.flush()
            sys.stderr.flush()
            slot = min(set(range(self._count)) - set(self._slots.values()))
            self._beat(slot)
            pid = os.fork()
            if not pid:
                self._run_worker(slot)
            self._started[pid], self._slots[pid] = time.monotonic(), slot

    def _beat(self, slot: int) -> None:
        self._heartbeats[slot] = time.monotonic()

    def _kill_hung(self) -> None:
        looked_at, self._looked_at = self._looked_at, time.monotonic()
        if self._looked_at - looked_at > 2 * _HANG_CHECK_SECONDS:  # stopped together with its workers, as by Ctrl-Z
            self._heartbeats[np.isfinite(self._heartbeats)] = self._looked_at
        for pid, slot in self._slots.items():
            if time.monotonic() - self._heartbeats[slot] > _HUNG_SECONDS:
                _log.error("worker %d has hung for %g seconds and is killed", pid, _HUNG_SECONDS)
                self._heartbeats[slot] = math.inf  # kill it only once
                os.kill(pid, signal.SIGKILL)

    def _run_worker(self, slot: int) -> NoReturn:
        status = 1
        try:
            os.close(self._held)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED_SIGNALS)
            Thread(target=self._end_with_parent, name="lifeline", daemon=True).start()
            self._work(partial(self._beat, slot))
            status = 0
        except KeyboardInterrupt:
            status = 0
        except BaseException:  # noqa: BLE001 - the parent's code must not run here
            _log.exception("a worker failed")
        finally:
            os._exit(status)

    def _end_with_parent(self) -> None:
        os.read(self._lifeline, 1)  # returns when the parent exits, as nobody writes
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(self._patience)
        os._exit(1)

    def _restart_ended(self) -> None:
        for pid, since in list(self._started.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if not ended:
                continue
            del self._started[pid], self._slots[pid]
            self._on_end(pid)
            how = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit {os.WEXITSTATUS(status)}"
            _log.warning("worker %d ended (%s) and is started again", pid, how)
            if time.monotonic() - since > _EARLY_SECONDS:
                self._pause = 1
                self._start_missing()
            else:
                signal.alarm(self._pause)
                self._pause = min(2 * self._pause, _MAX_PAUSE_SECONDS)

    def _stop(self, number: int) -> None:
        signal.alarm(0)
        ended_at = time.monotonic() + self._patience
        self._signal(number)
        while self._started:
            signal.alarm(max(1, round(ended_at - time.monotonic())))
            number = signal.sigwait(_HANDLED_SIGNALS)
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
    """Server that accepts one connection at a time from a shared listening socket, so that each process gets its share of the clients.

    asyncio accepts as many connections at once as the `backlog` of `uvicorn.Config`, which must be 1. uvloop accepts all waiting ones.
    """

    def __init__(self, config: uvicorn.Config, waiting_connections: int, beat: Callable[[], None]) -> None:
        """Prepare the server; `beat` is called every second until the last request is answered."""
        super().__init__(config)
        self._waiting_connections = waiting_connections
        self._beat = beat

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and restore the sockets' queue of waiting connections, which uvicorn sets to its backlog."""
        await super().startup(sockets)
        self._beating = asyncio.create_task(self._keep_beating())
        for each in sockets or ():
            each.listen(self._waiting_connections)

    async def _keep_beating(self) -> None:
        while True:
            self._beat()
            await asyncio.sleep(_HEARTBEAT_SECONDS)
