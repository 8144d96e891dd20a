import pytest

from memory_assets.language.words import sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Notruf geprüft am 11. Mai 2026. Seit 1. Juli gilt das.", ["Notruf geprüft am 11. Mai 2026.", "Seit 1. Juli gilt das."]),
        ("Es kamen 12. Dann gingen sie.", ["Es kamen 12.", "Dann gingen sie."]),
        ("1. Die Rutsche.\n2. Der Turm.", ["1. Die Rutsche.", "2. Der Turm."]),
        (
            "Dr. Ames takes ca. 20 min. z. B. on Mondays. We then leave.",
            ["Dr. Ames takes ca. 20 min. z. B. on Mondays.", "We then leave."],
        ),
    ],
)
def test_ordinals_list_marks_and_abbreviations_end_no_sentence(text, expected):
    assert sentences(text) == expected
