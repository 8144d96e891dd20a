"""Statements that a later one seems to replace although nothing links the two.

A later sentence replaces an earlier one where it speaks of a change ("took over", "no longer", "instead of"), repeats its names, half of
what it says of the topic and half of all its words, and says something new. That is a guess: what seems replaced is told after the rest
and marked, not left out.
"""

import re
from collections.abc import Collection, Sequence

from memory_assets.context.model import Category, Node
from memory_assets.language.english import pattern
from memory_assets.language.words import sentences, stems

_NAME = re.compile(r"\b[A-Z]\w+")
_REPEATED = 0.5
"""Share of the words of a sentence that one which replaces it repeats ..."""
_FEWEST_REPEATED = 3
"""... and how many these are at least."""
_FEWEST_NEW = 2
"""Words of a replacing sentence that the replaced one does not have: else it says the same again."""
_MOST_NODES = 400


def find_replaced(nodes: Sequence[Node], asked: Collection[str]) -> dict[str, str]:
    """Memories, and the later memory that seems to replace all that each says about a topic.

    The most relevant `nodes` come first, and only the first few hundred are compared; `asked` are the stems of the topic's words.
    """
    dated = [(node, node.created) for node in nodes[:_MOST_NODES] if node.category is Category.MEMORY and node.created]
    changes = [
        (node.id, created, stems(sentence))
        for node, created in dated
        for sentence in sentences(node.content)
        if pattern("changes.phrases").search(sentence)
    ]
    topic = frozenset(asked)
    found = {}
    for node, created in dated if changes else ():
        said = ((stems(sentence), sentence) for sentence in sentences(node.content))
        about = [(words, stems(" ".join(_NAME.findall(sentence)))) for words, sentence in said if words & topic]
        newer = [
            next((other for other, later, change in changes if later > created and _replaces(change, *each, topic)), "")
            for each in about
        ]
        if newer and all(newer):
            found[node.id] = newer[0]
    return found


def _replaces(change: frozenset[str], words: frozenset[str], names: frozenset[str], topic: frozenset[str]) -> bool:
    """Whether a sentence of change replaces one of these words and names; all are stems."""
    repeated = words & change
    return (
        len(repeated) >= max(_FEWEST_REPEATED, _REPEATED * len(words))
        and len(repeated & topic) >= _REPEATED * len(words & topic)
        and len(change - words) >= _FEWEST_NEW
        and names <= change
    )
