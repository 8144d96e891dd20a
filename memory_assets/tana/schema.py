"""The supertags of seed 000 (FR-1, FR-2), their creation in a workspace, and the entries of seed.json as their nodes."""

import hashlib
import json
from dataclasses import dataclass, field
from datetime import datetime

from memory_assets.errors import InvalidInputError
from memory_assets.ingest.scans import active_projects, known_stamps, read_items, read_source, refusals
from memory_assets.models import Kind, Source, SourceItem
from memory_assets.tana.client import FieldSpec, Tag, TanaClient, Workspace
from memory_assets.tana.formats import TemplateField, node_name, one_line, plain, read_schema
from memory_assets.tenants import Tenant

LEARNING = "pai_learning"
PROPOSAL = "pai_proposal"
PERSON = "person"
PROJECT = "project"
MEETING = "meeting"
_OTHER_NAMES = {PERSON: {"people", "persons"}, PROJECT: {"projects"}, MEETING: {"meetings"}}

SEED_ID = "Seed Entry ID"
CONTENT = "Content"
RELATED_PEOPLE = "Related People"
RELATED_PROJECTS = "Related Projects"
ARCHIVED = "Archived At"

FIELDS: dict[str, tuple[FieldSpec, ...]] = {
    LEARNING: (
        FieldSpec("Type", "options", "What kind of learning it is.", ("pattern", "insight", "self_knowledge")),
        FieldSpec(CONTENT, "plain", "What was learned."),
        FieldSpec("Confidence", "number", "How sure it is, 0 to 10."),
        FieldSpec("Source", "plain", "The session or file it was learned in."),
        FieldSpec("Confirmed At", "date", "When it was confirmed."),
        FieldSpec(SEED_ID, "plain", "Its id in seed.json; leave it as it is."),
        FieldSpec(RELATED_PEOPLE, "instance", "The people it is about.", source=PERSON, multiple=True),
        FieldSpec(RELATED_PROJECTS, "instance", "The projects it is about.", source=PROJECT, multiple=True),
    ),
    PROPOSAL: (
        FieldSpec("Status", "options", "Whether it was accepted.", ("pending", "accepted", "rejected")),
        FieldSpec("Confidence", "number", "How sure it is, 0 to 10."),
        FieldSpec("Extracted From", "plain", "The session or file it was extracted from."),
        FieldSpec("Decided At", "date", "When it was accepted or rejected."),
        FieldSpec(CONTENT, "plain", "What is proposed."),
        FieldSpec(SEED_ID, "plain", "Its id in seed.json; leave it as it is."),
    ),
}
_DESCRIPTIONS = {
    LEARNING: "What the assistant learned, mirrored from seed.json",
    PROPOSAL: "What the assistant proposes to learn, mirrored from seed.json",
}


@dataclass(slots=True)
class Schema:
    """A workspace's supertags and fields."""

    workspace: Workspace
    tags: dict[str, str] = field(default_factory=dict)
    """Name -> id of the four supertags that exist, and of #meeting if the workspace has it."""
    fields: dict[str, dict[str, TemplateField]] = field(default_factory=dict)
    """Tag name -> field name as in `FIELDS` -> the workspace's field."""
    made: list[str] = field(default_factory=list)
    """Missing supertags and fields, as `#tag` or `#tag Field`."""

    def field_id(self, tag: str, name: str) -> str:
        """Return the id of a field, or "" if the workspace lacks it."""
        known = self.fields.get(tag, {}).get(name)
        return known.id if known else ""


def ensure_schema(
    client: TanaClient,
    workspace: Workspace,
    *,
    archive: bool = False,
    make: bool = True,
) -> Schema:
    """Return a workspace's supertags and create missing ones; with `make=False` only list them. Nothing else is changed.

    With `archive` both supertags also get the field that marks archived entries.
    """
    schema = Schema(workspace, known_tags(client.tags(workspace.id)))
    for name in (PERSON, PROJECT, LEARNING, PROPOSAL):
        if name in schema.tags:
            continue
        schema.made.append(f"#{name}")
        if make:
            schema.tags[name] = client.create_tag(workspace.id, name, _DESCRIPTIONS.get(name, ""))
    for tag, specs in FIELDS.items():
        wanted = (*specs, FieldSpec(ARCHIVED, "date", "When it left seed.json.")) if archive else specs
        tag_id = schema.tags.get(tag, "")
        there = _fields(client, tag_id)
        missing = [spec for spec in wanted if plain(spec.name) not in there]
        schema.made += [f"#{tag} {spec.name}" for spec in missing]
        if make and missing:
            for spec in missing:
                client.add_field(tag_id, spec, schema.tags[spec.source] if spec.source else "")
            there = _fields(client, tag_id)
        schema.fields[tag] = {spec.name: there[plain(spec.name)] for spec in wanted if plain(spec.name) in there}
    return schema


def _fields(client: TanaClient, tag_id: str) -> dict[str, TemplateField]:
    return {plain(name): found for name, found in read_schema(client.tag_schema(tag_id)).items()} if tag_id else {}


def known_tags(tags: list[Tag]) -> dict[str, str]:
    """Return name -> id of the five supertags that exist, in any spelling; an exact name takes precedence."""
    found: dict[str, str] = {}
    for name in (PERSON, PROJECT, MEETING, LEARNING, PROPOSAL):
        exact = [tag for tag in tags if tag.name == name]
        alike = [tag for tag in tags if plain(tag.name) == plain(name) or tag.name.casefold() in _OTHER_NAMES.get(name, ())]
        for tag in (exact + alike)[:1]:
            found[name] = tag.id
    return found


@dataclass(frozen=True, slots=True)
class Entry:
    """A confirmed learning or a proposal."""

    seed_id: str
    tag: str
    name: str
    fields: dict[str, str]
    """Field name -> value; options by name, dates as YYYY-MM-DD."""
    text: str
    """Text in which names of people and projects are searched."""
    digest: str
    at: datetime
    """When it was confirmed, decided or extracted."""


@dataclass(frozen=True, slots=True)
class SeedFile:
    """Current content of seed.json."""

    entries: dict[str, Entry] = field(default_factory=dict)
    there: bool = True
    kept: frozenset[str] = frozenset()
    """Ids of entries that exist but cannot be read."""
    unnamed: int = 0
    """Unreadable entries without a readable id."""
    projects: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    """Messages about unreadable parts, each with a remedy."""


def read_seed(tenant: Tenant) -> SeedFile:
    """Return the confirmed learnings, then the proposals, with secrets treated as the settings say.

    If seed.json is unchanged since the last scan, they are read from the catalog. An erased entry counts as `kept`: its node is left
    alone, and its text is not sent to Tana again.
    """
    path, catalog = tenant.settings.pai_seed, tenant.catalog
    known = known_stamps(catalog, Source.PAI_SEED) if catalog.exists else {}
    scan = read_source(tenant, Source.PAI_SEED, known)
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
    """Return an item as an entry, or None for an unconfirmed learning."""
    assert item.created_at is not None  # the reader refuses entries without a time
    metadata = item.metadata
    fields = {
        CONTENT: one_line(item.body),
        "Confidence": f"{round(item.confidence * 10, 2):g}",
        SEED_ID: item.key.partition(":")[2],
    }
    if "status" in metadata:
        tag = PROPOSAL
        fields |= {
            "Status": metadata["status"],
            "Extracted From": one_line(metadata["origin"]),
            "Decided At": metadata.get("decided_at", "")[:10],
        }
    elif metadata["confirmed"]:
        tag = LEARNING
        fields |= {
            "Type": Kind(item.kind).value,
            "Source": one_line(metadata["origin"]),
            "Confirmed At": item.created_at.date().isoformat(),
        }
    else:
        return None
    name = node_name(item.body)
    digest = hashlib.sha256(json.dumps([tag, name, sorted(fields.items())]).encode()).hexdigest()[:32]
    return Entry(fields[SEED_ID], tag, name, fields, item.body, digest, item.created_at)
