import json

import pytest
from click.testing import CliRunner, Result

from memory_assets.cli.main import cli
from memory_assets.settings import load_settings
from memory_assets.tana.sync import sync
from memory_assets.tenants import Tenant
from memory_assets_tests.tana.seeds import learning, write_seed
from memory_assets_tests.tana.stand_in import StandIn


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["pai", "sync", "--input-api", "--json", *arguments], catch_exceptions=False)


def test_without_the_desktop_app_new_entries_are_created_once_and_taken_on_later(
    tana: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory_assets.tana.input_api.PAUSE_S", 1.01)
    many = [learning(f"pat_{number:04}", f"Lesson {number}\nin two :: lines {'x' * 150}") for number in range(12)]
    write_seed(load_settings().pai_seed, many)
    monkeypatch.setenv("MEMORY_TANA_INPUT_URL", f"{tana.url}/addToNodeV2")
    assert "MEMORY_TANA_INPUT_TOKEN" in str(CliRunner().invoke(cli, ["pai", "sync", "--input-api"]).exception)
    monkeypatch.setenv("MEMORY_TANA_INPUT_TOKEN", tana.token)
    assert json.loads(run("--dry-run").stdout)["created"] == 12 and tana.writes == 0
    said = run()
    assert json.loads(said.stdout)["created"] == 12 and "only creates" in said.stderr and not tana.violations
    assert len(tana.live("pai_learning")) == 12 and tana.writes == len(tana.requests)
    writes = tana.writes
    write_seed(load_settings().pai_seed, [learning("pat_0000", "Changed"), *many[1:]])
    assert json.loads(run().stdout)["skipped"] == 12 and tana.writes == writes
    sync(Tenant(load_settings()))
    assert len(tana.live("pai_learning")) == 12 and tana.by_seed_id("pai_learning", "pat_0000")[0].name == "Changed"
