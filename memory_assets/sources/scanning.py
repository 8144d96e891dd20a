"""One scan of a source: which files changed, which did not, and which are refused."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from memory_assets.language.guard import masked_path
from memory_assets.models import FileScan, FileStamp, Hook, Refusal, Scan, Source, SourceItem
from memory_assets.sources.files import (
    UNREAD_SIZE,
    RefusedFileError,
    denied,
    digest_of,
    is_link,
    read_source_file,
    shown_path,
    stamp_of,
    stays_inside,
    text_fault,
)


class Parsed(NamedTuple):
    """The parsed content of one file."""

    items: Iterable[SourceItem]
    refusals: Iterable[Refusal] = ()
    hooks: Iterable[Hook] = ()
    projects: Iterable[str] = ()


_GONE = "an earlier run read it, but now it is gone or not mounted; its memories are kept"
_GONE_MEND = "put it back, or retire its memories with `memory run --gone {}`"


@dataclass(slots=True)
class ScanBuilder:
    """Collector of a reader's results below `root`. `known` maps paths to their stamps of the last scan.

    If `known` is None, no file is opened: every file is recorded as changed, with its stamp alone.
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
        """List a folder, sorted by name. A folder that cannot be listed is refused, and the list is empty."""
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

    def top_folders(self, what: str, variable: str) -> list[os.DirEntry[str]]:
        """List the folders and links directly below the root, sorted by name.

        A known folder that is missing is refused and its memories are kept. So is the whole root if it is `absent`, or if it is empty
        although files below it are known, as when its file system is not mounted.
        """
        try:
            entries = self.entries(str(self.root))
        except FileNotFoundError:
            self.absent(self.root, what, variable)
            return []
        root = shown_path(str(self.root))
        if self.changed or self.unchanged:  # `entries` refused the root
            self.unreadable.add(root)
        if root in self.unreadable:
            return []
        folders = [entry for entry in entries if entry.is_symlink() or entry.is_dir()]  # `is_dir` raises for a loop of links
        below = f"{root}/"
        known = {
            path[: path.index("/", len(below))]
            for path in self.known or ()
            if path.startswith(below) and "/" in path[len(below) :]
        }
        if known and not entries:
            self._refuse_missing(root)
        else:
            names = [shown_path(entry.name) for entry in folders]
            for folder in known.difference(below + shown for name in names for shown in (name, masked_path(name))):
                self._refuse_missing(folder)
        return folders

    def absent(self, path: Path, what: str, variable: str) -> None:
        """Record that the source is missing: add a note if nothing is known of it, else refuse it and keep what is known."""
        shown = shown_path(str(path))
        if self.known:
            self.unreadable.update(str(Path(known).parent) for known in self.known)
            self._refuse_missing(shown)
        else:
            self.notes.append(f"{shown} does not exist, so no {what} are read; if it is elsewhere, set {variable}.")

    def _refuse_missing(self, shown: str) -> None:
        self.unreadable.add(shown)
        gone = RefusedFileError(_GONE, _GONE_MEND.format(quote(shown)), transient=True)
        self._add_refusal(shown, FileStamp(UNREAD_SIZE, 0, 0), gone)

    def cannot_list(self, folder: str, error: OSError) -> None:
        """Refuse a folder that cannot be listed, once a scan."""
        if (shown := shown_path(folder)) not in self.unreadable:
            self.unreadable.add(shown)
            self.refuse(folder, denied(error))

    def is_inside(self, folder: str) -> bool:
        """Whether a folder may be entered. A link that is broken or leaves the root is refused, and what is known below it is kept."""
        if not is_link(folder) or stays_inside(folder, self.root):
            return True
        self.unreadable.add(shown_path(folder))
        reason = f"it is a symbolic link that leads to nothing or leaves {shown_path(str(self.root))}"
        self.refuse(folder, RefusedFileError(reason, "put the folder there instead of the link"))
        return False

    def read(self, path: str, parse: Callable[[bytes], Parsed], max_bytes: int) -> None:
        """Read and parse the file at an absolute path if its stamp changed. Skip a file that vanished since it was listed.

        `parse` returns the items and refusals in the content, or raises RefusedFileError to refuse the whole file.
        """

        def read_and_parse() -> tuple[Parsed, str]:
            data = read_source_file(Path(path), self.root, max_bytes)
            return parse(data), digest_of(data)

        self._visit(path, read_and_parse)

    def refuse(self, path: str, error: RefusedFileError) -> None:
        """Refuse a file or folder without opening it, if its stamp changed."""
        self._visit(path, error)

    def scan(self) -> Scan:
        """Return the collected results, sorted by path."""
        return Scan(
            self.source,
            shown_path(str(self.root)),
            tuple(sorted(self.changed, key=lambda scan: scan.path)),
            tuple(sorted(self.unchanged)),
            tuple(sorted(self.unreadable)),
            tuple(self.notes),
        )

    def _visit(self, path: str, read_or_refusal: Callable[[], tuple[Parsed, str]] | RefusedFileError) -> None:
        shown = shown_path(path)
        stamp = FileStamp(UNREAD_SIZE, 0, 0)
        try:
            stamp = stamp_of(path, self.root)
            if self.known is None:
                self.changed.append(FileScan(shown, stamp))
            elif self.known.get(shown) == stamp:
                self.unchanged.append(shown)
            else:
                if not path.isprintable() and (text_fault(path) or not set("\t\n\r").isdisjoint(path)):
                    raise RefusedFileError("its name holds control characters or bytes that are not UTF-8", "rename it")
                if isinstance(read_or_refusal, RefusedFileError):
                    raise read_or_refusal
                (items, refusals, hooks, projects), digest = read_or_refusal()
                found = tuple(items), tuple(refusals), tuple(hooks), tuple(projects)
                self.changed.append(FileScan(shown, stamp, *found, digest))
        except FileNotFoundError:
            return
        except RefusedFileError as error:
            self._add_refusal(shown, stamp, error)
        except OSError as error:
            self._add_refusal(shown, stamp, denied(error))

    def _add_refusal(self, shown: str, stamp: FileStamp, error: RefusedFileError) -> None:
        if error.transient:
            stamp = replace(stamp, size=UNREAD_SIZE)
            if self.known and self.known.get(shown) == stamp:
                self.unchanged.append(shown)
                return
        self.changed.append(FileScan(shown, stamp, (), (error.refusal(self.source, shown),)))
