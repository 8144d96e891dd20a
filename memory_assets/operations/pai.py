"""Mirror pai-seed's learnings in Tana: the schema and the sync of seed 000. Answers have the names that the seed's users know."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from memory_assets.operations.answers import Answer, Instant, LocalTime, counted, listed

if TYPE_CHECKING:
    from memory_assets.tana.report import Outcome, Report, Wishes
    from memory_assets.tenants import Tenant

_SHOWN = 10
_CREATES_ONLY = (
    "The Input API only creates: nothing was updated, linked or trashed, and whether a node is there already cannot be looked up."
)
_CAMEL = ConfigDict(alias_generator=to_camel, populate_by_name=True, serialize_by_alias=True, from_attributes=True, frozen=True)


class SchemaView(Answer):
    """The supertags in a workspace."""

    model_config = _CAMEL

    workspace: str
    tags: dict[str, str] = Field(description="Name -> id.")
    made: list[str] = Field(description="What was missing; with dry_run, what is.")
    dry_run: bool = False

    def text(self, local: LocalTime) -> str:  # noqa: ARG002
        """What was made, a line each."""
        if not self.made:
            return f"Workspace {self.workspace} has #pai_learning and #pai_proposal with all their fields."
        verb = "lacks" if self.dry_run else "now has"
        return listed([f"Workspace {self.workspace} {verb}:", *(f"  {name}" for name in self.made)])


class LinkView(BaseModel):
    """A person or project that a learning was linked to."""

    model_config = _CAMEL

    entity_name: str
    tana_node_id: str
    tag_type: str
    confidence: float


class EntryView(BaseModel):
    """What became of one entry of seed.json."""

    model_config = _CAMEL

    seed_id: str
    tana_node_id: str | None
    action: str = Field(description="created, updated, trashed, archived, skipped, failed; queued where Tana is away.")
    entity_links: tuple[LinkView, ...] = ()
    unknown_names: list[str] = Field(default=[], description="Names in it that mean no node of Tana, or more than one.")
    error: str | None = None

    @classmethod
    def of(cls, outcome: "Outcome") -> "EntryView":
        """An outcome of the sync."""
        return cls(
            seed_id=outcome.seed_id,
            tana_node_id=outcome.node or None,
            action=outcome.action,
            entity_links=tuple(
                LinkView(entity_name=link.name, tana_node_id=link.node, tag_type=link.kind, confidence=link.confidence)
                for link in outcome.links
            ),
            unknown_names=outcome.unknown,
            error=outcome.error or None,
        )


class SyncView(Answer):
    """What a sync did."""

    model_config = _CAMEL

    total: int = Field(default=0, description="Confirmed learnings and proposals in seed.json.")
    created: int = 0
    updated: int = 0
    trashed: int = 0
    archived: int = 0
    skipped: int = Field(default=0, description="Already as they should be.")
    failed: int = 0
    queued: int = Field(default=0, description="Changes that wait for Tana.")
    entries: tuple[EntryView, ...] = ()
    last_sync: Instant | None = None
    dry_run: bool = False
    held_back: list[str] = Field(default=[], description="Left seed.json, too many to be taken out of Tana unasked.")
    stale: list[str] = Field(default=[], description="Mapped to nodes that are gone for good.")
    trashed_in_tana: list[str] = Field(default=[], description="Trashed there by a person, and left so.")
    schema_made: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def text(self, local: LocalTime) -> str:  # noqa: ARG002
        """The counts, what changed, and what needs a decision."""
        counts = [
            counted(number, verb, verb)
            for verb in ("created", "updated", "trashed", "archived", "skipped", "failed", "queued")
            if (number := getattr(self, verb))
        ]
        lead = "Would change" if self.dry_run else "Synced"
        lines = [f"{lead} {counted(self.total, 'entry', 'entries')}: {', '.join(counts) or 'nothing to do'}."]
        if self.schema_made:
            lines.append(f"{'Missing' if self.dry_run else 'Made'} in Tana: {', '.join(self.schema_made)}.")
        changed = [entry for entry in self.entries if entry.action != "skipped"]
        for entry in changed[:_SHOWN]:
            links = f" -> {', '.join(link.entity_name for link in entry.entity_links)}" if entry.entity_links else ""
            lines.append(f"  {entry.action:<9} {entry.seed_id}{links}{f': {entry.error}' if entry.error else ''}")
        if len(changed) > _SHOWN:
            lines.append(f"  and {len(changed) - _SHOWN} more; --json lists all.")
        return listed(lines)


def schema_init(tenant: "Tenant", *, dry_run: bool = False) -> SchemaView:
    """Make what a workspace lacks of #pai_learning and #pai_proposal.

    Raises:
        InvalidInputError: seed.json and Tana are another tenant's.
        TanaError: Tana is away or refuses.
    """
    from memory_assets.tana.client import TanaClient
    from memory_assets.tana.schema import ensure_schema
    from memory_assets.tana.workspaces import resolve_workspace

    tenant.must_own_sources()
    client = TanaClient.open(tenant.settings)
    workspace = resolve_workspace(tenant.settings, client.workspaces())
    archive = tenant.settings.tana_leaving == "archive"
    schema = ensure_schema(client, workspace, archive=archive, make=not dry_run)
    return SchemaView(workspace=workspace.name, tags=schema.tags, made=schema.made, dry_run=dry_run)


def pai_sync(
    tenant: "Tenant",
    wishes: "Wishes",
    *,
    input_api: bool = False,
    seed_path: str | None = None,
    workspace: str | None = None,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> SyncView:
    """Bring Tana to what seed.json says; nothing where pai-seed's configuration turns the integration off.

    Args:
        tenant: whose.
        wishes: how.
        input_api: only create, through the cloud: for users without the desktop app.
        seed_path: another seed.json than that of the settings.
        workspace: name or id of another workspace.
        progress: told how many of how many entries are done.

    Raises:
        InvalidInputError: seed.json cannot be read, or is another tenant's.
        StoreError: the mapping or the ledger cannot be used.
        TanaError: Tana refuses; where it is only away, the answer says so and the changes wait.
    """
    from memory_assets.tana.config import integration
    from memory_assets.tana.sync import sync

    tenant.must_own_sources()
    at = _elsewhere(tenant, seed_path, workspace)
    said = integration(at.settings)
    if said.enabled is False:
        return SyncView(warnings=(f"tanaIntegration.enabled is false in {said.place}, so nothing is synced.",))
    if input_api:
        from memory_assets.tana.input_api import create_only

        view = _view(create_only(at, dry_run=wishes.dry_run), wishes)
        return view.model_copy(update={"warnings": (*view.warnings, _CREATES_ONLY)})
    return _view(sync(at, wishes, progress=progress), wishes)


def _elsewhere(tenant: "Tenant", seed_path: str | None, workspace: str | None) -> "Tenant":
    """The tenant with another seed.json or workspace, where one is given."""
    from pathlib import Path

    from memory_assets.tenants import Tenant

    given: dict[str, object] = {}
    if seed_path:
        given["pai_seed"] = Path(seed_path).expanduser().absolute()
    if workspace:
        given["tana_workspace"] = workspace
    return Tenant(tenant.settings.model_copy(update=given), tenant.name) if given else tenant


def _view(report: "Report", wishes: "Wishes") -> SyncView:
    actions = [outcome.action for outcome in report.outcomes]
    done = {"create": "created", "update": "updated", "trash": "trashed", "archive": "archived"}
    actions = [done.get(action, action) for action in actions]
    entries = [EntryView.of(outcome) for outcome in report.outcomes]
    entries += [EntryView(seed_id=seed_id, tana_node_id=None, action="queued") for seed_id in report.queued if report.away]
    return SyncView(
        total=report.total,
        **{name: actions.count(name) for name in ("created", "updated", "trashed", "archived", "skipped", "failed")},
        queued=len(report.queued) if report.away else 0,
        entries=tuple(entries),
        last_sync=report.last_sync,
        dry_run=wishes.dry_run,
        held_back=report.held_back,
        stale=report.stale,
        trashed_in_tana=report.trashed_in_tana,
        schema_made=tuple(report.made),
        warnings=tuple(_warnings(report, wishes)),
    )


def _warnings(report: "Report", wishes: "Wishes") -> list[str]:
    said: list[str] = []
    if report.away:
        waits = f"{counted(len(report.queued), 'change', 'changes')} {'would wait' if wishes.dry_run else 'wait'} for it"
        said.append(f"{report.away} {waits if report.queued else 'Nothing waits for it'}.")
    if report.moved:
        said.append(
            f"The mapping is of workspace {report.moved!r}: its {counted(len(report.stale), 'entry', 'entries')} are stale here."
            " `memory pai sync --resync` begins a mapping of this workspace; what is in the old one stays there."
        )
    elif report.stale:
        said.append(
            f"{counted(len(report.stale), 'mapping is', 'mappings are')} stale, because the nodes are gone from Tana:"
            f" {_some(report.stale)}. `memory pai sync --resync` makes them anew."
        )
    if report.trashed_in_tana:
        said.append(
            f"Trashed in Tana and left so: {_some(report.trashed_in_tana)}. They come back when they change in seed.json, or with"
            " --force."
        )
    if report.held_back:
        said.append(
            f"{counted(len(report.held_back), 'entry', 'entries')} of the mapping left seed.json: {_some(report.held_back)}. That is much"
            " at once, so their nodes stay; look at seed.json, then add --yes."
        )
    if not report.there:
        said.append("There is no seed.json; set MEMORY_PAI_SEED to where pai-seed keeps it.")
    if report.unknown:
        said.append(f"seed.json has no confirmed learning and no proposal with the id {report.unknown!r}.")
    if report.refused:
        said.append(f"Not read from seed.json, and left as it is in Tana: {' '.join(report.refused[:_SHOWN])}")
    return said


def _some(names: list[str]) -> str:
    rest = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + rest


class PersonView(BaseModel):
    """A relationship file of pai-seed, and whom it means in Tana."""

    model_config = _CAMEL

    file: str
    name: str
    tana_node_id: str | None
    candidates: int = Field(description="#person nodes of that name; certain where it is one.")
    fault: str | None = Field(description="Why the file cannot be read.")


class PeopleView(Answer):
    """pai-seed's relationships as references to #person nodes."""

    model_config = _CAMEL

    people: tuple[PersonView, ...]
    dry_run: bool

    def text(self, local: LocalTime) -> str:  # noqa: ARG002
        """A line a file."""
        if not self.people:
            return "pai-seed has no relationship files; set MEMORY_PAI_RELATIONSHIPS_DIR where they lie elsewhere."
        lines = [f"{counted(len(self.people), 'relationship', 'relationships')}; the files and Tana stay as they are."]
        for person in self.people:
            means = person.tana_node_id or (f"{person.candidates} nodes, so none" if person.candidates else "no node")
            lines.append(f"  {person.file}  {person.fault or f'{person.name} -> {means}'}")
        return listed(lines)


def pai_people(tenant: "Tenant", *, dry_run: bool = False) -> PeopleView:
    """Find the #person node of each relationship file of pai-seed, and keep those that are certain for the links of learnings.

    Raises:
        InvalidInputError: seed.json and Tana are another tenant's.
        TanaError: Tana is away or refuses.
        StoreError: the ledger cannot be used.
    """
    from memory_assets.tana.client import TanaClient
    from memory_assets.tana.people import relate_people

    tenant.must_own_sources()
    found = relate_people(tenant, TanaClient.open(tenant.settings), dry_run=dry_run)
    people = [
        PersonView(
            file=one.file,
            name=one.name,
            tana_node_id=one.nodes[0] if len(one.nodes) == 1 else None,
            candidates=len(one.nodes),
            fault=one.fault or None,
        )
        for one in found
    ]
    return PeopleView(people=tuple(people), dry_run=dry_run)
