"""seed.json mirrored in Tana (seed 000, FR-3, FR-7 to FR-9, FR-16 to FR-20).

seed.json says what is to be there, the mapping file which node stands for what, the ledger what was sent. A change goes: intent into
the ledger, effect in Tana, node into the mapping, entry into the ledger. A kill between two of them leaves an intent, and the next sync
looks among the children of the node that learnings go below, which, unlike a search, shows at once what was made. All other effects may
happen twice without harm. What Tana's user changes in Tana stays until the entry itself changes; links are added beside the user's own,
and a link that the user took away stays away.
"""

import fcntl
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from memory_assets.errors import StoreBusyError
from memory_assets.stores.locks import locked
from memory_assets.tana.activity import read_activity
from memory_assets.tana.client import MOST_CONDITIONS, MOST_FOUND, Node, TanaClient, Workspace
from memory_assets.tana.entries import Entry, SeedFile, read_seed
from memory_assets.tana.equivalence import equivalent
from memory_assets.tana.errors import (
    NoTokenError,
    TanaAwayError,
    TanaError,
    TanaFaultError,
    TanaNotFoundError,
    TanaRefusedError,
    TanaUncertainError,
)
from memory_assets.tana.ledger import Ledger, Sent
from memory_assets.tana.linking import FIELDS as LINK_FIELDS
from memory_assets.tana.linking import Link, Linker
from memory_assets.tana.mapping import Mapping
from memory_assets.tana.markdown import Outline, read_node
from memory_assets.tana.paste import date, is_plain, paste, reference
from memory_assets.tana.schema import (
    ARCHIVED,
    CONTENT,
    LEARNING,
    RELATED_LEARNINGS,
    SEED_ID,
    ensure_schema,
    plain,
)
from memory_assets.tana.workspaces import resolve_workspace, same_workspace

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant

PARENT_NAME = "PAI memory"
_ARCHIVED = "archived"
"""Digest of an entry that left seed.json and whose node was marked."""
_MOST_LOOKED_UP = 20
"""Nodes that are read one by one before all that are missing count as gone."""
_LOCK_POLL_S = 0.1
_PATIENCE_S = 3.0
"""How long a Tana that accepts connections may take to say that it is there."""
_UNANSWERED = 3
"""Creations without an answer after which Tana counts as away."""


Linked = tuple[list[Link], list[str]]
"""The links of an entry, and the names in it that mean no node."""


@dataclass(slots=True)
class Outcome:
    """What became of one entry."""

    seed_id: str
    action: str
    """created, updated, trashed, archived, skipped or failed; create, update and so on where it is only planned."""
    node: str = ""
    links: list[Link] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """Names in it that mean no node of Tana, or several."""
    error: str = ""


@dataclass(slots=True)
class Report:
    """What a sync did, or would do."""

    total: int = 0
    """Entries of seed.json that belong in Tana."""
    outcomes: list[Outcome] = field(default_factory=list)
    made: list[str] = field(default_factory=list)
    """Supertags and fields that were missing."""
    queued: dict[str, str] = field(default_factory=dict)
    """What waits for Tana."""
    away: str = ""
    """Why it waits."""
    held_back: list[str] = field(default_factory=list)
    """Entries that left seed.json, too many to be taken out of Tana unasked."""
    stale: list[str] = field(default_factory=list)
    """Mapped entries whose nodes are gone for good."""
    trashed_in_tana: list[str] = field(default_factory=list)
    moved: str = ""
    """The workspace that the mapping is of, where it is another one now."""
    refused: list[str] = field(default_factory=list)
    """What of seed.json cannot be read."""
    last_sync: datetime | None = None
    there: bool = True
    """Whether seed.json is."""
    unknown: str = ""
    """The one entry that was named, where seed.json and mapping have none of that id."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """How a sync is to be done."""

    dry_run: bool = False
    force: bool = False
    """Send everything, also what did not change and what was trashed in Tana."""
    resync: bool = False
    """Make anew what is gone, in a workspace that is new or was reset."""
    take_out: bool = False
    """Take out of Tana however many left seed.json."""
    only: str = ""
    """Seed id of the one entry to sync; empty for all."""


def sync(
    tenant: "Tenant",
    wishes: Wishes | None = None,
    *,
    client: TanaClient | None = None,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Report:
    """Bring Tana to what seed.json says.

    Args:
        tenant: whose ledger and language tools.
        wishes: how.
        client: asks Tana; that of the settings unless given.
        progress: told after each entry how many of how many are done.

    Raises:
        InvalidInputError: seed.json cannot be read as a whole.
        StoreError: mapping or ledger cannot be used.
        StoreBusyError: another sync is under way for longer than is waited.
        TanaTokenError: Tana does not accept the token.
        TanaError: Tana refuses what every entry needs. Where it is only away, or there is no token yet, the report says so, and what
            is to be done is queued.
    """
    wishes = wishes or Wishes()
    with one_at_a_time(tenant) if not wishes.dry_run else nullcontext():
        run = _Sync(tenant, wishes, progress)
        if run.nothing_ever:
            return run.report
        try:
            run.carry_out(client or TanaClient.open(tenant.settings))
        except (TanaAwayError, NoTokenError) as error:
            run.queue_rest(str(error))
        return run.report


@contextmanager
def one_at_a_time(tenant: "Tenant") -> Iterator[None]:
    """Hold the mapping's folder: all tenants and processes share the one mapping.

    Raises:
        StoreBusyError: somebody else holds it too long.
    """
    folder = tenant.settings.pai_mapping.parent
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    deadline = time.monotonic() + tenant.settings.lock_timeout
    with ExitStack() as held:
        while True:
            try:
                held.enter_context(locked(folder, fcntl.LOCK_EX | fcntl.LOCK_NB))
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise StoreBusyError("Another `memory pai sync` is under way; run this one again when it is done.") from None
                time.sleep(_LOCK_POLL_S)
        yield


class _Sync:
    def __init__(self, tenant: "Tenant", wishes: Wishes, progress: Callable[[int, int], None]) -> None:
        self._tenant = tenant
        self._wishes = wishes
        self._progress = progress
        self._ledger = Ledger(tenant.folder)
        self._mapping = Mapping.load(tenant.settings.pai_mapping)
        self._sent = self._ledger.sent()
        self._seed: SeedFile = read_seed(tenant.settings.pai_seed, tenant.settings.secrets)
        if wishes.only:
            chosen = {key: entry for key, entry in self._seed.entries.items() if key == wishes.only}
            self._wanted = chosen
        else:
            self._wanted = self._seed.entries
        self.report = Report(
            len(self._wanted), refused=list(self._seed.refused), last_sync=self._mapping.last_sync, there=self._seed.there
        )
        if wishes.only and wishes.only not in self._seed.entries and wishes.only not in self._mapping.nodes:
            self.report.unknown = wishes.only
        self._trashed: set[str] = set()
        """Seed ids whose nodes are in the trash."""
        self._unanswered = 0

    @property
    def nothing_ever(self) -> bool:
        """Whether there is no seed.json and never was one that was mirrored."""
        return not self._seed.there and not self._mapping.nodes

    # The plan.

    def _leaving(self) -> list[str]:
        """Mapped entries that are no more in seed.json."""
        gone = [
            seed_id
            for seed_id in self._mapping.nodes
            if seed_id not in self._seed.entries
            and seed_id not in self._seed.kept
            and self._sent.get(seed_id, _UNKNOWN).digest != _ARCHIVED
        ]
        if self._wishes.only:
            return [seed_id for seed_id in gone if seed_id == self._wishes.only]
        return gone

    def _change(self, entry: Entry) -> str:
        """`create`, `update` or nothing."""
        if entry.seed_id not in self._mapping.nodes:
            return "create"
        known = self._sent.get(entry.seed_id, _UNKNOWN)
        if entry.seed_id in self._trashed:
            return "create" if self._wishes.force or known.digest not in (entry.digest, "") else ""
        changed = known.digest != entry.digest or known.node != self._mapping.nodes[entry.seed_id]
        if changed and known.tag and known.tag != entry.tag:
            return "create"
        return "update" if changed or known.unlinked or self._wishes.force else ""

    def _planned(self) -> dict[str, str]:
        """Seed id -> create, update or trash."""
        planned = {seed_id: change for seed_id, entry in self._wanted.items() if (change := self._change(entry))}
        leaving = self._leaving()
        if not self._too_many(leaving):
            planned |= dict.fromkeys(leaving, self._tenant.settings.tana_leaving)
        return planned

    def _too_many(self, leaving: list[str]) -> bool:
        """Whether to ask before so many are taken out of Tana."""
        if not leaving or self._wishes.take_out:
            return False
        if self._seed.unnamed or not self._seed.there or not self._seed.entries:
            return True
        return len(leaving) > max(1, self._tenant.settings.tana_trash_at_most * len(self._mapping.nodes))

    def queue_rest(self, why: str) -> None:
        """Note durably what is still to be done."""
        self.report.away = why
        self._sent = self._ledger.sent()
        self._mapping = Mapping.load(self._mapping.path)
        self.report.queued = self._planned()
        leaving = self._leaving()
        self.report.held_back = leaving if self._too_many(leaving) else []
        if not self._wishes.dry_run:
            self._queue(self.report.queued)

    def _queue(self, planned: dict[str, str]) -> None:
        others = {key: change for key, change in self._ledger.queued().items() if key != self._wishes.only}
        self._ledger.queue(planned | (others if self._wishes.only else {}))

    # The work.

    def carry_out(self, client: TanaClient) -> None:
        """Look, plan, and change what differs."""
        self._client = client
        if not client.health(timeout=_PATIENCE_S):
            raise TanaAwayError(f"Tana at {client.url} is still opening its workspaces; try again in a moment.")
        workspace = self._workspace()
        if self.report.moved and not self._wishes.resync:
            return
        make = not self._wishes.dry_run
        archive = self._tenant.settings.tana_leaving == "archive"
        self._schema = ensure_schema(client, workspace, archive=archive, make=False)
        self._parent = self._find_parent(workspace, make=False)
        self._children = {} if self._wishes.only else self._listed(self._parent)
        if make:
            self._reconcile()
        if not self._look_at_mapped():
            return
        if make and self._schema.made:
            self._schema = ensure_schema(client, workspace, archive=archive)
        self.report.made = self._schema.made
        if make:
            self._parent = self._find_parent(workspace, make=True)
        leaving = self._leaving()
        if self._too_many(leaving):
            self.report.held_back, leaving = leaving, []
        if make:
            self._adopt([entry for entry in self._wanted.values() if entry.seed_id not in self._mapping.nodes])
        changes = {entry.seed_id: change for entry in self._wanted.values() if (change := self._change(entry))}
        if self._wishes.dry_run:
            planned = changes | dict.fromkeys(leaving, self._tenant.settings.tana_leaving)
            nodes = self._mapping.nodes
            self.report.outcomes = [Outcome(seed_id, change, nodes.get(seed_id, "")) for seed_id, change in planned.items()]
            self._skipped(changes)
            return
        self._carry_out_changes(changes, leaving)
        self._skipped(changes)
        self._retire()
        self._queue(self._planned())
        self._mapping.workspace = self._mapping.workspace or self._configured(workspace)
        with suppress(TanaError):  # the sync is done; what lives around it is read next time
            read_activity(self._tenant, client, self._schema, self._parent, links_too=bool(changes))
        self._mapping.last_sync = self.report.last_sync = datetime.now(UTC)
        self._mapping.save()

    def _skipped(self, changes: dict[str, str]) -> None:
        self.report.outcomes += [
            Outcome(seed_id, "skipped", self._mapping.nodes.get(seed_id, ""))
            for seed_id in self._wanted
            if seed_id not in changes
        ]

    def _workspace(self) -> Workspace:
        workspaces = self._client.workspaces()
        workspace = resolve_workspace(self._tenant.settings, workspaces)
        if self._mapping.workspace and not same_workspace(self._mapping.workspace, workspace, workspaces):
            self.report.moved = self._mapping.workspace
            self.report.stale = list(self._mapping.nodes)
            if self._wishes.resync and not self._wishes.dry_run:
                self._drop(list(self._mapping.nodes))
                self._mapping.workspace = ""
                self.report.moved, self.report.stale = "", []
        return workspace

    def _configured(self, workspace: Workspace) -> str:
        from memory_assets.tana.config import integration

        return self._tenant.settings.tana_workspace or integration(self._tenant.settings).workspace or workspace.id

    def _find_parent(self, workspace: Workspace, *, make: bool) -> str:
        """The node that learnings go below: that of the settings, else `PAI memory` in the Library, made where it is missing."""
        if self._tenant.settings.tana_parent:
            return self._tenant.settings.tana_parent
        fact = f"parent of {workspace.id}"
        known = self._ledger.fact(fact)
        if known:
            with suppress(TanaNotFoundError):
                children, _ = self._client.children(known, limit=1)
                if not any(child.in_trash for child in children):
                    return known
        found = [node.id for node in self._client.search({"textContains": PARENT_NAME}, workspace.id) if _is_parent(node)]
        if not found and self._ledger.intents("parent"):
            found = [node.id for node in self._client.all_children(workspace.library) if _is_parent(node)]
        if not found and make:
            self._ledger.intend(("parent", workspace.id, {}))
            found = list(self._client.import_paste(workspace.library, f"- {PARENT_NAME}"))
        if found and make:
            self._ledger.keep(**{fact: found[0]})
            self._ledger.done("parent", workspace.id)
        return found[0] if found else ""

    def _listed(self, parent: str) -> dict[str, Node]:
        return {node.id: node for node in self._client.all_children(parent)} if parent else {}

    def _reconcile(self) -> None:
        """Find out what became of the creations that a kill or a lost answer left open."""
        for seed_id, said in self._ledger.intents("create").items():
            mapped = self._mapping.nodes.get(seed_id, "")
            if mapped and mapped != said["before"]:
                continue  # the mapping was written: an update finishes the rest
            if found := self._made_before(seed_id, said["name"]):
                self._map(seed_id, found)
            self._ledger.done("create", seed_id)
        self._retire()

    def _made_before(self, seed_id: str, name: str) -> str:
        """The node that was made for an entry and is not mapped; empty where there is none."""
        mapped = set(self._mapping.nodes.values())
        for node in self._listed(self._parent).values():
            if node.name == name and node.id not in mapped and not node.in_trash:
                held = read_node(self._client.read(node.id).markdown)
                if name.startswith(_UNNAMED) or seed_id in held.texts(SEED_ID):
                    return node.id
        return ""

    def _retire(self) -> None:
        """Take the nodes of proposals out that became learnings with nodes of their own."""
        for node, said in self._ledger.intents("retire").items():
            if self._mapping.nodes.get(said["seed_id"]) not in (node, None):
                self._client.trash(node)
            self._ledger.done("retire", node)

    def _look_at_mapped(self) -> bool:
        """Find out which nodes are in the trash or gone; False where the workspace was reset and that was not reckoned with."""
        mapped = {key: node for key, node in self._mapping.nodes.items() if not self._wishes.only or key == self._wishes.only}
        self._trashed = {key for key, node in mapped.items() if node in self._children and self._children[node].in_trash}
        missing = {key: node for key, node in mapped.items() if node not in self._children}
        found = self._by_seed_id(missing, trashed=True)
        self._trashed |= {key for key, node in missing.items() if node in found and found[node].in_trash}
        unseen = {key: node for key, node in missing.items() if node not in found}
        gone: list[str] = []
        for number, (seed_id, node) in enumerate(unseen.items()):
            if number == _MOST_LOOKED_UP == len(gone):
                gone = list(unseen)
                break
            try:
                self._client.read(node, depth=0)
            except TanaNotFoundError:
                gone.append(seed_id)
            except TanaFaultError:
                continue
        self.report.trashed_in_tana = sorted(self._trashed - set(self._leaving()))
        if self._wishes.resync and not self._wishes.dry_run:
            self._drop(gone)
            gone = []
        left = set(self._leaving())
        if not self._wishes.dry_run:
            self._drop([seed_id for seed_id in gone if seed_id in left])
        self.report.stale = [seed_id for seed_id in gone if seed_id not in left]
        reset = bool(self.report.stale) and len(gone) == len(mapped) and not self._wishes.only
        self._wanted = {key: entry for key, entry in self._wanted.items() if key not in self.report.stale}
        return not reset

    def _drop(self, seed_ids: list[str]) -> None:
        """Forget which nodes stood for entries."""
        for seed_id in seed_ids:
            self._mapping.nodes.pop(seed_id, None)
            self._sent.pop(seed_id, None)
            self._trashed.discard(seed_id)
        if seed_ids:
            self._mapping.save()
            self._ledger.forget(seed_ids)

    def _by_seed_id(self, seed_ids: Iterable[str], *, trashed: bool = False) -> dict[str, Node]:
        """Nodes of either supertag whose Seed Entry ID is one of these, by node id."""
        fields = [field_id for tag in self._schema.fields if (field_id := self._schema.field_id(tag, SEED_ID))]
        listed = list(seed_ids)
        found: dict[str, Node] = {}
        size = MOST_CONDITIONS // 2
        for start in range(0, len(listed) if fields else 0, size):
            conditions = [
                {"field": {"fieldId": field_id, "stringValue": seed_id}}
                for seed_id in listed[start : start + size]
                for field_id in fields
            ]
            with suppress(TanaFaultError):
                hits = self._client.search({"or": conditions}, self._schema.workspace.id, trashed=trashed)
                found.update((node.id, node) for node in hits)
        return found

    # What is there already.

    def _adopt(self, new: list[Entry]) -> None:
        """Take nodes over that stand for new entries already: by seed id, then by what they say."""
        open_entries = {entry.seed_id: entry for entry in new}
        if not open_entries or all(f"#{tag}" in self.report.made for tag in self._schema.fields):
            return
        mapped = set(self._mapping.nodes.values())
        for node in sorted(self._by_seed_id(open_entries).values(), key=lambda node: (node.created or _LONG_AGO, node.id)):
            if node.id not in mapped:
                for seed_id in self._read(node.id).texts(SEED_ID):
                    if seed_id in open_entries and self._has_tag(node, open_entries[seed_id].tag):
                        self._map(open_entries.pop(seed_id).seed_id, node.id)
                        mapped.add(node.id)
        for tag in self._schema.fields:
            entries = [entry for entry in open_entries.values() if entry.tag == tag]
            for node in self._tagged(tag, entries):
                if node.id in mapped:
                    continue
                match = next(
                    (entry for entry in entries if entry.seed_id in open_entries and equivalent(node.name, entry.name)), None
                )
                if match and self._says_the_same(node, match):
                    self._map(open_entries.pop(match.seed_id).seed_id, node.id)
                    mapped.add(node.id)

    def _tagged(self, tag: str, entries: list[Entry]) -> list[Node]:
        """Nodes of a supertag among which an equivalent of an entry may be."""
        if not entries:
            return []
        has_tag = {"hasType": self._schema.tags[tag]}
        found = self._client.search(has_tag, self._schema.workspace.id)
        if len(found) < MOST_FOUND:
            return found
        nodes: dict[str, Node] = {}
        for start in range(0, len(entries), MOST_CONDITIONS):
            begins = [{"textContains": entry.name[:40]} for entry in entries[start : start + MOST_CONDITIONS]]
            with suppress(TanaFaultError):
                hits = self._client.search({"and": [has_tag, {"or": begins}]}, self._schema.workspace.id)
                nodes.update((node.id, node) for node in hits)
        return list(nodes.values())

    def _says_the_same(self, node: Node, entry: Entry) -> bool:
        """Whether a node's content is the entry's, and it stands for no other entry of seed.json."""
        held = self._read(node.id)
        others = [seed_id for seed_id in held.texts(SEED_ID) if seed_id]
        content = next(iter(held.texts(CONTENT)), node.name)
        return equivalent(content, entry.fields[CONTENT]) and not any(
            other in self._seed.entries or other in self._mapping.nodes for other in others
        )

    def _has_tag(self, node: Node, tag: str) -> bool:
        return self._schema.tags[tag] in {each.id for each in node.tags}

    def _read(self, node: str) -> Outline:
        try:
            return read_node(self._client.read(node).markdown)
        except TanaFaultError:
            return Outline("")

    def _map(self, seed_id: str, node: str) -> None:
        self._mapping.nodes[seed_id] = node
        self._mapping.save()

    # Changes.

    def _carry_out_changes(self, changes: dict[str, str], leaving: list[str]) -> None:
        total, done = len(changes) + len(leaving), 0
        for seed_id in leaving:
            self._attempt(seed_id, lambda seed_id=seed_id: self._take_out(seed_id))
            done += 1
            self._progress(done, total)
        linked = self._links([self._wanted[seed_id] for seed_id in changes])
        for seed_id, change in changes.items():
            self._change_one(seed_id, self._create if change == "create" else self._update, linked)
            done += 1
            self._progress(done, total)
        for seed_id in changes:  # what names a learning that was made after it
            entry, known = self._wanted[seed_id], self._sent.get(seed_id, _UNKNOWN)
            if known.digest == entry.digest and known.links.get(RELATED_LEARNINGS, []) != self._named(entry):
                with suppress(TanaRefusedError, TanaFaultError):
                    self._update(entry, linked.get(seed_id))

    def _change_one(self, seed_id: str, work: "Callable[[Entry, Linked | None], str]", linked: "dict[str, Linked]") -> None:
        entry, found = self._wanted[seed_id], linked.get(seed_id)
        links, unknown = found or ([], [])
        self._attempt(seed_id, lambda: work(entry, found), links, unknown)

    def _attempt(self, seed_id: str, work: Callable[[], str], links: Iterable[Link] = (), unknown: Iterable[str] = ()) -> None:
        """Do one entry's change; a refusal is that entry's alone."""
        try:
            action = work()
        except TanaUncertainError as error:
            self._unanswered += 1
            if self._unanswered >= _UNANSWERED:
                raise
            self.report.outcomes.append(Outcome(seed_id, "failed", error=str(error)))
        except (TanaRefusedError, TanaFaultError) as error:
            self.report.outcomes.append(Outcome(seed_id, "failed", self._mapping.nodes.get(seed_id, ""), error=str(error)))
        else:
            node = self._mapping.nodes.get(seed_id, "")
            self.report.outcomes.append(Outcome(seed_id, action, node, list(links), list(unknown)))

    def _links(self, entries: list[Entry]) -> "dict[str, Linked]":
        """The links and unknown names of each entry; of none where Tana cannot be asked for them."""
        linker = Linker(self._tenant, self._client, self._schema)
        learnings = [entry for entry in entries if entry.tag == LEARNING]
        try:
            found = linker.links([entry.text for entry in learnings])
        except TanaError:
            return {}
        return {entry.seed_id: ([], []) for entry in entries} | {
            entry.seed_id: each for entry, each in zip(learnings, found, strict=True)
        }

    def _link_targets(self, entry: Entry, links: list[Link]) -> dict[str, list[str]]:
        """Field -> nodes to link there."""
        targets: dict[str, list[str]] = {}
        for link in links:
            targets.setdefault(LINK_FIELDS[link.kind], []).append(link.node)
        named = self._named(entry)
        return targets | ({RELATED_LEARNINGS: named} if named else {})

    def _named(self, entry: Entry) -> list[str]:
        """The nodes of the learnings whose ids a learning's text has."""
        if entry.tag != LEARNING:
            return []
        words = set(re.findall(r"[\w-]+", entry.text)) - {entry.seed_id}
        ids = [word for word in sorted(words) if len(word) >= _SHORTEST_ID and word in self._mapping.nodes]
        return [self._mapping.nodes[word] for word in ids]

    def _create(self, entry: Entry, linked: "Linked | None") -> str:
        tag = self._schema.tags[entry.tag]
        targets = self._link_targets(entry, linked[0] if linked else [])
        name = entry.name if is_plain(entry.name) and is_plain(entry.seed_id) else f"{_UNNAMED} {entry.digest[:12]}"
        values = {name: value for name, value in entry.fields.items() if value}
        pasted = {
            field_id: shown
            for each, value in values.items()
            if (field_id := self._field(entry, each)) and (shown := self._pasted(entry, each, value))
        }
        pasted |= {
            self._field(entry, each): [reference(node) for node in nodes]
            for each, nodes in targets.items()
            if self._field(entry, each)
        }
        before = self._mapping.nodes.get(entry.seed_id, "")
        intents: list[tuple[str, str, dict[str, object]]] = [("create", entry.seed_id, {"name": name, "before": before})]
        known = self._sent.get(entry.seed_id, _UNKNOWN)
        if before and entry.seed_id not in self._trashed and known.tag != entry.tag:
            intents.append(("retire", before, {"seed_id": entry.seed_id}))
        self._ledger.intend(*intents)
        try:
            made = self._client.import_paste(self._parent, paste(name, tag, pasted))
            node = self._which(made, name, entry)
        except TanaUncertainError:
            node = self._made_before(entry.seed_id, name)
            if not node:
                raise
        self._map(entry.seed_id, node)
        if name != entry.name:
            self._client.update(node, entry.name)
        for each, value in values.items():
            if self._field(entry, each) not in pasted:
                self._set(node, entry, each, value)
        self._record(entry, node, targets, unlinked=linked is None)
        return "created"

    def _which(self, made: dict[str, str], name: str, entry: Entry) -> str:
        """The node among those an import made, in no order, that is the entry's: values may be nodes of the same name."""
        called = [node for node, known in made.items() if known == name] or list(made)
        if len(called) == 1:
            return called[0]
        for node in called:
            if _tagged_as(self._read(node), entry.tag):
                return node
        raise TanaUncertainError(f"Tana made nodes for {entry.seed_id}, and none of them can be told to be it; sync again.")

    def _update(self, entry: Entry, linked: "Linked | None") -> str:
        node = self._mapping.nodes[entry.seed_id]
        known = self._sent.get(entry.seed_id, _UNKNOWN)
        sure = bool(known.digest) and known.node == node
        targets = self._link_targets(entry, linked[0]) if linked else known.links
        held = self._read(node) if not sure or targets != known.links or self._wishes.force else None
        if held and not sure and held.tags and not _tagged_as(held, entry.tag):
            return self._create(entry, linked)
        everything = self._wishes.force or not sure
        if everything or known.name != entry.name:
            self._client.update(node, entry.name)
        before = known.fields if sure else {}
        for each in {**before, **entry.fields}:
            value = entry.fields.get(each, "")
            if (everything and value) or before.get(each, "") != value:
                self._set(node, entry, each, value)
        if held:
            self._relink(entry, node, held, known.links if sure else {}, targets)
        self._record(entry, node, targets, unlinked=linked is None)
        return "updated"

    def _relink(
        self, entry: Entry, node: str, held: Outline, before: dict[str, list[str]], targets: dict[str, list[str]]
    ) -> None:
        """Add what is newly named beside what is there, and take away what was linked here and is named no more."""
        unfinished = self._ledger.intents("links").get(entry.seed_id, {})
        for each in {**before, **targets}:
            field_id = self._field(entry, each)
            if not field_id:
                continue
            ours, wanted = before.get(each, []), targets.get(each, [])
            there = unfinished[each].split() if each in unfinished else held.refs(each)
            added = [one for one in wanted if one not in ours and one not in there]
            dropped = [one for one in ours if one not in wanted and one in there]
            kept = [one for one in there if one not in dropped]
            if dropped or each in unfinished:
                self._ledger.intend(("links", entry.seed_id, {each: " ".join(kept + added)}))
                if not kept + added:
                    self._client.set_content(node, field_id, None)
                for number, one in enumerate(kept + added):
                    self._client.set_option(node, field_id, one, "append" if number else "replace")
            else:
                for one in added:
                    self._client.set_option(node, field_id, one, "append")

    def _take_out(self, seed_id: str) -> str:
        """Trash or mark the node of an entry that left seed.json."""
        node = self._mapping.nodes[seed_id]
        known = self._sent.get(seed_id, _UNKNOWN)
        field_id = self._schema.field_id(known.tag or LEARNING, ARCHIVED)
        if self._tenant.settings.tana_leaving == "archive" and field_id:
            today = datetime.now(UTC).date().isoformat()
            self._client.set_content(node, field_id, today)
            fields = known.fields | {ARCHIVED: today}
            self._sent[seed_id] = Sent(node, known.tag or LEARNING, _ARCHIVED, known.name, fields, known.links)
            self._ledger.record(seed_id, self._sent[seed_id])
            return "archived"
        if seed_id not in self._trashed:
            self._client.trash(node)
        self._drop([seed_id])
        return "trashed"

    def _record(self, entry: Entry, node: str, links: dict[str, list[str]], *, unlinked: bool) -> None:
        sent = Sent(node, entry.tag, entry.digest, entry.name, entry.fields, links, unlinked)
        self._sent[entry.seed_id] = sent
        self._trashed.discard(entry.seed_id)
        self._ledger.record(entry.seed_id, sent)

    def _field(self, entry: Entry, name: str) -> str:
        return self._schema.field_id(entry.tag, name)

    def _pasted(self, entry: Entry, name: str, value: str) -> list[str]:
        """A value in Tana Paste; nothing where it must be set by itself."""
        known = self._schema.fields[entry.tag][name]
        match known.type:
            case "options":
                return [reference(known.options[value])] if value in known.options else []
            case "date":
                return [date(value)]
        return [value] if is_plain(value) else []

    def _set(self, node: str, entry: Entry, name: str, value: str) -> None:
        known = self._schema.fields[entry.tag].get(name)
        if known is None:
            return
        if known.type == "options" and value:
            if value not in known.options:
                raise TanaRefusedError(f"The field {name} of #{entry.tag} has no option {value}; add it in Tana.")
            self._client.set_option(node, known.id, known.options[value])
        else:
            self._client.set_content(node, known.id, value or None)


_UNKNOWN = Sent("", "", "")
_UNNAMED = "PAI entry"
"""What a node is called until it is renamed to what Tana Paste would not take as a name."""
_SHORTEST_ID = 6
"""Characters of a seed id from which its occurrence in a text means it."""
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def _tagged_as(held: Outline, tag: str) -> bool:
    return plain(tag) in plain(held.tags)


def _is_parent(node: Node) -> bool:
    return node.name == PARENT_NAME and not node.tags and not node.in_trash
