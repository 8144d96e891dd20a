"""Incremental copy of a Tana workspace in the catalog: nodes, fields and links.

Tana lists at most a hundred nodes per search, and cannot list a workspace. The first reading therefore walks the tree from the home
node and the Library, and every reading

1. searches for nodes edited since the last one, and reads those again,
2. reads nodes that it found but has not read,
3. reads the nodes again that were read longest ago, because Tana reports neither edited fields nor trashed nodes.

A reading requests a bounded number of nodes, four at once, and saves after every few, so that it can be stopped and resumed. A node
that Tana rejects, fails on or answers too late is reported and skipped until its next turn. Nodes in the trash are not read and leave
the catalog.

For a context, `read_about` reads only the nodes of its topics, so that the context shows Tana's current content. The answer for a single
node does not say whether it is in the trash; a search for its name does.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, Field

from memory_assets.language.words import topic_words
from memory_assets.stores.schema import table
from memory_assets.stores.tombstones import Tombstones
from memory_assets.tana.client import MAX_FOUND, MAX_SEARCH_CHARACTERS, Node, Query, Tag, TanaClient, Workspace, ask_each
from memory_assets.tana.config import resolve_workspace
from memory_assets.tana.errors import TanaAwayError, TanaFaultError, TanaNotFoundError, TanaRefusedError, TanaUncertainError
from memory_assets.tana.formats import INLINE, Outline
from memory_assets.tana.matching import asked_words, word_shares

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from memory_assets.stores.catalog import Catalog
    from memory_assets.tenants import Tenant

MOST_READ = 3_000
_MAX_REREAD = 300
"""Of these, nodes read again because they were read longest ago."""
_NODES_PER_COMMIT = 250
_OVERLAP = timedelta(minutes=2)
"""Overlap with the last reading in searches for edits, because Tana's index lags."""
_AGES = (1, 7, 30, 90)
"""Days back in which a first reading searches for edits, to give its nodes a modification time."""
_MAX_UNANSWERED = 8
"""Nodes in a row without an answer after which a reading stops."""
_MAX_ABOUT = 50
"""Nodes read for a context; each takes two requests, or three if a search has to find whether it is in the trash."""
_ABOUT_SECONDS = 1.5
"""Time after which no further node is requested."""
_NODE_ID = re.compile(r"(?!\d{13})[A-Za-z0-9_-]{1,32}")
"""Possible Tana ids; a memory's id has sixteen digits."""

_NODES = table("tana_nodes").arrow("id", "workspace", "name", "description", "tags", "created", "modified", "children")
_LINKS = table("tana_links").arrow()
_FIELDS = table("tana_fields").arrow()

_SEEN = """
    MERGE INTO tana_nodes t USING (SELECT DISTINCT ON (id) * FROM seen) s ON t.id = s.id
    WHEN MATCHED AND (t.name, t.tags, t.description, t.modified) IS DISTINCT FROM
        (s.name, s.tags, s.description, coalesce(greatest(s.modified, t.modified), t.modified, s.modified))
        OR t.children IS DISTINCT FROM coalesce(s.children, t.children)
        THEN UPDATE SET name = s.name, tags = s.tags, description = s.description, children = coalesce(s.children, t.children),
            modified = coalesce(greatest(s.modified, t.modified), t.modified, s.modified), read_at = NULL
    WHEN NOT MATCHED THEN INSERT (id, workspace, name, description, tags, created, modified, children)
        VALUES (s.id, s.workspace, s.name, s.description, s.tags, s.created, s.modified, s.children)
"""


class Reading(BaseModel):
    """Outcome of one reading of a workspace."""

    workspace: str
    read: int = 0
    gone: int = 0
    nodes: int = Field(default=0, description="Known nodes.")
    waiting: int = Field(default=0, description="Known nodes that were not read yet.")
    skipped: dict[str, str] = Field(default={}, description="Nodes that Tana fails on, with its message.")
    notes: list[str] = Field(default=[], description="Sentences for a person.")


@dataclass(frozen=True, slots=True)
class _Page:
    """A node's content, its fault, or that it is gone."""

    id: str
    children: tuple[Node, ...] = ()
    outline: Outline | None = None
    fault: str = ""
    gone: bool = False


def read_workspace(
    tenant: "Tenant",
    client: TanaClient,
    *,
    most: int = MOST_READ,
    on_progress: Callable[[int, int], None] = lambda _read, _planned: None,
) -> Reading:
    """Update the catalog from the workspace of the settings, at a cost proportional to the changes.

    A reading requests at most `most` nodes and ends after MEMORY_TANA_READ_SECONDS; the next one continues. A text that was erased is
    not stored again; its node is.
    """
    workspace = resolve_workspace(tenant.settings, client.workspaces())
    catalog, erased = tenant.catalog, Tombstones(tenant.state)
    reading = Reading(workspace=workspace.name)
    begun = datetime.now(UTC)
    deadline = time.monotonic() + tenant.settings.tana_read_seconds
    ((since,),) = catalog.fetch("SELECT any_value(since) FROM tana_workspaces WHERE id = $1", [workspace.id])
    edited = _find_edited(client, workspace, since, reading)
    roots = {workspace.home_node_id: workspace.name, workspace.library: "Library"}
    live = [
        *(each for each in edited if not each[0].in_trash),
        *((Node(id=root, name=name, tags=()), None) for root, name in roots.items()),
    ]
    trashed = [node.id for node, _ in edited if node.in_trash]
    placed = {node.id for node, _ in live}
    with catalog.write() as connection:
        connection.register("seen", _table(workspace, live, erased))
        connection.execute(_SEEN)
        connection.execute("UPDATE tana_nodes SET read_at = NULL WHERE list_contains($1, id)", [trashed])

    away: list[TanaAwayError] = []
    unanswered = 0

    def in_time(node: str) -> _Page | None:
        nonlocal unanswered
        if away or time.monotonic() > deadline:
            return None
        if node in trashed:
            return _Page(node, gone=True)
        try:
            page = _read_page(client, node)
            page = page if node in placed else _without_trashed(client, workspace, page)
        except TanaUncertainError as error:
            unanswered += 1
            away.extend([error] if unanswered >= _MAX_UNANSWERED else [])
            return _Page(node, fault=str(error))
        except TanaAwayError as error:
            away.append(error)
            return None
        unanswered = 0
        return page

    stopped = ""
    while not stopped and reading.read < most:
        again = _MAX_REREAD if not reading.read else 0
        wanted = _next_nodes(catalog, workspace, most - reading.read, again)
        if not wanted:
            break
        placed |= _find_placed(catalog, wanted)
        for first in range(0, len(wanted), _NODES_PER_COMMIT):
            pages = list(filter(None, ask_each(in_time, wanted[first : first + _NODES_PER_COMMIT]).values()))
            _save_pages(catalog, workspace, pages, erased, reading)
            on_progress(reading.read, reading.read + len(wanted))
            if away:
                stopped = f": {away[0]}"
                break
            if time.monotonic() > deadline:
                passed = f"MEMORY_TANA_READ_SECONDS ({tenant.settings.tana_read_seconds:g})"
                stopped = f", because {passed} have passed; the next reading goes on."
                break
    with catalog.write() as connection:
        reading.nodes, reading.waiting = connection.execute(
            "SELECT count(*), count(*) FILTER (read_at IS NULL) FROM tana_nodes WHERE workspace = $1", [workspace.id]
        ).fetchone() or (0, 0)
        if stopped:
            reading.notes.append(f"Stopped after {reading.read} nodes{stopped}")
        else:
            connection.execute("DELETE FROM tana_workspaces WHERE id = $1", [workspace.id])
            connection.execute("INSERT INTO tana_workspaces VALUES ($1, $2, $3, $3)", [workspace.id, workspace.name, begun])
    return reading


def read_about(tenant: "Tenant", client: TanaClient, topics: Sequence[str]) -> None:
    """Update the catalog for some topics: the nodes that a topic names or that contain it, then the nodes these link to."""
    deadline = time.monotonic() + _ABOUT_SECONDS
    workspace = resolve_workspace(tenant.settings, client.workspaces())
    catalog, erased = tenant.catalog.interactive, Tombstones(tenant.state)
    found = {node.id: node for topic in topics for node in _search_topic(client, workspace, topic)}
    hits = {node.id: node for node in found.values() if not node.in_trash}
    wanted = list(dict.fromkeys([*(topic for topic in topics if _NODE_ID.fullmatch(topic) and topic not in found), *hits]))
    rows = catalog.fetch("SELECT id FROM tana_nodes WHERE list_contains($1, id)", [[*wanted, *found]])
    known = {row[0] for row in rows} | set(hits)
    live = {*hits, workspace.home_node_id, workspace.library}
    gone = [_Page(node, gone=True) for node in found if node not in hits]
    left = _MAX_ABOUT

    def in_time(node: str) -> _Page | None:
        if time.monotonic() > deadline:
            return None
        page = _read_page(client, node)
        return page if node in live else _without_trashed(client, workspace, page)

    for _step in range(2):
        read = [*gone, *filter(None, ask_each(in_time, wanted[:left]).values())]
        pages = [page for page in read if page.outline or page.id in known]
        if not pages:
            return
        others = [_node(page.id, page.outline) for page in pages if page.outline and page.id not in hits]
        _save_pages(catalog, workspace, pages, erased, Reading(workspace=workspace.name), [*hits.values(), *others])
        live.update(child.id for page in pages for child in page.children if not child.in_trash)
        hits, gone, left, wanted = {}, [], max(0, left - len(pages)), _unread_targets(catalog, [page.id for page in pages])
        known.update(wanted)


def _without_trashed(client: TanaClient, workspace: Workspace, page: _Page) -> _Page:
    """Return a page, as gone if a search for its name lists the node in the trash."""
    is_trashed = page.outline and client.is_trashed(page.id, page.outline.name, workspace.id)
    return _Page(page.id, gone=True) if is_trashed else page


def _search_topic(client: TanaClient, workspace: Workspace, topic: str) -> list[Node]:
    """Return the nodes that contain a topic, else those with at least half of its words, the best first; also nodes in the trash."""
    found = _search(client, workspace, {"textContains": topic[:MAX_SEARCH_CHARACTERS]}) or []
    asked = topic_words(topic)
    if len(asked) < 2 or not all(node.in_trash for node in found):
        return found
    partly = _search(client, workspace, {"or": [{"textContains": word} for word in asked_words(asked)]}) or []
    shares = word_shares(pa.array([f"{node.name} {node.description}".lower() for node in partly], pa.string()), asked)
    return found + [partly[row] for row in np.argsort(-shares, kind="stable") if shares[row]]


def _unread_targets(catalog: "Catalog", nodes: Sequence[str]) -> list[str]:
    """Return link targets of these nodes that are unread since they changed; fields and references come before children."""
    query = """
        SELECT l.target FROM tana_links l LEFT JOIN tana_nodes n ON n.id = l.target
        WHERE list_contains($1, l.source) AND n.read_at IS NULL
        GROUP BY l.target ORDER BY min(l.relation = 'CHILD'), min(l.place), l.target
    """
    return [row[0] for row in catalog.fetch(query, [list(nodes)])]


def _find_edited(
    client: TanaClient, workspace: Workspace, since: datetime | None, reading: Reading
) -> list[tuple[Node, datetime]]:
    """Return the nodes edited since a reading, or in the last 90 days, with the approximate time; also nodes in the trash."""
    now = datetime.now(UTC)
    found: dict[str, tuple[Node, datetime]] = {}
    if since is None:
        for days in _AGES:
            for node in _search(client, workspace, {"edited": {"last": days}}) or ():
                found.setdefault(node.id, (node, now - timedelta(days=days - 1)))
        return list(found.values())
    edited = {"edited": {"since": int((since - _OVERLAP).timestamp())}}
    nodes = _search(client, workspace, edited)
    if nodes is not None and len(nodes) < MAX_FOUND:
        return [(node, now) for node in nodes]
    answers = [nodes, *(_search(client, workspace, {"and": [edited, {"hasType": tag.id}]}) for tag in client.tags(workspace.id))]
    if any(answer is None or len(answer) >= MAX_FOUND for answer in answers):
        reading.notes.append("Tana did not list everything that was edited; the rest is found as nodes are read again.")
    return [(node, now) for answer in answers for node in answer or ()]


def _search(client: TanaClient, workspace: Workspace, query: Query) -> list[Node] | None:
    """Return the nodes that match, also those in the trash, without the schema and the trash itself; None if Tana fails on one."""
    try:
        found = client.search(query, workspace.id, trashed=True)
    except TanaFaultError:
        return None
    return [node for node in found if node.id not in {f"{workspace.id}_SCHEMA", f"{workspace.id}_TRASH"}]


def _table(workspace: Workspace, nodes: Iterable[tuple[Node, datetime | None]], erased: Tombstones) -> pa.Table:
    rows = [
        {
            "id": node.id,
            "workspace": workspace.id,
            "name": erased.replaced(" ".join(INLINE.sub(r"\2", node.name).split())),
            "description": erased.replaced(node.description),
            "tags": [tag.name for tag in node.tags],
            "created": node.created,
            "modified": modified,
            "children": node.child_count,
        }
        for node, modified in nodes
    ]
    return pa.Table.from_pylist(rows, schema=_NODES)


def _next_nodes(catalog: "Catalog", workspace: Workspace, most: int, again: int) -> list[str]:
    """Return the nodes to read: those unread since they changed, then some that were read longest ago."""
    query = """
        (SELECT id FROM tana_nodes WHERE workspace = $1 AND read_at IS NULL ORDER BY modified DESC NULLS LAST, id LIMIT $2)
        UNION ALL (SELECT id FROM tana_nodes WHERE workspace = $1 AND read_at IS NOT NULL ORDER BY read_at, id LIMIT $3)
    """
    return [row[0] for row in catalog.fetch(query, [workspace.id, most, again])[:most]]


def _find_placed(catalog: "Catalog", nodes: Sequence[str]) -> set[str]:
    """Return those of the nodes that are children of a node that was read, which shows when they go to the trash."""
    query = "SELECT DISTINCT target FROM tana_links WHERE relation = 'CHILD' AND target IN (SELECT unnest($1))"
    return {row[0] for row in catalog.fetch(query, [list(nodes)])}


def _read_page(client: TanaClient, node: str) -> _Page:
    try:
        outline = client.read(node)
        children = tuple(client.all_children(node)) if outline.children else ()
    except TanaNotFoundError:
        return _Page(node, gone=True)
    except (TanaFaultError, TanaRefusedError) as error:
        return _Page(node, fault=str(error))
    listed = {child.id for child in children}
    # A child that Tana fails on is missing from the list of children.
    unlisted = (_node(child.id, child) for child in outline.children if child.id and child.id not in listed)
    return _Page(node, (*children, *unlisted), outline)


def _node(id_: str, outline: Outline) -> Node:
    tags = tuple(Tag(id="", name=name) for name in outline.tag_names)
    return Node(id=id_, name=outline.name, tags=tags, description=outline.description)


def _save_pages(
    catalog: "Catalog",
    workspace: Workspace,
    pages: Sequence[_Page],
    erased: Tombstones,
    reading: Reading,
    others: Sequence[Node] = (),
) -> None:
    """Write pages, and `others` as found by a search, to the catalog in one transaction."""
    whole = [page for page in pages if page.outline is not None]
    children = [child for page in whole for child in page.children]
    trashed = [child.id for child in children if child.in_trash]
    links = [row for page in whole for row in _links(page)]
    fields = [
        {"node": page.id, "name": name, "place": place, "value": erased.replaced(value.text)}
        for page in whole
        if page.outline
        for name, values in page.outline.fields.items()
        for place, value in enumerate(values)
    ]
    now = datetime.now(UTC)
    with catalog.write() as connection:
        read = pa.table({"id": [page.id for page in pages], "fault": [page.fault or None for page in pages]})
        connection.register("read", read)
        connection.register(
            "gone", pa.table({"id": pa.array([*(page.id for page in pages if page.gone), *trashed], pa.string())})
        )
        connection.execute(
            """
            CREATE TEMP TABLE orphaned AS
                SELECT target AS id FROM tana_links WHERE relation = 'CHILD' AND source IN (SELECT id FROM read WHERE fault IS NULL);
            DELETE FROM tana_links WHERE source IN (SELECT id FROM read WHERE fault IS NULL);
            DELETE FROM tana_fields WHERE node IN (SELECT id FROM read WHERE fault IS NULL);
            """
        )
        seen = ((node, None) for node in (*others, *children) if not node.in_trash)
        connection.register("seen", _table(workspace, seen, erased))
        connection.execute(_SEEN)
        connection.register("links", pa.Table.from_pylist(links, schema=_LINKS))
        connection.register("fields", pa.Table.from_pylist(fields, schema=_FIELDS))
        connection.execute("INSERT INTO tana_links BY NAME FROM links; INSERT INTO tana_fields BY NAME FROM fields")
        connection.execute(
            "UPDATE tana_nodes SET read_at = $now, skipped = read.fault FROM read WHERE read.id = tana_nodes.id", {"now": now}
        )
        reading.gone += _delete_gone(connection, workspace)
    reading.read += len(pages)
    reading.skipped |= {page.id: page.fault for page in pages if page.fault}


def _links(page: _Page) -> Iterator[dict[str, object]]:
    """Yield links to a node's children, to the targets of its fields, and to the nodes that its name and its children's names refer to."""
    links = [("CHILD", "", child.id) for child in page.children if not child.in_trash]
    if page.outline:
        links += [("FIELD", name, value.ref) for name, values in page.outline.fields.items() for value in values if value.ref]
        links += [("REFERENCE", "", target) for target in page.outline.references]
    links += [("REFERENCE", "", found[1]) for child in page.children for found in INLINE.finditer(child.name)]
    for place, (relation, label, target) in enumerate(links):
        yield {"source": page.id, "target": target, "relation": relation, "label": label, "place": place}


def _delete_gone(connection: "DuckDBPyConnection", workspace: Workspace) -> int:
    """Delete nodes that are gone or in the trash, and their descendants without another parent; return how many."""
    roots = [workspace.home_node_id, workspace.library]
    (before,) = connection.execute("SELECT count(*) FROM tana_nodes").fetchone() or (0,)
    connection.execute(
        "INSERT INTO orphaned FROM gone; DELETE FROM tana_links WHERE target IN (FROM gone) OR source IN (FROM gone)"
    )
    while True:
        connection.execute(
            """
            CREATE OR REPLACE TEMP TABLE orphans AS
                SELECT id FROM tana_nodes WHERE id IN (FROM orphaned) AND workspace = $workspace AND NOT list_contains($roots, id)
                    AND id NOT IN (SELECT target FROM tana_links WHERE relation = 'CHILD')
            """,
            {"workspace": workspace.id, "roots": roots},
        )
        if not connection.execute("SELECT 1 FROM orphans LIMIT 1").fetchone():
            break
        connection.execute(
            """
            INSERT INTO orphaned SELECT target FROM tana_links WHERE relation = 'CHILD' AND source IN (FROM orphans);
            DELETE FROM tana_nodes WHERE id IN (FROM orphans);
            DELETE FROM tana_fields WHERE node IN (FROM orphans);
            DELETE FROM tana_links WHERE source IN (FROM orphans) OR target IN (FROM orphans);
            """
        )
    (after,) = connection.execute("SELECT count(*) FROM tana_nodes").fetchone() or (0,)
    connection.execute("DROP TABLE orphaned; DROP TABLE orphans")
    return before - after
