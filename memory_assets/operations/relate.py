"""State relations between memories, and list them."""

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any

import pyarrow as pa
from pydantic import Field

from memory_assets.errors import ConflictError
from memory_assets.language.guard import guard_text
from memory_assets.learn.briefing import update_contradicting
from memory_assets.models import REPLACING, Memory, RelationType, State
from memory_assets.operations.answers import Answer, LocalTime, View
from memory_assets.operations.arguments import find_memory
from memory_assets.operations.changes import commit_changes, last_change, record_change
from memory_assets.operations.fields import Fraction, Query, Reference
from memory_assets.stores.graph_builds import record_build
from memory_assets.stores.memories import follow_versions
from memory_assets.stores.relations import StatedRelation
from memory_assets.tenants import Tenant

_ATTEMPTS = 5


class Relation(Answer):
    """A stated relation."""

    id: int
    source_id: int
    target_id: int
    type: RelationType
    confidence: float
    note: str
    stated_by: str

    def text(self, local: LocalTime) -> str:
        because = f" ({self.note})" if self.note else ""
        return f"Stated: {self.source_id} {self.type} {self.target_id}{because}; searches follow with the next {local.command('run')}"


class Relations(View):
    """The stated relations from and to one memory."""

    relations: list[Relation]
    count: int


def relate(
    tenant: Tenant,
    source: Annotated[Reference, Field(alias="source_id")],
    relation: Annotated[RelationType, Field(alias="type", strict=False)],
    target: Annotated[Reference, Field(alias="target_id")],
    *,
    confidence: Fraction = 1.0,
    note: Annotated[Query, Field(description="Why.")] = "",
    stated_by: str,
    seen: datetime | None = None,
    seen_target: datetime | None = None,
) -> Relation:
    """State how one memory relates to another; stating it again replaces its confidence and note.

    Keys and passwords in `note` are masked, refused or kept as the settings say. `stated_by` is the interface, such as "cli". `seen` and
    `seen_target` are the two memories' `updated_at` that the caller knows.
    """
    note = guard_text(note, tenant.settings.secrets, "note")
    first, second = find_memory(tenant, source, seen), find_memory(tenant, target, seen_target)
    stated = StatedRelation(first.id, second.id, relation, confidence, note, stated_by)
    stated.check()
    if stated.type in REPLACING:
        _refuse_circle(tenant, stated)
    if _record_relation(tenant, stated):
        tenant.relations.state(stated)
        tenant.relations.upkeep.after_commit()
        update_contradicting(tenant, [stated.source_id, stated.target_id])
    return Relation.model_validate(stated)


def _refuse_circle(tenant: Tenant, stated: StatedRelation) -> None:
    """Raise ConflictError if stated relations say that the source replaces the target."""
    ahead, seen = [stated.target_id], set[int]()
    while ahead:
        seen.add(number := ahead.pop())
        for row in tenant.relations.of(number).to_pylist():
            if row["source_id"] != number or row["type"] not in REPLACING or row["target_id"] in seen:
                continue
            if row["target_id"] == stated.source_id:
                ends = tenant.memories.get([number, stated.source_id])
                last = [each.id for each in ends if last_change(each)[0] == "relate" and last_change(each)[1]["id"] == row["id"]]
                remedy = f"take that back with `memory undo {last[0]}`, or leave it" if last else "leave it"
                raise ConflictError(
                    f"The memory {stated.source_id} already replaces {stated.target_id}, as was stated"
                    f" ({number} {row['type']} {stated.source_id}): {remedy}."
                )
            ahead.append(row["target_id"])


def _record_relation(tenant: Tenant, stated: StatedRelation) -> bool:
    """Record in both memories the relation and its earlier terms, for `undo`; return False if the relation has these terms already."""
    for attempt in range(_ATTEMPTS):
        ends = tenant.memories.get([stated.source_id, stated.target_id])
        holds = _read_terms(tenant, stated.source_id, stated.id)
        undone = [before for did, before in map(last_change, ends) if did == "undo" and before and before["id"] == stated.id]
        if holds and not undone and holds == _terms_of(asdict(stated)):
            return False
        before = {"id": stated.id, "source_id": stated.source_id, "target_id": stated.target_id, "type": stated.type}
        before["earlier"] = undone[0]["earlier"] if undone else holds
        changes = [
            (each, record_change(each, "relate", before | {"previous": last_done(tenant, each)}))
            for each in ends
            if each.state is not State.SUPERSEDED
        ]
        try:
            if changes:
                commit_changes(tenant, changes)
            return True
        except ConflictError:
            if attempt == _ATTEMPTS - 1:
                raise
    return True


def _read_terms(tenant: Tenant, source: int, number: int) -> "dict[str, Any] | None":
    return next((_terms_of(row) for row in tenant.relations.of(source).to_pylist() if row["id"] == number), None)


def _terms_of(relation: "dict[str, Any]") -> "dict[str, Any]":
    """Return the values that restating a relation replaces, the confidence rounded as it is stored."""
    return {"confidence": round(relation["confidence"], 6), "note": relation["note"], "stated_by": relation["stated_by"]}


def last_done(tenant: Tenant, memory: Memory) -> tuple[str, Any]:
    """Return the last operation on a memory and the value before it, ignoring a relation that was recorded but never stated."""
    did, before = last_change(memory)
    if did == "relate" and "previous" in before and _read_terms(tenant, before["source_id"], before["id"]) == before["earlier"]:
        did, before = before["previous"]
    if isinstance(before, dict):
        before = {name: value for name, value in before.items() if name != "previous"}
    return did, before


def withdraw(tenant: Tenant, before: "dict[str, Any]") -> None:
    """Take back a relation that `relate` recorded: restore its earlier terms, or remove it. May be repeated."""
    ends = before["source_id"], before["target_id"]
    sources, targets = (_list_versions(tenant, end) for end in ends)
    if earlier := before["earlier"]:
        tenant.relations.state(StatedRelation(*ends, RelationType(before["type"]), **earlier))
    else:
        tenant.relations.withdraw([before["id"]])
        if tenant.catalog.exists:
            with tenant.catalog.write() as connection:  # the next build compares the two again
                versions = [*sources, *targets]
                connection.execute("UPDATE graph_memories SET revision = '' WHERE list_contains($1, id)", [versions])
                connection.execute(
                    """
                    DELETE FROM graph_edges WHERE origin = 'stated' AND type = $3
                        AND list_contains($1, source_id) AND list_contains($2, target_id)
                    """,
                    [sources, targets, before["type"]],
                )
                record_build(connection, pa.table({"node": versions}))
    update_contradicting(tenant, [*sources, *targets])


def _list_versions(tenant: Tenant, number: int) -> list[int]:
    """Return the id of a memory and those of its newer versions: a build gives its stated relations to the newest."""
    return list(follow_versions(number, lambda each: next((found.superseded_by for found in tenant.memories.get([each])), None)))


def relations(tenant: Tenant, reference: str | int) -> Relations:
    """List the stated relations from and to a memory."""
    number = find_memory(tenant, reference).id
    found = [Relation.model_validate(row) for row in tenant.relations.of(number).to_pylist()]
    return Relations(relations=found, count=len(found))
