"""Replacements of older statements, and look-alikes."""

import pytest

from memory_assets.language.changes import announces, find_changes, is_certain, is_ruled_out, judge_change, with_subject

_LIKELY = 0.6


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Coffee for the office is bought from Kroll.", "We switched the office coffee from Kroll to Bonanza."),
        ("The ferry to Texel leaves at 8:30.", "The ferry to Texel leaves at 9:00."),
        ("Birte lives in Flensburg.", "Birte has moved to Husum."),
        ("The rent of the workshop is 700 euros.", "The landlord raised the rent of the workshop to 760 euros."),
        ("Das Archiv liegt im Keller.", "Das Archiv liegt nicht mehr im Keller, sondern im zweiten Stock."),
    ],
)
def test_another_value_replaces_the_older_statement(old, new):
    assert judge_change(old, new) >= _LIKELY


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The ferry to Texel leaves at 8:30.", "The ferry to Texel carries eighty cars."),
        ("Birte lives in Flensburg.", "Birte now plays the harp."),
        ("We planted six trees in March.", "We planted nine trees in October."),
        ("Staging runs on Debian 12.", "We considered Alpine for staging and decided against it."),
        ("The archive is kept in Bern.", "Until 2015 the archive was kept in Basel."),
        ("Das Archiv liegt im Keller.", "Das Archiv liegt im Keller."),
    ],
)
def test_another_fact_an_event_a_plan_and_history_replace_nothing(old, new):
    assert judge_change(old, new) < _LIKELY


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The staging DB backup runs at 03:30.", "The staging DB moved to otter, port 5433."),
        ("The reading group has nine members.", "The reading group now meets at the library."),
        ("Ruth looks after the parcel tracker.", "The parcel tracker now reads from RabbitMQ."),
        ("The intranet uses MariaDB 10.", "We plan to move the intranet to MariaDB 11 next spring."),
        ("Merlin: updated dependencies, no visible effect.", "Curlew: updated dependencies, no visible effect."),
        ("Heron: hosted on Fly.io.", "Plover: now hosted on Hetzner."),
    ],
)
def test_a_change_of_something_else_about_the_subject_outdates_nothing(old, new):
    (change,) = find_changes([(old, new)], [0.0])
    assert change is None or not change.is_sure


@pytest.mark.parametrize("label", ["Correction", "Korrektur", "Update", "Heron", "Heron hosting"])
def test_a_label_that_names_the_same_or_a_change_rules_nothing_out(label):
    assert not is_ruled_out("Heron: its host is Fly.io.", f"{label}: its host is Hetzner.")


def test_the_day_since_when_it_holds_hides_no_change():
    old, new = "The nightly import runs on host beech.", "Since 4 November 2026 the nightly import runs on host maple."
    (change,) = find_changes([(old, new)], [0.0])
    assert change
    assert change.is_sure


@pytest.mark.parametrize(
    ("old", "new", "least"),
    [
        ("Standup is at 9:30.", "Standup moved to 10:00.", 0),
        ("Ingrid keeps the minutes.", "Ravi took over the minutes from Ingrid.", 0),
        ("Priya owns the export.", "The owner of the export is Tomasz since 2026-08-10.", 0),
        ("The print server is in the cellar of block B.", "The print server now has a second network card.", 98),
        ("The choir meets on Tuesday.", "The choir meets on Thursday.", 93),
    ],
)
def test_words_of_change_are_certain_with_a_value_a_day_or_an_end_and_need_more_alone(old, new, least):
    certain = [percent for percent in range(100) if is_certain(old, new, percent / 100)]
    assert certain == list(range(least, 100))


def test_a_title_is_the_subject_where_the_other_statement_names_it():
    assert (
        with_subject("Runs on Postgres 14.", "ledger database", "The ledger runs on Postgres 16 now.")
        == "ledger: Runs on Postgres 14."
    )
    assert with_subject("Runs on Postgres 14.", "ledger database", "Nothing of it.") == "Runs on Postgres 14."


@pytest.mark.parametrize(
    ("text", "is_change"),
    [
        ("Die Kernarbeitszeit ist 10 bis 15 Uhr.", False),
        ("Montag bis Freitag ist das Lager offen.", False),
        ("Der Markt öffnet ab 9 Uhr.", False),
        ("The library is open 9 until 18.", False),
        ("Ab Mai wohnt Jo in Kiel.", True),
        ("Bis Mai wohnte Jo in Kiel.", True),
        ("Until May the archive was in Bern.", True),
        ("Read this page before you change the price list.", False),
        ("Update the price list after each delivery.", False),
        ("The gate code changes to 4711.", True),
        ("Update: the gate code is 4711.", True),
    ],
)
def test_a_range_of_hours_and_a_task_are_no_words_of_change(text, is_change):
    assert announces(text) is is_change


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Unser Kernarbeitszeit-Fenster ist 10 bis 15 Uhr.", "Die Kernarbeitszeit wurde auf 9 bis 14 Uhr verlegt."),
        ("I drink my coffee black, no sugar.", "I switched to oat milk cappuccino, black coffee hurts my stomach."),
    ],
)
def test_a_change_of_a_range_and_of_what_lacked_something_puts_the_newer_first(old, new):
    (change,) = find_changes([(old, new)], [0.0])
    assert change
