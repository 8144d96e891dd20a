"""Mirror pai-seed's learnings in Tana (seed 000), and read a workspace of Tana. Answers use pai-seed's names."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from memory_assets.display import counted
from memory_assets.errors import InvalidInputError
from memory_assets.operations.answers import Answer, Instant, LocalTime, View
from memory_assets.tana.changes import Outcome, Report, SyncOptions, TextOrNull
from memory_assets.tana.client import TanaClient
from memory_assets.tana.config import integration, resolve_workspace
from memory_assets.tana.linking import relate_people
from memory_assets.tana.reading import MOST_READ, Reading, read_workspace
from memory_assets.tana.schema import ensure_schema
from memory_assets.tana.sync import sync
from memory_assets.tenants import Tenant

_SHOWN = 10
_ACTIONS = ("created", "updated", "trashed", "archived", "skipped", "failed")
CAMEL = ConfigDict(alias_generator=to_camel, populate_by_name=True, serialize_by_alias=True, from_attributes=True, frozen=True)
"""Configuration of views that pai-seed's programs read."""


class SchemaView(Answer):
    """The supertags of a workspace."""

    model_config = CAMEL

    workspace: str
    tags: dict[str, str] = Field(description="Name -> id.")
    made: list[str] = Field(description="Tags and fields that were made; with dry_run, those that are missing.")
    dry_run: bool = False

    def text(self, local: LocalTime) -> str:
        if not self.made:
            return f"Workspace {self.workspace} has #pai_learning and #pai_proposal with all their fields."
        verb = "lacks" if self.dry_run else "now has"
        return "\n".join([f"Workspace {self.workspace} {verb}:", *(f"  {name}" for name in self.made)])


class SyncView(Answer):
    """What a sync did."""

    model_config = CAMEL

    total: int = Field(default=0, description="Confirmed learnings and proposals in seed.json.")
    created: int = 0
    updated: int = 0
    trashed: int = 0
    archived: int = 0
    skipped: int = Field(default=0, description="Entries that are already up to date.")
    failed: int = 0
    queued: int = Field(default=0, description="Changes that wait for Tana.")
    away: bool = Field(default=False, description="Whether Tana did not answer.")
    entries: tuple[Outcome, ...] = ()
    last_sync: Instant | None = None
    dry_run: bool = False
    held_back: list[str] = Field(default=[], description="Entries that left seed.json, too many to remove without confirmation.")
    stale: list[str] = Field(default=[], description="Entries mapped to nodes that no longer exist.")
    unlinked: list[str] = Field(default=[], description="Entries whose links the next sync looks up.")
    edited: dict[str, list[str]] = Field(default={}, description="Entries, and their mirrored fields that were edited in Tana.")
    trashed_in_tana: list[str] = Field(default=[], description="Entries that a person trashed in Tana; they stay there.")
    schema_made: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def is_failure(self) -> bool:
        return bool(self.failed or (self.held_back and not self.dry_run))

    def text(self, local: LocalTime) -> str:
        counts = [counted(number, verb, verb) for verb in (*_ACTIONS, "queued") if (number := getattr(self, verb))]
        lead = "Would change" if self.dry_run else "Synced"
        if self.away:
            lead = "Synced in part:" if self.created or self.updated or self.trashed or self.archived else "Not synced:"
        lines = [f"{lead} {counted(self.total, 'entry', 'entries')}: {', '.join(counts) or 'nothing to do'}."]
        if self.away and not counts:
            lines = ["Not synced: Tana is away, and nothing waits for it."]
        if self.schema_made:
            lines.append(f"{'Missing' if self.dry_run else 'Made'} in Tana: {', '.join(self.schema_made)}.")
        changed = [entry for entry in self.entries if entry.action != "skipped"]
        for entry in changed[:_SHOWN]:
            links = f" -> {', '.join(link.name for link in entry.links)}" if entry.links else ""
            lines.append(
                f"  {entry.action:<9} {_quote_name(entry.name, entry.seed_id)}{links}{f': {entry.error}' if entry.error else ''}"
            )
        if len(changed) > _SHOWN:
            lines.append(f"  and {len(changed) - _SHOWN} more; --json lists all.")
        return "\n".join(lines)


def schema_init(tenant: Tenant, *, dry_run: bool = False) -> SchemaView:
    """Make the supertags #pai_learning and #pai_proposal, or fields of them, that a workspace lacks."""
    tenant.must_own_sources()
    client = TanaClient.open(tenant.settings)
    workspace = resolve_workspace(tenant.settings, client.workspaces())
    archive = tenant.settings.tana_leaving == "archive"
    schema = ensure_schema(client, workspace, archive=archive, make=not dry_run)
    return SchemaView(workspace=workspace.name, tags=schema.tags, made=schema.made, dry_run=dry_run)


def pai_sync(
    tenant: Tenant,
    options: SyncOptions,
    *,
    seed_path: str | None = None,
    workspace: str | None = None,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> SyncView:
    """Mirror seed.json in Tana, unless pai-seed's configuration turns the integration off.

    `seed_path` and `workspace` (name or id) override the settings; `progress` gets (done, total) entries.
    If Tana does not answer, the changes are queued, and the answer says so.
    """
    tenant.must_own_sources()
    given: dict[str, object] = {"tana_workspace": workspace} if workspace else {}
    if seed_path:
        with suppress(OSError, RuntimeError):  # a name that is too long, a home of nobody
            if (path := Path(seed_path).expanduser().absolute()).is_file():
                given["pai_seed"] = path
        if "pai_seed" not in given:
            raise InvalidInputError(f"There is no file {seed_path}; name another seed.json with --seed-path.")
    at = Tenant(tenant.settings.model_copy(update=given), tenant.name) if given else tenant
    configured = integration(at.settings)
    if configured.enabled is False:
        return SyncView(warnings=(f"tanaIntegration.enabled is false in {configured.place}, so nothing is synced.",))
    return _view_report(sync(at, options, progress=progress), options)


def _view_report(report: Report, options: SyncOptions) -> SyncView:
    done = {"create": "created", "update": "updated", "trash": "trashed", "archive": "archived"}
    counts = Counter(done.get(outcome.action, outcome.action) for outcome in report.outcomes)
    queued = [Outcome(seed_id, "queued") for seed_id in report.queued if report.away]
    return SyncView.of(
        report,
        **{action: counts[action] for action in _ACTIONS},
        queued=len(queued),
        away=bool(report.away),
        entries=tuple(replace(each, name=report.names.get(each.seed_id, "")) for each in [*report.outcomes, *queued]),
        dry_run=options.dry_run,
        schema_made=tuple(report.made),
        warnings=tuple(_warnings(report, dry_run=options.dry_run)),
    )


def _warnings(report: Report, *, dry_run: bool) -> Iterator[str]:
    if report.away:
        verb = "would wait" if dry_run else "waits" if len(report.queued) == 1 else "wait"
        waits = f"{counted(len(report.queued), 'change', 'changes')} {verb} for it"
        yield f"{report.away} {waits if report.queued else 'Nothing waits for it'}."
    if report.moved:
        yield (
            f"The mapping is of workspace {report.moved!r}: its {counted(len(report.stale), 'entry is', 'entries are')} stale here."
            " `memory pai sync --resync` begins a mapping of this workspace; what is in the old one stays there."
        )
    elif report.stale:
        yield (
            f"{counted(len(report.stale), 'mapping is', 'mappings are')} stale, because the nodes are gone from Tana:"
            f" {_name_some(report, report.stale)}. `memory pai sync --resync` makes them anew."
        )
    if report.trashed_in_tana:
        left = _name_some(report, report.trashed_in_tana)
        yield f"Trashed in Tana and left so: {left}. They come back when they change in seed.json, or with --force."
    if report.edited:
        done = (
            "restored, because seed.json says otherwise (MEMORY_TANA_EDITS=leave leaves them)" if report.restores else "left so"
        )
        fields = {seed_id: f" ({', '.join(names)})" for seed_id, names in report.edited.items()}
        yield f"Changed in Tana and {'to be ' if dry_run and report.restores else ''}{done}: {_name_some(report, fields, fields)}."
    if report.relinked:
        yield f"The links that an earlier sync could not look up are made now: {_name_some(report, report.relinked)}."
    if report.unlinked:
        again = _name_some(report, report.unlinked)
        yield f"Tana failed while names were looked up, so links may be missing; the next sync makes them: {again}."
    if report.outdated:
        kept = _name_some(report, report.outdated)
        yield f"Outdated links stay in Tana beside a value that somebody typed into their field; remove them there: {kept}."
    if report.held_back:
        yield (
            f"{counted(len(report.held_back), 'entry', 'entries')} of the mapping left seed.json: {_name_some(report, report.held_back)}."
            " That is much at once, so their nodes stay; look at seed.json, then add --yes."
        )
    if not report.there:
        yield "There is no seed.json; set MEMORY_PAI_SEED to where pai-seed keeps it."
    if report.refused:
        yield f"Not read from seed.json, and left as it is in Tana: {' '.join(report.refused[:_SHOWN])}"


def _name_some(report: Report, seed_ids: Iterable[str], notes: Mapping[str, str] = MappingProxyType({})) -> str:
    names = [f"{_quote_name(report.names.get(seed_id, ''), seed_id)}{notes.get(seed_id, '')}" for seed_id in seed_ids]
    rest = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + rest


def _quote_name(name: str, seed_id: str) -> str:
    return f'"{name}"' if name else seed_id


class PersonView(View):
    """A relationship file of pai-seed, and the person that it means in Tana."""

    model_config = CAMEL

    file: str
    name: str
    tana_node_id: str | None
    candidates: int = Field(description="Number of #person nodes of that name; one is certain.")
    fault: TextOrNull = Field(description="Why the file cannot be read.")


class PeopleView(Answer):
    """pai-seed's relationships as references to #person nodes."""

    model_config = CAMEL

    people: tuple[PersonView, ...]
    dry_run: bool

    def text(self, local: LocalTime) -> str:
        if not self.people:
            return "pai-seed has no relationship files; set MEMORY_PAI_RELATIONSHIPS_DIR if they are elsewhere."
        lines = [f"{counted(len(self.people), 'relationship', 'relationships')}; the files and Tana stay as they are."]
        for person in self.people:
            means = person.tana_node_id or (f"{person.candidates} nodes, so none" if person.candidates else "no node")
            lines.append(f"  {person.file}  {person.fault or f'{person.name} -> {means}'}")
        return "\n".join(lines)


def pai_people(tenant: Tenant, *, dry_run: bool = False) -> PeopleView:
    """Find the #person node of each relationship file of pai-seed; learnings are linked to those that are certain."""
    tenant.must_own_sources()
    found = relate_people(tenant, TanaClient.open(tenant.settings), dry_run=dry_run)
    people = [
        PersonView.of(each, tana_node_id=each.nodes[0] if len(each.nodes) == 1 else None, candidates=len(each.nodes))
        for each in found
    ]
    return PeopleView(people=tuple(people), dry_run=dry_run)


class ReadWorkspace(Answer, Reading):
    """Result of reading a workspace."""

    def text(self, local: LocalTime) -> str:
        lines = [
            f"Read {counted(self.read, 'node', 'nodes')} of {self.workspace}: {counted(self.nodes, 'is', 'are')} known,"
            f" {counted(self.gone, 'is', 'are')} gone."
        ]
        if self.waiting:
            lines.append(f"{counted(self.waiting, 'waits', 'wait')} to be read; run `memory tana read` again.")
        lines += self.notes
        lines += [f"Skipped {node}: {why}" for node, why in self.skipped.items()]
        return "\n".join(lines)


def read_tana(tenant: Tenant, most: int = MOST_READ) -> ReadWorkspace:
    """Update the stored nodes of the settings' workspace from Tana, at most `most` nodes a call."""
    tenant.must_own_sources()
    return ReadWorkspace.of(read_workspace(tenant, TanaClient.open(tenant.settings), most=most))
