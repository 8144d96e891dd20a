"""Matches nodes of Tana with entries: nodes whose making a kill cut short, and nodes that somebody else made."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from memory_assets.tana.client import MAX_CONDITIONS, MAX_FOUND, Node, TanaClient
from memory_assets.tana.entries import Entry, SeedFile
from memory_assets.tana.errors import TanaFaultError, TanaNotFoundError
from memory_assets.tana.formats import Outline
from memory_assets.tana.schema import CONTENT, SEED_ID, Schema

if TYPE_CHECKING:
    from memory_assets.tana.state import SyncState

_MIN_SIMILARITY = 0.95
"""Similarity of two texts from which they count as one: a typo, not another fact."""

_Shape = tuple[int, tuple[str, ...]]
"""How many words a text has, and its numbers: texts of two shapes are never equivalent."""


def equivalent(one: str, other: str) -> bool:
    """Whether two texts differ by case, spaces, punctuation or a slip of the pen; never by a number or a "not"."""
    return any(EquivalentTexts({"other": other}).of(one))


class EquivalentTexts:
    """Texts by key, among which equivalents of others are looked for; each text is made plain once."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._plain: dict[_Shape, dict[str, str]] = {}
        for key, text in texts.items():
            plain = _plain(text)
            if plain:
                self._plain.setdefault(_shape(plain), {})[key] = plain

    def of(self, text: str) -> Iterator[str]:
        """The keys of the texts that are equivalent to `text`, in the order in which they were given."""
        from rapidfuzz.distance import Levenshtein
        from rapidfuzz.process import extract_iter

        plain = _plain(text)
        like = self._plain.get(_shape(plain), {})
        for _, _, key in extract_iter(plain, like, scorer=Levenshtein.normalized_similarity, score_cutoff=_MIN_SIMILARITY):
            yield key


def _shape(plain: str) -> _Shape:
    return len(plain.split()), tuple(re.findall(r"\d+", plain))


def _plain(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(re.sub(r"[^\w\s']", " ", folded).split())


PARENT_NAME = "PAI memory"
UNNAMED = "PAI entry"
"""What a node is called until it is renamed to what Tana Paste would not take as a name."""
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class NodeMatcher:
    """Looks for nodes in one workspace."""

    client: TanaClient
    schema: Schema
    state: "SyncState"
    seed: SeedFile

    def parent(self, chosen: str, *, make: bool) -> str:
        """The node that learnings go below: the one that was chosen, else `PAI memory` in the Library, made where it is missing."""
        if chosen:
            return chosen
        workspace = self.schema.workspace
        fact = f"parent of {workspace.id}"
        known = self.state.ledger.fact(fact)
        if known:
            with suppress(TanaNotFoundError):
                children, _ = self.client.children(known, limit=1)
                if not any(child.in_trash for child in children):
                    return known
        found = [node.id for node in self.client.search({"textContains": PARENT_NAME}, workspace.id) if _is_parent(node)]
        if not found and self.state.ledger.intents("parent"):
            found = [node.id for node in self.client.all_children(workspace.library) if _is_parent(node)]
        if not found and make:
            self.state.ledger.intend(("parent", workspace.id, {}))
            found = list(self.client.import_paste(workspace.library, f"- {PARENT_NAME}"))
        if found and make:
            self.state.ledger.keep(**{fact: found[0]})
            self.state.ledger.done("parent", workspace.id)
        return found[0] if found else ""

    def by_seed_id(self, seed_ids: Iterable[str], *, trashed: bool = False) -> dict[str, Node]:
        """Nodes of either supertag whose Seed Entry ID is one of these, by node id."""
        fields = [field_id for tag in self.schema.fields if (field_id := self.schema.field_id(tag, SEED_ID))]
        listed = list(seed_ids)
        found: dict[str, Node] = {}
        size = MAX_CONDITIONS // 2
        for start in range(0, len(listed) if fields else 0, size):
            conditions = [
                {"field": {"fieldId": field_id, "stringValue": seed_id}}
                for seed_id in listed[start : start + size]
                for field_id in fields
            ]
            with suppress(TanaFaultError):
                hits = self.client.search({"or": conditions}, self.schema.workspace.id, trashed=trashed)
                found.update((node.id, node) for node in hits)
        return found

    def made_before(self, seed_id: str, name: str, parent: str) -> str:
        """The node below `parent` that was made for an entry under a name and is not mapped; empty where there is none."""
        mapped = set(self.state.nodes.values())
        for node in self.client.all_children(parent) if parent else ():
            if node.name == name and node.id not in mapped and not node.in_trash:
                held = self.client.read(node.id)
                if name.startswith(UNNAMED) or seed_id in held.texts(SEED_ID):
                    return node.id
        return ""

    def adopt(self, new: list[Entry]) -> None:
        """Take nodes over that stand for new entries already: by seed id, then by what they say."""
        open_entries = {entry.seed_id: entry for entry in new}
        if not open_entries or all(f"#{tag}" in self.schema.made for tag in self.schema.fields):
            return
        mapped = set(self.state.nodes.values())
        for node in sorted(self.by_seed_id(open_entries).values(), key=lambda node: (node.created or _LONG_AGO, node.id)):
            if node.id not in mapped:
                for seed_id in self.read(node.id).texts(SEED_ID):
                    if seed_id in open_entries and self.schema.tags[open_entries[seed_id].tag] in {each.id for each in node.tags}:
                        self.state.map(open_entries.pop(seed_id).seed_id, node.id)
                        mapped.add(node.id)
        for tag in self.schema.fields:
            entries = {entry.seed_id: entry for entry in open_entries.values() if entry.tag == tag}
            names = EquivalentTexts({seed_id: entry.name for seed_id, entry in entries.items()})
            for node in self._tagged(tag, list(entries.values())):
                if node.id in mapped:
                    continue
                match = next((entries[seed_id] for seed_id in names.of(node.name) if seed_id in entries), None)
                if match and self._says_the_same(node, match):
                    del entries[match.seed_id]
                    self.state.map(match.seed_id, node.id)
                    mapped.add(node.id)

    def _tagged(self, tag: str, entries: list[Entry]) -> list[Node]:
        """Nodes of a supertag among which an equivalent of an entry may be."""
        if not entries:
            return []
        has_tag = {"hasType": self.schema.tags[tag]}
        found = self.client.search(has_tag, self.schema.workspace.id)
        if len(found) < MAX_FOUND:
            return found
        nodes: dict[str, Node] = {}
        for start in range(0, len(entries), MAX_CONDITIONS):
            begins = [{"textContains": entry.name[:40]} for entry in entries[start : start + MAX_CONDITIONS]]
            with suppress(TanaFaultError):
                hits = self.client.search({"and": [has_tag, {"or": begins}]}, self.schema.workspace.id)
                nodes.update((node.id, node) for node in hits)
        return list(nodes.values())

    def _says_the_same(self, node: Node, entry: Entry) -> bool:
        """Whether a node's content is the entry's, and it stands for no other entry of seed.json."""
        held = self.read(node.id)
        others = [seed_id for seed_id in held.texts(SEED_ID) if seed_id]
        content = next(iter(held.texts(CONTENT)), node.name)
        return equivalent(content, entry.fields[CONTENT]) and not any(
            other in self.seed.entries or other in self.state.nodes for other in others
        )

    def read(self, node: str) -> Outline:
        """What a node says; nothing where Tana fails on it."""
        try:
            return self.client.read(node)
        except TanaFaultError:
            return Outline("")


def _is_parent(node: Node) -> bool:
    return node.name == PARENT_NAME and not node.tags and not node.in_trash
