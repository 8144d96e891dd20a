"""The English words and phrases of `english.toml`, which rules of several packages use."""

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("english.toml")


@cache
def table(name: str) -> Any:
    """Return the value under a dotted name."""
    value: Any = _read_file()
    for part in name.split("."):
        value = value[part]
    return value


@cache
def word_set(name: str) -> frozenset[str]:
    """Return the words of a list."""
    return frozenset(table(name).split())


@cache
def phrases(name: str) -> str:
    """Return the regular expression for a phrase or list of phrases; `{other}` expands to the phrase `other` of the same table."""
    listed = table(name)
    expression = listed if isinstance(listed, str) else "|".join(listed)
    section = name.rpartition(".")[0]
    return re.sub(r"\{([a-z_]+)\}", lambda other: phrases(f"{section}.{other[1]}"), expression)


@cache
def pattern(name: str) -> re.Pattern[str]:
    """Compile a phrase or list of phrases, ignoring case."""
    return re.compile(phrases(name), re.IGNORECASE)


@cache
def _read_file() -> dict[str, Any]:
    return tomllib.loads(FILE.read_text(encoding="utf-8"))
