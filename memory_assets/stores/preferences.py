"""Preferences: what a user wants of every answer ("always show the imports", "keep it short"). The column is called `wish`.

They seldom share a word with requests, so search looks for them separately. English wordings tell them, or the kind feedback in any
language. What an assistant said is none.
"""

from memory_assets.language.english import pattern, phrases
from memory_assets.models import ASSISTANTS, Kind
from memory_assets.stores import lance

_PHRASES = "preferences.phrases"
PREFERENCE_SQL = (
    f"(kind = '{Kind.FEEDBACK}' OR regexp_like(content, '(?i){phrases(_PHRASES)}'))"
    f" AND lower(author) NOT IN {lance.quoted(sorted(ASSISTANTS))}"
)
"""`is_preference` as a Lance expression over a row of `memories`."""


def is_preference(kind: Kind, author: str, content: str) -> bool:
    """Whether a memory says how its user wants things done."""
    return (kind is Kind.FEEDBACK or bool(pattern(_PHRASES).search(content))) and author.lower() not in ASSISTANTS
