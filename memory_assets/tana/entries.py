"""The entries of seed.json as Tana is to hold them."""

import hashlib
import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from memory_assets.errors import InvalidInputError
from memory_assets.ingest.scans import active_projects, known_stamps, read_items, read_source, refusals
from memory_assets.models import Kind, Source, SourceItem
from memory_assets.tana.formats import node_name, one_line
from memory_assets.tana.schema import CONTENT, LEARNING, PROPOSAL, SEED_ID

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant


@dataclass(frozen=True, slots=True)
class Entry:
    """A confirmed learning or a proposal."""

    seed_id: str
    tag: str
    """Name of its supertag."""
    name: str
    """Of its node."""
    fields: dict[str, str]
    """Field name -> value; options by their name, dates as days."""
    text: str
    """What is searched for names of people and projects."""
    digest: str
    at: datetime
    """When it was confirmed, decided or extracted."""


@dataclass(frozen=True, slots=True)
class SeedFile:
    """What seed.json says now."""

    entries: dict[str, Entry] = field(default_factory=dict)
    there: bool = True
    """Whether the file is."""
    kept: frozenset[str] = frozenset()
    """Ids of entries that are there and cannot be read."""
    unnamed: int = 0
    """How many cannot be read that not even an id can be read of."""
    projects: tuple[str, ...] = ()
    """Those that it calls active."""
    refused: tuple[str, ...] = ()
    """What cannot be read, and what mends it."""


def read_seed(tenant: "Tenant") -> SeedFile:
    """The confirmed learnings and the proposals, learnings first, with secrets as the settings say.

    The catalog has them if seed.json is as it was at the last scan. An erased entry counts as kept: its node is left alone, and its text
    does not leave for Tana again.
    """
    path, catalog = tenant.settings.pai_seed, tenant.catalog
    scan = read_source(tenant, Source.PAI_SEED, known_stamps(catalog, Source.PAI_SEED))
    if not path.exists() or not (scan.changed or scan.unchanged):
        return SeedFile(there=path.exists())
    if scan.changed:
        (file,) = scan.changed
        items, refused, projects = file.items, file.refusals, file.projects
    else:
        items = [stored.item for stored in read_items(catalog, Source.PAI_SEED)]
        refused, projects = refusals(catalog, Source.PAI_SEED), active_projects(catalog)
    unnamed = [refusal for refusal in refused if refusal.key is None]
    if unnamed and not items:
        raise InvalidInputError(f"{path} cannot be read: {unnamed[0].reason}; {unnamed[0].mend}.")
    entries = [entry for item in items if (entry := _entry(item))]
    entries.sort(key=lambda entry: entry.tag != LEARNING)
    return SeedFile(
        entries={entry.seed_id: entry for entry in entries},
        kept=frozenset(refusal.key.partition(":")[2] for refusal in refused if refusal.key),
        unnamed=len(unnamed),
        projects=tuple(projects),
        refused=tuple(f"{refusal.location or path}: {refusal.reason}; {refusal.mend}." for refusal in refused),
    )


def _entry(item: SourceItem) -> Entry | None:
    """An item as an entry; None for a learning that is not confirmed."""
    assert item.created_at is not None  # the reader refuses entries without a time
    said = item.metadata
    fields = {
        CONTENT: one_line(item.body),
        "Confidence": f"{round(item.confidence * 10, 2):g}",
        SEED_ID: item.key.partition(":")[2],
    }
    if "status" in said:
        tag = PROPOSAL
        fields |= {
            "Status": said["status"],
            "Extracted From": one_line(said["origin"]),
            "Decided At": said.get("decided_at", "")[:10],
        }
    elif said["confirmed"]:
        tag = LEARNING
        fields |= {
            "Type": Kind(item.kind).value,
            "Source": one_line(said["origin"]),
            "Confirmed At": item.created_at.date().isoformat(),
        }
    else:
        return None
    name = node_name(item.body)
    digest = hashlib.sha256(json.dumps([tag, name, sorted(fields.items())]).encode()).hexdigest()[:32]
    return Entry(fields[SEED_ID], tag, name, fields, item.body, digest, item.created_at)
