"""What models were trained to read before a question or a document; a model that wants it finds less without it."""

import re
from typing import NamedTuple


class Prefixes(NamedTuple):
    """What is put before a question, and before a text that is stored."""

    query: str = ""
    document: str = ""


_REPRESENT = "Represent this sentence for searching relevant passages: "
_INSTRUCT = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: "

_FAMILIES = (
    (r"nomic-embed-text", Prefixes("search_query: ", "search_document: ")),
    (r"e5\b.*-instruct|e5-mistral|qwen3-embedding", Prefixes(query=_INSTRUCT)),
    (r"\be5\b", Prefixes("query: ", "passage: ")),
    (r"snowflake-arctic-embed2|snowflake-arctic-embed-.*v2", Prefixes(query="query: ")),
    (r"mxbai-embed|snowflake-arctic-embed|uae-large|bge-(?:small|base|large)-en", Prefixes(query=_REPRESENT)),
    (r"embeddinggemma", Prefixes("task: search result | query: ", "title: none | text: ")),
)
"""Pattern of a model's name -> what its model card asks for, the first that fits."""

_MARK = " with prefix "


def prefixes_of(model: str) -> Prefixes:
    """The prefixes of a model by its name in a registry; empty ones where it wants none or is not known."""
    return next((prefixes for pattern, prefixes in _FAMILIES if re.search(pattern, model.lower())), Prefixes())


def recorded_name(kind: str, model: str) -> str:
    """What rows record of a model: with the prefix of documents, as vectors made after another one are another embedder's."""
    document = prefixes_of(model).document
    return f"{kind}:{model}{_MARK}{document!r}" if document else f"{kind}:{model}"


def spec_recorded(name: str) -> str:
    """The setting within what `recorded_name` made."""
    return name.partition(_MARK)[0]
