"""Everything about one memory; whoever is shown a memory in full has recalled it."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from memory_assets.operations.answers import Instant, LocalTime, MemoryView, View
from memory_assets.operations.given import find_memory

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant


class RelevanceView(View):
    """How a memory's relevance came about: the product of five factors, see `memory_assets.graph.relevance`."""

    relevance: float
    computed_at: Instant
    decay: float
    access: float
    density: float
    importance: float
    confidence: float
    fresh_at: Instant
    fresh_because: str
    accessed_at: Instant
    accesses: int
    edges: int

    def text(self) -> str:
        age = max(0.0, (self.computed_at - self.fresh_at).total_seconds() / 86_400)
        unread = max(0.0, (self.computed_at - self.accessed_at).total_seconds() / 86_400)
        factors = (
            ("decay", self.decay, f"{age:.0f} days since {self.fresh_at:%Y-%m-%d}: {self.fresh_because}"),
            ("access", self.access, f"{self.accesses} recalls, last access {unread:.0f} days before"),
            ("density", self.density, f"joined to {self.edges} others"),
            ("importance", self.importance, f"0.5 + {self.importance - 0.5:.2f}"),
            ("confidence", self.confidence, f"0.7 + 0.3 x {(self.confidence - 0.7) / 0.3:.2f}"),
        )
        lines = [f"    {name:<12} {value:6.3f}  {why}" for name, value, why in factors]
        return "\n".join([f"{self.relevance:.3f} as of {self.computed_at:%Y-%m-%d}, the product of", *lines])


class ShownMemory(MemoryView):
    """One memory in full."""

    relevance: RelevanceView | None

    def text(self, local: LocalTime, *, max_tokens: int | None = None) -> str:
        fields = {
            name: value
            for name, value in self.model_dump(mode="json").items()
            if name not in ("id", "title", "content", "active", "relevance", "created_at", "updated_at")
        }
        fields["entities"] = [f"{entity.text} ({entity.type})" for entity in self.entities]
        fields["metadata"] = [f"{key}={value}" for key, value in self.metadata.items()]
        fields |= {"created": local.age(self.created_at), "updated": local.age(self.updated_at)}
        lines = [f"{self.title or self.kind} · id {self.id}", "", self._beginning(max_tokens), ""]
        for name, value in fields.items():
            shown = ", ".join(map(str, value)) if isinstance(value, list) else value
            if shown not in ("", None):
                lines.append(f"  {name:<14} {shown}")
        not_scored = "not scored yet: `memory run` does it" if self.active else "not scored: only active memories are"
        lines.append(f"\n  {'relevance':<14} {self.relevance.text() if self.relevance else not_scored}")
        return "\n".join(lines)

    def _beginning(self, max_tokens: int | None) -> str:
        from memory_assets.language.tokens import truncate_tokens

        kept = self.content if max_tokens is None else truncate_tokens(self.content, max_tokens)
        left_out = len(self.content) - len(kept)
        return f"{kept}… ({left_out:,} more characters)" if left_out else kept


def show(tenant: "Tenant", reference: str | int) -> ShownMemory:
    """One memory by its id; text may be the first digits of it.

    Raises:
        NotFoundError: there is none.
        InvalidInputError: the digits are none, or the beginning of several ids.
        StoreError: a store cannot be read.
    """
    from memory_assets.graph.relevance import explain
    from memory_assets.stores.access_log import AccessLog

    memory = find_memory(tenant, reference)
    AccessLog(tenant.folder).record([memory.id], datetime.now(UTC))
    factors = explain(tenant.catalog, memory.id)
    relevance = RelevanceView.model_validate(factors) if factors else None
    return ShownMemory.of(memory, relevance=relevance)
