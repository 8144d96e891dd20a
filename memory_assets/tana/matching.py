"""Matching of Tana nodes with entries: nodes that a killed sync left, and nodes of other origin."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b

import numpy as np
import pyarrow as pa

from memory_assets.arrays import Floats
from memory_assets.compute import pc
from memory_assets.tana.client import MAX_FOUND, Node, TanaClient
from memory_assets.tana.errors import TanaFaultError, TanaNotFoundError
from memory_assets.tana.formats import Outline
from memory_assets.tana.schema import CONTENT, SEED_ID, Entry, Schema, SeedFile
from memory_assets.tana.state import SyncState

_MIN_SIMILARITY = 0.95
"""Similarity from which two texts differ by a typo, not by a fact."""


def equivalent(one: str, other: str) -> bool:
    """Whether two texts differ only by case, spaces, punctuation or a typo; never by a number or a word such as "not"."""
    from rapidfuzz.distance import Levenshtein

    (plain, *shape), (like, *other_shape) = _plain(one), _plain(other)
    return bool(plain) and shape == other_shape and Levenshtein.normalized_similarity(plain, like) >= _MIN_SIMILARITY


def asked_words(topic: Sequence[str]) -> list[str]:
    """Return the words of a topic that a search uses."""
    return list(dict.fromkeys(topic))[:_MAX_WORDS]


def word_shares(texts: pa.Array | pa.ChunkedArray, topic: Sequence[str]) -> Floats:
    """Return the share of a topic's words that each lower-case text contains, or 0 if it is less than half."""
    asked = asked_words(topic)
    counts = np.zeros(len(texts))
    for word in asked:
        counts += pc.match_substring(texts, word).to_numpy(zero_copy_only=False)
    return np.where(2 * counts >= len(asked), counts / max(1, len(asked)), 0.0)


@lru_cache(maxsize=4096)
def _plain(text: str) -> tuple[str, int, list[str]]:
    """Return a text without case and punctuation, its number of words, and its numbers."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    plain = " ".join(re.sub(r"[^\w\s']", " ", folded).split())
    return plain, len(plain.split()), re.findall(r"\d+", plain)


PARENT_NAME = "PAI memory"
_UNNAMED = "PAI entry"
_MAX_WORDS = 6
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def placeholder(seed_id: str) -> str:
    """Return a temporary name for a node whose real name Tana Paste would not accept."""
    return f"{_UNNAMED} {blake2b(seed_id.encode(), digest_size=6).hexdigest()}"


@dataclass(frozen=True, slots=True)
class NodeMatcher:
    """Searches one workspace for the nodes of entries."""

    client: TanaClient
    schema: Schema
    state: SyncState
    seed: SeedFile

    def find_parent(self, chosen: str, *, make: bool) -> str:
        """Return the parent node of the learnings: `chosen`, else `PAI memory` in the Library, created if missing and `make`."""
        if chosen:
            return chosen
        workspace = self.schema.workspace
        if known := self.state.record.parents.get(workspace.id):
            try:
                first = next(self.client.all_children(known), None)
            except TanaNotFoundError:
                pass
            except TanaFaultError:  # it fails on the children, so the parent exists
                return known
            else:
                is_trashed = (
                    first.in_trash if first else self.client.is_trashed(known, self.read(known, depth=0).name, workspace.id)
                )
                if not is_trashed:
                    return known
        children = self.client.all_children(workspace.library)
        found = next((each.id for each in children if each.name == PARENT_NAME and not each.tags and not each.in_trash), "")
        if make:
            found = found or next(iter(self.client.import_paste(workspace.library, f"- {PARENT_NAME}")))
            self.state.record.parents[workspace.id] = found
            self.state.save()
        return found

    def by_seed_id(self, seed_ids: Iterable[str], *, trashed: bool = False) -> dict[str, Node]:
        """Return, by node id, the nodes of either supertag whose Seed Entry ID is one of `seed_ids`."""
        fields = [field_id for tag in self.schema.fields if (field_id := self.schema.field_id(tag, SEED_ID))]
        conditions = [{"field": {"fieldId": field, "stringValue": seed_id}} for seed_id in seed_ids for field in fields]
        found, _ = self.client.search_any(conditions, self.schema.workspace.id, trashed=trashed)
        return {node.id: node for node in found}

    def adopt_named(self, nodes: Iterable[Node]) -> None:
        """Map unmapped nodes that hold an entry's seed id, as a killed sync leaves them.

        If a proposal became a learning and both have a node, the older node goes to the trash.
        """
        tags = {self.schema.tags[tag]: tag for tag in self.schema.fields if tag in self.schema.tags}
        mapped = set(self.state.nodes.values())
        placeholders = {placeholder(seed_id): seed_id for seed_id in self.seed.entries}
        for node in nodes:
            tag = next((tags[each.id] for each in node.tags if each.id in tags), "")
            if node.id in mapped or node.in_trash or not tag:
                continue
            seed_id = placeholders.get(node.name) or next(iter(self.read(node.id).texts(SEED_ID)), "")
            entry = self.seed.entries.get(seed_id)
            former = self.state.nodes.get(seed_id)
            was_other = self.state.sent(seed_id).tag not in ("", tag)
            if entry and entry.tag == tag and (not former or was_other or seed_id in self.state.trashed):
                self.state.map(seed_id, node.id)
                mapped.add(node.id)
                if former and was_other:
                    self._trash(former)
            elif entry and entry.tag != tag and former:
                self._trash(node.id)

    def _trash(self, node: str) -> None:
        if not self.state.is_dry_run:
            self.client.trash(node)

    def adopt(self, new: list[Entry]) -> None:
        """Map existing nodes to new entries, first by seed id, then by equivalent text."""
        if not new or all(f"#{tag}" in self.schema.made for tag in self.schema.fields):
            return
        named = self.by_seed_id(entry.seed_id for entry in new).values()
        self.adopt_named(sorted(named, key=lambda node: (node.created or _LONG_AGO, node.id)))
        mapped = set(self.state.nodes.values())
        for tag in self.schema.fields:
            entries = {entry.seed_id: entry for entry in new if entry.tag == tag and entry.seed_id not in self.state.nodes}
            for node in self._similar_candidates(tag, list(entries.values())):
                if node.id in mapped:
                    continue
                match = next((entry for entry in entries.values() if equivalent(node.name, entry.name)), None)
                if match is None:
                    continue
                outline = self.read(node.id)
                is_other = any(other in self.seed.entries or other in self.state.nodes for other in outline.texts(SEED_ID))
                if not is_other and equivalent(next(iter(outline.texts(CONTENT)), node.name), match.fields[CONTENT]):
                    del entries[match.seed_id]
                    self.state.map(match.seed_id, node.id)
                    mapped.add(node.id)

    def _similar_candidates(self, tag: str, entries: list[Entry]) -> list[Node]:
        """Return the nodes of a supertag that may be equivalent to one of `entries`."""
        if not entries or tag not in self.schema.tags:
            return []
        has_tag = {"hasType": self.schema.tags[tag]}
        with suppress(TanaFaultError):
            found = self.client.search(has_tag, self.schema.workspace.id)
            if len(found) < MAX_FOUND:
                return found
        begins = [{"textContains": entry.name[:40]} for entry in entries]
        return self.client.search_any(begins, self.schema.workspace.id, [has_tag])[0]

    def read(self, node: str, depth: int = 1) -> Outline:
        """Return a node's outline, empty if Tana fails on it."""
        try:
            return self.client.read(node, depth)
        except TanaFaultError:
            return Outline("")
