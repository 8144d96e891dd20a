"""Incremental name resolution: find the names that a change affects, and resolve them to entities. Other names are not read.

Only names of one division (`entities.division_of`) can be misspellings of each other. A division is resolved again when a changed
memory mentions one of its names. The first and last names that occur alone and belong to a full name of the division are resolved
with it. The catalog is closed while names are compared.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa

from memory_assets.graph.entities import Surface, division_of, key_of, lone_words, own_ids, resolve
from memory_assets.stores.schema import table

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    Name = tuple[str, str]
    """Text and type."""

_ALIASES = table("graph_aliases").arrow()
_OWN_IDS = 2
"""Ids looked up for a name that may become a new entity. No name has ever been shared by more groups."""
_MENTIONED = """
    SELECT "text", type FROM changed_surfaces
    UNION SELECT "text", type FROM graph_surfaces SEMI JOIN touched ON touched.id = memory_id
"""
_KNOWN = 'SELECT "text", type, entity_id, key FROM graph_aliases SEMI JOIN divisions USING (division)'
_CONCERNED = 'CREATE TEMP TABLE doubtful_surfaces AS FROM now_surfaces SEMI JOIN doubtful USING ("text", type)'
_COUNTED = 'SELECT "text", type, count(*) FROM doubtful_surfaces GROUP BY ALL ORDER BY ALL'
_TOGETHER = """
    WITH full_names AS (FROM doubtful_surfaces WHERE contains("text", ' '))
    SELECT DISTINCT a."text", b."text" FROM full_names a JOIN full_names b USING (memory_id)
    WHERE a."text" < b."text" AND left(a."text", 1) = left(b."text", 1)
"""
_ELSEWHERE = """
    WITH called AS (
        SELECT word, entity_id, key FROM (FROM graph_aliases ANTI JOIN divisions USING (division) WHERE type = 'PERSON')
            JOIN words ON split_part(key, ' ', 1) = 'name:' || word
        UNION ALL
        SELECT word, entity_id, key FROM (FROM graph_aliases ANTI JOIN divisions USING (division) WHERE type = 'PERSON')
            JOIN words ON split_part(key, ' ', -1) = word WHERE starts_with(key, 'name:')
    )
    SELECT word, list(DISTINCT entity_id ORDER BY entity_id)[:2] FROM called
    WHERE length(key) - length(replace(key, ' ', '')) BETWEEN 1 AND 2 GROUP BY word
"""
_TAKEN = """
    SELECT DISTINCT entity_id FROM graph_aliases SEMI JOIN claimable ON claimable.id = entity_id ANTI JOIN doubtful USING ("text", type)
"""


@dataclass(frozen=True, slots=True)
class Naming:
    """Difference that a change makes to `graph_aliases`."""

    lost_aliases: pa.Table
    new_aliases: pa.Table
    basis: str
    """Digest of the spellings used in the comparison."""
    anew: bool
    """Whether all names are compared again because the spellings changed since the last build."""


class AffectedNames:
    """Names that a change affects, with their entities as of the last build."""

    def __init__(self, connection: "DuckDBPyConnection", spellings: Mapping[str, str]) -> None:
        """Read the names. The catalog must show `touched`, `changed_surfaces` and `now_surfaces`; `spellings`: lower case -> name."""
        self._spellings = spellings
        self._keys: dict[Name, str] = {}
        self._basis = blake2b(repr(sorted(spellings.items())).encode("utf-8", "replace"), digest_size=16).hexdigest()
        self._anew = connection.execute("SELECT names FROM graph_position").fetchone() != (self._basis,)
        mentioned = f'{_MENTIONED} UNION SELECT "text", type FROM graph_aliases' if self._anew else _MENTIONED
        names: set[Name] = set(connection.execute(mentioned).fetchall())
        divisions = {division_of(self._key(name)) for name in names}
        self._before: dict[Name, tuple[int, str]] = {}
        if self._anew:
            self._remember(connection.execute('SELECT "text", type, entity_id, key FROM graph_aliases').fetchall())
        else:
            _register(connection, "divisions", division=divisions)
            self._remember(connection.execute(_KNOWN).fetchall())
            alone = {f"name:{word}" for word in lone_words([*map(self._key, names), *(key for _, key in self._before.values())])}
            _register(connection, "divisions", division=alone)
            self._remember(connection.execute(_KNOWN).fetchall())
            divisions |= alone
        names |= self._before.keys()
        _register(connection, "divisions", division=divisions)
        _register(connection, "doubtful", text=[text for text, _ in names], type=[kind for _, kind in names])
        connection.execute(_CONCERNED)
        self._counted = [Surface(*row) for row in connection.execute(_COUNTED).fetchall()]
        self._together = connection.execute(_TOGETHER).fetchall()
        self._elsewhere: dict[str, list[int]] = {}
        self._taken: set[int] = set()
        if not self._anew and names:
            words = {key.removeprefix("name:") for key in map(self._key, names) if key.startswith("name:") and " " not in key}
            if words:
                _register(connection, "words", word=words)
                self._elsewhere = dict(connection.execute(_ELSEWHERE).fetchall())
            claimable = {number for number, _ in self._before.values()}
            claimable.update(number for key in set(map(self._key, names)) for number in islice(own_ids(key), _OWN_IDS))
            connection.register("claimable", pa.table({"id": sorted(claimable.union(*self._elsewhere.values()))}))
            self._taken = {number for (number,) in connection.execute(_TAKEN).fetchall()}

    def resolve(self) -> Naming:
        """Decide which entity each name means."""
        ids = resolve(
            self._counted,
            together=self._together,
            keys={(surface.text, surface.type): self._key((surface.text, surface.type)) for surface in self._counted},
            known={name: number for name, (number, _) in self._before.items()},
            elsewhere=self._elsewhere,
            taken=self._taken,
        )
        after = {name: (number, self._key(name)) for name, number in ids.items()}
        return Naming(_differing(self._before, after), _differing(after, self._before), self._basis, self._anew)

    def _key(self, name: "Name") -> str:
        if name not in self._keys:
            self._keys[name] = key_of(Surface(*name), self._spellings)
        return self._keys[name]

    def _remember(self, rows: "Iterable[tuple[str, str, int, str]]") -> None:
        found = {(text, kind): (number, key) for text, kind, number, key in rows}
        self._before |= found
        if not self._anew:
            self._keys |= {name: key for name, (_, key) in found.items() if key}


def _differing(these: "Mapping[Name, tuple[int, str]]", others: "Mapping[Name, tuple[int, str]]") -> pa.Table:
    rows = [(*name, *found, division_of(found[1] or "")) for name, found in these.items() if others.get(name) != found]
    return pa.table(list(zip(*rows, strict=True)) or [[]] * len(_ALIASES), schema=_ALIASES)


def _register(connection: "DuckDBPyConnection", name: str, **columns: Iterable[str]) -> None:
    connection.register(name, pa.table({column: pa.array(values, pa.string()) for column, values in columns.items()}))
