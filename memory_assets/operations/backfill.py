"""Move the memories to the embedder and the language pipeline of the settings."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from memory_assets.operations.answers import Answer, LocalTime, counted

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant


class Backfilled(Answer):
    """What was made anew, and by what."""

    pipeline: str
    analysed: int
    embedder: str
    embedded: int
    indexed: int

    def text(self, local: LocalTime) -> str:
        return f"{counted(self.analysed)} analysed by {self.pipeline}, {self.embedded} embedded by {self.embedder}, {self.indexed} indexed."


def backfill(tenant: "Tenant", analysing: Callable[[int, int], None], embedding: Callable[[int, int], None]) -> Backfilled:
    """Analyse and embed anew what another pipeline or embedder made; search goes on meanwhile with the old vectors.

    Both callbacks get (done, total).

    Raises:
        EmbedderError: the embedder failed; finished batches stay and the old vectors stay live.
        StoreError: a commit failed; the same holds.
    """
    from memory_assets.ingest.backfill import reanalyse, reembed, reindex

    indexed = reindex(tenant.memories)
    analysed = reanalyse(tenant.memories, tenant.analyzer, analysing)
    embedder = tenant.open_embedder(tenant.settings.embedder)
    embedded = reembed(tenant.memories, embedder, embedding)
    return Backfilled(
        pipeline=tenant.analyzer.name, analysed=analysed, embedder=embedder.name, embedded=embedded, indexed=indexed
    )
