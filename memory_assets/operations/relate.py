"""State how two memories relate, and see what was stated."""

from typing import TYPE_CHECKING

from memory_assets.language.secrets import mask
from memory_assets.models import RelationType, SecretPolicy
from memory_assets.operations.answers import Answer, LocalTime
from memory_assets.operations.given import find_memory

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant


class Relation(Answer):
    """A relation as it was stated."""

    id: int
    source_id: int
    target_id: int
    type: RelationType
    confidence: float
    note: str
    stated_by: str

    def text(self, local: LocalTime) -> str:  # noqa: ARG002
        """The two ids with the type between them."""
        because = f" ({self.note})" if self.note else ""
        return f"Stated: {self.source_id} {self.type} {self.target_id}{because}"


class Relations(Answer):
    """What was stated about one memory, from it and to it."""

    relations: list[Relation]
    count: int

    def text(self, local: LocalTime) -> str:
        """A line a relation."""
        return "\n".join(relation.text(local) for relation in self.relations) or "Nothing was stated about it."


def relate(
    tenant: "Tenant",
    source: str | int,
    relation: RelationType,
    target: str | int,
    *,
    confidence: float = 1.0,
    note: str = "",
    stated_by: str,
) -> Relation:
    """State how the memory `source` relates to the memory `target`; stating it again replaces confidence and note.

    Args:
        tenant: whose memories.
        source: id of a memory; text may be its first digits.
        relation: how the first relates to the second.
        target: id of the other memory, likewise.
        confidence: how sure that is, within 0..1.
        note: why; keys and passwords in it are masked, unless the settings allow them.
        stated_by: who says so, such as "cli".

    Raises:
        NotFoundError: one of them does not exist.
        InvalidInputError: the two are one, or the confidence is not within 0..1.
        StoreError: the commit failed; nothing was written.
    """
    from memory_assets.stores.relations import StatedRelation

    if tenant.settings.secrets is not SecretPolicy.ALLOW:
        note = mask(note)
    first, second = find_memory(tenant, source).id, find_memory(tenant, target).id
    stated = StatedRelation(first, second, relation, confidence, note, stated_by)
    number = tenant.relations.state(stated)
    tenant.relations.upkeep.after_commit()
    return Relation(
        id=number,
        source_id=first,
        target_id=second,
        type=relation,
        confidence=confidence,
        note=note,
        stated_by=stated_by,
    )


def relations(tenant: "Tenant", reference: str | int) -> Relations:
    """What was stated about the memory of this id; text may be the first digits of it.

    Raises:
        NotFoundError: there is none.
        StoreError: the store cannot be read.
    """
    number = find_memory(tenant, reference).id
    found = [Relation.model_validate(row) for row in tenant.relations.of(number).to_pylist()]
    return Relations(relations=found, count=len(found))
