"""What a long-running process asks of the memory allocators: to keep little that is not in use.

glibc alone understands it; elsewhere nothing happens. Constants and functions after mallopt(3) and malloc_trim(3).
"""

import ctypes
from typing import Any

_M_ARENA_MAX = -8
_ARENAS = 2


def limit_arenas() -> None:
    """Let all threads allocate from two arenas, where each would take one of its own; call it before they are started."""
    set_option = _of_glibc("mallopt")
    if set_option:
        set_option(_M_ARENA_MAX, _ARENAS)


def return_freed_memory() -> None:
    """Hand back to the system what loading and merging leaves behind, which can be more than what is kept."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    trim = _of_glibc("malloc_trim")
    if trim:
        trim(0)


def _of_glibc(name: str) -> Any:
    return getattr(ctypes.CDLL(None), name, None)
