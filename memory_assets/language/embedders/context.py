"""The two vectors of a text: of what it says, and of that in its context, who said it, when and where.

What is alike goes by the first, searches go by the second. The context is not put before the text, where it makes two unlike notes of
one day and project alike: it is embedded by itself, once for all texts that share it, and added. So a second vector costs next to
nothing, and more is found with it than with a prefix (docs/performance.md).
"""

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from memory_assets.arrays import Floats
from memory_assets.language.embedders.bge import BGE_NAME
from memory_assets.language.embedders.e5 import E5_NAME
from memory_assets.language.embedders.protocol import Embedder
from memory_assets.models import TextVectors

_NOTE = "[note]"
"""What is near to this is near to everything, as very short texts are with some embedders."""
_TAKEN_OFF = 0.5
"""So much of it is taken off what texts say."""
_WEIGHTS = {BGE_NAME: (0.7, 1.5), E5_NAME: (0.3, -0.8)}
"""How much of the heading, and of `_NOTE`, is added to what searches ask, by embedder. Added, it makes what is near to everything
longer, and so less near to any question; between languages it helps to take it off."""
_USUAL = (0.7, 0.0)
_MOST_KNOWN = 4_096

_known: "WeakKeyDictionary[Embedder, dict[str, Floats]]" = WeakKeyDictionary()
"""Vectors of the headings that each embedder made last."""


def embed_in_context(embedder: Embedder, texts: Sequence[str], headings: Sequence[str]) -> TextVectors:
    """Embed texts, and each with its heading: its author, day and project."""
    known = _known.get(embedder, {})
    known = known if len(known) < _MOST_KNOWN else {}
    missing = [heading for heading in dict.fromkeys((_NOTE, *headings)) if heading not in known]
    vectors = embedder.embed([*missing, *texts])
    _known[embedder] = known = known | dict(zip(missing, vectors, strict=False))
    said, note = vectors[len(missing) :], known[_NOTE]
    contexts = np.stack([known[heading] for heading in headings])
    heading_weight, note_weight = _WEIGHTS.get(embedder.name, _USUAL)
    return TextVectors(_unit(said - _TAKEN_OFF * note), _unit(said + heading_weight * contexts + note_weight * note))


def meanings_of(embedder: Embedder, texts: Sequence[str]) -> Floats:
    """Unit vectors of what texts say, shape (n, dimension)."""
    return embed_in_context(embedder, texts, [_NOTE] * len(texts)).meanings


def _unit(vectors: npt.NDArray[np.floating]) -> Floats:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
