"""The `memory` command as people and scripts use it: real processes over real stores."""

import fcntl
import json
import os
import pickle
import re
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from memory_assets.cli.command import say
from memory_assets.cli.main import COMMANDS, cli, main
from memory_assets.errors import MemoryAssetsError
from memory_assets.language.embedders.e5 import E5_INSTALL_COMMAND, e5_is_installed
from memory_assets.operations.answers import begins_with, without_title
from memory_assets.settings import load_settings
from memory_assets.tenants import Tenant
from memory_assets_tests.chat_model import StandIn
from memory_assets_tests.conftest import WriteSilo
from memory_assets_tests.ingest.runs import ingest
from memory_assets_tests.torture import zygote

MEMORY = [sys.executable, "-m", "memory_assets.cli"]
Running = subprocess.Popen[bytes] | zygote.Command


def memory(*arguments: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own."""
    return zygote.shared().memory(*arguments)


def in_terminal(columns: int, start: Callable[[str, dict[str, str]], Running], **variables: str) -> str:
    """Return the output on a terminal of this width, without colours unless `variables` of the environment enable them.

    `start` starts a command on the terminal with this path, with this environment.
    """
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "NO_COLOR"}} | {"TERM": "xterm"}
    started = start(os.ttyname(theirs), environment | variables)

    def wait() -> None:
        started.wait()
        os.close(theirs)

    said = b""
    with ThreadPoolExecutor(1) as threads:
        threads.submit(wait)
        try:
            while piece := os.read(ours, 65536):
                said += piece
        except OSError:  # EIO: the other side is closed
            pass
    os.close(ours)
    shown = said.decode().replace("\r\n", "\n")
    return shown if variables else re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)


def memory_in_terminal(columns: int, *arguments: str, **variables: str) -> str:
    """Run `memory` in a process of its own on a terminal, as `in_terminal`."""

    def start(terminal: str, environment: dict[str, str]) -> Running:
        call = pickle.dumps((_run_on, (terminal, arguments))).hex()
        return zygote.shared().start(environment, "@call", call)

    return in_terminal(columns, start, **variables)


def _run_on(terminal: str, arguments: Sequence[str]) -> None:
    opened = os.open(terminal, os.O_RDWR)
    for standard in range(3):
        os.dup2(opened, standard)
    os.close(opened)
    sys.argv[1:] = arguments
    main()


def invoke(*arguments: str) -> Result:
    """Run in this process, which saves the imports; the project's errors are raised."""
    result = CliRunner().invoke(cli, arguments)
    if isinstance(result.exception, MemoryAssetsError):
        raise result.exception
    return result


def given_bytes(data: bytes, *arguments: str) -> Result:
    """Return the output of a command that gets these bytes on standard input."""
    return CliRunner().invoke(cli, arguments, input=data)


@pytest.mark.parametrize(
    ("data", "kept"),
    [
        ("Das Café öffnet um neun.".encode("latin-1"), "Das Café öffnet um neun."),
        ("Das Café öffnet um neun.".encode("utf-16"), "Das Café öffnet um neun."),
        ("Das Café öffnet \r\num neun.".encode("utf-8-sig"), "Das Café öffnet \num neun."),
        ("Das Café öffnet".encode() + b" \xff um neun.", "Das Café öffnet � um neun."),
    ],
)
def test_standard_input_is_read_as_files_are(data: bytes, kept: str):
    stored = json.loads(given_bytes(data, "store", "-", "--json").stdout)
    assert stored["content"] == kept


def test_an_edit_reads_standard_input_as_files_are():
    stored = json.loads(invoke("store", "Das Lokal öffnet um neun.", "--json").stdout)
    given_bytes("Das Café öffnet um zehn.".encode("latin-1"), "edit", str(stored["id"]), "-")
    assert "Das Café öffnet um zehn." in invoke("recent").output


def test_standard_input_in_no_encoding_is_refused_with_what_to_do():
    result = given_bytes(b"\x93\xff\xfe\x81\x8d\x8f", "store", "-")
    assert "send it as UTF-8" in str(result.exception)


def invoke_json(*arguments: str) -> dict:
    return json.loads(invoke(*arguments, "--json").stdout)


def test_help_starts_without_any_heavy_import() -> None:
    heavy = "dagster lancedb spacy duckdb pyarrow numpy pydantic fastapi mcp rich httpx sklearn memory_assets.sources hashlib"
    code = (
        "import sys; sys.argv = ['memory', '--help']\n"
        "try:\n    from memory_assets.cli.main import main; main()\n"
        f"except SystemExit: pass\nprint([m for m in {heavy.split()!r} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command: str) -> None:
    done = invoke(command, "--help")
    assert done.exit_code == 0
    assert "Example: " in done.output or "Commands:" in done.output


def test_a_memory_is_stored_found_shown_forgotten_and_restored() -> None:
    stored = invoke_json("store", "Yesterday Alice debugged the DuckDB lock in Atlas.", "--tag", "Python Debugging")
    assert stored["tags"][0] == "python-debugging"
    assert {"text": "Alice", "type": "PERSON"} in stored["entities"]
    assert "debug" in stored["actions"]
    number = str(stored["id"])
    (hit,) = invoke_json("search", "who fixed the database lock")["memories"]
    assert (hit["id"], hit["content"]) == (stored["id"], stored["content"])
    assert 0 <= hit["score"] <= 1
    assert sum(part["contribution"] for part in hit["components"]) == pytest.approx(hit["score"], abs=1e-6)
    assert "Alice" in invoke("show", number[:8]).output
    assert invoke_json("forget", number)["state"] == "forgotten"
    assert invoke_json("search", "database lock")["memories"] == []
    assert invoke_json("forget", number, "--restore")["state"] == "active"
    assert invoke_json("recent")["count"] == 1


def test_search_shows_the_passage_that_holds_what_was_asked() -> None:
    filler = "The weekly meeting took place as usual and nothing else was decided there. " * 3
    invoke("store", f"{filler}Leila is second in line for the export since November.")
    shown = invoke("search", "who is second in line for the export").output
    assert "Leila is second in line for the export" in shown


def test_a_text_does_not_repeat_its_title() -> None:
    text = "The worktree wt tries a new parser."
    assert without_title(f"Experiment in the worktree\n\n{text}", "experiment_in-the worktree").strip() == text
    assert without_title(text, text) == text
    assert begins_with("Merge freeze for the release", "merge-freeze")
    assert not begins_with("Merge the freeze", "merge-freeze")


def test_what_is_read_creates_nothing_and_a_mistyped_tenant_is_told() -> None:
    invoke("store", "Priya owns the billing export", "--tenant", "claude", "--create")
    before = sorted(Path(os.environ["MEMORY_DATA_DIR"]).rglob("*"))
    for arguments in (("search", "export"), ("recent",), ("show", "12"), ("forget", "12"), ("export",), ("status",), ("init",)):
        with pytest.raises(MemoryAssetsError, match=r"no tenant 'claud'.*Did you mean 'claude'"):
            invoke(*arguments, "--tenant", "claud")
    with pytest.raises(MemoryAssetsError, match="memory tenant create"):
        invoke("store", "x", "--tenant", "claud")
    assert invoke_json("search", "export")["memories"] == []
    assert invoke_json("recent")["count"] == 0
    assert invoke_json("init")["recent_memories"] == []
    with pytest.raises(MemoryAssetsError, match="no memory 12"):
        invoke("show", "12")
    assert sorted(Path(os.environ["MEMORY_DATA_DIR"]).rglob("*")) == before


def test_tenants_do_not_see_each_other() -> None:
    invoke("store", "the secret of one", "--tenant", "one", "--create")
    invoke("tenant", "create", "two")
    assert invoke_json("search", "secret", "--tenant", "two")["memories"] == []
    assert len(invoke_json("search", "secret", "--tenant", "one")["memories"]) == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("store", "   "), "memory: content is empty or blank"),
        (("store", "x" * 7501), "7,500"),
        (("show", "12345"), "no memory 12345"),
        (("show", "abc"), "not a memory's id"),
        (("forget", "9"), "no memory 9"),
        (("search", "x", "--since", "yesterday-ish"), "--since"),
        (("recent", "--tenant", "../other"), "tenant name"),
        (("recent", "--tenant", "api"), "reserved"),
    ],
)
def test_bad_input_gets_one_sentence_on_stderr_and_exit_code_2_and_what_is_missing_1(
    arguments: tuple[str, ...], says: str
) -> None:
    done = memory(*arguments)
    assert done.returncode == (1 if "no memory" in says else 2)
    assert done.stdout == ""
    assert done.stderr.startswith("memory: ")
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_wrong_usage_exits_with_2() -> None:
    assert memory("search").returncode == 2
    mistyped = memory("serch", "export")
    assert mistyped.returncode == 2
    assert "Did you mean 'search'?" in mistyped.stderr
    assert memory("recent", "--limit", "0").returncode == 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script_of_the_shell(shell: str) -> None:
    assert "_MEMORY_COMPLETE" in invoke("completion", shell).output


def test_a_settings_file_is_read_and_the_environment_wins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "memory.toml"
    file.write_text("decay_rate = 0.02\nlock_timeout = 3\n")
    monkeypatch.setenv("MEMORY_CONFIG", str(file))
    monkeypatch.setenv("MEMORY_LOCK_TIMEOUT", "5")
    settings = invoke_json("doctor", "--settings")["settings"]
    assert settings["decay_rate"] == {"value": "0.02", "from": str(file)}
    assert settings["MEMORY_LOCK_TIMEOUT"] == {"value": "5.0", "from": "the environment"}
    file.write_text("decay_rate = ")
    with pytest.raises(MemoryAssetsError, match="not valid TOML"):
        invoke("recent")


def test_doctor_never_shows_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    shown = invoke("doctor", "--settings").output
    assert re.search(r"^OPENAI_API_KEY +set +\(the environment\)$", shown, re.MULTILINE)
    assert "very-secret" not in shown
    assert "very-secret" not in json.dumps(invoke_json("doctor", "--settings"))


def test_doctor_asks_a_service_that_embeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_EMBEDDER", "ollama")
    monkeypatch.setenv("OLLAMA_URL", "http://127.0.0.1:9")
    (found,) = [each for each in invoke_json("doctor")["findings"] if "Ollama" in each["what"]]
    assert (found["level"], found["what"]) == ("fault", "Ollama does not answer at http://127.0.0.1:9")
    assert found["mend"].startswith("run `ollama serve`")


def test_doctor_says_whether_the_chat_model_is_there(monkeypatch: pytest.MonkeyPatch, chat: StandIn) -> None:
    monkeypatch.setenv("MEMORY_OPENAI_URL", chat.url)
    for model, url, said in (
        ("ollama:small", chat.url, "ok: chat model ollama:small, which is there"),
        ("openai:small:latest", chat.url, "ok: chat model openai:small:latest, which is there"),
        ("ollama:large", chat.url, "is not among the service's models"),
        ("ollama:small", "http://127.0.0.1:1", "cannot be reached"),
    ):
        monkeypatch.setenv("MEMORY_CHAT_MODEL", model)
        monkeypatch.setenv("MEMORY_OLLAMA_URL", url)
        (found,) = [each for each in invoke_json("doctor")["findings"] if "chat model" in each["what"].lower()]
        assert said in f"{found['level']}: {found['what']}"


def test_doctor_begins_with_what_is_broken_and_lists_settings_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "compartment", None)
    lines = invoke("doctor").output.splitlines()
    assert lines[0].startswith("FAIL  The embedder")
    assert lines[1].startswith("      mend: ")
    assert not any("MEMORY_DECAY_RATE" in line for line in lines)
    marks = [line[:4] for line in lines if line[:4].strip()]
    assert marks == sorted(marks, key=["FAIL", "note", "ok  "].index)


def test_doctor_finds_the_network_missing_whatever_the_embedder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "compartment", None)
    monkeypatch.setenv("MEMORY_EMBEDDER", "ollama:none")
    monkeypatch.setenv("MEMORY_OLLAMA_URL", "http://127.0.0.1:1")
    assert "The network that reads hits and compares texts is not ready" in invoke("doctor").output


@pytest.mark.parametrize("columns", [60, 140])
def test_lines_fill_the_terminal_and_begin_below_each_other(columns: int) -> None:
    said = memory_in_terminal(columns, "doctor")
    (found,) = re.findall(r"^note  (tenant main .*\n(?:      [^m].*\n)*)      mend: ((?:.*\n)(?: {12}.*\n)*)", said, re.MULTILINE)
    assert all(len(line) <= columns or " " not in line.strip() for line in said.splitlines())
    assert " ".join(" ".join(found).split()).endswith("Run `memory run` or `memory store TEXT`.")


def test_a_terminal_that_wants_no_colours_gets_no_escapes() -> None:
    invoke("store", "Priya owns the export.")
    assert "\x1b" in memory_in_terminal(80, "recent", TERM="xterm")
    assert "\x1b" not in memory_in_terminal(80, "recent", NO_COLOR="1")


def test_the_demo_has_no_escapes_where_it_is_no_terminal() -> None:
    begin = "".join(re.findall(r"^(?:BOLD=|if |step\(|run\().*\n", Path("tools/demo.sh").read_text(), re.MULTILINE))
    script = f"memory() {{ :; }}\n{begin}step one; run two"

    def start(terminal: str, environment: dict[str, str]) -> Running:
        with Path(terminal).open("r+b", buffering=0) as opened:
            return subprocess.Popen(["sh", "-c", script], stdin=opened, stdout=opened, stderr=opened, env=environment)

    said = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout
    assert said == "\none\n$ memory two\n"
    assert in_terminal(80, start, NO_COLOR="1") == said
    assert in_terminal(80, start, TERM="xterm").count("\x1b") == 4


def test_a_run_counts_what_it_does_where_somebody_watches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = tmp_path / "lines.jsonl"
    lines.write_text("".join(json.dumps({"content": f"note {number}", "id": f"n{number}"}) + "\n" for number in range(3)))
    said = memory_in_terminal(140, "import", str(lines))
    assert re.search(r"Importing: 3 of 3 .*\d:\d\d:\d\d", said)
    assert "3 added" in said


def test_an_import_can_be_run_again_and_updates_what_changed(tmp_path: Path) -> None:
    file = tmp_path / "memories.jsonl"
    lines = [
        {"content": "Priya owns the export", "id": "a-1", "author": "Mira", "created_at": "2026-03-01T10:00:00Z"},
        {"content": "The deadline is in May", "id": 17, "tags": ["Deadlines"], "metadata": {"page": 3}},
        {"content": "No id at all", "session": "s1", "surprise": 1},
    ]
    file.write_text("\n".join(map(json.dumps, lines)))
    nothing = {"added": 0, "updated": 0, "unchanged": 0, "refused": 0, "erased": 0, "removed": 0, "repeated": 0, "retired": 0}
    assert invoke_json("import", str(file)) == nothing | {"added": 3}
    assert invoke_json("import", str(file)) == nothing | {"unchanged": 3}
    lines[1]["content"] = "The deadline is in June"
    file.write_text("\n".join(map(json.dumps, lines)))
    assert invoke_json("import", str(file)) == nothing | {"updated": 1, "unchanged": 2}
    shown = invoke_json("show", "17")
    assert (shown["content"], shown["metadata"]) == ("The deadline is in June", {"page": 3})
    assert invoke_json("search", "export", "-n", "1")["memories"][0]["external_id"] == "a-1"


def test_an_import_reads_files_and_pipes_and_no_device(tmp_path: Path) -> None:
    line = '{"content": "Priya owns the export", "id": "a-1"}'
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["/bin/sh", "-c", 'printf "%s" "$0" > "$1"', line, str(pipe)]):
        assert '"added": 1' in memory("import", str(pipe), "--json").stdout
    refused = memory("import", "/dev/zero")
    assert (refused.returncode, "it is a device" in refused.stderr) == (2, True)


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        (
            '{"content": "good"}\n{"content": 3}\nnot json\n{"content": "x", "importance": 7}\n',
            ["line 2, content", "line 3", "line 4, importance"],
        ),
        ('{"content": "good"}\n{"content": "   "}\n{"content": "x", "tags": [" "]}\n', ["line 2, content", "line 3, tags"]),
    ],
)
def test_an_import_with_a_bad_line_takes_nothing_and_names_line_and_field(tmp_path: Path, lines: str, named: list[str]) -> None:
    file = tmp_path / "memories.jsonl"
    file.write_text(lines)
    done = memory("import", str(file))
    assert done.returncode == 2
    assert [each for each in named if each not in done.stderr] == []
    assert invoke_json("recent")["count"] == 0
    assert invoke_json("import", str(file), "--skip-invalid")["added"] == 1


def test_an_export_with_a_memory_from_a_long_file_restores(tmp_path: Path, write_silo: WriteSilo) -> None:
    write_silo("long", "The billing export runs nightly. " * 400)
    ingest(Tenant(load_settings()))
    file = tmp_path / "backup.jsonl"
    invoke("export", str(file))
    assert invoke_json("import", str(file), "--tenant", "copy", "--create")["added"] == 1
    (kept,) = invoke_json("recent", "--tenant", "copy")["memories"]
    assert len(kept["content"]) > 7_500


def test_an_export_restores_into_an_empty_tenant(tmp_path: Path) -> None:
    first = invoke_json("store", "Priya owns the export", "--tag", "x", "--author", "Mira")
    second = invoke_json("store", "to be forgotten")
    invoke("forget", str(second["id"]))
    file = tmp_path / "backup.jsonl"
    invoke("export", str(file))
    assert invoke_json("import", str(file), "--tenant", "copy", "--create")["added"] == 2
    del first["splash"], first["masked"], first["echoes"], first["version"]
    copy = invoke_json("show", str(first["id"]), "--tenant", "copy")
    assert {**first, "updated_at": ""} == {name: copy[name] for name in first} | {"updated_at": ""}
    assert invoke_json("show", str(second["id"]), "--tenant", "copy")["state"] == "forgotten"


@pytest.mark.long
def test_a_run_that_is_killed_between_two_steps_is_completed_by_the_next(write_silo: WriteSilo) -> None:
    for number in range(6):
        write_silo(f"note-{number}", f"Note {number}: the deadline of project {number} is in May.")
    for step in ("silo_files", "extracted_features"):
        running, until = zygote.shared().start(os.environ.copy(), "run"), time.monotonic() + 120
        while not re.search(f"^{step}", running.written("out"), re.MULTILINE):
            assert time.monotonic() < until, running.written("err")
            time.sleep(0.01)
        running.kill()
        assert running.wait().killed
    assert invoke_json("run")["assets"]["memories"]["added"] == 6
    status = invoke_json("status")
    assert status["memories_by_state"] == {"active": 6}
    assert invoke_json("run")["unchanged_since"]


def made_by(embedder: str) -> int:
    """Store a memory whose vectors are labelled as another embedder's."""
    from memory_assets.stores.memories import MemoryStore

    stored = invoke_json("store", "Priya owns the billing export")
    store = MemoryStore(os.environ["MEMORY_DATA_DIR"] + "/main/vectors")
    column = store.columns.add(embedder, 256)
    store.columns.make_live(column)
    return stored["id"]


def test_a_change_of_embedder_is_noticed_and_backfill_moves_the_memories() -> None:
    stored = made_by("an-older-embedder")
    with pytest.raises(MemoryAssetsError, match=r"an-older-embedder.*memory backfill"):
        invoke("search", "billing")
    findings = invoke_json("doctor")["findings"]
    assert any("an-older-embedder" in finding["what"] for finding in findings)
    assert invoke_json("backfill")["embedded"] == 1
    assert invoke_json("search", "billing")["memories"][0]["id"] == stored
    assert invoke_json("backfill")["embedded"] == 0


def test_a_run_moves_memories_whose_embedder_this_release_no_longer_has() -> None:
    stored = made_by("wordllama-l2-supercat-256")
    with pytest.raises(MemoryAssetsError, match=r"wordllama.*does not know.*memory backfill"):
        invoke("search", "billing")
    assert invoke_json("run")["assets"]["memories"]["embedded_anew"] == 1
    assert invoke_json("search", "billing")["memories"][0]["id"] == stored


@pytest.mark.skipif(not e5_is_installed(), reason=E5_INSTALL_COMMAND)
def test_an_older_embedder_answers_and_stores_until_a_run_has_moved_the_memories(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_EMBEDDER", "e5-multilingual")
    stored = invoke_json("store", "Priya owns the billing export")
    monkeypatch.delenv("MEMORY_EMBEDDER")
    assert invoke_json("search", "billing")["memories"][0]["id"] == stored["id"]
    invoke_json("store", "Marco owns the release notes")
    (note,) = [each for each in invoke_json("doctor")["findings"] if "still embedded" in each["what"]]
    assert "multilingual-e5" in note["what"]
    assert note["mend"] == "Run `memory backfill`."
    assert invoke_json("run")["assets"]["memories"]["embedded_anew"] == 2
    assert not [each for each in invoke_json("doctor")["findings"] if "still embedded" in each["what"]]
    assert invoke_json("search", "who owns billing")["memories"][0]["id"] == stored["id"]


def test_a_change_of_pipeline_is_noticed_and_backfill_analyses_anew() -> None:
    from memory_assets.stores.memories import MemoryStore

    stored = invoke_json("store", "Priya owns the billing export", "--tag", "mine")
    store = MemoryStore(os.environ["MEMORY_DATA_DIR"] + "/main/vectors")
    store.table.update(where="true", values={"pipeline": "an-older-pipeline"})
    assert any("1 memories were analysed by another" in finding["what"] for finding in invoke_json("doctor")["findings"])
    assert invoke_json("backfill")["analysed"] == 1
    again = invoke_json("show", str(stored["id"]))
    del stored["splash"], stored["masked"], stored["echoes"], stored["version"]
    assert {**stored, "updated_at": ""} == {name: again[name] for name in stored} | {"updated_at": ""}
    assert invoke_json("backfill")["analysed"] == 0


def test_a_command_ends_in_order_while_a_thread_of_it_runs_native_code() -> None:
    program = """
import sys, threading, duckdb
def work():
    while True:
        duckdb.sql("SELECT 1").fetchall()
threading.Thread(target=work, name="mcp-warm-up", daemon=True).start()
sys.argv = ["memory", "--version"]
from memory_assets.cli.main import main
main()
"""
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("memory")


@pytest.mark.parametrize("project", ["a" * 300, "~nobody.at.all/atlas"])
def test_a_session_of_a_project_that_can_be_no_folder_is_shown(project: str) -> None:
    invoke("store", "Priya owns the export.")
    assert invoke_json("session", project)["project"] == project


def test_names_the_timeline_and_a_session_are_shown_and_decided_on() -> None:
    number = str(invoke_json("store", "Robert Miller prefers short answers.", "--kind", "user")["id"])
    invoke("store", "Bob Miller said that Lyon is far.")
    invoke("consolidate", "decay")
    from memory_assets.graph.edges import refresh_graph

    tenant = Tenant(load_settings())
    refresh_graph(tenant.catalog, tenant.memories, tenant.relations)
    assert {each["name"] for each in invoke_json("names", "--type", "person")["names"]} == {"Robert Miller", "Bob Miller"}
    merged = invoke("names", "--merge", "bob miller", "Robert Miller")
    assert merged.output.strip() == "“Bob Miller” is the same as “Robert Miller”."
    assert "Bob Miller (1)" in invoke("names", "Robert Miller").output
    assert "is not" in invoke("names", "--split", "Robert Miller", "Bob Miller").output
    decided = invoke_json("names", "--decisions")["decisions"]
    assert invoke("names", "--undo", decided[0]["id"]).output.startswith("Taken back")
    with pytest.raises(MemoryAssetsError, match="No memory names 'Nobody Known'"):
        invoke("names", "Nobody Known")
    today = invoke_json("timeline")["columns"][0]["begins"]
    assert invoke("timeline", "--tag", "nothere").output == "Nothing is remembered that fits.\n"
    assert "Lyon" in invoke("timeline", "--on", today).output
    for day in ("2020-01-02", "2020-1-2", "20200102", "02.01.2020", "January 2 2020"):
        assert "Nothing was remembered on 2020-01-02" in invoke("timeline", "--on", day, "--timezone", "Asia/Tokyo").output
    with pytest.raises(MemoryAssetsError, match="--on '2020-02-30' is not a time"):
        invoke("timeline", "--on", "2020-02-30")
    assert "short answers" in invoke("session").output
    assert "no session begins with it" in invoke("session", "--off", number).output
    assert "switched off: " in invoke("session").output
    assert "told again" in invoke("session", "--on", number).output
    assert "Would undo: store" in invoke("undo", number, "--dry-run").output
    assert invoke_json("show", number)["state"] == "active"


def test_a_message_that_stderr_cannot_take_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(click, "secho", fail)
    say("The daemon ended.", err=True)
    with pytest.raises(OSError, match="No space left"):
        say("An answer.")
