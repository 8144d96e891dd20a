"""Running the service: where it may listen, and how it stops."""

import ctypes
import socket
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import uvicorn

from memory_assets.api.access import is_loopback
from memory_assets.api.app import create_app
from memory_assets.api.logs import configure_logging
from memory_assets.errors import SettingsError
from memory_assets.stores.keys import KeyStore
from memory_assets.tenants import tenant_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from memory_assets.settings import Settings

_SECONDS_TO_FINISH = 60
"""For requests that were accepted before the service was told to stop."""
_SWITCH_SECONDS = 0.0005
"""A thread in the midst of language work lets go of the interpreter this often, so that short steps of others need not wait."""
_WAITING_CONNECTIONS = 2048
_M_ARENA_MAX = -8
"""Of glibc's mallopt(3)."""
_ARENAS = 2


def serve(settings: "Settings", announce: "Callable[[str], None]") -> None:
    """Serve until SIGINT or SIGTERM; requests that were accepted are finished first.

    `announce` is called with the address once the service can be reached.

    Raises:
        SettingsError: the address cannot be listened on, or is not loopback while no tenant has a key.
        EmbedderError: the embedder of the settings cannot be opened.
    """
    keyed = any(key.active for name in tenant_names(settings) for key in KeyStore(settings.tenant_dir(name)).list())
    listener = _listen(settings)
    host, port = listener.getsockname()[:2]
    if not keyed and not is_loopback(host):
        listener.close()
        raise SettingsError(
            f"The service does not listen on {settings.host} while no tenant has a key; run `memory key create` first, or set "
            "MEMORY_HOST to 127.0.0.1."
        )
    _limit_arenas()
    configure_logging(settings.log_level, settings.log_format)
    settings.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    app = create_app(settings)
    app.state.pool.warm_up()
    config = uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        limit_concurrency=settings.max_connections,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_SECONDS_TO_FINISH,
        lifespan="on",
    )
    sys.setswitchinterval(_SWITCH_SECONDS)
    listener.listen(_WAITING_CONNECTIONS)
    announce(f"http://{f'[{host}]' if ':' in host else host}:{port}")
    if not keyed:
        announce("No tenant has a key yet, so every request is refused; `memory key create` makes one, and no restart is needed.")
    uvicorn.Server(config).run(sockets=[listener])


def _listen(settings: "Settings") -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise SettingsError(f"The host {settings.host!r} cannot be resolved ({error}); set MEMORY_HOST to an address.") from error
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
    except OSError as error:
        raise SettingsError(
            f"Port {settings.port} of {settings.host} cannot be used ({error.strerror}); set PORT or --port to a free one."
        ) from error
    return listener


def _limit_arenas() -> None:
    """Let all threads, and Arrow, allocate from two arenas in place of one each, so that little is kept that is not in use."""
    pa.set_memory_pool(pa.system_memory_pool())
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc alone has arenas
    if set_option:
        set_option(_M_ARENA_MAX, _ARENAS)
