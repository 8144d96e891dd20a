"""The tools that an assistant may call: each is the model of its arguments, and answers with what its command prints.

What a tool is told costs an assistant tokens in every session. So descriptions are short, and say when to call it and when not.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_snake

from memory_assets.display import visible
from memory_assets.errors import InvalidInputError
from memory_assets.models import Kind, NewMemory, RelationType, Source
from memory_assets.operations.answers import Answer, LocalTime
from memory_assets.operations.given import Narrowing, parse_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from memory_assets.sources.projects import Project
    from memory_assets.tenants import Tenant

INIT_TOKENS = 600
LIST_TOKENS = 800
SHOWN_TOKENS = 4_000

Limit = Annotated[int, Field(ge=1, le=100)]
MaxTokens = Annotated[int, Field(ge=50)]
Everywhere = Annotated[bool, Field(description="In all projects.")]
KindName = Annotated[Kind, WithJsonSchema({"type": "string", "enum": list(Kind)})]


@dataclass(frozen=True, slots=True)
class Session:
    """Whose memory an assistant speaks with, and from where."""

    tenant: "Tenant"
    here: "Project | None"
    """The project at hand; None where there is none, and everything is at hand."""
    may_name_files: bool = True
    """Whether who asks sits at this machine, so that a call may name files of it."""
    describe_error: "Callable[[Exception], str]" = str
    """What an error tells who asks."""

    def text(self, answer: Answer, timezone: str | None = None, **shown: Any) -> str:
        """What the command prints of an answer; `shown` goes to its text form."""
        return visible(answer.text(LocalTime.of(self.tenant.settings, timezone), **shown))

    def scope(self, everywhere: bool) -> "Project | None":
        """Where to look."""
        return None if everywhere else self.here


class Tool(BaseModel, ABC):
    """A tool, as a call of it with its arguments. What its class is said to do is what the assistant is told."""

    model_config = ConfigDict(extra="forbid", coerce_numbers_to_str=True)

    name: ClassVar[str]
    read_only: ClassVar[bool] = True
    destructive: ClassVar[bool] = False
    asks_embedder: ClassVar[bool] = False
    """Whether it waits where the embedder does."""

    @abstractmethod
    def answer(self, session: Session) -> str:
        """Do what is asked.

        Raises:
            MemoryAssetsError: it cannot be done; the message says why, in a sentence.
        """

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """A tool is called what its class is, in snake case."""
        cls.name = to_snake(cls.__name__)

    @classmethod
    def definition(cls) -> dict[str, Any]:
        """The tool as `tools/list` tells of it."""
        return {
            "name": cls.name,
            "description": " ".join((cls.__doc__ or "").split()),
            "inputSchema": _schema(cls),
            "annotations": {
                "readOnlyHint": cls.read_only,
                **({} if cls.read_only else {"destructiveHint": cls.destructive}),
            },
        }


class Init(Tool):
    """Begin a session: the time, and what was remembered in the last day.

    Call once, unless memories were already given.
    """

    everywhere: Everywhere = False
    timezone: str | None = None

    def answer(self, session: Session) -> str:
        from memory_assets.operations.show import init

        found = init(session.tenant, session.scope(self.everywhere))
        return session.text(found, self.timezone, max_tokens=INIT_TOKENS)


class Search(Tool):
    """Find what is remembered, by meaning and words.

    Call before answering about earlier decisions, preferences, people or mistakes; not for what the code itself shows.
    Example: {"query": "why did we leave MongoDB"}
    """

    asks_embedder = True

    query: Annotated[str, Field(max_length=500, description="Empty for the newest.")] = ""
    limit: Limit = 5
    tags: list[str] = []
    kind: Annotated[Kind | None, BeforeValidator(lambda name: name or None), WithJsonSchema({"type": "string"})] = None
    entities: list[str] = []
    actions: list[str] = []
    project: Annotated[str, Field(description="Such as billing.")] = ""
    everywhere: Everywhere = False
    since: Annotated[str, Field(description="Such as 2026-03-14, yesterday or 7d.")] = ""
    until: str = ""
    bridges: Annotated[int, Field(ge=0, le=10)] = 0
    all: bool = False
    timezone: str | None = None
    max_tokens: MaxTokens = LIST_TOKENS

    def answer(self, session: Session) -> str:
        from memory_assets.operations.search import search

        narrowed = Narrowing(
            kinds=[self.kind] if self.kind else (),
            tags=self.tags,
            entities=self.entities,
            actions=self.actions,
            project=self.project,
            here=session.scope(self.everywhere or bool(self.project)),
            since=parse_time(self.since or None, "since"),
            until=parse_time(self.until or None, "until"),
        )
        found = search(session.tenant, self.query, limit=self.limit, narrowed=narrowed, bridges=self.bridges, everything=self.all)
        return session.text(found, self.timezone, max_tokens=self.max_tokens)


class TanaContext(Tool):
    """Brief yourself on a topic before a task: what is known of it and what is linked with it.

    Not for one fact: search that.
    """

    asks_embedder = True

    query: Annotated[str, Field(description="A topic, name or id.")]
    depth: Annotated[int, Field(ge=1, le=5)] = 2
    maxTokens: Annotated[int, Field(ge=1, le=100_000)] = 4_000  # noqa: N815
    lens: Annotated[str, Field(description="Or writing, coding, planning, meeting-prep.")] = "general"
    includeFields: bool = True  # noqa: N815
    format: Literal["markdown", "json"] = "markdown"

    def answer(self, session: Session) -> str:
        from memory_assets.operations.context import context

        found = context(
            session.tenant,
            [self.query],
            depth=self.depth,
            max_tokens=self.maxTokens,
            lens=self.lens,
            form=self.format,
            include_fields=self.includeFields,
        )
        return found.document


class Store(Tool):
    """Remember a lasting fact, decision, preference or correction, as soon as it comes up.

    Not for the state of the present task, and never passwords. Says what it repeats or contradicts. Example:
    {"content": "Alice owns the billing export since May 2026.", "kind": "project"}
    """

    asks_embedder = True
    read_only = False

    content: Annotated[str, Field(description="Sentences that stand alone, with names and dates; at most 7,500 characters.")]
    kind: KindName = Kind.NOTE
    tags: list[str] = []
    project: Annotated[str, Field(description="Default: this one.")] = ""

    def answer(self, session: Session) -> str:
        from memory_assets.operations.store import store

        project = self.project or (session.here.folder if session.here else "")
        given = NewMemory(self.content, Source.MCP, self.kind, tags=tuple(self.tags), project=project)
        return session.text(store(session.tenant, given))


class Show(Tool):
    """Show a memory in full.

    Call where a list shows only its beginning.
    """

    id: str
    max_tokens: MaxTokens = SHOWN_TOKENS

    def answer(self, session: Session) -> str:
        from memory_assets.operations.show import show

        return session.text(show(session.tenant, self.id), max_tokens=self.max_tokens)


class Recent(Tool):
    """List what was remembered in the last hours."""

    hours: Annotated[float, Field(gt=0, le=720)] = 24
    limit: Limit = 10
    everywhere: Everywhere = False
    timezone: str | None = None
    max_tokens: MaxTokens = LIST_TOKENS

    def answer(self, session: Session) -> str:
        from memory_assets.operations.show import recent

        narrowed = Narrowing(here=session.scope(self.everywhere))
        found = recent(session.tenant, limit=self.limit, hours=self.hours, narrowed=narrowed)
        return session.text(found, self.timezone, max_tokens=self.max_tokens)


class Update(Tool):
    """Correct what a memory says; the old text stays as history.

    Not for a new fact: store that, then supersede.
    """

    asks_embedder = True
    read_only = False
    destructive = True

    id: str
    content: Annotated[str, Field(description="The whole text from now on.")]

    def answer(self, session: Session) -> str:
        from memory_assets.operations.changes import edit

        return session.text(edit(session.tenant, self.id, self.content, source=Source.MCP))


class Supersede(Tool):
    """Say that an old memory no longer holds because of a newer one, which takes its place."""

    read_only = False
    destructive = True

    old: str
    new: str

    def answer(self, session: Session) -> str:
        from memory_assets.operations.changes import supersede

        return session.text(supersede(session.tenant, self.old, self.new))


class Forget(Tool):
    """Take a memory out of recall, when the user asks for it.

    Not for what has changed: update or supersede that.
    """

    read_only = False
    destructive = True

    id: str

    def answer(self, session: Session) -> str:
        from memory_assets.operations.changes import forget

        return session.text(forget(session.tenant, self.id))


class Erase(Tool):
    """Remove memories for good, when the user asks for exactly that; there is no way back.

    Without `confirm` it shows what would go: show that to the user first. Not for what has changed: supersede that.
    """

    read_only = False
    destructive = True

    ids: list[str] = []
    matching: Annotated[str, Field(description="All whose text holds this.")] = ""
    confirm: bool = False

    def answer(self, session: Session) -> str:
        from memory_assets.operations.erase import Chosen, erase, preview

        chosen = Chosen(self.ids, self.matching)
        return session.text(erase(session.tenant, chosen) if self.confirm else preview(session.tenant, chosen))


class Undo(Tool):
    """Take back the last change of a memory, whatever it was."""

    read_only = False
    destructive = True

    id: str

    def answer(self, session: Session) -> str:
        from memory_assets.operations.undo import undo

        return session.text(undo(session.tenant, self.id))


class Tag(Tool):
    """Give a memory tags, or take them from it."""

    read_only = False

    id: str
    add: list[str] = []
    remove: list[str] = []

    def answer(self, session: Session) -> str:
        from memory_assets.operations.changes import tag

        if not (self.add or self.remove):
            raise InvalidInputError("Name at least one tag in `add` or `remove`.")
        return session.text(tag(session.tenant, self.id, add=self.add, remove=self.remove))


class Relate(Tool):
    """State how two memories relate, where their texts do not say it."""

    read_only = False

    source: str
    relation: RelationType
    target: str
    confidence: Annotated[float, Field(ge=0, le=1)] = 1.0
    note: Annotated[str, Field(max_length=500, description="Why.")] = ""

    def answer(self, session: Session) -> str:
        from memory_assets.operations.relate import relate

        stated = relate(
            session.tenant,
            self.source,
            self.relation,
            self.target,
            confidence=self.confidence,
            note=self.note,
            stated_by=Source.MCP,
        )
        return session.text(stated)


class Health(Tool):
    """Tell whether the memory works and how much it holds.

    Call when another tool fails.
    """

    asks_embedder = True

    def answer(self, session: Session) -> str:
        from memory_assets.operations.health import health

        return session.text(health(session.tenant))


LearningType = Literal["pattern", "insight", "self_knowledge"]


class TanaPaiSync(Tool):
    """Mirror confirmed learnings of seed.json in Tana."""

    read_only = False
    destructive = True

    seedPath: str = ""  # noqa: N815
    workspace: str = ""
    dryRun: bool = False  # noqa: N815
    force: bool = False

    def answer(self, session: Session) -> str:
        from memory_assets.operations.pai import pai_sync
        from memory_assets.tana.report import SyncOptions

        if self.seedPath and not session.may_name_files:
            raise InvalidInputError(
                "`seedPath` names a file of the service's machine: leave it out, and what MEMORY_PAI_SEED names there is mirrored."
            )
        options = SyncOptions(dry_run=self.dryRun, force=self.force)
        return _json(pai_sync(session.tenant, options, seed_path=self.seedPath, workspace=self.workspace))


class TanaPaiContext(Tool):
    """Learnings about a topic, and what Tana links them to."""

    asks_embedder = True

    topic: str
    maxTokens: Annotated[int, Field(ge=1)] = 2_000  # noqa: N815
    type: LearningType | None = None
    workspace: str = ""

    def answer(self, session: Session) -> str:
        from memory_assets.operations.pai_context import pai_context
        from memory_assets.tana.activity import read_tana_activity

        read_tana_activity(session.tenant, self.workspace)
        return _json(pai_context(session.tenant, self.topic, max_tokens=self.maxTokens, kind=self.type or ""))


class TanaPaiFreshness(Tool):
    """Which learnings are stale, by confirmation and activity in Tana."""

    threshold: Annotated[int, Field(ge=0, description="Days; 0: as configured.")] = 0
    type: LearningType | None = None
    workspace: str = ""

    def answer(self, session: Session) -> str:
        from memory_assets.operations.pai_context import pai_freshness
        from memory_assets.tana.activity import read_tana_activity

        read_tana_activity(session.tenant, self.workspace)
        return _json(pai_freshness(session.tenant, threshold=self.threshold or None, kind=self.type or ""))


def _json(answer: Answer) -> str:
    """What the command prints with `--json`."""
    return visible(answer.model_dump_json(indent=2))


DAILY: tuple[type[Tool], ...] = (Init, Search, TanaContext, Store, Show, Recent, Update, Supersede, Forget, Undo, Health)
RARE: tuple[type[Tool], ...] = (Tag, Relate, Erase)
"""Offered where `MEMORY_MCP_TOOLS` is `all`."""
PAI: tuple[type[Tool], ...] = (TanaPaiSync, TanaPaiContext, TanaPaiFreshness)
"""Offered where `MEMORY_MCP_TOOLS` is `all`, or pai-seed and Tana are configured."""


def _schema(tool: type[Tool]) -> dict[str, Any]:
    """The JSON schema of a tool's arguments, without what only repeats a field's name or says that it may be left out."""
    schema = tool.model_json_schema()
    definitions = schema.pop("$defs", {})

    def plain(part: dict[str, Any]) -> dict[str, Any]:
        if "$ref" in part:
            part = part | definitions[part.pop("$ref").rpartition("/")[2]]
        if "anyOf" in part:
            (stated,) = (each for each in part["anyOf"] if each["type"] != "null")
            part = part | stated
        dropped = {"title", "anyOf", "$ref"} | ({"default"} if not part.get("default") else set())
        return {key: value for key, value in part.items() if key not in dropped}

    properties = {name: plain(part) for name, part in schema["properties"].items()} if schema.get("properties") else {}
    required = {"required": schema["required"]} if "required" in schema else {}
    return {"type": "object", "properties": properties, **required}
