"""Continue training the entity recogniser on notes as people write them.

    python tools/english_pipeline/notes.py --base DIR OUTPUT_DIR [TEXTS.jsonl ...]

`notes/*.txt` hold written sentences with their names in brackets: a person or animal without a prefix, `o:` an organisation, `l:` a place,
`p:` a project, `m:` anything else with a name. The TEXTS (`content` of each line) are rehearsed with the labels that the recogniser gave
them before, so that it does not forget. OUTPUT_DIR gets the whole pipeline. One core needs about ten minutes; the seed is fixed.
"""

import argparse
import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import spacy
import srsly
from assembly import needed_strings
from entity_data import Names, lower_case, substitute
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.training.batchers import minibatch_by_words
from thinc.api import Adam, fix_random_seed, warmup_linear

from memory_assets.language.gazetteer import load_gazetteer
from memory_assets.language.languages import ENGLISH
from memory_assets.language.reading import read

NOTES = Path(__file__).parent / "notes"
TRAINED = {"pets": 20, "people": 8, "work": 8, "technical": 2}
"""Files of written sentences, and the number of copies of each sentence with names, each copy with other names. Few of technical notes,
lest a word with a capital is rarely a name."""
LABELS = {"": "PERSON", "o:": "ORG", "l:": "LOC", "m:": "MISC", "p:": "PROJECT"}
VERSION = "1.2.0"
SEED = 5
LOWER_CASED = 0.12
REHEARSED = 1_600
"""Number of rehearsed text parts."""
EPOCHS = 7
WORDS_A_BATCH = 400
LEARNING_RATE = 0.0008
_MARKED = re.compile(r"\[((?:[olmp]:)?)([^\]]+)\]")
_LEAST_SEEN = 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", type=Path, required=True, help="version 1.0.0 of the pipeline")
    parser.add_argument("output", type=Path, metavar="OUTPUT_DIR")
    parser.add_argument("texts", type=Path, nargs="*", metavar="TEXTS.jsonl")
    arguments = parser.parse_args()
    fix_random_seed(SEED)
    nlp = spacy.load(arguments.base)
    draws = NoteNames(SEED)
    by_file = {name: list(read_notes(NOTES / f"{name}.txt", nlp)) for name in TRAINED}
    written = [doc for docs in by_file.values() for doc in docs]
    varied = [
        substitute(doc, draws, nlp) for name, docs in by_file.items() for _ in range(TRAINED[name]) for doc in docs if doc.ents
    ]
    plain = [doc for name, docs in by_file.items() if name != "technical" for doc in docs if not doc.ents]
    notes = [*written, *varied, *plain]
    notes += [lower_case(doc) for doc in notes if draws.random.random() < LOWER_CASED]
    draws.random.shuffle(notes)
    joined = [Doc.from_docs(notes[i : i + 3]) for i in range(0, len(notes) // 2, 3)]
    rehearsed = list(rehearse(arguments.texts, nlp, draws.random))
    print(f"{len(written)} written sentences, {len(notes)} with copies, {len(rehearsed)} rehearsed", flush=True)
    averages = train(nlp, [*joined, *notes[len(notes) // 2 :], *rehearsed], draws.random)
    nlp.meta["version"] = VERSION
    with nlp.use_params(averages):
        nlp.to_disk(arguments.output)
    srsly.write_json(arguments.output / "vocab" / "strings.json", sorted(needed_strings(nlp)))


class NoteNames(Names):
    """Random draws of names, including animals' names and words that are also names."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        marked = [match.groups() for name in TRAINED for match in _MARKED.finditer((NOTES / f"{name}.txt").read_text())]
        self.written = {label: sorted({text for mark, text in marked if LABELS[mark] == label}) for label in LABELS.values()}

    def draw(self, label: str, tokens: int | None = None) -> str:
        """Draw a name with the label (a person's of `tokens` words), often one from the written sentences."""
        single = label == "PERSON" and tokens in {None, 1}
        if label in {"MISC", "PROJECT"} or (single and self.random.random() < 0.5):
            return self.random.choice(self.written[label])
        return super().draw(label, tokens)


def read_notes(path: Path, nlp: Language) -> Iterator[Doc]:
    """Yield the sentences of a file with the entities that its brackets mark."""
    gazetteer = load_gazetteer([], {})
    for line in path.read_text(encoding="utf-8").splitlines():
        text, spans, end = "", [], 0
        for match in _MARKED.finditer(line.partition("\t")[0]):
            text += line[end : match.start()]
            spans.append((len(text), len(text) + len(match[2]), LABELS[match[1]]))
            text += match[2]
            end = match.end()
        text += line.partition("\t")[0][end:]
        doc = nlp.make_doc(text)
        found = (doc.char_span(*span[:2], label=span[2], alignment_mode="expand") for span in spans)
        entities = [span for span in found if span is not None]
        named = {token.i for entity in entities for token in entity}
        listed = (doc.char_span(hit.mention.start, hit.mention.end, alignment_mode="expand") for hit in gazetteer.find(text))
        unsure = {token.i for span in listed if span and span[0].text[0].isupper() for token in span} - named
        doc.set_ents(entities, missing=[Span(doc, i, i + 1) for i in unsure], default="outside")
        yield doc


def rehearse(paths: Iterable[Path], nlp: Language, draw: random.Random) -> Iterator[Doc]:
    """Yield English parts of texts with the recogniser's own labels.

    A capitalised word without a label counts as not annotated. Exceptions: the first word of a sentence is a person if it is
    one inside other sentences, and not a name if it occurs in lower case elsewhere.
    """
    contents = [json.loads(line)["content"] for path in paths for line in path.read_text(encoding="utf-8").splitlines()]
    parts = sorted({part.text for content in contents for part in read(content).parts if part.language == ENGLISH})
    docs = list(nlp.pipe(draw.sample(parts, min(REHEARSED, len(parts))), disable=["trainable_lemmatizer"]))
    lower = Counter(token.text for doc in docs for token in doc if token.is_lower)
    inside = Counter((token.text, token.ent_type_) for doc in docs for token in doc if token.is_title and not token.is_sent_start)
    for doc in docs:
        entities, missing = list(doc.ents), []
        for token in doc:
            if token.ent_type_ or not token.text[0].isupper():
                continue
            is_person = inside[token.text, "PERSON"] >= max(_LEAST_SEEN, 4 * inside[token.text, ""])
            after = token.nbor() if token.i + 1 < len(doc) else None
            if token.is_sent_start and is_person and not lower[token.lower_] and after is not None and after.is_lower:
                entities.append(Span(doc, token.i, token.i + 1, label="PERSON"))
            elif not lower[token.lower_]:
                missing.append(Span(doc, token.i, token.i + 1))
        copy = Doc(nlp.vocab, words=[token.text for token in doc], spaces=[bool(token.whitespace_) for token in doc])
        copy.set_ents(
            [Span(copy, entity.start, entity.end, label=entity.label_) for entity in entities],
            missing=[Span(copy, span.start, span.end) for span in missing],
            default="outside",
        )
        yield copy


def train(nlp: Language, docs: list[Doc], draw: random.Random) -> dict:
    """Update only the entity recogniser; return the averages of its weights."""
    recogniser: Any = nlp.get_pipe("ner")
    for label in ("MISC", "PROJECT"):
        recogniser.add_label(label)
    examples = [
        Example(Doc(nlp.vocab, words=[t.text for t in doc], spaces=[bool(t.whitespace_) for t in doc]), doc) for doc in docs
    ]
    words = sum(len(doc) for doc in docs)
    steps = EPOCHS * words // WORDS_A_BATCH
    rate: Any = warmup_linear(LEARNING_RATE, steps // 15, steps + 1)
    optimizer = Adam(rate, L2=0.01, grad_clip=1.0, use_averages=True)
    others = [name for name in nlp.pipe_names if name not in {"tok2vec", "ner"}]
    for epoch in range(EPOCHS):
        draw.shuffle(examples)
        losses: dict[str, float] = {}
        for batch in minibatch_by_words(examples, size=WORDS_A_BATCH, tolerance=0.2):
            nlp.update(batch, drop=0.3, sgd=optimizer, losses=losses, annotates=["tok2vec"], exclude=["tok2vec", *others])
            optimizer.step_schedules()
        print(f"epoch {epoch + 1}: loss {losses['ner']:.0f} over {words} words", flush=True)
    return dict(optimizer.averages or {})


if __name__ == "__main__":
    main()
