"""Execution and undo of a plan. Every step may be killed and repeated; none deletes a text that is not stored elsewhere.

Apply writes the canonical files, then the ledger of moves. Then it deletes each silo's moved files, and last their lines in the index.
Undo restores the silo files before it removes a canonical one. A file that changed since the plan was made is kept and reported.
"""

import errno
import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path

from memory_assets.errors import ConflictError
from memory_assets.learn.journal import Journal, Placed, Plan, Status, Taken, read_decisions, write_decisions
from memory_assets.learn.memory_files import find_mentions, parse_hooks, read_index, remove_pointers, select_pointers
from memory_assets.sources.claude_silos import INDEX_NAME
from memory_assets.sources.files import RefusedFileError, digest_of, read_source_file
from memory_assets.stores.files import clear_remains, free_path, make_folders, replace_file, sync_folder
from memory_assets.stores.layout import moves_file
from memory_assets.stores.locks import locked

_MAX_BYTES = 1 << 30
_MAX_TRIES = 20
_DENIED_ERRNOS = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


def execute(plan: Plan, journal: Journal, folder: Path, projects_dir: Path) -> list[str]:
    """Execute a plan of the journal, continuing where a killed process stopped. The caller marks the plan as done.

    `folder` is the tenant's learn folder. Files are deleted only in silos of `projects_dir` and in the home of their own canonical
    file. Return a sentence about each file that was left alone because it changed meanwhile.
    """
    work = _Work(plan, journal, projects_dir)
    contents = journal.contents(plan.number)
    for placed in plan.placed:
        if work.may_place(placed):
            replace_file(Path(placed.path), contents[placed.digest])
    _write_moves(journal, folder)
    for place, silo, files in work.silos():
        try:
            for taken in files:
                work.take(taken)
            if silo.is_dir():
                sync_folder(silo)
            if not _is_home(silo, files):
                work.shorten_index(place, silo, files)
        except OSError as error:
            if error.errno not in _DENIED_ERRNOS:
                raise
            work.left.append(f"{silo} cannot be changed ({error.strerror}); a later apply merges what is left there.")
    _set_status(folder, plan, Status.ACCEPTED, Status.APPLIED)
    return work.left


def undo(plan: Plan, journal: Journal, folder: Path, projects_dir: Path) -> list[str]:
    """Restore what an apply deleted and changed, in the same way as `execute`. The caller marks the plan as undone."""
    work = _Work(plan, journal, projects_dir)
    contents = journal.contents(plan.number)
    journal.mark(plan.number, "undoing")
    for place, silo, files in work.silos():
        for taken in files:
            work.bring_back(taken, contents[taken.digest])
        work.restore_index(place, silo, files)
    kept = {Path(taken.canonical) for taken in plan.taken if _digest(Path(taken.path)) != taken.digest}
    for placed in plan.placed:
        if Path(placed.path) not in kept:
            work.unplace(placed, contents[placed.before] if placed.before else None)
    for made in reversed(plan.folders):
        with suppress(OSError):  # somebody put something there
            Path(made).rmdir()
    _set_status(folder, plan, Status.APPLIED, Status.ACCEPTED)
    _write_moves(journal, folder)
    return work.left


@contextmanager
def lock_curation(folder: Path, projects_dir: Path) -> Iterator[None]:
    """Lock out every other check, review, apply and undo of this tenant or of the same silos. Raise ConflictError if one runs."""
    make_folders(folder)
    with ExitStack() as locks:
        try:
            for each in (folder, projects_dir):
                locks.enter_context(locked(each, fcntl.LOCK_EX | fcntl.LOCK_NB))
        except BlockingIOError as error:
            raise ConflictError("Another check, review, apply or undo is running; try again when it has ended.") from error
        yield


@dataclass(slots=True)
class _Work:
    """The steps of one apply or undo."""

    plan: Plan
    journal: Journal
    projects_dir: Path
    left: list[str] = field(default_factory=list)
    """Sentences for a person about what the steps left alone."""

    def silos(self) -> Iterator[tuple[int, Path, list[Taken]]]:
        """Yield number, folder and files to delete of each home, and of each valid silo (`<projects>/<slug>/memory`, no links)."""
        found: dict[Path, list[Taken]] = {}
        for taken in self.plan.taken:
            found.setdefault(Path(taken.path).parent, []).append(taken)
        for place, (silo, files) in enumerate(found.items()):
            is_silo = silo.name == "memory" and silo.parent.parent == self.projects_dir and not silo.parent.is_symlink()
            if (is_silo and not silo.is_symlink()) or _is_home(silo, files):
                yield place, silo, files
            else:
                self.left.append(f"{silo} is no longer a silo of {self.projects_dir} and was left alone.")

    def may_place(self, placed: Placed) -> bool:
        """Whether a canonical file still has the content that the plan found. Report one that somebody else changed."""
        path = Path(placed.path)
        clear_remains(path)
        now = _digest(path)
        if now not in (placed.before, placed.digest):
            self.left.append(f"{path} changed meanwhile; it and the files to be merged into it were left alone.")
        return now == placed.before

    def unplace(self, placed: Placed, before: bytes | None) -> None:
        """Restore the old content of a canonical file, or delete it if it had none, unless somebody changed it since."""
        path = Path(placed.path)
        clear_remains(path)
        now = _digest(path)
        if now == placed.digest and before is not None:
            replace_file(path, before)
        elif now == placed.digest:
            _remove(path)
        elif now != placed.before:
            self.left.append(f"{path} changed since and was left alone.")

    def take(self, taken: Taken) -> None:
        """Delete a silo file if it is unchanged and its canonical file holds its content.

        The file is renamed to a hidden name before the comparison, so that a concurrent write cannot be deleted.
        """
        path = Path(taken.path)
        aside = _aside(path)
        if _digest(Path(taken.canonical)) != taken.canonical_digest:
            self.left.append(f"{path} was kept, because {taken.canonical} is not the file that apply wrote.")
            _put_back(aside, path)
            return
        if not os.path.lexists(aside):
            if not os.path.lexists(path):
                return
            if _digest(path) != taken.digest:
                self.left.append(f"{path} changed meanwhile and was kept.")
                return
            path.rename(aside)
        if _digest(aside) == taken.digest:
            aside.unlink()
        else:
            self.left.append(f"{path} changed meanwhile and was kept.")
            _put_back(aside, path)

    def bring_back(self, taken: Taken, content: bytes) -> None:
        """Restore a silo file with its old modification time, unless another file has its name now."""
        path = Path(taken.path)
        aside = _aside(path)
        now = _digest(path)
        if now is None:
            replace_file(path, content, taken.mode)
            os.utime(path, ns=(taken.mtime_ns, taken.mtime_ns))
        elif now != taken.digest:
            self.left.append(f"{path} is another file now and was kept; its former text is in {taken.canonical}.")
        elif path.stat().st_mtime_ns != taken.mtime_ns:
            os.utime(path, ns=(taken.mtime_ns, taken.mtime_ns))
        if _digest(aside) == taken.digest:
            _remove(aside)

    def shorten_index(self, place: int, silo: Path, files: list[Taken]) -> None:
        """Remove the lines of an index that point to deleted files, after a backup. Report other lines that name such files."""
        path = silo / INDEX_NAME
        clear_remains(path)
        gone = {Path(taken.path).name for taken in files if not os.path.lexists(taken.path)}
        try:
            for _ in range(_MAX_TRIES):
                data = read_index(path, self.projects_dir)
                mentions = list(find_mentions(data, sorted(gone)))
                if not gone.isdisjoint(parse_hooks(data)):
                    replace_file(self.journal.index(self.plan.number, place), data)
                    if read_index(path, self.projects_dir) != data:
                        continue
                    replace_file(path, remove_pointers(data, gone))
                self.left += [f"{path} still refers to {name} in line {number}." for number, name in mentions]
                return
            self.left.append(f"{path} keeps changing and was left alone; its lines for deleted files point to nothing.")
        except RefusedFileError as error:
            self.left.append(f"{path} was left alone: {error}.")

    def restore_index(self, place: int, silo: Path, files: list[Taken]) -> None:
        """Restore an index. If it changed since, append the removed lines to it."""
        path = silo / INDEX_NAME
        clear_remains(path)
        backup = self.journal.index(self.plan.number, place)
        if not backup.exists():
            return
        before = backup.read_bytes()
        names = {Path(taken.path).name for taken in files}
        try:
            now = read_index(path, self.projects_dir)
            if now == before:
                return
            if now == remove_pointers(before, names):
                replace_file(path, before)
                return
            lines = select_pointers(before, names.difference(parse_hooks(now)))
            end = b"" if not now or now.endswith((b"\n", b"\r")) else b"\n"
            if lines:
                replace_file(path, now + end + lines)
        except RefusedFileError as error:
            self.left.append(f"{path} was left alone: {error}.")


def _aside(path: Path) -> Path:
    """Return the hidden name of a file that is about to be deleted: short, and the same at every run."""
    digest = blake2b(path.name.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
    return path.with_name(f".memory-learn-old-{digest}")


def _remove(path: Path) -> None:
    if os.path.lexists(path):
        path.unlink()
        sync_folder(path.parent)


def _put_back(aside: Path, path: Path) -> None:
    """Rename a file that was put aside to its old name, or to a similar one if another file has that name now."""
    if os.path.lexists(aside):
        aside.rename(free_path(path))
        sync_folder(path.parent)


def _is_home(folder: Path, files: Sequence[Taken]) -> bool:
    """Whether the folder is not a link and is the home of the files' canonical files."""
    return not folder.is_symlink() and all(Path(taken.canonical).parent == folder for taken in files)


def _digest(path: Path) -> str | None:
    """Return the digest of a file, or a reason that equals no digest if it is a link or unreadable; None if it does not exist."""
    with suppress(FileNotFoundError):
        if path.is_symlink():
            return "a link"
        try:
            return digest_of(read_source_file(path, path.parent, _MAX_BYTES))
        except RefusedFileError as error:
            return error.reason
    return None


def _write_moves(journal: Journal, folder: Path) -> None:
    path = moves_file(folder.parent)
    moves = json.dumps(journal.moves(), ensure_ascii=False, indent=1, sort_keys=True) + "\n"
    if not path.exists() or path.read_text("utf-8") != moves:
        replace_file(path, moves)


def _set_status(folder: Path, plan: Plan, before: Status, after: Status) -> None:
    decisions = read_decisions(folder)
    changed = [replace(each, status=after) for each in decisions.proposals if each.id in plan.proposals and each.status is before]
    if changed:
        write_decisions(folder, decisions.with_proposals(changed))
