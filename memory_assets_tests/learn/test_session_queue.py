"""A session whose end was not reported is remembered once it is silent."""

import json
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from memory_assets.cli.main import cli
from memory_assets.hook_settings import read_hook_settings
from memory_assets.learn.noted import read_noted
from memory_assets.learn.session_queue import QUEUE, Ended, has_queued, queue_session, queue_silent, record_begun
from memory_assets.learn.session_start import Hook, session_start
from memory_assets.learn.sessions import remember_sessions
from memory_assets.mcp.tools import Session
from memory_assets.operations.take_in import take_in
from memory_assets.settings import load_settings
from memory_assets.sources.projects import slug_of
from memory_assets.stores.locks import locked
from memory_assets.tenants import Tenant
from memory_assets_tests.learn.test_sessions import answered, asked, ran, told_of, words, work


def make_old(path: Path, hours: float) -> None:
    moment = time.time() - hours * 3_600
    os.utime(path, (moment, moment))


def age_records(tenant: Tenant, hours: float) -> None:
    for record in (tenant.folder / "begun").glob("*"):
        make_old(record, hours)


def test_sessions_are_remembered_though_two_hundred_records_are_dated_ahead(tmp_path: Path) -> None:
    (tmp_path / "begun").mkdir()
    for number in range(200):
        path = tmp_path / "begun" / str(number)
        path.touch()
        make_old(path, -1)
    for session in ("s1", "s2"):
        record_begun(tmp_path, Ended(session, "", ""))
    assert len(list((tmp_path / "begun").glob("*.json"))) == 2


def test_a_session_that_is_queued_again_is_read_where_it_lies_now_and_still_summarised(tmp_path: Path) -> None:
    for transcript, is_summarised in (("/old/s1.jsonl", True), ("/new/s1.jsonl", False)):
        queue_session(tmp_path, Ended("s1", transcript, "", is_summarised=is_summarised))
    (queued,) = (tmp_path / QUEUE).iterdir()
    assert Ended(**json.loads(queued.read_bytes())) == Ended("s1", "/new/s1.jsonl", "")


def test_a_hook_of_a_deleted_tenant_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory_assets.cli.session._ingest_in_background", lambda tenant: pytest.fail("a run was started"))
    transcript = tmp_path / "s1.jsonl"
    transcript.write_text(json.dumps(asked("Remember that Mira owns the export.")))
    for event in ("PreCompact", "SessionEnd"):
        given = {"session_id": "s1", "hook_event_name": event, "transcript_path": str(transcript)}
        ended = CliRunner().invoke(cli, ["session-end", "--tenant", "gone"], input=json.dumps(given))
        assert (ended.exit_code, ended.output) == (0, "")
    assert not read_hook_settings("gone").folder.exists()


def test_a_session_that_ends_while_the_embedder_is_away_is_noted_at_once_and_summarised_later(
    atlas: Path, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_SESSION_SUMMARY", "on")
    transcript = atlas.parent / "s1.jsonl"
    said = asked("Remember that Mira owns the export.")
    transcript.write_text("\n".join(map(json.dumps, [said, *work(atlas)])))
    queue_session(tenant.folder, Ended("s1", str(transcript), str(atlas)))
    monkeypatch.setenv("MEMORY_EMBEDDER", "ollama:small")
    monkeypatch.setenv("OLLAMA_URL", "http://127.0.0.1:9")
    assert remember_sessions(Tenant(load_settings(), tenant.name)) == 0
    assert [each.text for each in read_noted(tenant.folder)] == ["Remember that Mira owns the export."]
    monkeypatch.delenv("MEMORY_EMBEDDER")
    assert remember_sessions(Tenant(load_settings(), tenant.name)) == 1


def report_end(transcript: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the hook at a session's end, without its run in the background."""
    monkeypatch.setattr("memory_assets.cli.session._ingest_in_background", lambda tenant: None)
    given = {"session_id": transcript.stem, "hook_event_name": "SessionEnd", "transcript_path": str(transcript)}
    ended = CliRunner().invoke(cli, ["session-end"], input=json.dumps(given))
    assert (ended.exit_code, ended.output) == (0, "")


def begin(tenant: Tenant, atlas: Path, entries: Sequence[dict[str, Any]], hours: float, session: str = "s1") -> Path:
    """Begin a session three hours ago that wrote its transcript some hours ago and had no end; return the transcript."""
    transcript = atlas.parent / f"{session}.jsonl"
    tenant.folder.mkdir(parents=True, exist_ok=True)
    session_start(read_hook_settings(), Hook(session=session, directory=str(atlas), transcript=str(transcript)))
    age_records(tenant, 3)
    transcript.write_text("\n".join(map(json.dumps, entries)))
    make_old(transcript, hours)
    return transcript


def test_a_session_whose_end_was_not_noticed_is_remembered_once_it_is_silent_and_again_if_it_went_on(
    atlas: Path, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_SESSION_SUMMARY", "on")
    tenant = Tenant(load_settings(), tenant.name)
    transcript = begin(tenant, atlas, work(atlas), hours=0.5)
    take_in(tenant)
    assert len(tenant.memories) == 0
    make_old(transcript, 2)
    age_records(tenant, -24)  # the clock was set back after the session began
    take_in(tenant)
    assert "Done: The export writes Parquet now; the tests pass." in told_of(tenant)
    assert not has_queued(tenant.folder)
    later = [asked("Now CSV again.", hour=11), *ran("Edit", file_path="export.py"), answered(words("CSV is back."))]
    age_records(tenant, 2)
    with transcript.open("a") as file:
        file.write("\n" + "\n".join(map(json.dumps, later)))
    make_old(transcript, 1.5)
    take_in(tenant)
    assert "CSV is back." in "\n".join(told_of(tenant))
    assert not has_queued(tenant.folder)


def test_a_session_that_moved_to_another_project_and_went_silent_is_remembered_there(
    atlas: Path, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_SESSION_SUMMARY", "on")
    tenant = Tenant(load_settings(), tenant.name)
    transcript = begin(tenant, atlas, work(atlas), hours=2)
    beta = atlas.parent / "beta"
    moved = atlas.parent / slug_of(str(beta)) / transcript.name
    beta.mkdir()
    moved.parent.mkdir()
    transcript.rename(moved)
    Session(tenant, None).follow("s1", str(moved), str(beta))
    age_records(tenant, 3)
    take_in(tenant)
    assert tenant.memories.scan(("project",))["project"].to_pylist() == [str(beta)]


@pytest.mark.parametrize("at_end", ["on", "off"])
def test_a_session_that_ended_or_began_without_summaries_is_not_taken_for_a_silent_one(
    tenant: Tenant, atlas: Path, monkeypatch: pytest.MonkeyPatch, at_end: str
) -> None:
    monkeypatch.setenv("MEMORY_SESSION_SUMMARY", "on")
    question = [asked("What time is it?"), answered(words("Nine."))]
    transcript = begin(tenant, atlas, question if at_end == "on" else work(atlas), hours=2)
    without_prompt = begin(tenant, atlas, [], hours=2, session="s3")
    without_prompt.unlink()
    monkeypatch.setenv("MEMORY_SESSION_SUMMARY", at_end)
    report_end(transcript, monkeypatch)
    report_end(without_prompt, monkeypatch)
    monkeypatch.setenv("MEMORY_SESSION_SUMMARY", "off")
    begin(tenant, atlas, work(atlas), hours=2, session="s2")
    monkeypatch.setenv("MEMORY_SESSION_SUMMARY", "on")
    take_in(Tenant(load_settings(), tenant.name))
    assert len(tenant.memories) == 0
    assert list((tenant.folder / "begun").iterdir()) == []


def test_a_run_queues_silent_sessions_only_after_the_run_before_it(
    tenant: Tenant, atlas: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_SESSION_SUMMARY", "on")
    tenant = Tenant(load_settings(), tenant.name)
    begin(tenant, atlas, work(atlas), hours=2)
    queue = tenant.folder / "ended"
    queue.mkdir()
    with ThreadPoolExecutor(2) as runs:
        with locked(queue):
            at_once = [runs.submit(remember_sessions, tenant) for _ in range(2)]
            time.sleep(0.5)
            assert list(queue.iterdir()) == []
        assert sorted(each.result(timeout=60) for each in at_once) == [0, 1]


def test_a_kill_after_queueing_a_silent_session_leaves_it_known(
    tenant: Tenant, atlas: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_SESSION_SUMMARY", "on")
    transcript = begin(tenant, atlas, work(atlas), hours=2)
    monkeypatch.setattr("os.utime", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        queue_silent(tenant.folder)
    monkeypatch.undo()
    for queued in (tenant.folder / "ended").iterdir():
        queued.unlink()
    make_old(transcript, 1.5)
    assert has_queued(tenant.folder)
