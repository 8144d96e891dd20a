"""Which people and projects of Tana a text or a relationship file of pai-seed names (seed 000, FR-7 and FR-14).

A name is what the language room finds, what stands in quotes, after @ or #, or what begins two to four words with a capital. Nodes
with the tags #person and #project are searched for it. A node is linked if the graph's entity resolution holds node and name for one
(same spelling, a slip of the pen, or a first name that one person has) and no second node is held for it too. A name that several
nodes have means the person whom a relationship file means. Nothing is made.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from memory_assets.graph.entities import Surface, normalised, resolve
from memory_assets.language.entity_types import ADDRESSES, PERSONAL, EntityType
from memory_assets.sources.files import RefusedFileError, decode, read_source_file
from memory_assets.sources.json_fields import Fields, Text, loads
from memory_assets.tana.client import Node, TanaClient
from memory_assets.tana.config import resolve_workspace
from memory_assets.tana.schema import PERSON, PROJECT, RELATED_PEOPLE, RELATED_PROJECTS, Schema, known_tags
from memory_assets.tana.state import SyncRecord, one_at_a_time

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant

FIELDS = {PERSON: RELATED_PEOPLE, PROJECT: RELATED_PROJECTS}
_TYPES = {PERSON: EntityType.PERSON, PROJECT: EntityType.PROJECT}
_NAMING = re.compile(
    r"[\"'“‘]([^\W\d_][^\"'”’]{2,50})[\"'”’]|@([\w.-]{3,50})|#([\w-]{3,50})|"
    r"\b([^\W\d_a-zß-öø-ÿ][\w’'-]*(?:[ -][^\W\d_a-zß-öø-ÿ][\w’'-]*){0,3})"
)
_SHORTEST = 3
_OWN_WEIGHT = 1_000
"""How often a node's own spelling counts as being in use: that of a text is the slip."""


@dataclass(frozen=True, slots=True)
class Link:
    """The node that a name in a text means. The names of its fields in JSON are those that pai-seed's users know, as of an `Outcome`."""

    node: Annotated[str, Field(serialization_alias="tanaNodeId")]
    name: Annotated[str, Field(serialization_alias="entityName")]
    """Of the node."""
    kind: Annotated[str, Field(serialization_alias="tagType")]
    """`person` or `project`."""
    confidence: float


@dataclass(frozen=True, slots=True)
class Linked:
    """What the names in a text mean."""

    links: list[Link] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """Names that mean no node, or several."""
    complete: bool = True
    """Whether Tana could be asked for all of them."""


class Linker:
    """Links texts to nodes."""

    def __init__(self, tenant: "Tenant", client: TanaClient, schema: Schema) -> None:
        self._tenant = tenant
        self._client = client
        self._schema = schema
        self._found: dict[str, Node] = {}
        self._failed: set[str] = set()
        """Words that Tana failed on when it was asked for them."""
        chosen = SyncRecord.load(tenant.folder).people
        self._chosen = {normalised(name, EntityType.PERSON): node for name, node in chosen.items()}
        """Whom pai-seed's relationships mean."""

    def people(self, names: Sequence[str]) -> dict[str, list[str]]:
        """The #person nodes that each name may mean."""
        self._look_up(names)
        owners = self._owners([(name, EntityType.PERSON.value) for name in names])
        return {name: [node.id for node, kind in found if kind == PERSON] for (name, _), found in owners.items()}

    def links(self, texts: Sequence[str]) -> list[Linked]:
        """What the names in each text mean."""
        if not texts:
            return []
        outcomes = self._tenant.analyzer.outcomes(texts)
        mentioned = [dict(_names(text, features)) for text, features in zip(texts, outcomes, strict=True)]
        self._look_up(name for names in mentioned for name in names)
        owners = self._owners([mention for names in mentioned for mention in names.items()])
        return [self._linked(names, owners) for names in mentioned]

    def _look_up(self, names: Iterable[str]) -> None:
        """Search for the nodes that names may mean."""
        wanted = [{"textContains": word} for word in sorted({_searchable(name) for name in names})]
        kinds = [{"hasType": self._schema.tags[kind]} for kind in FIELDS if kind in self._schema.tags]
        found, failed = self._client.search_any(wanted, self._schema.workspace.id, [{"or": kinds}])
        self._found |= {node.id: node for node in found}
        self._failed |= {each["textContains"] for each in failed}

    def _owners(self, mentions: Sequence[tuple[str, str]]) -> dict[tuple[str, str], list[tuple[Node, str]]]:
        """The nodes, with their kind, that each name and type may mean."""
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
        return Linked(list(links.values()), unknown, complete=self._failed.isdisjoint(map(_searchable, names)))


def _names(text: str, features: object) -> Iterator[tuple[str, str]]:
    """Names with the type they are resolved under; those of the language room last, so that its type holds."""
    for found in _NAMING.finditer(text):
        name = next(part for part in found.groups() if part).strip()
        begins = " " not in name and not re.search(r"[\w,;]\s*$", text[: found.start()])
        if len(name) >= _SHORTEST:
            yield name, EntityType.PROJECT if found[3] or (begins and not found[2]) else EntityType.NAME
    for entity in getattr(features, "entities", ()):
        if len(entity.text.lstrip("#")) >= _SHORTEST and entity.type not in ADDRESSES:
            tag = entity.type == EntityType.TAG
            yield entity.text.lstrip("#"), EntityType.PROJECT if tag else EntityType(entity.type)


def _searchable(name: str) -> str:
    """What to search for: the first word, since a node may be spelt otherwise in the rest."""
    words = re.findall(r"\w+", name.lstrip("@#"))
    return (words[0] if words else name).casefold()


@dataclass(frozen=True, slots=True)
class Relationship:
    """One relationship file, and whom it means."""

    file: str
    name: str = ""
    nodes: tuple[str, ...] = ()
    """The #person nodes that the name may mean."""
    fault: str = ""


class _Person(Fields):
    name: Text


def relate_people(tenant: "Tenant", client: TanaClient, *, dry_run: bool = False) -> list[Relationship]:
    """Find the node of each relationship file, and keep those that are certain. Files and Tana stay as they are."""
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
        with one_at_a_time(tenant):
            record = SyncRecord.load(tenant.folder)
            record.people = {name: nodes[0] for name, nodes in meant.items() if len(nodes) == 1}
            record.save(tenant.folder)
    return [each if each.fault else replace(each, nodes=tuple(meant[each.name])) for each in found]
