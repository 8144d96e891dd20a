"""Claude Code's auto memory: `<projects>/<slug>/memory/*.md`, one silo for each working directory."""

import heapq
import os
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from memory_assets.models import FileStamp, Scan, Source
from memory_assets.sources.dating import HEAD_BYTES, Dating
from memory_assets.sources.files import (
    MAX_BYTES,
    RefusedFileError,
    json_objects,
    read_head,
    shown_path,
    text_fault,
)
from memory_assets.sources.markdown import memory_item, scan_folder
from memory_assets.sources.memory_index import INDEX_NAME, parse_index
from memory_assets.sources.projects import slug_of
from memory_assets.sources.scanning import Parsed, ScanBuilder

_TRANSCRIPTS_READ = 5


def scan(root: Path, known: Mapping[str, FileStamp] | None, *, max_bytes: int = MAX_BYTES) -> Scan:
    """Read every memory file below `root` whose stamp is not the known one.

    A `.md` file becomes an item, of a kind that is guessed where it names none; the sections of the index that say more than where
    to look become items too. Empty and temporary files are passed over; everything else in a silo, each subfolder counting once,
    is refused. `known` holds the stamps of the last pass by absolute path; a file above `max_bytes` is refused unread.
    """
    builder = ScanBuilder(Source.CLAUDE_SILO, root, known)
    absent = (
        f"{shown_path(str(builder.root))} does not exist, so no Claude Code memories are read; "
        "set MEMORY_CLAUDE_PROJECTS_DIR where the projects are elsewhere."
    )
    dating = Dating(builder.root)
    for entry in builder.top_folders(absent):
        if builder.is_inside(entry.path) and entry.is_dir():
            _scan_silo(builder, Path(entry.path), dating, max_bytes)
    return builder.scan()


def working_directory(silo: Path, root: Path) -> str:
    """Return the directory that the newest transcripts beside a silo's memory name, or else the silo's slug.

    Only directories whose slug is the silo's count: a session may change its directory, and a slug cannot be decoded. No link may
    leave `root`.
    """
    try:
        with os.scandir(silo) as listing:
            transcripts = [
                (entry.stat(follow_symlinks=False).st_mtime_ns, entry.name) for entry in listing if entry.name.endswith(".jsonl")
            ]
    except OSError:
        return silo.name
    for _, name in heapq.nlargest(_TRANSCRIPTS_READ, transcripts):
        try:
            head = read_head(silo / name, root, HEAD_BYTES)
        except (FileNotFoundError, RefusedFileError):
            continue
        for entry in json_objects(head, b'"cwd"'):
            cwd = entry.get("cwd")
            if isinstance(cwd, str) and not text_fault(cwd) and slug_of(cwd) == silo.name:
                return cwd
    return silo.name


def _scan_silo(builder: ScanBuilder, silo: Path, dating: Dating, max_bytes: int) -> None:
    """Visit what lies in the memory folder of one silo, if it has one."""
    project = cache(partial(working_directory, silo, builder.root))
    prefix = f"{Source.CLAUDE_SILO}:{silo.name}/"

    def parse_file(data: bytes, path: str, key: str) -> Parsed:
        about: dict[str, Any] = {"path": path, "dating": dating, "project": project(), "metadata": {"slug": silo.name}}
        if key == prefix + INDEX_NAME:
            return parse_index(data, prefix=prefix, **about)
        return Parsed([memory_item(data, source=Source.CLAUDE_SILO, key=key, **about)])

    scan_folder(builder, str(silo / "memory"), parse_file, key_prefix=prefix, passed_over=(), max_bytes=max_bytes)
