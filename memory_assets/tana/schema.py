"""The supertags of seed 000, FR-1 and FR-2: what they hold, and how they come to be in a workspace."""

import re
from dataclasses import dataclass, field

from memory_assets.tana.client import DataType, Tag, TanaClient, Workspace
from memory_assets.tana.formats import TemplateField, read_schema

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
RELATED_LEARNINGS = "Related Learnings"
ARCHIVED = "Archived At"


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """A field of a supertag."""

    name: str
    type: DataType
    description: str
    options: tuple[str, ...] = ()
    source: str = ""
    """Name of the tag that an instance field refers to."""
    multiple: bool = False


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
        FieldSpec(RELATED_LEARNINGS, "instance", "Learnings that it names.", source=LEARNING, multiple=True),
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
ARCHIVED_FIELD = FieldSpec(ARCHIVED, "date", "When it left seed.json.")
_DESCRIPTIONS = {
    LEARNING: "What the assistant learned, mirrored from seed.json",
    PROPOSAL: "What the assistant proposes to learn, mirrored from seed.json",
    PERSON: "",
    PROJECT: "",
}


@dataclass(slots=True)
class Schema:
    """The supertags as a workspace has them."""

    workspace: Workspace
    tags: dict[str, str] = field(default_factory=dict)
    """Name -> id, of what is there of the four, and #meeting where the workspace has it."""
    fields: dict[str, dict[str, TemplateField]] = field(default_factory=dict)
    """Tag name -> field name as in `FIELDS` -> the workspace's field."""
    made: list[str] = field(default_factory=list)
    """What was missing, as `#tag` or `#tag Field`."""

    def field_id(self, tag: str, name: str) -> str:
        """The id of a field; empty where the workspace lacks it."""
        known = self.fields.get(tag, {}).get(name)
        return known.id if known else ""


def ensure_schema(
    client: TanaClient,
    workspace: Workspace,
    *,
    archive: bool = False,
    make: bool = True,
) -> Schema:
    """What a workspace has of the supertags; what is missing is made, or with `make=False` only listed. Nothing else is touched.

    With `archive` learnings and proposals also get the field that marks them as archived.
    """
    schema = Schema(workspace, known_tags(client.tags(workspace.id)))
    for name in (PERSON, PROJECT, LEARNING, PROPOSAL):
        if name in schema.tags:
            continue
        schema.made.append(f"#{name}")
        if make:
            schema.tags[name] = client.create_tag(workspace.id, name, _DESCRIPTIONS[name])
    for tag, specs in FIELDS.items():
        wanted = (*specs, ARCHIVED_FIELD) if archive else specs
        _ensure_fields(client, schema, tag, wanted, make=make)
    return schema


def _ensure_fields(client: TanaClient, schema: Schema, tag: str, wanted: tuple[FieldSpec, ...], *, make: bool) -> None:
    tag_id = schema.tags.get(tag, "")
    there = _fields(client, tag_id)
    missing = [spec for spec in wanted if plain(spec.name) not in there]
    schema.made += [f"#{tag} {spec.name}" for spec in missing]
    if make and missing:
        for spec in missing:
            client.add_field(
                tag_id,
                spec.name,
                spec.type,
                description=spec.description,
                options=spec.options,
                source_tag=schema.tags[spec.source] if spec.source else "",
                multiple=spec.multiple,
            )
        there = _fields(client, tag_id)
    schema.fields[tag] = {spec.name: there[plain(spec.name)] for spec in wanted if plain(spec.name) in there}


def _fields(client: TanaClient, tag_id: str) -> dict[str, TemplateField]:
    if not tag_id:
        return {}
    return {plain(name): found for name, found in read_schema(client.tag_schema(tag_id)).items()}


def known_tags(tags: list[Tag]) -> dict[str, str]:
    """Name -> id of those of the five supertags that are there, however they are spelt; an exact name before others."""
    found: dict[str, str] = {}
    for name in (PERSON, PROJECT, MEETING, LEARNING, PROPOSAL):
        exact = [tag for tag in tags if tag.name == name]
        alike = [tag for tag in tags if plain(tag.name) == plain(name) or tag.name.casefold() in _OTHER_NAMES.get(name, ())]
        for tag in (exact + alike)[:1]:
            found[name] = tag.id
    return found


def plain(name: str) -> str:
    """A name for comparison: `Seed Entry ID`, `seedEntryId` and `seed_entry_id` are one."""
    return re.sub(r"[\W_]", "", name.casefold())
