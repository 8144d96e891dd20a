"""Which texts count as equal, and the cost of finding them."""

import time

import pytest

from memory_assets.tana.matching import equivalent

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


def test_thousands_of_pairs_of_texts_are_compared_in_a_moment() -> None:
    rules = [f"Rule {number}: {RULE}" for number in range(300)]
    begun = time.process_time()
    assert sum(equivalent(one, other.upper()) for one in rules for other in rules) == len(rules)
    assert time.process_time() - begun < 2
