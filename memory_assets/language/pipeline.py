"""The analyser: a spaCy pipeline behind a small interface from text to features."""

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from time import perf_counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Self, TypeVar

from memory_assets.errors import MemoryAssetsError, SettingsError
from memory_assets.language.entities import find_in_code
from memory_assets.language.features import Findings, combine, find, find_foreign
from memory_assets.language.gazetteer import Gazetteer, load_gazetteer
from memory_assets.language.languages import ENGLISH
from memory_assets.language.reading import Part, Reading, read
from memory_assets.models import Features

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc
    from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")

BUNDLED_MODEL = "bundled"
BUNDLED_PATH = Path(__file__).with_name("pipeline_en")

RULES_VERSION = 18
"""Incremented whenever a change may alter the entities, actions or automatic tags of an unchanged text."""

_NEEDED = {
    "POS": "a tagger or morphologizer",
    "LEMMA": "a lemmatizer",
    "DEP": "a parser",
    "ENT_IOB": "an entity recogniser",
}
TURN_LENGTH = 2_500
"""Characters analysed in one turn; more would take longer than a commit (a tenth of a second)."""
_TIME_LIMIT = 300.0
"""Seconds of work on one text, waiting excluded; a megabyte of prose takes a minute of an idle core."""


class AnalysisError(MemoryAssetsError):
    """The text at `index` cannot be analysed; the other texts of the batch are not affected."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(f"the text cannot be analysed: {reason}; shorten it, or report this as a fault of the program.")
        self.index = index
        self._reason = reason

    def __reduce__(self) -> tuple[type[Self], tuple[int, str]]:
        """Pickle by constructor arguments."""
        return type(self), (self.index, self._reason)


class FairLock:
    """A fair lock: waiting threads acquire it in order of arrival, so that none starves another by reacquiring it."""

    def __init__(self) -> None:
        self._mutex = Lock()
        self._waiting: deque[Lock] = deque()
        self._taken = False

    def __enter__(self) -> None:
        with self._mutex:
            if not self._taken:
                self._taken = True
                return
            turn = Lock()
            turn.acquire()
            self._waiting.append(turn)
        turn.acquire()

    def __exit__(self, *_: object) -> None:
        with self._mutex:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._taken = False


_PIPELINE_LOCK = FairLock()
"""spaCy's vocabulary and memory zones allow one thread at a time; a turn is one slice of one batch."""


@dataclass(eq=False)
class Analyzer:
    """Finds entities, actions and automatic tags; loads the pipeline with the first text."""

    model: str
    location: str
    name: str
    """Pipeline, its version and that of the rules, as recorded in stored rows: "memory_en-1.0.0+rules-1"."""
    gazetteer_paths: tuple[Path, ...]
    known_names: dict[str, str]
    turn_length: int = TURN_LENGTH
    """Characters analysed before another thread has its turn."""

    def __reduce__(self) -> tuple[type[Self], tuple[object, ...]]:
        """Pickle by constructor arguments, without `turn_length`."""
        return type(self), (self.model, self.location, self.name, self.gazetteer_paths, self.known_names)

    @property
    def is_loaded(self) -> bool:
        return _load_pipeline.cache_info().currsize > 0

    def load(self) -> None:
        """Load the pipeline and the gazetteer, so that the first text does not wait; analysing raises the same errors."""
        _ = _load_pipeline(self.location), self.gazetteer

    def analyze(self, text: str) -> Features:
        return self.analyze_batch([text])[0]

    def analyze_batch(self, texts: Iterable[str]) -> list[Features]:
        """Return the features of each text; same results as one at a time, several times faster."""
        found = list(self.outcomes(texts))
        for outcome in found:
            if isinstance(outcome, AnalysisError):
                raise outcome
        return [outcome for outcome in found if isinstance(outcome, Features)]

    def outcomes(self, texts: Iterable[str]) -> Iterator[Features | AnalysisError]:
        """Yield each text's features, or its error if it cannot be analysed, in order; consumes `texts` a few at a time."""
        first = 0
        for group in in_chunks(texts, len, self.turn_length):
            yield from self._outcomes_of([read(text) for text in group], first)
            first += len(group)

    def _outcomes_of(self, readings: Sequence[Reading], first: int) -> Iterator[Features | AnalysisError]:
        self.load()  # an error here concerns every text
        if len(readings) > 1:
            try:
                findings = iter(self._find([part for reading in readings for part in reading.parts]))
                found = [[next(findings) for _ in reading.parts] for reading in readings]
            except Exception:  # noqa: BLE001  # retry one by one, to find the text that a library fails on
                for index, reading in enumerate(readings, first):
                    yield from self._outcomes_of([reading], index)
                return
            yield from map(self._features, readings, found)
            return
        try:
            yield self._features(readings[0], self._find(readings[0].parts))
        except MemoryAssetsError:
            raise
        except Exception as error:  # noqa: BLE001
            failed = AnalysisError(first, f"{type(error).__name__}: {error}")
            failed.__cause__ = error
            yield failed

    def _find(self, parts: Sequence[Part]) -> list[Findings]:
        nlp, gazetteer, threads = _load_pipeline(self.location), self.gazetteer, _native_threads()
        prose = [part for part in parts if part.language == ENGLISH]
        found: list[Findings] = []
        spent = 0.0
        for turn in in_chunks(prose, lambda part: len(part.text), self.turn_length):
            with _PIPELINE_LOCK, threads.limit(limits=1, user_api="blas"), nlp.memory_zone():
                began = perf_counter()
                docs = nlp.pipe([_document(nlp, part) for part in turn], batch_size=len(turn))
                found += map(find, docs, turn, [gazetteer] * len(turn))
                spent += perf_counter() - began
            if spent > _TIME_LIMIT:
                raise TimeoutError(f"it takes more than {_TIME_LIMIT:.0f} seconds")
        read_by_pipeline = iter(found)
        return [next(read_by_pipeline) if part.language == ENGLISH else find_foreign(part, gazetteer) for part in parts]

    def _features(self, reading: Reading, findings: Sequence[Findings]) -> Features:
        aside = (mention for code in reading.asides for mention in find_in_code(code, self.gazetteer))
        return combine(findings, aside, self.gazetteer)

    @cached_property
    def gazetteer(self) -> Gazetteer:
        """The bundled gazetteer, the user's own and the known names, combined."""
        return load_gazetteer(self.gazetteer_paths, self.known_names)


def in_chunks(items: Iterable[Item], length: Callable[[Item], int], most: int) -> Iterator[list[Item]]:
    """Yield consecutive items in chunks whose lengths add up to at most `most`; a longer item makes a chunk of its own."""
    chunk: list[Item] = []
    total = 0
    for item in items:
        if chunk and total + length(item) > most:
            yield chunk
            chunk, total = [], 0
        chunk.append(item)
        total += length(item)
    if chunk:
        yield chunk


def open_analyzer(
    model: str = BUNDLED_MODEL,
    *,
    gazetteer_paths: Sequence[Path] = (),
    known_names: Mapping[str, str] = MappingProxyType({}),
) -> Analyzer:
    """Find a pipeline without loading it: "bundled", the name of an installed spaCy pipeline, or a folder with one."""
    folder = BUNDLED_PATH if model == BUNDLED_MODEL else Path(model).expanduser()
    if (folder / "meta.json").is_file():
        meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
        location, identity = str(folder), f"{meta['lang']}_{meta['name']}-{meta['version']}"
    elif model != BUNDLED_MODEL and model.isidentifier() and find_spec(model) is not None and _version(model):
        location, identity = model, f"{model}-{_version(model)}"
    else:
        raise SettingsError(
            f"spaCy pipeline {model!r} is not installed: install it (`python -m spacy download {model}`), give the path of its"
            f" folder, or choose {BUNDLED_MODEL!r}."
        )
    return Analyzer(model, location, f"{identity}+rules-{RULES_VERSION}", tuple(gazetteer_paths), dict(known_names))


def _version(model: str) -> str | None:
    try:
        return metadata.version(model)
    except metadata.PackageNotFoundError:
        return None


def _document(nlp: "Language", part: Part) -> "Doc":
    doc = nlp.make_doc(part.text)
    for token in doc[:-1]:
        if "\n" in token.text:
            doc[token.i + 1].is_sent_start = True
    return doc


@lru_cache(maxsize=1)
def _native_threads() -> "ThreadpoolController":
    """Return the controller that limits BLAS to one thread: for short texts, several would mostly busy-wait for each other."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@lru_cache(maxsize=2)
def _load_pipeline(location: str) -> "Language":
    import spacy
    from thinc.api import use_ops

    try:
        # NumPy's matrix products take two thirds of the time of blis, thinc's default, and release the GIL.
        with use_ops("numpy", use_blis=False):
            nlp = spacy.load(location)
    except (OSError, ValueError, ImportError) as error:
        raise SettingsError(f"spaCy pipeline {location!r} cannot be loaded ({error}): reinstall it.") from error
    probe = nlp("Alice read the old books in Paris.")
    if missing := [part for annotation, part in _NEEDED.items() if not probe.has_annotation(annotation)]:
        raise SettingsError(f"spaCy pipeline {location!r} lacks {' and '.join(missing)}: choose a complete one.")
    return nlp
