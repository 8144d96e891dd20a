"""The English words and phrases of `english.toml`, which rules of several rooms read."""

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("english.toml")


@cache
def table(name: str) -> Any:
    """The value under a dotted name."""
    value: Any = _everything()
    for part in name.split("."):
        value = value[part]
    return value


@cache
def word_set(name: str) -> frozenset[str]:
    """The words of a list."""
    return frozenset(table(name).split())


@cache
def phrases(name: str) -> str:
    """The regular expression of a phrase or a list of phrases; `{other}` stands for the phrase `other` of the same table."""
    listed = table(name)
    expression = listed if isinstance(listed, str) else "|".join(listed)
    section = name.rpartition(".")[0]
    return re.sub(r"\{([a-z_]+)\}", lambda other: phrases(f"{section}.{other[1]}"), expression)


@cache
def pattern(name: str) -> re.Pattern[str]:
    """A phrase or a list of phrases, to be looked for in any casing."""
    return re.compile(phrases(name), re.IGNORECASE)


@cache
def _everything() -> dict[str, Any]:
    return tomllib.loads(FILE.read_text(encoding="utf-8"))
