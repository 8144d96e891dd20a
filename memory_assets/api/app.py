"""The service as an ASGI application: its setup, its listening socket, and its shutdown."""

import asyncio
import ctypes
import fcntl
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from hmac import compare_digest
from http import HTTPStatus
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any

import pyarrow as pa
import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi_offline import FastAPIOffline
from starlette.exceptions import HTTPException

from memory_assets.api import models
from memory_assets.api.errors import answer_error
from memory_assets.api.logs import configure_logging
from memory_assets.api.middleware import LOST_FOLDER, BodyLimit, HostCheck, Metrics, RateLimit, RequestRecord, is_loopback
from memory_assets.api.pool import TenantPool
from memory_assets.api.routes import router
from memory_assets.api.workers import SharingServer, Workers
from memory_assets.errors import MemoryAssetsError, SettingsError
from memory_assets.ports import bind_port, listen
from memory_assets.settings import EXIT_SECONDS, FINISH_SECONDS, Settings
from memory_assets.stores.deferred import import_lancedb
from memory_assets.stores.files import disk_fault
from memory_assets.stores.keys import KeyStore
from memory_assets.stores.layout import CACHE
from memory_assets.stores.locks import locked
from memory_assets.stores.resident.copies import remove_copies
from memory_assets.tenants import open_states, tenant_names

_DESCRIPTION = """Stores, finds and relates what an AI assistant remembers.

Every route of a tenant needs one of its keys in the header `X-API-Key`. Every answer has an `X-Request-ID`, and every error is
`{"error", "request_id"}`."""
_SWITCH_SECONDS = 0.0005
"""Interval at which a thread doing language work releases the interpreter, so that short steps of other threads do not wait."""
_M_ARENA_MAX, _M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD = -8, -3, -1
"""Parameters of glibc's mallopt(3)."""
_LARGE_BYTES = 2 << 20
_FREE_BYTES = 8 << 20
"""Free memory that a process keeps for its next request. Setting a threshold for large blocks would otherwise fix this at 128 kB."""
_PRELOADED_MODULES = ("duckdb", "numpy.ma", "memory_assets.language.intervals")
_WAITING_CONNECTIONS = 2048
_COUNTS = "memory-metrics-"


def create_app(
    settings: Settings, mount_pages: Callable[[FastAPI], None] | None = None, counted_in: Path | None = None
) -> FastAPI:
    """Return the service for the data folder of `settings`; nothing is opened before the first request. `mount_pages` adds HTML pages.

    Processes forked from this one share rates and sessions in memory, and metrics in files of the folder `counted_in`.
    """
    app = FastAPIOffline(
        title="Memory",
        description=_DESCRIPTION,
        version=version("memory_assets"),
        lifespan=_lifespan,
        redoc_url=None,
        static_url="/docs/static",
        swagger_ui_parameters={"validatorUrl": None},
        redirect_slashes=False,
        telemetry={"auto_configure": False, "tracing": False, "metrics": False, "logs": False},
    )
    app.state.settings = settings
    app.state.metrics = Metrics(counted_in)
    app.state.pool = TenantPool(settings, app.state.metrics)
    app.state.rate_limit = RateLimit(settings.rate_limit)
    for kind in (RequestValidationError, HTTPException, MemoryAssetsError, Exception):
        app.add_exception_handler(kind, answer_error)
    app.add_middleware(BodyLimit, most_bytes=settings.max_body_bytes, seconds=settings.request_timeout)
    app.add_middleware(HostCheck, names={settings.host, *settings.allowed_hosts})
    app.add_middleware(RequestRecord, metrics=app.state.metrics)
    app.add_api_route("/api/v1/health", _health, response_model=models.ServiceHealth, responses=_UNHEALTHY, name="health")
    app.add_api_route("/api/v1/health", _health, methods=["HEAD"], include_in_schema=False)
    app.add_api_route("/metrics", _metrics, include_in_schema=False)
    app.include_router(router)
    if mount_pages:
        mount_pages(app)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    upkeep = asyncio.create_task(app.state.pool.keep_up())
    stopping = Event()
    app.state.pool.watch_sources(stopping)
    yield
    stopping.set()
    await app.state.pool.close(upkeep)
    if app.state.settings.workers == 1:
        await asyncio.to_thread(_remove_copies, app.state.settings)


_UNHEALTHY: dict[int | str, dict[str, Any]] = {
    HTTPStatus.SERVICE_UNAVAILABLE.value: {"model": models.ErrorOut, "description": "The service cannot work."}
}


async def _health(request: Request) -> models.ServiceHealth:
    """Whether the service works. Needs no key and tells nothing about any tenant."""
    settings = request.app.state.settings
    folder, has_tables = settings.data_dir, "://" not in (settings.vectors_uri or "")
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, LOST_FOLDER)
    if fault := await asyncio.to_thread(disk_fault, folder, has_tables=has_tables):
        raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, f"store: {fault}")
    if request.method != "HEAD" and (fault := await request.app.state.pool.embedder_fault()):
        raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, f"embedding: {fault}.")
    return models.ServiceHealth(status="healthy", version=request.app.version)


async def _metrics(request: Request) -> Response:
    token, local = request.app.state.settings.metrics_token, request.scope.get("server")
    if token is None:
        if not local or not is_loopback(local[0]):
            raise HTTPException(HTTPStatus.NOT_FOUND, "Not Found")
    elif not compare_digest(f"Bearer {token.get_secret_value()}".encode(), request.headers.get("Authorization", "").encode()):
        raise HTTPException(HTTPStatus.UNAUTHORIZED, "Unauthorized: send the metrics token as a bearer token.")
    metrics: Metrics = request.app.state.metrics
    return Response(metrics.exposition(), media_type=metrics.content_type)


def serve(
    settings: Settings, announce: Callable[[str, bool], None], mount_pages: Callable[[FastAPI], None] | None = None
) -> None:
    """Serve until SIGINT or SIGTERM, and finish accepted requests.

    Once the service is reachable, `announce` is called with its address and whether some tenant has a key. `mount_pages` adds HTML pages.
    Raise SettingsError if the address cannot be bound, or is not loopback while no tenant has a key.
    """
    keyed = any(key.active for name in tenant_names(settings) for key in KeyStore(open_states(settings).open(name)).list())
    listener = bind_port(settings.host, settings.port, "MEMORY_HOST or --host", "PORT or --port")
    host, port = listener.getsockname()[:2]
    if not keyed and not is_loopback(host):
        listener.close()
        raise SettingsError(
            f"The service does not listen on {settings.host} while no tenant has a key; run `memory key create` first, or set "
            "MEMORY_HOST to 127.0.0.1."
        )
    _limit_arenas(1 if settings.workers > 1 else 2)
    configure_logging(settings.log_level, settings.log_format)
    settings.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    _remove_copies(settings)  # those of a killed service may hold what was erased since
    sys.setswitchinterval(_SWITCH_SECONDS)
    count = settings.workers
    with _open_counts(settings) as folder:
        app = create_app(settings, mount_pages, folder)
        app.state.pool.warm_up()
        config = uvicorn.Config(
            app,
            loop="asyncio",
            http="httptools",
            ws="none",
            backlog=1 if count > 1 else _WAITING_CONNECTIONS,
            limit_concurrency=settings.max_connections,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=FINISH_SECONDS,
            lifespan="on",
        )
        listen(listener, _WAITING_CONNECTIONS, "PORT or --port")
        announce(f"http://{f'[{host}]' if ':' in host else host}:{port}", keyed)
        if count == 1:
            uvicorn.Server(config).run(sockets=[listener])
            return
        import_lancedb()  # once for all workers, as are the following modules
        for module in _PRELOADED_MODULES:
            import_module(module)
        open_states(settings).close()
        pa.default_memory_pool().release_unused()
        _call_libc("malloc_trim", 0)  # otherwise each worker that writes into a free page copies it

        def work(beat: Callable[[], None]) -> None:
            SharingServer(config, _WAITING_CONNECTIONS, beat).run(sockets=[listener])

        number = Workers(count, work, app.state.metrics.forget_process, FINISH_SECONDS + EXIT_SECONDS).run()
        _remove_copies(settings)
    if signal.getsignal(number) is signal.SIG_IGN:  # a shell sets this for background processes
        signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)


@contextmanager
def _open_counts(settings: Settings) -> Iterator[Path | None]:
    """Yield a locked folder for the counts of several workers, None for one; remove the folders of killed services."""
    if settings.workers == 1:
        yield None
        return
    place = settings.data_dir / "tmp"
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    while True:
        with (
            TemporaryDirectory(prefix=_COUNTS, dir=place, ignore_cleanup_errors=True) as name,
            locked(folder := Path(name)) as is_there,
        ):
            if not is_there:  # another service took it for one that was left
                continue
            for left in place.glob(f"{_COUNTS}*"):
                with suppress(OSError), locked(left, fcntl.LOCK_EX | fcntl.LOCK_NB):
                    if left != folder:
                        shutil.rmtree(left)
            yield folder
            return


def _remove_copies(settings: Settings) -> None:
    """Remove the copies of table contents; another service recreates its own."""
    for folder in settings.data_dir.glob(f"*/{CACHE}"):  # includes tenants that were deleted elsewhere
        remove_copies(folder)


def _limit_arenas(arenas: int) -> None:
    """Make all threads and Arrow allocate from a few arenas instead of one each, and return large blocks at once, to keep little unused."""
    pa.set_memory_pool(pa.system_memory_pool())
    _call_libc("mallopt", _M_ARENA_MAX, arenas)
    _call_libc("mallopt", _M_MMAP_THRESHOLD, _LARGE_BYTES)
    _call_libc("mallopt", _M_TRIM_THRESHOLD, _FREE_BYTES)


def _call_libc(name: str, *arguments: int) -> None:
    """Call a function that only glibc has, if it is there."""
    if function := getattr(ctypes.CDLL(None), name, None):
        function(*arguments)
