"""Shared data classes: memories, source items, scans. They are frozen and not validated; input is validated where it enters."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

TENANT_PATTERN = r"^[a-z](?:[a-z0-9_-]{0,61}[a-z0-9])?$"
"""Names that are safe as folders: no path tricks, no look-alikes, no case clashes."""
MAX_CONTENT_LENGTH = 7_500
"""Longest stored memory, in characters."""
MAX_IMPORTED_LENGTH = 1 << 20
"""Longest imported memory, in characters: as long as a source file may be, so that every export can be imported."""
LAST_CHANGE = "last_change"
"""Metadata key under which `operations.changes` records the last change of a memory."""
REVISES = "revises"
"""Metadata key of a memory that an edit wrote: the id of the memory that it corrects."""
MACHINE = "machine"
"""Metadata key: host name of the machine that first stored the text; an import keeps the name that its line gives."""
USERS = frozenset({"user", "human", "me"})
ASSISTANTS = frozenset({"assistant", "ai", "bot", "agent", "model", "system"})
"""Authors that name a side of a conversation rather than a person."""


class Source(StrEnum):
    """Where a memory was first written."""

    CLAUDE_SILO = "claude_silo"
    PAI_SEED = "pai_seed"
    PAI_LEARNING = "pai_learning"
    CLI = "cli"
    HTTP = "http"
    MCP = "mcp"
    IMPORT = "import"


class Kind(StrEnum):
    """What a memory is about: Claude Code's four types, pai-seed's three, session summaries and others."""

    USER = "user"
    FEEDBACK = "feedback"
    PROJECT = "project"
    REFERENCE = "reference"
    PATTERN = "pattern"
    INSIGHT = "insight"
    SELF_KNOWLEDGE = "self_knowledge"
    PROPOSAL = "proposal"
    RATING = "rating"
    REFLECTION = "reflection"
    SESSION = "session"
    NOTE = "note"


STANDING_KINDS = frozenset({Kind.USER, Kind.FEEDBACK, Kind.SELF_KNOWLEDGE})
"""Kinds that apply to every session, and that age alone never archives."""
OF_EVERY_PROJECT = (Kind.USER,)
"""Kinds that belong to every project: facts about a person."""


class State(StrEnum):
    """Whether a memory takes part in recall, and if not, why not."""

    ACTIVE = "active"
    SUPERSEDED = "superseded"
    VANISHED = "vanished"
    FORGOTTEN = "forgotten"
    ARCHIVED = "archived"


class SecretPolicy(StrEnum):
    """What happens to a text that contains keys or passwords."""

    MASK = "mask"
    """Stored with each secret replaced by its kind."""
    REFUSE = "refuse"
    ALLOW = "allow"
    """Stored unchanged."""


class RelationType(StrEnum):
    """Type of a relation from one memory to another."""

    RELATES_TO = "RELATES_TO"
    LEADS_TO = "LEADS_TO"
    OCCURRED_BEFORE = "OCCURRED_BEFORE"
    PREFERS_OVER = "PREFERS_OVER"
    EXEMPLIFIES = "EXEMPLIFIES"
    CONTRADICTS = "CONTRADICTS"
    REINFORCES = "REINFORCES"
    INVALIDATED_BY = "INVALIDATED_BY"
    EVOLVED_INTO = "EVOLVED_INTO"
    DERIVED_FROM = "DERIVED_FROM"
    PART_OF = "PART_OF"
    SHARES_THEME = "SHARES_THEME"

    @classmethod
    def _missing_(cls, value: object) -> "RelationType | None":
        return cls.__members__.get(str(value).upper())


REPLACING = (RelationType.EVOLVED_INTO, RelationType.INVALIDATED_BY)
"""Types of relations from an outdated memory to the current one."""


@dataclass(frozen=True, slots=True)
class Entity:
    """A name in a memory, as written, and its type, such as PERSON, ORG, LOC, PRODUCT, PROJECT or FILE."""

    text: str
    type: str


@dataclass(frozen=True, slots=True)
class Features:
    """What the language pipeline finds in one text."""

    entities: tuple[Entity, ...] = ()
    actions: tuple[str, ...] = ()
    """Lemmas of its verbs, each once, in order."""
    tags: tuple[str, ...] = ()
    """Normalised auto-tags, at most five."""


@dataclass(frozen=True, slots=True)
class FileStamp:
    """Size, time and inode of a file from `stat`; a file with an unchanged stamp is not read again."""

    size: int
    mtime_ns: int
    inode: int


@dataclass(frozen=True, slots=True)
class SourceItem:
    """One entry of a source, as its owner wrote it; most become memories."""

    source: Source
    key: str
    """Stable identity within a tenant, e.g. `claude_silo:<slug>/<file name>` or `pai_seed:<entry id>`."""
    kind: Kind
    body: str
    title: str = ""
    description: str = ""
    created_at: datetime | None = None
    """When the owner says it was written, in UTC with a time zone; None if only the file's time is known."""
    tags: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    """Targets of `[[name]]` links in the body."""
    project: str = ""
    """Its working directory, project or slug."""
    session: str = ""
    author: str = ""
    importance: float = 0.5
    confidence: float = 1.0
    remember: bool = True
    """False for items that are only listed: pending and rejected proposals."""
    metadata: dict[str, Any] = field(default_factory=dict)
    """JSON-safe: unknown frontmatter and keys; `guessed` lists fields that the owner did not state."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A file, or a part of one, that was not ingested, and why."""

    source: Source
    path: str
    reason: str
    mend: str
    """What its owner can do; empty if the file is skipped on purpose."""
    location: str = ""
    """Field, line or JSON path; empty for the whole file."""
    key: str | None = None
    """Key of the refused item, if it is known; None refuses the whole file."""

    @property
    def passed_over(self) -> bool:
        """Whether the file is skipped on purpose. Its memories then leave recall; those of a file that needs a mend stay."""
        return not self.mend


@dataclass(frozen=True, slots=True)
class Hook:
    """A line of an index file that describes one of its files."""

    target: str
    """Key of the file's item; there may be no such file."""
    text: str


@dataclass(frozen=True, slots=True)
class FileScan:
    """Content of a file that was read because its stamp is new."""

    path: str
    stamp: FileStamp
    items: tuple[SourceItem, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    hooks: tuple[Hook, ...] = ()
    projects: tuple[str, ...] = ()
    """Names of the projects that the file calls active."""
    digest: str | None = None
    """SHA-256 of its content; None if it was refused as a whole."""


@dataclass(frozen=True, slots=True)
class Scan:
    """One pass over a source."""

    source: Source
    root: str
    changed: tuple[FileScan, ...] = ()
    unchanged: tuple[str, ...] = ()
    """Paths whose stamp equals the known one; they were not read."""
    unreadable: tuple[str, ...] = ()
    """Folders that are missing or cannot be listed; the memories from files below them stay."""
    notes: tuple[str, ...] = ()
    """Sentences for a person, such as that the source does not exist."""


@dataclass(frozen=True, slots=True)
class NewMemory:
    """A memory that a person or an agent asks to store."""

    content: str
    source: Source
    kind: Kind = Kind.NOTE
    title: str = ""
    tags: tuple[str, ...] = ()
    created_at: datetime | None = None
    """Has a time zone; None means now."""
    id: int | None = None
    """None lets the store choose."""
    external_id: str = ""
    project: str = ""
    session: str = ""
    author: str = ""
    importance: float = 0.5
    confidence: float = 1.0
    protected: bool = False
    state: State = State.ACTIVE
    source_key: str = ""
    superseded_by: int | None = None
    links: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)


def is_time_guessed(metadata: Mapping[str, Any]) -> bool:
    """Whether a memory's time is a guess, by its metadata, of which an import may bring any JSON."""
    return "created_at" in str(metadata.get("guessed"))


@dataclass(frozen=True, slots=True)
class Memory:
    """One row of the `memories` table, without its embedding."""

    id: int
    content: str
    kind: Kind
    source: Source
    source_key: str
    """Key of its source item, unique on its machine among memories that are not superseded; empty if it was stored directly."""
    created_at: datetime
    updated_at: datetime
    title: str = ""
    tags: tuple[str, ...] = ()
    entities: tuple[Entity, ...] = ()
    actions: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    project: str = ""
    session: str = ""
    author: str = ""
    external_id: str = ""
    """Its id in another system."""
    importance: float = 0.5
    confidence: float = 1.0
    protected: bool = False
    state: State = State.ACTIVE
    superseded_by: int | None = None
    """Id of the memory that replaced this one."""
    content_hash: str = ""
    revision: str = ""
    """Digest of the source entry and its features; an equal revision needs no update."""
    metadata: dict[str, Any] = field(default_factory=dict)
    pipeline: str = ""
    """Name and version of the language pipeline that extracted its entities, actions and tags."""


class TextVectors(NamedTuple):
    """Unit vectors of some texts, each array of shape (n, dimension)."""

    meanings: "npt.NDArray[np.float32]"
    """Vectors of the texts alone, to compare memories."""
    in_context: "npt.NDArray[np.float32]"
    """Vectors of the texts with who, when and where, to search."""
