"""Hooks read the settings of every command, import nothing heavy, and fail in silence."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner

from memory_assets.cli.main import cli
from memory_assets.cli.session import hide_errors
from memory_assets.errors import SettingsError
from memory_assets.hook_settings import read_hook_settings
from memory_assets.learn.checkouts import read_remotes
from memory_assets.settings import Settings, load_settings
from memory_assets.stores.locks import locked
from memory_assets_tests.learn.session_hook import hook, told, write_brief


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        ("garbage", "JSONDecodeError"),
        ("{", "JSONDecodeError"),
        ("[" * 100_000, "RecursionError"),
        ("null", "The hook's input is not a JSON object."),
        ("[]", "The hook's input is not a JSON object."),
        ('{"session_id": 7, "cwd": {}}', "The hook's input has fields that are not text: session_id, cwd."),
    ],
)
def test_broken_input_of_the_hook_is_logged_and_told_nothing(settings: Settings, text: str, failure: str) -> None:
    write_brief(settings, told("user", "Mira is a baker."))
    for command in ("session-start", "session-end"):
        (settings.data_dir / "hooks.log").unlink(missing_ok=True)
        ended = CliRunner().invoke(cli, [command], input=text)
        assert (ended.exit_code, ended.output) == (0, "")
        assert failure in (settings.data_dir / "hooks.log").read_text()


def test_the_log_of_hooks_says_where_they_failed_and_no_text(tmp_path: Path) -> None:
    secret = "Mira keeps the spare key below the third stone."
    with hide_errors(tmp_path):
        raise ValueError(secret)
    said = (tmp_path / "hooks.log").read_text()
    assert "ValueError" in said and Path(__file__).name in said
    assert secret not in said


@pytest.mark.parametrize("place", ["default", "environment", "file", "names of the environment in the file"])
@pytest.mark.parametrize("data_dir", ["~/elsewhere", "elsewhere"])
def test_a_hook_reads_the_settings_that_every_command_reads(
    place: str, data_dir: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path.home())
    given = {
        "data_dir": data_dir,
        "tenant": "ada",
        "session_start": "off",
        "session_start_tokens": 500,
        "nudge_from": 9,
        "session_summary": "off",
    }
    for name in ("DATA_DIR", "SESSION_SUMMARY"):
        monkeypatch.delenv(f"MEMORY_{name}")
    if place == "environment":
        for name, value in given.items():
            monkeypatch.setenv(f"MEMORY_{name.upper()}" if name != "tenant" else "memory_tenant", str(value))
    elif place != "default":
        file = tmp_path / "memory.toml"
        names = {name: name if place == "file" else f"MEMORY_{name.upper()}" for name in given}
        file.write_text("\n".join(f"{names[name]} = {json.dumps(value)}" for name, value in given.items()))
        monkeypatch.setenv("MEMORY_CONFIG", str(file))
    settings, hook_settings = load_settings(), read_hook_settings()
    assert {name: getattr(hook_settings, name) for name in given} == {name: getattr(settings, name) for name in given}
    assert hook_settings.folder == settings.tenant_dir()


def test_a_data_folder_in_the_home_of_nobody_is_read_and_written_by_no_hook(
    atlas: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_DATA_DIR", "~nobody-at-all/memory")
    monkeypatch.chdir(atlas)
    assert hook(cwd=str(atlas)) == ""
    transcript = tmp_path / "transcript.jsonl"
    transcript.write_text(json.dumps({"type": "user", "message": {"role": "user", "content": "Remember: lint before a commit."}}))
    before = sorted(tmp_path.rglob("*"))
    given = json.dumps(
        {"session_id": "s1", "hook_event_name": "PreCompact", "transcript_path": str(transcript), "cwd": str(atlas)}
    )
    assert CliRunner().invoke(cli, ["session-end"], input=given).exit_code == 0
    assert sorted(tmp_path.rglob("*")) == before


def test_the_hook_and_the_status_line_import_nothing_heavy(settings: Settings, tmp_path: Path) -> None:
    write_brief(settings, told("user", "Mira is a baker."))
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    for arguments in (["session-start"], ["status", "--line"]):
        program = [sys.executable, "-X", "importtime", "-m", "memory_assets.cli", *arguments]
        ended = subprocess.run(program, input=b'{"session_id": "a"}', capture_output=True, env=environment, check=True)
        assert b"baker" in ended.stdout or b"1 memory" in ended.stdout
        imported = {entry.rpartition("|")[2].strip().partition(".")[0] for entry in ended.stderr.decode().splitlines()}
        assert {"dagster", "lancedb", "spacy", "duckdb", "pyarrow", "numpy", "pydantic", "tiktoken", "yaml"}.isdisjoint(imported)


def test_the_hook_at_a_sessions_end_imports_nothing_heavy(settings: Settings, tmp_path: Path) -> None:
    (transcript := tmp_path / "transcript.jsonl").touch()
    given = {"session_id": "a", "hook_event_name": "SessionEnd", "transcript_path": str(transcript), "cwd": str(tmp_path)}
    code = (
        "import subprocess, memory_assets.cli.main as main; subprocess.Popen = lambda *_, **__: None; main.cli(['session-end'])"
    )
    program = [sys.executable, "-X", "importtime", "-c", code]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    ended = subprocess.run(program, input=json.dumps(given).encode(), capture_output=True, env=environment, check=True)
    imported = {entry.rpartition("|")[2].strip() for entry in ended.stderr.decode().splitlines()}
    assert "memory_assets.learn.session_queue" in imported
    assert len(list((settings.tenant_dir() / "ended").iterdir())) == 1
    assert not {"dagster", "lancedb", "spacy", "duckdb", "pyarrow", "numpy", "pydantic", "tiktoken", "yaml"} & imported


def test_a_pipe_in_place_of_the_settings_file_does_not_hang_the_hook(settings: Settings, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "memory.toml")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "MEMORY_CONFIG": str(tmp_path / "memory.toml")}
    program = [sys.executable, "-c", "from memory_assets.hook_settings import read_hook_settings; read_hook_settings()"]
    subprocess.run(program, env=environment, check=True, timeout=25)


def test_a_session_begins_though_another_process_holds_the_folder(settings: Settings, atlas: Path) -> None:
    (atlas / ".git" / "config").write_text('[remote "origin"]\n\turl = git@github.com:acme/atlas.git\n')
    write_brief(settings, told("note", "Released on Friday.", str(atlas)))
    with ThreadPoolExecutor(1) as pool, locked(settings.tenant_dir()):
        text = pool.submit(hook, cwd=str(atlas)).result(timeout=30)
    assert "Released on Friday." in text
    assert not read_remotes(settings.tenant_dir())
    hook(cwd=str(atlas), session="s2")
    assert read_remotes(settings.tenant_dir()) == {str(atlas): ("github.com/acme/atlas",)}


@pytest.mark.parametrize("fault", ["unreadable", "no TOML", "nested too deeply"])
def test_a_hook_finds_nothing_if_the_settings_file_cannot_be_read(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "memory.toml"
    rest = {"no TOML": "[", "nested too deeply": f"a = {'[' * 10_000}"}.get(fault, "")
    file.write_text(f"session_start = 'off'\n{rest}", encoding="utf-8")
    monkeypatch.setenv("MEMORY_CONFIG", str(file))
    real_read = Path.read_text

    def read_text(path: Path, **how: str) -> str:
        if path == file and fault == "unreadable":
            raise PermissionError(13, "Permission denied", str(path))
        return real_read(path, **how)

    monkeypatch.setattr(Path, "read_text", read_text)
    assert read_hook_settings().data_dir == Path(os.devnull)
    with pytest.raises(SettingsError, match=r"memory\.toml (cannot be read .* read access|is not valid TOML)"):
        load_settings()


def test_a_working_directory_that_is_gone_is_no_fault_of_the_settings_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (gone := tmp_path / "gone").mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setenv("MEMORY_DATA_DIR", "data")
    with pytest.raises(SettingsError, match=r"^The working directory is gone"):
        load_settings()


@pytest.mark.parametrize("command", ["status --line", "session-start --off"])
def test_a_person_is_told_that_the_settings_file_cannot_be_read(
    command: str, atlas: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file := tmp_path / "memory.toml").write_text("[", encoding="utf-8")
    monkeypatch.setenv("MEMORY_CONFIG", str(file))
    monkeypatch.chdir(atlas)
    assert isinstance(CliRunner().invoke(cli, command.split()).exception, SettingsError)


def test_a_byte_order_mark_in_the_settings_file_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "memory.toml"
    file.write_text("tenant = 'ada'\n", encoding="utf-8-sig")
    monkeypatch.setenv("MEMORY_CONFIG", str(file))
    assert read_hook_settings().tenant == load_settings().tenant == "ada"
