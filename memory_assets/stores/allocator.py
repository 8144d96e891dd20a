"""What a long-running process asks of the memory allocators: to keep little that is not in use.

glibc alone knows arenas; elsewhere nothing happens. The constant and mallopt(3) are its.
"""

import ctypes

import pyarrow as pa

_M_ARENA_MAX = -8
_ARENAS = 2


def limit_arenas() -> None:
    """Let all threads, and Arrow, allocate from two arenas in place of one each; call it before they start."""
    pa.set_memory_pool(pa.system_memory_pool())
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option:
        set_option(_M_ARENA_MAX, _ARENAS)


def return_freed_memory() -> None:
    """Hand back to the system what was in use, which after loading and merging can be more than what is; takes a millisecond."""
    pa.default_memory_pool().release_unused()
