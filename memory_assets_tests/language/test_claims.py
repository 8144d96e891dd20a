"""What two short notes claim is compared by their words: a changed value or a denial is never the same."""

from collections import Counter
from pathlib import Path

import pytest

from memory_assets.language.claims import Relation, compare
from memory_assets.language.embedders import open_embedder
from memory_assets.language.embedders.calibration import scale_of
from memory_assets.language.embedders.context import meanings_of

_PAIRS = Path(__file__).parents[1] / "data" / "claims.txt"


@pytest.fixture(scope="module")
def outcomes() -> Counter[tuple[str, str]]:
    lines = [line for line in _PAIRS.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    wanted, old, new = zip(*(line.split(" | ") for line in lines), strict=True)
    embedder = open_embedder("auto")
    cosines = (meanings_of(embedder, list(old)) * meanings_of(embedder, list(new))).sum(axis=1)
    similarities = scale_of(embedder.name, None).similarity(cosines).tolist()
    found = (compare(one, other, similarity).relation for one, other, similarity in zip(old, new, similarities, strict=True))
    return Counter(zip(wanted, found, strict=True))


def test_what_says_the_same_is_found_and_nothing_else_passes(outcomes: Counter[tuple[str, str]]) -> None:
    said_same = sum(count for (_, found), count in outcomes.items() if found == "same")
    same = sum(count for (wanted, _), count in outcomes.items() if wanted == "same")
    assert outcomes["same", "same"] >= 0.95 * said_same
    assert outcomes["same", "same"] >= 0.7 * same
    assert not outcomes["changed", "same"] + outcomes["opposed", "same"]


def test_changes_and_contraries_are_told_from_other_facts_of_the_subject(outcomes: Counter[tuple[str, str]]) -> None:
    for relation in ("changed", "opposed"):
        right, named = outcomes[relation, relation], sum(n for (_, found), n in outcomes.items() if found == relation)
        assert right >= 0.9 * sum(n for (wanted, _), n in outcomes.items() if wanted == relation)
        assert right >= 0.9 * named


@pytest.mark.parametrize(
    ("old", "new", "relation"),
    [
        ("The boiler was repaired by Ines.", "The boiler is due for its yearly service.", Relation.RELATED),
        ("The attic is insured until june.", "The attic got a new window in June.", Relation.RELATED),
        ("The iron tablets cost nine euros", "The iron tablets must not be taken with tea", Relation.RELATED),
        (
            "The staging database is reset every night at 04:00.",
            "The staging database is no longer reset at night.",
            Relation.OPPOSED,
        ),
        ("The carrier portal is due on 29 May 2026.", "Carrier portal: due 16 October 2026.", Relation.CHANGED),
        ("Das Lager schließt um 18 Uhr.", "Das Lager schließt jetzt um 20 Uhr.", Relation.CHANGED),
        ("The import waits for the export.", "The export waits for the import.", Relation.CHANGED),
        ("Tea is in the left cupboard.", "tea is in the LEFT cupboard", Relation.SAME),
    ],
)
def test_words_decide_even_if_the_texts_are_nearly_equal(old: str, new: str, relation: Relation) -> None:
    assert compare(old, new, 0.97).relation is relation


def test_a_change_names_what_was_and_what_is() -> None:
    found = compare("The rent is 840 euros.", "Since May the rent is 910 euros.", 0.95)
    assert found.evidence == ("840 € -> 910 €",)
    assert found.says_change


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Ticket OPS-1042 is closed.", "Ticket OPS-1043 is closed."),
        ("Invoice 12 is unpaid.", "Invoice 13 is unpaid."),
        ("Mira likes tea.", "Mira likes coffee."),
    ],
)
def test_facts_of_two_numbered_things_or_of_two_likings_both_hold(old: str, new: str) -> None:
    assert compare(old, new, 0.95).relation is Relation.RELATED
