"""Read a workspace of Tana, so that what it holds is known when Tana is away."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from pydantic import Field

from memory_assets.operations.answers import Answer, LocalTime

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant


class ReadWorkspace(Answer):
    """What one reading of a workspace did."""

    workspace: str
    read: int
    gone: int
    nodes: int = Field(description="That are known now.")
    waiting: int = Field(description="That were come by and not read yet.")
    skipped: dict[str, str] = Field(description="Nodes that Tana fails on, and how.")
    notes: list[str]

    def text(self, local: LocalTime) -> str:
        lines = [f"Read {self.read} nodes of {self.workspace}: {self.nodes} are known, {self.gone} are gone."]
        if self.waiting:
            lines.append(f"{self.waiting} wait to be read; run `memory tana read` again.")
        lines += self.notes
        lines += [f"Skipped {node}: {why}" for node, why in self.skipped.items()]
        return "\n".join(lines)


def read_tana(
    tenant: "Tenant", *, most: int | None = None, on_progress: Callable[[int, int], None] = lambda _read, _planned: None
) -> ReadWorkspace:
    """Bring what is known of the workspace of the settings nearer to what Tana holds.

    `most` bounds the nodes that are asked for, a few thousand unless given. `on_progress` gets (read, planned).

    Raises:
        InvalidInputError: Tana is another tenant's.
        TanaError: Tana is away, refuses the token, or it is not clear which workspace is meant.
        StoreError: the catalog cannot be written.
    """
    from memory_assets.stores.tombstones import Tombstones
    from memory_assets.tana.client import TanaClient
    from memory_assets.tana.config import resolve_workspace
    from memory_assets.tana.reading import MOST_READ, read_workspace

    tenant.must_own_sources()
    client = TanaClient.open(tenant.settings)
    workspace = resolve_workspace(tenant.settings, client.workspaces())
    erased = Tombstones(tenant.folder)
    done = read_workspace(tenant.catalog, client, workspace, erased=erased, most=most or MOST_READ, on_progress=on_progress)
    return ReadWorkspace.of(done, workspace=workspace.name)
