"""The nodes, supertags and fields of an in-memory workspace: fill them and look them up."""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator

from memory_assets_tests.tana.contract import RefusedError
from memory_assets_tests.tana.nodes import DAY_S, WORKSPACE, FieldDefinition, Node, TagDefinition, Traps, Tuple, Value


class Outline:
    """Everything in the workspaces of one Tana."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.traps = Traps()
        self.clock = clock
        self.nodes: dict[str, Node] = {}
        self.tags: dict[str, TagDefinition] = {}
        self.by_tag: defaultdict[str, set[str]] = defaultdict(set)
        self.workspaces = {WORKSPACE: "main"}
        self.focused = WORKSPACE
        self._count = 0
        self._lock = threading.RLock()
        self.add_workspace(WORKSPACE, "main")

    def reset(self) -> None:
        """Delete everything in the workspace, like a user who starts over."""
        with self._lock:
            self.nodes.clear()
            self.tags.clear()
            self.by_tag.clear()
            for workspace, name in self.workspaces.items():
                self.add_workspace(workspace, name)

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
            created=now - edited_days_ago * DAY_S,
            edited=now - edited_days_ago * DAY_S,
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
        """Add `count` nodes of several supertags, ten below each day's page, each with a reference to another."""
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
        """Return the nodes with a supertag of this name that are not in the trash."""
        return [node for node in map(self.nodes.__getitem__, sorted(self.by_tag[self.tag_named(tag)])) if not node.in_trash]

    def value(self, node: Node, name: str) -> list[str]:
        """Return the values of a field: texts, names of options and names of nodes."""
        found = []
        for held in node.tuples:
            if self._field_name(held.attribute) == name:
                found += [self._shown(value) for value in held.values]
        return found

    def seed_ids(self, node: Node) -> list[str]:
        """Return the ids of the seed.json entries that a node represents."""
        return self.value(node, "Seed Entry ID")

    def by_seed_id(self, tag: str, seed_id: str) -> list[Node]:
        return [node for node in self.live(tag) if seed_id in self.seed_ids(node)]

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

    def _subtree(self, node: Node) -> Iterator[Node]:
        yield node
        for child in node.children:
            yield from self._subtree(self.nodes[child])

    def _owners(self, node: Node) -> Iterator[str]:
        while node.parent:
            yield node.parent
            node = self.nodes[node.parent]
