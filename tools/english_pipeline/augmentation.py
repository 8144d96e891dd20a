"""Augment the treebank: rare words made unknown, and texts without capitals."""

import random
from collections import Counter
from collections.abc import Iterator

from spacy.tokens import Doc

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_SHORTEST = 5
_KEPT_ENDING = 4


def varied_copies(treebank: list[Doc], copies: int, level: float, lower_level: float, seed: int) -> Iterator[Doc]:
    """Yield copies of a treebank with letters changed inside words that occur once or twice.

    A model that sees the same rare words in every epoch memorises them and learns little about unknown words. A changed
    word keeps its first letter, its shape and its last letters, and so its tag and its inflection; its lemma changes
    the same way.

    Args:
        treebank: Fully annotated documents.
        copies: Number of variations of each document.
        level: Share of the words seen once that are changed; half of this share for words seen twice.
        lower_level: Share of the documents that are converted to lower case instead.
        seed: Seed of the random draws.
    """
    draw = random.Random(seed)
    counts = Counter(token.text.lower() for doc in treebank for token in doc)
    for _ in range(copies):
        for doc in treebank:
            lower = draw.random() < lower_level
            words: list[str] = []
            lemmas: list[str] = []
            for token in doc:
                word, lemma = token.text, token.lemma_
                count = counts[word.lower()]
                if lower:
                    word = word.lower()
                elif count < 3 and _is_changeable(word) and draw.random() < level / count:
                    word, lemma = _changed(word, lemma, draw)
                words.append(word)
                lemmas.append(lemma)
            yield Doc(
                doc.vocab,
                words=words,
                spaces=[bool(token.whitespace_) for token in doc],
                tags=[token.tag_ for token in doc],
                pos=[token.pos_ for token in doc],
                morphs=[str(token.morph) for token in doc],
                lemmas=lemmas,
                heads=[token.head.i for token in doc],
                deps=[token.dep_ for token in doc],
                sent_starts=[bool(token.is_sent_start) for token in doc],
            )


def _is_changeable(word: str) -> bool:
    return len(word) >= _SHORTEST and word.isascii() and word.isalpha()


def _changed(word: str, lemma: str, draw: random.Random) -> tuple[str, str]:
    """Replace one or two letters before the ending, in the word and, if it has them, in the lemma."""
    last = len(word) - min(_KEPT_ENDING, len(word) - 2)
    letters, lemma_letters = list(word), list(lemma)
    for place in draw.sample(range(1, last), min(2, last - 1)):
        letter = draw.choice(_LETTERS)
        if place < len(lemma) and lemma[place].lower() == word[place].lower():
            lemma_letters[place] = letter.upper() if lemma[place].isupper() else letter
        letters[place] = letter.upper() if word[place].isupper() else letter
    return "".join(letters), "".join(lemma_letters)
