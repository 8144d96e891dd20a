"""Versions of a table as a writer with another clock leaves them."""

import re

from pyarrow import fs

from memory_assets.settings import Settings
from memory_assets.stores.tables import StoredTable
from memory_assets_tests.stores.objects import object_storage


def set_clock_of_writer(stored: StoredTable, seconds: int, settings: Settings | None = None) -> None:
    """Shift the times in all manifests of a table, as if its writer's clock were ahead; `settings` open an object storage."""
    times = {int(each["timestamp"].timestamp()) for each in stored.writing.list_versions()}
    shifted = {_encoded(time): _encoded(time + seconds) for time in times}
    known = re.compile(b"|".join(map(re.escape, shifted)))
    storage = object_storage(settings) if settings else fs.LocalFileSystem()
    versions = fs.FileSelector(f"{stored.uri.removeprefix('s3://')}/{stored.name}.lance/_versions")
    for each in storage.get_file_info(versions):
        if not each.path.endswith(".manifest"):
            continue
        manifest = storage.open_input_file(each.path).read()
        with storage.open_output_stream(each.path) as stream:
            stream.write(known.sub(lambda found: shifted[found[0]], manifest))


def _encoded(seconds: int) -> bytes:
    """Return a time as a manifest holds it: a field's tag, and five groups of seven bits, the lowest first (Protocol Buffers)."""
    groups = [seconds >> 7 * place & 0x7F | 0x80 for place in range(5)]
    return bytes([0x08, *groups[:-1], groups[-1] & 0x7F])
