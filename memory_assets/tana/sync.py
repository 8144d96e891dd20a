"""seed.json mirrored in Tana (seed 000, FR-3, FR-7 to FR-9, FR-16 to FR-20).

seed.json says what is to be there, the mapping file which node stands for what, the record what was sent. A change goes: effect in Tana,
node into the mapping, entry into the record. A sync that is killed leaves at most a node that is not mapped: the next one finds it among
the children of the node that learnings go below, which, unlike a search, show at once what was made. All other effects may happen twice
without harm. A mirrored field that was changed in Tana is told, and restored unless the settings say otherwise. Links are added beside
the user's own, and a link that the user took away stays away.
"""

from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from memory_assets.errors import InvalidInputError
from memory_assets.tana.activity import find_edits, read_activity
from memory_assets.tana.changes import ARCHIVED_DIGEST, Changes, Outcome, Report, SyncOptions
from memory_assets.tana.client import TanaClient, Workspace
from memory_assets.tana.config import integration, resolve_workspace, same_workspace
from memory_assets.tana.errors import (
    NoTokenError,
    TanaAwayError,
    TanaError,
    TanaFaultError,
    TanaRefusedError,
    TanaUncertainError,
)
from memory_assets.tana.linking import Linked
from memory_assets.tana.matching import NodeMatcher
from memory_assets.tana.schema import Entry, Schema, SeedFile, ensure_schema, read_seed
from memory_assets.tana.state import SyncState, one_at_a_time

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant

_MOST_LOOKED_UP = 20
"""Nodes that are read one by one before all that are missing count as gone."""
_PATIENCE_S = 3.0
"""How long a Tana that accepts connections may take to say that it is there."""
_UNANSWERED = 3
"""Creations without an answer after which Tana counts as away."""


def sync(
    tenant: "Tenant",
    options: SyncOptions | None = None,
    *,
    client: TanaClient | None = None,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Report:
    """Bring Tana to what seed.json says. `progress` is told after each entry how many of how many are done.

    If Tana is away, or there is no token yet, the report says so, and what is to be done is queued.

    Raises:
        StoreBusyError: another sync is under way for longer than is waited.
        TanaError: Tana refuses the token, or what every entry needs.
    """
    options = options or SyncOptions()
    with one_at_a_time(tenant) if not options.dry_run else nullcontext():
        run = _Sync(tenant, options, progress)
        if run.nothing_ever:
            return run.report
        try:
            run.carry_out(client or TanaClient.open(tenant.settings))
        except (TanaAwayError, NoTokenError) as error:
            run.queue_rest(str(error))
        return run.report


class _Sync:
    def __init__(self, tenant: "Tenant", options: SyncOptions, progress: Callable[[int, int], None]) -> None:
        self._tenant = tenant
        self._options = options
        self._progress = progress
        self._state = SyncState(tenant)
        self._seed: SeedFile = read_seed(tenant)
        self._wanted = {key: entry for key, entry in self._seed.entries.items() if options.only in ("", key)}
        self.report = Report(
            len(self._wanted), refused=list(self._seed.refused), last_sync=self._state.mapping.last_sync, there=self._seed.there
        )
        if options.only and options.only not in self._seed.entries and options.only not in self._state.nodes:
            raise InvalidInputError(f"seed.json has no confirmed learning and no proposal with the id {options.only!r}.")
        self.report.names = {seed_id: sent.name for seed_id, sent in self._state.record.sent.items() if sent.name}
        self.report.names |= {seed_id: entry.name for seed_id, entry in self._seed.entries.items()}
        self._edits: dict[str, list[str]] = {}
        """Seed id -> mirrored fields that were changed in Tana."""
        self._unanswered = 0

    @property
    def nothing_ever(self) -> bool:
        """Whether there is no seed.json and never was one that was mirrored."""
        return not self._seed.there and not self._state.nodes

    def _leaving(self) -> tuple[list[str], list[str]]:
        """Mapped entries that are no more in seed.json: those to take out of Tana, and those to ask about first, because they are many."""
        leaving = [
            seed_id
            for seed_id in self._state.nodes
            if seed_id not in self._seed.entries
            and seed_id not in self._seed.kept
            and self._options.only in ("", seed_id)
            and self._state.sent(seed_id).digest != ARCHIVED_DIGEST
        ]
        is_doubtful = self._seed.unnamed or not self._seed.there or not self._seed.entries
        most = max(1, self._tenant.settings.tana_trash_at_most * len(self._state.nodes))
        is_held_back = not self._options.take_out and (is_doubtful or len(leaving) > most)
        return ([], leaving) if is_held_back else (leaving, [])

    def _change(self, entry: Entry) -> str:
        """`create`, `update` or nothing."""
        if entry.seed_id not in self._state.nodes:
            return "create"
        known = self._state.sent(entry.seed_id)
        if entry.seed_id in self._state.trashed:
            return "create" if self._options.force or known.digest not in (entry.digest, "") else ""
        changed = known.digest != entry.digest or known.node != self._state.nodes[entry.seed_id]
        if changed and known.tag and known.tag != entry.tag:
            return "create"
        edited = entry.seed_id in self._edits and self._tenant.settings.tana_edits == "restore"
        return "update" if changed or known.unlinked or edited or self._options.force else ""

    def _planned(self) -> dict[str, str]:
        """Seed id -> create, update or trash; links alone wait for no sync of their own."""
        planned = {
            seed_id: change
            for seed_id, entry in self._wanted.items()
            if (change := self._change(entry)) and self._state.sent(seed_id).digest != entry.digest
        }
        return planned | dict.fromkeys(self._leaving()[0], self._tenant.settings.tana_leaving)

    def queue_rest(self, why: str) -> None:
        """Note durably what is still to be done."""
        self.report.away = why
        self.report.queued = self._planned()
        _, self.report.held_back = self._leaving()
        if not self._options.dry_run:
            self._queue(self.report.queued)

    def _queue(self, planned: dict[str, str]) -> None:
        only, record = self._options.only, self._state.record
        others = {key: change for key, change in record.queue.items() if only and key != only}
        record.queue = planned | others
        self._state.save()

    def carry_out(self, client: TanaClient) -> None:
        """Look, plan, and change what differs."""
        self._client = client
        if not client.health(timeout=_PATIENCE_S):
            raise TanaAwayError(f"Tana at {client.url} is still opening its workspaces; try again in a moment.")
        workspace = self._workspace()
        if self.report.moved and not self._options.resync:
            return
        make = not self._options.dry_run
        settings = self._tenant.settings
        archive = settings.tana_leaving == "archive"
        schema = ensure_schema(client, workspace, archive=archive, make=False)
        self._matcher = NodeMatcher(client, schema, self._state, self._seed)
        self._parent = self._matcher.find_parent(settings.tana_parent, make=False)
        if not self._look_at_mapped():
            return
        self._edits = {
            key: names for key, names in self._changed_in_tana().items() if key in self._wanted.keys() - self._state.trashed
        }
        self.report.edited, self.report.restores = self._edits, settings.tana_edits == "restore"
        if make and schema.made:
            schema = ensure_schema(client, workspace, archive=archive)
            self._matcher = replace(self._matcher, schema=schema)
        self.report.made = schema.made
        leaving, self.report.held_back = self._leaving()
        if make:
            self._parent = self._matcher.find_parent(settings.tana_parent, make=True)
            self._matcher.adopt([entry for entry in self._wanted.values() if entry.seed_id not in self._state.nodes])
        changes = {entry.seed_id: change for entry in self._wanted.values() if (change := self._change(entry))}
        nodes = self._state.nodes
        if make:
            work = Changes(client, schema, self._state, self._seed, self._tenant, self._parent, self._options.force)
            self._carry_out_changes(work, changes, leaving)
        else:
            planned = changes | dict.fromkeys(leaving, settings.tana_leaving)
            self.report.outcomes = [Outcome(seed_id, change, nodes.get(seed_id, "")) for seed_id, change in planned.items()]
        skipped = (seed_id for seed_id in self._wanted if seed_id not in changes)
        self.report.outcomes += [Outcome(seed_id, "skipped", nodes.get(seed_id, "")) for seed_id in skipped]
        if make:
            self._conclude(schema, links_too=bool(changes))

    def _conclude(self, schema: Schema, *, links_too: bool) -> None:
        """Note what waits, how Tana shows what was sent, and what lives around it."""
        state, settings, workspace = self._state, self._tenant.settings, schema.workspace
        configured = settings.tana_workspace or integration(settings).workspace or workspace.id
        state.record.workspace = state.mapping.workspace = state.mapping.workspace or configured
        self._queue(self._planned())
        with suppress(TanaError):  # the sync is done; the next reading makes up for it
            self._changed_in_tana()
            state.save()
            read_activity(self._tenant, self._client, schema, state.record, links_too=links_too)
        state.mapping.last_sync = self.report.last_sync = datetime.now(UTC)
        state.mapping.save()

    def _changed_in_tana(self) -> dict[str, list[str]]:
        """The mirrored fields that were changed there, by seed id; what is shown for the first time is noted."""
        try:
            held = self._client.read(self._parent, depth=2).children if self._parent else []
        except TanaFaultError:
            return {}
        return find_edits(self._state.record, held)

    def _workspace(self) -> Workspace:
        workspaces = self._client.workspaces()
        workspace = resolve_workspace(self._tenant.settings, workspaces)
        if self._state.mapping.workspace and not same_workspace(self._state.mapping.workspace, workspace, workspaces):
            self.report.moved = self._state.mapping.workspace
            self.report.stale = list(self._state.nodes)
            if self._options.resync and not self._options.dry_run:
                self._state.drop(list(self._state.nodes))
                self._state.mapping.workspace = ""
                self.report.moved, self.report.stale = "", []
        return workspace

    def _look_at_mapped(self) -> bool:
        """Find out which nodes are in the trash or gone; False where the workspace was reset and that was not reckoned with."""
        state, make, only = self._state, not self._options.dry_run, self._options.only
        listed = {each.id: each for each in self._client.all_children(self._parent)} if self._parent else {}
        mapped = {key: node for key, node in state.nodes.items() if only in ("", key)}
        state.trashed = {key for key, node in mapped.items() if node in listed and listed[node].in_trash}
        missing = {key: node for key, node in mapped.items() if node not in listed}
        found = self._matcher.by_seed_id(missing, trashed=True)
        state.trashed |= {key for key, node in missing.items() if node in found and found[node].in_trash}
        if make:
            self._matcher.adopt_named(listed.values())
        unseen = {key: node for key, node in missing.items() if node not in found and node == state.nodes[key]}
        gone: list[str] = []
        for number, (seed_id, node) in enumerate(unseen.items()):
            if number == _MOST_LOOKED_UP == len(gone):
                gone = list(unseen)
                break
            gone += [] if self._client.has(node) else [seed_id]
        left = set(chain(*self._leaving()))
        self.report.trashed_in_tana = sorted(state.trashed - left)
        if make:
            state.drop([seed_id for seed_id in gone if seed_id in left or self._options.resync])
        if not (make and self._options.resync):
            self.report.stale = [seed_id for seed_id in gone if seed_id not in left]
        self._wanted = {key: entry for key, entry in self._wanted.items() if key not in self.report.stale}
        return not (self.report.stale and len(gone) == len(mapped) and not only)

    def _carry_out_changes(self, work: Changes, changes: dict[str, str], leaving: list[str]) -> None:
        total = len(changes) + len(leaving)
        for done, seed_id in enumerate(leaving, 1):
            self._attempt(seed_id, partial(work.take_out, seed_id))
            self._progress(done, total)
        linked = work.links([self._wanted[seed_id] for seed_id in changes])
        before = {seed_id for seed_id in changes if self._state.sent(seed_id).unlinked}
        for done, (seed_id, change) in enumerate(changes.items(), len(leaving) + 1):
            entry, found = self._wanted[seed_id], linked[seed_id]
            edited = self._edits.get(seed_id, ())
            write = partial(work.create, entry, found) if change == "create" else partial(work.update, entry, found, edited)
            self._attempt(seed_id, write, found)
            self._progress(done, total)
        self.report.unlinked = [seed_id for seed_id in self._wanted if self._state.sent(seed_id).unlinked]
        self.report.relinked = sorted(before - set(self.report.unlinked))

    def _attempt(self, seed_id: str, work: Callable[[], str], linked: Linked | None = None) -> None:
        """Do one entry's change; a refusal is that entry's alone."""
        try:
            action = work()
        except (TanaUncertainError, TanaRefusedError, TanaFaultError) as error:
            self._unanswered += isinstance(error, TanaUncertainError)
            if isinstance(error, TanaUncertainError) and self._unanswered >= _UNANSWERED:
                raise
            self.report.outcomes.append(Outcome(seed_id, "failed", self._state.nodes.get(seed_id, ""), error=str(error)))
        else:
            node = self._state.nodes.get(seed_id, "")
            linked = linked or Linked()
            self.report.outcomes.append(Outcome(seed_id, action, node, linked.links, linked.unknown))
