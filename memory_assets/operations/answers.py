"""Base classes and text helpers of the answers: a JSON form for programs, a text form for people and assistants."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, tzinfo
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, computed_field, field_validator

from memory_assets.display import shortened
from memory_assets.graph.outdated import Outdated
from memory_assets.language.passages import PASSAGE_LENGTH, passage
from memory_assets.language.times import Instant, day_in, display_zone, relative_age
from memory_assets.models import LAST_CHANGE, Entity, Kind, Memory, Source, State, is_time_guessed
from memory_assets.settings import Settings

_WORD = re.compile(r"[^\W_]+")
SHORTEST_PASSAGE = 60
_PASSAGE_LENGTHS = (PASSAGE_LENGTH, 180, 110, SHORTEST_PASSAGE)
"""Lengths that are tried in turn to fit a list into a number of tokens."""


@dataclass(frozen=True, slots=True)
class LocalTime:
    """The user's clock: the moment from which ages count, and the zone in which times are shown."""

    zone: tzinfo
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    program: str = ""
    """Prefix of a command that the user can paste: `memory ` in a shell."""
    may_relate: bool = False
    """Whether the reader is an assistant that has the tool `relate`."""

    @classmethod
    def of(cls, settings: Settings, timezone: str | None = None) -> "LocalTime":
        """Return a clock in the zone of a request, else of the settings, else of this machine."""
        return cls(display_zone(settings, timezone))

    def command(self, arguments: str) -> str:
        """Return a command of the shell in backticks, for the tenant that is shown."""
        return f"`{self.program or 'memory '}{arguments}`"

    def keep_both(self, one: int, other: int) -> str:
        """Return how to decide that both of two memories hold."""
        if self.may_relate:
            return f"relate {one} RELATES_TO {other}"
        decide = f"conflicts --both-hold {one} {other}"
        return f"{self.program}{decide}" if self.program else f"keep both; {self.command(decide)} settles it"

    def age(self, moment: datetime) -> str:
        """Return how long ago, with the date from one day on: "3 hours ago", "8 months ago (2026-03-14)"."""
        spoken = relative_age(moment, self.now)
        return spoken if abs((self.now - moment).total_seconds()) < 86_400 else f"{spoken} ({self.day(moment)})"

    def day(self, moment: datetime) -> date:
        return day_in(moment, self.zone)


class View(BaseModel):
    """A part of an answer."""

    model_config = ConfigDict(from_attributes=True, frozen=True)

    @classmethod
    def of(cls, source: object, **others: Any) -> Self:
        """Make a view of an object: each field is the attribute of the same name, unless `others` gives it."""
        names = [name for name in cls.model_fields if name not in others and hasattr(source, name)]
        return cls(**{name: getattr(source, name) for name in names}, **others)


class Answer(View, ABC):
    """Answer of an operation."""

    @property
    def is_failure(self) -> bool:
        """Whether the command that prints it exits with 1."""
        return False

    @abstractmethod
    def text(self, local: LocalTime) -> str:
        """Return the answer as text for a person or an assistant, without a final line break."""


def path_of(memory: "Memory | MemoryView") -> str:
    """Return the file or entry that a memory comes from; empty if it was stored."""
    return memory.source_key and str(memory.metadata.get("path") or memory.metadata.get("original_path") or memory.source_key)


class MemoryView(Answer):
    """A memory as the command line, HTTP, MCP and the pages show it."""

    id: int
    content: str
    created_at: Instant
    tags: list[str]
    entities: list[Entity]
    actions: list[str]
    kind: Kind
    source: Source
    state: State
    title: str
    updated_at: Instant
    project: str
    session: str
    author: str
    importance: float
    confidence: float
    protected: bool
    links: list[str]
    superseded_by: int | None
    source_key: str
    external_id: str
    pipeline: str
    metadata: dict[str, Any]
    outdated: tuple[Outdated, ...] = Field(
        default=(),
        description="Sentences that other memories replace, perhaps replace or contradict; given by searches and `show` alone.",
    )

    @field_validator("metadata", mode="before")
    @classmethod
    def _without_notes(cls, metadata: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in metadata.items() if key != LAST_CHANGE}

    @computed_field
    @property
    def active(self) -> bool:
        return self.state is State.ACTIVE

    @property
    def name(self) -> str:
        return name_of(self)

    def text(self, local: LocalTime) -> str:
        return self.entry(local)

    def age(self, local: LocalTime) -> str:
        """Return when it was created, and whether that is guessed."""
        return f"{local.age(self.created_at)}{', guessed' * is_time_guessed(self.metadata)}"

    def entry(self, local: LocalTime, lead: str = "", query: str = "", note: str = "", most: int = PASSAGE_LENGTH) -> str:
        """Return a list entry: a line of `lead`, facts and `note`, then the passage that fits `query`, at most `most` characters.

        More lines name sentences of the passage that other memories replace or contradict, unless `note` names the replacement.
        """
        state = "" if self.active else self.state.value
        facts = [self.title, self.kind.value, self.age(local), note, state, f"id {self.id}"]
        shown = passage(without_title(self.content, self.title), query, most)
        replaced = [
            each.line(local.zone)
            for each in self.outdated
            if each.is_in(f"{self.title} {shown}") and f"replaced by {each.replaced_by}" not in note
        ]
        doubted = {f"perhaps {line}" for line in replaced}
        told = (line for line in dict.fromkeys(replaced) if line not in doubted)
        below = "".join(f"\n{' ' * len(lead)}{line}" for line in (shown, *told))
        return f"{lead}{' · '.join(fact for fact in facts if fact)}{below}"


def name_of(memory: Memory | MemoryView, plain: Callable[[str], str] = str) -> str:
    """Return a memory's title, or how it begins; `plain` removes marks from either."""
    return plain(memory.title) or shortened(plain(memory.content), 60)


def begins_with(text: str, title: str) -> bool:
    """Return whether a text begins with the words of a title, whatever separates them."""
    words, named = (_WORD.findall(each.casefold()) for each in (text, title))
    return words[: len(named)] == named


def without_title(content: str, title: str) -> str:
    """Return a text without its first line if that repeats the title and more lines follow."""
    first, _, rest = content.strip().partition("\n")
    return rest if rest and begins_with(first, title) and begins_with(title, first) else content


def fit_lines(entries: Callable[[int], Sequence[str]], max_tokens: int | None) -> str:
    """Join list entries with the longest passages that fit into `max_tokens`, if it is set; at worst, drop the last entries.

    `entries` returns them with passages of so many characters.
    """
    if max_tokens is None:
        return "\n".join(entries(PASSAGE_LENGTH))
    from memory_assets.language.tokens import count_tokens, truncate_tokens

    shown: Sequence[str] = ()
    for most in _PASSAGE_LENGTHS:
        shown = entries(most)
        if count_tokens(text := "\n".join(shown)) <= max_tokens:
            return text
    for number in range(len(shown) - 1, 0, -1):
        left_out = f"{len(shown) - number} more do not fit into {max_tokens} tokens."
        if count_tokens(text := "\n".join([*shown[:number], left_out])) <= max_tokens:
            return text
    return truncate_tokens("\n".join(shown), max_tokens)


def describe_masked(kinds: Sequence[str]) -> str:
    """Return which kinds of keys and passwords were masked, and which setting decides it."""
    return f"{', '.join(kinds)}: only the kind is kept (MEMORY_SECRETS)"


def describe_remains(
    backups: Sequence[str], strays: Sequence[str], needed: Sequence[str], commands: Mapping[str, str]
) -> list[str]:
    """Return lines that name where a removed text is left: backups, files, and tenants, by name, with the command that removes it."""
    return [
        *(f"Still in the backup {each}" for each in backups),
        *(f"Still in {path}: delete it if you do not need it." for path in strays),
        *(f"Still in the tenant {name}: `{command}` takes it out there." for name, command in commands.items()),
        *(f"Still in {path}: keep the file, the program needs it." for path in needed),
    ]
