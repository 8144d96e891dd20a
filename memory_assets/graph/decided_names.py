"""Decisions of a person that names mean the same entity, or do not. They override the rules of `entities`.

A decision concerns keys (`entities.key_of`), so it covers every spelling with the same key, also in future memories.
"""

import json
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from memory_assets.errors import DamagedError
from memory_assets.graph.entities import ALONE, CALLED

if TYPE_CHECKING:
    from memory_assets.stores.state import TenantState
    from memory_assets.tenants import Tenant

_FILE = "names.json"


@dataclass(frozen=True, slots=True)
class NameDecision:
    """A decision that names mean the same entity as another name, or that a name is an entity of its own."""

    did: Literal["merge", "split"]
    names: tuple[str, ...]
    """Names as memories write them; of a merge, those of the entity that was merged into another."""
    keys: tuple[str, ...]
    """Keys of these names by the rules alone, without any decision."""
    into: str = ""
    """Name of the entity that a merge kept, or that a split took the names from."""
    into_key: str = ""
    """Key that the merged names take."""
    at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    id: str = field(default_factory=lambda: secrets.token_hex(4))


def read_name_decisions(state: "TenantState") -> Sequence[NameDecision]:
    """Return a tenant's decisions, the earliest first; raise DamagedError if they cannot be read."""
    return _parsed(state, state.get(_FILE))


def change_name_decisions(state: "TenantState", change: Callable[[Sequence[NameDecision]], Iterable[NameDecision]]) -> None:
    """Replace the decisions with the result of `change`; call it again if another process wrote meanwhile."""

    def changed(stored: bytes | None) -> bytes:
        decisions = [asdict(each) for each in change(_parsed(state, stored))]
        return f"{json.dumps(decisions, ensure_ascii=False, indent=1)}\n".encode()

    state.update(_FILE, changed)


def _parsed(state: "TenantState", stored: bytes | None) -> Sequence[NameDecision]:
    try:
        decisions = json.loads(stored or b"[]")
        return [NameDecision(**{**each, "names": tuple(each["names"]), "keys": tuple(each["keys"])}) for each in decisions]
    except (ValueError, TypeError, KeyError) as error:
        raise DamagedError(f"{state.where(_FILE)} cannot be read ({error}); take it from a backup, or remove it.") from error


def read_spellings(tenant: "Tenant") -> Mapping[str, str]:
    """Return the gazetteer's spellings, lower case -> name, and the decisions; a later decision overrides an earlier one.

    A decision is held as key -> replacing key, and as `CALLED` + key -> chosen name.
    """
    keys: dict[str, str] = {}
    for each in read_name_decisions(tenant.state):
        keys |= {key: each.into_key or f"{ALONE}:{key.partition(':')[2]}" for key in each.keys}
        keys |= {f"{CALLED}{each.into_key}": each.into} if each.into_key else {}
    return {**tenant.analyzer.gazetteer.canonical, **keys}
