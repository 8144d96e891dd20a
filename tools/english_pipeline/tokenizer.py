"""Adapt spaCy's English tokenizer to the conventions of English UD treebanks.

The rules come from the training text alone: runs of one punctuation mark stay together, "and/or" and ")(" are split,
"PM" is split from a time, phone numbers stay whole.
"""

import re
from collections.abc import Callable
from typing import Any

from spacy.language import Language
from spacy.symbols import ORTH
from spacy.util import compile_infix_regex, compile_prefix_regex, compile_suffix_regex, registry

_RUN = r"!{2,}|\?{2,}|[!?]{2,}|\${2,}|={2,}|\*{2,}|_{2,}|~{2,}|<{2,}|>{2,}|-{3,}|#{2,}|\+{2,}"
_INFIXES = (
    r"(?<=\))\((?=\w)",
    r"(?<=[\w.])\"(?=<)",
    r"(?<=\")<(?=\w)",
    r"\)(?=\()",
    r"(?<=[a-z])[!?]+(?=[A-Za-z])",
    _RUN,
)
_RARE_INFIXES = (
    r"(?<=\w)\((?=\w)",
    r"(?<=[a-z]);(?=[A-Za-z])",
    r"(?<=\d),(?=\d{1,2}(?:\D|$))",
    r"(?<=[\])])[-–](?=[\[(])",
)
_SUFFIXES = (_RUN, r"(?<=[0-9])(?:AM|PM|am|pm)", r"[.!?:]\?", r"[!?.]{2,}[!?]")
_SPLIT_WORDS = (("a", "lot"), ("out", "ta"), ("wan", "na"), ("lem", "me"), ("gim", "me"))
_WHOLE_WORDS = ("al.", "Capt.", "Ft.", "e-mail", "E-mail", "e-mails", "E-mails", "b/c", "w/o")
_LANGUAGE_NAMES = ("c++", "C++", "g++", "C#", "c#", "F#", "f#")
_WRONG_RULES = ("and/or", "):")
_PHONE_NUMBER = re.compile(r"^(?:\(?\d{3}\)?-)?\d{3}-\d{4}$")


def tune_tokenizer(nlp: Language) -> Language:
    """Adapt the tokenizer of a blank English pipeline in place, for reading the training texts."""
    tokenizer: Any = nlp.tokenizer
    defaults = nlp.Defaults
    tokenizer.prefix_search = compile_prefix_regex([_RUN, *(defaults.prefixes or ())]).search
    tokenizer.infix_finditer = compile_infix_regex([*(defaults.infixes or ()), *_INFIXES]).finditer
    tokenizer.suffix_search = compile_suffix_regex([*_SUFFIXES, *(defaults.suffixes or ())]).search
    tokenizer.token_match = _PHONE_NUMBER.match
    tokenizer.rules = {text: pieces for text, pieces in tokenizer.rules.items() if text not in _WRONG_RULES}
    for word in _WHOLE_WORDS:
        tokenizer.add_special_case(word, [{ORTH: word}])
    for first, second in _SPLIT_WORDS:
        for start in (first, first.title()):
            tokenizer.add_special_case(start + second, [{ORTH: start}, {ORTH: second}])
    return nlp


def extend_tokenizer(nlp: Language) -> Language:
    """Add, in place, rules for forms that are too rare in the training texts: "DON'T", "retry(3)", "C#"."""
    tokenizer: Any = nlp.tokenizer
    defaults = nlp.Defaults
    infixes = [*(defaults.infixes or ()), *_INFIXES, *_RARE_INFIXES]
    tokenizer.infix_finditer = compile_infix_regex(infixes).finditer
    for name in _LANGUAGE_NAMES:
        tokenizer.add_special_case(name, [{ORTH: name}])
    rules = tokenizer.rules
    for text, pieces in list(rules.items()):
        if ("'" in text or "\u2019" in text) and text.upper() not in rules:
            tokenizer.add_special_case(text.upper(), [{**piece, ORTH: piece[ORTH].upper()} for piece in pieces])
    return nlp


@registry.callbacks("memory_assets.tune_tokenizer.v1")
def make_tune_tokenizer() -> Callable[[Language], Language]:
    """Return the callback that `[initialize.before_init]` of the training configurations names."""
    return tune_tokenizer
