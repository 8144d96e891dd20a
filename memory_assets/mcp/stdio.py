"""MCP over standard input and output: one JSON message a line."""

import json
import os
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from threading import Event, Lock, Thread
from typing import BinaryIO

from memory_assets.mcp.protocol import PARSE_ERROR, Message, Server, encode_message, error_response
from memory_assets.mcp.tools import Session
from memory_assets.operations.take_in import SourceWatch
from memory_assets.sources.projects import Project
from memory_assets.tenants import Tenant

_THREADS = 4
"""Concurrent calls, and as many that use the embedder; other requests are answered at once on the reading thread."""


def serve(tenant: Tenant, here: Project | None) -> None:
    """Answer the messages on standard input until it ends, then finish running calls. `here` is the current project.

    Other output to standard output is redirected to standard error, so that it cannot break a message.
    """
    watch, is_ready = SourceWatch(tenant), Event()
    server = Server(Session(tenant, here, on_written=watch.notice, is_ready=is_ready))
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as sink, suppress(KeyboardInterrupt, BrokenPipeError):
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        _Connection(server, sink, partial(_warm_up, tenant, watch, is_ready.set)).run(sys.stdin.buffer)
    watch.stop()


def _warm_up(tenant: Tenant, watch: SourceWatch, on_ready: Callable[[], object] = lambda: None) -> None:
    """Load models and indices before the first calls need them, renew a lost brief, and watch the sources.

    Calls `on_ready` once a prompt can be answered. Faults, also those of an import that a call does at once, are left to the calls.
    """
    with suppress(Exception):
        _load_for_prompts(tenant)
    on_ready()
    with suppress(Exception):
        tenant.analyzer.analyze("Alice warmed up the service.")
    with suppress(Exception):
        from memory_assets.learn.briefing import ensure_brief

        ensure_brief(tenant)
    watch.start()
    _load_modules()


def _load_for_prompts(tenant: Tenant) -> None:
    from memory_assets.language import classifier
    from memory_assets.language.embedders import describe_choice
    from memory_assets.language.tokens import load_encoding
    from memory_assets.operations import prompt  # noqa: F401
    from memory_assets.recall.search import search

    classifier.load("prompts")
    load_encoding()
    if describe_choice(tenant.settings.embedder).offline:
        search(tenant, "warm", limit=1) if tenant.exists else tenant.embedder.embed(["warm"])


def _load_modules() -> None:
    """Load the modules and files of the daily tools, so that they work although the program is replaced."""
    from memory_assets.context.lenses import bundled_lenses
    from memory_assets.language import intervals  # noqa: F401
    from memory_assets.operations import changes, context, health, search, show, store, undo  # noqa: F401
    from memory_assets.stores import group_commit  # noqa: F401

    bundled_lenses()


class _Connection:
    """One client's connection."""

    def __init__(self, server: Server, sink: BinaryIO, warm_up: Callable[[], object]) -> None:
        self._server = server
        self._sink = sink
        self._writing = Lock()
        self._warming = Thread(target=warm_up, name="mcp-warm-up", daemon=True)
        self._calls: dict[str | int, Future[Message | None]] = {}

    def run(self, source: Iterable[bytes]) -> None:
        with ThreadPoolExecutor(_THREADS, "memory-mcp") as threads, ThreadPoolExecutor(_THREADS, "memory-embedding") as waiting:
            for line in source:
                if line.strip():
                    self._handle(line, threads, waiting)
                if not self._warming.ident:
                    self._warming.start()

    def _handle(self, line: bytes, threads: ThreadPoolExecutor, waiting: ThreadPoolExecutor) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            self._send(error_response(None, PARSE_ERROR, "A line is not JSON."))
            return
        method = message.get("method") if isinstance(message, dict) else None
        number = message.get("id") if isinstance(message, dict) else None
        if method == "notifications/cancelled":
            # The call gets no answer, but runs to its end, because a memory is stored whole or not at all.
            cancelled = params.get("requestId") if isinstance(params := message.get("params"), dict) else None
            if isinstance(cancelled, str | int) and (call := self._calls.pop(cancelled, None)):
                call.cancel()
        elif method == "tools/call" and isinstance(number, str | int):
            tool = self._server.called_tool(message)
            pool = waiting if tool and tool.asks_embedder else threads
            call = self._calls[number] = pool.submit(self._server.answer, message)
            call.add_done_callback(partial(self._finish, number))
        else:
            self._send(self._server.answer(message))

    def _finish(self, number: str | int, call: "Future[Message | None]") -> None:
        if self._calls.pop(number, None) is call and not call.cancelled():
            self._send(call.result())

    def _send(self, message: Message | None) -> None:
        if message is None:
            return
        with self._writing, suppress(BrokenPipeError, ValueError):
            self._sink.write(encode_message(message) + b"\n")
            self._sink.flush()
