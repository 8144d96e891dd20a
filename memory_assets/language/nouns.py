"""English nouns to their singular form, by rule and exception, without a language model.

Tags are compared by equality, so that their base form must not depend on a sentence, a pipeline or its
version. The rules are the regular plural spellings of English; the exceptions are the irregular plurals, the
words that only look like plurals, and names. A word the rules do not know for certain stays as it is.
"""

from functools import lru_cache

from memory_assets.language.english import table, word_set


@lru_cache(maxsize=1 << 14)
def singular(word: str) -> str:
    """The singular of one lower-case English noun, the word itself where it is no plural.

    The result is a fixed point: `singular(singular(word)) == singular(word)`. Words of up to three letters
    stay, save for a few listed abbreviations, and so does every word that is not spelt with the letters a to
    z alone.
    """
    if listed := _irregular().get(word):
        return listed
    if len(word) < 4 or word in word_set("nouns.invariant") or not (word.isascii() and word.isalpha()):
        return word
    if word.endswith("children"):
        return word.removesuffix("ren")
    if word.endswith("men") and word not in word_set("nouns.singular_men"):
        return word.removesuffix("en") + "an"
    if word.endswith("ics"):
        return word[:-1] if word in word_set("nouns.countable_ics") else word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zzes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


@lru_cache
def _irregular() -> dict[str, str]:
    return dict(entry.split("=") for entry in table("nouns.irregular").split())
