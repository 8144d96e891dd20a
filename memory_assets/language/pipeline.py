"""The spaCy pipeline behind one small interface: text in, features out."""

import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from memory_assets.errors import SettingsError
from memory_assets.language.entities import as_entities, find_mentions
from memory_assets.language.features import find_actions, find_tags
from memory_assets.language.gazetteer import Gazetteer, load_gazetteer
from memory_assets.models import MAX_IMPORTED_LENGTH, Features

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

BUNDLED_MODEL = "bundled"
BUNDLED_PATH = Path(__file__).with_name("pipeline_en")

RULES_VERSION = 1
"""Counts up whenever entities, actions or automatic tags of an unchanged text may come out differently."""

_NEEDED = {
    "POS": "a tagger or morphologizer",
    "LEMMA": "a lemmatizer",
    "DEP": "a parser",
    "ENT_IOB": "an entity recogniser",
}
_BATCH = 64
_PIPELINE_LOCK = threading.Lock()
"""spaCy's shared vocabulary is not promised to be safe under threads; one text at a time per process is as
fast."""


class Analyzer:
    """Finds entities, actions and automatic tags; the pipeline is loaded when the first text arrives.

    Attributes:
        model: What was asked for: "bundled", an installed pipeline's name, or a folder.
        name: Pipeline, its version and the version of the rules on top, e.g. "memory_en-1.0.0+rules-1";
            stored rows record it. The user's gazetteer and the known names are not part of it.
    """

    def __init__(
        self,
        model: str,
        location: str,
        name: str,
        gazetteer_paths: Sequence[Path],
        known_names: Mapping[str, str],
    ) -> None:
        self.model = model
        self.name = name
        self._location = location
        self._gazetteer_paths = tuple(gazetteer_paths)
        self._known_names = dict(known_names)

    def analyze(self, text: str) -> Features:
        """Features of one text.

        Raises:
            SettingsError: The pipeline cannot be loaded or lacks a component.
            InvalidInputError: The user's gazetteer or the known names are not usable.
        """
        return self.analyze_batch([text])[0]

    def analyze_batch(self, texts: Iterable[str]) -> list[Features]:
        """Features of each text, the same as one at a time, several times faster.

        Raises:
            SettingsError: The pipeline cannot be loaded or lacks a component.
            InvalidInputError: The user's gazetteer or the known names are not usable.
        """
        with _PIPELINE_LOCK:
            nlp = _load_pipeline(self._location)
            return [self._features(doc) for doc in nlp.pipe(texts, batch_size=_BATCH)]

    @cached_property
    def gazetteer(self) -> Gazetteer:
        """The bundled gazetteer, the user's own and the known names, as one."""
        return load_gazetteer(self._gazetteer_paths, self._known_names)

    def _features(self, doc: "Doc") -> Features:
        mentions = find_mentions(doc, self.gazetteer)
        entities = as_entities(mentions)
        tags = find_tags(doc, entities, mentions, self.gazetteer)
        return Features(entities, find_actions(doc, mentions), tags)


def open_analyzer(
    model: str = BUNDLED_MODEL,
    *,
    gazetteer_paths: Sequence[Path] = (),
    known_names: Mapping[str, str] = MappingProxyType({}),
) -> Analyzer:
    """Find the pipeline without loading it.

    Args:
        model: "bundled", the name of any installed spaCy pipeline, or a folder that holds one.
        gazetteer_paths: The user's own gazetteers (format: `memory_assets.language.gazetteer`); missing files
            are empty ones.
        known_names: Names that the graph knows -> their entity type; they are found in any casing.

    Raises:
        SettingsError: There is no such pipeline; the message says how to get one.
    """
    folder = BUNDLED_PATH if model == BUNDLED_MODEL else Path(model).expanduser()
    if (folder / "meta.json").is_file():
        meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
        location, identity = str(folder), f"{meta['lang']}_{meta['name']}-{meta['version']}"
    elif model != BUNDLED_MODEL and model.isidentifier() and find_spec(model) is not None and _version(model):
        location, identity = model, f"{model}-{_version(model)}"
    else:
        raise SettingsError(
            f"spaCy pipeline {model!r} is not installed: install it (`python -m spacy download {model}`), name the folder"
            f" it lies in, or choose {BUNDLED_MODEL!r}."
        )
    return Analyzer(model, location, f"{identity}+rules-{RULES_VERSION}", gazetteer_paths, known_names)


def _version(model: str) -> str | None:
    try:
        return metadata.version(model)
    except metadata.PackageNotFoundError:
        return None


@lru_cache(maxsize=2)
def _load_pipeline(location: str) -> "Language":
    import spacy
    from thinc.api import use_ops

    from memory_assets.language.noun_chunks import use_ud_noun_chunks

    try:
        # NumPy's matrix products take two thirds of the time of blis, thinc's default, and leave the interpreter to other threads.
        with use_ops("numpy", use_blis=False):
            nlp = spacy.load(location)
    except (OSError, ValueError, ImportError) as error:
        raise SettingsError(f"spaCy pipeline {location!r} cannot be loaded ({error}): reinstall it.") from error
    use_ud_noun_chunks(nlp)
    nlp.max_length = 2 * MAX_IMPORTED_LENGTH
    probe = nlp("Alice read the old books in Paris.")
    if missing := [part for annotation, part in _NEEDED.items() if not probe.has_annotation(annotation)]:
        raise SettingsError(f"spaCy pipeline {location!r} lacks {' and '.join(missing)}: choose a complete one.")
    return nlp
