"""The registry of schemas: every table of LanceDB and DuckDB with its columns, their types, meanings and keys.

Arrow schemas, DDL, checks and the reference page are made from it. How a catalog of an earlier release gets this schema is a migration
(`stores/migrations.py`).
"""

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from duckdb import DuckDBPyConnection

VERSION_FACT = "memory_assets:schema_version"
"""Fact of a LanceDB table: the version of its schema."""
VERSION = "1"
PRIMARY_KEY = "lance-schema:unenforced-primary-key"
"""Metadata of a key in LanceDB: it refuses two concurrent inserts of one key and retries the later one as an update."""


class Store(Enum):
    """Where a table lies."""

    MEMORIES = "LanceDB"
    """What is remembered."""
    CATALOG = "DuckDB"
    """What is derived."""


class Type(Enum):
    """What a column holds: the type in DuckDB."""

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
        """The type in Arrow, and so in LanceDB."""
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
    """One column of a table."""

    name: str
    type: Type
    meaning: str
    default: str = ""
    """In SQL; none where it is empty."""

    def ddl(self) -> str:
        default = f" DEFAULT {self.default}" if self.default else ""
        return f'"{self.name}" {self.type.value}{default}'


@dataclass(frozen=True, slots=True)
class Table:
    """One table."""

    name: str
    store: Store
    meaning: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    is_derived: bool = True
    """Whether a run can make its rows again."""

    def column(self, name: str) -> Column:
        return next(each for each in self.columns if each.name == name)

    def arrow(self, *names: str, facts: "Mapping[str, str] | None" = None) -> "pa.Schema":
        """The columns of these names, or all, in the table's order; those of a LanceDB key carry `facts` as metadata."""
        import pyarrow as pa

        return pa.schema(
            [
                pa.field(column.name, column.type.arrow(), nullable=False, metadata={PRIMARY_KEY: "true", **(facts or {})})
                if self.store is Store.MEMORIES and column.name in self.key
                else pa.field(column.name, column.type.arrow())
                for column in self.columns
                if not names or column.name in names
            ]
        )

    def merge(self, rows: str) -> str:
        """SQL that inserts the rows of a table or query, or replaces those that have the same key."""
        on = ", ".join(f'"{name}"' for name in self.key)
        update = "" if len(self.key) == len(self.columns) else "WHEN MATCHED THEN UPDATE BY NAME"
        given = f"SELECT DISTINCT ON ({on}) * FROM ({rows})"
        return f"MERGE INTO {self.name} USING ({given}) AS given USING ({on}) {update} WHEN NOT MATCHED THEN INSERT BY NAME"

    def delete(self, rows: str) -> str:
        """SQL that deletes the rows whose key a row of a table or query has."""
        same = " AND ".join(f'{self.name}."{name}" = given."{name}"' for name in self.key)
        return f"DELETE FROM {self.name} USING ({rows}) AS given WHERE {same}"

    def ddl(self, *, keyed: bool = True) -> str:
        """SQL that makes the table; `keyed` lets the catalog enforce its key, which DuckLake cannot."""
        parts = [column.ddl() for column in self.columns]
        if self.key and keyed:
            parts.append("PRIMARY KEY ({})".format(", ".join(f'"{name}"' for name in self.key)))
        return f"CREATE TABLE {self.name} ({', '.join(parts)})"


_REGISTRY = """
memories (LanceDB): What is remembered, one row a memory. Each embedder adds two vector columns, `embedding_<digest>` of a text
in its context, which searches compare, and `meaning_<digest>` of what the text says, by which memories are alike.
    id*            integer   Unique across processes, below 2^53, so that JSON carries it.
    content        text      The text.
    title          text      A heading, or empty.
    kind           text      What the memory is about: user, feedback, project, reference, pattern, insight, note, ...
    tags           texts     Tags that a person gave, then automatic ones.
    entities       entities  Names in the text, with their types.
    actions        texts     Lemmas of its verbs.
    links          texts     Targets of its `[[name]]` links.
    source         text      Which source or face the memory came through.
    source_key     text      Identity of the source item; empty if the memory was stored directly.
    project        text      The project or working directory that the memory belongs to.
    session        text      The session in which it was said.
    author         text      Who said it.
    external_id    text      Its id in another system.
    created_at     time      When it was said.
    updated_at     time      When the row was written last; every writer sets it, and the change feed follows it.
    importance     float     0 to 1.
    confidence     float     0 to 1.
    protected      boolean   No sleep cycle archives or deletes the memory.
    state          text      active, superseded, vanished, forgotten or archived.
    superseded_by  integer   Id of the newer version.
    content_hash   text      MD5 of the text.
    revision       text      Digest of the source entry and its pipeline; an equal revision needs no update.
    metadata       text      JSON: what the source says besides.
    pipeline       text      The language pipeline that found entities, actions and tags.
    indexed_text   text      What the full-text index reads: heading, text, and pieces of scripts without spaces.
    wish           boolean   The user says how answers should be.

relations (LanceDB): How two memories relate, as a person or an agent stated it.
    id*         integer  Derived from both memories and the type.
    source_id   integer  The memory that the relation leads from.
    target_id   integer  The memory that it leads to.
    type        text     A relation type, such as CONTRADICTS.
    confidence  float    0 to 1.
    note        text     Why.
    stated_by   text     Who stated it, or through which face.
    created_at  time     When it was stated last.

source_scans: The last scan of each source.
    source*      text   claude_silo, pai_seed or pai_learning.
    root         text   The folder or file that was scanned.
    finished_at  time   When.
    notes        texts  Sentences for a person, such as that the source does not exist.

source_files: Every file of a source that was read; an equal stamp means that it need not be read again.
    source*   text      The source.
    path*     text      Absolute path.
    size      integer   Bytes; -1 makes the next scan read the file again.
    mtime_ns  integer   Modification time in nanoseconds since 1970.
    inode     unsigned  The file's number in its file system.
    digest    text      SHA-256 of the file; null where it was refused as a whole.
    machine   text=''   Host name of the machine that read it.

source_projects: The projects that seed.json calls active.
    source  text  The source.
    path    text  The file that says it.
    name    text  The name of the project.

source_items: What the sources say, as their owners wrote it and with secrets masked.
    key*         text     Stable identity within a tenant, such as `claude_silo:<slug>/<file name>`.
    source       text     The source.
    path         text     The file that says it.
    kind         text     The kind of memory.
    title        text     The title or name.
    description  text     The description of the frontmatter.
    body         text     The text.
    created_at   time     When the source says it was written, else the time of its file.
    tags         texts    Tags that the source states.
    links        texts    Targets of its `[[name]]` links.
    project      text     Working directory, project or slug.
    session      text     The session in which it was written.
    author       text     Who wrote it.
    importance   float    0 to 1.
    confidence   float    0 to 1.
    remember     boolean  Whether it becomes a memory; pending and rejected proposals do not.
    metadata     text     JSON: what the source says besides, and which fields are guessed.
    item_hash    text     Digest of the item without the time of its file.

source_refusals: Files, and parts of files, that are not taken in.
    source    text  The source.
    path      text  The file.
    location  text  Field, line or JSON path; empty for the whole file.
    key       text  Key of the refused item, if it is known.
    reason    text  Why.
    mend      text  What its owner can do; empty if the file is passed over.

memory_entries: One text for each item that is remembered.
    key*          text   That of the source item.
    as source_items: source kind title
    content       text   Description, lines of an index and body.
    as source_items: created_at tags links project session author importance confidence metadata
    as memories: content_hash
    entry_hash    text   Digest of all that the entry is made of.

entry_keys: Every text of an entry that was ever read into this catalog: a memory vanishes only with an entry that was.
    key*           text  That of the source item.
    content_hash*  text  MD5 of the text.

extracted_features: What the language pipeline found in a text.
    content_hash*  text      MD5 of the text.
    pipeline       text      Name and version of the pipeline.
    as memories: entities actions
    tags           texts     Automatic tags.
    fault          text      Why the text cannot be analysed.

graph_memories: The memories as the graph's rules read them.
    id*            integer  The memory.
    as memories: revision state
    live           boolean  Whether it takes part in the graph.
    as memories: kind source source_key title
    label          text     What pictures and lists call it.
    as memories: session author project
    project_name   text     The project's last part.
    as memories: created_at superseded_by content_hash
    retracts       boolean  Whether the text takes back what an earlier version said.
    names          texts    Names by which links mean it.
    links          texts    Targets of its links.
    refs           texts    Ids and keys that the text names.
    origins        texts    Keys of what it was derived from.
    as memories: updated_at

graph_surfaces: Names as memories write them.
    memory_id  integer  The memory.
    text       text     The name as written.
    type       text     Its entity type.

graph_cues: Wordings that state a relation, such as a preference or a sequence.
    memory_id    integer  The memory.
    relation     text     The relation type that the wording means.
    target_kind  text     What the wording points to.
    target       text     As written.
    other        text     The second thing of a comparison.
    outgoing     boolean  Whether the edge leads from this memory.
    confidence   float    0 to 1.
    sentence     text     The sentence that says it.

graph_statements: What memories say, sentence by sentence.
    memory_id*  integer  The memory.
    place*      count    Order within the memory.
    text        text     The sentence, without marks.
    about       texts    Words of the title and the heading.
    keys        texts    Beginnings of its topic's words, by which it is looked up.
    announces   boolean  Whether it says that something changed.
    scope       text     Slug or name of the memory's project; empty for none.
    as memories: session author created_at
    said_at     time     Since when the sentence says that it holds, else when the memory was said; null if that is guessed.

graph_changes: Which statement replaces or contradicts another, or perhaps does.
    old_id*      integer  The memory of the older statement.
    old_place*   count    Its place there.
    old_text     text     The older statement.
    new_id*      integer  The memory of the newer statement.
    new_place*   count    Its place there.
    new_text     text     The newer statement.
    said_at      time     When the newer statement was said, or since when it says that it holds.
    type         text     EVOLVED_INTO, INVALIDATED_BY or CONTRADICTS; RELATES_TO if it is only perhaps replaced.
    probability  float    How likely the one replaces the other.
    confidence   float    Of the edge.
    note         text     What differs, for a person.

graph_aliases: Which entity each spelling means.
    text*      text     A name as written.
    type*      text     Its entity type.
    entity_id  integer  The node of the entity.
    key        text     The name as it is compared.
    division   text     The names that are compared with each other.

graph_nodes: Nodes of the graph: memories, entities and clusters.
    id*       integer  Id of the memory, entity or cluster.
    kind      text     memory, entity or cluster.
    label     text     What it is called.
    revision  text     Of a memory, its revision.
    type      text     Of an entity, its type.

graph_mentions: Which memory names which entity.
    memory_id*  integer  The memory.
    entity_id*  integer  The entity.

graph_edges: Typed edges between nodes.
    source_id*    integer    The node that the edge leads from.
    target_id*    integer    The node that it leads to.
    type*         text       The relation type.
    confidence    float      0 to 1.
    similarity    float      Cosine of both memories, if the rule compares them.
    origin*       text       The rule that found the edge, or `stated`.
    evidence_id*  integer=0  The memory that gives the evidence; 0 if there is none.
    note          text       The reason in words.

memory_access (kept): How often and when each memory was recalled.
    id*       integer  The memory.
    last_at   time     When it was recalled last.
    accesses  integer  How often.

access_offsets (kept): How far each segment of the access log is folded into `memory_access`.
    segment*  text     File name of the segment.
    offset    integer  Bytes.

relevance_scores: The relevance of each active memory, with its parts.
    id             integer  The memory.
    decay          double   Freshness, 0 to 1.
    access         double   How much recalls add.
    density        double   How much its edges add.
    importance     double   0 to 1.
    confidence     double   0 to 1.
    relevance      double   The product, 0 to 1.
    fresh_at       time     Since when the memory ages.
    accessed_at    time     When it was recalled last.
    accesses       integer  How often it was recalled.
    edges          integer  How many edges it has.
    fresh_because  text     What keeps it fresh.
    computed_at    time     The day for which the score was computed.
    lasting        double   What the archive threshold is compared with.

creative_links (kept): Links that the creative cycle found.
    source_id*  integer  One memory.
    target_id*  integer  The other memory.
    type        text     The relation type.
    similarity  float    Cosine of both.
    week        text     The ISO week of the cycle.
    found_at    time     When.

clusters: Groups of memories on one theme.
    id*         integer  The node of the cluster.
    label       text     What it is called.
    summary     text     What its memories say.
    size        count    How many memories it has.
    cohesion    float    Mean similarity within it.
    first_seen  time     When it was found first.
    updated_at  time     When it changed last.

cluster_members: Which memory belongs to which cluster.
    memory_id*  integer  The memory.
    cluster_id  integer  The cluster.
    closeness   float    Similarity to the cluster's centre.

analyzed_memories: Which memories the chat model was asked about.
    memory_id*    integer  The memory.
    content_hash  text     MD5 of the text that it was asked about.
    model         text     The chat model.

analyzer_links: Relations that the chat model found.
    memory_id   integer  The memory that it was asked about.
    as relations: source_id target_id type confidence
    note        text     Why, in the model's words.

source_hooks: Lines of an index, such as MEMORY.md, about one of its files.
    source  text  The source.
    path    text  The index.
    target  text  Key of the file's item.
    hook    text  The line.

graph_builds: The present build of the graph, in one row.
    lineage       integer  Drawn with the first build of a catalog.
    number        integer  Counts up with every change.
    logged_since  integer  The oldest build after which the touched nodes are known.

graph_touched: Which nodes each of the last builds changed.
    build  integer  Number of the build.
    node   integer  The node.

graph_position: How far the last build has read memories and relations, in one row.
    version         integer  The LanceDB version up to which the memories are read.
    read_at         time     The reader's clock just before.
    basis           text     What the result depends on besides the memories; if it differs, all are read again.
    names           text     Digest of the spellings that decide which names are one.
    stated_version  integer  The LanceDB version of the relations.

memory_first_seen (kept): When the scores first saw a memory; what is forgotten by months goes by it.
    id*      integer  The memory.
    seen_at  time     When.

analyzer_failures: Memories that the chat model was asked about in vain.
    memory_id*    integer  The memory.
    as analyzed_memories: content_hash model
    attempts      count    How often.
    failure       text     The last error.
    failed_at     time     When.

scored_memories: The memories as the last pass of the scores read them.
    id          integer  The memory.
    as memories: state kind source_key created_at importance confidence protected updated_at

scored_position: How far the last pass of the scores has read, in one row.
    as graph_position: version read_at basis
    lineage  integer  Lineage of the build that it saw.
    build    integer  Number of that build.

tana_workspaces: Workspaces of Tana that are read.
    id*      text  Tana's id.
    name     text  Its name.
    since    time  When it was read first.
    read_at  time  When it was read last.

tana_nodes: Nodes of Tana as they were last read.
    id*          text   Tana's id.
    workspace    text   Id of its workspace.
    name         text   Its name.
    description  text   Its description.
    tags         texts  Names of its supertags.
    created      time   When it was made.
    modified     time   When it was edited last.
    children     count  How many children it has.
    read_at      time   When its page was read; null makes the next reading read it.
    skipped      text   Why its page could not be read.

tana_links: Links between nodes of Tana.
    source    text   The node that says it.
    target    text   The node that it points to.
    relation  text   CHILD, a field or an inline reference.
    label     text   Name of the field.
    place     count  Order within the node.

tana_fields: Fields of nodes of Tana that hold text.
    node   text   The node.
    name   text   Name of the field.
    place  count  Order within the node.
    value  text   What it holds.

tana_activity: Learnings that are kept fresh by what is linked to them in Tana.
    source_key*  text  Key of the learning.
    active_at    time  The latest activity.
    because      text  Of which node.

analyzer_news: Memories whose links by the chat model the next build has to read.
    memory_id  integer  The memory.
    noted      integer  When, in nanoseconds since 1970.
"""
"""A paragraph a table: its name, its meaning, then each column with its type (`=` its default) and meaning; `*` marks the key.
A line `as` names columns that are those of an earlier table.

Tables are of the catalog and derived, except those marked `LanceDB` and `kept`.
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
    return Table(name, Store.MEMORIES if mark == "(LanceDB)" else Store.CATALOG, meaning, tuple(columns), tuple(key), not mark)


_BY_NAME: dict[str, Table] = {}
for _paragraph in _REGISTRY.strip().split("\n\n"):
    _made = _table(_paragraph)
    _BY_NAME[_made.name] = _made
TABLES = tuple(_BY_NAME.values())
"""Every table of a tenant."""
LANCE_TABLES = MEMORIES, RELATIONS = TABLES[:2]
CATALOG_TABLES = TABLES[2:]
UNDERIVED = tuple(table.name for table in CATALOG_TABLES if not table.is_derived)
"""Tables of the catalog that no run could make again. None of them holds a text."""


def table(name: str) -> Table:
    """The table of this name."""
    return _BY_NAME[name]


def is_lake(connection: "DuckDBPyConnection") -> bool:
    """Whether a catalog lies in DuckLake, which enforces no keys."""
    return connection.execute("SELECT current_database() LIKE 'lake%'").fetchall() == [(True,)]


def duplicate_keys(connection: "DuckDBPyConnection") -> list[str]:
    """Keys that stand twice in a table of a catalog, a sentence each."""
    found = []
    for each in CATALOG_TABLES:
        if each.key:
            key = ", ".join(f'"{name}"' for name in each.key)
            rows = connection.execute(f"SELECT {key} FROM {each.name} GROUP BY {key} HAVING count(*) > 1 LIMIT 3").fetchall()
            found += [f"{each.name} has the key {', '.join(map(str, row))} twice." for row in rows]
    return found


def differences(expected: Table, columns: "Mapping[str, str]") -> list[str]:
    """What makes a table another than is registered, a sentence each; empty if nothing does.

    `columns` are the columns that there are -> their types, as DuckDB or Arrow names them; LanceDB's vector columns may be among them.
    """
    if not columns:
        return [f"The table {expected.name} is missing."]
    named = {
        column.name: str(column.type.arrow()) if expected.store is Store.MEMORIES else column.type.value.replace('"type"', "type")
        for column in expected.columns
    }
    missing = [f"{expected.name}.{name} is missing." for name in named if name not in columns]
    other = [
        f"{expected.name}.{name} is {columns[name]} and not {kind}."
        for name, kind in named.items()
        if name in columns and columns[name].replace('"', "") != kind.replace('"', "")
    ]
    known = ("embedding_", "meaning_") if expected.store is Store.MEMORIES else ()
    unknown = [
        f"{expected.name}.{name} is not registered." for name in columns if name not in named and not name.startswith(known)
    ]
    return missing + other + unknown


def catalog_differences(connection: "DuckDBPyConnection") -> list[str]:
    """What makes the tables of a catalog others than are registered, a sentence each; of DuckLake also keys that stand twice."""
    rows = connection.execute(
        "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal AND database_name = current_database()"
    ).fetchall()
    found: dict[str, dict[str, str]] = {}
    for name, column, kind in rows:
        found.setdefault(name, {})[column] = kind.replace("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ")
    differing = [each for expected in CATALOG_TABLES for each in differences(expected, found.get(expected.name, {}))]
    return differing or (duplicate_keys(connection) if is_lake(connection) else [])
