"""The tools that an assistant may call. Each is a function that returns the text its command prints.

The assistant reads docstrings and arguments, which cost tokens in every session: keep them short, and say when to call the tool and
when not.
"""

import inspect
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread
from typing import Annotated, Any, Literal
from weakref import WeakKeyDictionary

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, create_model

from memory_assets import operations
from memory_assets.display import visible
from memory_assets.errors import InvalidInputError, MemoryAssetsError, NewerStoreError, is_program_missing
from memory_assets.learn.brief import render_frame
from memory_assets.learn.session_queue import Ended, record_begun
from memory_assets.models import Kind, NewMemory, RelationType, Source
from memory_assets.operations.answers import Answer, LocalTime
from memory_assets.operations.arguments import Narrowing, parse_time
from memory_assets.sources.projects import Project, project_of, session_directory
from memory_assets.tenants import Tenant

INIT_TOKENS = 600
LIST_TOKENS = 800
SHOWN_TOKENS = 4_000
_PROMPT_SECONDS = 0.45
_FIRST_PROMPT_SECONDS = 1.5
"""Time for a prompt while the server loads what its search needs; Claude Code waits 2 seconds."""
_READY = Event()
_READY.set()
_NOTHING = "{}"
"""Output of a hook that adds nothing; an empty text would reach the model."""
_RESTART = "restart the session, so that Claude Code starts the server anew"
_RECALLING: "WeakKeyDictionary[Tenant, Lock]" = WeakKeyDictionary()
"""Held while a prompt of that tenant is answered."""
_REFUSED: "WeakKeyDictionary[Tenant, set[str]]" = WeakKeyDictionary()
"""Sessions that were told why that tenant recalls nothing."""

Reference = Annotated[str, Field(alias="id")]
Limit = Annotated[int, Field(ge=1, le=100)]
MaxTokens = Annotated[int, Field(ge=50)]
Everywhere = Annotated[bool, Field(description="In all projects.")]
KindName = Annotated[Kind, WithJsonSchema({"type": "string", "enum": list(Kind)})]
KindOrNone = Annotated[Kind | None, BeforeValidator(lambda name: name or None), WithJsonSchema({"type": "string"})]
LearningType = Literal["pattern", "insight", "self_knowledge"]


def describe_error(error: Exception) -> str:
    """Return the message of an error for a client on this machine."""
    if is_program_missing(error):
        return f"The program was replaced or removed since this session began; {_RESTART}."
    if isinstance(error, NewerStoreError):
        return f"A newer release wrote the memory store; {_RESTART}, or upgrade memory_assets."
    return str(error)


@dataclass(slots=True)
class Session:
    """The tenant and the context of an assistant's calls."""

    tenant: Tenant
    here: Project | None
    """The current project; None searches all projects."""
    may_name_files: bool = True
    """Whether the client runs on this machine, so that a call may name its files."""
    on_written: Callable[[Path], object] = lambda _path: None
    """Called with each file that the assistant wrote."""
    is_ready: Event = _READY
    """Set once the server has loaded what a prompt's search needs."""
    describe_error: Callable[[Exception], str] = describe_error
    """Returns the message of an error for the client."""
    _followed: tuple[str, ...] = field(default=(), init=False)
    """Id, transcript and working directory of Claude Code's session at its last prompt."""

    @property
    def all_tools(self) -> bool:
        """Whether the rare tools are offered, too."""
        return self.tenant.settings.mcp_tools == "all"

    def follow(self, session: str, transcript: str, working: str) -> None:
        """Make the project of Claude Code's session the current one, after `/cd` moved it, and record where its transcript is."""
        given = (session, transcript, working)
        if given == self._followed or not self.may_name_files:
            return
        self._followed = given
        with suppress(OSError, ValueError, RuntimeError):  # RuntimeError: a loop of links
            if (directory := session_directory(Path(transcript), Path(working))) is None:
                return
            self.here = project_of(directory)
            if session and self.tenant.settings.session_summary == "on" and self.tenant.folder.is_dir():
                record_begun(self.tenant.folder, Ended(session, transcript, self.here.folder if self.here else ""))

    def text(self, answer: Answer, timezone: str | None = None, **shown: Any) -> str:
        """Return an answer as its command prints it; `shown` goes to its text form."""
        local = replace(LocalTime.of(self.tenant.settings, timezone), may_relate=self.all_tools)
        return visible(answer.text(local, **shown))

    def json(self, answer: Answer) -> str:
        return visible(answer.model_dump_json(indent=2))

    def scope(self, everywhere: bool) -> Project | None:
        return None if everywhere else self.here


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: its function, and the model of its arguments."""

    function: Callable[..., str]
    """Takes the session and the arguments; raises MemoryAssetsError with a sentence for the assistant."""
    arguments: type[BaseModel]
    read_only: bool
    destructive: bool
    asks_embedder: bool
    """Whether it may wait for the embedder."""

    @property
    def name(self) -> str:
        return self.function.__name__

    def definition(self) -> dict[str, Any]:
        """Return the tool's entry in `tools/list`."""
        changes = {} if self.read_only else {"destructiveHint": self.destructive}
        return {
            "name": self.name,
            "description": " ".join((self.function.__doc__ or "").split()),
            "inputSchema": _schema(self.arguments),
            "annotations": {"readOnlyHint": self.read_only, **changes},
        }


def tool(*, asks_embedder: bool = False, writes: bool = False, destructive: bool = False) -> Callable[[Callable[..., str]], Tool]:
    """Make a tool from a function that takes a session and the tool's arguments."""

    def decorate(function: Callable[..., str]) -> Tool:
        _, *parameters = inspect.signature(function).parameters.values()
        fields: dict[str, Any] = {
            each.name: (each.annotation, ... if each.default is each.empty else each.default) for each in parameters
        }
        arguments = create_model(function.__name__, __config__=ConfigDict(extra="forbid", coerce_numbers_to_str=True), **fields)
        return Tool(function, arguments, not writes, destructive, asks_embedder)

    return decorate


@tool()
def init(session: Session, everywhere: Everywhere = False, timezone: str | None = None) -> str:
    """Begin a session: the time, and what was remembered in the last day.

    Call once, unless memories were already given.
    """
    found = operations.show.init(session.tenant, session.scope(everywhere))
    return session.text(found, timezone, max_tokens=INIT_TOKENS)


@tool(asks_embedder=True)
def search(
    session: Session,
    query: Annotated[str, Field(max_length=500, description="Empty for the newest.")] = "",
    limit: Limit = 5,
    tags: Sequence[str] = (),
    kind: KindOrNone = None,
    entities: Sequence[str] = (),
    actions: Sequence[str] = (),
    project: Annotated[str, Field(description="Such as billing.")] = "",
    everywhere: Everywhere = False,
    since: Annotated[str, Field(description="Such as 2026-03-14, yesterday or 7d.")] = "",
    until: str = "",
    bridges: Annotated[int, Field(ge=0, le=10)] = 0,
    everything: Annotated[bool, Field(alias="all")] = False,
    timezone: str | None = None,
    max_tokens: MaxTokens = LIST_TOKENS,
) -> str:
    """Find what is remembered, by meaning and words.

    Call before answering about earlier decisions, preferences, people or mistakes; not for what the code itself shows.
    Example: {"query": "why did we leave MongoDB"}
    """
    narrowed = Narrowing(
        kinds=[kind] if kind else (),
        tags=tags,
        entities=entities,
        actions=actions,
        project=project,
        here=session.scope(everywhere or bool(project)),
        since=parse_time(since or None, "since", timezone),
        until=parse_time(until or None, "until", timezone),
    )
    found = operations.search.search(
        session.tenant, query, limit=limit, narrowed=narrowed, bridges=bridges, everything=everything
    )
    return session.text(found, timezone, max_tokens=max_tokens)


@tool(asks_embedder=True)
def tana_context(
    session: Session,
    query: Annotated[str, Field(description="A topic, name or id.")],
    depth: Annotated[int, Field(ge=1, le=5)] = 2,
    max_tokens: Annotated[int, Field(alias="maxTokens", ge=1, le=100_000)] = 4_000,
    lens: Annotated[str, Field(description="Or writing, coding, planning, meeting-prep.")] = "general",
    include_fields: Annotated[bool, Field(alias="includeFields")] = True,
    form: Annotated[Literal["markdown", "json"], Field(alias="format")] = "markdown",
) -> str:
    """Brief yourself on a topic before a task: what is known of it and what is linked with it.

    Not for one fact: search that.
    """
    found = operations.context.context(
        session.tenant, [query], depth=depth, max_tokens=max_tokens, lens=lens, form=form, include_fields=include_fields
    )
    return found.document


@tool(asks_embedder=True, writes=True)
def store(
    session: Session,
    content: Annotated[str, Field(description="Sentences that stand alone, with names and dates; at most 7,500 characters.")],
    kind: KindName = Kind.NOTE,
    tags: Sequence[str] = (),
    project: Annotated[str, Field(description="Default: this one.")] = "",
) -> str:
    """Remember a lasting fact, decision, preference or correction, as soon as it comes up.

    Not for the state of the present task, and never passwords. Says what it repeats or contradicts. Example:
    {"content": "Alice owns the billing export since May 2026.", "kind": "project"}
    """
    where = project or (session.here.folder if session.here else "")
    given = NewMemory(content, Source.MCP, kind, tags=tuple(tags), project=where)
    return session.text(operations.store.store(session.tenant, given))


@tool()
def show(session: Session, reference: Reference, max_tokens: MaxTokens = SHOWN_TOKENS) -> str:
    """Show a memory in full.

    Call where a list shows only its beginning.
    """
    return session.text(operations.show.look_up(session.tenant, reference), max_tokens=max_tokens)


@tool()
def recent(
    session: Session,
    hours: Annotated[float, Field(gt=0, le=720)] = 24,
    limit: Limit = 10,
    everywhere: Everywhere = False,
    timezone: str | None = None,
    max_tokens: MaxTokens = LIST_TOKENS,
) -> str:
    """List what was remembered in the last hours."""
    narrowed = Narrowing(here=session.scope(everywhere))
    found = operations.show.recent(session.tenant, limit=limit, hours=hours, narrowed=narrowed)
    return session.text(found, timezone, max_tokens=max_tokens)


@tool(asks_embedder=True, writes=True, destructive=True)
def update(
    session: Session, reference: Reference, content: Annotated[str, Field(description="The whole text from now on.")]
) -> str:
    """Correct what a memory says; the old text stays as history.

    Not for a new fact: store that, then supersede.
    """
    return session.text(operations.changes.edit(session.tenant, reference, content, source=Source.MCP))


@tool(writes=True, destructive=True)
def supersede(session: Session, old: str, new: str) -> str:
    """Say that an old memory no longer holds because of a newer one, which takes its place."""
    return session.text(operations.changes.supersede(session.tenant, old, new))


@tool(writes=True, destructive=True)
def forget(session: Session, reference: Reference) -> str:
    """Take a memory out of recall, when the user asks for it.

    Not for what has changed: update or supersede that.
    """
    return session.text(operations.changes.forget(session.tenant, reference))


@tool(writes=True, destructive=True)
def erase(
    session: Session,
    ids: Sequence[str] = (),
    matching: Annotated[str, Field(description="All whose text holds this.")] = "",
    confirm: bool = False,
) -> str:
    """Remove memories for good, when the user asks for exactly that; there is no way back.

    Without `confirm` it shows what would go: show that to the user first. Not for what has changed: supersede that.
    """
    return session.text(operations.erase.erase(session.tenant, ids, matching=matching, confirm=confirm))


@tool(writes=True, destructive=True)
def undo(session: Session, reference: Reference) -> str:
    """Take back the last change of a memory, whatever it was."""
    return session.text(operations.undo.undo(session.tenant, reference))


@tool(writes=True)
def tag(session: Session, reference: Reference, add: Sequence[str] = (), remove: Sequence[str] = ()) -> str:
    """Give a memory tags, or take them from it."""
    if not (add or remove):
        raise InvalidInputError("Name at least one tag in `add` or `remove`.")
    return session.text(operations.changes.tag(session.tenant, reference, add=add, remove=remove))


@tool(writes=True)
def relate(
    session: Session,
    source: str,
    relation: RelationType,
    target: str,
    confidence: Annotated[float, Field(ge=0, le=1)] = 1.0,
    note: Annotated[str, Field(max_length=500, description="Why.")] = "",
) -> str:
    """State how two memories relate, where their texts do not say it."""
    stated = operations.relate.relate(
        session.tenant, source, relation, target, confidence=confidence, note=note, stated_by=Source.MCP
    )
    return session.text(stated)


@tool()
def conflicts(session: Session) -> str:
    """Memories that contradict each other. Ask the user which holds; then supersede or forget, or relate both with RELATES_TO."""
    return session.text(operations.conflicts.conflicts(session.tenant))


@tool(asks_embedder=True)
def health(session: Session) -> str:
    """Tell whether the memory works and how much it holds.

    Call when another tool fails.
    """
    return session.text(operations.health.health(session.tenant))


@tool(writes=True, destructive=True)
def tana_pai_sync(
    session: Session,
    seed_path: Annotated[str, Field(alias="seedPath")] = "",
    workspace: str = "",
    dry_run: Annotated[bool, Field(alias="dryRun")] = False,
    force: bool = False,
) -> str:
    """Mirror confirmed learnings of seed.json in Tana."""
    if seed_path and not session.may_name_files:
        raise InvalidInputError(
            "`seedPath` names a file of the service's machine: leave it out to mirror the file of MEMORY_PAI_SEED."
        )
    options = operations.pai.SyncOptions(dry_run=dry_run, force=force)
    return session.json(operations.pai.pai_sync(session.tenant, options, seed_path=seed_path, workspace=workspace))


@tool(asks_embedder=True)
def tana_pai_context(
    session: Session,
    topic: str,
    max_tokens: Annotated[int, Field(alias="maxTokens", ge=1)] = 2_000,
    kind: Annotated[LearningType | None, Field(alias="type")] = None,
    workspace: str = "",
) -> str:
    """Learnings about a topic, and what Tana links them to."""
    from memory_assets.tana.activity import read_tana_activity

    read_tana_activity(session.tenant, workspace)
    return session.json(operations.pai_context.pai_context(session.tenant, topic, max_tokens=max_tokens, kind=kind or ""))


@tool()
def tana_pai_freshness(
    session: Session,
    threshold: Annotated[int, Field(ge=0, description="Days; 0: as configured.")] = 0,
    kind: Annotated[LearningType | None, Field(alias="type")] = None,
    workspace: str = "",
) -> str:
    """Which learnings are stale, by confirmation and activity in Tana."""
    from memory_assets.tana.activity import read_tana_activity

    read_tana_activity(session.tenant, workspace)
    return session.json(operations.pai_context.pai_freshness(session.tenant, threshold=threshold or None, kind=kind or ""))


@tool(asks_embedder=True)
def recall_for_prompt(
    session: Session,
    prompt: str,
    for_session: Annotated[str, Field(alias="session")] = "",
    transcript: str = "",
    directory: str = "",
) -> str:
    """Recall memories for the user's prompt, as output of Claude Code's hook; its project is the current one from then on.

    It is empty on timeouts and errors. But if a newer release wrote the store, each session is told once to restart.
    """
    session.follow(for_session, transcript, directory)
    limit = _PROMPT_SECONDS if session.is_ready.is_set() else _FIRST_PROMPT_SECONDS
    file = Path(transcript) if transcript and session.may_name_files else None

    def recall(is_awaited: Callable[[], bool]) -> str:
        if not session.is_ready.wait(limit):
            return _NOTHING
        framed = ""
        try:
            framed = operations.prompt.recall_for_prompt(
                session.tenant, prompt, for_session, session.here, is_awaited, file
            ).framed
        except NewerStoreError as error:
            told = _REFUSED.setdefault(session.tenant, set())
            if for_session not in told and is_awaited():
                told.add(for_session)
                framed = render_frame([("Nothing is recalled", [session.describe_error(error)])])
        except MemoryAssetsError:
            return _NOTHING
        output = {"hookEventName": "UserPromptSubmit", "additionalContext": framed}
        return json.dumps({"hookSpecificOutput": output}) if framed else _NOTHING

    return _answer_within(limit, _RECALLING.setdefault(session.tenant, Lock()), recall)


@tool()
def file_written(session: Session, path: str) -> str:
    """Ingest a file that the assistant just wrote, in the background, if it belongs to a source."""
    session.on_written(Path(path))
    return _NOTHING


def _answer_within(seconds: float, running: Lock, work: Callable[[Callable[[], bool]], str]) -> str:
    """Return the result of `work`, which asks once whether it is awaited; an empty object if it takes longer or a call is `running`."""
    if not running.acquire(blocking=False):
        return _NOTHING
    answers: SimpleQueue[str] = SimpleQueue()
    decided = Lock()

    def run() -> None:
        answer = _NOTHING
        try:
            answer = work(lambda: decided.acquire(blocking=False))
        finally:
            running.release()
            answers.put(answer)

    Thread(target=run, name="prompt-recall", daemon=True).start()
    try:
        return answers.get(timeout=seconds)
    except Empty:
        return _NOTHING if decided.acquire(blocking=False) else answers.get()


DAILY = (init, search, tana_context, store, show, recent, update, supersede, forget, undo, health)
RARE = (tag, relate, conflicts, erase)
"""Offered if `MEMORY_MCP_TOOLS` is `all`."""
PAI = (tana_pai_sync, tana_pai_context, tana_pai_freshness)
"""Offered if `MEMORY_MCP_TOOLS` is `all`, or pai-seed and Tana are configured."""

HOOKS = (recall_for_prompt, file_written)
"""Called by the plugin's hooks; not listed, so that they cost no tokens."""


def _schema(arguments: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of the arguments, without titles and null defaults, which only cost tokens."""
    schema = arguments.model_json_schema()
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
