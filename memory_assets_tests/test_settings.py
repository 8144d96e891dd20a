"""Settings in the forms that people write."""

import os
import re
import tomllib
from pathlib import Path

import pytest

from memory_assets import doctor
from memory_assets.doctor import examine
from memory_assets.errors import SettingsError
from memory_assets.hook_settings import read_hook_settings
from memory_assets.settings import Settings, load_settings, origins
from memory_assets.tenants import Tenant
from memory_assets_tests.cli.test_commands import memory
from memory_assets_tests.keeping.test_backup import add


@pytest.mark.parametrize("variable", ["PORT", "MEMORY_PORT", "EMBEDDING_TIMEOUT", "MEMORY_RATE_LIMIT", "memory_rate_limit"])
def test_a_wrong_value_is_told_under_the_name_it_was_set_by(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "many")
    with pytest.raises(SettingsError, match=rf"^The setting {variable} cannot be used: .*'many'.* in the environment\.$"):
        load_settings()


@pytest.mark.parametrize("name", ["port", "PORT", "MEMORY_PORT", "rate_limit", "MEMORY_RATE_LIMIT"])
def test_a_wrong_value_of_the_settings_file_is_told_with_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    file = tmp_path / "memory.toml"
    file.write_text(f'{name} = "many"\n', encoding="utf-8")
    monkeypatch.setenv("MEMORY_CONFIG", str(file))
    with pytest.raises(SettingsError, match=rf"^The setting {name} cannot be used: .* in {file}\.$"):
        load_settings()


def test_a_wrong_value_of_the_command_line_is_told_as_its_option() -> None:
    with pytest.raises(SettingsError, match=r"^The setting --port cannot be used: .* on the command line"):
        load_settings(port=70_000)


def test_a_rule_of_ours_is_told_without_the_words_of_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_TIMEZONE", "Mars/Olympus")
    with pytest.raises(SettingsError, match=r"^The setting MEMORY_TIMEZONE cannot be used: (?!Value error).*'Mars/Olympus'"):
        load_settings()


@pytest.mark.parametrize(
    ("setting", "uri"),
    [
        ("state_uri", "postgresql://memory:hush@host/memory"),
        ("state_uri", "postgresql://memory@host/memory?password=hush"),
        ("state_uri", "host=host password=hush"),
        ("catalog_uri", "ducklake:postgres:postgresql://memory:hush@host/memory"),
        ("catalog_uri", "ducklake:postgres:host=host password = hush"),
        ("vectors_uri", "s3://key:hush@bucket"),
    ],
)
def test_a_uri_with_a_password_is_refused_and_not_shown(setting: str, uri: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load_settings(**{setting: uri})
    assert "hush" not in str(refused.value)
    assert re.search("MEMORY_STORAGE_SECRET_KEY" if uri.startswith("s3") else "PGPASSWORD|pattern", str(refused.value))


def test_the_user_of_a_database_may_be_in_its_uri() -> None:
    load_settings(
        state_uri="postgresql://memory@host/memory", catalog_uri="ducklake:postgres:postgresql://memory@host:5432/memory"
    )


def test_memories_below_a_root_in_the_users_home_are_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_VECTORS_URI", "~/vectors")
    monkeypatch.setenv("MEMORY_CATALOG_URI", "~/catalogs")
    add(Tenant(load_settings()), 2)
    again = Tenant(load_settings())
    assert len(again.memories) == 2
    assert again.location.path == Path.home() / "vectors/main/vectors"
    assert again.settings.tenant_catalog_uri("main") == str(Path.home() / "catalogs/main/catalog.duckdb")


@pytest.mark.parametrize("name", ["data_dir", "vectors_uri", "catalog_uri", "backup_to", "pai_seed"])
def test_a_relative_path_begins_at_the_settings_file_or_at_the_working_folder_of_the_environment(
    file: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(Path.home())
    monkeypatch.delenv(f"MEMORY_{name.upper()}", raising=False)
    file.write_text(f'{name} = "below"\n')
    assert str(getattr(load_settings(), name)) == str(file.with_name("below"))
    monkeypatch.setenv(f"MEMORY_{name.upper()}", "below")
    assert str(getattr(load_settings(), name)) == str(Path.home() / "below")
    monkeypatch.setenv(f"MEMORY_{name.upper()}", "~nobody-at-all/below")
    with pytest.raises(SettingsError, match="names the home of a user who does not exist; write the whole path"):
        load_settings()


@pytest.mark.parametrize("uri", ["s3://memories/team", "ducklake:postgres:host=db.example", ""])
def test_a_uri_stays_as_it_is(uri: str) -> None:
    assert load_settings(vectors_uri=uri).vectors_uri == uri


@pytest.mark.parametrize("name", ["~nobody-at-all/memory.toml", "misspelt.toml", ".", "broken"])
def test_a_settings_file_that_is_named_and_is_none_is_told_and_never_passed_over(
    name: str, settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "broken").symlink_to("nowhere")
    monkeypatch.setenv("MEMORY_CONFIG", name if name[0] == "~" else str(tmp_path / name))
    done = memory("recent")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert ("does not exist; correct it, or unset it." in done.stderr) is name.endswith(".toml")
    assert read_hook_settings().data_dir == Path(os.devnull)
    monkeypatch.setenv("MEMORY_CONFIG", os.devnull)
    assert load_settings() == settings
    assert read_hook_settings().data_dir == settings.data_dir


@pytest.mark.parametrize("letter", ["?", "\n", "\t", "\x7f"])
def test_a_data_folder_that_no_store_can_open_is_refused_also_as_the_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, letter: str
) -> None:
    home = tmp_path / f"my{letter}home"
    told = f"is in a path with {letter!r}, which DuckDB or LanceDB cannot open; name another folder"
    monkeypatch.setenv("MEMORY_DATA_DIR", str(home))
    with pytest.raises(SettingsError, match=re.escape(told)):
        load_settings()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("MEMORY_DATA_DIR")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    with pytest.raises(SettingsError, match=re.escape(told) + r".*; correct it in the environment\.$"):
        load_settings()


def test_every_setting_says_where_it_came_from(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "memory.toml"
    file.write_text('rate_limit = 5\nallowed_hosts = ["a.example", "b.example"]\n', encoding="utf-8")
    monkeypatch.setenv("MEMORY_CONFIG", str(file))
    monkeypatch.setenv("PORT", "8001")
    settings = load_settings(host="localhost")
    came_from = origins(settings)
    assert [(came_from[field].name, came_from[field].place) for field in ("rate_limit", "port", "host", "tenant")] == [
        ("rate_limit", str(file)),
        ("PORT", "the environment"),
        ("MEMORY_HOST", "command line"),
        ("MEMORY_TENANT", "default"),
    ]
    assert settings.allowed_hosts == ("a.example", "b.example")
    monkeypatch.setenv("MEMORY_ALLOWED_HOSTS", "c.example, d.example")
    assert load_settings().allowed_hosts == ("c.example", "d.example")


@pytest.fixture
def file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The settings file, which does not exist yet."""
    file = tmp_path / "memory.toml"
    monkeypatch.setenv("MEMORY_CONFIG", str(file))
    return file


def test_the_settings_file_takes_the_names_of_the_environment(file: Path) -> None:
    file.write_text('MEMORY_SECRETS = "refuse"\nMEMORY_TENANT = "ada"\nport = 1\nMEMORY_PORT = 2\nLOG_LEVEL = "ERROR"\n')
    settings = load_settings()
    assert (settings.secrets, settings.tenant, settings.port, settings.log_level) == ("refuse", "ada", 2, "ERROR")
    assert origins(settings)["secrets"] == ("MEMORY_SECRETS", str(file))
    assert origins(settings)["port"] == ("MEMORY_PORT", str(file))


def test_the_settings_file_is_read_once(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("port = 9000\nzzz = 1\n")
    read, parse = [], tomllib.loads
    monkeypatch.setattr(tomllib, "loads", lambda text: read.append(text) or parse(text))
    assert load_settings().port == 9000
    assert read == [file.read_text()]


def test_an_unknown_name_of_the_settings_file_is_told_and_stops_nothing(
    tenant: Tenant, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file.write_text("decay_rat = 0.1\nMEMORY_RATE_LIMITS = 5\nport = 9000\nzzz = 1\n")
    assert load_settings().port == load_settings().port == 9000
    told = [
        (f"The name 'decay_rat' in {file} is no setting, so it is ignored", "write decay_rate, or remove it."),
        (f"The name 'MEMORY_RATE_LIMITS' in {file} is no setting, so it is ignored", "write MEMORY_RATE_LIMIT, or remove it."),
        (f"The name 'zzz' in {file} is no setting, so it is ignored", "remove it; `memory doctor --settings` lists the names."),
    ]
    assert caplog.messages == [f"memory: {what}; {mend}" for what, mend in told]
    notes = [(each.what, each.mend) for each in examine(tenant) if each.level == "note"]
    assert notes[: len(told)] == told


def test_object_storage_that_no_other_machine_finds_is_named(settings: Settings) -> None:
    alone = settings.model_copy(update={"vectors_uri": "s3://memories/team"})
    shared = alone.model_copy(update={"state_uri": "postgresql://memory@db.example/memory"})
    told = [[each.what for each in doctor._settings(Tenant(which)) if each.mend] for which in (settings, shared, alone)]
    assert [len(each) for each in told] == [0, 0, 1]
    assert "MEMORY_VECTORS_URI is set without MEMORY_STATE_URI" in told[2][0]
