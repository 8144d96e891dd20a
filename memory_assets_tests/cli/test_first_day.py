"""A new user's first day: forgiving input, and messages that say what happened and what to do."""

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from memory_assets_tests.cli.test_commands import MEMORY, invoke, invoke_json, memory


def test_a_text_needs_no_quotes() -> None:
    assert invoke_json("store", "Priya", "owns", "the", "export.")["content"] == "Priya owns the export."


def test_the_tenant_may_stand_before_the_command() -> None:
    invoke("--tenant", "work", "store", "Priya owns the export.", "--create")
    assert len(invoke_json("--tenant", "work", "search", "export")["memories"]) == 1
    assert invoke_json("search", "export")["memories"] == []


def test_help_is_a_word_too() -> None:
    assert invoke("help").output == invoke("--help").output
    assert invoke("help", "store").output == invoke("store", "--help").output


@pytest.mark.parametrize("tenant", [(), ("--tenant", "work")])
def test_what_an_answer_advises_can_be_pasted(tenant: tuple[str, ...]) -> None:
    invoke(*tenant, "store", "Tomasz owns the export of invoices.", "--create")
    again = invoke(*tenant, "store", "Tomasz owns the export of invoices.").output
    (undo,) = filter(None, (each.partition(": memory ")[2] for each in again.splitlines()))
    assert invoke(*undo.split()).output.startswith("Undone: store")


def test_what_an_error_advises_can_be_pasted(tmp_path: Path) -> None:
    invoke("store", "Priya owns the export.")
    invoke("tenant", "create", "work")
    place = str(tmp_path / "my backups")
    listed = re.findall("`memory (.*?)`", invoke("backup", "list", place).output)
    errors = [
        ("tenant", "delete", "nope"),
        ("backup", "verify", place, "--tenant", "work"),
        ("key", "revoke", "3f9c0a1b2d4e", "--tenant", "work"),
    ]
    for advised in (*listed, *(each for words in errors for each in re.findall("`memory (.*?)`", memory(*words).stderr))):
        done = memory(*shlex.split(advised))
        assert not done.returncode, (advised, done.stderr)
    empty = memory("restore", str(tmp_path)).stderr
    assert "holds no backups; name the place to which `memory backup` wrote them." in empty


def test_an_address_of_another_machine_is_named_as_one() -> None:
    assert "set MEMORY_HOST or --host to an address of this machine" in memory("serve", "--host", "8.8.8.8").stderr
    refused = memory("serve", "--host", "a..b")
    assert (refused.returncode, refused.stderr.count("\n"), "'a..b' cannot be resolved" in refused.stderr) == (1, 1, True)


def test_a_search_without_words_says_what_it_does() -> None:
    invoke("store", "Priya owns the export.")
    assert invoke("search", "").output.startswith("The newest, because no words were given:")


def test_a_time_of_the_future_is_refused_and_every_other_is_said_back() -> None:
    for text in ("2999-01-01", "1.1.2999"):
        refused = memory("store", "It begins.", "--created-at", text)
        assert (refused.returncode, "future" in refused.stderr) == (2, True)
    refused = memory("store", "The dock is open.", "--created-at", "1492-08-03")
    assert (refused.returncode, "created_at lies before 1700" in refused.stderr) == (2, True)
    stored = memory("store", "It began.", "--created-at", "12.5.2026")
    assert "12.5.2026 is read as 12 May 2026" in stored.stderr
    assert "created   Tuesday, 12 May 2026" in stored.stdout
    assert "read as" in memory("recent", "--since", "yesterday").stderr


@pytest.mark.parametrize("command", ["export", "graph"])
def test_no_folder_is_made_for_a_file_that_is_named(command: str, tmp_path: Path) -> None:
    invoke("store", "Priya owns the export.")
    file = tmp_path / "none" / "x.jsonl"
    done = memory(command, str(file))
    assert (done.returncode, "no folder" in done.stderr) == (2, True)
    assert not file.parent.exists()


def test_an_empty_home_and_a_graph_that_waits_say_what_to_do_next() -> None:
    assert "memory store TEXT" in invoke("recent").output
    number = str(invoke_json("store", "Priya owns the export.")["id"])
    assert "`memory run`" in invoke("status").output
    assert "not scored yet" in invoke("show", number).output
    invoke("forget", number)
    assert "only active memories" in invoke("show", number).output
    assert "memory store TEXT" not in invoke("recent").output


def test_a_name_that_is_not_known_may_be_known_after_the_next_run() -> None:
    invoke("store", "Zelda Fitzgerald owns the export.", "--tenant", "work", "--create")
    for arguments in ((), ("--like", "Zelda"), ("--type", "person")):
        listed = invoke("--tenant", "work", "names", *arguments).output
        assert listed == "No such names are known, as of the last `memory --tenant work run`.\n"
    for arguments in (("Zelda",), ("--merge", "Zelda", "Zelda Fitzgerald")):
        missing = memory("--tenant", "work", "names", *arguments)
        assert (missing.returncode, missing.stderr) == (1, "memory: No memory names 'Zelda', as of the last `memory run`.\n")


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("MEMORY_DATA_DIR", "~nouser/x", "does not exist"),
        ("MEMORY_DATA_DIR", "/dev/null", "no folder"),
        ("MEMORY_DATA_DIR", "", "is empty"),
        ("MEMORY_DECAY_RATE", "inf", "finite"),
        ("MEMORY_DECAY_RATE", "fast", "fast"),
        ("MEMORY_LOCK_TIMEOUT", "nan", "MEMORY_LOCK_TIMEOUT"),
    ],
)
def test_a_setting_that_cannot_be_used_is_told_in_a_sentence(
    name: str, value: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    done = memory("recent")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
    assert name in done.stderr
    assert says in done.stderr


def test_a_tenant_without_a_name_is_refused() -> None:
    assert memory("tenant", "create", "").returncode == 2
    assert not Path(os.environ["MEMORY_DATA_DIR"]).exists()


def test_a_closed_output_ends_in_no_traceback() -> None:
    closed = subprocess.run(["sh", "-c", f"{' '.join(MEMORY)} recent >&-"], capture_output=True, text=True, check=False)
    assert "Traceback" not in closed.stderr


@pytest.mark.parametrize("error", ["MemoryError", "RuntimeError('Exception during initialization: std::bad_alloc')"])
def test_little_memory_ends_in_no_traceback(error: str) -> None:
    code = f"from memory_assets.cli import main\ndef fail(**_): raise {error}\nmain.cli = fail\nmain.main()"
    little = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (little.returncode, little.stderr.count("\n"), "memory" in little.stderr) == (1, 1, True)


@pytest.mark.parametrize("command", ["export", "recent", "--help"])
def test_whoever_has_read_enough_of_an_output_gets_no_error(command: str) -> None:
    """`export` writes lines as it reads them, `recent` prints its answer, and `--help` ends before any command runs."""
    invoke("store", "Priya owns the billing export.")
    line = f"{{ {' '.join(MEMORY)} {command}; echo $? >&2; }} | true"
    ended = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert ended.stderr == "0\n"


def test_names_of_files_are_utf_8_in_every_locale() -> None:
    code = (
        "import sys\nfrom memory_assets.cli import __main__ as entry, main as program\n"
        "program.main = lambda: print(sys.getfilesystemencoding(), sys.stdout.encoding)\nentry.main()"
    )
    locale = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run([sys.executable, "-c", code], env=locale, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["utf-8", "ascii"]


def test_an_exit_of_a_library_is_no_success() -> None:
    code = "from memory_assets.cli import main\ndef fail(**_): raise SystemExit(3)\nmain.cli = fail\nmain.main()"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 3


@pytest.mark.parametrize("loading", ["click", "duckdb"])
def test_ctrl_c_while_the_program_loads_ends_in_no_traceback(loading: str, tmp_path: Path) -> None:
    invoke("store", "Priya owns the export.")
    (tmp_path / f"{loading}.py").write_text(
        "import os, signal, sys\n"
        "try:\n    os.kill(os.getpid(), signal.SIGINT)\n"
        "except KeyboardInterrupt as error:\n    raise ImportError('initialization failed') from error\n"
        f"sys.path.remove({str(tmp_path)!r})\ndel sys.modules[{loading!r}]\nimport {loading}\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    # in the background of a shell, this process ignores SIGINT itself
    handling = [
        sys.executable,
        "-c",
        "import os, signal, sys; signal.signal(2, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])",
    ]
    done = subprocess.run([*handling, *MEMORY, "names"], env=environment, capture_output=True, text=True, check=False)
    expected = (-signal.SIGINT, "") if loading == "click" else (130, "memory: Stopped.\n")
    assert (done.returncode, done.stderr) == expected
    ignoring = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *MEMORY, "names"]
    ignored = subprocess.run(ignoring, env=environment, capture_output=True, text=True, check=False)
    assert (ignored.returncode, ignored.stderr) == (0, "")
