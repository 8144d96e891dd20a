"""Changes of single entries in Tana (create, update with links, remove), and the options and report of a sync.

The order of each change: effect in Tana, node into the mapping, entry into the record.
"""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Annotated

from pydantic import Field, PlainSerializer

from memory_assets.tana.errors import TanaError, TanaFaultError, TanaRefusedError, TanaUncertainError
from memory_assets.tana.formats import Outline, date, is_plain, paste, plain, reference
from memory_assets.tana.linking import FIELDS as LINK_FIELDS
from memory_assets.tana.linking import Link, Linked, Linker
from memory_assets.tana.matching import NodeMatcher, placeholder
from memory_assets.tana.schema import ARCHIVED, LEARNING, Entry
from memory_assets.tana.state import NAME, SentEntry
from memory_assets.tenants import Tenant

TextOrNull = Annotated[str, PlainSerializer(lambda text: text or None)]
"""Text that is null in JSON if empty."""
ARCHIVED_DIGEST = "archived"
"""Digest recorded for an entry that left seed.json and whose node was marked as archived."""


@dataclass(frozen=True, slots=True)
class Changes(NodeMatcher):
    """Creates, updates and removes the nodes of entries in one workspace."""

    tenant: Tenant
    parent: str
    force: bool
    """Send unchanged values, too."""
    outdated: list[str] = field(default_factory=list)
    """Seed ids whose nodes keep an outdated link, because a person typed a value into its field."""

    def create(self, entry: Entry, linked: Linked) -> str:
        """Create a node; a former node of the entry as a proposal goes to the trash."""
        targets = _link_targets(linked.links)
        name = entry.name if is_plain(entry.name) and is_plain(entry.seed_id) else placeholder(entry.seed_id)
        values = {name: value for name, value in entry.fields.items() if value}
        pasted = {self._field(entry, each): self._paste_values(entry, each, value) for each, value in values.items()}
        pasted |= {self._field(entry, each): [reference(node) for node in nodes] for each, nodes in targets.items()}
        pasted = {field_id: shown for field_id, shown in pasted.items() if field_id and shown}
        before, known = self.state.nodes.get(entry.seed_id, ""), self.state.sent(entry.seed_id)
        is_to_go = before and entry.seed_id not in self.state.trashed and known.tag != entry.tag
        try:
            made = self.client.import_paste(self.parent, paste(name, self.schema.tags[entry.tag], pasted))
            self.state.map(entry.seed_id, self._find_created(made, name, entry))
        except (TanaUncertainError, TanaFaultError):
            self.adopt_named(self.client.all_children(self.parent))
            if self.state.nodes.get(entry.seed_id, "") == before:
                raise
        if is_to_go:
            self.client.trash(before)
        node = self.state.nodes[entry.seed_id]
        if name != entry.name:
            self.client.update(node, entry.name)
        for each, value in values.items():
            if self._field(entry, each) not in pasted:
                self._set(node, entry, each, value)
        self._record_sent(entry, node, targets, linked)
        return "created"

    def _record_sent(self, entry: Entry, node: str, targets: dict[str, list[str]], linked: Linked) -> None:
        sent = SentEntry(node, entry.tag, entry.digest, entry.name, entry.fields, targets, unlinked=not linked.complete)
        self.state.keep(entry.seed_id, sent)

    def _find_created(self, made: dict[str, str], name: str, entry: Entry) -> str:
        """Return the entry's node among the unordered nodes of an import; a value may be a node of the same name."""
        called = [node for node, known in made.items() if known == name] or list(made)
        if len(called) == 1:
            return called[0]
        for node in called:
            if _tagged_as(self.read(node), entry.tag):
                return node
        raise TanaFaultError(f"Tana made nodes for {entry.seed_id}, but none can be identified; sync again.")

    def update(self, entry: Entry, linked: Linked, restored: Collection[str] = ()) -> str:
        """Send what differs from the last sync and the fields `restored`, and leave the rest of the node alone."""
        node = self.state.nodes[entry.seed_id]
        known = self.state.sent(entry.seed_id)
        sure = bool(known.digest) and known.node == node
        targets = _link_targets(linked.links)
        if not linked.complete:
            targets = {
                each: list(dict.fromkeys((*known.links.get(each, ()), *targets.get(each, ())))) for each in known.links | targets
            }
        is_current = sure and targets == known.links and not known.relinking
        outline = None if is_current and not self.force else self.read(node)
        if outline and not sure and outline.tags and not _tagged_as(outline, entry.tag):
            return self.create(entry, linked)
        everything = self.force or not sure
        if everything or known.name != entry.name or NAME in restored:
            self.client.update(node, entry.name)
        before = known.fields if sure else {}
        for each in {**before, **entry.fields}:
            value = entry.fields.get(each, "")
            if (everything and value) or before.get(each, "") != value or each in restored:
                self._set(node, entry, each, value)
        if outline:
            targets = self._relink(entry, node, outline, known.links if sure else {}, targets)
        self._record_sent(entry, node, targets, linked)
        return "updated"

    def _relink(
        self, entry: Entry, node: str, outline: Outline, before: dict[str, list[str]], targets: dict[str, list[str]]
    ) -> dict[str, list[str]]:
        """Add new links to the existing ones, and remove links of earlier syncs that the entry no longer names; return our links.

        Removal rewrites a field. A field with a typed value, which has no reference to rewrite, therefore keeps outdated links.
        """
        known = self.state.sent(entry.seed_id)
        relinking = known.relinking if known.node == node else {}
        ours_now = dict(targets)
        for each in {**before, **relinking, **targets}:
            field_id = self._field(entry, each)
            if not field_id:
                continue
            ours, wanted, refs = before.get(each, []), targets.get(each, []), outline.refs(each)
            there = list(dict.fromkeys([*relinking.get(each, ()), *refs]))
            added = [one for one in wanted if one not in ours and one not in there]
            dropped = [one for one in ours if one not in wanted and one in there]
            final = [one for one in there if one not in dropped] + added
            if any(value.text and not value.ref for value in outline.values(each)):
                for one in final:
                    if one not in refs:
                        self.client.set_option(node, field_id, one, "append")
                if left := [one for one in dropped if one in refs]:
                    ours_now[each] = wanted + left
                    self.outdated.append(entry.seed_id)
            elif dropped or each in relinking:
                known.relinking[each], known.links[each] = final + dropped, list(dict.fromkeys([*ours, *wanted]))
                self.state.save()
                if not final:
                    self.client.set_content(node, field_id, None)
                for number, one in enumerate(final):
                    self.client.set_option(node, field_id, one, "append" if number else "replace")
            else:
                for one in added:
                    self.client.set_option(node, field_id, one, "append")
        return ours_now

    def take_out(self, seed_id: str) -> str:
        """Trash the node of an entry that left seed.json, or mark it as archived."""
        node = self.state.nodes[seed_id]
        known = self.state.sent(seed_id)
        field_id = self.schema.field_id(known.tag or LEARNING, ARCHIVED)
        if self.tenant.settings.tana_leaving == "archive" and field_id:
            today = datetime.now(UTC).date().isoformat()
            self.client.set_content(node, field_id, today)
            fields = known.fields | {ARCHIVED: today}
            sent = replace(
                known, node=node, tag=known.tag or LEARNING, digest=ARCHIVED_DIGEST, fields=fields, unlinked=False, shown=None
            )
            self.state.keep(seed_id, sent)
            return "archived"
        if seed_id not in self.state.trashed:
            self.client.trash(node)
        self.state.drop([seed_id])
        return "trashed"

    def _field(self, entry: Entry, name: str) -> str:
        return self.schema.field_id(entry.tag, name)

    def _paste_values(self, entry: Entry, name: str, value: str) -> list[str]:
        """Return a value in Tana Paste, or nothing if it must be set separately."""
        known = self.schema.fields[entry.tag][name]
        match known.type:
            case "options":
                return [reference(known.options[value])] if value in known.options else []
            case "date":
                return [date(value)]
        return [value] if is_plain(value) else []

    def _set(self, node: str, entry: Entry, name: str, value: str) -> None:
        known = self.schema.fields[entry.tag].get(name)
        if known is None:
            return
        if known.type == "options" and value:
            if value not in known.options:
                raise TanaRefusedError(f"The field {name} of #{entry.tag} has no option {value}; add it in Tana.")
            self.client.set_option(node, known.id, known.options[value])
        else:
            self.client.set_content(node, known.id, value or None)

    def links(self, entries: list[Entry]) -> dict[str, Linked]:
        """Resolve the names in each learning to nodes; the result is incomplete if Tana fails."""
        learnings = [entry for entry in entries if entry.tag == LEARNING]
        try:
            found = Linker(self.tenant, self.client, self.schema).links([entry.text for entry in learnings])
        except TanaError:
            found = [Linked(complete=False)] * len(learnings)
        return {entry.seed_id: Linked() for entry in entries} | {
            entry.seed_id: each for entry, each in zip(learnings, found, strict=True)
        }


def _link_targets(links: list[Link]) -> dict[str, list[str]]:
    targets: dict[str, list[str]] = {}
    for link in links:
        targets.setdefault(LINK_FIELDS[link.kind], []).append(link.node)
    return targets


def _tagged_as(outline: Outline, tag: str) -> bool:
    return plain(tag) in map(plain, outline.tag_names)


@dataclass(frozen=True, slots=True)
class SyncOptions:
    """Options of a sync."""

    dry_run: bool = False
    force: bool = False
    """Send everything, including unchanged entries and entries trashed in Tana."""
    resync: bool = False
    """Recreate missing nodes, in a workspace that is new or was reset."""
    take_out: bool = False
    """Remove entries that left seed.json from Tana, however many there are."""
    only: str = ""
    """Seed id of the one entry to sync; empty for all."""


@dataclass(slots=True)
class Outcome:
    """Outcome for one entry."""

    seed_id: Annotated[str, Field(serialization_alias="seedId")]
    action: str
    """created, updated, trashed, archived, skipped or failed; in a dry run create, update and so on; or queued."""
    node: Annotated[TextOrNull, Field(serialization_alias="tanaNodeId")] = ""
    links: Annotated[list[Link], Field(serialization_alias="entityLinks")] = field(default_factory=list)
    unknown: Annotated[list[str], Field(serialization_alias="unknownNames")] = field(default_factory=list)
    """Names that match no node, or several."""
    error: TextOrNull = ""
    name: str = ""
    """Name of its node, in reports for people."""


@dataclass(slots=True)
class Report:
    """Report of a sync or a dry run."""

    total: int = 0
    """Entries of seed.json to mirror."""
    outcomes: list[Outcome] = field(default_factory=list)
    made: list[str] = field(default_factory=list)
    queued: dict[str, str] = field(default_factory=dict)
    """Seed id -> change that waits for Tana."""
    away: str = ""
    """Why the changes wait."""
    held_back: list[str] = field(default_factory=list)
    """Entries that left seed.json but are too many to remove without confirmation."""
    stale: list[str] = field(default_factory=list)
    """Mapped entries whose nodes no longer exist."""
    trashed_in_tana: list[str] = field(default_factory=list)
    moved: str = ""
    """The mapping's workspace, if the current one is another."""
    names: dict[str, str] = field(default_factory=dict)
    unlinked: list[str] = field(default_factory=list)
    relinked: list[str] = field(default_factory=list)
    """Entries whose link lookup failed in an earlier sync and succeeded in this one."""
    outdated: list[str] = field(default_factory=list)
    """Entries whose nodes keep an outdated link beside a value that a person typed."""
    edited: dict[str, list[str]] = field(default_factory=dict)
    """Seed id -> mirrored fields that were edited in Tana."""
    restores: bool = True
    refused: list[str] = field(default_factory=list)
    """Messages about unreadable parts of seed.json."""
    last_sync: datetime | None = None
    there: bool = True
