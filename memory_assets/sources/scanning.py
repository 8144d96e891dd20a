"""One pass over a source: which files are new, which are as they were, and which are refused."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from memory_assets.models import FileScan, FileStamp, Refusal, Scan, Source, SourceItem
from memory_assets.sources.files import (
    NOT_LOOKED_INTO,
    RefusedFileError,
    denied,
    read_source_file,
    shown_path,
    stamp_of,
    stays_inside,
    text_fault,
)

Parsed = tuple[Iterable[SourceItem], Iterable[Refusal]]


@dataclass(slots=True)
class ScanBuilder:
    """Collects what a reader finds below `root`; `known` maps paths to their stamps of the last pass."""

    source: Source
    root: Path
    known: Mapping[str, FileStamp]
    changed: list[FileScan] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.root = self.root.absolute()

    def entries(self, folder: str) -> list[os.DirEntry[str]]:
        """Return what a folder holds, by name; a folder that cannot be listed is recorded and gives nothing.

        Raises:
            FileNotFoundError: there is no such folder.
        """
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

    def cannot_list(self, folder: str, error: OSError) -> None:
        """Record that what lies in a folder is not known in this pass."""
        if (shown := shown_path(folder)) not in self.unreadable:
            self.unreadable.append(shown)
            self.refuse(folder, denied(error))

    def is_inside(self, folder: str) -> bool:
        """Whether a folder may be entered; one that is a link to nothing or out of the root is refused."""
        if not Path(folder).is_symlink() or stays_inside(folder, self.root):
            return True
        reason = f"it is a symbolic link that leads to nothing or leaves {shown_path(str(self.root))}"
        self.refuse(folder, RefusedFileError(reason, "put the folder there instead of the link"))
        return False

    def read(self, path: str, parse: Callable[[bytes], Parsed], max_bytes: int, key: str | None = None) -> None:
        """Read and parse a file whose stamp is new.

        A file that vanished since it was listed is left out.

        Args:
            path: absolute path of the file.
            parse: gives the items and refusals of its content, or raises RefusedFileError for all of it.
            max_bytes: refuse a larger file.
            key: of the one item that the file holds, if it holds one.
        """

        def read_and_parse() -> Parsed:
            return parse(read_source_file(Path(path), self.root, max_bytes))

        self._visit(path, read_and_parse, key)

    def refuse(self, path: str, error: RefusedFileError, key: str | None = None) -> None:
        """Record that a file or folder whose stamp is new is refused, without opening it."""

        def refused() -> Parsed:
            raise error

        self._visit(path, refused, key)

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

    def _visit(self, path: str, look: Callable[[], Parsed], key: str | None) -> None:
        shown = shown_path(path)
        stamp = FileStamp(NOT_LOOKED_INTO, 0, 0)
        try:
            stamp = stamp_of(path, self.root)
            if self.known.get(shown) == stamp:
                self.unchanged.append(shown)
                return
            _require_text_name(path)
            items, refusals = look()
            self.changed.append(FileScan(shown, stamp, tuple(items), tuple(refusals)))
        except FileNotFoundError:
            return
        except RefusedFileError as error:
            self._add_refusal(shown, stamp, error, key)
        except OSError as error:
            self._add_refusal(shown, stamp, denied(error), key)

    def _add_refusal(self, shown: str, stamp: FileStamp, error: RefusedFileError, key: str | None) -> None:
        if error.transient:
            stamp = replace(stamp, size=NOT_LOOKED_INTO)
            if self.known.get(shown) == stamp:
                self.unchanged.append(shown)
                return
        key = shown_path(key) if key else None
        self.changed.append(FileScan(shown, stamp, (), (error.refusal(self.source, shown, key),)))


def _require_text_name(path: str) -> None:
    """Raise a refusal where the path holds control characters or bytes that are not UTF-8."""
    if not path.isprintable() and (text_fault(path) or not set("\t\n\r").isdisjoint(path)):
        raise RefusedFileError("its name holds control characters or bytes that are not UTF-8", "rename it")
