"""Train, assemble and score the bundled English pipeline.

    python tools/english_pipeline/train.py DATA_DIR OUTPUT_DIR

DATA_DIR holds syntax_train.spacy, syntax_dev.spacy, ner_train.spacy and ner_dev.spacy. OUTPUT_DIR is replaced when the new
pipeline is complete. Runs on one CPU core; README.md has the time and the requirements.
"""

import argparse
import random
import shutil
import sys
import tempfile
from pathlib import Path

import spacy
from assembly import assemble, describe
from augmentation import varied_copies
from entity_data import Names, clean, lower_case, silver, split_sentences, substitute, written_sentences
from evaluation import evaluate, print_scores
from lemma_data import inflected_forms
from spacy.cli.train import train
from spacy.language import Language
from spacy.lookups import load_lookups
from spacy.tokens import Doc, DocBin
from tokenizer import tune_tokenizer

RECIPE = Path(__file__).parent
DATA_FILES = ("syntax_train.spacy", "syntax_dev.spacy", "ner_train.spacy", "ner_dev.spacy")
SEED = 42
TREEBANK_COPIES = 3
RARE_WORD_LEVEL = 0.35
LOWER_CASE_LEVEL = 0.06
WRITTEN_SENTENCES = 2500
LOWER_CASED_SENTENCES = 0.12


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, metavar="DATA_DIR")
    parser.add_argument("output", type=Path, metavar="OUTPUT_DIR")
    parser.add_argument("--work", type=Path, help="keep corpora and intermediate pipelines in this folder")
    arguments = parser.parse_args()
    absent = [name for name in DATA_FILES if not (arguments.data / name).is_file()]
    if absent:
        print(f"{arguments.data}: no {', '.join(absent)}; README.md names the files it must hold", file=sys.stderr)
        return 2
    try:
        load_lookups("en", ["lemma_exc", "lemma_index"])
    except ValueError:
        print("the lists of irregular forms are missing; run `pip install spacy-lookups-data==1.0.5`", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as temporary:
        work = arguments.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        run(arguments.data, arguments.output, work)
    return 0


def run(data: Path, output: Path, work: Path) -> None:
    """Run all steps, from the treebank to a scored pipeline in `output`."""
    nlp = tune_tokenizer(spacy.blank("en"))
    treebank = read(data / "syntax_train.spacy", nlp)
    annotated = read(data / "ner_train.spacy", nlp)

    start = fit("syntax", work, data / "syntax_train.spacy", data / "syntax_dev.spacy")
    varied = list(varied_copies(treebank, TREEBANK_COPIES, RARE_WORD_LEVEL, LOWER_CASE_LEVEL, seed=11))
    DocBin(docs=varied).to_disk(work / "varied.spacy")
    syntax = fit("syntax_finish", work, work / "varied.spacy", data / "syntax_dev.spacy", start)

    inflected = inflected_forms(treebank, nlp.vocab, seed=3)
    DocBin(docs=[*treebank, *varied[: len(treebank)], *inflected]).to_disk(work / "lemmas.spacy")
    lemmas = fit("lemmas", work, work / "lemmas.spacy", data / "syntax_dev.spacy", syntax)

    names = Names(seed=7)
    sentences = [sentence for doc in annotated for sentence in split_sentences(clean(doc))]
    DocBin(docs=entity_corpus(sentences, names, nlp)).to_disk(work / "teacher.spacy")
    teacher = fit("teacher", work, work / "teacher.spacy", data / "ner_dev.spacy", syntax)
    already_annotated = {doc.text for doc in annotated}
    unlabelled = [doc for doc in treebank if doc.text not in already_annotated]
    sentences.extend(silver(unlabelled, spacy.load(teacher)))
    DocBin(docs=entity_corpus(sentences, names, nlp)).to_disk(work / "entities.spacy")
    entities = fit("entities", work, work / "entities.spacy", data / "ner_dev.spacy", syntax)

    finished = work / "pipeline"
    shutil.rmtree(finished, ignore_errors=True)
    assemble(syntax, lemmas, entities, finished)
    scores = evaluate(finished, data)
    describe(finished, scores)
    replace(finished, output)
    print_scores(scores)


def read(path: Path, nlp: Language) -> list[Doc]:
    """Read the documents of a DocBin."""
    return list(DocBin().from_disk(path).get_docs(nlp.vocab))


def fit(step: str, work: Path, train_path: Path, dev_path: Path, syntax: Path | None = None) -> Path:
    """Train one step from its configuration; return the path of the best pipeline on the development set."""
    overrides: dict[str, str | int] = {
        "paths.train": str(train_path),
        "paths.dev": str(dev_path),
        "system.seed": SEED,
    }
    if syntax is not None:
        overrides["paths.syntax"] = str(syntax)
    if step == "teacher":
        overrides |= {"training.max_steps": 600, "training.eval_frequency": 200}
    config = RECIPE / ("entities.cfg" if step == "teacher" else f"{step}.cfg")
    train(config, work / step, overrides=overrides)
    return work / step / "model-best"


def entity_corpus(sentences: list[Doc], names: Names, nlp: Language) -> list[Doc]:
    """Return the annotated sentences, copies with other names, written sentences, and some of all these in lower case."""
    substituted = [substitute(doc, names, nlp) for doc in sentences if doc.ents]
    written = list(written_sentences(WRITTEN_SENTENCES, names, nlp))
    everything = [*sentences, *substituted, *written]
    everything.extend(lower_case(doc) for doc in list(everything) if names.random.random() < LOWER_CASED_SENTENCES)
    random.Random(SEED).shuffle(everything)
    return everything


def replace(finished: Path, output: Path) -> None:
    """Replace the old pipeline with the finished one."""
    beside = output.with_name(f".{output.name}.new")
    shutil.rmtree(beside, ignore_errors=True)
    shutil.copytree(finished, beside)
    if output.exists():
        old = output.with_name(f".{output.name}.old")
        shutil.rmtree(old, ignore_errors=True)
        output.replace(old)
        beside.replace(output)
        shutil.rmtree(old)
    else:
        beside.replace(output)


if __name__ == "__main__":
    sys.exit(main())
