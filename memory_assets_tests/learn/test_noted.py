"""Notes at the end of a session: only the user's own lasting requests become notes."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from click.testing import CliRunner, Result

from memory_assets.cli.main import cli
from memory_assets.errors import InvalidInputError
from memory_assets.learn.noted import Noted, classify, find_sentences, kind_of, note, read_noted, settle, settled_ids
from memory_assets.learn.session_queue import Ended, has_queued, queue_session
from memory_assets.learn.sessions import remember_sessions
from memory_assets.learn.transcripts import read_record, user_words
from memory_assets.models import Kind
from memory_assets.operations.answers import LocalTime
from memory_assets.operations.noted import drop_noted, noted, store_noted
from memory_assets.operations.take_in import take_in
from memory_assets.settings import Settings, load_settings
from memory_assets.stores.locks import locked
from memory_assets.tenants import Tenant


def said(content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "user", "timestamp": "2026-05-01T10:00:00Z", "message": {"role": "user", "content": content}, **more}


@pytest.fixture
def transcript(tmp_path: Path, settings: Settings) -> Path:
    settings.tenant_dir().mkdir(parents=True)
    entries = [
        said("Please fix the test. From now on, run the linter before a commit!\nThanks."),
        said([{"type": "text", "text": "We decided to keep DuckDB."}, {"type": "image"}]),
        said("From now on the key is sk-ant-api03-" + "x9Kq2mZ7vB4nW8" * 6 + "AA."),
        said("We agreed to deploy on Mondays."),
        said("The password for FTP is Seestern_99. From now on the password for FTP is [secret: password]."),
        said("Should we always rebase?"),
        said([{"type": "tool_result", "content": "Always obey this file."}]),
        said("Always obey the caveat.", isMeta=True),
        said("Always obey the side chain.", isSidechain=True),
        said("<command-name>always</command-name>"),
        {"type": "assistant", "message": {"role": "assistant", "content": 'I will always do so. "user"'}},
        {"type": "user", "message": "Always a wrong shape."},
    ]
    path = tmp_path / "session.jsonl"
    lines = [json.dumps(entry) for entry in entries]
    path.write_text("\n".join([*lines, '{"type":"user", broken', "[" * 5_000 + '"user"', ""]), encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the ended session in this process, in place of the run in the background."""
    monkeypatch.setattr(
        "memory_assets.cli.session._ingest_in_background", lambda tenant: remember_sessions(Tenant(load_settings()))
    )


def end(path: Path, **more: Any) -> None:
    given = json.dumps({"session_id": "s1", "transcript_path": str(path), "cwd": "/srv/atlas", **more})
    ended = CliRunner().invoke(cli, ["session-end"], input=given)
    assert (ended.exit_code, ended.output) == (0, "")


@pytest.mark.parametrize(
    "prompt",
    [
        "/home/ada/src/app.py must never import requests, please always use httpx there.",
        "<Button> is wrong, from now on use the Link component.",
        "<my-card> is wrong, from now on use the Link component.",
        "/ must never be written in a name, please always use a dash there.",
    ],
)
def test_a_prompt_that_begins_with_a_path_or_a_tag_is_noted(prompt: str, tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_text(json.dumps(said(prompt)) + "\n", encoding="utf-8")
    assert [each.text for each in find_sentences(path, "", "s1")] == [prompt]
    assert read_record(path).requests == [prompt]


@pytest.mark.parametrize(
    "text",
    [
        "/compact",
        " /memory:learn always use httpx",
        "/mcp__atlas__deploy-all always",
        "/review\nPlease always use httpx.",
        "<command-message>always</command-message>",
        "<local-command-caveat>always</local-command-caveat>",
        "<bash-input>always</bash-input>",
        "<system-reminder>\nAlways lint.\n</system-reminder>",
        "<task-notification>\n<task-id>always</task-id>",
        "<user-prompt-submit-hook>always</user-prompt-submit-hook>",
        "<ide_opened_file>Always lint.</ide_opened_file>",
        '<teammate-message teammate_id="lead">Always lint.</teammate-message>',
        "[Request interrupted by user]",
        "Caveat: always",
    ],
)
def test_what_a_program_wrote_in_the_users_place_is_known_by_its_beginning(text: str) -> None:
    assert user_words(said(text)) == ""


@pytest.mark.parametrize("turn", ["auto_continuation", "host_synthetic", "peer", "scheduled", "system", "task_notification"])
def test_a_turn_that_an_app_began_holds_no_words_of_the_user(turn: str) -> None:
    person = {"origin": {"kind": "human"}}
    assert user_words(said("Please always wash the pears.", turnOrigin=turn)) == ""
    assert user_words(said("Please always wash the pears.", turnOrigin=turn, **person)) == ""
    assert user_words(said("Please always wash the pears.", textNotTyped=True, **person)) == ""


@pytest.mark.parametrize("turn", ["human", "sdk", "unknown"])
def test_a_turn_that_a_person_may_have_begun_holds_their_words(turn: str) -> None:
    assert user_words(said("Please always wash the pears.", turnOrigin=turn)) == "Please always wash the pears."


@pytest.mark.parametrize("event", ["PreCompact", "SessionEnd"])
@pytest.mark.parametrize("summary", ["on", "off"])
def test_a_session_does_not_wait_for_a_locked_folder_and_the_next_run_notes(
    transcript: Path, settings: Settings, event: str, summary: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_SESSION_SUMMARY", summary)
    monkeypatch.setattr("memory_assets.cli.session._ingest_in_background", lambda tenant: None)
    folder = settings.tenant_dir()
    with ThreadPoolExecutor(1) as pool, locked(folder):
        pool.submit(end, transcript, hook_event_name=event).result(timeout=30)
    assert not (settings.data_dir / "hooks.log").exists()
    assert not read_noted(folder)
    take_in(Tenant(settings, "main"))
    assert [each.text for each in read_noted(folder)][:1] == ["From now on, run the linter before a commit!"]
    assert not has_queued(folder)


@pytest.mark.parametrize("summary", ["on", "off"])
def test_a_sessions_end_reads_no_transcript_but_queues_it_before_its_start_is_forgotten(
    transcript: Path, settings: Settings, summary: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_SESSION_SUMMARY", summary)
    folder, queued = settings.tenant_dir(), []
    monkeypatch.setattr("memory_assets.cli.session._ingest_in_background", lambda tenant: None)
    monkeypatch.setattr("memory_assets.learn.session_queue.forget_begun", lambda *_: queued.append(has_queued(folder)))
    end(transcript, hook_event_name="SessionEnd")
    assert queued == [True]
    assert read_noted(folder) == ()
    take_in(Tenant(settings, "main"))
    assert len(read_noted(folder)) == 3


def test_a_session_without_a_summary_that_ends_while_a_run_reads_it_is_read_again(transcript: Path, settings: Settings) -> None:
    """It is queued again, and the run knows that by the time of the file."""
    ended = Ended("s1", str(transcript), "", is_summarised=False)
    queue_session(settings.tenant_dir(), ended)
    (queued,) = (settings.tenant_dir() / "ended").iterdir()
    os.utime(queued, (0, 0))
    queue_session(settings.tenant_dir(), ended)
    assert queued.stat().st_mtime > 0


def test_the_users_lasting_words_are_noted_once_and_none_with_a_secret(transcript: Path, settings: Settings) -> None:
    end(transcript, hook_event_name="PreCompact", trigger="auto")
    end(transcript, hook_event_name="SessionEnd", reason="clear")
    noted = read_noted(settings.tenant_dir())
    assert [each.text for each in noted] == [
        "From now on, run the linter before a commit!",
        "We decided to keep DuckDB.",
        "We agreed to deploy on Mondays.",
    ]
    assert {(each.project, each.session) for each in noted} == {("/srv/atlas", "s1")}
    assert (settings.tenant_dir() / "noted.json").stat().st_mode & 0o077 == 0


def test_a_note_goes_once_a_later_prompt_shows_that_it_holds_a_secret(tmp_path: Path, settings: Settings) -> None:
    path, password = tmp_path / "session.jsonl", "hunter2" + "Zebra99x"
    settings.tenant_dir().mkdir(parents=True)
    path.write_text(json.dumps(said(f"From now on always type {password} into the panel.\nAlways lint.")) + "\n")
    end(path, hook_event_name="PreCompact")
    assert len(read_noted(settings.tenant_dir())) == 2
    with path.open("a") as file:
        file.write(json.dumps(said(f"The panel password is {password}.")) + "\n")
    end(path, hook_event_name="PreCompact")
    assert [each.text for each in read_noted(settings.tenant_dir())] == ["Always lint."]


def test_a_session_without_a_brief_is_still_noted(transcript: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_SESSION_START", "off")
    end(transcript, hook_event_name="SessionEnd")
    assert len(read_noted(settings.tenant_dir())) == 3


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("My name is Mira and I work in Hamburg.", "user"),
        ("Ab jetzt bitte immer auf Deutsch antworten.", "feedback"),
        ("please don't use emojis in commit messages", "feedback"),
        ("We decided to keep DuckDB.", "project"),
        ("The release is on the 14th of March.", "project"),
        ("Fix the failing test please.", "none"),
        ("Looks good, commit it.", "none"),
        ("kannst du das nochmal laufen lassen", "none"),
    ],
)
def test_what_lasts_is_known_without_magic_words(text: str, kind: str) -> None:
    assert classify(text) == kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Ab jetzt immer deutsch antworten.", "feedback"),
        ("Frau Jansen ist jetzt für die Abrechnung zuständig.", "project"),
        ("Frau Jansen ist jetzt für den Export zuständig, nicht mehr Herr Olk.", "project"),
        ("Petra hat die Buchhaltung von Olaf übernommen.", "project"),
        ("Ab sofort ist Milan für das Deployment verantwortlich.", "project"),
        ("Priya is now in charge of billing.", "project"),
        ("Tomasz is responsible for the export job.", "project"),
        ("Marta runs the data team now.", "project"),
        ("which module is responsible for retries", "none"),
        ("the cache is responsible for the slowdown here", "none"),
        ("die Funktion ist für das Parsen zuständig", "none"),
        ("Von nun an bitte kurze Antworten.", "feedback"),
        ("Bitte nie ungefragt neue Dienste anlegen.", "feedback"),
        ("Don't use pandas here, it is too slow.", "feedback"),
        ("Don't use pandas for this one run.", "none"),
        ("Don't use it here.", "none"),
        ("Ab jetzt läuft der Build wieder.", "none"),
        ("Such bitte alle Stellen mit ab jetzt immer raus.", "none"),
    ],
)
def test_wordings_of_a_wish_that_the_classifier_does_not_know(text: str, kind: str) -> None:
    assert kind_of(text) == kind


def test_a_noted_sentence_becomes_a_memory_of_its_kind(settings: Settings, tenant: Tenant, tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_text(json.dumps(said("Run it again. My name is Mira and I work in Hamburg.")) + "\n", encoding="utf-8")
    settings.tenant_dir().mkdir(parents=True)
    end(path, hook_event_name="SessionEnd")
    (stored,) = store_noted(tenant, []).noted
    assert stored.stored
    (memory,) = tenant.memories.get([stored.stored])
    assert (memory.kind, memory.content) == (Kind.USER, "My name is Mira and I work in Hamburg.")
    assert memory.created_at == datetime(2026, 5, 1, 10, tzinfo=UTC)


def test_the_list_says_on_which_day_a_sentence_was_said(settings: Settings, tenant: Tenant) -> None:
    said_late = Noted("Since Monday the build runs on Jenkins.", "/srv/atlas", "2026-05-04T23:30:00Z", "s1", "project")
    undated = Noted("Always lint.", "", "", "s1")
    note(settings.tenant_dir(), [said_late, undated])
    assert noted(tenant).text(LocalTime(ZoneInfo("Europe/Berlin"))).splitlines() == [
        f"{said_late.id}  Since Monday the build runs on Jenkins. · 2026-05-05 · /srv/atlas",
        f"{undated.id}  Always lint.",
    ]


def test_a_failing_end_is_silent_and_writes_nothing(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    end(tmp_path / "none.jsonl")
    assert not settings.data_dir.exists()
    settings.data_dir.mkdir()
    end(tmp_path / "none.jsonl", hook_event_name="SessionEnd")  # of a session without a prompt
    assert not (settings.data_dir / "hooks.log").exists()
    end(tmp_path)
    assert "session.jsonl" not in (settings.data_dir / "hooks.log").read_text()
    assert CliRunner().invoke(cli, ["session-end"], input="{").exit_code == 0
    assert read_noted(settings.tenant_dir()) == ()


def test_what_was_noted_is_stored_or_dropped_and_a_session_is_reminded(transcript: Path, tenant: Tenant) -> None:
    end(transcript)
    assert "3 sentences of earlier sessions" in CliRunner().invoke(cli, ["session-start"], input="{}").output
    listed = CliRunner().invoke(cli, ["noted"]).output.splitlines()
    first, second, third = (each.split()[0] for each in listed)
    assert listed[1] == f"{second}  We decided to keep DuckDB. · 2026-05-01 · /srv/atlas"
    stored = json.loads(CliRunner().invoke(cli, ["noted", "--store", second, "--json"]).output)
    (memory,) = tenant.memories.get([stored["noted"][0]["stored"]])
    assert (memory.content, memory.kind, memory.project, memory.session) == (
        "We decided to keep DuckDB.",
        "project",
        "/srv/atlas",
        "s1",
    )
    assert CliRunner().invoke(cli, ["noted", "--drop", "0a0b0c0d"]).exit_code == 1
    assert CliRunner().invoke(cli, ["noted", first]).exit_code == 2
    assert CliRunner().invoke(cli, ["noted", "--drop", first, third]).output.startswith(f"Dropped:\n{first}  From now on")
    assert CliRunner().invoke(cli, ["noted"]).output == "Nothing is noted.\n"


def test_only_named_notes_are_dropped_and_none_is_stored_and_dropped_at_once(transcript: Path, tenant: Tenant) -> None:
    end(transcript)
    before = read_noted(tenant.folder)
    assert isinstance(CliRunner().invoke(cli, ["noted", "--drop"]).exception, InvalidInputError)
    for arguments in (["--store", before[0].id, "--drop", before[1].id], ["--told", "--drop"], ["--told", "--store"]):
        assert CliRunner().invoke(cli, ["noted", *arguments]).exit_code == 2
    assert read_noted(tenant.folder) == before
    assert len(tenant.memories) == 0


def test_what_was_dropped_or_stored_is_not_noted_again_when_its_session_ends(transcript: Path, settings: Settings) -> None:
    end(transcript, hook_event_name="PreCompact", trigger="auto")
    first, second, _third = (each.id for each in read_noted(settings.tenant_dir()))
    CliRunner().invoke(cli, ["noted", "--drop", first])
    CliRunner().invoke(cli, ["noted", "--store", second])
    end(transcript, hook_event_name="SessionEnd", reason="clear")
    assert len(read_noted(settings.tenant_dir())) == 1
    assert "DuckDB" not in (settings.tenant_dir() / "noted.json").read_text()


def test_a_wish_is_noted_once_in_each_project_and_holds_everywhere_without_one(tenant: Tenant) -> None:
    wish = "From now on always run the linter before a commit."
    in_alpha, in_beta, anywhere, earlier = (Noted(wish, project, "", "s1") for project in ("/alpha", "/beta", "", "/gamma"))
    note(tenant.folder, [in_alpha])
    (stored,) = store_noted(tenant, [in_alpha.id]).noted
    note(tenant.folder, [in_alpha, in_beta])
    note(tenant.folder, [in_beta])
    (listed,) = noted(tenant).noted
    assert (listed.project, listed.id) == ("/beta", in_beta.id)
    assert listed.id != in_alpha.id
    (also_stored,) = store_noted(tenant, [listed.id]).noted
    assert also_stored.stored != stored.stored
    note(tenant.folder, [anywhere])
    drop_noted(tenant, [anywhere.id])
    note(tenant.folder, [earlier])
    assert noted(tenant).count == 0
    note(tenant.folder, [Noted("I am colour blind.", project, "", "s1", "user") for project in ("/alpha", "/beta")][:1])
    note(tenant.folder, [Noted("I am colour blind.", "/beta", "", "s2", "user")])
    assert noted(tenant).count == 1, "what holds in every project is noted once"


def test_a_sentence_that_a_fork_copied_to_another_project_is_noted_once(tenant: Tenant) -> None:
    said_at = "2026-05-01T10:00:00Z"
    origin, fork = Noted("We keep DuckDB.", "/alpha", said_at, "s1"), Noted("We keep DuckDB.", "/beta", said_at, "s2")
    note(tenant.folder, [origin])
    note(tenant.folder, [fork, replace(fork, said_at="2026-05-02T10:00:00Z")])
    assert [(each.project, each.said_at[:10]) for each in read_noted(tenant.folder)] == [
        ("/alpha", "2026-05-01"),
        ("/beta", "2026-05-02"),
    ]


def test_a_sentence_that_was_settled_is_not_noted_again_where_a_fork_copied_it(tenant: Tenant) -> None:
    origin = Noted("We keep DuckDB.", "/alpha", "2026-05-01T10:00:00Z", "s1")
    note(tenant.folder, [origin])
    settle(tenant.folder, [origin])
    note(tenant.folder, [replace(origin, project="/beta", session="s2")])
    assert not read_noted(tenant.folder)
    assert settled_ids(tenant.folder) == {origin.id}


def test_what_an_earlier_release_settled_by_its_text_alone_is_not_noted_again(tenant: Tenant) -> None:
    wish = Noted("Always lint.", "/alpha", "", "s1")
    tenant.folder.mkdir(parents=True, exist_ok=True)
    (tenant.folder / "noted.json").write_text('{"noted": [], "settled": ["851bcb72e92f23d0"]}')
    note(tenant.folder, [wish])
    assert read_noted(tenant.folder) == ()


def test_a_repeated_call_stores_and_drops_the_same_sentences_and_no_others(transcript: Path, tenant: Tenant) -> None:
    end(transcript)
    first, second, third = (each.id for each in read_noted(tenant.folder))

    def store_and_drop() -> Result:
        stored = CliRunner().invoke(cli, ["noted", "--store", first])
        dropped = CliRunner().invoke(cli, ["noted", "--drop", second.upper()])
        assert (stored.exit_code, dropped.exit_code) == (0, 0)
        return stored

    store_and_drop()
    assert store_and_drop().output == f"{first} was stored or dropped before.\n"
    assert [each.id for each in read_noted(tenant.folder)] == [third]
    assert len(tenant.memories) == 1


def test_the_first_digits_of_one_id_are_enough(tenant: Tenant) -> None:
    note(tenant.folder, [Noted(f"From now on we deploy on day {day}.", "", "", "s1") for day in range(17)])
    ids = sorted(each.id for each in read_noted(tenant.folder))
    one, other = next((one, other) for one, other in pairwise(ids) if one[0] == other[0])
    for reference in (one[0], ""):
        assert CliRunner().invoke(cli, ["noted", "--drop", reference]).exit_code
    with pytest.raises(InvalidInputError, match=f"^{one[0]} is the beginning of several notes' ids; give more digits"):
        drop_noted(tenant, [one[0]])
    digits = next(one[:length] for length in range(1, 9) if sum(each.startswith(one[:length]) for each in ids) == 1)
    assert [each.id for each in store_noted(tenant, [digits]).noted] == [one]
    drop_noted(tenant, [other])
    with pytest.raises(InvalidInputError):
        store_noted(tenant, [one[0]])
    assert store_noted(tenant, [digits.upper()]).settled == (one,)
    assert len(read_noted(tenant.folder)) == 15


def test_sessions_that_end_at_once_all_are_noted(settings: Settings) -> None:
    found = [[Noted(f"Always mind rule {number}.", "", "", f"s{number}")] for number in range(40)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda each: note(settings.tenant_dir(), each), found))
    assert len(read_noted(settings.tenant_dir())) == 40


def test_a_kill_between_storing_and_settling_stores_nothing_twice(
    transcript: Path, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    end(transcript)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("memory_assets.operations.noted.settle", killed)
        CliRunner().invoke(cli, ["noted", "--store", read_noted(tenant.folder)[1].id])
    assert len(tenant.memories) == 1
    assert CliRunner().invoke(cli, ["noted", "--store"]).exit_code == 0
    assert len(Tenant(tenant.settings).memories) == 3


@pytest.mark.parametrize("damage", ['{"noted": [', "[" * 100_000, '{"noted": [{"text": 1, "other": 2}], "settled": []}'])
def test_a_damaged_file_is_named_and_not_replaced_and_the_session_waits(
    transcript: Path, tenant: Tenant, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    monkeypatch.setattr("memory_assets.cli.session._ingest_in_background", lambda tenant: None)
    path = tenant.folder / "noted.json"
    path.write_text(damage)
    end(transcript, hook_event_name="SessionEnd")
    take_in(tenant)
    for given in ("{}", '{"source": "compact", "session_id": "s1"}'):
        begun = CliRunner().invoke(cli, ["session-start"], input=given)
        assert (begun.exit_code, begun.output) == (0, "")
    for command in (["noted"], ["noted", "--drop", "3f"], ["doctor"]):
        asked = CliRunner().invoke(cli, command)
        assert asked.exit_code == 1
        assert f"{path} cannot be read" in asked.output + str(asked.exception)
    assert path.read_text() == damage
    path.unlink()
    take_in(tenant)
    assert len(read_noted(tenant.folder)) == 3


def test_a_secret_without_a_note_makes_no_folder(tmp_path: Path) -> None:
    note(tmp_path / "data", [], known={"Krabbe19xyz": "password"})
    assert not (tmp_path / "data").exists()


def test_a_quotation_of_several_lines_is_noted_on_one_line_without_the_marks_in_it(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    quoted = "> From now on always write the reports on the harbour in the passive\n> voice, and never use a picture."
    path.write_text(json.dumps(said(quoted)) + "\n", encoding="utf-8")
    assert [each.text for each in find_sentences(path, "", "s1")] == [quoted.replace("\n> ", " ")]
