"""Which names a person decided to be one, or not: kept in the tenant's state, and applied over what the rules of `entities` find.

A decision is about keys (`entities.key_of`), so it holds for all spellings that are equal once normalised, and for memories to come.
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
    """Some names mean what another one means, or a name means nothing but itself."""

    did: Literal["merge", "split"]
    names: tuple[str, ...]
    """As memories write them: of a merge, those of the entity that went into another."""
    keys: tuple[str, ...]
    """Of these names, as the rules see them without any decision."""
    into: str = ""
    """Name of the entity that a merge went into; of a split, of the one that it left."""
    into_key: str = ""
    """The key that the names of a merge have from then on."""
    at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    id: str = field(default_factory=lambda: secrets.token_hex(4))


def read_name_decisions(state: "TenantState") -> Sequence[NameDecision]:
    """The decisions of a tenant, the earliest first.

    Raises:
        DamagedError: they cannot be read.
    """
    return _parsed(state, state.get(_FILE))


def change_name_decisions(state: "TenantState", change: Callable[[Sequence[NameDecision]], Iterable[NameDecision]]) -> None:
    """Replace the decisions with what `change` makes of them; again if another process was faster."""

    def changed(held: bytes | None) -> bytes:
        decisions = [asdict(each) for each in change(_parsed(state, held))]
        return f"{json.dumps(decisions, ensure_ascii=False, indent=1)}\n".encode()

    state.update(_FILE, changed)


def _parsed(state: "TenantState", held: bytes | None) -> Sequence[NameDecision]:
    try:
        decisions = json.loads(held or b"[]")
        return [NameDecision(**{**each, "names": tuple(each["names"]), "keys": tuple(each["keys"])}) for each in decisions]
    except (ValueError, TypeError, KeyError) as error:
        raise DamagedError(f"{state.where(_FILE)} cannot be read ({error}); take it from a backup, or remove it.") from error


def spellings_of(tenant: "Tenant") -> Mapping[str, str]:
    """The gazetteer's spellings, lower case -> the name, and what persons decided; a later decision goes before an earlier one.

    A decision gives a key -> the key that takes its place, and `CALLED` and a key -> what is called so.
    """
    keys: dict[str, str] = {}
    for each in read_name_decisions(tenant.state):
        keys |= {key: each.into_key or f"{ALONE}:{key.partition(':')[2]}" for key in each.keys}
        keys |= {f"{CALLED}{each.into_key}": each.into} if each.into_key else {}
    return {**tenant.analyzer.gazetteer.canonical, **keys}
