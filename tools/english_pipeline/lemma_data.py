"""Extra training material for the lemmatiser: inflected forms in short frames.

A treebank of a few hundred thousand words has few irregular or consonant-doubling forms. WordNet's exception lists (in the
package `spacy-lookups-data`) have thousands, and this project's word list adds developers' vocabulary.
"""

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from spacy.lookups import load_lookups
from spacy.tokens import Doc
from spacy.vocab import Vocab

_FRAMES = {
    "past": ("They {} it .", "Yesterday Alice {} the list .", "We {} the code in March ."),
    "participle": ("It was {} by them .", "She has {} the file .", "The notes were {} yesterday ."),
    "progressive": ("She is {} the list .", "We are {} it now .", "They stopped {} the files ."),
    "present": ("He {} it .", "The service {} the data .", "She often {} the notes ."),
    "singular": ("The {} is here .", "We saw the {} .", "Its {} was gone ."),
    "plural": ("The {} are here .", "We saw two {} .", "All the old {} were gone ."),
    "comparative": ("It is {} than before .", "This one is {} ."),
    "superlative": ("It is the {} of all .", "The {} one was here ."),
}
_FRAME_LEMMAS = {
    "they": "they", "we": "we", "she": "she", "he": "he", "it": "it", "was": "be", "were": "be", "is": "be",
    "are": "be", "has": "have", "stopped": "stop", "saw": "see", "files": "file", "notes": "note", "them": "they",
    "gone": "go", "its": "its", "this": "this", "all": "all", "alice": "Alice", "march": "March", "data": "data",
}  # fmt: skip
_REGULAR_VERBS = 3000
_REPEATS_OF_DEVELOPER_WORDS = 8


def inflected_forms(treebank: Iterable[Doc], vocab: Vocab, seed: int) -> Iterator[Doc]:
    """Yield a short document with lemmas for each inflected form; skip irregular forms that the treebank has more than once."""
    draw = random.Random(seed)
    seen = Counter((t.lower_, t.pos_) for doc in treebank for t in doc)
    tables = load_lookups("en", ["lemma_exc", "lemma_index"])
    exceptions, index = tables.get_table("lemma_exc"), tables.get_table("lemma_index")
    pairs: list[tuple[str, str, str]] = []
    for pos in ("verb", "noun", "adj"):
        for form, lemmas in exceptions[pos].items():
            if form.endswith("ies"):
                continue
            if form.isalpha() and lemmas[0].isalpha() and seen[form, pos.upper()] < 2 and form != lemmas[0]:
                pairs.extend((kind, form, lemmas[0]) for kind in _kinds(form, pos))
    verbs = sorted(v for v in index["verb"] if v.isalpha() and len(v) > 3)
    irregular = {lemma for lemmas in exceptions["verb"].values() for lemma in lemmas}
    for verb in draw.sample([v for v in verbs if v not in irregular], _REGULAR_VERBS):
        pairs.extend(_inflect(verb))
    names = Path(__file__).parent / "names"
    listed = [pair for entry in _lines(names / "developer_verbs.txt") for pair in _inflect(entry)]
    for line in _lines(names / "developer_nouns.tsv"):
        form, lemma = line.split("\t")
        listed.append(("singular" if form == lemma else "plural", form, lemma))
    pairs.extend(listed * _REPEATS_OF_DEVELOPER_WORDS)
    for kind, form, lemma in pairs:
        words: list[str] = []
        lemmas: list[str] = []
        for word in draw.choice(_FRAMES[kind]).split():
            words.append(form if word == "{}" else word)
            lemmas.append(lemma if word == "{}" else _FRAME_LEMMAS.get(word.lower()) or word.lower())
        yield Doc(vocab, words=words, lemmas=lemmas)


def _kinds(form: str, pos: str) -> tuple[str, ...]:
    """Return the kinds of inflection that an irregular form can have."""
    if pos == "noun":
        return ("plural",)
    if pos == "adj":
        return ("superlative",) if form.endswith("st") else ("comparative",)
    if form.endswith("ing"):
        return ("progressive",)
    return ("present",) if form.endswith("s") else ("past", "participle")


def _inflect(entry: str) -> list[tuple[str, str, str]]:
    """Return the forms of a verb entry; "run+=ran,run" doubles its consonant (+) and lists its irregular forms (=)."""
    stem, _, irregular = entry.partition("=")
    verb = stem.rstrip("+")
    base = verb + verb[-1] if stem.endswith("+") else verb
    if verb.endswith("ie"):
        past, progressive = verb + "d", verb[:-2] + "ying"
    elif verb.endswith("e") and not stem.endswith("+"):
        past, progressive = verb + "d", (verb if verb.endswith(("ee", "oe", "ye")) else verb[:-1]) + "ing"
    elif verb.endswith("y") and verb[-2] not in "aeiou":
        past, progressive = verb[:-1] + "ied", verb + "ing"
    else:
        past, progressive = base + "ed", base + "ing"
    if verb.endswith(("s", "x", "z", "ch", "sh")):
        present = verb + "es"
    elif verb.endswith("y") and verb[-2] not in "aeiou":
        present = verb[:-1] + "ies"
    else:
        present = verb + "s"
    participle = past
    if irregular:
        past, participle = irregular.split(",")
    return [
        ("past", past, verb),
        ("participle", participle, verb),
        ("progressive", progressive, verb),
        ("present", present, verb),
    ]


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()
