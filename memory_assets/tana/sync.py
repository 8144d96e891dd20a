"""The sync that mirrors seed.json in Tana (seed 000, FR-3, FR-7 to FR-9, FR-16 to FR-20).

seed.json has the desired entries, the mapping file the node of each entry, and the record what was sent. The order of a change is:
effect in Tana, node into the mapping, entry into the record. A killed sync leaves at most one unmapped node. The next sync finds it
among the children of the parent node, which, unlike a search, show new nodes at once. All other effects are idempotent. A mirrored
field that was changed in Tana is reported, and restored unless the settings say otherwise. Links are added beside the user's own, and
a link that the user removed is not added again.
"""

import random
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain

from memory_assets.errors import InvalidInputError
from memory_assets.tana.activity import find_edits, read_activity
from memory_assets.tana.changes import ARCHIVED_DIGEST, Changes, Outcome, Report, SyncOptions
from memory_assets.tana.client import TanaClient, Workspace, ask_each
from memory_assets.tana.config import check_parent, integration, resolve_workspace, same_workspace
from memory_assets.tana.errors import (
    NoTokenError,
    TanaAwayError,
    TanaError,
    TanaFaultError,
    TanaRefusedError,
    TanaUncertainError,
)
from memory_assets.tana.formats import Outline
from memory_assets.tana.linking import Linked
from memory_assets.tana.matching import NodeMatcher
from memory_assets.tana.schema import Entry, Schema, SeedFile, ensure_schema, read_seed
from memory_assets.tana.state import SyncState, sync_lock
from memory_assets.tenants import Tenant

_MAX_LOOKUPS = 20
"""Nodes looked up one by one; if all of them are gone, all missing ones count as gone."""
_MAX_READ_ALONE = 100
"""Nodes outside the parent node that a sync compares with what was sent; of more, it chooses by chance."""
_HEALTH_TIMEOUT_SECONDS = 3.0
_MAX_UNANSWERED = 3
"""Changes in a row without an answer after which Tana counts as unavailable."""


def sync(
    tenant: Tenant,
    options: SyncOptions | None = None,
    *,
    client: TanaClient | None = None,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Report:
    """Update Tana to match seed.json. `progress` is called after each entry with the number done and the total.

    If Tana is unavailable, or no token is configured, the report says so and the changes are queued. StoreBusyError: another sync runs
    for longer than the lock timeout. TanaError: Tana rejects the token, or a request that every entry needs.
    """
    options = options or SyncOptions()
    with sync_lock(tenant) if not options.dry_run else nullcontext():
        run = _SyncRun(tenant, options, progress)
        if run.has_nothing_to_mirror:
            return run.report
        try:
            run.carry_out(client or TanaClient.open(tenant.settings))
        except (TanaAwayError, NoTokenError) as error:
            run.queue_rest(str(error))
        return run.report


class _SyncRun:
    def __init__(self, tenant: Tenant, options: SyncOptions, progress: Callable[[int, int], None]) -> None:
        self._tenant = tenant
        self._options = options
        self._progress = progress
        self._state = SyncState(tenant, is_dry_run=options.dry_run)
        self._seed: SeedFile = read_seed(tenant)
        self._wanted = {key: entry for key, entry in self._seed.entries.items() if options.only in ("", key)}
        self.report = Report(
            len(self._wanted), refused=list(self._seed.refused), last_sync=self._state.mapping.last_sync, there=self._seed.there
        )
        if options.only and options.only not in self._seed.entries and options.only not in self._state.nodes:
            raise InvalidInputError(f"seed.json has no confirmed learning and no proposal with the id {options.only!r}.")
        self.report.names = {seed_id: sent.name for seed_id, sent in self._state.record.sent.items() if sent.name}
        self.report.names |= {seed_id: entry.name for seed_id, entry in self._seed.entries.items()}
        self._to_restore: dict[str, list[str]] = {}
        """Seed id -> mirrored fields that were edited in Tana and are restored."""
        self._unanswered: list[str] = []
        """Seed ids of the last changes, if their answers were lost."""

    @property
    def has_nothing_to_mirror(self) -> bool:
        """Whether there is no seed.json and no sync ever mirrored one."""
        return not self._seed.there and not self._state.nodes

    def _find_removed(self) -> tuple[list[str], list[str]]:
        """Return mapped entries that left seed.json: those to remove from Tana, and those that are too many to remove unconfirmed."""
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

    def _needed_change(self, entry: Entry) -> str:
        if entry.seed_id not in self._state.nodes:
            return "create"
        known = self._state.sent(entry.seed_id)
        if entry.seed_id in self._state.trashed:
            return "create" if self._options.force or known.digest not in (entry.digest, "") else ""
        is_other_node = known.node != self._state.nodes[entry.seed_id]
        if known.tag and known.tag != entry.tag and not is_other_node:
            return "create"
        changed = known.digest != entry.digest or is_other_node
        restored = entry.seed_id in self._to_restore
        return "update" if changed or known.unlinked or known.relinking or restored or self._options.force else ""

    def _plan_queue(self) -> dict[str, str]:
        """Return seed id -> create, update, trash or archive. A change of links alone is not queued."""
        planned = {
            seed_id: change
            for seed_id, entry in self._wanted.items()
            if (change := self._needed_change(entry)) and self._state.sent(seed_id).digest != entry.digest
        }
        return planned | dict.fromkeys(self._find_removed()[0], self._tenant.settings.tana_leaving)

    def queue_rest(self, why: str) -> None:
        """Store the changes that are still to be made."""
        planned = self._plan_queue()
        self.report.away = why
        self.report.outcomes = [
            each for each in self.report.outcomes if each.seed_id not in self._unanswered or each.seed_id not in planned
        ]
        failed = {each.seed_id for each in self.report.outcomes if each.action == "failed"}
        self.report.queued = {seed_id: change for seed_id, change in planned.items() if seed_id not in failed}
        _, self.report.held_back = self._find_removed()
        if not self._options.dry_run:
            self._queue(planned)

    def _queue(self, planned: dict[str, str]) -> None:
        only, record = self._options.only, self._state.record
        others = {key: change for key, change in record.queue.items() if only and key != only}
        record.queue = planned | others
        self._state.save()

    def carry_out(self, client: TanaClient) -> None:
        """Compare Tana with seed.json, and make (or in a dry run only plan) the changes."""
        self._client = client
        if not client.health(timeout=_HEALTH_TIMEOUT_SECONDS):
            raise TanaAwayError(f"Tana at {client.url} is still opening its workspaces; try again in a moment.")
        workspace = self._workspace()
        if self.report.moved and not self._options.resync:
            return
        make = not self._options.dry_run
        settings = self._tenant.settings
        archive = settings.tana_leaving == "archive"
        schema = ensure_schema(client, workspace, archive=archive, make=False)
        self._matcher = NodeMatcher(client, schema, self._state, self._seed)
        check_parent(settings, client, workspace)
        self._parent = self._matcher.find_parent(settings.tana_parent, make=False)
        if not self._check_mapped():
            return
        self.report.edited = {
            key: names for key, names in self._find_edits().items() if key in self._wanted.keys() - self._state.trashed
        }
        self.report.restores = settings.tana_edits == "restore"
        self._to_restore = self.report.edited if self.report.restores else {}
        if make and schema.made:
            schema = ensure_schema(client, workspace, archive=archive)
            self._matcher = replace(self._matcher, schema=schema)
        self.report.made = schema.made
        leaving, self.report.held_back = self._find_removed()
        if make:
            self._parent = self._matcher.find_parent(settings.tana_parent, make=True)
        self._matcher.adopt([entry for entry in self._wanted.values() if entry.seed_id not in self._state.nodes])
        changes = {entry.seed_id: change for entry in self._wanted.values() if (change := self._needed_change(entry))}
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
            self._finish(schema, changed=bool(changes))

    def _finish(self, schema: Schema, *, changed: bool) -> None:
        """Store the queue, how Tana shows the sent fields, and the activity around the learnings."""
        state, settings, workspace = self._state, self._tenant.settings, schema.workspace
        configured = settings.tana_workspace or integration(settings).workspace or workspace.id
        state.record.workspace = state.mapping.workspace = state.mapping.workspace or configured
        self._queue(self._plan_queue())
        with suppress(TanaError):  # the sync is complete; the next reading catches up
            if changed:
                self._find_edits()
                state.save()
            read_activity(self._tenant, self._client, schema, state.record, links_too=changed)
        state.mapping.last_sync = self.report.last_sync = datetime.now(UTC)
        state.mapping.save()

    def _find_edits(self) -> dict[str, list[str]]:
        """Return the mirrored fields that were edited in Tana, by seed id; record how new ones are shown."""
        nodes: dict[str, Outline] = {}
        with suppress(TanaFaultError):
            nodes |= {node.id: node for node in self._client.read(self._parent, depth=2).children} if self._parent else {}
        mapped = (self._state.nodes.get(seed_id, "") for seed_id in self._wanted.keys() - self._state.trashed)
        elsewhere = [node for node in mapped if node and node not in nodes]
        chosen = random.sample(elsewhere, min(len(elsewhere), _MAX_READ_ALONE))
        return find_edits(self._state.record, self._seed.entries, nodes | ask_each(self._client.read, chosen))

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

    def _check_mapped(self) -> bool:
        """Find the nodes that are in the trash or gone. Return False if all are gone and this run recreates none."""
        state, make, only = self._state, not self._options.dry_run, self._options.only
        listed = {each.id: each for each in self._client.all_children(self._parent)} if self._parent else {}
        mapped = {key: node for key, node in state.nodes.items() if only in ("", key)}
        state.trashed = {key for key, node in mapped.items() if node in listed and listed[node].in_trash}
        missing = {key: node for key, node in mapped.items() if node not in listed}
        found = self._matcher.by_seed_id(missing, trashed=True)
        state.trashed |= {key for key, node in missing.items() if node in found and found[node].in_trash}
        self._matcher.adopt_named(listed.values())
        unseen = {key: node for key, node in missing.items() if node not in found and node == state.nodes[key]}
        gone: list[str] = []
        for number, (seed_id, node) in enumerate(unseen.items()):
            if number == _MAX_LOOKUPS == len(gone):
                gone = list(unseen)
                break
            gone += [] if self._client.has(node) else [seed_id]
        left = set(chain(*self._find_removed()))
        self.report.trashed_in_tana = sorted(state.trashed & self._wanted.keys())
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
            restored = self._to_restore.get(seed_id, ())
            write = partial(work.create, entry, found) if change == "create" else partial(work.update, entry, found, restored)
            self._attempt(seed_id, write, found)
            self._progress(done, total)
        self.report.unlinked = [seed_id for seed_id in self._wanted if self._state.sent(seed_id).unlinked]
        self.report.relinked = sorted(before - set(self.report.unlinked))
        self.report.outdated = list(dict.fromkeys(work.outdated))

    def _attempt(self, seed_id: str, work: Callable[[], str], linked: Linked | None = None) -> None:
        """Make one entry's change; a rejected change fails that entry alone."""
        try:
            action = work()
        except (TanaUncertainError, TanaRefusedError, TanaFaultError) as error:
            self._unanswered = [*self._unanswered, seed_id] if isinstance(error, TanaUncertainError) else []
            if len(self._unanswered) >= _MAX_UNANSWERED:
                raise
            self.report.outcomes.append(Outcome(seed_id, "failed", self._state.nodes.get(seed_id, ""), error=str(error)))
        else:
            self._unanswered = []
            node = self._state.nodes.get(seed_id, "")
            linked = linked or Linked()
            self.report.outcomes.append(Outcome(seed_id, action, node, linked.links, linked.unknown))
