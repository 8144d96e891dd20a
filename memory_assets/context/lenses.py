"""Lenses: what is walked, and what is preferred, for a kind of task (seed 004, Graph Lenses).

A user adds lenses, or replaces one of these, in `lenses.toml` beside the settings file, a table each:

    [release]
    description = "What a release needs"
    focus = "Releases and their checklists"
    follows = ["LEADS_TO", "PART_OF", "MENTIONS"]
    prefers_relations = ["LEADS_TO"]
    types = ["reference"]
    words = ["release", "changelog"]

What is left out neither narrows nor prefers.
"""

import re
import tomllib
from functools import cached_property
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from memory_assets.context.model import CONTRADICTING, Link, Node
from memory_assets.errors import InvalidInputError, SettingsError
from memory_assets.models import RelationType
from memory_assets.settings import config_file

if TYPE_CHECKING:
    from pathlib import Path

_WALKED = frozenset({*RelationType, "MENTIONS", "CHILD", "REFERENCE", "FIELD"})
_STRUCTURE = ("MENTIONS", "CHILD", "REFERENCE", "FIELD", "PART_OF")
_TELLING_WORDS = 2
"""Different words of a lens that a text holds before the lens prefers it; one in its name or tags is enough."""


def _known_relations(names: tuple[str, ...]) -> tuple[str, ...]:
    unknown = sorted(set(names) - _WALKED)
    if unknown:
        raise ValueError(f"{', '.join(unknown)} is no relation; use some of {', '.join(sorted(_WALKED))}")
    return names


Relations = Annotated[tuple[str, ...], AfterValidator(_known_relations)]
Words = tuple[Annotated[str, Field(min_length=1, max_length=60)], ...]


class Lens(BaseModel):
    """What a task wants to see."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[a-z][a-z0-9-]{0,39}$")
    description: str = Field(default="", max_length=200)
    focus: str = Field(default="What matters here", min_length=1, max_length=60, pattern=r"^[^\n\r<>`#]+$")
    """The heading over what it prefers."""
    follows: Relations = ()
    """Relations that are walked; all where it names none. What contradicts is always seen."""
    prefers_relations: Relations = ()
    types: Words = ()
    """Kinds of memories, types of entities, supertags."""
    words: Words = ()
    """Beginnings of words."""

    def follows_link(self, link: Link) -> bool:
        """Whether a link is walked."""
        return not self.follows or link.relation in self.follows or link.relation in CONTRADICTING

    def prefers(self, node: Node) -> bool:
        """Whether the lens prefers a node."""
        if not {node.type.casefold(), *map(str.casefold, node.tags)}.isdisjoint(self._types):
            return True
        if self._pattern is None:
            return False
        if self._pattern.search(f"{node.name} {' '.join(node.tags)}" if node.titled else " ".join(node.tags)):
            return True
        said = {found[0].casefold() for found in self._pattern.finditer(node.content)}
        return len(said) >= _TELLING_WORDS

    @cached_property
    def _types(self) -> frozenset[str]:
        return frozenset(map(str.casefold, self.types))

    @cached_property
    def _pattern(self) -> "re.Pattern[str] | None":
        if not self.words:
            return None
        return re.compile(rf"(?<![^\W_])(?:{'|'.join(map(re.escape, sorted(self.words, key=len, reverse=True)))})", re.IGNORECASE)


GENERAL = Lens(name="general", description="Balanced: children, references, fields and relations equally")
LENSES = {
    lens.name: lens
    for lens in (
        GENERAL,
        Lens(
            name="writing",
            description="Content, style notes, related writings",
            focus="Texts and style",
            follows=("RELATES_TO", "SHARES_THEME", "REINFORCES", "EXEMPLIFIES", "DERIVED_FROM", *_STRUCTURE),
            prefers_relations=("SHARES_THEME", "REINFORCES", "EXEMPLIFIES"),
            types=("user", "feedback", "article", "post", "document", "draft", "quote"),
            words=(
                *(
                    "style",
                    "tone",
                    "voice",
                    "wording",
                    "writ",
                    "draft",
                    "blog",
                    "article",
                    "talk",
                    "slide",
                    "paragraph",
                    "heading",
                ),
                *("text", "language", "audience", "outline", "essay", "headline", "umlaut", "translat"),
            ),
        ),
        Lens(
            name="coding",
            description="Specs, architecture decisions, related code",
            focus="Specs, decisions and code",
            follows=(
                *("LEADS_TO", "DERIVED_FROM", "EXEMPLIFIES", "PREFERS_OVER", "EVOLVED_INTO", "RELATES_TO", "REINFORCES"),
                *_STRUCTURE,
            ),
            prefers_relations=("DERIVED_FROM", "PREFERS_OVER", "LEADS_TO", "EXEMPLIFIES"),
            types=(
                *("feedback", "reference", "FILE", "TOOL", "DATABASE", "LANGUAGE", "SERVICE", "PRODUCT", "LIBRARY", "ENV_VAR"),
                *("spec", "adr", "decision", "bug"),
            ),
            words=(
                *("adr", "spec", "architect", "decision", "schema", "api", "endpoint", "query", "index", "migration", "test"),
                *("bug", "refactor", "library", "depend", "deploy", "script", "code", "function", "repo", "commit", "lint"),
            ),
        ),
        Lens(
            name="planning",
            description="Goals, constraints, timelines, dependencies",
            focus="Goals, dates and dependencies",
            follows=("LEADS_TO", "OCCURRED_BEFORE", "PREFERS_OVER", "DERIVED_FROM", "EVOLVED_INTO", "RELATES_TO", *_STRUCTURE),
            prefers_relations=("LEADS_TO", "PART_OF", "OCCURRED_BEFORE"),
            types=("project", "goal", "milestone", "task", "EVENT"),
            words=(
                *("goal", "deadline", "due ", "plan", "roadmap", "milestone", "depend", "block", "constraint", "schedule"),
                *("launch", "budget", "risk", "estimate", "until", "quarter", "priorit", "scope", "cutover", "go-live"),
            ),
        ),
        Lens(
            name="meeting-prep",
            description="Attendees, agenda, related projects, action items",
            focus="People and action items",
            follows=("LEADS_TO", "OCCURRED_BEFORE", "RELATES_TO", "DERIVED_FROM", *_STRUCTURE),
            prefers_relations=("MENTIONS", "FIELD", "OCCURRED_BEFORE"),
            types=("PERSON", "ORG", "meeting", "task", "todo", "action-item", "user"),
            words=(
                *("meeting", "agenda", "attend", "action item", "todo", "to do", "follow up", "follow-up", "agreed", "promise"),
                *(
                    "asked",
                    "handover",
                    "hand over",
                    "moves team",
                    "leave",
                    "on-call",
                    "next step",
                    "open question",
                    "1:1",
                    "call ",
                ),
            ),
        ),
    )
}


def lenses_file() -> "Path":
    """Where a user's own lenses are."""
    return config_file().with_name("lenses.toml")


def known_lenses() -> dict[str, Lens]:
    """The lenses of the seed, and those of `lenses.toml`.

    Raises:
        SettingsError: that file cannot be read as lenses; the message names lens, field and mend.
    """
    file = lenses_file()
    if not file.is_file():
        return LENSES
    try:
        given = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise SettingsError(f"{file} cannot be read ({error}); mend that line or remove the file.") from error
    own = {}
    for name, table in given.items():
        try:
            own[name] = Lens.model_validate({**table, "name": name} if isinstance(table, dict) else table)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(map(str, first["loc"])) or "it"
            raise SettingsError(
                f"The lens {name!r} in {file} cannot be used: {field}: {first['msg']}; correct it there."
            ) from error
    return LENSES | own


def choose_lens(name: str) -> Lens:
    """The lens of a name.

    Raises:
        InvalidInputError: there is none; the message lists those that there are.
        SettingsError: as for `known_lenses`.
    """
    lenses = known_lenses()
    if name not in lenses:
        raise InvalidInputError(
            f"There is no lens {name!r}; use one of {', '.join(lenses)}, or describe it in `lenses.toml` beside the settings file."
        )
    return lenses[name]
