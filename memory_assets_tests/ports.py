"""Free ports for servers that cannot choose one themselves."""

import os
import socket

_given: set[int] = set()


def free_ports(count: int) -> list[int]:
    """Return ports that are free, and also free 10,000 above, which SeaweedFS uses for its own protocol.

    They are below the kernel's range for outgoing connections, so that none is taken before the server listens. Each test process starts
    at a different port, and no port is returned twice.
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
