"""Embeds texts that are about to become memories while spaCy, in other processes, still analyses them.

What was not made ahead, because a run was killed or the embedder is away, is made when it is asked for.
"""

from collections.abc import Callable, Sequence
from threading import Condition, Thread
from typing import TYPE_CHECKING

import numpy as np

from memory_assets.stores.rows import statement

if TYPE_CHECKING:
    import numpy.typing as npt
    from duckdb import DuckDBPyConnection

    from memory_assets.language.embedders.protocol import Embedder, Role

    Floats = npt.NDArray[np.float32]

_AT_ONCE = 128
_MOST = 20_000
"""Texts whose vectors are kept until they are asked for: 30 MB of 384 dimensions."""
_PATIENCE_SECONDS = 5.0
"""How long the end of a run waits for vectors that are just being made."""


def texts_to_come(connection: "DuckDBPyConnection", pipeline: str) -> list[str]:
    """The texts to embed of the entries that this pipeline has not analysed, in the order in which they are written."""
    rows = connection.execute(
        """
        SELECT title, content FROM memory_entries e
        WHERE NOT EXISTS (SELECT 1 FROM extracted_features f WHERE f.content_hash = e.content_hash AND f.pipeline = $1)
        ORDER BY length(content), key LIMIT $2
        """,
        [pipeline, _MOST],
    )
    return [statement(*row) for row in rows.fetchall()]


class AheadEmbedder:
    """An embedder that begins with some texts before it is asked for them."""

    def __init__(self, open_embedder: "Callable[[], Embedder]", texts: Sequence[str]) -> None:
        """Begin, in a thread that ends with the texts or with `stop`."""
        self._open = open_embedder
        self._expected = set(texts)
        """Texts whose vectors are still to come."""
        self._made: dict[str, Floats] = {}
        self._moved = Condition()
        self._thread = Thread(target=self._work, args=(list(dict.fromkeys(texts)),), name="embedding-ahead", daemon=True)
        self._thread.start()

    @property
    def name(self) -> str:
        """That of the embedder."""
        return self._open().name

    @property
    def dimension(self) -> int:
        """That of the embedder."""
        return self._open().dimension

    def embed(self, texts: "Sequence[str]", role: "Role" = "document") -> "Floats":
        """As `Embedder.embed`. Waits for what is being made and makes the rest; a vector made ahead is given out once."""
        if role != "document" or not texts:
            return self._open().embed(texts, role)
        wanted = dict.fromkeys(texts)
        with self._moved:
            self._moved.wait_for(lambda: self._expected.isdisjoint(wanted))
            vectors = {text: self._made.pop(text) for text in wanted if text in self._made}
        if missing := [text for text in wanted if text not in vectors]:
            vectors |= zip(missing, self._open().embed(missing), strict=True)
        return np.stack([vectors[text] for text in texts])

    def stop(self) -> None:
        """Make no more ahead; the present chunk is finished."""
        with self._moved:
            self._expected.clear()
            self._moved.notify_all()
        self._thread.join(_PATIENCE_SECONDS)

    def _work(self, texts: list[str]) -> None:
        try:
            embedder = self._open()
            for start in range(0, len(texts), _AT_ONCE):
                if not self._expected:
                    return
                chunk = texts[start : start + _AT_ONCE]
                vectors = embedder.embed(chunk)
                with self._moved:
                    self._made |= zip(chunk, vectors, strict=True)
                    self._expected.difference_update(chunk)
                    self._moved.notify_all()
        except Exception:  # noqa: BLE001 - whoever asks for the vector meets it again, and can say where
            return
        finally:
            with self._moved:
                self._expected.clear()
                self._moved.notify_all()
