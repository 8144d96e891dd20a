"""The two vectors of a text: of its meaning, and of its meaning in context (author, day and project).

Comparisons use the first, searches the second. The context is embedded separately, once for all texts that share it, and added: as a
prefix of the text it would make different notes of one day and project similar. The second vector costs almost nothing, and finds more
than a prefix does (docs/performance.md).
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
"""A generic text: what is similar to it is similar to everything, as very short texts are with some embedders."""
_NOTE_SUBTRACTED = 0.5
"""Share of `_NOTE`'s vector that is subtracted from meanings."""
_WEIGHTS = {BGE_NAME: (0.7, 1.5), E5_NAME: (0.3, -0.8)}
"""Embedder -> weights of the heading and of `_NOTE` in the search vector. A positive weight of `_NOTE` makes generic texts less similar
to any question; across languages a negative one finds more."""
_DEFAULT_WEIGHTS = (0.7, 0.0)
_MAX_CACHED = 4_096

_cache: "WeakKeyDictionary[Embedder, dict[str, Floats]]" = WeakKeyDictionary()
"""Vectors of recent headings, by embedder."""


def embed_in_context(embedder: Embedder, texts: Sequence[str], headings: Sequence[str]) -> TextVectors:
    """Embed texts, alone and with their headings: author, day and project."""
    known = _cache.get(embedder, {})
    known = known if len(known) < _MAX_CACHED else {}
    missing = [heading for heading in dict.fromkeys((_NOTE, *headings)) if heading not in known]
    vectors = embedder.embed([*missing, *texts])
    _cache[embedder] = known = known | dict(zip(missing, vectors, strict=False))
    said, note = vectors[len(missing) :], known[_NOTE]
    contexts = np.stack([known[heading] for heading in headings])
    heading_weight, note_weight = _WEIGHTS.get(embedder.name, _DEFAULT_WEIGHTS)
    return TextVectors(_unit(said - _NOTE_SUBTRACTED * note), _unit(said + heading_weight * contexts + note_weight * note))


def meanings_of(embedder: Embedder, texts: Sequence[str]) -> Floats:
    """Return the unit vectors of the texts' meanings, shape (n, dimension)."""
    return embed_in_context(embedder, texts, [_NOTE] * len(texts)).meanings


def _unit(vectors: npt.NDArray[np.floating]) -> Floats:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
