"""The examples in docs/language.md are true."""

import re
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from memory_assets.language.entity_types import EntityType
from memory_assets.language.intervals import find_interval
from memory_assets.language.languages import recognise
from memory_assets.language.pipeline import Analyzer
from memory_assets.language.tags import normalise_tag

PAGE = (Path(__file__).parents[2] / "docs" / "language.md").read_text(encoding="utf-8")


def table(header: str) -> list[list[str]]:
    """The cells of the rows below a header line, without back ticks."""
    below = PAGE.split(header + "\n", 1)[1].splitlines()[1:]
    rows = []
    for line in below:
        if not line.startswith("|"):
            break
        rows.append([re.sub(r"^ `(.*)` $|^ ?(.*?) ?$", r"\1\2", cell) for cell in line.split("|")[1:-1]])
    return rows


@pytest.mark.parametrize(("written", "tag"), [row[:2] for row in table("| written | tag | why |")])
def test_tags_are_as_documented(written: str, tag: str):
    assert normalise_tag(written) == tag


@pytest.mark.parametrize(("text", "listed"), table("| text | entities |"))
def test_entities_are_as_documented(analyzer: Analyzer, text: str, listed: str):
    expected = [tuple(item.rsplit(" ", 1)) for item in listed.split(", ") if item]
    assert [(entity.text, entity.type) for entity in analyzer.analyze(text).entities] == expected


@pytest.mark.parametrize(("text", "start", "end"), table("| text | from | to |"))
def test_intervals_are_as_documented(text: str, start: str, end: str):
    zone = ZoneInfo("Europe/Berlin")
    found = find_interval(text, datetime(2026, 11, 21, 21, 30, tzinfo=UTC), zone)
    shown = ("", "") if found is None else tuple(f"{at.astimezone(zone):%Y-%m-%d %H:%M}" for at in (found.start, found.end))
    assert shown == (start, end)


@pytest.mark.parametrize(("text", "language", "tags"), table("| text | language | tags |"))
def test_languages_are_as_documented(analyzer: Analyzer, text: str, language: str, tags: str):
    assert (recognise(text) or "", ", ".join(analyzer.analyze(text).tags)) == (language, tags)


def test_every_entity_type_is_documented():
    listed = {name for row in table("| type | is |") for name in row[0].split(", ")}
    assert listed == set(EntityType)
