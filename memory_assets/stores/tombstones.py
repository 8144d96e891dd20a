"""Tombstones: keyed digests of erased texts, so that no source brings one back unless a person allows it."""

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
"""Text that replaces an erased text."""


@dataclass(frozen=True, slots=True)
class Tombstone:
    """An erased memory."""

    id: int
    erased_at: str
    """ISO 8601, UTC."""
    digests: tuple[str, ...]
    """Digests of its text, and of the parts that a source may contain separately."""
    finished: bool = False
    """Whether the erasure is complete; a kill leaves it False, and the next erasure continues."""
    allowed: bool = False
    """Whether the text may come back; an erasure on another machine then does not erase it again."""


_JSON = TypeAdapter(dict[str, tuple[Tombstone, ...]])


class Tombstones:
    """The tombstones of one tenant, or of several combined."""

    def __init__(self, state: TenantState, content: bytes | EllipsisType | None = ...) -> None:
        """Read a tenant's tombstones, if any, or those of a backup's `content`. DamagedError if they cannot be read."""
        self._content = state.get(FILE) if content is ... else content
        try:
            self._replace({} if self._content is None else _JSON.validate_json(self._content))
        except ValueError as error:
            raise DamagedError(
                f"{state.where(FILE)} cannot be read ({first_line(error)}); restore it from a backup, or remove it."
            ) from error

    @classmethod
    def change(cls, state: TenantState, change: "Callable[[Tombstones], Result]") -> tuple["Tombstones", Result]:
        """Change a tenant's tombstones; retry on conflicts. Returns the new tombstones and the result of `change`."""
        while True:
            stones = cls(state)
            result = change(stones)
            if stones.save(state, stones._content):
                return stones, result

    def _replace(self, by_key: dict[str, tuple[Tombstone, ...]]) -> None:
        self._by_key = by_key
        self._by_digest = {key: {digest: each for each in stones for digest in each.digests} for key, stones in by_key.items()}

    def __bool__(self) -> bool:
        return any(self._by_key.values())

    @property
    def keyed(self) -> list[tuple[str, Tombstone]]:
        """The tombstones in force, oldest first, each with the key of its digests."""
        pairs = ((key, each) for key, stones in self._by_key.items() for each in stones if not each.allowed)
        return sorted(pairs, key=lambda pair: pair[1].erased_at)

    @property
    def all(self) -> list[Tombstone]:
        return [each for _, each in self.keyed]

    @property
    def unfinished(self) -> set[int]:
        """The ids of memories whose erasure was killed or runs."""
        return {each.id for each in self.all if not each.finished}

    @property
    def allowed(self) -> set[int]:
        return {each.id for each in chain.from_iterable(self._by_key.values()) if each.allowed} - {each.id for each in self.all}

    def find(self, *texts: str) -> Tombstone | None:
        """Return the tombstone of the first text that was erased."""
        for key, digests in self._by_digest.items():
            for text in filter(str.strip, texts) if digests else ():
                if found := digests.get(_digest(key, text)):
                    return found
        return None

    def replaced(self, text: str) -> str:
        return ERASED if self.find(text) else text

    def without(self, rows: pa.Table) -> pa.Table:
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

    @property
    def _own_key(self) -> str:
        return next(iter(self._by_key), None) or secrets.token_hex(32)

    def add(self, texts: Mapping[int, Iterable[str]]) -> None:
        """Add tombstones: id -> the texts that must not come back."""
        key, now = self._own_key, datetime.now(UTC).isoformat(timespec="seconds")
        digests = {number: {_digest(key, text) for text in each if folded(text)} for number, each in texts.items()}
        self.adopt((key, Tombstone(number, now, tuple(sorted(each)))) for number, each in digests.items())

    def adopt(self, stones: Iterable[tuple[str, Tombstone]]) -> None:
        """Add tombstones, each with the key of its digests; the key is empty if there are none."""
        by_key, own = dict(self._by_key), self._own_key
        for key, each in stones:
            by_key[key or own] = (*by_key.get(key or own, ()), each)
        self._replace(by_key)

    def finish(self) -> None:
        self._replace({key: tuple(replace(each, finished=True) for each in stones) for key, stones in self._by_key.items()})

    def lift(self, ids: Iterable[int]) -> list[Tombstone]:
        """Allow the texts of erased memories to come back; return the tombstones that were lifted."""
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
        """Write the tombstones, if there are or were any, to a state that still equals `expected`; return False on a conflict."""
        if not self._by_key:
            return True
        return state.put(FILE, _JSON.dump_json(self._by_key, indent=1) + b"\n", expected)


MEND = "let it come back with `memory erase {} --allow-again`"


def refusal_of(stone: Tombstone) -> str:
    """Return why a text is refused."""
    return f"it was erased on {stone.erased_at[:10]} as memory {stone.id}"


def without_erased(scan: Scan, tombstones: Tombstones) -> Scan:
    """Return a scan without erased texts; they are added to its refusals."""
    if not tombstones:
        return scan
    return replace(scan, changed=tuple(_refuse_erased(file, tombstones) for file in scan.changed))


def _refuse_erased(file: FileScan, tombstones: Tombstones) -> FileScan:
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
    """Return a text with whitespace collapsed, because it differs between sources."""
    return " ".join(text.split())
