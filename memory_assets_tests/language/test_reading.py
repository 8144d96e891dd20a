"""Only prose reaches the pipeline, at a cost linear in the length of the text."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_assets.language.pipeline import Analyzer
from memory_assets.language.reading import MAX_PART_LENGTH, read
from memory_assets_tests.language.test_pipeline import entities


def prose(text: str) -> str:
    return "\n".join(part.text for part in read(text).parts)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("**Don't** do *that*, ~~ever~~ __in any way__.", "Don't do that, ever in any way."),
        ("I don’t know.", "I don't know."),
        ("**Why:** it broke.\n**How to apply:** ask first.", "it broke.\nask first."),
        ("**Decision:** use the queue", "Decision\nuse the queue"),
        ("# Title\n\n- one\n- [x] two\n  goes on\n1. three\n> said", "Title\none\ntwo goes on\nthree\nsaid"),
        (
            "Said of it:\n> The crew of the boat waits\n> for the bell.\n>\n> - one\n> two",
            "Said of it:\nThe crew of the boat waits for the bell.\none\ntwo",
        ),
        ("Run `git commit --amend` now.", "Run item now."),
        ("See [the guide](https://x.example/guide) and [[other-note]].", "See the guide and item."),
        ("It broke ([[incident]]) twice.", "It broke twice."),
        ("Edit src/a.py at https://x.example/b, @jonas.", "Edit item at item, jonas."),
        ("before\n```py\nx = 1\n```\nafter", "before\nafter"),
        ("| host | what |\n|---|---|\n| otter | runs it |", "host\nwhat\notter\nruns it"),
        ("2 * 3 * 4 and snake_case_name and a_b", "2 * 3 * 4 and snake_case_name and a_b"),
        ("one line\nof prose", "one line of prose"),
        ("First line.\nsecond", "First line.\nsecond"),
        ("wow!!!!!!!!!", "wow!!!"),
    ],
)
def test_markup_does_not_reach_the_tokeniser(text: str, expected: str):
    assert " ".join(prose(text).split(" ")).replace("  ", " ") == expected


@given(st.text(alphabet="ab .\n`*_[](){}<>|#-~!@/\\'\"😀é", max_size=400))
@settings(max_examples=300)
def test_any_text_is_read_into_bounded_parts_whose_insets_lie_where_they_say(text: str):
    for part in read(text).parts:
        assert len(part.text) <= MAX_PART_LENGTH + 100
        for inset in part.insets:
            assert part.text[inset.start : inset.end] == ("item" if inset.opaque else inset.written.lstrip("@#"))


@given(
    st.lists(st.sampled_from(["We moved it to `atlas`.", "Wir nehmen das nicht!", "Das ist [[a-link]] von uns.", "ok", "Nr. 3"]))
)
def test_a_line_in_two_languages_keeps_its_words_and_insets(sentences: list[str]):
    parts = read(" ".join(sentences)).parts
    assert [inset.written for part in parts for inset in part.insets] == re.findall(r"atlas|a-link", " ".join(sentences))
    assert " ".join(part.text for part in parts).split() == re.sub(r"`.*?`|\[\[.*?\]\]", "item", " ".join(sentences)).split()


def test_a_long_text_is_cut_between_words_and_keeps_all_of_them():
    words = [f"word{number}" for number in range(5_000)]
    parts = read(" ".join(words)).parts
    assert len(parts) > 20
    assert " ".join(part.text.strip() for part in parts).split() == words


RUNS = [
    "(",
    "[]",
    "…",
    "😀",
    "[[",
    "` ",
    "*a ",
    "_",
    "a/",
    "a.",
    "(a",
    "a b ",
    "**a ",
    "| a ",
    "- a\n",
    "_a ",
    "[a](",
    " ",
    "( ",
    "😀 ",
    "1 ",
    "-\n",
]


@pytest.mark.timeout(15)
@pytest.mark.parametrize("run", RUNS)
def test_a_text_made_of_one_thing_costs_no_more_than_prose(analyzer: Analyzer, run: str):
    """spaCy's tokenizer alone would take minutes for forty thousand brackets; the machine may be busy, and this takes a second."""
    features = analyzer.analyze((run * 40_000)[:39_999] + "x")
    assert len(features.entities) <= 1


def test_names_in_code_are_found_and_its_words_are_not(analyzer: Analyzer):
    text = "Never run `docker compose up --force` here.\n\n```bash\nexport OLLAMA_URL=x\npip install dagster  # Oskar Wild Thing\n```"
    assert entities(analyzer, text) == [
        ("docker compose", "TOOL"),
        ("OLLAMA_URL", "ENV_VAR"),
        ("pip", "TOOL"),
        ("dagster", "TOOL"),
    ]
    assert analyzer.analyze(text).actions == ("run",)


def test_a_link_to_another_memory_names_nothing(analyzer: Analyzer):
    features = analyzer.analyze("It was moved, see [[postgres-migration]].")
    assert (features.entities, features.tags) == ((), ())


@pytest.mark.parametrize(
    "text", ["I don't drink coffee", "I don’t drink coffee", "**Don't** drink coffee", "I *don't* drink coffee"]
)
def test_a_contraction_is_one_word(analyzer: Analyzer, text: str):
    features = analyzer.analyze(text)
    assert (features.entities, features.actions, features.tags) == ((), ("drink",), ("coffee",))


def test_columns_of_numbers_are_not_parsed_and_their_names_are_kept():
    reading = read("1 2 3 4 " * 30 + "src/a.py Redis")
    assert reading.parts == ()
    assert "src/a.py" in reading.asides
    assert "Redis" in reading.asides[0]


@pytest.mark.parametrize(
    "text",
    [
        "token [secret: github token]",
        "The deploy uses [secret: github token] until May.",
        "Der Server nimmt [secret: github token] und sonst keinen.",
        "```\nexport GH=[secret: github token]\n```",
        "Call `curl -H [secret: github token]` first.",
    ],
)
def test_the_mark_of_a_secret_names_nothing(analyzer: Analyzer, text: str):
    found = analyzer.analyze(text)
    names = " ".join([*(entity.text for entity in found.entities), *found.tags]).lower()
    assert not {"secret", "github", "item"} & set(re.findall(r"\w+", names)), names
    assert "\ue001" not in names
