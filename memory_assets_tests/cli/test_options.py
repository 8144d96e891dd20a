"""Times in the forms that people type, and refused options and paths."""

import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from memory_assets.cli.main import cli, main
from memory_assets.errors import InvalidInputError
from memory_assets.ingest.direct import store_memories
from memory_assets.ingest.scans import refresh_sources
from memory_assets.models import NewMemory, Source
from memory_assets.operations.arguments import parse_time
from memory_assets.operations.store import store
from memory_assets.settings import Settings
from memory_assets.tenants import Tenant
from memory_assets_tests.conftest import WriteSilo


@pytest.mark.parametrize(
    ("text", "ago"),
    [
        ("7d", timedelta(days=7)),
        ("2 hrs", timedelta(hours=2)),
        ("1h30m", timedelta(hours=1, minutes=30)),
        ("90 seconds", timedelta(seconds=90)),
        (" 5 mins ", timedelta(minutes=5)),
    ],
)
def test_since_takes_a_length_before_now(text: str, ago: timedelta):
    moment = parse_time(text, "--since")
    assert moment is not None
    assert abs(datetime.now(UTC) - ago - moment) < timedelta(hours=1, minutes=1)  # the clocks may change within a week


def test_since_takes_a_named_day_of_the_persons_zone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("POND_TIMEZONE", "UTC")
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    assert parse_time("yesterday", "--since") in {today - timedelta(days=1), today}


def test_an_iso_time_without_an_offset_is_of_the_zone_in_which_times_are_shown(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("POND_TIMEZONE", "Europe/Berlin")
    assert parse_time("2026-03-14", "--since") == datetime(2026, 3, 13, 23, tzinfo=UTC)
    assert parse_time("2026-07-14T09:30", "--since") == datetime(2026, 7, 14, 7, 30, tzinfo=UTC)
    assert parse_time("2026-03-14", "--since", "Asia/Tokyo") == datetime(2026, 3, 13, 15, tzinfo=UTC)
    assert parse_time("2026-03-14T09:30+01:00", "--since") == datetime(2026, 3, 14, 8, 30, tzinfo=UTC)
    assert parse_time(None, "--since") is None


def test_since_takes_a_bare_month_weekday_or_year():
    for text in ("March", "november", "monday", "2026", "Q1"):
        assert parse_time(text, "--since") == parse_time(f"since {text}", "--since"), text


def test_month_and_day_may_have_one_digit_and_weeks_stay(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("POND_TIMEZONE", "UTC")
    assert parse_time("2026-3-4", "--since") == datetime(2026, 3, 4, tzinfo=UTC)
    assert parse_time("2026-3-14 09:30", "--since") == datetime(2026, 3, 14, 9, 30, tzinfo=UTC)
    assert parse_time("2026-W10-1", "--since") == datetime(2026, 3, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    "text", ["soon", "yesterday and more", "", "7x", "2026-13-40", "2026-13-01", " 2026-02-30 ", "2026-1-32"]
)
def test_what_is_no_time_is_refused_with_the_forms_that_are(text: str):
    with pytest.raises(InvalidInputError, match=r"--since .* is not a time; write it like 2026-03-14, .*yesterday or 7d"):
        parse_time(text, "--since")


def test_a_day_narrows_to_the_memories_that_are_shown_with_it(settings: Settings):
    store(Tenant(settings), NewMemory("The crane fell.", Source.CLI, created_at=datetime(2026, 7, 13, 22, 30, tzinfo=UTC)))
    day = ["--since", "2026-07-14", "--until", "2026-07-15", "--timezone", "Europe/Berlin"]
    said = CliRunner().invoke(cli, ["recent", *day]).output
    assert "(2026-07-14)" in said and "The crane fell." in said


def test_the_timeline_counts_the_days_that_are_shown(tenant: Tenant):
    store(tenant, NewMemory("The crane fell.", Source.CLI, created_at=datetime(2026, 7, 14, 2, 30, tzinfo=UTC)))
    for zone, day in (("America/New_York", "2026-07-13"), ("UTC", "2026-07-14")):
        here = ["--timezone", zone]
        assert CliRunner().invoke(cli, ["timeline", *here]).output.split() == [day, "1"]
        assert f"({day})" in CliRunner().invoke(cli, ["timeline", "--on", day, *here]).output
    assert "Nothing" in CliRunner().invoke(cli, ["timeline", "--on", "2026-07-13", "--timezone", "UTC"]).output


def test_a_time_that_is_not_iso_is_said_as_it_was_read(settings: Settings):
    said = CliRunner().invoke(cli, ["recent", "--since", "13.1.2026", "--timezone", "UTC"])
    assert "--since 13.1.2026 is read as 13 January 2026" in said.stderr
    assert not CliRunner().invoke(cli, ["recent", "--since", "2026-01-13T09:30"]).stderr


def test_recent_takes_the_times_that_search_takes(settings: Settings):
    old = NewMemory("An old note.", Source.CLI, created_at=datetime.now(UTC) - timedelta(days=9))
    store(Tenant(settings), old)
    store(Tenant(settings), NewMemory("A new note.", Source.CLI))
    for since, until, shown in (("7d", None, ["A new note."]), ("30d", "7d", ["An old note."])):
        arguments = ["recent", "--json", "--since", since, *(["--until", until] if until else [])]
        answer = json.loads(CliRunner().invoke(cli, arguments, catch_exceptions=False).stdout)
        assert [memory["content"] for memory in answer["memories"]] == shown


@pytest.mark.parametrize("changes", [[], ["--changes"]])
def test_recent_takes_the_hours_that_the_service_takes(tenant: Tenant, changes: list[str]):
    store(tenant, NewMemory("A new note.", Source.CLI))
    for hours in ("nan", "inf", "-inf", "1e300", "100000000", "720.5", "0", "-1"):
        with pytest.raises(InvalidInputError, match=r"hours is .*: give more than 0 and at most 720"):
            CliRunner().invoke(cli, ["recent", "--hours", hours, *changes], catch_exceptions=False)
    for hours in ("0.5", "720"):
        assert "A new note." in CliRunner().invoke(cli, ["recent", "--hours", hours, *changes]).output


@pytest.mark.parametrize(
    ("variable", "path", "command", "mend"),
    [
        ("MEMORY_DATA_DIR", "file", "doctor", "is no folder; name one"),
        ("MEMORY_DATA_DIR", "file/below", "store hello", "lies below {file}, which is no folder; name another"),
        ("MEMORY_DATA_DIR", "dangling/below", "run", "lies below {dangling}, which is no folder; name another"),
        ("MEMORY_CATALOG_URI", "file/below", "status", "lies below {file}, which is no folder; name another"),
        ("MEMORY_DATA_DIR", "a" * 300, "doctor", "name a shorter path"),
        (
            "HOME",
            "file",
            "install claude-code",
            "{file} cannot be used (File exists); name another folder",
        ),
    ],
)
def test_a_folder_that_cannot_be_made_is_one_sentence_with_the_mend(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    variable: str,
    path: str,
    command: str,
    mend: str,
):
    file, dangling = tmp_path / "file", tmp_path / "dangling"
    file.touch()
    dangling.symlink_to(tmp_path / "nowhere")
    monkeypatch.setenv(variable, str(tmp_path / path))
    monkeypatch.setattr("sys.argv", ["memory", *command.split()])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr().err
    assert (ended.value.code, said.count("\n")) == (1, 1)
    assert mend.format(file=file, dangling=dangling) in said


def test_a_text_that_begins_with_dashes_is_not_printed_as_an_unknown_option(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    for text in (
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA7hX",
        "--token=AK" + "IA" + "QX7T" * 4,
        "---AK" + "IA" + "QX7T" * 4,
    ):
        monkeypatch.setattr("sys.argv", ["memory", "store", text])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr().err
        assert ended.value.code == 2
        assert "No such option '--" in said
        assert "MIIE" not in said
        assert "QX7T" not in said
    monkeypatch.setattr("sys.argv", ["memory", "store", "--tga", "x"])
    with pytest.raises(SystemExit):
        main()
    assert "No such option '--tga'. (Did you mean one of: '--tag'" in capsys.readouterr().err


def run_program(*arguments: str | bytes, stdin: int | None = subprocess.DEVNULL, **environment: str) -> tuple[int, bytes, str]:
    command = [sys.executable, "-m", "memory_assets.cli", *arguments]
    ended = subprocess.run(command, env=os.environ | environment, stdin=stdin, capture_output=True, check=False)
    return ended.returncode, ended.stdout, ended.stderr.decode()


@pytest.mark.parametrize("option", ["", "--tag", "--entity", "--project"])
def test_an_argument_that_is_not_utf_8_is_refused_by_any_command(option: str) -> None:
    code, _, said = run_program("search", *(["Atlas", option] if option else []), b"b\xff")
    assert (code, said.count("\n")) == (2, 1) and "The argument 'b\\udcff' is not UTF-8" in said


def test_an_argument_in_utf_8_is_read_in_any_locale(settings: Settings) -> None:
    stored = run_program("store", "Zürich is a city.".encode(), LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert stored[0] == 0, stored
    assert Tenant(settings).memories.scan(["content"])["content"].to_pylist() == ["Zürich is a city."]


def test_an_argument_in_the_encoding_of_the_locale_or_in_utf_8_is_read(tenant: Tenant, tmp_path: Path) -> None:
    make = ["localedef", "-i", "de_DE", "-f", "ISO-8859-1", str(tmp_path / "de_DE")]
    if not shutil.which("localedef") or subprocess.run(make, capture_output=True, check=False).returncode:
        pytest.skip("this machine cannot make a locale")
    for encoding in ("latin-1", "utf-8"):
        text = f"Der Grüße-Dienst in {encoding}"
        stored = run_program("store", text.encode(encoding), LOCPATH=str(tmp_path), LC_ALL="de_DE", PYTHONUTF8="0")
        assert stored[0] == 0, stored
        assert text in tenant.memories.scan(["content"])["content"].to_pylist()


def test_a_character_that_the_terminal_lacks_is_escaped(tenant: Tenant) -> None:
    store_memories(tenant, [NewMemory("Zürich … 🚲", Source.CLI)])
    _, text, said = run_program("recent", PYTHONIOENCODING="latin-1")
    assert "Zürich \\u2026 \\ud83d\\udeb2" in text.decode("latin-1"), said
    _, answer, _ = run_program("recent", "--json", PYTHONIOENCODING="koi8-r")
    assert json.loads(answer.decode("koi8-r"))["memories"][0]["content"] == "Zürich … 🚲"


def test_a_closed_standard_input_is_empty() -> None:
    code = "import os, sys; os.close(0); os.execv(sys.executable, [sys.executable, '-m', 'memory_assets.cli', 'store', '-'])"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert ended.returncode == 2 and ended.stderr.startswith(b"memory: content is empty")


def test_a_file_whose_name_has_two_lines_is_refused_in_one(tenant: Tenant, write_silo: WriteSilo) -> None:
    write_silo("a\n    mend: trust it", "Mira is a baker.")
    refresh_sources(tenant, [Source.CLAUDE_SILO])
    told = CliRunner().invoke(cli, ["status", "--refused"]).output
    assert r"/a\n    mend: trust it.md" in told and "\n    mend: trust it" not in told
