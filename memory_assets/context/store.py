"""The store as a reader: memories in LanceDB; entities, patterns and typed edges in the catalog.

Only neighbourhoods are read, by one query a step, however large the graph is. The catalog is opened when it is first needed and closed
with the reader. While another process writes it for longer than a moment, the store answers without the graph and says so.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

from memory_assets.context.model import Category, Fields, Link, Neighbours, Node
from memory_assets.context.passages import stems
from memory_assets.context.resolver import Candidate
from memory_assets.errors import StoreBusyError
from memory_assets.language.embedders.protocol import EmbedderError
from memory_assets.models import Memory, State
from memory_assets.recall.question import words

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from memory_assets.recall.search import Hit
    from memory_assets.tenants import Tenant

_PATIENCE = 2.0
"""Seconds to wait for the catalog while another process writes it."""
_NAME_LENGTH = 80
LONGEST_NAME = 60
"""Characters of a topic that can be a name."""
_SHORTEST_NAMED = 3
_OLDER_VERSIONS = 5
_INTERNAL = frozenset(
    """
    path slug type_form extracted_at origin confirmed line dated_by guessed ingested_at source_cwd decided_at method proposed_kind
    section original_path decoding extra source_hash session_id timestamp
    """.split()  # noqa: SIM905
)
"""Keys of a memory's metadata that say where it comes from, not what it is about."""
_NESTED = ("frontmatter", "fields")
"""Keys under which a source's own fields are kept."""
_BEYOND_SEARCH = 0.5
"""What is left of the cosine of a memory that the search did not find: its words and neighbours do not speak for it."""
_NEAR = 0.45
"""Cosine from which a hit that shares no word with the topic fits it."""

_NEIGHBOURS = """
    WITH links AS (
        SELECT source_id AS origin, target_id AS target, type, coalesce(confidence, 1) AS confidence, coalesce(note, '') AS note,
               true AS forward, origin AS rule
        FROM graph_edges SEMI JOIN asked ON source_id = asked.id WHERE origin <> 'supersession'
        UNION ALL
        SELECT target_id, source_id, type, coalesce(confidence, 1), coalesce(note, ''), false, origin
        FROM graph_edges SEMI JOIN asked ON target_id = asked.id WHERE origin <> 'supersession'
        UNION ALL
        SELECT memory_id, entity_id, 'MENTIONS', 1, '', true, 'mention' FROM graph_mentions SEMI JOIN asked ON memory_id = asked.id
        UNION ALL
        SELECT entity_id, memory_id, 'MENTIONS', 1, '', false, 'mention' FROM graph_mentions SEMI JOIN asked ON entity_id = asked.id
    ),
    told AS (
        SELECT *, CASE WHEN type IN ('CONTRADICTS', 'INVALIDATED_BY') THEN 3
                       WHEN rule IN ('entities', 'session', 'similar', 'same text', 'creative') THEN 1 ELSE 2 END AS telling
        FROM links
    ),
    best AS (
        SELECT * FROM told
        QUALIFY row_number() OVER (PARTITION BY origin, target ORDER BY telling DESC, confidence DESC, type, forward) = 1
    )
    SELECT origin, target, type, forward, confidence, note, count(*) OVER (PARTITION BY origin) AS total
    FROM best LEFT JOIN scored ON scored.id = target::VARCHAR LEFT JOIN graph_memories m ON m.id = target
    QUALIFY row_number() OVER (
        PARTITION BY origin
        ORDER BY telling = 3 DESC, coalesce(scored.score, 0) DESC, telling DESC, best.confidence DESC, m.created_at DESC NULLS LAST, target
    ) <= $most
"""
_NAMED = """
    WITH names AS (
        SELECT entity_id AS id, "text" AS name FROM graph_aliases
        UNION SELECT id, label FROM graph_nodes WHERE kind IN ('entity', 'pattern')
        UNION SELECT id, title FROM graph_memories WHERE live AND title <> ''
    ),
    near AS (
        SELECT id, name FROM names
        WHERE lower(name) = lower($topic)
           OR length(name) BETWEEN $shortest AND length($words) AND contains($words, ' ' || lower(name) || ' ')
           OR $fuzzy AND abs(length(name) - length($topic)) <= 3 AND levenshtein(lower(name), lower($topic)) <= 3
    )
    SELECT near.id, near.name, n.kind, coalesce(n.type, '')
    FROM near JOIN graph_nodes n ON n.id = near.id
    ORDER BY near.id, near.name LIMIT 200
"""
_THINGS = """
    SELECT n.id, n.kind, n.label, coalesce(n.type, ''), coalesce(c.summary, ''), coalesce(c.size, 0),
           coalesce(m.mentions, 0)
    FROM graph_nodes n SEMI JOIN asked ON n.id = asked.id LEFT JOIN clusters c ON c.id = n.id
    LEFT JOIN (SELECT entity_id, count(*) AS mentions FROM graph_mentions SEMI JOIN asked ON entity_id = asked.id GROUP BY 1) m
        ON m.entity_id = n.id
    WHERE n.kind <> 'memory'
"""


class StoreReader:
    """Reads one tenant's memories and what is derived from them; a context manager, because it keeps the catalog open."""

    backend = "store"

    def __init__(self, tenant: "Tenant") -> None:
        self.warnings: list[str] = []
        self._tenant = tenant
        self._open = ExitStack()
        self._catalog: DuckDBPyConnection | None = None
        self._memories: dict[str, Memory] = {}
        self._things: dict[str, Node] = {}
        """Entities and patterns that were read."""
        self._found: dict[str, float] = {}
        """Scores of what searches found."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()
        self._catalog = None

    def nodes(self, ids: Collection[str]) -> dict[str, Node]:
        """As `Reader.nodes`; a superseded, forgotten or archived memory takes no part."""
        unknown = [int(node) for node in ids if _is_number(node) and node not in self._memories and node not in self._things]
        self._things |= {str(row[0]): _thing(*row) for row in self.asked(_THINGS, unknown)}
        self._read([number for number in unknown if str(number) not in self._things])
        memories = (self._memories.get(node) for node in ids)
        return {node: self._things[node] for node in ids if node in self._things} | {
            str(memory.id): _told(memory) for memory in memories if memory and memory.state is State.ACTIVE
        }

    def neighbours(self, ids: Collection[str], scores: Mapping[str, float], most: int) -> Neighbours:
        """As `Reader.neighbours`: typed edges in both directions, and mentions of entities."""
        numbers = [int(node) for node in ids if _is_number(node)]
        self.score(scores)
        rows = self.asked(_NEIGHBOURS, numbers, most=most)
        links = tuple(
            Link(str(origin), str(target), relation, forward, confidence, note)
            for origin, target, relation, forward, confidence, note, _ in rows
        )
        return Neighbours(links, {str(row[0]): row[6] for row in rows if row[6] > most})

    def fields(self, ids: Collection[str]) -> dict[str, Fields]:
        """As `Reader.fields`: project and author of a memory, and what its source says of it beside its text."""
        return {node: fields for node in ids if (memory := self._memories.get(node)) and (fields := _fields(memory))}

    def search(self, topic: str, limit: int) -> dict[str, float]:
        """As `Reader.search`; by words alone where the embedder is away."""
        from memory_assets.recall.search import search
        from memory_assets.stores.filters import Filters

        if not self._tenant.memories.exists:
            return {}
        try:
            hits = search(self._tenant, topic, limit=limit)
        except EmbedderError as error:
            self.warnings.append(f"Meaning was not compared: {error}")
            rows = self._tenant.memories.matching(topic, limit, Filters())
            best = max(rows["score"].to_pylist(), default=1.0)
            found = {str(row["id"]): row["score"] / best for row in rows.select(["id", "score"]).to_pylist()}
        else:
            if not any(map(_fits, hits)):
                return {}
            self._memories |= {str(hit.memory.id): hit.memory for hit in hits}
            found = {str(hit.memory.id): hit.score for hit in hits}
        self._found |= found
        return found

    def similarities(self, topic: str, nodes: Sequence[Node]) -> dict[str, float] | None:
        """As `Reader.similarities`: a search's score, the cosine of what it did not find, the shared words of what is no memory."""
        import numpy as np

        store = self._tenant.memories
        column = store.columns.live if store.exists else None
        if column is None:
            return None
        try:
            vector = self._tenant.with_embedder(lambda embedder: embedder.embed([topic], "query")[0])
        except EmbedderError:
            return None
        memories = [node.id for node in nodes if node.category is Category.MEMORY and node.id not in self._found]
        rows = store.scan(("id", column), f"id IN ({', '.join(memories)})" if memories else "false")
        vectors = rows[column].combine_chunks().flatten().to_numpy().reshape(-1, len(vector))
        cosines = np.clip(vectors @ vector, 0.0, 1.0) * _BEYOND_SEARCH
        found = dict(zip(map(str, rows["id"].to_pylist()), cosines.tolist(), strict=True)) | self._found
        asked = stems(topic)
        return {
            node.id: found.get(node.id, 0.0) if node.category is Category.MEMORY else shared(asked, f"{node.name} {node.content}")
            for node in nodes
        }

    def named(self, topic: str) -> list[Candidate]:
        """As `Reader.named`: entities by every spelling, patterns by label, memories by title; those in the topic's words too."""
        spoken = f" {' '.join(words(topic))} "
        parameters = {
            "topic": topic,
            "words": spoken,
            "fuzzy": len(topic) <= LONGEST_NAME,
            "shortest": _SHORTEST_NAMED,
        }
        rows = self.rows(_NAMED, parameters)
        return [
            Candidate(str(number), name, (kind,) if kind else (), category == "entity") for number, name, category, kind in rows
        ]

    def newest(self, node: str) -> str:
        """As `Reader.newest`."""
        seen = {node}
        while _is_number(node):
            self._read([int(node)])
            memory = self._memories.get(node)
            if memory is None or memory.superseded_by is None or str(memory.superseded_by) in seen:
                break
            node = str(memory.superseded_by)
            seen.add(node)
        return node

    def history(self, ids: Collection[str]) -> dict[str, tuple[Node, ...]]:
        """As `Reader.history`: at most five older versions of each memory."""
        heads = {int(node): node for node in ids if node in self._memories}
        older: dict[str, list[Memory]] = {}
        for _ in range(_OLDER_VERSIONS):
            if not heads:
                break
            replaced = f"superseded_by IN ({', '.join(map(str, heads))}) AND state = '{State.SUPERSEDED.value}'"
            before = self._tenant.memories.get(self._tenant.memories.scan(("id",), replaced)["id"].to_pylist())
            following = {}
            for memory in before:
                head = heads[memory.superseded_by or 0]
                older.setdefault(head, []).append(memory)
                following[memory.id] = head
            heads = following
        return {
            head: tuple(_told(memory) for memory in sorted(versions, key=lambda memory: memory.updated_at, reverse=True))[
                :_OLDER_VERSIONS
            ]
            for head, versions in older.items()
        }

    @property
    def _connection(self) -> "DuckDBPyConnection":
        if self._catalog is None:
            from memory_assets.stores.catalog import Catalog

            catalog = self._tenant.catalog
            try:
                self._catalog = self._open.enter_context(Catalog(str(catalog.path), min(catalog.lock_timeout, _PATIENCE)).read())
            except StoreBusyError:
                self.warnings.append("The graph was not walked: another process is writing it; ask again in a moment.")
                self._catalog = self._open.enter_context(Catalog(f"{catalog.path}.absent", 0).read())
        return self._catalog

    def rows(self, query: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """The rows of a query of the catalog."""
        return self._connection.execute(query, parameters).fetchall()

    def asked(self, query: str, ids: Collection[int] | Collection[str], **parameters: Any) -> list[tuple[Any, ...]]:
        """The rows of a query over the table `asked` of ids."""
        import pyarrow as pa

        if not ids:
            return []
        kind = pa.string() if any(isinstance(node, str) for node in ids) else pa.int64()
        self._connection.register("asked", pa.table({"id": pa.array(list(ids), kind)}))
        return self.rows(query, parameters or None)

    def score(self, scores: Mapping[str, float]) -> None:
        """Make similarities to the topic known to queries, as the table `scored` of ids and scores."""
        import pyarrow as pa

        columns = {"id": pa.array(list(scores), pa.string()), "score": pa.array(list(scores.values()), pa.float64())}
        self._connection.register("scored", pa.table(columns))

    def things(self, names: Collection[str]) -> dict[str, list[str]]:
        """Ids of entities by lower-case name, in any spelling that is known."""
        query = """
            SELECT DISTINCT lower("text"), entity_id FROM graph_aliases SEMI JOIN asked ON lower("text") = asked.id
            UNION SELECT lower(label), id FROM graph_nodes SEMI JOIN asked ON lower(label) = asked.id WHERE kind = 'entity'
        """
        found: dict[str, list[str]] = {}
        for name, number in self.asked(query, [name.lower() for name in names]):
            found.setdefault(name, []).append(str(number))
        return found

    def _read(self, numbers: Sequence[int]) -> None:
        if numbers and self._tenant.memories.exists:
            self._memories |= {str(memory.id): memory for memory in self._tenant.memories.get(numbers)}


def shared(asked: Collection[str], text: str) -> float:
    """The share of the topic's words that a text holds."""
    return len(stems(text) & frozenset(asked)) / len(asked) if asked else 0.0


def _fits(hit: "Hit") -> bool:
    """Whether a hit has a word of the topic, or is near it in meaning; of words that nothing fits something is nearest, too."""
    measured = {part.name: part.raw or 0.0 for part in hit.components}
    return measured.get("content", 0.0) > 0 or measured.get("vector", 0.0) > _NEAR


def _is_number(node: str) -> bool:
    return node.isascii() and node.isdigit() and len(node) <= 16


def _thing(number: int, kind: str, label: str, type_: str, summary: str, size: int, mentions: int) -> Node:
    if kind == "pattern":
        return Node(str(number), label, Category.PATTERN, "pattern", f"{summary} ({size} memories)" if summary else "")
    content = f"Named in {mentions} {'memory' if mentions == 1 else 'memories'}."
    return Node(str(number), label, Category.ENTITY, type_.casefold() or "name", content)


def _told(memory: Memory) -> Node:
    created = None if "created_at" in memory.metadata.get("guessed", ()) else memory.created_at
    content = " ".join(memory.content[: 4 * _NAME_LENGTH].split())
    return Node(
        str(memory.id),
        memory.title or (content if len(content) <= _NAME_LENGTH else f"{content[: _NAME_LENGTH - 1]}…"),
        Category.MEMORY,
        memory.kind.value,
        memory.content,
        memory.tags,
        created,
        created,
        titled=bool(memory.title),
        source=memory.source_key or memory.source.value,
    )


def _fields(memory: Memory) -> Fields:
    given: dict[str, Any] = dict(memory.metadata)
    for key in _NESTED:
        nested = given.pop(key, None)
        given |= nested if isinstance(nested, dict) else {}
    found = {"project": memory.project.rstrip("/").rpartition("/")[2], "author": memory.author}
    found |= {key: str(value) for key, value in given.items() if key not in _INTERNAL and isinstance(value, str | int | float)}
    return tuple((name, (value,)) for name, value in found.items() if value)
