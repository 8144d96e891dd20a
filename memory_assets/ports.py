"""Binding a port, for the service that listens there and for the supervisor that tries it first."""

import errno
import socket

from memory_assets.errors import SettingsError


def bind_port(host: str, port: int, host_setting: str, port_setting: str) -> socket.socket:
    """Return a socket bound to a port of a host; 0 is any free port. It does not listen yet.

    SettingsError: the host cannot be resolved or is another machine's, or the port is taken; it names the setting to change.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise SettingsError(f"The host {host!r} cannot be resolved ({error}); set {host_setting} to an address.") from error
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        is_elsewhere = error.errno == errno.EADDRNOTAVAIL
        mend = f"set {host_setting} to an address of this machine" if is_elsewhere else f"set {port_setting} to a free one"
        raise _port_error(host, port, error, mend) from error
    return bound


def listen(bound: socket.socket, backlog: int, port_setting: str) -> None:
    """Listen on a socket of `bind_port`. SettingsError: another program has begun to listen on its port meanwhile."""
    try:
        bound.listen(backlog)
    except OSError as error:
        host, port = bound.getsockname()[:2]
        raise _port_error(host, port, error, f"set {port_setting} to a free one") from error


def _port_error(host: str, port: int, error: OSError, mend: str) -> SettingsError:
    return SettingsError(f"Port {port} of {host} cannot be used ({error.strerror}); {mend}.")
