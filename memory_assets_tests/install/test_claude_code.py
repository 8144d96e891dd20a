"""The plugin for Claude Code: its files are written, and nothing else is changed."""

import hashlib
import json
import os
import re
import shlex
import signal
import subprocess
from dataclasses import asdict
from itertools import count
from pathlib import Path

import pytest
from click.testing import CliRunner

from memory_assets.cli.main import COMMANDS, cli
from memory_assets.doctor import examine
from memory_assets.install.claude_code import BACKUP
from memory_assets.learn.brief import FORMAT, Brief
from memory_assets.learn.brief import NAME as BRIEF
from memory_assets.mcp.tools import DAILY, HOOKS, recall_for_prompt
from memory_assets.settings import Settings, load_settings
from memory_assets.tenants import Tenant
from memory_assets_tests.torture import zygote


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of the plugin, next to one of the user's own skills."""
    own = tmp_path / "home" / ".claude" / "skills" / "own" / "SKILL.md"
    own.parent.mkdir(parents=True)
    own.write_text("theirs")
    (tmp_path / "home" / ".claude" / "settings.json").write_text('{ "model":"x" }')
    return own.parents[1] / "memory"


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def install(*options: str) -> str:
    ended = CliRunner().invoke(cli, ["install", "claude-code", *options])
    assert ended.exit_code == 0, ended.output
    return ended.output


def test_it_is_written_and_taken_out_and_all_else_stays(folder: Path) -> None:
    before = everything(folder.parents[1])
    assert "Nothing was changed" in install("--dry-run")
    assert everything(folder.parents[1]) == before
    install()
    written = everything(folder)
    assert json.loads(written[".claude-plugin/plugin.json"])["name"] == "memory"
    assert {name for name in written if name.startswith("commands/")} == {
        "commands/remember.md",
        "commands/recall.md",
        "commands/learn.md",
    }
    assert install().count("is up to date") == 6
    assert everything(folder) == written
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.rglob("*"))
    assert "Nothing was changed" in install("--remove", "--dry-run")
    assert everything(folder) == written
    install("--remove")
    assert not folder.exists()
    assert everything(folder.parents[1]) == before
    assert "There is no plugin" in install("--remove")


def test_a_folder_that_is_a_link_stays_when_the_plugin_is_removed(folder: Path, tmp_path: Path) -> None:
    place = tmp_path / "dotfiles"
    place.mkdir()
    folder.symlink_to(place)
    install()
    assert "deleted" in install("--remove")
    assert (folder.readlink(), list(place.iterdir())) == (place, [])


def _die_at(call: str, number: int, *options: str) -> None:
    real, calls = getattr(Path, call), count(1)

    def counted(*given: object) -> object:
        if next(calls) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*given)

    setattr(Path, call, counted)
    install(*options)


@pytest.mark.parametrize(
    ("call", "number", "options"),
    [("replace", 1, ()), ("replace", 4, ()), ("replace", 1, ("--remove",)), ("rmdir", 1, ("--remove",))],
)
def test_a_killed_installation_or_removal_leaves_nothing_when_run_again(
    folder: Path, call: str, number: int, options: tuple[str, ...]
) -> None:
    place = folder.parents[1]
    before = everything(place)
    if options:
        install("--status-line")
    assert zygote.shared().call(_die_at, call, number, *options).wait().killed
    install(*options)
    install("--remove")
    left = {name: data for name, data in everything(place).items() if not name.endswith(BACKUP)}
    assert json.loads(left.pop("settings.json")) == json.loads(before.pop("settings.json"))
    assert left == before


def test_hooks_and_server_start_this_program(folder: Path, settings: Settings) -> None:
    settings.tenant_dir("ada").joinpath("keys").mkdir(parents=True)
    (settings.tenant_dir("ada") / BRIEF).write_text(json.dumps({"format": FORMAT, **asdict(Brief(3))}))
    install("--tenant", "ada", "--status-line")
    hooks = json.loads((folder / "hooks/hooks.json").read_text())["hooks"]
    assert set(hooks) == {"UserPromptSubmit", "PostToolUse", "SessionStart", "PreCompact", "SessionEnd"}
    called = [hooks[event][0]["hooks"][0]["tool"] for event in ("UserPromptSubmit", "PostToolUse")]
    assert called == [tool.name for tool in HOOKS]
    commands = [
        shlex.split(each["command"])
        for event in hooks.values()
        for group in event
        for each in group["hooks"]
        if "command" in each
    ]
    server = json.loads((folder / ".mcp.json").read_text())["mcpServers"]["memory"]
    for command in [*commands, [server["command"], *server["args"]]]:
        name = command[-3]
        assert command[-2:] == ["--tenant", "ada"]
        assert name in COMMANDS
    ended = subprocess.run(commands[0], input=b'{"source": "startup"}', capture_output=True, check=True)
    assert (ended.stdout, ended.stderr) == (b"", b"")
    line = json.loads((folder.parents[1] / "settings.json").read_text())["statusLine"]["command"]
    assert subprocess.check_output(shlex.split(line), text=True) == "3 memories\n"
    learn = re.findall("`([^`]+)`", (folder / "commands/learn.md").read_text())
    assert [each.partition(" --tenant ada ")[2][:5] for each in learn] == ["noted"] * 3 + ["learn"] * 5


def test_what_the_plugin_asks_of_claude_code_fits_the_server(folder: Path) -> None:
    install()
    hooks = json.loads((folder / "hooks/hooks.json").read_text())["hooks"]
    given = hooks["UserPromptSubmit"][0]["hooks"][0]["input"]
    assert set(given) == set(recall_for_prompt.arguments.model_json_schema()["properties"])
    assert set(hooks["SessionStart"][0]["matcher"].split("|")) == {"startup", "resume", "clear", "compact", "fork"}
    allowed = {
        name: re.findall(r"mcp__plugin_memory_memory__(\w+)", (folder / f"commands/{name}.md").read_text())
        for name in ("remember", "recall")
    }
    assert allowed == {"remember": ["store"], "recall": ["search", "show"]}
    assert {name for names in allowed.values() for name in names} <= {tool.name for tool in DAILY}


def test_project_folders_that_claude_code_moves_elsewhere_are_named_until_they_are_read(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told() -> list[str]:
        notes = [each.what for each in examine(Tenant(load_settings())) if each.level == "note"]
        return [each for each in [install(), *notes] if f"{tmp_path}/work/projects" in each]

    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "work"))
    assert len(told()) == 2
    monkeypatch.setenv("MEMORY_CLAUDE_PROJECTS_DIR", str(tmp_path / "work/projects"))
    (tmp_path / "work/projects").mkdir()
    assert [each for each in told() if "not read" in each] == []


@pytest.fixture
def managed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An organisation's settings of Claude Code, without a setting."""
    path = tmp_path / "managed-settings.json"
    path.write_text("{}")
    monkeypatch.setattr("memory_assets.install.claude_code.MANAGED_SETTINGS", path)
    return path


_REMOVE, _ASK = "Remove the setting", "Ask your organisation to remove the setting"


@pytest.mark.parametrize(
    ("written", "is_managed", "mend"),
    [
        ('{"autoMemoryDirectory": "~/notes"}', False, _REMOVE),
        ('{"autoMemoryDirectory": "~/notes"}', True, _ASK),
        ('{"autoMemoryDirectory": 3}', False, None),
        ("{", False, None),
    ],
)
def test_a_memory_directory_of_claude_codes_own_that_is_not_read_is_named(
    folder: Path, tenant: Tenant, managed: Path, written: str, is_managed: bool, mend: str | None
) -> None:
    path = managed if is_managed else folder.parents[1] / "settings.json"
    path.write_text(written)
    found = [each.mend for each in examine(tenant) if f"autoMemoryDirectory in {path}" in each.what and "~/notes" in each.what]
    assert found == ([f"{mend}, so that each project has its own folder."] if mend else [])


@pytest.mark.parametrize(
    ("of_organisation", "of_user", "mend"),
    [
        ("{}", '{"disableAllHooks": true}', _REMOVE),
        ('{"disableAllHooks": false}', '{"disableAllHooks": true}', None),
        ('{"disableAllHooks": true}', '{"disableAllHooks": false}', _ASK),
        ("{}", '{"enabledPlugins": {"memory@skills-dir": false, "memory@other": false}}', _REMOVE),
        ('{"enabledPlugins": {"memory@skills-dir": true}}', "{}", _ASK),
        ('{"disableAllHooks": false}', '{"enabledPlugins": {"memory@skills-dir": false}}', _REMOVE),
        ('{"enabledPlugins": {"other@skills-dir": true}}', '{"enabledPlugins": {"memory@other": false}}', None),
        ('{"allowManagedHooksOnly": true}', "{}", _ASK),
        ("{}", '{"allowManagedHooksOnly": true, "strictPluginOnlyCustomization": true}', None),
        ('{"strictPluginOnlyCustomization": ["mcp"]}', "{}", _ASK),
        ('{"strictPluginOnlyCustomization": []}', '{"enabledPlugins": ["memory@skills-dir"]}', None),
    ],
)
def test_a_setting_of_claude_code_that_stops_the_hooks_is_named_if_the_plugin_is_installed(
    folder: Path, tenant: Tenant, managed: Path, of_organisation: str, of_user: str, mend: str | None
) -> None:
    user = folder.parents[1] / "settings.json"

    def mends() -> list[str]:
        path = managed if mend == _ASK else user
        return [
            each.mend for each in examine(tenant) if each.what.startswith(f"Claude Code runs no hooks of the plugin, as {path} ")
        ]

    managed.write_text(of_organisation)
    user.write_text(of_user)
    assert mends() == []
    install()
    assert mends() == ([f"{mend}."] if mend else [])


def test_what_its_owner_changed_is_never_lost(folder: Path) -> None:
    install()
    changed, added = folder / "commands/recall.md", folder / "commands/mine.md"
    changed.write_text("my words")
    added.write_text("my command")
    assert "left, because you changed it" in install("--remove", "--dry-run")
    assert "your version is kept" in install()
    assert (folder / "commands/recall.md.yours").read_text() == "my words"
    changed.write_text("more words")
    assert "your version is kept" in install()
    changed.write_text("my words again")
    install("--remove")
    assert everything(folder) == {
        "commands/mine.md": b"my command",
        "commands/recall.md": b"my words again",
        "commands/recall.md.yours": b"my words",
        "commands/recall.md-2.yours": b"more words",
    }


def test_a_file_that_this_release_ships_no_more_is_deleted_unless_its_owner_changed_it(folder: Path) -> None:
    install()
    place = folder / ".installed.json"
    listed = json.loads(place.read_bytes())
    for name in ("agents/old.md", "commands/changed.md"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("old")
        listed["files"][name] = hashlib.sha256(b"old").hexdigest()
    place.write_text(json.dumps(listed))
    (folder / "commands/changed.md").write_text("my words")
    assert "agents/old.md: deleted" in install("--dry-run")
    assert "commands/changed.md: left" in install()
    assert not (folder / "agents").exists()
    assert (folder / "commands/changed.md").read_text() == "my words"
    assert install().count("is up to date") == 6


def test_copies_of_the_users_versions_do_not_stop_a_later_installation(folder: Path) -> None:
    install()
    (folder / "commands/recall.md").write_text("my words")
    install()
    install("--remove")
    assert everything(folder) == {"commands/recall.md.yours": b"my words"}
    assert "There is no plugin" in install("--remove")
    install()
    assert len(everything(folder)) == 8


@pytest.mark.parametrize(
    "text",
    [b"{}", b'\xef\xbb\xbf{\r\n\t"a": [1,\r\n2],\r\n\t"b": {}\r\n}\r\n', '{"hooks": {"statusLine": "{ é"}}'.encode(), None],
)
def test_a_status_line_is_added_and_removed_and_every_other_member_stays(folder: Path, text: bytes | None) -> None:
    settings = folder.parents[1] / "settings.json"
    settings.unlink()
    if text is not None:
        settings.write_bytes(text)
    theirs = json.loads((text or b"{}").decode("utf-8-sig"))
    install("--status-line", "--dry-run")
    assert (settings.read_bytes() if settings.exists() else None) == text
    install("--status-line")
    merged = settings.read_bytes()
    held = json.loads(merged)
    assert held.pop("statusLine")["command"].endswith("status --line")
    assert held == theirs
    if text is not None:
        assert settings.with_name("settings.json.before-memory").read_bytes() == text
    assert "settings.json: is up to date" in install("--status-line")
    install()
    assert settings.read_bytes() == merged
    settings.write_text(json.dumps({"model": "opus"} | json.loads(merged)))
    install("--remove")
    assert json.loads(settings.read_bytes()) == {"model": "opus"} | theirs
    assert not folder.exists()


def test_a_status_line_of_an_earlier_installation_is_replaced(folder: Path, settings: Settings) -> None:
    settings.tenant_dir("ada").joinpath("keys").mkdir(parents=True)
    place = folder.parents[1] / "settings.json"
    install("--status-line", "--tenant", "ada")
    install("--status-line")
    assert json.loads(place.read_bytes())["statusLine"]["command"].endswith("status --line")
    install("--remove")
    assert json.loads(place.read_bytes()) == {"model": "x"}


def test_a_status_line_of_the_users_stays_and_broken_settings_stop_everything(folder: Path) -> None:
    settings = folder.parents[1] / "settings.json"
    for text in ('{"statusLine": {"type": "command", "command": "mine"}}', '{"model": }', "[]"):
        settings.write_text(text)
        before = everything(folder.parents[1])
        ended = CliRunner().invoke(cli, ["install", "claude-code", "--status-line"])
        assert settings.read_text() == text
        if "mine" in text:
            assert "settings.json: has another statusLine, which stays" in ended.output
            install("--remove")
        else:
            assert "mend it" in str(ended.exception)
        assert everything(folder.parents[1]) == before


@pytest.mark.parametrize("listed", ["a file", None, "{", '{"files": {"../own/SKILL.md": "x"}, "merged": ""}'])
def test_somebody_elses_folder_or_file_is_left_alone(folder: Path, listed: str | None) -> None:
    if listed == "a file":
        folder.write_text("somebody else's")
    else:
        folder.mkdir()
        (folder / "SKILL.md").write_text("somebody else's")
    if folder.is_dir() and listed:
        (folder / ".installed.json").write_text(listed)
    before = everything(folder.parents[1])
    for options in ([], ["--remove"]):
        ended = CliRunner().invoke(cli, ["install", "claude-code", *options])
        assert ended.exit_code == 1
        assert "move" in str(ended.exception)
    assert everything(folder.parents[1]) == before
