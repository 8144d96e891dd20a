"""Tombstones: keyed digests of texts that were erased for good, so that no source brings one back unless a person lets it."""

import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import chain
from types import EllipsisType
from typing import TypeVar

import pyarrow as pa
from pydantic import TypeAdapter

from memory_assets.errors import DamagedError, first_line
from memory_assets.models import FileScan, Refusal, Scan
from memory_assets.stores.state import TenantState

Result = TypeVar("Result")
FILE = "erased.json"
ERASED = "[erased]"
"""What stands where an erased text stood."""


@dataclass(frozen=True, slots=True)
class Tombstone:
    """An erased memory."""

    id: int
    erased_at: str
    """ISO 8601, UTC."""
    digests: tuple[str, ...]
    """Of its text, and of the parts that a source may bring by themselves."""
    finished: bool = False
    """Whether nothing of it is left; a kill leaves it False, and the next erasure goes on."""
    allowed: bool = False
    """Whether it may come back; what another machine erased does not erase it again."""


_JSON = TypeAdapter(dict[str, tuple[Tombstone, ...]])


class Tombstones:
    """The tombstones of one tenant, or of several together."""

    def __init__(self, state: TenantState) -> None:
        """Read those of a tenant; there may be none. DamagedError if they cannot be read."""
        self._held = state.get(FILE)
        """What was read."""
        try:
            self._replace({} if self._held is None else _JSON.validate_json(self._held))
        except ValueError as error:
            raise DamagedError(
                f"{state.where(FILE)} cannot be read ({first_line(error)}); restore it from a backup, or remove it."
            ) from error

    @classmethod
    def change(cls, state: TenantState, change: "Callable[[Tombstones], Result]") -> tuple["Tombstones", Result]:
        """Change those of a tenant; again if another process was faster. Returns what is there then, and what `change` returned."""
        while True:
            stones = cls(state)
            result = change(stones)
            if stones.save(state, stones._held):
                return stones, result

    def _replace(self, by_key: dict[str, tuple[Tombstone, ...]]) -> None:
        self._by_key = by_key
        self._found = {key: {digest: each for each in stones for digest in each.digests} for key, stones in by_key.items()}

    def __bool__(self) -> bool:
        return any(self._by_key.values())

    @property
    def all(self) -> list[Tombstone]:
        """Those that hold, the oldest first."""
        stones = chain.from_iterable(self._by_key.values())
        return sorted((each for each in stones if not each.allowed), key=lambda each: each.erased_at)

    @property
    def allowed(self) -> set[int]:
        """The ids of erased memories that may come back."""
        return {each.id for each in chain.from_iterable(self._by_key.values()) if each.allowed} - {each.id for each in self.all}

    def find(self, *texts: str) -> Tombstone | None:
        """The tombstone of the first of some texts that was erased."""
        for key, digests in self._found.items():
            for text in filter(str.strip, texts) if digests else ():
                if found := digests.get(_digest(key, text)):
                    return found
        return None

    def replaced(self, text: str) -> str:
        """A text, or `ERASED` in its place."""
        return ERASED if self.find(text) else text

    def without(self, rows: pa.Table) -> pa.Table:
        """Rows of memories without those that were erased, by id or text."""
        if not self:
            return rows
        erased, pairs = {each.id for each in self.all}, zip(rows["id"].to_pylist(), rows["content"].to_pylist(), strict=True)
        return rows.filter(pa.array([number not in erased and self.find(text) is None for number, text in pairs], pa.bool_()))

    def joined(self, other: "Tombstones") -> "Tombstones":
        joined = dict(self._by_key)
        for key, stones in other._by_key.items():
            both = sorted((*joined.get(key, ()), *stones), key=lambda each: not each.allowed)
            joined[key] = tuple({each.id: each for each in both}.values())
        self._replace(joined)
        return self

    def add(self, texts: Mapping[int, Iterable[str]], *, finished: bool = False) -> None:
        """Note that memories are being erased: id -> the texts that must not come back."""
        key = next(iter(self._by_key), None) or secrets.token_hex(32)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        stones = tuple(
            Tombstone(number, now, tuple(sorted({_digest(key, text) for text in each if folded(text)})), finished)
            for number, each in texts.items()
        )
        self._replace(self._by_key | {key: (*self._by_key.get(key, ()), *stones)})

    def finish(self) -> None:
        self._replace({key: tuple(replace(each, finished=True) for each in stones) for key, stones in self._by_key.items()})

    def lift(self, ids: Iterable[int]) -> list[Tombstone]:
        """Let the texts of some erased memories come back; return those that were lifted."""
        wanted = set(ids)
        lifted = [each for each in self.all if each.id in wanted]
        self._replace(
            {
                key: tuple(replace(each, digests=(), allowed=True) if each.id in wanted else each for each in stones)
                for key, stones in self._by_key.items()
            }
        )
        return lifted

    def save(self, state: TenantState, expected: bytes | EllipsisType | None = ...) -> bool:
        """Write them to a tenant's state, if there are any or were any, and it still has what is `expected`."""
        if not self._by_key:
            return True
        return state.put(FILE, _JSON.dump_json(self._by_key, indent=1) + b"\n", expected)


MEND = "let it come back with `memory erase {} --allow-again`"


def refusal_of(stone: Tombstone) -> str:
    """Why a text is not taken in again."""
    return f"it was erased on {stone.erased_at[:10]} as memory {stone.id}"


def without_erased(scan: Scan, tombstones: Tombstones) -> Scan:
    """What was read from a source, without what was erased: that is refused by name."""
    if not tombstones:
        return scan
    return replace(scan, changed=tuple(_without_erased(file, tombstones) for file in scan.changed))


def _without_erased(file: FileScan, tombstones: Tombstones) -> FileScan:
    stones = {
        item.key: stone for item in file.items if (stone := tombstones.find(item.body if item.body.strip() else item.description))
    }
    refused = [
        Refusal(item.source, file.path, refusal_of(stone), MEND.format(stone.id), key=item.key)
        for item in file.items
        if (stone := stones.get(item.key))
    ]
    return replace(
        file,
        items=tuple(item for item in file.items if item.key not in stones),
        hooks=tuple(hook for hook in file.hooks if hook.target not in stones and not tombstones.find(hook.text)),
        refusals=(*file.refusals, *refused),
    )


def _digest(key: str, text: str) -> str:
    return blake2b(folded(text).encode("utf-8", "surrogatepass"), key=bytes.fromhex(key), digest_size=16).hexdigest()


def folded(text: str) -> str:
    """A text with blanks and line breaks folded: they differ between sources."""
    return " ".join(text.split())
