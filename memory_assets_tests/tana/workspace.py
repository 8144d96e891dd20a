"""The operations of Tana's Local API on an in-memory workspace, including the traps."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from memory_assets_tests.tana.contract import RefusedError
from memory_assets_tests.tana.nodes import DAY_S, FieldDefinition, Node, Tuple, Value
from memory_assets_tests.tana.outline import Outline

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


class Workspace(Outline):
    """A workspace with the operations of the Local API."""

    def health(self) -> dict[str, Any]:
        return {"status": "ok", "timestamp": _iso(self.clock()), "nodeSpaceReady": True}

    def list_workspaces(self) -> list[dict[str, Any]]:
        return [{"id": key, "name": name, "homeNodeId": f"{key}_HOME"} for key, name in self.workspaces.items()]

    def search(self, query: dict[str, Any], workspaces: list[str] | None, limit: float) -> list[dict[str, Any]]:
        if self.traps.failing_searches and self.traps.failing_searches in str(query).casefold():
            raise RefusedError(500, "Internal server error")
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

    # Helpers of the operations.

    def _put(self, node: Node, attribute: str, value: Value | None, mode: str) -> None:
        """Set a field value; field values alone do not count as an edit."""
        held = next((held for held in node.tuples if held.attribute == attribute), None)
        if held is None:
            held = Tuple(attribute)
            node.tuples.append(held)
        if mode != "append":
            held.values.clear()
        if value is not None:
            held.values.append(value)

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
        """Yield the nodes with the supertag that every hit must have, else all nodes."""
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
                return node.created >= now - wanted["last"] * DAY_S
            case "edited":
                since = wanted.get("since", 0)
                return node.edited >= (now - wanted["last"] * DAY_S if "last" in wanted else since)
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


def _iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
