"""pai-seed's relationship files as references to #person nodes (seed 000, FR-14); the files and Tana stay as they are.

Whom a file means is kept in the ledger: a name in a learning that several nodes have then means that person's.
"""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memory_assets.sources.files import RefusedFileError, decode, read_source_file
from memory_assets.sources.json_fields import Fields
from memory_assets.sources.strict_json import loads
from memory_assets.tana.client import TanaClient
from memory_assets.tana.ledger import Ledger
from memory_assets.tana.linking import Linker
from memory_assets.tana.schema import Schema, known_tags
from memory_assets.tana.workspaces import resolve_workspace

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant

FACT = "people"


@dataclass(frozen=True, slots=True)
class Relationship:
    """One relationship file, and whom it means."""

    file: str
    name: str = ""
    nodes: tuple[str, ...] = ()
    """The #person nodes that the name may mean."""
    fault: str = ""


def relate_people(tenant: "Tenant", client: TanaClient, *, dry_run: bool = False) -> list[Relationship]:
    """Find the node of each relationship, and keep those that are certain.

    Raises:
        TanaError: Tana cannot be asked.
        StoreError: the ledger cannot be used.
    """
    folder = tenant.settings.pai_relationships_dir
    files: dict[str, str | RefusedFileError] = {}
    for path in sorted(folder.glob("rel_*.json")):
        try:
            files[path.name] = Fields(loads(decode(read_source_file(path, folder))[0]), "$").text("name")
        except RefusedFileError as error:
            files[path.name] = error
    names = [name for name in files.values() if isinstance(name, str)]
    workspace = resolve_workspace(tenant.settings, client.workspaces())
    linker = Linker(tenant, client, Schema(workspace, known_tags(client.tags(workspace.id))))
    meant = linker.people(names)
    if not dry_run:
        certain = {name: nodes[0] for name, nodes in meant.items() if len(nodes) == 1}
        Ledger(tenant.folder).keep(**{FACT: json.dumps(certain, ensure_ascii=False, sort_keys=True)})
    return [
        Relationship(file, name, tuple(meant[name]))
        if isinstance(name, str)
        else Relationship(file, fault=f"{name.reason}; {name.mend}")
        for file, name in files.items()
    ]
