"""Lenses: which relations are walked and which nodes are preferred for a kind of task (seed 004, Graph Lenses).

A user adds or replaces lenses in `lenses.toml` beside the settings file, one table for each:

    [release]
    description = "What a release needs"
    focus = "Releases and their checklists"
    follows = ["LEADS_TO", "PART_OF", "MENTIONS"]
    prefers_relations = ["LEADS_TO"]
    types = ["reference"]
    words = ["release", "changelog"]

An omitted key neither narrows nor prefers anything.
"""

import re
import tomllib
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from memory_assets.context.model import CONTRADICTING, Link, Node
from memory_assets.errors import InvalidInputError, SettingsError, first_fault
from memory_assets.models import RelationType
from memory_assets.settings import config_file

_WALKED = frozenset({*RelationType, "MENTIONS", "CHILD", "REFERENCE", "FIELD"})
_MIN_WORDS = 2
"""Different words of a lens that a text must contain to be preferred; one in its name or tags is enough."""


def _validate_relations(names: tuple[str, ...]) -> tuple[str, ...]:
    unknown = sorted(set(names) - _WALKED)
    if unknown:
        raise ValueError(f"{', '.join(unknown)} is no relation; use some of {', '.join(sorted(_WALKED))}")
    return names


Relations = Annotated[tuple[str, ...], AfterValidator(_validate_relations)]
Words = tuple[Annotated[str, Field(min_length=1, max_length=60)], ...]


class Lens(BaseModel):
    """The relations and nodes that matter for a kind of task."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[a-z][a-z0-9-]{0,39}$")
    description: str = Field(default="", max_length=200)
    focus: str = Field(default="What matters here", min_length=1, max_length=60, pattern=r"^[^\n\r<>`#]+$")
    follows: Relations = ()
    """Relations that are walked; all if empty. Contradictions are always followed."""
    prefers_relations: Relations = ()
    types: Words = ()
    """Kinds of memories, types of entities, and supertags that are preferred."""
    words: Words = ()
    """Prefixes of words that are preferred."""

    def follows_link(self, link: Link) -> bool:
        return not self.follows or link.relation in self.follows or link.relation in CONTRADICTING

    def prefers(self, node: Node) -> bool:
        if not {node.type.casefold(), *map(str.casefold, node.tags)}.isdisjoint(map(str.casefold, self.types)):
            return True
        if self._pattern is None:
            return False
        if self._pattern.search(f"{node.name} {' '.join(node.tags)}" if node.titled else " ".join(node.tags)):
            return True
        return len({found[0].casefold() for found in self._pattern.finditer(node.content)}) >= _MIN_WORDS

    @cached_property
    def _pattern(self) -> "re.Pattern[str] | None":
        if not self.words:
            return None
        return re.compile(rf"(?<![^\W_])(?:{'|'.join(map(re.escape, sorted(self.words, key=len, reverse=True)))})", re.IGNORECASE)


@cache
def bundled_lenses() -> dict[str, Lens]:
    """Return the lenses of the seed by name."""
    return _read_lenses(Path(__file__).with_name("lenses.toml"))


def known_lenses() -> dict[str, Lens]:
    """Return the lenses of the seed and of `lenses.toml`. Raise SettingsError if that file is invalid."""
    file = config_file().with_name("lenses.toml")
    return bundled_lenses() | (_read_lenses(file) if file.is_file() else {})


def _read_lenses(file: Path) -> dict[str, Lens]:
    try:
        given = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise SettingsError(f"{file} cannot be read ({error}); fix that line or remove the file.") from error
    lenses = {}
    for name, table in given.items():
        try:
            lenses[name] = Lens.model_validate({**table, "name": name} if isinstance(table, dict) else table)
        except ValidationError as error:
            raise SettingsError(f"The lens {name!r} in {file} cannot be used: {first_fault(error)}; correct it there.") from error
    return lenses


def choose_lens(name: str) -> Lens:
    """Return the lens with a name. Raise InvalidInputError, which lists all names, if there is none."""
    lenses = known_lenses()
    if name not in lenses:
        raise InvalidInputError(
            f"There is no lens {name!r}; use one of {', '.join(lenses)}, or describe it in `lenses.toml` beside the settings file."
        )
    return lenses[name]
