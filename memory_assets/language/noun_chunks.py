"""Noun chunks over Universal Dependencies labels.

spaCy's English iterator looks for the labels of its own English pipelines (dobj, pobj, nsubjpass), which a pipeline
trained on Universal Dependencies never gives. There, too, a nominal predicate and not the copula heads its clause,
so that the left edge of a head's subtree is not the start of its chunk.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc, Span, Token

_NOMINAL = frozenset({"NOUN", "PROPN", "PRON"})
_INSIDE_ANOTHER_CHUNK = frozenset(
    {"compound", "flat", "fixed", "goeswith", "det", "amod", "nummod", "case", "cc", "mark", "punct", "aux", "cop"}
    | {"expl", "discourse", "reparandum", "dep"}
)
_BEFORE_HEAD = frozenset({"det", "amod", "compound", "nummod", "nmod", "flat", "goeswith"})
_AFTER_HEAD = frozenset({"flat", "goeswith", "compound"})
_JOINTS = frozenset({"-", "\u2010", "\u2013", "/"})


def noun_chunks(doclike: "Doc | Span") -> Iterator[tuple[int, int, int]]:
    """Base noun phrases of a parsed text, in order and never nested: start token, end token (exclusive), and the id of the label "NP".

    A chunk runs from the first determiner, possessor or modifier to its head, or to the end of a name that the head
    opens ("the old lock", "Alice's laptop", "Alice Smith"); what follows with a preposition is a chunk of its own.
    """
    doc = doclike.doc
    if not doc.has_annotation("DEP"):
        raise ValueError("noun chunks need a dependency parse: add a parser to the pipeline, or leave it enabled")
    label = doc.vocab.strings.add("NP")
    found = [
        (_start(token), _end(token))
        for token in doclike
        if token.pos_ in _NOMINAL and _base(token.dep_) not in _INSIDE_ANOTHER_CHUNK
    ]
    found.sort(key=lambda chunk: (chunk[0], -chunk[1]))
    previous_end = 0
    for start, end in found:
        if start >= previous_end:
            previous_end = end
            yield start, end, label


def use_ud_noun_chunks(nlp: "Language") -> bool:
    """Let `Doc.noun_chunks` work in a pipeline whose parser gives Universal Dependencies labels; return whether it is one.

    Documents made before the call keep the iterator they were made with.
    """
    if "obl" not in nlp.pipe_labels.get("parser", ()):
        return False
    vocab: Any = nlp.vocab  # spaCy's stub says that the iterator yields spans; `Doc.noun_chunks` makes them
    vocab.get_noun_chunks = noun_chunks
    return True


def _base(dep: str) -> str:
    """A label without its subtype: "nmod" for "nmod:poss"."""
    return dep.partition(":")[0]


def _start(head: "Token") -> int:
    start = reach = head.i
    for child in reversed(list(head.lefts)):
        if child.right_edge.i + 1 != reach:
            break
        if _base(child.dep_) in _BEFORE_HEAD:
            start = reach = child.left_edge.i
        elif child.text in _JOINTS:
            reach = child.i
        else:
            break
    return start


def _end(head: "Token") -> int:
    end = head.i + 1
    for child in head.rights:
        is_numbered = _base(child.dep_) == "nummod" and child.pos_ == "NUM"
        if child.left_edge.i != end or not (_base(child.dep_) in _AFTER_HEAD or is_numbered):
            break
        end = _end(child)
    return end
