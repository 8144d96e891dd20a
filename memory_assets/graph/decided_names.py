"""Which names a person decided to be one, or not: kept in the tenant's folder, and applied over what the rules of `entities` find.

A decision is about keys (`entities.key_of`), so it holds for all spellings that are equal once normalised, and for memories to come.
"""

import json
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from memory_assets.errors import DamagedError
from memory_assets.graph.entities import ALONE, CALLED
from memory_assets.stores.files import replace_file
from memory_assets.stores.locks import locked

if TYPE_CHECKING:
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


def read_name_decisions(folder: Path) -> Sequence[NameDecision]:
    """The decisions of the tenant in `folder`, the earliest first.

    Raises:
        DamagedError: the file cannot be read.
    """
    path = folder / _FILE
    try:
        held = json.loads(path.read_bytes())
        return [NameDecision(**{**each, "names": tuple(each["names"]), "keys": tuple(each["keys"])}) for each in held]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise DamagedError(f"{path} cannot be read ({error}); take it from a backup, or remove it.") from error


def change_name_decisions(folder: Path, change: Callable[[Sequence[NameDecision]], Iterable[NameDecision]]) -> None:
    """Replace the decisions with what `change` makes of them, one process at a time."""
    with locked(folder):
        decisions = [asdict(each) for each in change(read_name_decisions(folder))]
        replace_file(folder / _FILE, json.dumps(decisions, ensure_ascii=False, indent=1) + "\n")


def spellings_of(tenant: "Tenant") -> Mapping[str, str]:
    """The gazetteer's spellings, lower case -> the name, and the keys that decisions replace."""
    return {**tenant.analyzer.gazetteer.canonical, **decided_keys(read_name_decisions(tenant.folder))}


def decided_keys(decisions: Iterable[NameDecision]) -> Mapping[str, str]:
    """Key -> the key that takes its place, and `CALLED` and a key -> what is called so; a later decision goes before an earlier one."""
    keys: dict[str, str] = {}
    for each in decisions:
        keys |= {key: each.into_key or f"{ALONE}:{key.partition(':')[2]}" for key in each.keys}
        keys |= {f"{CALLED}{each.into_key}": each.into} if each.into_key else {}
    return keys
