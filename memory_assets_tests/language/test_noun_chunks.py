"""Noun chunks over Universal Dependencies labels."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc
from spacy.vocab import Vocab

from memory_assets.language import noun_chunks as module
from memory_assets.language.noun_chunks import noun_chunks, use_ud_noun_chunks

PIPELINE = Path(module.__file__).parent / "pipeline_en"


def parsed(*rows: tuple[str, str, int, str]) -> Doc:
    """A document from rows of word, part of speech, head's index and label, as a treebank would have it."""
    iterator: Any = noun_chunks
    vocab = Vocab(get_noun_chunks=iterator)
    words, pos, heads, deps = (list(column) for column in zip(*rows, strict=True))
    return Doc(vocab, words=words, pos=pos, heads=heads, deps=deps)


def chunk_texts(doc: Doc) -> list[str]:
    return [chunk.text for chunk in doc.noun_chunks]


def test_a_chunk_takes_its_determiner_adjectives_and_compounds() -> None:
    doc = parsed(
        ("Alice", "PROPN", 1, "nsubj"),
        ("debugged", "VERB", 1, "ROOT"),
        ("the", "DET", 5, "det"),
        ("stale", "ADJ", 5, "amod"),
        ("DuckDB", "PROPN", 5, "compound"),
        ("lock", "NOUN", 1, "obj"),
    )
    assert chunk_texts(doc) == ["Alice", "the stale DuckDB lock"]


def test_a_preposition_opens_a_chunk_of_its_own_and_stays_outside() -> None:
    doc = parsed(
        ("locks", "NOUN", 0, "ROOT"),
        ("in", "ADP", 3, "case"),
        ("the", "DET", 3, "det"),
        ("catalog", "NOUN", 0, "nmod"),
    )
    assert chunk_texts(doc) == ["locks", "the catalog"]


def test_a_possessor_belongs_to_the_chunk_of_what_is_possessed() -> None:
    doc = parsed(
        ("Alice", "PROPN", 2, "nmod:poss"),
        ("'s", "PART", 0, "case"),
        ("laptop", "NOUN", 3, "nsubj"),
        ("broke", "VERB", 3, "ROOT"),
    )
    assert chunk_texts(doc) == ["Alice 's laptop"]


def test_a_nominal_predicate_does_not_swallow_its_subject_and_copula() -> None:
    doc = parsed(
        ("Atlas", "PROPN", 4, "nsubj"),
        ("is", "AUX", 4, "cop"),
        ("a", "DET", 4, "det"),
        ("search", "NOUN", 4, "compound"),
        ("service", "NOUN", 4, "ROOT"),
    )
    assert chunk_texts(doc) == ["Atlas", "a search service"]


def test_conjuncts_are_separate_chunks_without_the_conjunction() -> None:
    doc = parsed(
        ("logs", "NOUN", 0, "ROOT"),
        ("and", "CCONJ", 3, "cc"),
        ("slow", "ADJ", 3, "amod"),
        ("queries", "NOUN", 0, "conj"),
    )
    assert chunk_texts(doc) == ["logs", "slow queries"]


def test_a_name_of_several_words_is_one_chunk() -> None:
    doc = parsed(
        ("met", "VERB", 0, "ROOT"),
        ("Alice", "PROPN", 0, "obj"),
        ("Lindholm", "PROPN", 1, "flat"),
    )
    assert chunk_texts(doc) == ["Alice Lindholm"]


def test_what_hangs_on_the_number_after_a_head_is_not_taken_in() -> None:
    doc = parsed(
        ("version", "NOUN", 0, "ROOT"),
        ("3", "NUM", 0, "nummod"),
        ("of", "ADP", 4, "case"),
        ("the", "DET", 4, "det"),
        ("parser", "NOUN", 1, "nmod"),
    )
    assert chunk_texts(doc) == ["version 3", "the parser"]


def test_hyphens_join_a_modifier_to_its_head_and_do_not_open_a_chunk() -> None:
    doc = parsed(
        ("-", "PUNCT", 3, "punct"),
        ("event", "NOUN", 3, "compound"),
        ("-", "PUNCT", 3, "punct"),
        ("loop", "NOUN", 3, "ROOT"),
    )
    assert chunk_texts(doc) == ["event - loop"]


def test_a_span_yields_only_the_chunks_whose_head_it_holds() -> None:
    doc = parsed(
        ("Alice", "PROPN", 1, "nsubj"),
        ("left", "VERB", 1, "ROOT"),
        ("a", "DET", 3, "det"),
        ("note", "NOUN", 1, "obj"),
    )
    assert [chunk.text for chunk in doc[1:4].noun_chunks] == ["a note"]


def test_an_unparsed_text_is_refused_with_the_mend() -> None:
    doc = Doc(Vocab(), words=["notes"])
    with pytest.raises(ValueError, match="need a dependency parse"):
        list(noun_chunks(doc))


def test_a_pipeline_without_a_parser_is_left_as_it_was() -> None:
    nlp = spacy.blank("en")
    before = nlp.vocab.get_noun_chunks
    assert not use_ud_noun_chunks(nlp)
    assert nlp.vocab.get_noun_chunks is before


@pytest.fixture(scope="module")
def bundled() -> Language:
    nlp = spacy.load(PIPELINE)
    assert use_ud_noun_chunks(nlp)
    return nlp


def test_the_bundled_pipeline_finds_chunks_in_a_developers_note(bundled: Language) -> None:
    doc = bundled("Alice moved the old search index to a new server.")
    assert chunk_texts(doc) == ["Alice", "the old search index", "a new server"]


def test_chunks_of_the_bundled_pipeline_are_ordered_and_never_overlap(bundled: Language) -> None:
    doc = bundled(
        "We left MongoDB because its backups were slow, and Bob's team, which owns the billing service, agreed. "
        "The lock in Atlas is a race between two writers; nobody had seen it in the March release notes."
    )
    chunks = list(doc.noun_chunks)
    assert len(chunks) >= 8
    assert all(left.end <= right.start for left, right in pairwise(chunks))
