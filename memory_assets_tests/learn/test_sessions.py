"""What a session did becomes one memory after its end, and the next session of its project is told it."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memory_assets.learn.brief import read_brief
from memory_assets.learn.ended import Ended, has_queued, queue_session
from memory_assets.learn.noted import read_noted
from memory_assets.learn.session_start import Hook, session_start
from memory_assets.models import Kind
from memory_assets.operations.changes import forget
from memory_assets.operations.take_in import take_in
from memory_assets.places import read_places
from memory_assets.settings import load_settings
from memory_assets.tenants import Tenant
from memory_assets_tests.chat_model import StandIn

KEY = "sk-ant-api03-" + "x9Kq2mZ7vB4nW8" * 6 + "AA"


def asked(text: str, hour: int = 9) -> dict[str, Any]:
    return {"type": "user", "timestamp": f"2026-05-01T{hour:02}:00:00Z", "message": {"role": "user", "content": text}}


def answered(*blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "assistant", "message": {"role": "assistant", "content": list(blocks)}, **more}


def words(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def used(tool: str, **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "name": tool, "input": given}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "atlas"
    folder.mkdir()
    return folder


def end(tenant: Tenant, project: Path, entries: Sequence[dict[str, Any]], session: str = "s1") -> None:
    """Let a session end, and what it did be taken in."""
    transcript = project.parent / f"{session}.jsonl"
    transcript.write_text("\n".join([*map(json.dumps, entries), '{"type": "assistant", broken', ""]), encoding="utf-8")
    queue_session(tenant.folder, Ended(session, str(transcript), str(project)))
    take_in(tenant)


def work(project: Path) -> list[dict[str, Any]]:
    return [
        asked(f"Move the export to Parquet, the key is {KEY}."),
        answered(words("Let me look."), used("Edit", file_path=str(project / "src/export.py"))),
        answered(used("Write", file_path=str(project / "side.py")), isSidechain=True),
        answered(
            used(
                "TodoWrite",
                todos=[
                    {"content": "Write it", "status": "completed"},
                    {"content": "Ask Priya for the schema", "status": "pending"},
                ],
            )
        ),
        asked("And the tests?", hour=10),
        answered(words("The export writes Parquet now; the tests pass.")),
    ]


def test_a_session_becomes_a_memory_that_the_next_one_is_told(tenant: Tenant, project: Path) -> None:
    end(tenant, project, work(project))
    (memory,) = tenant.memories.get(tenant.memories.scan(("id",))["id"].to_pylist())
    assert (memory.kind, memory.project, memory.session) == (Kind.SESSION, str(project), "s1")
    assert memory.created_at == datetime(2026, 5, 1, 10, tzinfo=UTC)
    first, *rest = memory.content.splitlines()
    assert first.startswith("Session in atlas on 2026-05-01: Move the export to Parquet")
    assert rest == [
        "Asked last: And the tests?",
        "Done: The export writes Parquet now; the tests pass.",
        "Left open: Ask Priya for the schema",
        "Files: src/export.py",
    ]
    assert KEY not in memory.content
    assert not has_queued(tenant.folder)
    assert "the tests pass" in session_start(read_places(), Hook(session="s2", directory=str(project)))


def test_a_session_that_goes_on_updates_its_memory_and_each_project_is_told_its_newest(tenant: Tenant, project: Path) -> None:
    end(tenant, project, work(project))
    later = [asked("Now CSV again.", hour=11), answered(words("CSV is back."))]
    end(tenant, project, [*work(project), *later])
    (memory,) = tenant.memories.get(tenant.memories.scan(("id",))["id"].to_pylist())
    assert "CSV is back" in memory.content
    end(
        tenant, project, [asked(f"Question {number}", hour=12) for number in range(3)] + [answered(words("Three answers."))], "s3"
    )
    assert len(tenant.memories) == 2
    brief = read_brief(tenant.folder)
    assert brief
    assert [each.kind for each in brief.lines] == ["session"]
    assert "Question 0" in brief.lines[0].text


def test_a_session_without_news_or_without_a_transcript_leaves_nothing(tenant: Tenant, project: Path) -> None:
    end(tenant, project, [asked("What time is it?"), answered(words("Nine."))])
    queue_session(tenant.folder, Ended("gone", str(project / "gone.jsonl"), ""))
    (tenant.folder / "ended" / "odd.json").write_text("[]")
    take_in(tenant)
    assert len(tenant.memories) == 0
    assert not has_queued(tenant.folder)


def test_a_session_that_was_forgotten_stays_so(tenant: Tenant, project: Path) -> None:
    end(tenant, project, work(project))
    (number,) = tenant.memories.scan(("id",))["id"].to_pylist()
    forget(tenant, number)
    end(tenant, project, [*work(project), asked("Go on.", hour=11)])
    assert tenant.memories.get([number])[0].state == "forgotten"


def test_a_chat_model_words_it_and_its_notes_are_the_users_own_sentences(
    project: Path, monkeypatch: pytest.MonkeyPatch, tenant: Tenant, chat: StandIn
) -> None:
    monkeypatch.setenv("MEMORY_CHAT_MODEL", "ollama:small")
    monkeypatch.setenv("MEMORY_OLLAMA_URL", chat.url)
    said = ["Move the export to Parquet, the key is [secret: anthropic_api_key].", "Invented by the model."]
    told = {
        "done": "The export moved.",
        "decided": "Parquet, as Priya reads it.",
        "left_open": "",
        "lasting": ["And  the tests?", *said],
    }
    chat.answer = json.dumps(told)
    tenant = Tenant(load_settings())
    end(tenant, project, work(project))
    assert KEY not in json.dumps(chat.asked)
    (memory,) = tenant.memories.get(tenant.memories.scan(("id",))["id"].to_pylist())
    assert memory.content.splitlines()[1:3] == ["Done: The export moved.", "Decided: Parquet, as Priya reads it."]
    noted = {each.text for each in read_noted(tenant.folder)}
    assert "And the tests?" in noted
    assert "Invented by the model." not in noted


def test_a_chat_model_that_fails_costs_only_its_words(
    project: Path, monkeypatch: pytest.MonkeyPatch, tenant: Tenant, chat: StandIn
) -> None:
    monkeypatch.setenv("MEMORY_CHAT_MODEL", "ollama:small")
    monkeypatch.setenv("MEMORY_OLLAMA_URL", chat.url)
    chat.answer = "no JSON"
    end(Tenant(load_settings()), project, work(project))
    (memory,) = tenant.memories.get(tenant.memories.scan(("id",))["id"].to_pylist())
    assert "Done: The export writes Parquet now" in memory.content


def test_a_far_longer_session_is_told_in_a_few_lines(tenant: Tenant, project: Path) -> None:
    long = [asked("Why? " * 2_000), *(answered(used("Edit", file_path=str(project / f"{number}.py"))) for number in range(40))]
    end(tenant, project, [*long, answered(words("Because. " * 2_000))])
    (memory,) = tenant.memories.get(tenant.memories.scan(("id",))["id"].to_pylist())
    assert len(memory.content) < 1_200
    assert "and 32 more" in memory.content
    assert datetime.now(UTC) - memory.updated_at < timedelta(hours=1)
