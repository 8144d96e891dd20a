"""Activity around the learnings in Tana: the nodes they are linked to, and when those were last edited.

Tana reports no modification times, only which nodes were edited within a number of days. A node's activity is therefore the start of
the shortest such span, never too recent. A project's activity is that of the nodes below it. Limit: Tana does not report edited field
values; `find_edits` finds changed mirrored fields by comparing them with how Tana first showed them (FR-17).
"""

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

from memory_assets.tana.client import MAX_FOUND, Node, Tag, TanaClient, Workspace, ask_each
from memory_assets.tana.config import integration, resolve_workspace
from memory_assets.tana.errors import TanaError, TanaFaultError
from memory_assets.tana.formats import Outline, plain
from memory_assets.tana.schema import (
    MEETING,
    PERSON,
    PROJECT,
    RELATED_PEOPLE,
    RELATED_PROJECTS,
    SEED_ID,
    Entry,
    Schema,
    known_tags,
)
from memory_assets.tana.state import NAME, Activity, LinkedNode, Mapping, SyncRecord
from memory_assets.tenants import Tenant

SPANS = (1, 3, 7, 14, 30, 60)
"""Spans in days; the freshness threshold is added to them."""
_FOLLOWED = (RELATED_PEOPLE, RELATED_PROJECTS)
_MAX_MEETING_SEARCHES = 100
_LINKS_MAX_AGE = timedelta(hours=1)
_HEALTH_TIMEOUT_SECONDS = 1.0


def read_tana_activity(tenant: Tenant, workspace: str = "") -> str:
    """Read the activity from Tana. If that fails, return the reason and keep the last reading; otherwise return ""."""
    tenant.must_own_sources()
    record = SyncRecord.load(tenant.folder)
    if integration(tenant.settings).enabled is False or not record.sent:
        return ""
    try:
        client = TanaClient.open(tenant.settings)
        client.health(timeout=_HEALTH_TIMEOUT_SECONDS)
        chosen = resolve_workspace(tenant.settings, client.workspaces(), workspace)
        schema = Schema(chosen, known_tags(client.tags(chosen.id)))
        read_activity(tenant, client, schema, record)
    except TanaError as error:
        return str(error)
    return ""


def read_activity(tenant: Tenant, client: TanaClient, schema: Schema, record: SyncRecord, *, links_too: bool = False) -> None:
    """Read when the nodes linked to learnings were last edited, and save it.

    The links themselves are read again after an hour, or if `links_too`. If Tana fails, the last reading stays.
    """
    known = Activity.load(tenant.folder)
    now = datetime.now(UTC)
    if links_too or not known.links_read_at or now - known.links_read_at > _LINKS_MAX_AGE:
        known = Activity(*_read_links(record, client, schema, parent_of(tenant, record, schema.workspace)), links_read_at=now)
    active = _last_edits(client, schema, known.nodes, sorted({*SPANS, tenant.settings.freshness_days}), now)
    updated = {
        node.id: replace(node, active_at=max(filter(None, (active.get(node.id), node.active_at)), default=None))
        for node in known.nodes.values()
    }
    replace(known, nodes=updated, read_at=now).save(tenant.folder)


def parent_of(tenant: Tenant, record: SyncRecord, workspace: Workspace) -> str:
    """Return the parent node of the learnings, or "" before it is known."""
    return tenant.settings.tana_parent or record.parents.get(workspace.id, "")


def _read_links(
    record: SyncRecord, client: TanaClient, schema: Schema, parent: str
) -> tuple[dict[str, LinkedNode], dict[str, list[str]]]:
    """Return the nodes linked to learnings (by syncs or by a person) with the meetings that refer to them, and the links by seed id."""
    links = {seed_id: [node for name in _FOLLOWED for node in sent.links.get(name, ())] for seed_id, sent in record.sent.items()}
    with suppress(TanaFaultError):
        for learning in client.read(parent, depth=2).children if parent else []:
            for seed_id in learning.texts(SEED_ID):
                links[seed_id] = [node for name in _FOLLOWED for node in learning.refs(name)]
    linked = list(dict.fromkeys(node for found in links.values() for node in found))
    outlines = ask_each(partial(client.read, depth=0), linked)
    nodes = {node: LinkedNode(node, outline.name, _kind(outline, schema), None) for node, outline in outlines.items()}
    if meeting := schema.tags.get(MEETING):

        def meetings_with(node: str) -> list[Node]:
            return client.search({"and": [{"hasType": meeting}, {"linksTo": [node]}]}, schema.workspace.id)

        for node, found in ask_each(meetings_with, linked[:_MAX_MEETING_SEARCHES]).items():
            nodes |= {each.id: LinkedNode(each.id, each.name, MEETING, each.created) for each in found}
            for targets in links.values():
                if node in targets:
                    targets += [each.id for each in found]
    return nodes, {seed_id: found for seed_id, found in links.items() if found}


def _kind(outline: Outline, schema: Schema) -> str:
    tags = known_tags([Tag(id="", name=name) for name in outline.tag_names])
    return next((name for name in (PERSON, PROJECT, MEETING) if name in schema.tags and name in tags), "")


def _last_edits(
    client: TanaClient, schema: Schema, nodes: dict[str, LinkedNode], spans: list[int], now: datetime
) -> dict[str, datetime]:
    """Return the latest known edit of each node, without nodes that were not edited within the longest span."""
    if not nodes:
        return {}
    kinds = [{"hasType": schema.tags[name]} for name in (PERSON, PROJECT, MEETING) if name in schema.tags]

    def edited_within(days: int) -> list[Node]:
        return client.search({"and": [{"or": kinds}, {"edited": {"last": days}}]}, schema.workspace.id)

    active: dict[str, datetime] = {}
    for days, listed in ask_each(edited_within, spans).items():
        found = listed
        if len(listed) >= MAX_FOUND:
            names = [{"textContains": node.name} for node in nodes.values() if node.name and node.id not in active]
            found, _ = client.search_any(names, schema.workspace.id, [{"edited": {"last": days}}])
        for node in found:
            if node.id in nodes:
                active.setdefault(node.id, now - timedelta(days=days))
    found_below = [node.id for node in nodes.values() if node.kind == PROJECT and node.id not in active]
    for days in reversed(spans):  # the longest settles most

        def edited_below(node: str, days: int = days) -> list[Node]:
            edited = {"and": [{"ownedBy": {"nodeId": node}}, {"edited": {"last": days}}]}
            return client.search(edited, schema.workspace.id, limit=1)

        found_below = [node for node, edited in ask_each(edited_below, found_below).items() if edited]
        active |= dict.fromkeys(found_below, now - timedelta(days=days))
    return active


def find_edits(record: SyncRecord, entries: dict[str, Entry], nodes: dict[str, Outline]) -> dict[str, list[str]]:
    """Return the mirrored fields that were edited in Tana since they were sent: seed id -> names of fields.

    A field that shows what its entry in seed.json says, as after another machine's sync, is not edited. `nodes` are the nodes, by id, as
    Tana shows them now. How a field is shown for the first time after it was sent is stored in `record`.
    """
    edits: dict[str, list[str]] = {}
    for seed_id, sent in record.sent.items():
        if sent.node not in nodes or not sent.digest:
            continue
        node = nodes[sent.node]
        values = {plain(name): "\n".join(node.texts(name)) for name in node.fields}
        now = {NAME: node.name} | {name: values.get(plain(name), "") for name in sent.fields}
        if sent.shown is None:
            record.sent[seed_id] = replace(sent, shown=now)
            continue
        entry = entries.get(seed_id)
        wanted = dict.fromkeys(now, "") | {NAME: entry.name} | entry.fields if entry else {}
        changed = [name for name, value in now.items() if value not in (sent.shown.get(name, value), wanted.get(name))]
        if changed:
            edits[seed_id] = changed
    return edits


def compare_mapping(tenant: Tenant, client: TanaClient) -> tuple[list[str], list[str]]:
    """Return the seed ids whose mapped node does not exist, and those with more than one node.

    The mapping is compared with the nodes below the learnings' parent node; a mapped node that is not among them is looked up.
    """
    workspace = resolve_workspace(tenant.settings, client.workspaces())
    parent = parent_of(tenant, SyncRecord.load(tenant.folder), workspace)
    there = client.read(parent, depth=2).children if parent else []
    counts = Counter(seed_id for node in there for seed_id in node.texts(SEED_ID))
    known = {node.id for node in there}
    mapped = Mapping.load(tenant.settings.pai_mapping).nodes.items()
    lost = [key for key, node in mapped if node not in known and not client.has(node)]
    return lost, [key for key, count in counts.items() if count > 1]
