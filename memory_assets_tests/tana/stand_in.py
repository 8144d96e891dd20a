"""A Tana to test and to show against: a real HTTP server on loopback that answers to contract.json, with the traps seen live.

    python -m memory_assets_tests.tana.stand_in [--port 8262] [--nodes 50000] [--latency 0.02] [--token demo]

Every request is held to the contract; what does not fulfil it is refused with 400 and kept in `violations`. Counts of nodes and writes
are the server's own. `contract.json` has the types of Tana's OpenAPI document, without its texts.
"""

import argparse
import json
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from jsonschema import Draft202012Validator

WORKSPACE = "ws_main"
_LABELS = {
    "plain": "Content",
    "number": "Number",
    "date": "Date",
    "url": "URL",
    "email": "E-mail",
    "checkbox": "Checkbox",
    "user": "Tana User",
    "instance": "Instance",
    "options": "Options",
}
_DAY_S = 86_400


class RefusedError(Exception):
    """An answer that is not 200."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class Value:
    """What stands in a field: a text, or a reference to a node or an option."""

    text: str = ""
    ref: str = ""


@dataclass
class Tuple:
    """A field of a node with its values; a node may have two of one attribute."""

    attribute: str
    values: list[Value] = field(default_factory=list)


@dataclass
class Node:
    """A node of the workspace."""

    id: str
    name: str
    parent: str
    created: float
    edited: float
    description: str = ""
    tags: list[str] = field(default_factory=list)
    children: list[str] = field(default_factory=list)
    tuples: list[Tuple] = field(default_factory=list)
    done: bool | None = None
    in_trash: bool = False
    doc_type: str = "node"
    workspace: str = WORKSPACE
    indexed_at: float = 0.0
    indexed_name: str = ""


@dataclass
class FieldDefinition:
    """A field of a supertag."""

    id: str
    name: str
    type: str
    multiple: bool = False
    source_tag: str = ""
    options: dict[str, str] = field(default_factory=dict)


@dataclass
class TagDefinition:
    """A supertag."""

    id: str
    name: str
    workspace: str
    fields: list[FieldDefinition] = field(default_factory=list)


@dataclass
class Traps:
    """What goes wrong, each as it was seen on a live Tana."""

    index_lag: float = 0.0
    """Seconds until a search sees what was created or renamed."""
    trashed_in_results: bool = True
    second_tuple: bool = True
    """Importing a field that a node has makes a second one."""
    poison: set[str] = field(default_factory=set)
    """Nodes that no page may hold: 500."""
    latency: float = 0.0
    """Seconds before each answer."""
    statuses: list[int] = field(default_factory=list)
    """Answers given instead of the next ones, in order: 401, 429, 503, ..."""
    retry_after: str = "0"
    lose_answers: int = 0
    """So many of the next writes are done, and their connection is cut instead of answered."""


class StandIn:
    """The workspace and the server over it; `with StandIn() as tana: tana.url`."""

    def __init__(self, *, token: str = "secret", port: int = 0, clock: Callable[[], float] = time.time) -> None:
        self.token = token
        self.traps = Traps()
        self.clock = clock
        self.nodes: dict[str, Node] = {}
        self.tags: dict[str, TagDefinition] = {}
        self.by_tag: defaultdict[str, set[str]] = defaultdict(set)
        self.workspaces = {WORKSPACE: "main"}
        self.focused = WORKSPACE
        self.writes = 0
        self.requests: list[str] = []
        self.violations: list[str] = []
        self.on_write: Callable[[str], None] = lambda _: None
        """Called after each write is done and before it is answered."""
        self._input_at = 0.0
        self._loose: dict[str, FieldDefinition] = {}
        self._count = 0
        self._lock = threading.RLock()
        self._port = port
        self._server: _Server | None = None
        self.add_workspace(WORKSPACE, "main")

    def __enter__(self) -> "StandIn":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Listen; at the same port as before."""
        stand_in = self

        class Handler(_Handler):
            tana = stand_in

        self._server = _Server(("127.0.0.1", self._port), Handler)
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def stop(self) -> None:
        """Go away as a closed desktop app does."""
        if self._server:
            self._server.shutdown()
            self._server.server_close()
            self._server.drop()
            self._server = None

    def reset(self) -> None:
        """Lose everything in the workspace, as a user who begins anew."""
        with self._lock:
            self.nodes.clear()
            self.tags.clear()
            self.by_tag.clear()
            for workspace, name in self.workspaces.items():
                self.add_workspace(workspace, name)

    # What a test puts there and counts.

    def add_workspace(self, workspace: str, name: str) -> None:
        self.workspaces[workspace] = name
        for suffix in ("HOME", "STASH", "SCHEMA", "CAPTURE_INBOX", "TRASH"):
            node = self.add_node(suffix.title(), parent="", workspace=workspace, node_id=f"{workspace}_{suffix}")
            node.indexed_at = 0.0

    def add_tag(self, name: str, workspace: str = WORKSPACE) -> str:
        tag = TagDefinition(self._id("tag"), name, workspace)
        self.tags[tag.id] = tag
        self.add_node(name, parent=f"{workspace}_SCHEMA", workspace=workspace, node_id=tag.id).doc_type = "tagDef"
        return tag.id

    def add_node(
        self,
        name: str,
        *tags: str,
        parent: str | None = None,
        workspace: str = WORKSPACE,
        node_id: str = "",
        edited_days_ago: float = 0.0,
    ) -> Node:
        now = self.clock()
        node = Node(
            id=node_id or self._id("n"),
            name=name,
            parent=f"{workspace}_STASH" if parent is None else parent,
            created=now - edited_days_ago * _DAY_S,
            edited=now - edited_days_ago * _DAY_S,
            workspace=workspace,
            indexed_at=now + self.traps.index_lag,
        )
        self.nodes[node.id] = node
        if node.parent:
            self.nodes[node.parent].children.append(node.id)
        for tag in tags:
            self._tag(node, tag)
        return node

    def populate(self, count: int, kinds: tuple[str, ...] = ("person", "project", "meeting", "task")) -> None:
        """So many nodes of several supertags, ten below each day's page, each with a reference to another."""
        tags = [self.tag_named(kind) or self.add_tag(kind) for kind in kinds]
        related = {tag: self._field(tag, "Related") for tag in tags}
        parent = ""
        made: list[str] = []
        for number in range(count):
            if number % 10 == 0:
                parent = self.add_node(f"Day {number // 10}").id
            tag = tags[number % len(tags)]
            node = self.add_node(f"{kinds[number % len(kinds)]} {number}", tag, parent=parent, edited_days_ago=number % 401)
            if made:
                node.tuples.append(Tuple(related[tag], [Value(ref=made[(number * 7919) % len(made)])]))
            made.append(node.id)

    def tag_named(self, name: str) -> str:
        return next((tag.id for tag in self.tags.values() if tag.name == name), "")

    def live(self, tag: str) -> list[Node]:
        """The nodes with a supertag of this name that are not in the trash."""
        return [node for node in map(self.nodes.__getitem__, sorted(self.by_tag[self.tag_named(tag)])) if not node.in_trash]

    def value(self, node: Node, name: str) -> list[str]:
        """What a field of a node holds: texts, names of options and nodes."""
        found = []
        for held in node.tuples:
            if self._field_name(held.attribute) == name:
                found += [self._shown(value) for value in held.values]
        return found

    def seed_ids(self, node: Node) -> list[str]:
        """The entries of seed.json that a node stands for."""
        return self.value(node, "Seed Entry ID")

    def by_seed_id(self, tag: str, seed_id: str) -> list[Node]:
        return [node for node in self.live(tag) if seed_id in self.seed_ids(node)]

    # The calls.

    def health(self) -> dict[str, Any]:
        return {"status": "ok", "timestamp": _iso(self.clock()), "nodeSpaceReady": True}

    def list_workspaces(self) -> list[dict[str, Any]]:
        return [{"id": key, "name": name, "homeNodeId": f"{key}_HOME"} for key, name in self.workspaces.items()]

    def search(self, query: dict[str, Any], workspaces: list[str] | None, limit: float) -> list[dict[str, Any]]:
        now = self.clock()
        within = set(workspaces or [self.focused])
        found: list[Node] = []
        for node in self._candidates(query):
            if (
                node.indexed_at <= now
                and node.workspace in within
                and (self.traps.trashed_in_results or not node.in_trash)
                and self._holds(query, node, now)
            ):
                found.append(node)
                if len(found) == int(limit):
                    break
        self._fail_on_poison(found)
        return [self._result(node) for node in found]

    def read(self, node_id: str, depth: float) -> dict[str, Any]:
        node = self._node(node_id)
        self._fail_on_poison([node])
        return {
            "markdown": "\n".join(self._markdown(node, int(depth), 0)),
            "name": node.name,
            "description": node.description or None,
        }

    def get_children(self, node_id: str, limit: float, offset: float) -> dict[str, Any]:
        children = [self.nodes[child] for child in self._node(node_id).children]
        page = children[int(offset) : int(offset + limit)]
        self._fail_on_poison(page)
        listed = [
            {
                key: value
                for key, value in (self._result(child) | {"childCount": len(child.children)}).items()
                if key not in {"breadcrumb", "workspaceId"}
            }
            for child in page
        ]
        return {"children": listed, "total": len(children), "hasMore": int(offset + limit) < len(children)}

    def import_paste(self, parent: str, content: str) -> dict[str, Any]:
        owner = self._node(parent)
        made: list[Node] = []
        stack: list[tuple[int, Node | Tuple]] = [(-1, owner)]
        for line in content.splitlines():
            if not line.strip():
                continue
            indent = len(line) - len(line.lstrip(" "))
            text = line.strip().removeprefix("- ")
            while stack[-1][0] >= indent:
                stack.pop()
            above = stack[-1][1]
            if isinstance(above, Tuple):
                above.values.append(self._pasted_value(text))
                continue
            named = re.match(r"(.+?)::(?:\s+|$)(.*)", text)
            if named and above is not owner:
                stack.append((indent, self._pasted_field(above, named[1], named[2])))
                continue
            node = self._pasted_node(text, above)
            made.append(node)
            stack.append((indent, node))
        if not made:
            raise RefusedError(400, "nothing to import")
        listed = [{"id": node.id, "name": node.name} for node in reversed(made)]
        return {"parentNodeId": parent, "targetNodeId": parent, "createdNodes": listed, "message": f"{len(made)} nodes"}

    def change_tags(self, node_id: str, action: str, tag_ids: list[str]) -> dict[str, Any]:
        node = self._node(node_id)
        results = []
        for tag in tag_ids:
            known = self.tags.get(tag)
            if known and action == "add":
                self._tag(node, tag)
            elif known and tag in node.tags:
                node.tags.remove(tag)
                self.by_tag[tag].discard(node.id)
            results.append(
                {
                    "tagId": tag,
                    "tagName": known.name if known else "",
                    "success": bool(known),
                    "message": "" if known else "no tag",
                }
            )
        return {"nodeId": node.id, "nodeName": node.name, "action": action, "results": results}

    def set_option(self, node_id: str, attribute: str, option: str, mode: str) -> dict[str, Any]:
        node = self._node(node_id)
        definition = self._definition(attribute)
        if definition.type == "options" and option not in definition.options:
            raise RefusedError(400, f"{option} is no option of {definition.name}")
        if definition.type not in {"options", "instance"}:
            raise RefusedError(400, f"{definition.name} has no options")
        if definition.type == "instance":
            self._node(option)
        self._put(node, attribute, Value(ref=option), mode)
        name = definition.options.get(option) or self.nodes[option].name
        return {"nodeId": node.id, "attributeId": attribute, "optionId": option, "optionName": name, "message": "set"}

    def set_content(self, node_id: str, attribute: str, content: str | None, mode: str) -> dict[str, Any]:
        node = self._node(node_id)
        if self._definition(attribute).type in {"options", "instance"} and content is not None:
            raise RefusedError(400, f"{self._field_name(attribute)} takes options")
        self._put(node, attribute, None if content is None else Value(text=content), mode)
        return {"nodeId": node.id, "attributeId": attribute, "content": content or "", "message": "set"}

    def update(self, node_id: str, name: str | None, description: str | None) -> dict[str, Any]:
        node = self._node(node_id)
        if name is not None:
            if "\n" in name:
                raise RefusedError(400, "a name has no line breaks")
            node.name = name
        if description is not None:
            node.description = description
        self._edited(node)
        return {"nodeId": node.id, "name": node.name, "description": node.description, "message": "updated"}

    def set_done(self, node_id: str, done: bool) -> dict[str, Any]:
        node = self._node(node_id)
        node.done = done
        self._edited(node)
        return {"nodeId": node.id, "nodeName": node.name, "done": done, "message": "set"}

    def trash(self, node_id: str) -> dict[str, Any]:
        node = self._node(node_id)
        trash = f"{node.workspace}_TRASH"
        if node.in_trash:
            raise RefusedError(400, f"{node_id} is in the trash")
        self.nodes[node.parent].children.remove(node.id)
        self.nodes[trash].children.append(node.id)
        node.parent = trash
        for below in self._subtree(node):
            below.in_trash = True
        return {"nodeId": node.id, "nodeName": node.name, "trashNodeId": trash, "message": "trashed"}

    def list_tags(self, workspace: str, limit: float) -> list[dict[str, Any]]:
        self._known_workspace(workspace)
        tags = [tag for tag in self.tags.values() if tag.workspace == workspace]
        return [{"id": tag.id, "name": tag.name} for tag in tags[: int(limit)]]

    def create_tag(self, workspace: str, name: str, extends: list[str]) -> dict[str, Any]:
        self._known_workspace(workspace)
        return {
            "tagId": self.add_tag(name, workspace),
            "tagName": name,
            "extendsTagNames": [self._tag_known(tag).name for tag in extends],
            "message": "created",
        }

    def tag_schema(self, tag_id: str) -> dict[str, Any]:
        tag = self._tag_known(tag_id)
        lines = [f"# Tag definition: {tag.name} (id:{tag.id})", "", "## Template Fields"]
        for definition in tag.fields:
            source = self.tags.get(definition.source_tag)
            of = f" of #{source.name} (id:{source.id})" if source else ""
            lines.append(f"- **{definition.name}** (id:{definition.id}):: {_LABELS[definition.type]}{of}")
            lines += [f"  - {name} (id:{option})" for option, name in definition.options.items()]
        return {"markdown": "\n".join(lines)}

    def add_field(self, tag_id: str, body: dict[str, Any]) -> dict[str, Any]:
        tag = self._tag_known(tag_id)
        kind = body["dataType"]
        if kind == "instance" and not body.get("sourceTagId"):
            raise RefusedError(400, "an instance field needs sourceTagId")
        if kind == "options" and not body.get("options"):
            raise RefusedError(400, "an options field needs an option")
        if body.get("sourceTagId"):
            self._tag_known(body["sourceTagId"])
        definition = FieldDefinition(
            self._id("f"), body["name"], kind, bool(body.get("isMultiValue")), body.get("sourceTagId", "")
        )
        for option in body.get("options", ()):
            definition.options[self._id("o")] = option
        tag.fields.append(definition)
        return {
            "tagId": tag.id,
            "tagName": tag.name,
            "fieldId": definition.id,
            "fieldName": definition.name,
            "dataType": kind,
            "message": "added",
        }

    # How they are done.

    def _id(self, kind: str) -> str:
        self._count += 1
        return f"{kind}{self._count:08d}"

    def _node(self, node_id: str) -> Node:
        if node_id not in self.nodes:
            raise RefusedError(404, f"no node {node_id}")
        return self.nodes[node_id]

    def _tag_known(self, tag: str) -> TagDefinition:
        if tag not in self.tags:
            raise RefusedError(404, f"no tag {tag}")
        return self.tags[tag]

    def _known_workspace(self, workspace: str) -> None:
        if workspace not in self.workspaces:
            raise RefusedError(404, f"no workspace {workspace}")

    def _definition(self, attribute: str) -> FieldDefinition:
        for tag in self.tags.values():
            for definition in tag.fields:
                if definition.id == attribute:
                    return definition
        raise RefusedError(404, f"no field {attribute}")

    def _field(self, tag: str, name: str) -> str:
        definition = FieldDefinition(self._id("f"), name, "plain", multiple=True)
        self.tags[tag].fields.append(definition)
        return definition.id

    def _field_name(self, attribute: str) -> str:
        return self._definition(attribute).name

    def _shown(self, value: Value) -> str:
        if not value.ref:
            return value.text
        for tag in self.tags.values():
            for definition in tag.fields:
                if value.ref in definition.options:
                    return definition.options[value.ref]
        return self.nodes[value.ref].name

    def _tag(self, node: Node, tag: str) -> None:
        self._tag_known(tag)
        if tag not in node.tags:
            node.tags.append(tag)
            self.by_tag[tag].add(node.id)

    def _edited(self, node: Node) -> None:
        node.edited = self.clock()
        node.indexed_at = node.edited + self.traps.index_lag

    def _put(self, node: Node, attribute: str, value: Value | None, mode: str) -> None:
        """Field values alone do not count as an edit."""
        held = next((held for held in node.tuples if held.attribute == attribute), None)
        if held is None:
            held = Tuple(attribute)
            node.tuples.append(held)
        if mode != "append":
            held.values.clear()
        if value is not None:
            held.values.append(value)

    def _subtree(self, node: Node) -> Iterator[Node]:
        yield node
        for child in node.children:
            yield from self._subtree(self.nodes[child])

    def _fail_on_poison(self, nodes: list[Node]) -> None:
        if self.traps.poison.intersection(node.id for node in nodes):
            raise RefusedError(500, "Internal server error")

    def _pasted_node(self, text: str, above: Node) -> Node:
        tags = re.findall(r"#\[\[\^([\w-]+)\]\]", text)
        text = re.sub(r"\s*#\[\[\^[\w-]+\]\]", "", text)
        for name in re.findall(r"(?:^|\s)#(\w+)", text):
            tags.append(self.tag_named(name) or self.add_tag(name))
        text = re.sub(r"(?:^|\s)#\w+", "", text)
        node = self.add_node(re.sub(r"\*\*|__|\^\^", "", text).strip(), parent=above.id, workspace=above.workspace)
        for tag in tags:
            self._tag(node, tag)
        return node

    def _pasted_field(self, node: Node, name: str, rest: str) -> Tuple:
        attribute = name.strip()
        known = [definition for tag in self.tags.values() for definition in tag.fields]
        found = next((each for each in known if attribute in (each.id, each.name)), None)
        if found is None:
            raise RefusedError(400, f"no field {attribute}")
        held = next((held for held in node.tuples if held.attribute == found.id), None)
        if held is None or self.traps.second_tuple:
            held = Tuple(found.id)
            node.tuples.append(held)
        if rest.strip():
            held.values.append(self._pasted_value(rest.strip()))
        return held

    def _pasted_value(self, text: str) -> Value:
        if ref := re.fullmatch(r"\[\[\^([\w-]+)\]\]", text):
            return Value(ref=ref[1])
        if date := re.fullmatch(r"\[\[date:([^\]]+)\]\]", text):
            return Value(text=date[1])
        if "[[" in text:
            made = self.add_node(text.strip("[]"))
            return Value(ref=made.id)
        return Value(text=text)

    def _candidates(self, query: dict[str, Any]) -> Iterator[Node]:
        """The nodes with the supertag that every hit must have, else all."""
        for part in (query, *query.get("and", ())):
            if "hasType" in part:
                tag = part["hasType"]["typeId"] if isinstance(part["hasType"], dict) else part["hasType"]
                yield from [self.nodes[node] for node in sorted(self.by_tag.get(tag, ()))]
                return
        yield from list(self.nodes.values())

    def _holds(self, query: dict[str, Any], node: Node, now: float) -> bool:
        return all(self._condition(name, wanted, node, now) for name, wanted in query.items())

    def _condition(self, name: str, wanted: Any, node: Node, now: float) -> bool:
        match name:
            case "and":
                return all(self._holds(part, node, now) for part in wanted)
            case "or":
                return any(self._holds(part, node, now) for part in wanted)
            case "not":
                return not self._holds(wanted, node, now)
            case "hasType":
                return (wanted["typeId"] if isinstance(wanted, dict) else wanted) in node.tags
            case "textContains":
                return wanted.casefold() in node.name.casefold()
            case "textMatches":
                pattern, _, flags = wanted.removeprefix("/").rpartition("/")
                return re.search(pattern, node.name, re.IGNORECASE if "i" in flags else 0) is not None
            case "field":
                return self._field_holds(wanted, node)
            case "childOf":
                return node.parent in wanted["nodeIds"] or bool(set(self._owners(node)) & set(wanted["nodeIds"]))
            case "ownedBy":
                return wanted["nodeId"] in (node.id, *self._owners(node))
            case "linksTo":
                return any(value.ref in wanted for held in node.tuples for value in held.values)
            case "created":
                return node.created >= now - wanted["last"] * _DAY_S
            case "edited":
                since = wanted.get("since", 0)
                return node.edited >= (now - wanted["last"] * _DAY_S if "last" in wanted else since)
            case "done":
                return bool(node.done)
            case "inWorkspace":
                return node.workspace == wanted
        raise RefusedError(400, f"the stand-in does not search by {name}")

    def _field_holds(self, wanted: dict[str, Any], node: Node) -> bool:
        values = [value for held in node.tuples if held.attribute == wanted["fieldId"] for value in held.values]
        if "nodeId" in wanted:
            return any(value.ref == wanted["nodeId"] for value in values)
        if "stringValue" in wanted:
            return any(self._shown(value).casefold() == str(wanted["stringValue"]).casefold() for value in values)
        if wanted.get("state") in {"set", "defined"}:
            return bool(values)
        return not values

    def _owners(self, node: Node) -> Iterator[str]:
        while node.parent:
            yield node.parent
            node = self.nodes[node.parent]

    def _result(self, node: Node) -> dict[str, Any]:
        said = {
            "id": node.id,
            "name": node.name,
            "breadcrumb": [self.nodes[owner].name for owner in self._owners(node)][::-1],
            "tags": [{"id": tag, "name": self.tags[tag].name} for tag in node.tags],
            "tagIds": list(node.tags),
            "workspaceId": node.workspace,
            "docType": node.doc_type,
            "created": _iso(node.created),
            "inTrash": node.in_trash,
        }
        return said | ({"description": node.description} if node.description else {})

    def _markdown(self, node: Node, depth: int, level: int) -> Iterator[str]:
        margin = "  " * level
        box = "" if node.done is None else "[x] " if node.done else "[ ] "
        tags = "".join(f" #{self.tags[tag].name}" for tag in node.tags)
        yield f"{margin}- {box}{node.name}{tags} <!-- node-id: {node.id} -->"
        if depth == 0:
            return
        for held in node.tuples:
            values = [self._markdown_value(value) for value in held.values]
            lead = f"{margin}  - **{self._field_name(held.attribute)}**:"
            if len(values) == 1:
                yield f"{lead} {values[0]}"
            else:
                yield lead
                yield from (f"{margin}    - {value}" for value in values)
        for child in node.children:
            yield from self._markdown(self.nodes[child], depth - 1, level + 1)

    def _markdown_value(self, value: Value) -> str:
        if not value.ref:
            return f"{value.text} <!-- node-id: v{abs(hash(value.text)) % 10**8:08d} -->"
        tags = "".join(f" #{self.tags[tag].name}" for tag in self.nodes[value.ref].tags) if value.ref in self.nodes else ""
        return f"[{self._shown(value)}{tags}](tana:{value.ref})"

    # How a request comes in.

    def answer(self, method: str, target: str, authorization: str, body: bytes) -> tuple[int, Any]:
        """Status and JSON of one request."""
        parts = urlsplit(target)
        if parts.path == "/addToNodeV2":
            return self._input(authorization, body)
        operation, names, spec = _route(method, parts.path)
        with self._lock:
            self.requests.append(f"{method} {target}")
            if operation != "health.ping":
                if self.traps.statuses and (status := self.traps.statuses.pop(0)) != 200:
                    return status, {"message": f"told to answer {status}"}
                if authorization != f"Bearer {self.token}":
                    return 401, {"message": "Unauthorized"}
            try:
                given = _checked(spec, parts.query, body)
                said = self._call(operation, names, given)
            except RefusedError as refused:
                if refused.status == 400:
                    self.violations.append(f"{method} {target}: {refused}")
                return refused.status, {"message": str(refused)}
            if method == "POST":
                self.writes += 1
        if method == "POST":
            self.on_write(operation)
        return 200, said

    def _input(self, authorization: str, body: bytes) -> tuple[int, Any]:
        """The cloud's Input API: a call a second, 100 nodes, 5,000 characters; it only creates."""
        with self._lock:
            self.requests.append("POST /addToNodeV2")
            if authorization != f"Bearer {self.token}":
                return 401, {"message": "Unauthorized"}
            now = time.monotonic()
            if now - self._input_at < 1:
                return 429, {"message": "Too many requests"}
            self._input_at = now
            given = json.loads(body)
            nodes = given["nodes"]
            if (
                len(json.dumps(nodes)) > 5_000
                or sum(1 for _ in _input_nodes(nodes)) > 100
                or any("\n" in name for name in _names(nodes))
            ):
                self.violations.append("POST /addToNodeV2")
                return 400, {"message": "Invalid payload"}
            self.writes += 1
            made = [self._input_made(node, given.get("targetNodeId", "INBOX")) for node in nodes]
        return 200, {
            "children": [
                {"nodeId": made_id, "name": node["name"], "type": "node"} for made_id, node in zip(made, nodes, strict=True)
            ]
        }

    def _input_made(self, said: dict[str, Any], target: str) -> str:
        kinds = [tag["id"] for tag in said.get("supertags", ())]
        if kinds == ["SYS_T01"]:
            return self.add_tag(said["name"])
        if kinds == ["SYS_T02"]:
            loose = FieldDefinition(self._id("f"), said["name"], "plain")
            self._loose[loose.id] = loose
            return loose.id
        parent = {"INBOX": f"{WORKSPACE}_CAPTURE_INBOX", "SCHEMA": f"{WORKSPACE}_SCHEMA"}.get(target, target)
        node = self.add_node(said["name"], *kinds, parent=parent)
        for child in said.get("children", ()):
            definition = self._loose[child["attributeId"]]
            if definition not in self.tags[kinds[0]].fields:
                self.tags[kinds[0]].fields.append(definition)
            node.tuples.append(Tuple(definition.id, [Value(text=value["name"]) for value in child["children"]]))
        return node.id

    def _call(self, operation: str, names: dict[str, str], given: dict[str, Any]) -> Any:
        node = names.get("nodeId", "")
        match operation:
            case "health.ping":
                return self.health()
            case "workspaces.list":
                return self.list_workspaces()
            case "nodes.search":
                return self.search(given["query"], given.get("workspaceIds"), given.get("limit", 50))
            case "nodes.read":
                return self.read(node, given.get("maxDepth", 1))
            case "nodes.getChildren":
                return self.get_children(node, given.get("limit", 100), given.get("offset", 0))
            case "nodes.importTanaPaste":
                return self.import_paste(names["parentNodeId"], given["content"])
            case "nodes.updateTags":
                return self.change_tags(node, given["action"], given["tagIds"])
            case "nodes.setFieldOption":
                return self.set_option(node, names["attributeId"], given["optionId"], given.get("mode", "replace"))
            case "nodes.setFieldContent":
                return self.set_content(node, names["attributeId"], given["content"], given.get("mode", "replace"))
            case "nodes.update":
                return self.update(node, given.get("name"), given.get("description"))
            case "nodes.setDone":
                return self.set_done(node, given["done"])
            case "nodes.trash":
                return self.trash(node)
            case "tags.list":
                return self.list_tags(names["workspaceId"], given.get("limit", 50))
            case "tags.create":
                return self.create_tag(names["workspaceId"], given["name"], given.get("extendsTagIds", []))
            case "tags.getSchema":
                return self.tag_schema(names["tagId"])
            case "tags.addField":
                return self.add_field(names["tagId"], given)
        raise RefusedError(501, f"the stand-in does not do {operation}")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, *given: Any) -> None:
        self._open: set[Any] = set()
        super().__init__(*given)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def drop(self) -> None:
        """Cut the connections that are kept open."""
        for request in list(self._open):
            try:
                request.shutdown(2)
            except OSError:
                continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


class _Handler(BaseHTTPRequestHandler):
    tana: StandIn
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._respond()

    def do_POST(self) -> None:
        self._respond()

    def _respond(self) -> None:
        traps = self.tana.traps
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if traps.latency:
            time.sleep(traps.latency)
        status, said = self.tana.answer(self.command, self.path, self.headers.get("Authorization", ""), body)
        if status == 200 and self.command == "POST" and traps.lose_answers:
            traps.lose_answers -= 1
            self.close_connection = True
            return
        content = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if status in {429, 503} and traps.retry_after:
            self.send_header("Retry-After", traps.retry_after)
        self._headers_buffer += [b"\r\n", content]  # type: ignore[attr-defined]
        self.flush_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Keep still."""


@cache
def _contract() -> list[tuple[str, re.Pattern[str], str, dict[str, Any]]]:
    document = json.loads(Path(__file__).with_name("contract.json").read_text(encoding="utf-8"))
    return [
        (method.upper(), re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path)), spec["operationId"], spec)
        for path, methods in document["paths"].items()
        for method, spec in methods.items()
    ]


def _route(method: str, path: str) -> tuple[str, dict[str, str], dict[str, Any]]:
    for known, pattern, operation, spec in _contract():
        if known == method and (found := pattern.fullmatch(path)):
            return operation, {name: unquote(value) for name, value in found.groupdict().items()}, spec
    return "", {}, {}


def _checked(spec: dict[str, Any], query: str, body: bytes) -> dict[str, Any]:
    """Parameters or body, as the contract has them.

    Raises:
        RefusedError: they do not fulfil it.
    """
    if not spec:
        raise RefusedError(404, "no such call")
    schemas = {each["name"]: each["schema"] for each in spec.get("parameters", ()) if each["in"] == "query"}
    required = [each["name"] for each in spec.get("parameters", ()) if each["in"] == "query" and each["required"]]
    given = _unbracketed(parse_qsl(query, keep_blank_values=True))
    schema: dict[str, Any] = {"properties": schemas, "required": required, "additionalProperties": False}
    given = {name: _coerced(value, schemas.get(name, {})) for name, value in given.items()}
    if "requestBody" in spec and (body or spec["requestBody"]["required"]):
        schema = spec["requestBody"]["content"]["application/json"]["schema"]
        try:
            given = json.loads(body)
        except ValueError:
            raise RefusedError(400, "the body is not JSON") from None
        if given.get("content", "") is None:  # accepted live, though the document does not say so
            _hold(schema, given | {"content": ""})
            return given
    _hold(schema, given)
    return given


def _hold(schema: dict[str, Any], given: Any) -> None:
    error = next(Draft202012Validator(schema).iter_errors(given), None)
    if error is not None:
        raise RefusedError(400, f"Input validation failed: {'.'.join(map(str, error.absolute_path))} {error.message[:200]}")


def _unbracketed(pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """`a[b][0]=c` as {"a": {"b": ["c"]}}."""
    tree: dict[str, Any] = {}
    for name, value in pairs:
        path = [name.partition("[")[0], *re.findall(r"\[([^\]]*)\]", name)]
        here = tree
        for step, after in zip(path, [*path[1:], None], strict=True):
            key = step or str(len(here))
            if after is None:
                here[key] = value
            else:
                here = here.setdefault(key, {})
                if not isinstance(here, dict):
                    raise RefusedError(400, f"{name} stands both as a value and as an object")
    return {key: _listed(value) for key, value in tree.items()}


def _listed(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if value and all(key.isdigit() for key in value):
        return [_listed(value[key]) for key in sorted(value, key=int)]
    return {key: _listed(inner) for key, inner in value.items()}


def _coerced(value: Any, schema: dict[str, Any]) -> Any:
    """Numbers are read from texts, booleans are not, as Tana does."""
    if isinstance(value, str) and schema.get("type") == "number":
        try:
            return float(value)
        except ValueError:
            return value
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        if not properties:  # conditions within conditions have no types in the document
            properties = _conditions()
        for one in schema.get("anyOf", ()):
            properties = properties | one.get("properties", {})
        return {key: _coerced(inner, properties.get(key, {})) for key, inner in value.items()}
    if isinstance(value, list):
        return [_coerced(inner, schema.get("items", {})) for inner in value]
    return value


@cache
def _conditions() -> dict[str, Any]:
    search = next(spec for _, _, operation, spec in _contract() if operation == "nodes.search")
    return next(each["schema"]["properties"] for each in search["parameters"] if each["name"] == "query")


def _input_nodes(nodes: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for node in nodes:
        yield node
        yield from _input_nodes(node.get("children", []))


def _names(nodes: list[dict[str, Any]]) -> Iterator[str]:
    return (node.get("name", "") for node in _input_nodes(nodes))


def _iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def main() -> None:
    """Serve a workspace until it is interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8262)
    parser.add_argument("--nodes", type=int, default=0, help="nodes to begin with")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each answer")
    parser.add_argument("--token", default="demo")
    given = parser.parse_args()
    tana = StandIn(token=given.token, port=given.port)
    tana.populate(given.nodes)
    tana.traps.latency = given.latency
    tana.start()
    print(f"A stand-in Tana at {tana.url}; set MEMORY_TANA_TOKEN={tana.token}", flush=True)  # noqa: T201
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        tana.stop()


if __name__ == "__main__":
    main()
