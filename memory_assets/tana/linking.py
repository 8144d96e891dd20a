"""Resolution of names in texts and relationship files of pai-seed to people and projects in Tana (seed 000, FR-7 and FR-14).

A name is an entity that the language room finds, a quoted text, a word after @ or #, or one to four capitalised words. Nodes tagged
#person or #project are searched for it. A node is linked if the graph's entity resolution takes node and name for the same entity
(same spelling, a misspelling, or a first name that one person has) and does so for no other node. If several nodes match a name, the
person that a relationship file names is linked. Nothing is created.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

from pydantic import Field

from memory_assets.graph.entities import Surface, normalised, resolve
from memory_assets.language.entity_types import ADDRESSES, PERSONAL, EntityType
from memory_assets.sources.files import RefusedFileError, decode, read_source_file
from memory_assets.sources.json_fields import Fields, Text, loads
from memory_assets.tana.client import Node, TanaClient
from memory_assets.tana.config import resolve_workspace
from memory_assets.tana.schema import PERSON, PROJECT, RELATED_PEOPLE, RELATED_PROJECTS, Schema, known_tags
from memory_assets.tana.state import SyncRecord, sync_lock
from memory_assets.tenants import Tenant

FIELDS = {PERSON: RELATED_PEOPLE, PROJECT: RELATED_PROJECTS}
_TYPES = {PERSON: EntityType.PERSON, PROJECT: EntityType.PROJECT}
_NAMING = re.compile(
    r"[\"'“‘]([^\W\d_][^\"'”’]{2,50})[\"'”’]|@([\w.-]{3,50})|#([\w-]{3,50})|"
    r"\b([^\W\d_a-zß-öø-ÿ][\w’'-]*(?:[ -][^\W\d_a-zß-öø-ÿ][\w’'-]*){0,3})"
)
_MIN_CHARACTERS = 3
_OWN_WEIGHT = 1_000
"""Mentions that a node's own spelling counts for, so that the text's spelling is the misspelling."""


@dataclass(frozen=True, slots=True)
class Link:
    """A node that a text names. The JSON names of its fields, and of an `Outcome`'s, are those of pai-seed."""

    node: Annotated[str, Field(serialization_alias="tanaNodeId")]
    name: Annotated[str, Field(serialization_alias="entityName")]
    kind: Annotated[str, Field(serialization_alias="tagType")]
    """`person` or `project`."""
    confidence: float


@dataclass(frozen=True, slots=True)
class Linked:
    """Nodes that the names in a text resolve to."""

    links: list[Link] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """Names that match no node, or several."""
    complete: bool = True
    """Whether Tana answered for all names."""


class Linker:
    """Resolves names in texts to nodes."""

    def __init__(self, tenant: Tenant, client: TanaClient, schema: Schema) -> None:
        self._tenant = tenant
        self._client = client
        self._schema = schema
        self._found: dict[str, Node] = {}
        self._failed_words: set[str] = set()
        chosen = SyncRecord.load(tenant.folder).people
        self._chosen = {normalised(name, EntityType.PERSON): node for name, node in chosen.items()}
        """Name -> node, from pai-seed's relationship files."""

    def people(self, names: Sequence[str]) -> dict[str, list[str]]:
        """Return the #person nodes that each name may mean."""
        self._look_up(names)
        owners = self._owners([(name, EntityType.PERSON.value) for name in names])
        return {name: [node.id for node, kind in found if kind == PERSON] for (name, _), found in owners.items()}

    def links(self, texts: Sequence[str]) -> list[Linked]:
        if not texts:
            return []
        outcomes = self._tenant.analyzer.outcomes(texts)
        mentioned = [dict(_names(text, features)) for text, features in zip(texts, outcomes, strict=True)]
        self._look_up(name for names in mentioned for name in names)
        owners = self._owners([mention for names in mentioned for mention in names.items()])
        return [self._linked(names, owners) for names in mentioned]

    def _look_up(self, names: Iterable[str]) -> None:
        wanted = [{"textContains": word} for word in sorted({_search_word(name) for name in names})]
        kinds = [{"hasType": self._schema.tags[kind]} for kind in FIELDS if kind in self._schema.tags]
        found, failed = self._client.search_any(wanted, self._schema.workspace.id, [{"or": kinds}])
        self._found |= {node.id: node for node in found}
        self._failed_words |= {each["textContains"] for each in failed}

    def _owners(self, mentions: Sequence[tuple[str, str]]) -> dict[tuple[str, str], list[tuple[Node, str]]]:
        """Return the nodes, with their kind, that each name and type may mean."""
        nodes: list[tuple[Node, str]] = []
        for node in self._found.values():
            tags = {tag.id for tag in node.tags}
            kinds = [kind for kind in FIELDS if self._schema.tags.get(kind) in tags]
            nodes += [(node, kind) for kind in kinds[:1] if node.name]
        own = {(node.name, _TYPES[kind].value) for node, kind in nodes}
        surfaces = [Surface(name, kind, _OWN_WEIGHT) for name, kind in sorted(own)]
        surfaces += [Surface(name, kind) for name, kind in sorted(set(mentions) - own)]
        resolved = resolve(surfaces)
        by_entity: dict[int, list[tuple[Node, str]]] = {}
        for node, kind in nodes:
            by_entity.setdefault(resolved[node.name, _TYPES[kind].value], []).append((node, kind))
        return {mention: by_entity.get(resolved[mention], []) for mention in mentions}

    def _linked(self, names: dict[str, str], owners: dict[tuple[str, str], list[tuple[Node, str]]]) -> Linked:
        links: dict[str, Link] = {}
        unknown: list[str] = []
        for name, kind in names.items():
            chosen = self._chosen.get(normalised(name, kind))
            meant = [each for each in owners[name, kind] if each[0].id == chosen] or owners[name, kind]
            if len(meant) != 1 or (meant[0][1] == PERSON and kind not in PERSONAL):
                unknown.append(name)
                continue
            node, tag = meant[0]
            same = normalised(name, kind) == normalised(node.name, _TYPES[tag])
            links.setdefault(node.id, Link(node.id, node.name, tag, 1.0 if same else 0.9))
        return Linked(list(links.values()), unknown, complete=self._failed_words.isdisjoint(map(_search_word, names)))


def _names(text: str, features: object) -> Iterator[tuple[str, str]]:
    """Yield names with their type; those of the language room come last, so that their type wins."""
    for found in _NAMING.finditer(text):
        name = next(part for part in found.groups() if part).strip()
        begins = " " not in name and not re.search(r"[\w,;]\s*$", text[: found.start()])
        if len(name) >= _MIN_CHARACTERS:
            yield name, EntityType.PROJECT if found[3] or (begins and not found[2]) else EntityType.NAME
    for entity in getattr(features, "entities", ()):
        if len(entity.text.lstrip("#")) >= _MIN_CHARACTERS and entity.type not in ADDRESSES:
            tag = entity.type == EntityType.TAG
            yield entity.text.lstrip("#"), EntityType.PROJECT if tag else EntityType(entity.type)


def _search_word(name: str) -> str:
    """Return the first word to search for, since a node may spell the rest differently."""
    words = re.findall(r"\w+", name.lstrip("@#"))
    return (words[0] if words else name).casefold()


@dataclass(frozen=True, slots=True)
class Relationship:
    """A relationship file and the nodes that it may mean."""

    file: str
    name: str = ""
    nodes: tuple[str, ...] = ()
    fault: str = ""


class _Person(Fields):
    name: Text


def relate_people(tenant: Tenant, client: TanaClient, *, dry_run: bool = False) -> list[Relationship]:
    """Resolve each relationship file to its node, and record the unambiguous ones. Neither the files nor Tana are changed."""
    folder = tenant.settings.pai_relationships_dir
    found: list[Relationship] = []
    for path in sorted(folder.glob("rel_*.json")):
        try:
            person = _Person.read(loads(decode(read_source_file(path, folder))[0]), "$")
            found.append(Relationship(path.name, person.name))
        except RefusedFileError as error:
            found.append(Relationship(path.name, fault=f"{error.reason}; {error.mend}"))
    workspace = resolve_workspace(tenant.settings, client.workspaces())
    linker = Linker(tenant, client, Schema(workspace, known_tags(client.tags(workspace.id))))
    meant = linker.people([each.name for each in found if not each.fault])
    if not dry_run:
        with sync_lock(tenant):
            record = SyncRecord.load(tenant.folder)
            record.people = {name: nodes[0] for name, nodes in meant.items() if len(nodes) == 1}
            record.save(tenant.folder)
    return [each if each.fault else replace(each, nodes=tuple(meant[each.name])) for each in found]
