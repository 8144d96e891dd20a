"""A short text is parsed into words, names, values and negations; the difference of two texts is explained in words."""

from datetime import UTC, datetime

import pytest

from memory_assets.language.statements import difference, exchange_values, find_replaced, happened, read_statement


@pytest.mark.parametrize(
    ("old", "new", "evidence"),
    [
        ("The rent is 840 euros.", "The rent is 910 euros.", "840 -> 910"),
        ("The choir meets on Tuesday at seven.", "The choir meets on Thursday at seven.", "Tuesday -> Thursday"),
        ("Das Lager schließt um 18 Uhr.", "Das Lager schließt um 20 Uhr.", "18 -> 20"),
        ("The boat is moored in Hoorn.", "The boat is moored in Enkhuizen.", "Hoorn -> Enkhuizen"),
        ("Tea is in the left cupboard.", "tea is in the LEFT cupboard!", ""),
        ("The rent is 840 euros.", "The rent is 840 euros, heating included.", "(nothing) -> heating included"),
    ],
)
def test_what_differs_is_named_as_it_was_and_as_it_is(old, new, evidence):
    assert difference(old, new) == evidence


@pytest.mark.parametrize(
    ("one", "other", "exchanged"),
    [
        ("The archive opens at nine.", "The archive opens at eight.", True),
        ("The archive opens at 9 am.", "The archive opens at nine.", False),
        ("We meet at half past seven.", "We meet at 19:30.", False),
        ("The fair is on 3 March.", "The fair is on 2026-03-04.", True),
        ("The fair is on 3 March.", "The fair is in March.", False),
        ("The pump costs three hundred euros.", "The pump costs 300 euros.", False),
    ],
)
def test_values_are_compared_as_what_they_mean(one, other, exchanged):
    assert exchange_values(one, other) is exchange_values(other, one) is exchanged


@pytest.mark.parametrize(
    "text",
    [
        *("…", "?", "日本語の文です。", "42", "a", "don't", "²", "🙂", "no " * 500, "One. Two. Three."),
        *("9" * 5_000, "half past ²", "half past " + "7" * 5_000, "The code is " + "8" * 5_000),
    ],
)
def test_no_text_fails(text):
    for other in ("We leave at 10:00.", "The rent is 840 euros. We may paint the walls.", text, f"{text}!", "Ⅳ", "The " * 200):
        assert read_statement(other).denials >= 0
        assert difference(other, text).count("\n") == 0
        assert exchange_values(text, other) is exchange_values(other, text)


@pytest.mark.parametrize(
    ("old", "new", "replaced"),
    [
        ("Atlas stores shipments in MongoDB 7.", "In April Atlas leaves MongoDB for PostgreSQL 17.", "MongoDB -> PostgreSQL 17"),
        ("The index of the wiki is Elasticsearch.", "The wiki replaced Elasticsearch with Solr.", "Elasticsearch -> Solr"),
        ("Atlas is a small service on Deno.land.", "Atlas moved from Deno.land to Hetzner in May.", "Deno.land -> Hetzner"),
        ("The run used up the MongoDB connection pool of Atlas.", "Atlas leaves MongoDB for PostgreSQL.", ""),
        ("Atlas stores shipments in MongoDB.", "Atlas may move from MongoDB to PostgreSQL.", ""),
        ("Atlas stores shipments in MongoDB.", "The portal moved from MongoDB to PostgreSQL.", ""),
        ("Atlas took its data from MongoDB to PostgreSQL.", "Atlas moved from MongoDB to PostgreSQL.", ""),
    ],
)  # fmt: skip
def test_what_a_text_says_was_replaced_by_what(old, new, replaced):
    assert find_replaced(old, new) == replaced


_WRITTEN = datetime(2026, 11, 26, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("On 14 June 2026 the staging DB moved from heron to otter.", "2026-06-14"),
        ("The staging DB moved from heron to otter on June 14th, 2026.", "2026-06-14"),
        ("The staging DB was moved to otter on 2026-06-14.", "2026-06-14"),
        ("Am 14. Juni 2026 ist die Datenbank auf otter umgezogen.", "2026-06-14"),
        ("Die Datenbank ist am 14.06.2026 auf otter umgezogen.", "2026-06-14"),
        ("Since 2 September the import runs on alder.", "2026-09-02"),
        ("On 3 December we switched to Zulip.", "2025-12-03"),
        ("Ines took over the ledger from Olaf on 1 October.", "2026-10-01"),
        ("The demo is on 14 June 2026 instead of 20 June 2026.", "2026-11-26"),
        ("The demo was moved to 14 June 2026.", "2026-11-26"),
        ("Die Demo findet jetzt am 14. Juni 2026 statt.", "2026-11-26"),
        ("Since 1 January 2027 the import runs on alder.", "2026-11-26"),
        ("The import now runs on alder.", "2026-11-26"),
        ("As of 1 December the nursery costs 310 euros a month.", "2026-11-26"),
        ("Stand 1. Dezember kostet der Hort 120 Euro.", "2026-11-26"),
        ("Ab 1. Dezember kostet der Hort 120 Euro.", "2026-11-26"),
        ("On 1 December the office will be renamed.", "2026-11-26"),
        ("As of 1 August the nursery costs 310 euros a month.", "2026-08-01"),
        ("Since 27 November the nursery costs 310 euros a month.", "2026-11-26"),
        ("Since 3 December the nursery costs 310 euros a month.", "2025-12-03"),
    ],
)
def test_a_change_happened_on_the_day_that_its_sentence_names(text: str, day: str):
    assert happened(text, _WRITTEN).date().isoformat() == day


@pytest.mark.timeout(20)
@pytest.mark.parametrize("unit", ["a.", "a-", "a.b ", "a is "])
def test_a_long_text_of_one_mark_is_searched_for_what_it_replaces(unit: str):
    assert find_replaced("Atlas runs on Deno.land.", unit * 30_000) == ""
