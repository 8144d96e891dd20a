"""The brief at the start of a session, from the hook as Claude Code calls it."""

import json
import os
import subprocess
import sys
import time
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_assets.cli.main import cli
from memory_assets.language.tokens import count_tokens
from memory_assets.language.words import sentences
from memory_assets.learn import session_start as module
from memory_assets.learn.brief import (
    BULLET,
    CLOSING,
    LABEL,
    NAME,
    OPENING,
    Backlog,
    BriefLine,
    read_brief,
    render_frame,
    render_line,
)
from memory_assets.learn.briefing import renew_brief
from memory_assets.learn.journal import Status
from memory_assets.learn.noted import Noted, note
from memory_assets.learn.session_start import PROMPT, digest_sentences, read_last_told, read_told, record_told, still_told
from memory_assets.models import Kind, NewMemory, SecretPolicy, Source
from memory_assets.operations.arguments import Narrowing
from memory_assets.operations.changes import edit, forget, restore
from memory_assets.operations.search import search
from memory_assets.operations.store import store
from memory_assets.settings import Settings
from memory_assets.sources.projects import Project, project_of, slug_of
from memory_assets.tenants import Tenant
from memory_assets_tests.ingest.runs import ingest
from memory_assets_tests.learn.conftest import OpenCuration, decide
from memory_assets_tests.learn.session_hook import full_disk, hook, told, write_brief


def test_standing_facts_come_first_then_feedback_that_fits_then_the_project(settings: Settings, atlas: Path) -> None:
    write_brief(
        settings,
        told("note", "Released on Friday.", str(atlas)),
        told("feedback", "Never squash.", "/elsewhere"),
        told("feedback", "Curated elsewhere.", "/elsewhere", curated=True),
        told("feedback", "Lint before a commit.", str(atlas)),
        told("feedback", "Answer in English."),
        told("user", "Mira is a baker.", "/elsewhere"),
        told("user", "Mira reviews each plan.", str(atlas), number=2),
        told("user", "She dislikes long ones.", str(atlas), number=2),
        told("project", "Borealis moved.", "/elsewhere"),
        told("note", "The printer is broken."),
    )
    lines = hook(cwd=str(atlas)).splitlines()
    assert lines[:2] == [OPENING, LABEL]
    assert lines[2:] == [
        "About the user",
        "- Mira reviews each plan.",
        "- Mira is a baker.",
        "- She dislikes long ones.",
        "Feedback that fits here",
        "- Lint before a commit.",
        "- Answer in English.",
        "- Curated elsewhere.",
        "Known of this project",
        "- Released on Friday.",
        "Known of no one project",
        "- The printer is broken.",
        CLOSING,
    ]


def test_what_a_session_has_lost_it_is_told_again(settings: Settings, atlas: Path) -> None:
    first, second = told("user", "Mira is a baker."), told("user", "Mira sails.", number=2)
    write_brief(settings, first)
    assert first.text in hook(cwd=str(atlas))
    for source in ("resume", "fork"):
        assert hook(source, cwd=str(atlas)) == ""
    write_brief(settings, first, second)
    note(
        settings.tenant_dir(), [Noted("Always sail on Sundays.", str(atlas), "", "s1"), Noted("Never row.", str(atlas), "", "s2")]
    )
    again = hook("compact", cwd=str(atlas))
    assert all(text in again for text in (first.text, second.text, "Always sail on Sundays."))
    assert "Never row." not in again
    assert "Waiting" not in again
    cleared = hook("clear", cwd=str(atlas))
    assert first.text in cleared
    assert [(each.memory, each.reason) for each in read_told(settings.tenant_dir(), "s1")] == [
        (1, "start"),
        (1, "compact"),
        (2, "compact"),
        (1, "start"),
        (2, "start"),
    ]


def test_what_a_prompt_recalled_is_gone_after_a_compaction_though_nothing_is_told_again(
    settings: Settings, atlas: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = settings.tenant_dir()
    folder.mkdir(parents=True)
    record_told(folder, "s1", [(42, "- (id 42) Mira sails.")], PROMPT)
    monkeypatch.setenv("MEMORY_SESSION_START", "off")
    assert hook("resume", cwd=str(atlas)) == ""
    assert still_told(folder, "s1") == {42: digest_sentences("Mira sails.")}
    assert hook("compact", cwd=str(atlas)) == ""
    assert still_told(folder, "s1") == {}
    assert [each.memory for each in read_told(folder, "s1")] == [42]
    assert hook("compact", "s2", cwd=str(atlas)) == ""
    assert read_last_told(folder) == read_told(folder, "s1")


def test_the_compaction_of_a_subagent_tells_nothing_and_the_session_keeps_what_it_was_told(
    settings: Settings, atlas: Path
) -> None:
    write_brief(settings, told("user", "Mira sails."))
    assert hook(cwd=str(atlas))
    before = read_told(settings.tenant_dir(), "s1")
    assert hook("compact", cwd=str(atlas), agent_id="adfa32b3ea5f42af1", agent_type="general-purpose") == ""
    assert read_told(settings.tenant_dir(), "s1") == before


def test_a_session_in_a_folder_without_git_belongs_to_it_though_the_assistant_entered_another(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    (notes / "drafts").mkdir(parents=True)
    transcript = str(tmp_path / slug_of(str(notes)) / "s1.jsonl")
    projects = [module.Hook(directory=str(each), transcript=transcript).project for each in (notes, notes / "drafts")]
    assert [each and each.folder for each in projects] == [str(notes)] * 2


def test_a_fork_knows_what_the_session_was_told_that_it_was_copied_from(settings: Settings, atlas: Path) -> None:
    folder, copied = settings.tenant_dir(), {"type": "user", "sessionId": "s2", "forkedFrom": {"sessionId": "s1"}}
    folder.mkdir(parents=True)
    record_told(folder, "s1", [(42, "- (id 42) Mira sails.")], PROMPT)
    transcript = atlas / "s2.jsonl"
    for odd in ("", "{", '{"forkedFrom":7}\n', '{"forkedFrom":{"sessionId":["s1"]}}\n', json.dumps(copied).replace("s1", "s0")):
        transcript.write_text(odd)
        assert hook("fork", "s2", cwd=str(atlas), transcript_path=str(transcript)) == ""
        assert hook("fork", "s2", cwd=str(atlas), transcript_path=str(atlas / "none.jsonl")) == ""
        assert still_told(folder, "s2") == {}
    long = json.dumps({"type": "mode", "content": 'not "forkedFrom":{"sessionId":"s3"} ' * 3_000})
    transcript.write_text(f"{long}\n{json.dumps(copied)}\n")
    for _ in range(2):
        assert hook("fork", "s2", cwd=str(atlas), transcript_path=str(transcript)) == ""
        assert read_told(folder, "s2") == read_told(folder, "s1")
    assert still_told(folder, "s2") == {42: digest_sentences("Mira sails.")}
    assert not (settings.data_dir / "hooks.log").exists()


def test_sessions_know_what_they_were_told_though_two_hundred_records_are_dated_ahead(tmp_path: Path) -> None:
    (tmp_path / "sessions").mkdir()
    for number in range(200):
        path = tmp_path / "sessions" / str(number)
        path.touch()
        os.utime(path, (time.time() + 3_600, time.time() + 3_600))
    for session in ("s1", "s2"):
        record_told(tmp_path, session, [(42, "- (id 42) Mira sails.")], PROMPT)
    for session in ("s1", "s2"):
        assert [each.memory for each in read_told(tmp_path, session)] == [42]


def test_a_project_switches_it_off(settings: Settings, atlas: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_brief(settings, told("user", "Mira is a baker."), told("note", "Released on Friday.", str(atlas)))
    (atlas / "src").mkdir()
    monkeypatch.chdir(atlas / "src")

    def preview() -> str:
        return CliRunner().invoke(cli, ["session", "."]).output

    assert preview().splitlines() == hook(cwd=".").splitlines()[2:-1]
    assert CliRunner().invoke(cli, ["session-start", "--off"]).exit_code == 0
    assert hook(cwd=str(atlas)) == ""
    assert "baker" in hook(cwd=str(settings.data_dir))
    assert preview() == (
        f"Sessions in {atlas} are told nothing, because `memory session-start --off` says so; call `memory session-start --on` there.\n"
    )
    assert CliRunner().invoke(cli, ["session-start", "--on"]).exit_code == 0
    assert "baker" in hook(cwd=str(atlas))
    assert "baker" in preview()
    monkeypatch.setenv("MEMORY_SESSION_START", "off")
    assert hook(cwd=str(atlas)) == ""
    assert preview() == "Sessions are told nothing, because MEMORY_SESSION_START is off in the environment; set it to on.\n"


def test_nothing_to_say_is_silence_and_so_is_failure(settings: Settings, atlas: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hook(cwd=str(atlas)) == ""
    assert not settings.data_dir.exists()
    settings.tenant_dir().mkdir(parents=True)
    for broken in ("", "{", "[]", '{"format": 1}', '{"format": 3, "memories": 1, "lines": [{"kind": 3}]}', "\x00"):
        (settings.tenant_dir() / NAME).write_text(broken)
        assert hook(cwd=str(atlas)) == ""
    write_brief(settings, told("user", "Mira is a baker."))
    for text in ("", "\n", "{}", '{"session_id": null, "source": null}'):
        ended = CliRunner().invoke(cli, ["session-start"], input=text)
        assert (ended.exit_code, "baker" in ended.output) == (0, True)
    assert not (settings.data_dir / "hooks.log").exists()
    (settings.tenant_dir() / "sessions").write_text("a file where a folder belongs")
    assert hook(cwd=str(atlas)) == ""
    assert "session_start" in (settings.data_dir / "hooks.log").read_text()


@pytest.mark.parametrize("name", [NAME, "noted.json", "quiet.json", "projects.json"])
def test_a_named_pipe_in_the_data_folder_keeps_no_session_waiting(settings: Settings, atlas: Path, name: str) -> None:
    write_brief(settings, told("user", "Mira is a baker."))
    path = settings.tenant_dir() / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    given = json.dumps({"session_id": "s1", "source": "compact", "cwd": str(atlas)})
    command = [sys.executable, "-m", "memory_assets.cli", "session-start"]
    ended = subprocess.run(command, input=given, capture_output=True, text=True, timeout=60, check=True)
    assert ("baker" in ended.stdout) is (name != NAME)
    assert ended.stderr == ""


def test_projects_that_are_silenced_at_once_all_are(settings: Settings) -> None:
    projects = [Project(f"/srv/{number}", (f"/srv/{number}",)) for number in range(40)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda each: module.set_quiet(settings.tenant_dir(), each, quiet=True), projects))
    assert json.loads((settings.tenant_dir() / "quiet.json").read_text()) == sorted(each.folder for each in projects)


def test_the_nudge_counts_what_waits_in_silos(tenant: Tenant, settings: Settings, write_silo: Any, atlas: Path) -> None:
    for number in range(3):
        write_silo(f"note{number}", "A body.", slug="-home-ada-atlas")
    write_silo("other", "A body.", slug="-home-ada-borealis")
    folder = settings.claude_projects_dir / "-home-ada-atlas" / "memory"
    (folder / "MEMORY.md").write_text("- [note0](note0.md) - a hook\n")
    (folder / "theirs.md").write_text("---\ntype: report\n---\nNot ours.\n")
    (folder / "plain.md").write_text("type: user\n")
    (folder / "nested.md").write_bytes(
        b"---\r\nname: x\r\nmetadata: \r\n  node_type: memory\r\n  type: feedback\r\n---\r\nBody.\r\n"
    )
    (folder / "link.md").symlink_to(folder / "note0.md")
    ingest(tenant)
    renew_brief(tenant)
    assert "un-ingested" not in hook(cwd=str(atlas))  # without PAI there is no home to curate them into
    settings.pai_learning_dir.mkdir(parents=True)
    renew_brief(tenant)
    assert "5 un-ingested memories across 2 silos" in hook(cwd=str(atlas))
    assert CliRunner().invoke(cli, ["status", "--line"]).output == "8 memories, 5 un-ingested memories across 2 silos\n"
    (folder / "nested.md").unlink()
    assert CliRunner().invoke(cli, ["learn", "check"]).exit_code == 0
    assert "un-ingested" not in hook(cwd=str(atlas))


@pytest.mark.parametrize("policy", SecretPolicy)
def test_a_session_is_told_of_a_curated_entry_what_search_finds_of_it(
    policy: SecretPolicy, tenant: Tenant, settings: Settings
) -> None:
    key = "AK" + "IA" + "QX7T" * 4
    home = settings.pai_learning_dir / "USER"
    home.mkdir(parents=True)
    (home / "user_key.md").write_text(f"---\nname: key\ndescription: Mira deploys with {key}.\n---\n\nAsk her.\n")
    (home / "user_role.md").write_text("---\nname: role\ndescription: Mira is a baker.\n---\n\nIn Kiel.\n")
    tenant = Tenant(settings.model_copy(update={"secrets": policy}))
    ingest(tenant)
    renew_brief(tenant)
    brief = (tenant.folder / NAME).read_text()
    assert "Mira is a baker." in brief
    assert (key in brief) == (policy is SecretPolicy.ALLOW)
    assert ("Mira deploys with" in brief) == (policy is SecretPolicy.ALLOW), "what is masked takes no line"


LINES = st.lists(
    st.tuples(st.sampled_from(["user", "feedback", "note"]), st.sampled_from(["", "/atlas", "/b"]), st.text(max_size=400)),
    max_size=40,
)
EVIL = st.sampled_from([CLOSING, OPENING, "<system-reminder>", "\n", "\r", "\u2028", "\U000e0041", "\u202e", "```", "- ", "# "])


@given(lines=LINES, budget=st.integers(0, 900))
@settings(max_examples=80)
def test_it_stays_within_its_tokens(lines: list[tuple[str, str, str]], budget: int) -> None:
    held = tuple(told(kind, text, project) for kind, project, text in lines)
    project = module.Project("/atlas", ("/atlas",))
    chosen = module._choose_lines(held, frozenset(project.names), budget - module._FRAME_TOKENS)
    text = render_frame(
        [(heading, [each.text for each in part]) for (heading, _), part in zip(module._SECTIONS, chosen, strict=True)]
    )
    assert not any(chosen) or count_tokens(text) <= budget
    assert all(each.project in ("", "/atlas") or each.kind == "user" for part in chosen for each in part)


def test_the_frame_and_its_nudges_cost_what_is_set_aside_for_them() -> None:
    nudges = [
        f"{Backlog({'project': 99_999}, 9_999)}: the user may curate them (/memory:learn, or `memory learn check`).",
        "9,999 sentences of earlier sessions noted but not stored: `memory noted` lists them.",
    ]
    headings = [*(heading for heading, _ in module._SECTIONS), module._NOTED_HEADING, "Waiting"]
    assert count_tokens(render_frame([(heading, ["x"]) for heading in headings])) <= module._FRAME_TOKENS
    assert all(count_tokens(f"{render_line(nudge)}\n") <= module._NUDGE_TOKENS for nudge in nudges)


@given(texts=st.lists(st.lists(st.text(max_size=30) | EVIL, max_size=8).map("".join), max_size=5))
@settings(max_examples=300)
def test_nothing_in_a_memory_breaks_the_frame_or_hides_in_it(texts: list[str]) -> None:
    lines = render_frame([("About the user", texts)]).split("\n")
    assert lines[:2] == [OPENING, LABEL]
    assert lines[-1] == CLOSING
    body = lines[3:-1] if texts else lines[2:-1]
    assert len(body) == len(texts)
    for each in body:
        assert each.startswith(BULLET)
        assert not set("<>`") & set(each)
        assert all(unicodedata.category(letter)[0] != "C" for letter in each)
        assert len(each.splitlines()) == 1
        assert render_line(each) == each


def test_the_brief_follows_what_is_stored_edited_and_forgotten(tenant: Tenant, settings: Settings) -> None:
    def texts() -> list[str]:
        brief = read_brief(tenant.folder)
        assert brief
        return [each.text.partition(") ")[2] for each in brief.lines if not each.spare]

    baker = store(tenant, NewMemory("Mira is a baker.", Source.CLI, Kind.USER))
    store(tenant, NewMemory("Rated 3 out of 10.", Source.CLI, Kind.RATING))
    assert texts() == ["Mira is a baker."]
    sailor = edit(tenant, baker.id, "Mira is a sailor.", source=Source.CLI)
    assert texts() == ["Mira is a sailor."]
    forget(tenant, sailor.id)
    assert texts() == []
    restore(tenant, sailor.id)
    store(tenant, NewMemory("Lint always.", Source.CLI, Kind.FEEDBACK, title="Lint"))
    home = settings.pai_learning_dir / "FEEDBACK"
    home.mkdir(parents=True)
    (home / "feedback_lint.md").write_text(
        "---\nname: lint\ndescription: Lint before a commit.\ntype: feedback\nsource_cwd: /atlas\n---\n\nWhy: it saves a round.\n"
    )
    ingest(tenant)
    renew_brief(tenant)
    assert texts() == ["Lint before a commit.", "Mira is a sailor."]
    for project, text in (("/atlas", "Atlas is late."), ("/lab", "The lab is done.")):
        store(tenant, NewMemory(text, Source.CLI, Kind.PROJECT, title="status", project=project))
    curated = settings.pai_learning_dir / "PROJECT" / "project_status.md"
    curated.parent.mkdir()
    curated.write_text("---\nname: status\ndescription: about status\nsource_cwd: /atlas\n---\n\nAtlas is early.\n")
    ingest(tenant)
    renew_brief(tenant)
    told_now = " ".join(texts())
    assert "about status" in told_now and "The lab is done." in told_now and "Atlas is late." not in told_now
    lint = next(each.id for each in read_brief(tenant.folder).lines if "Lint before" in each.text)  # pyright: ignore[reportOptionalMemberAccess]
    forget(tenant, lint)
    assert "Lint before" not in " ".join(texts())
    renew_brief(tenant)
    before = (tenant.folder / NAME).stat().st_mtime_ns
    renew_brief(tenant)
    assert (tenant.folder / NAME).stat().st_mtime_ns == before
    assert (tenant.folder / NAME).stat().st_mode & 0o077 == 0


def test_a_line_begins_with_the_title_as_written_or_the_words_of_a_file_name(tenant: Tenant) -> None:
    titles = {
        "Book project: who checks Anna's maps": "Book project: who checks Anna's maps: ",
        "Harbour count (2026-03-01 to 2026-03-09)": "Harbour count (2026-03-01 to 2026-03-09): ",
        "User: tea before work": "tea before work: ",
        "user-facing signs": "user-facing signs: ",
        "feedback_memory_upkeep": "memory upkeep: ",
        "reference_buoys_2026-03-01": "buoys: ",
        "project": "",
        "What is said of gulls": "",
    }
    for title in titles:
        store(tenant, NewMemory("It said so.", Source.CLI, Kind.PROJECT, title=title, project=title))
    brief = read_brief(tenant.folder)
    assert brief
    assert {each.project: each.text.partition(") ")[2] for each in brief.lines} == {
        title: f"{label}It said so." for title, label in titles.items()
    }


def test_what_was_rejected_does_not_wait_until_it_says_something_else(
    curated_home: Path, open_curation: OpenCuration, settings: Settings
) -> None:
    open_curation().check()
    waiting = open_curation().backlog()
    decide(open_curation(), tabs=Status.REJECTED)
    assert open_curation().backlog().memories == waiting.memories - 1
    tabs = next(settings.claude_projects_dir.glob("*/memory/tabs.md"))
    tabs.write_text(tabs.read_text() + "And spaces elsewhere.\n")
    open_curation().refresh()
    assert open_curation().backlog() == waiting


def test_a_project_by_its_name_alone_is_told_there_and_found_there(tenant: Tenant, atlas: Path) -> None:
    for project in ("atlas", "borealis"):
        store(tenant, NewMemory(f"The exports of {project} run at night.", Source.CLI, project=project))
    found = search(tenant, "when do the exports run", narrowed=Narrowing(here=project_of(atlas / "src")))
    assert [hit.content for hit in found.memories] == ["The exports of atlas run at night."]
    text = hook(cwd=str(atlas / "src"))
    assert "exports of atlas" in text
    assert "exports of borealis" not in text


def test_a_text_that_was_stored_twice_is_told_once_until_both_are_forgotten(tenant: Tenant, atlas: Path) -> None:
    ids = [store(tenant, NewMemory("Staging is reset on Sunday.", Source.CLI, project=str(atlas))).id for _ in range(2)]
    assert hook(cwd=str(atlas)).count("Staging is reset") == 1
    forget(tenant, ids[1])
    assert hook(cwd=str(atlas)).count("Staging is reset") == 1
    forget(tenant, ids[0])
    assert "Staging is reset" not in hook(cwd=str(atlas))


def test_a_checkout_that_moved_keeps_its_memories_and_its_silence(
    settings: Settings, atlas: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (atlas / ".git" / "config").write_text('[remote "origin"]\n\turl = git@github.com:acme/atlas.git\n')
    write_brief(settings, told("note", "Released on Friday.", str(atlas)), told("note", "Elsewhere.", "/elsewhere"))
    hook(cwd=str(atlas))
    moved = atlas.rename(atlas.parent / "work-atlas")
    text = hook(cwd=str(moved), session="s2")
    assert "Released on Friday." in text
    assert "Elsewhere." not in text
    monkeypatch.chdir(moved)
    assert CliRunner().invoke(cli, ["session-start", "--off"]).exit_code == 0
    assert hook(cwd=str(moved.rename(atlas))) == ""
    monkeypatch.chdir(atlas)
    assert CliRunner().invoke(cli, ["session-start", "--on"]).exit_code == 0
    assert "Released on Friday." in hook(cwd=".")


def test_the_newest_of_one_name_is_told_and_feedback_of_the_home_directory_everywhere(
    tenant: Tenant, atlas: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    old, new = datetime(2026, 5, 1, tzinfo=UTC), datetime(2026, 9, 1, tzinfo=UTC)
    for text, source, kind, project, moment in (
        ("Due on 29 May.", Source.PAI_LEARNING, Kind.PROJECT, str(atlas), old),
        ("Due on 16 October.", Source.CLAUDE_SILO, Kind.PROJECT, str(atlas), new),
        ("Also, answer in one sentence.", Source.CLAUDE_SILO, Kind.FEEDBACK, str(tmp_path), new),
    ):
        title = "carrier portal deadline" if kind is Kind.PROJECT else ""
        store(tenant, NewMemory(text, source, kind, title=title, project=project, created_at=moment))
    renew_brief(tenant)
    text = hook(cwd=str(atlas))
    assert "16 October" in text
    assert "29 May" not in text
    assert " answer in one sentence." in text


def test_the_outcome_of_a_session_without_a_project_is_told_only_where_there_is_none(
    settings: Settings, atlas: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write_brief(settings, told("session", "The letter of resignation is drafted."), told("note", "The office is in Bremen."))
    in_project, at_home = hook(cwd=str(atlas)), hook(cwd=str(tmp_path), session="s2")
    assert "Bremen" in in_project
    assert "resignation" not in in_project
    assert "resignation" in at_home


def of_memory(number: int, head: str, fact: str) -> BriefLine:
    text = render_line(f"(id {number}) {head}{fact}")
    more = count_tokens(f" {fact}")
    return BriefLine("note", "/atlas", text, count_tokens(f"{text}\n"), number, begin=len(text) - len(fact), more=more)


def test_a_digest_is_of_each_sentence_and_tells_two_values_of_two_labels_apart() -> None:
    shown = module.digest_sentences("Ports: Staging: 8080; Production: 9090")
    assert not module.digest_sentences("Staging: 9090") <= shown
    assert module.digest_sentences("Production: 9090") <= shown
    assert module.digest_sentences("A sentence that is cut…")


@pytest.mark.parametrize(
    ("told", "new"),
    [
        ("The review is on 12. May with Ann. The dinner is on 14. May with Bob.", "The review is on 14. May with Ann."),
        ("Die Abnahme ist am 12. Mai. Das Essen ist am 14. Mai.", "Die Abnahme ist am 14. Mai."),
        ("The crew counts 12. The guests are 14. Both sail.", "The crew counts 14."),
        ("1. paint the hull\n2. oil the deck", "1. oil the hull"),
    ],
)
def test_a_changed_number_makes_a_sentence_new_and_all_others_stay_told(settings: Settings, told: str, new: str) -> None:
    folder = settings.tenant_dir()
    folder.mkdir(parents=True)
    record_told(folder, "s1", [(42, f"- (id 42) {' '.join(told.split())}")], PROMPT)
    known = still_told(folder, "s1")[42]
    assert all(digest_sentences(each) <= known for each in sentences(told))
    assert not digest_sentences(new) <= known


def test_facts_of_one_memory_share_a_line_and_cost_no_more_than_it_has() -> None:
    first, other = of_memory(1, "hosts: ", "Builds run on alder."), of_memory(2, "", "Tests run on oak.")
    second = of_memory(1, "hosts: ", "Backups run on maple.")
    names = frozenset({"/atlas"})
    sections = module._choose_lines((first, other, second), names, first.tokens + other.tokens + second.more)
    joined = module._join_facts(sections[2])
    assert [each.text for each in joined] == ["- (id 1) hosts: Builds run on alder. Backups run on maple.", other.text]
    assert sum(count_tokens(f"{each.text}\n") for each in joined) <= sum(each.tokens for each in joined)
    short = module._choose_lines((first, other, second), names, first.tokens + other.tokens + second.more - 1)
    assert [each.text for each in module._join_facts(short[2])] == [first.text, other.text]


def test_items_are_joined_under_their_own_lead_and_in_the_order_of_their_memory() -> None:
    def item(fact: str, lead: str, place: int) -> BriefLine:
        return replace(of_memory(1, "ports: " if not place else "", fact), lead=len(lead), place=place)

    lines = [
        item("Staging: http: 81", "Staging: ", 1),
        item("Staging: http: 80; https: 443; …", "Staging: ", 0),
        item("Note: the router is in Kiel.", "", 2),
        item("Note: the disk is full.", "", 3),
    ]
    (joined,) = module._join_facts(lines)
    assert joined.text == "- (id 1) Staging: http: 80; https: 443; http: 81; Note: the router is in Kiel. Note: the disk is full."


def test_a_memory_gives_its_room_to_others_when_its_line_is_full() -> None:
    long = [of_memory(1, "", f"Berth {number} {'is for boats that come in after dark ' * 7}") for number in range(5)]
    other = of_memory(2, "", "Tests run on oak.")
    chosen = module._choose_lines((*long, other), frozenset({"/atlas"}), 10_000)[2]
    assert [each.text for each in module._join_facts(chosen)][1:] == [other.text]
    assert chosen == [*long[:3], other]


def test_how_to_apply_a_wish_is_told_where_every_other_line_has_room() -> None:
    wish, aim = told("feedback", "Test with Postgres."), told("project", "Twelve rooms have a panel.", "/atlas", 2)
    how = replace(told("feedback", "How to apply: start it."), spare=True)
    full = wish.tokens + aim.tokens
    assert module._choose_lines((wish, how, aim), frozenset({"/atlas"}), full)[1:3] == [[wish], [aim]]
    assert module._choose_lines((wish, how, aim), frozenset({"/atlas"}), full + how.tokens)[1:3] == [[wish, how], [aim]]


def test_the_room_that_other_sections_leave_goes_to_feedback() -> None:
    lines = tuple(told("feedback", f"Wish number {number} of the user.", number=number) for number in range(1, 9))
    sections = module._choose_lines(lines, frozenset(), sum(each.tokens for each in lines))
    assert len(sections[1]) == len(lines)


def test_a_stated_date_goes_before_one_that_is_guessed_of_a_copied_file(tenant: Tenant, settings: Settings) -> None:
    folder = settings.claude_projects_dir / "-home-mira" / "memory"
    folder.mkdir(parents=True)
    stated = f"{datetime.now(UTC) - timedelta(days=50):%Y-%m-%d}"
    for name, modified, text in (
        ("a-profile", "", "Works as a backend developer."),
        ("role", f"modified: {stated}\n", "Leads Atlas."),
    ):
        (folder / f"{name}.md").write_text(
            f"---\nname: {name}\ndescription: d\ntype: user\n{modified}---\n\n{text}\n", encoding="utf-8"
        )
    ingest(tenant)
    renew_brief(tenant)
    brief = read_brief(tenant.folder)
    assert brief
    assert ["Leads Atlas" in each.text for each in brief.lines] == [True, False]


def test_a_day_is_told_in_the_zone_of_the_settings(settings: Settings) -> None:
    tenant = Tenant(settings.model_copy(update={"timezone": "Europe/Berlin"}))
    store(tenant, NewMemory("The car is in the garage.", Source.CLI, created_at=datetime(2026, 10, 31, 23, tzinfo=UTC)))
    brief = read_brief(tenant.folder)
    assert brief is not None
    assert "2026-11-01 (id" in brief.lines[0].text


@pytest.mark.parametrize("source", ["startup", "compact"])
def test_a_full_disk_keeps_no_session_from_what_is_remembered(settings: Settings, atlas: Path, source: str) -> None:
    (atlas / ".git" / "config").write_text('[remote "origin"]\n\turl = https://github.com/acme/atlas.git\n', encoding="utf-8")
    write_brief(settings, told("note", "The printer is broken."))
    hook(session="s2")
    with full_disk():
        text = hook(source, cwd=str(atlas), transcript_path=str(atlas / "s1.jsonl"))
        again = hook(source, session="s2", cwd=str(atlas))
    assert "The printer is broken." in text
    assert "The printer is broken." in again
    assert not read_told(settings.tenant_dir(), "s1")


def test_a_disk_that_fills_up_with_a_record_leaves_no_half_line_of_it(tmp_path: Path) -> None:
    record_told(tmp_path, "s1", [(41, "(id 41) Mira sails.")], "start")
    (record,) = (each for each in tmp_path.rglob("*") if each.is_file())
    with full_disk(record.stat().st_size + 2):
        record_told(tmp_path, "s1", [(42, "(id 42) Ivo rows.")], "prompt")
    record_told(tmp_path, "s1", [(43, "(id 43) Ana swims.")], "prompt")
    assert list(still_told(tmp_path, "s1")) == [41, 43]
