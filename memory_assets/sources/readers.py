"""The file sources: the path and reader of each, and a stamp that shows a change without opening a file."""

from collections.abc import Callable, Mapping
from hashlib import blake2b
from pathlib import Path

from memory_assets.models import FileStamp, Scan, Source
from memory_assets.settings import Settings
from memory_assets.sources import claude_silos, pai_learning, pai_seed

_SCANS: dict[Source, Callable[..., Scan]] = {
    Source.CLAUDE_SILO: claude_silos.scan,
    Source.PAI_SEED: pai_seed.scan,
    Source.PAI_LEARNING: pai_learning.scan,
}


def source_paths(settings: Settings) -> dict[Source, Path]:
    """Return the configured path of each source."""
    return {
        Source.CLAUDE_SILO: settings.claude_projects_dir,
        Source.PAI_SEED: settings.pai_seed,
        Source.PAI_LEARNING: settings.pai_learning_dir,
    }


def scan_files(settings: Settings, source: Source, known: Mapping[str, FileStamp] | None) -> Scan:
    """Read the files of a source whose stamps differ from the `known` ones; if None, open no file and return all stamps."""
    limit: dict[str, int] = {"max_bytes": settings.source_max_bytes} if settings.source_max_bytes else {}
    return _SCANS[source](source_paths(settings)[source], known, **limit)


def stat_stamp(settings: Settings, source: Source) -> str:
    """Return a digest of path, size, modification time and inode of every file of a source; empty without files.

    The digest changes when a file is added, removed or written and when a folder becomes unreadable.
    """
    scan = scan_files(settings, source, None)
    if not (scan.changed or scan.unreadable):
        return ""
    digest = blake2b("\n".join(scan.unreadable).encode(), digest_size=16)
    for file in scan.changed:
        stamp = file.stamp
        digest.update(f"{file.path}\0{stamp.size} {stamp.mtime_ns} {stamp.inode}\n".encode())
    return digest.hexdigest()
