"""Two small networks: one classifies the relation of two statements, one scores whether a text answers a question.

Both read two texts together. They are bge-small, fine-tuned by `tools/statement_judge` on pairs and families of facts in English and
German: all layers for statements, the first three for answers, because a search waits for them. Their weights use the quantisation steps
of bge-small's 8-bit matrices; `judge.npz` and `answers.npz` store the difference of each weight in steps. A process opens each network
once, on first use. The result for a pair depends only on its two texts.
"""

from collections.abc import Sequence
from enum import IntEnum
from functools import cache
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from memory_assets.arrays import Floats, Ids
from memory_assets.language.embedders.bge import (
    checked_files,
    open_session,
    open_tokenizer,
    read_weights,
    run_by_length,
)
from memory_assets.language.statements import exchange_values
from memory_assets.language.words import words

if TYPE_CHECKING:
    import numpy.typing as npt
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

MOST_TOKENS = 128
"""Word pieces read of a pair, special tokens included; in a longer pair the longer text is truncated."""
_START, _END = 101, 102
NEAR = 0.7
"""Calibrated similarity from which two texts may be about the same thing; pairs below it are not judged."""
SAYS_THE_SAME = 0.65
"""Probability, required in both orders, from which two texts say the same; precision 95 % on a held-out writer."""
DIFFERS = 0.7
"""Threshold for the summed probability of a change and of the opposite."""

_MOST_LETTERS = 240
_opening = Lock()


class Network(NamedTuple):
    """The name of a network's files and its number of bge-small layers."""

    name: str
    layers: int

    @property
    def graph(self) -> Path:
        """File with the computation, without weights."""
        return Path(__file__).with_name(f"{self.name}.onnx")

    @property
    def weights(self) -> Path:
        """File with each weight's difference from bge-small's, in quantisation steps."""
        return Path(__file__).with_name(f"{self.name}.npz")


STATEMENTS, ANSWERS = Network("judge", 12), Network("answers", 3)


class Relation(IntEnum):
    """The relation of one text to another, as its column in `relation_probabilities`."""

    SAME = 0
    CHANGED = 1
    """The same statement with another value."""
    OPPOSITE = 2
    """The same statement, denied."""
    RELATED = 3
    UNRELATED = 4


def is_short(text: str) -> bool:
    """Return whether a text fits beside another of its length, so that it can be judged as one statement."""
    return len(text) <= _MOST_LETTERS


def relation_probabilities(pairs: Sequence[tuple[str, str]]) -> Floats:
    """Return the probabilities of each relation of the second text to the first, shape (pairs, 5)."""
    logits = _run(STATEMENTS, pairs)
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    shares[[words(one) == words(other) for one, other in pairs]] = np.eye(1, len(Relation), Relation.SAME)
    return np.asarray(shares)


def says_the_same(pairs: Sequence[tuple[str, str]]) -> list[bool]:
    """Return for each pair whether its texts surely say the same. They do not if each has a number, date or time the other lacks."""
    possible = [place for place, pair in enumerate(pairs) if not exchange_values(*pair)]
    judged = dict(zip(possible, classify_relations([pairs[place] for place in possible]), strict=True))
    return [judged.get(place) is Relation.SAME for place in range(len(pairs))]


def classify_relations(pairs: Sequence[tuple[str, str]]) -> list[Relation]:
    """Return the relation of the second text of each pair to the first; same, changed and opposite only above their thresholds."""
    shares = relation_probabilities(pairs)
    likely = np.flatnonzero(shares[:, Relation.SAME] >= SAYS_THE_SAME).tolist()
    turned = relation_probabilities([(pairs[place][1], pairs[place][0]) for place in likely])
    same = {place for place, share in zip(likely, turned, strict=True) if share[Relation.SAME] >= SAYS_THE_SAME}
    return [Relation.SAME if place in same else _classify_different(share) for place, share in enumerate(shares)]


def _classify_different(share: Floats) -> Relation:
    changed, opposite = share[Relation.CHANGED], share[Relation.OPPOSITE]
    if changed + opposite >= DIFFERS:
        return Relation.CHANGED if changed >= opposite else Relation.OPPOSITE
    return Relation.UNRELATED if share[Relation.UNRELATED] > share[Relation.RELATED] else Relation.RELATED


def answer_logits(question: str, texts: Sequence[str]) -> Floats:
    """Return the log odds that each text, as indexed, answers a question or helps with a request."""
    return _run(ANSWERS, [(question, text) for text in texts])[:, 0]


def _run(network: Network, pairs: Sequence[tuple[str, str]]) -> Floats:
    """Return logits of shape (pairs, 1) for `ANSWERS`, (pairs, 5) for `STATEMENTS`."""
    if not pairs:
        return np.empty((0, 1 if network is ANSWERS else len(Relation)), np.float32)
    pieces = {text: _tokenizer().encode(text, add_special_tokens=False).ids for text in dict.fromkeys(chain.from_iterable(pairs))}
    ids, types = zip(*(pair_tokens(pieces[one], pieces[other]) for one, other in pairs), strict=True)
    return run_by_length(_session(network), {"ids": list(ids), "types_of_tokens": list(types)})


def pair_tokens(one: Sequence[int], other: Sequence[int]) -> tuple[Ids, Ids]:
    """Return a pair's token ids and their types: 0 for the first text, 1 for the second."""
    room = MOST_TOKENS - 3
    least = room // 2
    first = one[: max(least, room - len(other))]
    second = other[: room - len(first)]
    ids = np.array([_START, *first, _END, *second, _END], np.int64)
    return ids, (np.arange(len(ids)) > len(first) + 1).astype(np.int64)


def load() -> None:
    """Load both networks, so that the first pairs do not wait."""
    classify_relations([("The judge is loaded.", "It was loaded.")])
    answer_logits("Is it loaded?", ["The judge is loaded."])


@cache
def _tokenizer() -> "Tokenizer":
    return open_tokenizer(checked_files()[1])


def _session(network: Network) -> "InferenceSession":
    with _opening:  # without the lock, concurrent threads would each open one
        return _opened(network)


@cache
def _opened(network: Network) -> "InferenceSession":
    return open_session(network.graph, read_network(network))


def read_network(network: Network) -> "dict[str, npt.NDArray[Any]]":
    """Return a network's weights by name."""
    weights = read_weights(checked_files()[0], network.layers)
    with np.load(network.weights) as trained:
        for name in trained.files:
            array = trained[name]
            weights[name] = weights[name] + array if array.dtype == np.int8 else array
    return weights
