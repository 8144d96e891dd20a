"""Passages of long texts: which sentences they have, that they have them word for word, and what they cost."""

import re
import sys
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_assets.language.passages import PASSAGE_LENGTH, passage

_WORDS = st.sampled_from(["berth", "crane", "1888", "the", "2110 euros,", "- boats", "Ada.", "Pay:", "会议室的灯"])


@given(
    st.one_of(st.text(max_size=400), st.lists(_WORDS, min_size=80, max_size=200).map(" ".join)),
    st.one_of(st.text(max_size=60), _WORDS),
)
def test_a_passage_is_short_and_comes_word_for_word_from_the_text(content: str, query: str) -> None:
    found = passage(content, query)
    assert len(found) <= PASSAGE_LENGTH
    whole = " ".join(content.replace("·", " ").split())
    for said in found.removeprefix("… ").removesuffix("…").split(" … "):
        words = " ".join(said.replace("·", " ").split())
        assert f" {words} " in f" {whole} " if content.isascii() else words in whole


def test_a_line_break_that_ends_a_sentence_is_seen_in_a_passage() -> None:
    described = "Experiment in the worktree\nnobody merged it, short-lived\n\nThe worktree wt tries a new parser.\nIt is slow."
    assert passage(described) == (
        "Experiment in the worktree · nobody merged it, short-lived · The worktree wt tries a new parser. It is slow."
    )
    longer = f"{described} {'More was said. ' * 30}"
    assert " · The worktree wt" in passage(longer, "merged")


def test_a_text_that_fits_is_shown_whole() -> None:
    text = "The export failed again. Ticket OPS-1042."
    assert passage(text, "OPS-1042") == text


def test_a_passage_has_the_sentences_that_fit_what_follows_them_and_the_beginning_in_their_order() -> None:
    text = (
        f"We met on Monday. {'Nothing was decided then. ' * 20}Leila is second in line for the export. {'More was said. ' * 40}"
    )
    found = passage(text, "who is second in line")
    assert re.fullmatch(
        r"We met on Monday\. (Nothing was decided then\. )+… Leila is second in line for the export\. More was said\. …", found
    )
    assert len(found) > PASSAGE_LENGTH - len("Nothing was decided then. ")
    assert passage(text, "").startswith("We met on Monday.")


def test_the_sentence_with_the_rarest_words_comes_before_others_into_a_passage() -> None:
    text = "Mira is the owner of the export for the team. " * 20 + "Leila is second in line."
    assert passage(text, "who is second in line for the export").endswith("… Leila is second in line.")


def test_a_passage_holds_sentences_from_several_places_whole() -> None:
    sentences = [
        "The deploy of Atlas runs on Tuesdays.",
        "Backups of Atlas are kept for 35 days in the bucket atlas-cold.",
        "The on-call phone of Atlas is with Mira Okafor.",
        "The cache of Atlas is Varnish 7 with a time to live of 90 seconds.",
        "The feature flags of Atlas are edited in the tool Flagpole by Jonas Reuter.",
        "Atlas reads the folder /srv/inbox.",
    ]
    found = passage(" ".join(sentences), "who edits the flags, and how long are backups kept?", 180)
    assert sentences[1] in found
    assert sentences[4] in found
    assert sentences[3] not in found


def test_a_passage_names_what_introduces_the_item_that_fits_best() -> None:
    items = "".join(
        f"- The {each} are checked by Ines before every one of the many releases.\n" for each in ("icons", "menus", "tables")
    )
    text = f"Of the games.\n\nNever do this:\n{items}- Sounds are cut.\n\n{'Much else was said. ' * 10}"
    assert "Never do this: … - The tables are checked by Ines" in passage(text, "tables", 150)
    assert "Never do this: - The icons are checked by Ines" in passage(text, "icons", 150)
    too_long = text.replace("Never do this:", f"Never do {'any of ' * 30}this:")
    assert "… - The tables are checked by Ines" in passage(too_long, "tables", 150)


@pytest.mark.parametrize(
    "repeated", ["- The table is checked.\n", "- The table is checked now.\n", "The table is checked. ", "table "]
)
def test_the_passage_of_a_long_text_costs_as_much_as_its_length(repeated: str) -> None:
    def calls(times: int) -> int:
        counted = Counter[str]()
        sys.setprofile(lambda _, event, __: counted.update((event,)))
        passage(repeated * times, "which table is checked?")
        sys.setprofile(None)
        return counted["call"] + counted["c_call"]

    passage(repeated * 100, "which table is checked?")
    assert calls(1_000) < 2.5 * calls(500)
