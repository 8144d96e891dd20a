"""Names of people, projects and things in memories: list, count and show them, merge two, split a spelling off."""

import re
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from memory_assets.errors import InvalidInputError, NotFoundError
from memory_assets.language.entity_types import WRITTEN, EntityType
from memory_assets.operations.answers import Answer, LocalTime, View
from memory_assets.operations.arguments import name_projects
from memory_assets.operations.fields import Limit, MemoryId, Name
from memory_assets.tenants import Tenant

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from memory_assets.graph.decided_names import NameDecision

_NAMES = """
    SELECT n.id, n.label, n.type, count(*) AS memories FROM graph_nodes n JOIN graph_mentions m ON m.entity_id = n.id
    WHERE n.kind = 'entity' AND ($1 = '' OR n.type = $1)
      AND ($2 = '' OR n.id IN (SELECT entity_id FROM graph_aliases WHERE contains(lower("text"), lower($2))))
    GROUP BY ALL HAVING (count(*), n.id) < ($3, $4) ORDER BY memories DESC, n.id DESC LIMIT $5
"""
_TYPES = "SELECT type, count(*) FROM graph_nodes WHERE kind = 'entity' GROUP BY type ORDER BY 2 DESC, 1"
_SPELLINGS = """
    SELECT a."text", a.type, a.key, count(s.memory_id) FROM graph_aliases a LEFT JOIN graph_surfaces s USING ("text", type)
    WHERE a.entity_id = $1 GROUP BY ALL ORDER BY 4 DESC, 1, 2
"""
_NODE = "SELECT id, label, type FROM graph_nodes WHERE id = $1 AND kind = 'entity'"
_ALIKE = """
    WITH words AS (SELECT DISTINCT unnest(string_split(lower("text"), ' ')) AS word FROM graph_aliases WHERE entity_id = $1),
    long_words AS (SELECT coalesce(list(word), []) AS held FROM words WHERE length(word) > 2),
    near AS (
        SELECT entity_id, max(jaro_winkler_similarity(lower("text"), lower($2))) AS alike,
               bool_or(list_has_any(string_split(lower("text"), ' '), (SELECT held FROM long_words))) AS shared
    FROM graph_aliases WHERE entity_id <> $1 AND type NOT IN ('FILE', 'URL', 'EMAIL', 'ENV_VAR', 'TAG') GROUP BY entity_id
    )
    SELECT n.id, n.label, n.type, (SELECT count(*) FROM graph_mentions WHERE entity_id = n.id)
    FROM near JOIN graph_nodes n ON n.id = entity_id WHERE shared OR alike > 0.9
    ORDER BY n.type <> $3, shared DESC, alike DESC, n.id LIMIT 8
"""
_WRITTEN = """
    SELECT entity_id FROM graph_aliases JOIN graph_mentions USING (entity_id) WHERE lower("text") = lower($1)
    GROUP BY entity_id ORDER BY count(*) DESC, entity_id LIMIT 1
"""
_COUNTS = """
    SELECT name, count(*) FROM (SELECT {value} AS name FROM stored WHERE state = 'active' OR {of_all})
    WHERE name <> '' GROUP BY ALL ORDER BY 2 DESC, 1
"""
_LARGEST = 1 << 62


class NameView(View):
    """A person, project or thing that memories name."""

    id: int
    name: str
    type: str
    memories: int = Field(description="Number of memories that mention it.")

    @property
    def may_merge(self) -> bool:
        """Whether another name can mean the same; false for files, addresses and the like."""
        return self.type not in WRITTEN


class Names(Answer):
    """Names in memories, the most mentioned first."""

    names: tuple[NameView, ...]
    types: dict[str, int] = Field(description="Type -> number of names of that type.")
    next_cursor: str | None = Field(description="Cursor of the next page; null on the last.")

    def text(self, local: LocalTime) -> str:
        return (
            "\n".join(f"{each.id}  {each.memories:>6}  {each.type:<10}  {each.name}" for each in self.names)
            or f"No such names are known, as of the last {local.command('run')}."
        )


class SpellingView(View):
    """One spelling of a name."""

    text: str
    type: str
    memories: int


class DecisionView(View):
    """A user's decision about names."""

    id: str
    did: str
    names: tuple[str, ...]
    into: str
    at: datetime

    def text(self) -> str:
        quoted = ", ".join(f"“{name}”" for name in self.names)
        return f"{quoted} is the same as “{self.into}”" if self.did == "merge" else f"{quoted} is not “{self.into}”"


class ShownName(Answer):
    """One name, its spellings and similar names."""

    name: NameView
    spellings: tuple[SpellingView, ...]
    alike: tuple[NameView, ...] = Field(description="Others that may be the same.")

    def text(self, local: LocalTime) -> str:
        spelt = ", ".join(f"{each.text} ({each.memories})" for each in self.spellings)
        return f"{self.name.name} · {self.name.type} · id {self.name.id}\n   {spelt}"


class Decided(Answer):
    """A decision that was made or taken back, and the resulting name."""

    decision: DecisionView
    name: int | None = Field(description="Id of the resulting name; null if no memory mentions it.")
    undone: bool = False

    def text(self, local: LocalTime) -> str:
        return f"{'Taken back: ' if self.undone else ''}{self.decision.text()}."


class Decisions(Answer):
    """All decisions about names, the latest first."""

    decisions: tuple[DecisionView, ...]

    def text(self, local: LocalTime) -> str:
        return "\n".join(f"{each.id}  {each.text()}" for each in self.decisions) or "Nothing was decided about names."


def list_names(
    tenant: Tenant,
    *,
    kind: Annotated[str, Field(alias="type", max_length=40)] = "",
    like: Annotated[str, Field(max_length=200)] = "",
    limit: Limit = 50,
    cursor: Annotated[str | None, Field(max_length=40)] = None,
) -> Names:
    """List people, projects and things that memories name, the most mentioned first. An unknown type raises InvalidInputError.

    `type` limits them to one type, `like` to names with a spelling that contains it. `cursor` is the previous page's `next_cursor`.
    """
    if cursor and not (re.fullmatch(r"\d+-\d+", cursor, re.ASCII) and len(cursor) <= 40):
        raise InvalidInputError("This cursor is not valid; open the list again.")
    kind = kind.upper().replace("-", "_")
    memories, number = (min(int(each), _LARGEST) for each in cursor.split("-")) if cursor else (_LARGEST, _LARGEST)
    with tenant.catalog.interactive.read() as connection:
        rows = connection.execute(_NAMES, [kind, like, memories, number, limit + 1]).fetchall()
        types = dict(connection.execute(_TYPES).fetchall())
    if kind and kind not in types and kind not in set(EntityType):
        raise InvalidInputError(f"{kind!r} is no type of names; give one of {', '.join(types or EntityType)}.")
    names = tuple(NameView(id=number, name=name, type=kind, memories=count) for number, name, kind, count in rows[:limit])
    return Names(names=names, types=types, next_cursor=f"{names[-1].memories}-{names[-1].id}" if len(rows) > limit else None)


def show_name(tenant: Tenant, number: int) -> ShownName:
    """Show a name with its spellings and with names that may mean the same."""
    with tenant.catalog.interactive.read() as connection:
        name, spellings = _read_name(connection, number)
        alike = connection.execute(_ALIKE, [number, name.name, name.type]).fetchall() if name.may_merge else []
    return ShownName(
        name=name,
        spellings=tuple(SpellingView(text=text, type=kind, memories=count) for text, kind, _, count in spellings),
        alike=tuple(NameView(id=other, name=label, type=kind, memories=count) for other, label, kind, count in alike),
    )


def find_name(tenant: Tenant, text: str) -> int:
    """Return the id of the name with this spelling, in any case; of several the one that most memories mention."""
    for (number,) in tenant.catalog.interactive.fetch(_WRITTEN, [text]):
        return number
    raise NotFoundError(f"No memory names {text!r}, as of the last `memory run`.")


def count_memories(tenant: Tenant, *columns: Literal["state", "kind", "source", "project", "tags"]) -> dict[str, dict[str, int]]:
    """Count active memories by the values of each column, the most frequent first; `state` counts all memories."""
    with tenant.catalog.interactive.read() as connection:
        connection.register("stored", tenant.memories.scan(list({*columns, "state"})))
        values = {column: "unnest(tags)" if column == "tags" else column for column in columns}
        queries = {column: _COUNTS.format(value=value, of_all=column == "state") for column, value in values.items()}
        return {column: dict(connection.execute(query).fetchall()) for column, query in queries.items()}


def count_projects(tenant: Tenant) -> dict[str, int]:
    """Count active memories by project, the largest first; the names are those that a search accepts."""
    counts = count_memories(tenant, "project")["project"]
    found: Counter[str] = Counter()
    for project, name in name_projects(tenant, list(counts)).items():
        found[name] += counts[project]
    return dict(found.most_common())


def list_decisions(tenant: Tenant) -> Decisions:
    """List the decisions about names, the latest first."""
    from memory_assets.graph.decided_names import read_name_decisions

    return Decisions(decisions=tuple(DecisionView.model_validate(each) for each in reversed(read_name_decisions(tenant.state))))


def merge_names(tenant: Tenant, number: int, into: MemoryId) -> Decided:
    """Merge two names: every spelling of the first then means the second, in later memories too."""
    from memory_assets.graph.decided_names import NameDecision

    with tenant.catalog.interactive.read() as connection:
        one, spellings = _read_name(connection, number)
        other, targets = _read_name(connection, into)
    if one.id == other.id:
        raise InvalidInputError(f"{one.name!r} and {other.name!r} are one already.")
    for each in (one, other):
        if not each.may_merge:
            raise InvalidInputError(f"{each.name!r} is a {each.type}, which cannot be merged; merge names of people and things.")
    keys = tuple(dict.fromkeys(_own_key(tenant, text, kind) for text, kind, _, _ in spellings))
    into_key = next(key or _own_key(tenant, text, kind) for text, kind, key, _ in targets if text == other.name)
    made = NameDecision("merge", tuple(dict.fromkeys(text for text, *_ in spellings)), keys, other.name, into_key)
    return _apply_decision(tenant, made, other.name)


def split_name(tenant: Tenant, number: int, spelling: Name) -> Decided:
    """Split a spelling off a name: it becomes a name of its own, which no rule merges with another.

    Spellings that differ only in case, accents and titles go with it.
    """
    from memory_assets.graph.decided_names import NameDecision

    with tenant.catalog.interactive.read() as connection:
        name, spellings = _read_name(connection, number)
    keys = {text: _own_key(tenant, text, kind) for text, kind, _, _ in spellings}
    if spelling not in keys:
        raise NotFoundError(f"{spelling!r} is not a spelling of {name.name!r}.")
    going = tuple(text for text, key in keys.items() if key == keys[spelling])
    if len(going) == len(keys):
        raise InvalidInputError(f"{spelling!r} is the only spelling of {name.name!r}, so it cannot be split off.")
    left = name.name if name.name not in going else next(text for text in keys if text not in going)
    made = NameDecision("split", going, (keys[spelling],), left)
    return _apply_decision(tenant, made, spelling)


def undo_decision(tenant: Tenant, reference: str) -> Decided:
    """Take back a decision about names."""
    from memory_assets.graph.decided_names import read_name_decisions

    made = next((each for each in read_name_decisions(tenant.state) if each.id == reference), None)
    if made is None:
        raise NotFoundError(f"There is no decision {reference} about names; it may have been taken back already.")
    return _apply_decision(tenant, made, made.names[0], undone=True)


def _apply_decision(tenant: Tenant, made: "NameDecision", spelling: str, *, undone: bool = False) -> Decided:
    """Record or remove a decision, refresh the graph, and return the name that `spelling` then means."""
    from memory_assets.graph.decided_names import change_name_decisions, read_spellings
    from memory_assets.graph.edges import refresh_graph

    added = () if undone else (made,)
    change_name_decisions(tenant.state, lambda decisions: [*(each for each in decisions if each.id != made.id), *added])
    refresh_graph(tenant.catalog, tenant.memories, tenant.relations, read_spellings(tenant))
    meant = 'SELECT min_by(entity_id, type) FROM graph_aliases WHERE "text" = $1'
    ((name,),) = tenant.catalog.interactive.fetch(meant, [spelling])
    return Decided(decision=DecisionView.model_validate(made), name=name, undone=undone)


def _read_name(connection: "DuckDBPyConnection", number: int) -> tuple[NameView, list[tuple[str, str, str, int]]]:
    """Return a name and its spellings, each as text, type, key and number of memories."""
    row = connection.execute(_NODE, [number]).fetchone()
    if row is None:
        raise NotFoundError(f"There is no name {number}; the last run may have joined it with another one.")
    (count,) = connection.execute("SELECT count(*) FROM graph_mentions WHERE entity_id = $1", [number]).fetchone() or (0,)
    spellings = connection.execute(_SPELLINGS, [number]).fetchall()
    return NameView(id=row[0], name=row[1], type=row[2], memories=count), spellings


def _own_key(tenant: Tenant, text: str, kind: str) -> str:
    from memory_assets.graph.entities import Surface, key_of

    return key_of(Surface(text, kind), tenant.analyzer.gazetteer.canonical)
