"""The registry of schemas: every LanceDB and DuckDB table with its columns, their types, meanings and keys.

Arrow schemas, DDL, checks and the reference page are generated from it. `stores/migrations.py` brings the catalog of an earlier
release to this schema.
"""

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from duckdb import DuckDBPyConnection

VERSION_FACT = "memory_assets:schema_version"
VERSION = "1"
PRIMARY_KEY = "lance-schema:unenforced-primary-key"
"""Metadata of a LanceDB key: of two concurrent inserts of one key, LanceDB retries the later one as an update."""


class Type(Enum):
    """A column's type, as DuckDB names it."""

    TEXT = "VARCHAR"
    TEXTS = "VARCHAR[]"
    INTEGER = "BIGINT"
    COUNT = "INTEGER"
    UNSIGNED = "UBIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    BOOLEAN = "BOOLEAN"
    TIME = "TIMESTAMPTZ"
    ENTITIES = 'STRUCT("text" VARCHAR, "type" VARCHAR)[]'

    def arrow(self) -> "pa.DataType":
        import pyarrow as pa

        entity = pa.struct([("text", pa.string()), ("type", pa.string())])
        return {
            Type.TEXT: pa.string(),
            Type.TEXTS: pa.list_(pa.string()),
            Type.INTEGER: pa.int64(),
            Type.COUNT: pa.int32(),
            Type.UNSIGNED: pa.uint64(),
            Type.FLOAT: pa.float32(),
            Type.DOUBLE: pa.float64(),
            Type.BOOLEAN: pa.bool_(),
            Type.TIME: pa.timestamp("us", tz="UTC"),
            Type.ENTITIES: pa.list_(entity),
        }[self]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    name: str
    type: Type
    meaning: str
    default: str = ""
    """An SQL expression; empty for no default."""

    def ddl(self) -> str:
        default = f" DEFAULT {self.default}" if self.default else ""
        return f'"{self.name}" {self.type.value}{default}'


@dataclass(frozen=True, slots=True)
class Table:
    """A table."""

    name: str
    store: Literal["LanceDB", "DuckDB"]
    meaning: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    is_derived: bool = True
    """Whether a run can rebuild its rows."""

    def column(self, name: str) -> Column:
        return next(each for each in self.columns if each.name == name)

    def arrow(self, *names: str, facts: "Mapping[str, str] | None" = None) -> "pa.Schema":
        """Return the Arrow schema of the named columns, or of all, in the table's order; LanceDB keys carry `facts` as metadata."""
        import pyarrow as pa

        return pa.schema(
            [
                pa.field(column.name, column.type.arrow(), nullable=False, metadata={PRIMARY_KEY: "true", **(facts or {})})
                if self.store == "LanceDB" and column.name in self.key
                else pa.field(column.name, column.type.arrow())
                for column in self.columns
                if not names or column.name in names
            ]
        )

    def merge(self, rows: str) -> str:
        """Return SQL that inserts the rows of a table or query and replaces rows with the same key."""
        on = ", ".join(f'"{name}"' for name in self.key)
        update = "" if len(self.key) == len(self.columns) else "WHEN MATCHED THEN UPDATE BY NAME"
        given = f"SELECT DISTINCT ON ({on}) * FROM ({rows})"
        return f"MERGE INTO {self.name} USING ({given}) AS given USING ({on}) {update} WHEN NOT MATCHED THEN INSERT BY NAME"

    def delete(self, rows: str) -> str:
        """Return SQL that deletes the rows whose key occurs in a table or query."""
        same = " AND ".join(f'{self.name}."{name}" = given."{name}"' for name in self.key)
        return f"DELETE FROM {self.name} USING ({rows}) AS given WHERE {same}"

    def ddl(self, *, keyed: bool = True) -> str:
        """Return SQL that creates the table; `keyed` makes the catalog enforce the key, which DuckLake cannot do."""
        parts = [column.ddl() for column in self.columns]
        if self.key and keyed:
            parts.append("PRIMARY KEY ({})".format(", ".join(f'"{name}"' for name in self.key)))
        return f"CREATE TABLE {self.name} ({', '.join(parts)})"


_REGISTRY = """
memories (LanceDB): The memories, one row each. Each embedder adds two vector columns: `embedding_<digest>` of the text with its
heading, which searches compare, and `meaning_<digest>` of the text alone, by which memories are compared with each other.
    id*            integer   Unique across processes, below 2^53, so that JSON carries it.
    content        text      The text.
    title          text      A heading, or empty.
    kind           text      What the memory is about: user, feedback, project, reference, pattern, insight, note, ...
    tags           texts     Tags given by a person, then automatic ones.
    entities       entities  Names in the text, with their types.
    actions        texts     Lemmas of its verbs.
    links          texts     Targets of its `[[name]]` links.
    source         text      The source or interface through which the memory came.
    source_key     text      Key of the source item; empty if the memory was stored directly.
    project        text      The project or working directory that the memory belongs to.
    session        text      The session in which the memory was created.
    author         text      Who wrote or said the text.
    external_id    text      Its id in another system.
    created_at     time      When the text was written or said.
    updated_at     time      When the row was last written. Every write sets it; the change feed reads rows by it.
    importance     float     0 to 1.
    confidence     float     0 to 1.
    protected      boolean   If true, no sleep cycle archives or deletes the memory.
    state          text      active, superseded, vanished, forgotten or archived.
    superseded_by  integer   Id of the newer version.
    content_hash   text      MD5 of the text.
    revision       text      Digest of the source entry and its pipeline; an equal revision needs no update.
    metadata       text      JSON: further fields of the source.
    pipeline       text      The language pipeline that extracted entities, actions and tags.
    indexed_text   text      What the full-text index reads: heading, text, and pieces of scripts without spaces.
    wish           boolean   Whether the text states how the user wants answers to be.

relations (LanceDB): Relations between two memories, stated by a person or an agent.
    id*         integer  Derived from both memories and the type.
    source_id   integer  The memory where the relation starts.
    target_id   integer  The memory where it ends.
    type        text     A relation type, such as CONTRADICTS.
    confidence  float    0 to 1.
    note        text     The reason.
    stated_by   text     Who stated it, or through which interface.
    created_at  time     When it was last stated.

source_scans: The last scan of each source.
    source*      text   claude_silo, pai_seed or pai_learning.
    root         text   The folder or file that was scanned.
    finished_at  time   When the scan ended.
    notes        texts  Sentences for a person, such as that the source does not exist.

source_files: Files of the sources that were read. A file with an unchanged size, time and inode is not read again.
    source*   text      The source.
    path*     text      Absolute path.
    size      integer   Bytes; -1 makes the next scan read the file again.
    mtime_ns  integer   Modification time in nanoseconds since 1970.
    inode     unsigned  The file's number in its file system.
    digest    text      SHA-256 of the file; null if the whole file was refused.
    machine   text=''   Host name of the machine that read it.

source_projects: Projects that seed.json lists as active.
    source  text  The source.
    path    text  The file that lists it.
    name    text  The name of the project.

source_items: Items of the sources, as their owners wrote them, with secrets masked.
    key*         text     Stable key within a tenant, such as `claude_silo:<slug>/<file name>`.
    source       text     The source.
    path         text     The file that holds it.
    kind         text     The kind of memory.
    title        text     The title or name.
    description  text     The description of the frontmatter.
    body         text     The text.
    created_at   time     When it was written according to the source, else the file's modification time.
    tags         texts    Tags that the source states.
    links        texts    Targets of its `[[name]]` links.
    project      text     Working directory, project or slug.
    session      text     The session in which it was written.
    author       text     Who wrote it.
    importance   float    0 to 1.
    confidence   float    0 to 1.
    remember     boolean  Whether it becomes a memory; pending and rejected proposals do not.
    metadata     text     JSON: further fields of the source, and which fields are guessed.
    item_hash    text     Digest of the item without its file's time.

source_refusals: Files and parts of files that are refused.
    source    text  The source.
    path      text  The file.
    location  text  Field, line or JSON path; empty for the whole file.
    key       text  Key of the refused item, if known.
    reason    text  Why it is refused.
    mend      text  What its owner can do; empty if the file is skipped.

memory_entries: The text to store for each item that becomes a memory.
    key*          text   That of the source item.
    as source_items: source kind title
    content       text   Description, index lines and body.
    as source_items: created_at tags links project session author importance confidence metadata
    as memories: content_hash
    entry_hash    text   Digest of all inputs of the entry.
    text_hash     text   MD5 of the text without index lines; null if nothing is left.

entry_keys: Every text of an entry ever read into this catalog. A memory vanishes only if its entry is listed here.
    key*           text  That of the source item.
    content_hash*  text  MD5 of the text.
    as memory_entries: text_hash

extracted_features: What the language pipeline found in a text.
    content_hash*  text      MD5 of the text.
    pipeline       text      Name and version of the pipeline; empty if the embedder refuses the text.
    as memories: entities actions
    tags           texts     Automatic tags.
    fault          text      Why the text cannot be analysed or embedded; null if it can.

graph_memories: The memories as the graph's rules read them.
    id*            integer  The memory.
    as memories: revision state
    live           boolean  Whether it takes part in the graph.
    as memories: kind source source_key title
    label          text     Name in pictures and lists.
    as memories: session author project
    project_name   text     The project's last part.
    as memories: created_at superseded_by content_hash
    retracts       boolean  Whether the text retracts what an earlier version said.
    names          texts    Names that links use for it.
    links          texts    Targets of its links.
    refs           texts    Ids and keys that the text names.
    origins        texts    Keys of the items it was derived from.
    as memories: updated_at

graph_surfaces: Names as written in memories.
    memory_id  integer  The memory.
    text       text     The name as written.
    type       text     Its entity type.

graph_cues: Wordings that state a relation, such as a preference or a sequence.
    memory_id    integer  The memory.
    relation     text     The relation type that the wording expresses.
    target_kind  text     What the wording points to.
    target       text     The target as written.
    other        text     The second thing of a comparison.
    outgoing     boolean  Whether the edge starts at this memory.
    confidence   float    0 to 1.
    sentence     text     The sentence with the wording.

graph_statements: Sentences of memories that state something.
    memory_id*  integer  The memory.
    place*      count    Order within the memory.
    text        text     The sentence, without marks.
    about       texts    Words of the title and the heading.
    keys        texts    Prefixes of its topic's words, for lookups.
    announces   boolean  Whether it says that something changed.
    scope       text     Slug or name of the memory's project; empty for none.
    as memories: session author created_at
    said_at     time     Since when the statement holds, by its own words, else when the memory was created; null if that is guessed.

graph_changes: Pairs of statements of which the newer certainly or possibly replaces or contradicts the older.
    old_id*      integer  The memory of the older statement.
    old_place*   count    Its place there.
    old_text     text     The older statement.
    new_id*      integer  The memory of the newer statement.
    new_place*   count    Its place there.
    new_text     text     The newer statement.
    said_at      time     When the newer statement was made, or since when it holds by its own words.
    type         text     EVOLVED_INTO, INVALIDATED_BY or CONTRADICTS; RELATES_TO if the older one is only possibly replaced.
    probability  float    How likely the newer replaces the older.
    confidence   float    Confidence of the edge.
    note         text     What differs, in words for a person.

graph_aliases: Spellings of names, with the entity that each means.
    text*      text     A name as written.
    type*      text     Its entity type.
    entity_id  integer  The node of the entity.
    key        text     The normalised name.
    division   text     The group of names that are compared with each other.

graph_nodes: Nodes of the graph: memories, entities and clusters.
    id*       integer  Id of the memory, entity or cluster.
    kind      text     memory, entity or cluster.
    label     text     Its name.
    revision  text     Revision of a memory.
    type      text     Type of an entity.

graph_mentions: Entities that each memory names.
    memory_id*  integer  The memory.
    entity_id*  integer  The entity.

graph_edges: Typed edges between nodes.
    source_id*    integer    The node where the edge starts.
    target_id*    integer    The node where it ends.
    type*         text       The relation type.
    confidence    float      0 to 1.
    similarity    float      Cosine of both memories, if the rule compares memories.
    origin*       text       The rule that found the edge, or `stated`.
    evidence_id*  integer=0  The memory that gives the evidence; 0 if there is none.
    note          text       The reason in words.

memory_access (kept): How often and when each memory was recalled.
    id*       integer  The memory.
    last_at   time     When it was last recalled.
    accesses  integer  Number of recalls.

access_offsets (kept): Position up to which each segment of the access log is folded into `memory_access`.
    segment*  text     File name of the segment.
    offset    integer  Bytes that are folded in.

relevance_scores: The relevance of each active memory, with its parts.
    id             integer  The memory.
    decay          double   Freshness, 0 to 1.
    access         double   Contribution of recalls.
    density        double   Contribution of its edges.
    importance     double   0 to 1.
    confidence     double   0 to 1.
    relevance      double   The product, 0 to 1.
    fresh_at       time     The time from which the memory ages.
    accessed_at    time     When it was last recalled.
    accesses       integer  Number of recalls.
    edges          integer  Number of its edges.
    fresh_because  text     Why it counts as fresh.
    computed_at    time     The day for which the score was computed.
    lasting        double   The value that is compared with the archive threshold.

creative_links (kept): Links that the creative cycle found.
    source_id*  integer  One memory.
    target_id*  integer  The other memory.
    type        text     The relation type.
    similarity  float    Cosine of both.
    week        text     ISO week of the cycle.
    found_at    time     When it was found.

clusters: Groups of memories on one theme.
    id*         integer  The node of the cluster.
    label       text     Its name.
    summary     text     Summary of its memories.
    size        count    Number of its memories.
    cohesion    float    Mean similarity within it.
    first_seen  time     When it was first found.
    updated_at  time     When it last changed.

cluster_members: The cluster of each memory.
    memory_id*  integer  The memory.
    cluster_id  integer  The cluster.
    closeness   float    Similarity to the cluster's centre.

analyzed_memories: Memories that the chat model has analysed.
    memory_id*    integer  The memory.
    content_hash  text     MD5 of the text that it analysed.
    model         text     The chat model.

analyzer_links: Relations that the chat model found.
    memory_id   integer  The memory that it analysed.
    as relations: source_id target_id type confidence
    note        text     The reason, in the model's words.

source_hooks: Lines of an index, such as MEMORY.md, about one of its files.
    source  text  The source.
    path    text  The index.
    target  text  Key of the file's item.
    hook    text  The line.

graph_builds: The current build of the graph, in one row.
    lineage       integer  Random number of the catalog, drawn with its first build.
    number        integer  Number of the build; it grows with every change.
    logged_since  integer  The oldest build after which the touched nodes are known.

graph_touched: Nodes that each of the last builds changed.
    build  integer  Number of the build.
    node   integer  The node.

graph_position: Position up to which the last build has read memories and relations, in one row.
    version         integer  The LanceDB version up to which the memories are read.
    read_at         time     The reader's clock just before.
    basis           text     The other inputs of the result; if they change, everything is read again.
    names           text     Digest of the spellings that decide which names mean the same entity.
    stated_version  integer  The LanceDB version of the relations.

memory_first_seen (kept): When the scores first saw each memory; retention in months counts from then.
    id*      integer  The memory.
    seen_at  time     When it was first seen.

analyzer_failures: Memories that the chat model failed to analyse.
    memory_id*    integer  The memory.
    as analyzed_memories: content_hash model
    attempts      count    Number of failed attempts.
    failure       text     The last error.
    failed_at     time     When it last failed.

scored_memories: Memories as the last scoring pass read them.
    id          integer  The memory.
    as memories: state kind source_key created_at importance confidence protected updated_at

scored_position: Position up to which the last scoring pass has read, in one row.
    as graph_position: version read_at basis
    lineage  integer  Lineage of the graph build that it used.
    build    integer  Number of that build.

tana_workspaces: Workspaces of Tana that are read.
    id*      text  Tana's id.
    name     text  Its name.
    since    time  When it was first read.
    read_at  time  When it was last read.

tana_nodes: Nodes of Tana as they were last read.
    id*          text   Tana's id.
    workspace    text   Id of its workspace.
    name         text   Its name.
    description  text   Its description.
    tags         texts  Names of its supertags.
    created      time   When it was created.
    modified     time   When it was last edited.
    children     count  Number of its children.
    read_at      time   When its page was read; null makes the next scan read it.
    skipped      text   Why its page could not be read.

tana_links: Links between nodes of Tana.
    source    text   The node that holds the link.
    target    text   The node that it points to.
    relation  text   CHILD, a field or an inline reference.
    label     text   Name of the field.
    place     count  Order within the node.

tana_fields: Fields of nodes of Tana that hold text.
    node   text   The node.
    name   text   Name of the field.
    place  count  Order within the node.
    value  text   The field's text.

tana_activity: Learnings that stay fresh because of activity on linked nodes in Tana.
    source_key*  text  Key of the learning.
    active_at    time  The latest activity.
    because      text  The node with that activity.

analyzer_news: Memories whose links by the chat model changed after the last build.
    memory_id  integer  The memory.
    noted      integer  When the change was noted, in nanoseconds since 1970.
"""
"""One paragraph for each table: its name and meaning, then each column with its type (`=` and a default) and meaning. `*` marks the key.
A line that begins with `as` copies columns of an earlier table.

Tables belong to the catalog and are derived, except those marked `LanceDB` and `kept`.
"""


def _table(paragraph: str) -> Table:
    header = " ".join(line for line in paragraph.splitlines() if not line.startswith(" "))
    title, meaning = header.split(": ", 1)
    name, _, mark = title.partition(" ")
    columns, key = [], []
    for line in (line for line in paragraph.splitlines() if line.startswith(" ")):
        column, kind, about = line.split(None, 2)
        if column == "as":
            columns += [_BY_NAME[kind.rstrip(":")].column(each) for each in about.split()]
            continue
        typed, _, default = kind.partition("=")
        columns.append(Column(column.rstrip("*"), Type[typed.upper()], about, default))
        key += [column.rstrip("*")] if column.endswith("*") else []
    return Table(name, "LanceDB" if mark == "(LanceDB)" else "DuckDB", meaning, tuple(columns), tuple(key), not mark)


_BY_NAME: dict[str, Table] = {}
for _paragraph in _REGISTRY.strip().split("\n\n"):
    _made = _table(_paragraph)
    _BY_NAME[_made.name] = _made
TABLES = tuple(_BY_NAME.values())
LANCE_TABLES = MEMORIES, RELATIONS = TABLES[:2]
CATALOG_TABLES = TABLES[2:]
UNDERIVED = tuple(table.name for table in CATALOG_TABLES if not table.is_derived)
"""Tables of the catalog that no run can rebuild. None of them holds a text."""


def table(name: str) -> Table:
    """Return the table with this name."""
    return _BY_NAME[name]


def is_lake(connection: "DuckDBPyConnection") -> bool:
    """Return whether a catalog is in DuckLake, which enforces no keys."""
    return connection.execute("SELECT current_database() LIKE 'lake%'").fetchall() == [(True,)]
