"""What the settings and pai-seed's configuration decide about a sync: workspace, parent, options, and whether there is one."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from memory_assets.cli.main import cli
from memory_assets.errors import InvalidInputError, SettingsError
from memory_assets.settings import Settings, load_settings
from memory_assets.tana.changes import SyncOptions
from memory_assets.tana.config import in_use
from memory_assets.tana.errors import TanaError
from memory_assets.tana.matching import PARENT_NAME
from memory_assets.tana.state import SyncRecord
from memory_assets.tana.sync import sync
from memory_assets.tenants import Tenant
from memory_assets_tests.tana.seeds import HOSTILE, SLOW_REVIEW, TEST_FIRST, counts, learning, mapping, write_seed
from memory_assets_tests.tana.stand_in import StandIn
from memory_assets_tests.tana.test_sync import actions


def test_a_wrong_workspace_is_named_with_where_it_stands(
    workspace: StandIn, tenant: Tenant, seed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_seed(seed, [TEST_FIRST], tanaIntegration={"enabled": True, "workspace": "nowhere"})
    with pytest.raises(TanaError, match=rf"correct `tanaIntegration.workspace` in {seed}"):
        sync(tenant)
    monkeypatch.setenv("MEMORY_TANA_WORKSPACE", "elsewhere")
    with pytest.raises(TanaError, match=r"'elsewhere'.*correct MEMORY_TANA_WORKSPACE \(the environment\)"):
        sync(Tenant(load_settings()))


@pytest.mark.parametrize("state", ["missing", "trashed"])
def test_a_wrong_parent_is_named(
    workspace: StandIn, tenant: Tenant, seed: Path, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    workspace.traps.index_lag = 0
    parent = workspace.add_node("My place")
    workspace.trash(parent.id)
    monkeypatch.setenv("MEMORY_TANA_PARENT", parent.id if state == "trashed" else "nowhere1")
    write_seed(seed, [TEST_FIRST])
    with pytest.raises(TanaError, match=r"correct MEMORY_TANA_PARENT \(the environment\)"):
        sync(Tenant(load_settings()))
    assert counts(workspace) == (0, 0)


def test_an_empty_parent_in_the_trash_is_not_used(workspace: StandIn, tenant: Tenant, seed: Path) -> None:
    workspace.traps.index_lag = 0
    write_seed(seed, [TEST_FIRST])
    sync(tenant)
    write_seed(seed, [])
    sync(tenant, SyncOptions(take_out=True))
    (parent,) = (node for node in workspace.nodes.values() if node.name == PARENT_NAME)
    sync(tenant)
    assert [node.id for node in workspace.nodes.values() if node.name == PARENT_NAME] == [parent.id]
    workspace.trash(parent.id)
    write_seed(seed, [HOSTILE])
    sync(tenant)
    assert not workspace.nodes[workspace.nodes[mapping(tenant.settings)["pat_0002"]].parent].in_trash


def test_a_wrong_option_is_refused_as_one(workspace: StandIn, tenant: Tenant, seed: Path, tmp_path: Path) -> None:
    write_seed(seed, [TEST_FIRST])
    for options, sentence in (
        (["--workspace", "nowhere"], "Tana has no workspace 'nowhere', only main; correct --workspace"),
        (["--seed-path", str(tmp_path / "none.json")], f"There is no file {tmp_path / 'none.json'}"),
        (["--seed-path", "a" * 5_000], "There is no file aaa"),
        (["--seed-path", "~nobody.at.all/seed.json"], "There is no file ~nobody"),
    ):
        said = CliRunner().invoke(cli, ["pai", "sync", *options])
        assert isinstance(said.exception, InvalidInputError) and sentence in str(said.exception)
    assert counts(workspace) == (0, 0)


def test_without_a_seed_or_a_token_nothing_breaks(
    workspace: StandIn, tenant: Tenant, seed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = CliRunner().invoke(cli, ["pai", "sync"])
    assert said.exit_code == 0 and "no seed.json" in said.stderr and not workspace.requests
    monkeypatch.delenv("MEMORY_TANA_TOKEN")
    monkeypatch.setattr("keyring.get_password", lambda *_: None)
    write_seed(seed, [TEST_FIRST])
    said = CliRunner().invoke(cli, ["pai", "sync", "--entry", "pat_0001"])
    assert said.exit_code == 0 and "no token" in said.stderr and SyncRecord.load(tenant.folder).queue == {"pat_0001": "create"}


def test_the_integration_is_off_where_pai_seed_says_so(workspace: StandIn, tenant: Tenant, seed: Path) -> None:
    write_seed(seed, [TEST_FIRST], tanaIntegration={"enabled": False})
    said = CliRunner().invoke(cli, ["pai", "sync"])
    assert said.exit_code == 0 and "enabled is false" in said.stderr and not workspace.requests
    write_seed(seed, [TEST_FIRST], tanaIntegration={"enabled": True, "workspace": "main"})
    CliRunner().invoke(cli, ["pai", "sync"])
    assert counts(workspace) == (1, 0) and json.loads(tenant.settings.pai_mapping.read_text())["workspace"] == "main"


@pytest.mark.parametrize("name", ["pai_config", "pai_seed"])
def test_a_configuration_that_cannot_be_read_turns_tana_off(
    workspace: StandIn, tenant: Tenant, settings: Settings, seed: Path, name: str
) -> None:
    write_seed(seed, [TEST_FIRST])
    place = getattr(settings, name)
    place.write_text('{"tanaIntegration": {"enabled": false,}}', encoding="utf-8")
    said = CliRunner().invoke(cli, ["pai", "sync"])
    assert isinstance(said.exception, SettingsError) and str(place) in str(said.exception)
    assert "line 1 column 39" in str(said.exception)
    assert not in_use(settings) and not workspace.requests


def test_a_password_in_a_learning_stays_here(workspace: StandIn, tenant: Tenant, seed: Path) -> None:
    write_seed(seed, [learning("pat_0001", "The staging login is ada, password: hunter2-Quarry!77")])
    sync(tenant)
    (node,) = workspace.live("pai_learning")
    assert "hunter2" not in node.name + str(node.tuples) and "staging" in node.name
    said = CliRunner().invoke(cli, ["doctor"])
    assert f"Tana: {workspace.url}, 1 workspace" in said.output


def test_a_dry_run_changes_nothing_anywhere(workspace: StandIn, tenant: Tenant, seed: Path) -> None:
    write_seed(seed, [TEST_FIRST, HOSTILE], [], [], [SLOW_REVIEW])
    report = sync(tenant, SyncOptions(dry_run=True))
    assert set(actions(report).values()) == {"create"} and workspace.writes == 0
    assert not tenant.folder.exists() and not tenant.settings.pai_mapping.parent.exists()
