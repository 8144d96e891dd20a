"""Measure the quality and speed of the language pipeline: `python benchmarks/language.py`.

Prints the precision and recall of entities (per type) and actions on the hand-labelled sentences of memory_assets_tests/data, then
words and memories per second of processor time, with and without embedding, the wall time of one memory, and the cold start in fresh
processes.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from memory_assets.language.embedders import Embedder, open_embedder
from memory_assets.language.pipeline import Analyzer, open_analyzer
from memory_assets.language.process import process_batch
from memory_assets.models import Entity, Kind, Memory, Source

DATA = Path(__file__).parents[1] / "memory_assets_tests" / "data"
LABELLED = DATA / "entity_sentences.jsonl"
HELD_OUT = DATA / "entity_sentences_heldout.jsonl"
"""Written and labelled after the rules; see docs/language.md for the figures of the first look."""
MEMORY_STYLE = DATA / "memory_style.jsonl"
"""Notes with Markdown, code, quotes and other languages, written and labelled after the rules; labels include the tags a reader expects."""
INVENTED_PROJECTS = {"Atlas": "PROJECT", "Heron": "PROJECT", "Quillstack": "PROJECT", "Lumen": "PROJECT", "Marigold": "PROJECT"}
COLD_STARTS = {
    "open and analyse the first text": (
        "from memory_assets.language.pipeline import open_analyzer; open_analyzer().analyze('Alice read a book.')"
    ),
    "import spacy alone": "import spacy",
    "count the tokens of a first text": (
        "from memory_assets.language.tokens import count_tokens; count_tokens('Alice read a book.')"
    ),
    "find a first interval": (
        "from datetime import UTC, datetime; from memory_assets.language.intervals import find_interval;"
        "find_interval('in March', datetime.now(UTC), UTC)"
    ),
    "normalise a first tag": "from memory_assets.language.tags import normalise_tag; normalise_tag('unit tests')",
    "python alone": "",
}


@dataclass(frozen=True, slots=True)
class Labelled:
    """One sentence with a person's labels."""

    text: str
    entities: tuple[Entity, ...]
    actions: tuple[str, ...]
    tags: tuple[str, ...] = ()


@dataclass(slots=True)
class Count:
    """Counts of hits, false alarms and misses."""

    hits: int = 0
    false: int = 0
    missed: int = 0

    def add(self, expected: set, found: set) -> None:
        """Add the items in both sets, in `found` alone and in `expected` alone."""
        self.hits += len(expected & found)
        self.false += len(found - expected)
        self.missed += len(expected - found)

    @property
    def precision(self) -> float:
        """Return the share of found items that are right."""
        return self.hits / max(1, self.hits + self.false)

    @property
    def recall(self) -> float:
        """Return the share of expected items that were found."""
        return self.hits / max(1, self.hits + self.missed)

    def __str__(self) -> str:
        counts = f"{self.hits} hits, {self.false} false, {self.missed} missed"
        return f"precision {self.precision:6.1%}  recall {self.recall:6.1%}  ({counts})"


@dataclass(slots=True)
class Scores:
    """Counts over a labelled set; `typed` requires the right text and type, `boundaries` the text alone."""

    typed: Count = field(default_factory=Count)
    boundaries: Count = field(default_factory=Count)
    actions: Count = field(default_factory=Count)
    tags: Count = field(default_factory=Count)
    """Only the recall is meaningful: a text has more good tags than are labelled."""
    by_type: dict[str, Count] = field(default_factory=dict)


def read_labelled(path: Path = LABELLED) -> list[Labelled]:
    rows = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    return [
        Labelled(
            row["text"],
            tuple(Entity(entity["text"], entity["type"]) for entity in row["entities"]),
            tuple(row["actions"]),
            tuple(row.get("tags", ())),
        )
        for row in rows
    ]


def score(rows: list[Labelled], analyzer: Analyzer) -> Scores:
    """Compare the findings of `analyzer` with the labels; case and repetition within a sentence are ignored."""
    scores = Scores()
    for row, features in zip(rows, analyzer.analyze_batch(row.text for row in rows), strict=True):
        expected = {(entity.text.lower(), str(entity.type)) for entity in row.entities}
        found = {(entity.text.lower(), str(entity.type)) for entity in features.entities}
        scores.typed.add(expected, found)
        scores.boundaries.add({text for text, _ in expected}, {text for text, _ in found})
        scores.actions.add(set(row.actions), set(features.actions))
        scores.tags.add(set(row.tags), set(features.tags))
        for kind in {kind for _, kind in expected | found}:
            count = scores.by_type.setdefault(kind, Count())
            count.add({pair for pair in expected if pair[1] == kind}, {pair for pair in found if pair[1] == kind})
    return scores


def print_scores(title: str, scores: Scores) -> None:
    print(title)
    for kind, count in sorted(scores.by_type.items()):
        print(f"  {kind:10} {count}")
    print(f"  {'all, typed':10} {scores.typed}")
    print(f"  {'untyped':10} {scores.boundaries}")
    print(f"  {'actions':10} {scores.actions}")
    if scores.tags.hits:
        print(f"  {'tags':10} recall {scores.tags.recall:6.1%}")


def print_speed(analyzer: Analyzer, embedder_spec: str, memories: int, repeats: int) -> None:
    """Time the pipeline over memories of typical length: four labelled sentences each."""
    sentences = [row.text for row in read_labelled()]
    texts = [" ".join(sentences[(4 * i + j * 7) % len(sentences)] for j in range(4)) for i in range(memories)]
    words = sum(len(text.split()) for text in texts)
    embedder = open_embedder(embedder_spec)
    analyzer.analyze_batch(texts[:64])
    embedder.embed(texts[:64])
    runs = {
        "analysis alone": lambda: analyzer.analyze_batch(texts),
        f"with {embedder.name}": lambda: process(texts, analyzer, embedder),
    }
    print(f"{memories} memories of {words / memories:.0f} words, per second of processor time (median of {repeats})")
    for what, run in runs.items():
        took = statistics.median(seconds(run, time.process_time) for _ in range(repeats))
        print(f"  {what:34} {words / took:9,.0f} words/s {memories / took:7,.0f} memories/s")
    single = sorted(seconds(lambda text=text: process([text], analyzer, embedder)) for text in texts[:200])
    print(f"  one at a time, wall time            p50 {single[100] * 1e3:.1f} ms, p95 {single[190] * 1e3:.1f} ms")


def process(texts: list[str], analyzer: Analyzer, embedder: Embedder) -> None:
    """Analyse and embed texts as a store does."""
    now = datetime.now(UTC)
    drafts = [Memory(0, text, Kind.NOTE, Source.CLI, "", now, now, tags=("a tag",)) for text in texts]
    process_batch(drafts, [("[note]", text) for text in texts], analyzer, embedder)


def print_cold_starts(repeats: int) -> None:
    print(f"cold start, a fresh process each (median of {repeats})")
    for what, code in COLD_STARTS.items():
        command = [sys.executable, "-c", code]
        runs = [seconds(lambda command=command: subprocess.run(command, check=True)) for _ in range(repeats)]
        print(f"  {what:34} {statistics.median(runs):6.2f} s")


def seconds(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    begin = clock()
    work()
    return clock() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the quality and speed of the language pipeline.")
    parser.add_argument("--model", default="bundled", help="spaCy pipeline to measure (default: bundled)")
    parser.add_argument("--embedder", default="auto", help="embedder setting (default: auto)")
    parser.add_argument("--memories", type=int, default=1_000)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    analyzer = open_analyzer(arguments.model)
    informed = open_analyzer(arguments.model, known_names=INVENTED_PROJECTS)
    print(f"pipeline {analyzer.name}")
    print_scores("200 labelled sentences, nothing known beforehand", score(read_labelled(), analyzer))
    print_scores("the same with five project names known", score(read_labelled(), informed))
    print_scores("50 further sentences", score(read_labelled(HELD_OUT), analyzer))
    print_scores("200 notes in the style of memories", score(read_labelled(MEMORY_STYLE), analyzer))
    print_speed(analyzer, arguments.embedder, arguments.memories, arguments.repeats)
    print_cold_starts(arguments.repeats)


if __name__ == "__main__":
    main()
