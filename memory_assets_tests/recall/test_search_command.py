import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from memory_assets.cli.main import cli
from memory_assets.settings import load_settings
from memory_assets.tenants import Tenant


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Two memories, the first of which leads to the second."""
    monkeypatch.setenv("MEMORY_DATA_DIR", str(tmp_path))
    runner = CliRunner()
    texts = ("The shop was down on Monday", "We moved the orders to PostgreSQL")
    ids = [json.loads(runner.invoke(cli, ["store", text, "--json"]).output)["id"] for text in texts]
    with Tenant(load_settings()).catalog.write() as connection:
        connection.execute(
            "INSERT INTO graph_edges (source_id, target_id, type, confidence, origin, note) "
            "VALUES (?, ?, 'LEADS_TO', 0.8, 'stated', 'the outage decided it')",
            ids,
        )
    return ids


def test_json_gives_the_hits_with_their_components_and_the_bridges(stored: list[int]):
    result = CliRunner().invoke(cli, ["search", "why was the shop down", "--bridges", "--json"])
    found = json.loads(result.output)
    assert found["query"] == "why was the shop down"
    assert found["memories"][0]["id"] == stored[0]
    assert {part["name"]: part for part in found["memories"][0]["components"]}["vector"]["weight"] > 0
    (bridge,) = found["bridges"]
    assert [place["id"] for place in bridge["path"]] == stored
    assert bridge["hops"][0]["reason"] == "the outage decided it"


def test_without_the_option_there_are_no_bridges(stored: list[int]):
    assert json.loads(CliRunner().invoke(cli, ["search", "shop", "--json"]).output)["bridges"] == []
    assert "Bridges" not in CliRunner().invoke(cli, ["search", "shop"]).output


def test_the_text_shows_each_hop_with_its_reason_and_each_part_of_a_score(stored: list[int]):
    output = CliRunner().invoke(cli, ["search", "why was the shop down", "--bridges", "--explain"]).output
    assert "LEADS_TO (0.80, the outage decided it)" in output
    assert "relation" in output
    assert "linked to a match" in output


def test_what_was_shown_is_written_to_the_access_log(stored: list[int], tmp_path: Path):
    CliRunner().invoke(cli, ["search", "shop", "--limit", "1"])
    written = "".join(file.read_text(encoding="ascii") for file in (tmp_path / "main/access").iterdir())
    assert str(stored[0]) in written
    assert str(stored[1]) not in written
