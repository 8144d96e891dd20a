"""One pass over a source: which files are new, which are as they were, and which are refused."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from memory_assets.models import FileScan, FileStamp, Hook, Refusal, Scan, Source, SourceItem
from memory_assets.sources.files import (
    NOT_LOOKED_INTO,
    RefusedFileError,
    denied,
    digest_of,
    read_source_file,
    shown_path,
    stamp_of,
    stays_inside,
    text_fault,
)


class Parsed(NamedTuple):
    """What one file holds."""

    items: Iterable[SourceItem]
    refusals: Iterable[Refusal] = ()
    hooks: Iterable[Hook] = ()
    projects: Iterable[str] = ()


_GONE = "it was there at an earlier run and is gone, or not mounted; what is remembered from it stays"
_GONE_MEND = "put it back, or let its memories rest with `memory run --gone {}`"


@dataclass(slots=True)
class ScanBuilder:
    """Collects what a reader finds below `root`; `known` maps paths to their stamps of the last pass.

    If `known` is None no file is opened: every file counts as changed, and only its stamp is noted.
    """

    source: Source
    root: Path
    known: Mapping[str, FileStamp] | None
    changed: list[FileScan] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    unreadable: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.root = self.root.absolute()

    def entries(self, folder: str) -> list[os.DirEntry[str]]:
        """Return what a folder holds, by name; a folder that cannot be listed is recorded and gives nothing."""
        try:
            with os.scandir(folder) as listing:
                return sorted(listing, key=lambda entry: entry.name)
        except FileNotFoundError:
            raise
        except NotADirectoryError:
            self.refuse(folder, RefusedFileError("it is a file, not a folder", "move it out of this folder"))
        except OSError as error:
            self.cannot_list(folder, error)
        return []

    def top_folders(self, absent: str) -> list[os.DirEntry[str]]:
        """Return the folders directly below the root, and the links, by name.

        A root that is gone, or holds nothing where files of it are known (as the folder of a file system that is not mounted), and
        a folder of it that is gone, keep what is known from them and are refused. Without a root of which anything is known `absent`
        is noted for a person.
        """
        try:
            entries = self.entries(str(self.root))
        except FileNotFoundError:
            self.absent(absent)
            return []
        folders = [entry for entry in entries if entry.is_dir() or entry.is_symlink()]
        below = f"{shown_path(str(self.root))}/"
        known = {
            path[: path.index("/", len(below))]
            for path in self.known or ()
            if path.startswith(below) and "/" in path[len(below) :]
        }
        if known and not entries:
            self._gone(shown_path(str(self.root)))
        else:
            for folder in known.difference(shown_path(entry.path) for entry in folders):
                self._gone(folder)
        return folders

    def absent(self, note: str, path: str | None = None) -> None:
        """Record that the source is not there: with a note if nothing is known of it, else all that is known stays."""
        if self.known:
            self.unreadable.update(str(Path(known).parent) for known in self.known)
            self._gone(shown_path(path or str(self.root)))
        else:
            self.notes.append(note)

    def _gone(self, shown: str) -> None:
        self.unreadable.add(shown)
        self._add_refusal(
            shown, FileStamp(NOT_LOOKED_INTO, 0, 0), RefusedFileError(_GONE, _GONE_MEND.format(quote(shown)), transient=True)
        )

    def cannot_list(self, folder: str, error: OSError) -> None:
        """Record that what lies in a folder is not known in this pass."""
        if (shown := shown_path(folder)) not in self.unreadable:
            self.unreadable.add(shown)
            self.refuse(folder, denied(error))

    def is_inside(self, folder: str) -> bool:
        """Whether a folder may be entered; one that is a link to nothing or out of the root is refused, and keeps what is known."""
        if not Path(folder).is_symlink() or stays_inside(folder, self.root):
            return True
        self.unreadable.add(shown_path(folder))
        reason = f"it is a symbolic link that leads to nothing or leaves {shown_path(str(self.root))}"
        self.refuse(folder, RefusedFileError(reason, "put the folder there instead of the link"))
        return False

    def read(self, path: str, parse: Callable[[bytes], Parsed], max_bytes: int) -> None:
        """Read and parse a file (absolute path) whose stamp is new; one that vanished since it was listed is left out.

        `parse` gives the items and refusals of its content, or raises RefusedFileError for all of it.
        """

        def read_and_parse() -> tuple[Parsed, str]:
            data = read_source_file(Path(path), self.root, max_bytes)
            return parse(data), digest_of(data)

        self._visit(path, read_and_parse)

    def refuse(self, path: str, error: RefusedFileError) -> None:
        """Record that a file or folder whose stamp is new is refused, without opening it."""
        self._visit(path, error)

    def scan(self) -> Scan:
        """Return what was collected, sorted by path."""
        return Scan(
            self.source,
            shown_path(str(self.root)),
            tuple(sorted(self.changed, key=lambda scan: scan.path)),
            tuple(sorted(self.unchanged)),
            tuple(sorted(self.unreadable)),
            tuple(self.notes),
        )

    def _visit(self, path: str, look: Callable[[], tuple[Parsed, str]] | RefusedFileError) -> None:
        shown = shown_path(path)
        stamp = FileStamp(NOT_LOOKED_INTO, 0, 0)
        try:
            stamp = stamp_of(path, self.root)
            if self.known is None:
                self.changed.append(FileScan(shown, stamp))
            elif self.known.get(shown) == stamp:
                self.unchanged.append(shown)
            else:
                if not path.isprintable() and (text_fault(path) or not set("\t\n\r").isdisjoint(path)):
                    raise RefusedFileError("its name holds control characters or bytes that are not UTF-8", "rename it")
                if isinstance(look, RefusedFileError):
                    raise look
                (items, refusals, hooks, projects), digest = look()
                held = tuple(items), tuple(refusals), tuple(hooks), tuple(projects)
                self.changed.append(FileScan(shown, stamp, *held, digest))
        except FileNotFoundError:
            return
        except RefusedFileError as error:
            self._add_refusal(shown, stamp, error)
        except OSError as error:
            self._add_refusal(shown, stamp, denied(error))

    def _add_refusal(self, shown: str, stamp: FileStamp, error: RefusedFileError) -> None:
        if error.transient:
            stamp = replace(stamp, size=NOT_LOOKED_INTO)
            if self.known and self.known.get(shown) == stamp:
                self.unchanged.append(shown)
                return
        self.changed.append(FileScan(shown, stamp, (), (error.refusal(self.source, shown),)))
