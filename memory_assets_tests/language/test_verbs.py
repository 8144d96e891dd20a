"""Verbs are found where a reader finds them, and every form maps to its infinitive."""

import pytest

from memory_assets.language.pipeline import Analyzer
from memory_assets.language.verbs import IRREGULAR, base_form, infinitive


@pytest.mark.parametrize(
    ("text", "actions"),
    [
        ("Sparkle stole pizza and ran away", ("steal", "run")),
        ("The cat stole pizza", ("steal",)),
        ("The team shot the report", ("shoot",)),
        ("He drank tea and shook the box", ("drink", "shake")),
        ("I piped text into it", ("pipe",)),
        ("Nina prefers tabs", ("prefer",)),
        ("the user dislikes emojis in commit messages", ("dislike",)),
        ("Ask Priya what only she can do.", ("ask", "do")),
        ("Use `ruff format` instead.", ("use",)),
        ("Mira writes the failing test before the fix.", ("write",)),
        ("Reads release notes of DuckDB before each upgrade.", ("read",)),
        ("The power cut in July led to a decision.", ("lead",)),
        ("The window is read-only.", ()),
        ("GET /api/v1/health needs no key.", ("need",)),
        ("The new shot is a good one.", ()),
        ("They thought about it and found nothing.", ("think", "find")),
        ("They 重启 the server and wait.", ("wait",)),
    ],
)
def test_a_verb_is_one_and_a_noun_is_none(analyzer: Analyzer, text: str, actions: tuple[str, ...]):
    assert analyzer.analyze(text).actions == actions


@pytest.mark.parametrize(
    ("form", "guess", "tag", "base"),
    [
        ("piped", "pi", "VBD", "pipe"),
        ("reformatted", "reformatt", "VBN", "reformat"),
        ("added", "ad", "VBN", "add"),
        ("called", "call", "VBD", "call"),
        ("tried", "try", "VBD", "try"),
        ("debugging", "debugge", "VBG", "debug"),
        ("needed", "need", "VBD", "need"),
        ("moving", "move", "VBG", "move"),
        ("lives", "life", "VBZ", "live"),
        ("passes", "passes", "VBZ", "pass"),
        ("found", "found", "VBD", "find"),
        ("found", "found", "VB", "found"),
        ("wrote", "wrote", "VBP", "write"),
        ("rotating", "rotat", "VBG", "rotate"),
        ("overwriting", "overwrit", "VBG", "overwrite"),
        ("rewired", "rewir", "VBD", "rewire"),
        ("invoked", "invok", "VBD", "invoke"),
        ("guessing", "guesse", "VBG", "guess"),
        ("preloaded", "preloade", "VBN", "preload"),
        ("recreating", "recreate", "VBG", "recreate"),
        ("widen", "wie", "VB", "widen"),
    ],
)
def test_a_form_leads_to_its_infinitive(form: str, guess: str, tag: str, base: str):
    assert base_form(form, guess, tag) == base


def test_no_irregular_form_leads_to_another_form():
    assert not {base for base in IRREGULAR.values() if base in IRREGULAR and IRREGULAR[base] != base}


@pytest.mark.parametrize(
    ("form", "verb"),
    [("fixed", "fix"), ("Decided", "decide"), ("stopped", "stop"), ("tried", "try"), ("bought", "buy"), ("moving", "move"),
     ("misses", "miss"), ("seeding", "seed"),
     ("bring", "bring"), ("need", "need")],
)  # fmt: skip
def test_a_form_without_its_sentence_stands_for_its_verb(form, verb):
    assert infinitive(form) == verb
