"""English verb forms: irregular ones from a list, regular ones by spelling, and verbs that the tagger mistook for nouns.

Irregular verbs are a closed set, so a list is more reliable than the tagger, which read "Sparkle stole pizza" as three nouns.
"""

import re
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from memory_assets.language.english import table, word_set

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span, Token

_PARTS = [entry.split() for entry in table("verbs.irregular").split("|")]
IRREGULAR = {form: base for base, *forms in _PARTS for form in forms if form != "lay"}
IRREGULAR |= dict(form.split("=") for form in table("verbs.forms").split())
"""Past tense or participle -> its infinitive."""
_PAST = frozenset(past for _, past, _ in _PARTS if not past.endswith("ed"))
_ALSO_NOUNS = word_set("verbs.also_nouns")
COMMON = word_set("verbs.common") | {base for base, *_ in _PARTS}
"""Common verbs, as infinitives, that may open a sentence."""
_NEVER_NOUNS = word_set("verbs.never_nouns")
_DOUBLED = re.compile(r"([b-df-hj-np-tv-z])\1$")
_KEPT_DOUBLE = ("ll", "ss", "ff", "zz")
_ALWAYS_E = re.compile(r"(?:[cuv]|[^tz]z|[bdgkpt]l|dg|[^aeo](?:ad|at|id|ir|ok)|[^aeou]od)$")
_NEVER_E = re.compile(r"(?:ss|(?<!cr)[aeo][aeiou][dklnprt])$")
"""Endings of stems whose infinitive ends in -e, whatever the pipeline guesses, and of those whose does not: "rotat(ing)", "treat(ed)"."""
_SHORT_STEM = re.compile(r"^(?:[^aeiou]|qu)*[aeiouy][^aeiouwxy]$")
_NOMINAL = frozenset({"NOUN", "PROPN", "PRON"})
_PLACING = frozenset({"in", "on", "at", "to", "with", "into", "from"})
_OBJECTS = frozenset({"DET", "PRON", "PROPN", "NOUN", "ADJ", "NUM", "ADV", "ADP", "PART", "PUNCT", "SCONJ", "CCONJ"})
FINITE_TAGS = frozenset({"VBD", "VBZ", "VBP", "MD"})
_BASES_THEMSELVES = frozenset({"found", "lay", "saw", "fell", "ground", "bore"})


def mend_verbs(doc: "Doc", opaque: AbstractSet[int]) -> None:
    """Correct, in place, the part of speech and lemma of verbs; `opaque` are the indices of placeholder tokens."""
    for sentence in doc.sents:
        _correct_names(sentence)
        has_verb = any(token.tag_ in FINITE_TAGS for token in sentence)
        for token in sentence:
            if token.i in opaque or not token.is_alpha:
                continue
            if token.i > 0 and is_helped(token.nbor(-1)):
                token.pos_, token.tag_, token.dep_ = "VERB", "VB", "xcomp"
                token.nbor(-1).pos_, token.nbor(-1).dep_ = "PROPN", "dobj"
            if token.pos_ not in {"VERB", "AUX"} and (
                _is_past(token, has_verb)
                or _is_present(token, has_verb)
                or (token.i == sentence.start and _is_opening_verb(token, opaque))
            ):
                token.pos_, token.dep_ = "VERB", "dep"
                token.tag_ = (
                    "VBD"
                    if token.lower_ in _PAST or token.lower_.endswith("ed")
                    else "VBZ"
                    if _from_third_person(token.lower_)
                    else "VB"
                )
                has_verb = True
            if token.pos_ == "VERB":
                token.lemma_ = base_form(token.lower_, token.lemma_.lower(), token.tag_)
                if token.tag_ == "VBZ" and token.lemma_ in _NEVER_NOUNS and _is_followed_by_verb(token):
                    token.dep_ = "dep"  # "Reads release notes": the second of two verbs in a row is the object
                    token.nbor().pos_, token.nbor().tag_ = "NOUN", "NN"


def is_helped(token: "Token") -> bool:
    """Return whether the token is someone who is helped to do something: "helped Jeffery debug"."""
    if token.i == 0 or token.i + 1 == len(token.doc) or not token.is_title:
        return False
    return infinitive(token.nbor(-1).lower_) == "help" and token.nbor().lower_ in COMMON


def is_used_as_name(name: "Span") -> bool:
    """Return whether a guessed name that opens a sentence acts or owns like a name: "Rex hates", "Rex's bed"."""
    doc, first = name.doc, name[0].lower_
    if first.endswith("ed") and infinitive(first) in COMMON:  # "Retried writes"
        return False
    if name.end == len(doc) or doc[name.end].text in {",", ":", "'s", "’s"} or doc[name.end].pos_ in {"VERB", "AUX"}:
        return True
    follower, after = doc[name.end], doc[name.end + 1] if name.end + 1 < len(doc) else None
    is_before_verb = after is not None and (
        after.pos_ in {"VERB", "AUX"} or (after.is_lower and infinitive(after.lower_) in COMMON)
    )
    if follower.pos_ == "ADV":  # "Rex also naps", not "Format only changed lines"
        return is_before_verb and follower.lower_ not in _PLACING and first not in COMMON
    return follower.pos_ == "CCONJ" and not is_before_verb  # "Rex and Bella", not "Escalate and wait"


def acts_or_owns(name: "Span") -> bool:
    """Return whether a verb or a possessive follows a guessed name: "taught Sunny to sit", "Benny's bowl"."""
    return name.end < len(name.doc) and name.doc[name.end].pos_ in {"VERB", "AUX", "PART"}


def _correct_names(sentence: "Span") -> None:
    """Tag the recogniser's names as proper nouns, and the form after a name that opens the sentence as a verb: "Bella naps at noon"."""
    for name in sentence.ents:
        if name.start == sentence.start and name.end < sentence.end:
            _correct_verb(name[-1].nbor())
        if len(name) == 1 and name.start == sentence.start and not is_used_as_name(name):
            continue
        for token in name:
            if token.is_title and token.pos_ != "PRON":
                token.pos_, token.tag_ = "PROPN", "NNP"


def _correct_verb(verb: "Token") -> None:
    if not verb.is_lower or (verb.pos_ not in {"NOUN", "PROPN", "ADJ"} and verb.tag_[:2] not in {"NN", "JJ"}):
        return
    base = _from_third_person(verb.lower_)
    after = verb.nbor() if verb.i + 1 < len(verb.doc) else None
    is_present = base in COMMON | _NEVER_NOUNS or (base and after is not None and after.pos_ in _OBJECTS - {"PUNCT"})
    is_before_verb = after is not None and after.tag_ in FINITE_TAGS
    if (is_present or verb.lower_ in _PAST or verb.lower_.endswith("ed")) and not is_before_verb:
        verb.pos_, verb.tag_ = "VERB", "VBZ" if _from_third_person(verb.lower_) and verb.lower_ not in IRREGULAR else "VBD"
        verb.dep_ = "dep"


def base_form(form: str, guess: str, tag: str) -> str:
    """Return the infinitive of a lower-case verb form with a Penn tag; `guess`, the pipeline's lemma, if spelling allows it."""
    if form in IRREGULAR and not (form in _BASES_THEMSELVES and tag in {"VB", "VBP"}):
        return IRREGULAR[form]
    if tag in {"VB", "VBP", "VBN"} and not form.endswith(("s", "ed", "ing")):
        return form
    for suffix in ("ing", "ed"):
        if form.endswith(suffix) and len(form) > len(suffix) + 2 and tag not in {"VB", "VBP", "VBZ"}:
            return _strip_suffix(form, suffix, guess)
    if tag == "VBZ" and (guess == form or not form.startswith(guess[:-1])):
        return _from_third_person(form) or guess
    return guess


def infinitive(word: str) -> str:
    """Return the infinitive of a verb form without context: "fix" for "fixed", "Fixes" or "fixing"."""
    form = word.strip().casefold()
    if form in COMMON or form in IRREGULAR:
        return IRREGULAR.get(form, form)
    for suffix in ("ing", "ed"):
        stem = form.removesuffix(suffix)
        if stem != form and len(stem) > 1:
            return _strip_suffix(form, suffix, f"{stem}e")
    return _from_third_person(form) or form


def _strip_suffix(form: str, suffix: str, guess: str) -> str:
    stem = form.removesuffix(suffix)
    if suffix == "ed" and stem.endswith("i"):
        return f"{stem[:-1]}y"
    if f"{stem}e" in COMMON and stem not in COMMON:
        return f"{stem}e"
    if stem in COMMON or (_NEVER_E.search(stem) and len(stem) > 3):
        return stem
    if _DOUBLED.search(stem) and len(stem) > 3 and not stem.endswith(_KEPT_DOUBLE):
        return stem[:-1]
    if _SHORT_STEM.search(stem) or _ALWAYS_E.search(stem):
        return f"{stem}e"
    if guess in {stem, f"{stem}e"} or (len(stem) > 3 and _DOUBLED.search(stem) and guess == stem[:-1]):
        return guess
    return f"{stem}e" if stem.endswith(("s", "ng")) else stem


def _from_third_person(form: str) -> str | None:
    if not form.endswith("s") or form.endswith(("ss", "us", "is")) or len(form) < 4:
        return None
    if form.endswith("ies"):
        return f"{form[:-3]}y"
    return form[:-2] if form.endswith(("sses", "shes", "ches", "xes", "zzes", "oes")) else form[:-1]


def _is_past(token: "Token", has_verb: bool) -> bool:
    """Return whether an irregular past tense with another tag is in the position of a verb."""
    if token.lower_ not in _PAST or not token.is_lower or token.i == 0:
        return False
    before = token.nbor(-1)
    after = token.nbor() if token.i + 1 < len(token.doc) else None
    if before.pos_ not in _NOMINAL | {"ADJ", "ADV", "CCONJ", "PART"} or before.tag_ in {"PRP$", "WP$", "POS"}:
        return False
    if token.lower_ in _ALSO_NOUNS:
        return (
            not has_verb and before.pos_ in _NOMINAL and (after is None or after.pos_ in {"DET", "PRON", "PUNCT", "ADV", "PART"})
        )
    return after is None or after.pos_ in _OBJECTS


def _is_present(token: "Token", has_verb: bool) -> bool:
    """Return whether a form in -s tagged as a plural is the missing verb of its sentence ("the user prefers tabs")."""
    base = _from_third_person(token.lower_)
    if not token.is_lower or token.i == 0 or base not in COMMON | _NEVER_NOUNS or token.nbor(-1).pos_ not in _NOMINAL | {"ADV"}:
        return False
    if base in _NEVER_NOUNS:
        return not has_verb or _is_followed_by_verb(token)
    return not has_verb and token.i + 1 < len(token.doc) and token.nbor().lower_ in _PLACING


def _is_followed_by_verb(token: "Token") -> bool:
    return token.i + 1 < len(token.doc) and token.nbor().pos_ == "VERB" and token.nbor().tag_ in {"VBZ", "VBP", "VB", "NNS"}


def _is_opening_verb(token: "Token", opaque: AbstractSet[int]) -> bool:
    """Return whether a sentence's first word, tagged as a noun, is an imperative ("Ask Priya") or a verb without subject ("Fed Rex")."""
    base = token.lower_ if token.lower_.endswith("ing") else infinitive(token.lower_)
    if base not in COMMON | _NEVER_NOUNS or token.i + 1 == len(token.doc) or token.is_upper:
        return False
    after = token.nbor()
    if after.i in opaque or (token.lower_ != base and base in _NEVER_NOUNS and after.pos_ not in {"AUX", "PUNCT"}):
        return True
    is_object = after.pos_ in ({"DET", "PROPN", "PRON"} | ({"NUM"} if token.lower_ != base else set())) and after.tag_ not in {
        "WP",
        "WDT",
    }
    return is_object and (token.lower_ != base or not after.is_upper)
