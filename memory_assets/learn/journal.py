"""The journal of applies: what each is going to do is on the disk before the first step, with a copy of all that it changes.

    <tenant>/learn/applies/0001/plan.json    the steps; once it is there the apply will be finished, by whoever comes next
                                contents     every file as it was, and as it is going to be, one after the other
                                index-N      a silo's index as it was just before its lines were taken out
                                done, undoing, undone

It is remembered, not derived: it lies beside the memories, and backups copy it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path

from pydantic import TypeAdapter

from memory_assets.errors import ConflictError, DamagedError
from memory_assets.sources.files import digest_of
from memory_assets.stores.files import replace_file

_PLAN = "plan.json"
_CONTENTS = "contents"


@dataclass(frozen=True, slots=True)
class Placed:
    """A canonical file that is written."""

    path: str
    digest: str
    """Of what it will hold."""
    before: str | None
    """Digest of what it holds; None where there is no such file."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A silo file that is deleted, once what it says is in its canonical file."""

    path: str
    digest: str
    mtime_ns: int
    mode: int
    key: str
    """Under which `memory run` knows it."""
    canonical: str
    """Path of the file that holds what it says."""
    canonical_digest: str
    """Of that file: nothing is deleted unless it holds this."""
    canonical_key: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What one apply does."""

    number: int
    made_at: str
    """ISO 8601, UTC."""
    placed: tuple[Placed, ...]
    taken: tuple[Taken, ...]
    proposals: tuple[str, ...] = ()
    """Ids of the accepted proposals that it carries out."""
    told: tuple[str, ...] = ()
    """Sentences for a person: what was merged, what another replaced."""
    folders: tuple[str, ...] = ()
    """Folders that the canonical files need and that were not there, outer ones first."""
    made_by: str = ""
    """User and machine, such as `mira on otter`."""
    contents: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Place and length of each file among the copies, by digest; empty before the apply begins."""

    def by_silo(self) -> dict[Path, list[Taken]]:
        """The files that are taken, by the folder they lie in."""
        found: dict[Path, list[Taken]] = {}
        for taken in self.taken:
            found.setdefault(Path(taken.path).parent, []).append(taken)
        return found


_WRITTEN = TypeAdapter(Plan)


class Journal:
    """The applies of one tenant; methods that read a plan raise DamagedError if it cannot be read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def numbers(self) -> list[int]:
        """The applies that were begun, the first one first; what a kill left before its plan was whole does not count."""
        if not self.folder.is_dir():
            return []
        return sorted(int(each.name) for each in self.folder.iterdir() if each.name.isdigit() and (each / _PLAN).exists())

    def latest(self) -> int | None:
        """The last apply that was not undone."""
        return next((number for number in reversed(self.numbers()) if not self.has(number, "undone")), None)

    def unfinished(self) -> int | None:
        """The apply, or undo, that a kill left; there is at most one."""
        for number in reversed(self.numbers()):
            if not self.has(number, "undone") and (self.has(number, "undoing") or not self.has(number, "done")):
                return number
        return None

    def next_number(self) -> int:
        """The number of the next apply."""
        return max(self.numbers(), default=0) + 1

    def moves(self) -> dict[str, str]:
        """Which canonical memory each silo memory became, by their keys."""
        plans = (self.plan(number) for number in self.numbers() if not self.has(number, "undoing"))
        return {taken.key: taken.canonical_key for plan in plans for taken in plan.taken}

    def begin(self, plan: Plan, contents: Mapping[str, bytes]) -> None:
        """Write an apply down: first all that it changes and writes, then its plan. From then on it will be finished."""
        ends = accumulate(map(len, contents.values()))
        spans = {digest: (end - len(data), len(data)) for (digest, data), end in zip(contents.items(), ends, strict=True)}
        replace_file(self.copies(plan.number), b"".join(contents.values()))
        written = _WRITTEN.dump_json(replace(plan, contents=spans), indent=1) + b"\n"
        replace_file(self._of(plan.number) / _PLAN, written)

    def plan(self, number: int) -> Plan:
        """The plan of an apply."""
        path = self._of(number) / _PLAN
        try:
            return _WRITTEN.validate_json(path.read_bytes())
        except (OSError, ValueError) as error:
            raise _damaged(path, error) from error

    def copies(self, number: int) -> Path:
        """The file that holds all that an apply changed, as it was and as it was going to be."""
        return self._of(number) / _CONTENTS

    def contents(self, number: int) -> dict[str, bytes]:
        """The files of an apply as the journal keeps them, by digest."""
        path = self.copies(number)
        spans = self.plan(number).contents
        try:
            data = path.read_bytes()
        except FileNotFoundError as error:
            raise ConflictError(
                f"Apply {number} cannot be undone: its copies are gone, as after `memory scan --mend`."
            ) from error
        except OSError as error:
            raise _damaged(path, error) from error
        found = {digest: data[start : start + length] for digest, (start, length) in spans.items()}
        if any(digest_of(content) != digest for digest, content in found.items()):
            raise DamagedError(f"{path} is not what was written there; restore it from a backup.")
        return found

    def has(self, number: int, mark: str) -> bool:
        """Whether an apply bears a mark: `done`, `undoing`, `undone`."""
        return (self._of(number) / mark).exists()

    def mark(self, number: int, mark: str) -> None:
        """Give an apply a mark."""
        replace_file(self._of(number) / mark, b"")

    def keep_index(self, number: int, place: int, data: bytes) -> None:
        """Keep a silo's index as it is just before lines are taken out."""
        replace_file(self._of(number) / f"index-{place}", data)

    def kept_index(self, number: int, place: int) -> bytes | None:
        """The index that was kept, None where nothing was taken out of it."""
        path = self._of(number) / f"index-{place}"
        return path.read_bytes() if path.exists() else None

    def _of(self, number: int) -> Path:
        return self.folder / f"{number:04}"


def _damaged(path: Path, error: Exception) -> DamagedError:
    return DamagedError(f"{path} cannot be read ({error}); restore it from a backup, or move its folder away.")
