"""Nodes of Tana that stand for entries already: those whose making a kill cut short, and those that somebody else made."""

from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from memory_assets.tana.client import MOST_CONDITIONS, MOST_FOUND, Node, TanaClient
from memory_assets.tana.entries import Entry, SeedFile
from memory_assets.tana.equivalence import Equivalents, equivalent
from memory_assets.tana.errors import TanaFaultError, TanaNotFoundError
from memory_assets.tana.markdown import Outline, read_node
from memory_assets.tana.schema import CONTENT, SEED_ID, Schema

if TYPE_CHECKING:
    from memory_assets.tana.books import Books

PARENT_NAME = "PAI memory"
UNNAMED = "PAI entry"
"""What a node is called until it is renamed to what Tana Paste would not take as a name."""
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class Finder:
    """Looks for nodes in one workspace."""

    def __init__(self, client: TanaClient, schema: Schema, books: "Books", seed: SeedFile) -> None:
        """Name it; nothing is asked yet."""
        self._client = client
        self._schema = schema
        self._books = books
        self._seed = seed

    def parent(self, chosen: str, *, make: bool) -> str:
        """The node that learnings go below: the one that was chosen, else `PAI memory` in the Library, made where it is missing."""
        if chosen:
            return chosen
        workspace = self._schema.workspace
        fact = f"parent of {workspace.id}"
        known = self._books.ledger.fact(fact)
        if known:
            with suppress(TanaNotFoundError):
                children, _ = self._client.children(known, limit=1)
                if not any(child.in_trash for child in children):
                    return known
        found = [node.id for node in self._client.search({"textContains": PARENT_NAME}, workspace.id) if _is_parent(node)]
        if not found and self._books.ledger.intents("parent"):
            found = [node.id for node in self._client.all_children(workspace.library) if _is_parent(node)]
        if not found and make:
            self._books.ledger.intend(("parent", workspace.id, {}))
            found = list(self._client.import_paste(workspace.library, f"- {PARENT_NAME}"))
        if found and make:
            self._books.ledger.keep(**{fact: found[0]})
            self._books.ledger.done("parent", workspace.id)
        return found[0] if found else ""

    def by_seed_id(self, seed_ids: Iterable[str], *, trashed: bool = False) -> dict[str, Node]:
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

    def made_before(self, seed_id: str, name: str, parent: str) -> str:
        """The node below `parent` that was made for an entry under a name and is not mapped; empty where there is none."""
        mapped = set(self._books.nodes.values())
        for node in self._client.all_children(parent) if parent else ():
            if node.name == name and node.id not in mapped and not node.in_trash:
                held = read_node(self._client.read(node.id).markdown)
                if name.startswith(UNNAMED) or seed_id in held.texts(SEED_ID):
                    return node.id
        return ""

    def adopt(self, new: list[Entry]) -> None:
        """Take nodes over that stand for new entries already: by seed id, then by what they say."""
        open_entries = {entry.seed_id: entry for entry in new}
        if not open_entries or all(f"#{tag}" in self._schema.made for tag in self._schema.fields):
            return
        mapped = set(self._books.nodes.values())
        for node in sorted(self.by_seed_id(open_entries).values(), key=lambda node: (node.created or _LONG_AGO, node.id)):
            if node.id not in mapped:
                for seed_id in self.read(node.id).texts(SEED_ID):
                    if seed_id in open_entries and self._schema.tags[open_entries[seed_id].tag] in {
                        each.id for each in node.tags
                    }:
                        self._books.map(open_entries.pop(seed_id).seed_id, node.id)
                        mapped.add(node.id)
        for tag in self._schema.fields:
            entries = {entry.seed_id: entry for entry in open_entries.values() if entry.tag == tag}
            names = Equivalents({seed_id: entry.name for seed_id, entry in entries.items()})
            for node in self._tagged(tag, list(entries.values())):
                if node.id in mapped:
                    continue
                match = next((entries[seed_id] for seed_id in names.of(node.name) if seed_id in entries), None)
                if match and self._says_the_same(node, match):
                    del entries[match.seed_id]
                    self._books.map(match.seed_id, node.id)
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
        held = self.read(node.id)
        others = [seed_id for seed_id in held.texts(SEED_ID) if seed_id]
        content = next(iter(held.texts(CONTENT)), node.name)
        return equivalent(content, entry.fields[CONTENT]) and not any(
            other in self._seed.entries or other in self._books.nodes for other in others
        )

    def read(self, node: str) -> Outline:
        """What a node says; nothing where Tana fails on it."""
        try:
            return read_node(self._client.read(node).markdown)
        except TanaFaultError:
            return Outline("")


def _is_parent(node: Node) -> bool:
    return node.name == PARENT_NAME and not node.tags and not node.in_trash
