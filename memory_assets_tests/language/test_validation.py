import unicodedata
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_assets.errors import InvalidInputError
from memory_assets.language.validation import validate_content, validate_tags
from memory_assets.models import MAX_CONTENT_LENGTH


@pytest.mark.parametrize("text", ["x", "a\nb\tc\r\n", "🚀", "Füße", "记忆", "x" * MAX_CONTENT_LENGTH, "👩‍💻"])
def test_valid_content_is_accepted(text: str):
    validate_content(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "content is empty or blank"),
        (" \n\t ", "content is empty or blank"),
        ("\u200b\ufeff", "content is empty or blank"),
        ("x" * (MAX_CONTENT_LENGTH + 1), "7,501 characters"),
        ("ab\x00c", "control character (U+0000) at position 2"),
        ("ab\x85", "control character (U+0085) at position 2"),
        ("\x1b[31mred", "control character (U+001B) at position 0"),
        ("ab\ud800", "lone surrogate (U+D800) at position 2"),
        ("\ufdd0", "noncharacter (U+FDD0) at position 0"),
        ("a\U0010ffff", "noncharacter (U+10FFFF) at position 1"),
    ],
)
def test_invalid_content_is_refused_with_field_position_and_mend(text: str, said: str):
    with pytest.raises(InvalidInputError) as caught:
        validate_content(text)
    assert said in str(caught.value)
    assert "content" in str(caught.value)
    assert ": " in str(caught.value)


@given(st.text(alphabet=st.characters(exclude_categories=()), max_size=60))
def test_what_is_accepted_can_be_stored_as_utf8_and_has_something_to_see(text: str):
    try:
        validate_content(text)
    except InvalidInputError:
        return
    assert text.encode("utf-8").decode("utf-8") == text
    assert text.strip()
    assert not any(unicodedata.category(char) in {"Cc", "Cs"} and char not in "\n\t\r" for char in text)


@given(st.text(alphabet=st.characters(categories=("L", "N", "P", "S", "M")), min_size=1, max_size=200))
def test_ordinary_text_of_any_language_is_accepted(text: str):
    validate_content(text)


def test_tags_are_trimmed_and_kept_once_in_order():
    assert validate_tags([" b ", "a", "b"]) == ("b", "a")
    assert validate_tags(()) == ()


@pytest.mark.parametrize(
    ("tags", "said"),
    [
        (["ok", " "], "tags[1] is empty or blank"),
        (["x" * 201], "tags[0] has 201 characters"),
        (["a\ud800"], "tags[0] has a lone surrogate"),
        (["a\x00"], "tags[0] has a control character"),
        (map(str, range(1_001)), "tags has 1,001 tags, and at most 1,000 are stored"),
    ],
)
def test_a_bad_tag_is_refused_by_its_place(tags: Iterable[str], said: str):
    with pytest.raises(InvalidInputError) as caught:
        validate_tags(tags)
    assert said in str(caught.value)
