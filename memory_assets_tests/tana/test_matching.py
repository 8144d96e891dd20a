"""Which texts count as one, and at what cost they are found."""

import pytest

from memory_assets.tana import matching
from memory_assets.tana.matching import EquivalentTexts, equivalent

RULE = "Always run the migrations before the release of the billing service"


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (f"  {RULE.upper()}!", True),
        (RULE.replace("migrations", "migratons"), True),
        (RULE.replace("before", "after"), False),
        (RULE.replace("run", "not run"), False),
        (f"{RULE} 2", False),
        ("", False),
    ],
)
def test_a_slip_of_the_pen_is_no_other_fact(other: str, same: bool) -> None:
    assert equivalent(RULE, other) == equivalent(other, RULE) == same


def test_no_text_is_equivalent_to_nothing() -> None:
    assert not equivalent("", "...")
    assert equivalent("2 of 3", "2 of 3.")
    assert not equivalent("2 of 3", "3 of 2")


def test_many_texts_are_each_made_plain_once_and_found_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    plain = matching._plain
    monkeypatch.setattr(matching, "_plain", lambda text: (made.append(text), plain(text))[1])
    names = EquivalentTexts({f"{number}{end}": f"Rule {number}{end}" for number in range(100) for end in ("", ".")})
    assert [list(names.of(f"RULE {number}")) for number in range(100)] == [[f"{number}", f"{number}."] for number in range(100)]
    assert len(made) == 300
