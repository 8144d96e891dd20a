"""Measure scores, size and speed of a pipeline on the development files."""

import time
from dataclasses import asdict, dataclass
from pathlib import Path

import spacy
from spacy.tokens import DocBin
from spacy.training import Example

_SYNTAX_SCORES = ("token_f", "tag_acc", "pos_acc", "morph_acc", "lemma_acc", "dep_uas", "dep_las", "sents_f")
_ENTITY_SCORES = ("ents_p", "ents_r", "ents_f")
_TIMED_RUNS = 3


@dataclass(frozen=True)
class Scores:
    """Results of one evaluation.

    Attributes:
        accuracy: spaCy's scores by name, 0..1, from raw text (tokenization errors count).
        entities: Precision, recall and F (p, r, f) of each entity type, 0..1.
        words_per_second: Tokens per second of CPU time for the whole pipeline over the development texts, best of three
            runs (with OMP_NUM_THREADS=1, on one core).
        load_seconds: Time of `spacy.load`, without `import spacy`.
        megabytes: Size of all files, in units of 10^6 bytes.
    """

    accuracy: dict[str, float]
    entities: dict[str, dict[str, float]]
    words_per_second: float
    load_seconds: float
    megabytes: float


def evaluate(pipeline: Path, data: Path) -> Scores:
    """Score a pipeline on syntax_dev.spacy and ner_dev.spacy."""
    started = time.perf_counter()
    nlp = spacy.load(pipeline)
    load_seconds = time.perf_counter() - started
    treebank = list(DocBin().from_disk(data / "syntax_dev.spacy").get_docs(nlp.vocab))
    annotated = list(DocBin().from_disk(data / "ner_dev.spacy").get_docs(nlp.vocab))
    syntax = nlp.evaluate([Example(nlp.make_doc(doc.text), doc) for doc in treebank])
    entities = nlp.evaluate([Example(nlp.make_doc(doc.text), doc) for doc in annotated])
    speeds = []
    for _ in range(_TIMED_RUNS):
        started = time.process_time()
        words = sum(len(doc) for doc in nlp.pipe(doc.text for doc in treebank))
        speeds.append(words / (time.process_time() - started))
    return Scores(
        accuracy={
            **{name: round(syntax[name], 4) for name in _SYNTAX_SCORES},
            **{name: round(entities[name], 4) for name in _ENTITY_SCORES},
        },
        entities={
            label: {name: round(value, 4) for name, value in values.items()}
            for label, values in sorted(entities["ents_per_type"].items())
        },
        words_per_second=round(max(speeds)),
        load_seconds=round(load_seconds, 2),
        megabytes=round(sum(file.stat().st_size for file in pipeline.rglob("*") if file.is_file()) / 1e6, 1),
    )


def print_scores(scores: Scores) -> None:
    """Print the table that README.md quotes."""
    for name, value in scores.accuracy.items():
        print(f"{name:16} {100 * value:6.2f}")
    for label, values in scores.entities.items():
        print(f"{label:16} P {100 * values['p']:.1f}  R {100 * values['r']:.1f}  F {100 * values['f']:.1f}")
    for name in ("words_per_second", "load_seconds", "megabytes"):
        print(f"{name:16} {asdict(scores)[name]:>8}")
