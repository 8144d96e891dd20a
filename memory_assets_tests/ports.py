"""Ports for servers that a test starts, where the server cannot choose one itself."""

import os
import socket

_given: set[int] = set()


def free_ports(count: int) -> list[int]:
    """Ports that are free, and free 10,000 above as well, which SeaweedFS takes for its own protocol.

    They lie below those that the kernel gives to connections, so that none is taken before the server listens; each process of the tests
    begins elsewhere, and none is given twice.
    """
    found: list[int] = []
    port = 10_000 + os.getpid() * 16 % 10_000
    while len(found) < count:
        port += 1
        if port not in _given and all(_is_free(each) for each in (port, port + 10_000)):
            _given.add(port)
            found.append(port)
    return found


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
