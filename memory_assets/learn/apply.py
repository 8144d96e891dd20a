"""Carry a plan out, or undo it. Every step can be killed and repeated; none deletes a text that is not stored elsewhere.

Apply writes the canonical files, then the ledger of moves. Then it deletes the moved files of each silo, and last the lines of its
index. Undo restores the silo files before it removes a canonical one. A file that somebody changed meanwhile stays and is reported.
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
from memory_assets.learn.memory_files import hooks_of, mentions, only, read_index, without
from memory_assets.sources.claude_silos import INDEX_NAME
from memory_assets.sources.files import RefusedFileError, digest_of, read_source_file
from memory_assets.stores.files import clear_remains, free_path, make_folders, replace_file, sync_folder
from memory_assets.stores.layout import moves_file
from memory_assets.stores.locks import locked

_MOST_BYTES = 1 << 30
_TRIES = 20
_NOT_ALLOWED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


def execute(plan: Plan, journal: Journal, folder: Path, projects_dir: Path) -> list[str]:
    """Do what a plan of the journal says, from wherever a kill left it; the caller marks it as done.

    `folder` is the tenant's learn folder. Nothing is deleted but in silos of `projects_dir`, and beside its own canonical file. Return what
    was left alone because it changed meanwhile, a sentence each.
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
            if error.errno not in _NOT_ALLOWED:
                raise
            work.left.append(f"{silo} cannot be changed ({error.strerror}); a later apply merges what is left there.")
    _set_status(folder, plan, Status.ACCEPTED, Status.APPLIED)
    return work.left


def undo(plan: Plan, journal: Journal, folder: Path, projects_dir: Path) -> list[str]:
    """Bring back what an apply deleted and changed, from wherever a kill left it; the caller marks it as undone.

    Arguments, result and errors are those of `execute`.
    """
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
def alone(folder: Path, projects_dir: Path) -> Iterator[None]:
    """Let nobody else check, decide, apply or undo meanwhile: in this tenant, or with the same silos from elsewhere."""
    make_folders(folder)
    with ExitStack() as locks:
        try:
            for each in (folder, projects_dir):
                locks.enter_context(locked(each, fcntl.LOCK_EX | fcntl.LOCK_NB))
        except BlockingIOError as error:
            raise ConflictError("Another check, review, apply or undo is at work; try again when it has ended.") from error
        yield


@dataclass(slots=True)
class _Work:
    """The steps of one apply or undo, and what they left alone."""

    plan: Plan
    journal: Journal
    projects_dir: Path
    left: list[str] = field(default_factory=list)
    """Sentences for a person."""

    def silos(self) -> Iterator[tuple[int, Path, list[Taken]]]:
        """Number, folder and taken files of each silo that is one still (`<projects>/<slug>/memory`, no links), and of each home."""
        found: dict[Path, list[Taken]] = {}
        for taken in self.plan.taken:
            found.setdefault(Path(taken.path).parent, []).append(taken)
        for place, (silo, files) in enumerate(found.items()):
            is_silo = silo.name == "memory" and silo.parent.parent == self.projects_dir and not silo.parent.is_symlink()
            if (is_silo and not silo.is_symlink()) or _is_home(silo, files):
                yield place, silo, files
            else:
                self.left.append(f"{silo} is no silo of {self.projects_dir} any more, and stays as it is.")

    def may_place(self, placed: Placed) -> bool:
        """Whether a canonical file is as the plan found it, and neither written yet nor changed by somebody else."""
        path = Path(placed.path)
        clear_remains(path)
        now = _digest(path)
        if now not in (placed.before, placed.digest):
            self.left.append(f"{path} changed meanwhile; it and the files to be merged into it stay unchanged.")
        return now == placed.before

    def unplace(self, placed: Placed, before: bytes | None) -> None:
        """Give a canonical file its old content back, or delete it, unless somebody changed it since."""
        path = Path(placed.path)
        clear_remains(path)
        now = _digest(path)
        if now == placed.digest and before is not None:
            replace_file(path, before)
        elif now == placed.digest:
            _remove(path)
        elif now != placed.before:
            self.left.append(f"{path} changed since and stays as it is.")

    def take(self, taken: Taken) -> None:
        """Delete a silo file if it is what was read and stands in its canonical file.

        It is first put aside under a hidden name, so that what is deleted is what was compared, whoever writes at that moment.
        """
        path = Path(taken.path)
        aside = _aside(path)
        if _digest(Path(taken.canonical)) != taken.canonical_digest:
            self.left.append(f"{path} stays, because {taken.canonical} is not the file that apply wrote.")
            _put_back(aside, path)
            return
        if not os.path.lexists(aside):
            if not os.path.lexists(path):
                return
            if _digest(path) != taken.digest:
                self.left.append(f"{path} changed meanwhile and stays.")
                return
            path.rename(aside)
        if _digest(aside) == taken.digest:
            aside.unlink()
        else:
            self.left.append(f"{path} changed meanwhile and stays.")
            _put_back(aside, path)

    def bring_back(self, taken: Taken, content: bytes) -> None:
        """Write a silo file anew with its old time, unless another file has its name now."""
        path = Path(taken.path)
        aside = _aside(path)
        now = _digest(path)
        if now is None:
            replace_file(path, content, taken.mode)
            os.utime(path, ns=(taken.mtime_ns, taken.mtime_ns))
        elif now != taken.digest:
            self.left.append(f"{path} is another file now and stays; its former text is in {taken.canonical}.")
        elif path.stat().st_mtime_ns != taken.mtime_ns:
            os.utime(path, ns=(taken.mtime_ns, taken.mtime_ns))
        if _digest(aside) == taken.digest:
            _remove(aside)

    def shorten_index(self, place: int, silo: Path, files: list[Taken]) -> None:
        """Take out of an index the lines that point to files that are gone, keep it as it was, and tell where else they are named."""
        path = silo / INDEX_NAME
        clear_remains(path)
        gone = {Path(taken.path).name for taken in files if not os.path.lexists(taken.path)}
        try:
            for _ in range(_TRIES):
                data = read_index(path, self.projects_dir)
                if not gone.isdisjoint(hooks_of(data)):
                    replace_file(self.journal.index(self.plan.number, place), data)
                    if read_index(path, self.projects_dir) != data:
                        continue
                    data = without(data, gone)
                    replace_file(path, data)
                self.left += [f"{path} still names {name} in line {number}." for number, name in mentions(data, sorted(gone))]
                return
            self.left.append(f"{path} keeps changing and stays unchanged; its lines for deleted files lead nowhere.")
        except RefusedFileError as error:
            self.left.append(f"{path} stays as it is: {error}.")

    def restore_index(self, place: int, silo: Path, files: list[Taken]) -> None:
        """Put an index back as it was; where it changed since, the lines that were taken out go to its end."""
        path = silo / INDEX_NAME
        clear_remains(path)
        kept = self.journal.index(self.plan.number, place)
        if not kept.exists():
            return
        before = kept.read_bytes()
        names = {Path(taken.path).name for taken in files}
        try:
            now = read_index(path, self.projects_dir)
            if now == before:
                return
            if now == without(before, names):
                replace_file(path, before)
                return
            lines = only(before, names.difference(hooks_of(now)))
            end = b"" if not now or now.endswith((b"\n", b"\r")) else b"\n"
            if lines:
                replace_file(path, now + end + lines)
        except RefusedFileError as error:
            self.left.append(f"{path} stays as it is: {error}.")


def _aside(path: Path) -> Path:
    """The name under which a file is put aside: hidden, short, the same at every run."""
    digest = blake2b(path.name.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
    return path.with_name(f".memory-learn-old-{digest}")


def _remove(path: Path) -> None:
    if os.path.lexists(path):
        path.unlink()
        sync_folder(path.parent)


def _put_back(aside: Path, path: Path) -> None:
    """Give a file that was put aside its name again; where that is taken meanwhile, one like it."""
    if os.path.lexists(aside):
        aside.rename(free_path(path))
        sync_folder(path.parent)


def _is_home(folder: Path, files: Sequence[Taken]) -> bool:
    """Whether files are taken out of the home that holds what they say, and that home is no link."""
    return not folder.is_symlink() and all(Path(taken.canonical).parent == folder for taken in files)


def _digest(path: Path) -> str | None:
    """Digest of a regular file that is no link, None where there is nothing."""
    with suppress(FileNotFoundError):
        if path.is_symlink():
            return "a link"
        try:
            return digest_of(read_source_file(path, path.parent, _MOST_BYTES))
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
    moved = [replace(each, status=after) for each in decisions.proposals if each.id in plan.proposals and each.status is before]
    if moved:
        write_decisions(folder, decisions.with_proposals(moved))
