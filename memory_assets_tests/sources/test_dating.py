"""The date of a copied file comes from its name, from git or from its session, not from the copy."""

import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memory_assets.models import SourceItem
from memory_assets.sources import claude_silos, pai_learning
from memory_assets_tests.sources.conftest import Write, items_of

MARCH = datetime(2026, 3, 17, tzinfo=UTC)
COMMITTED = "2026-02-03T04:05:06+00:00"


def git(folder: Path, *arguments: str, at: str = COMMITTED, given: str = "") -> str:
    author = {
        f"GIT_{role}_{name}": value for role in ("AUTHOR", "COMMITTER") for name, value in (("NAME", "a"), ("EMAIL", "a@b"))
    }
    environment = os.environ | author | {"GIT_AUTHOR_DATE": at, "GIT_COMMITTER_DATE": COMMITTED}
    command = ["git", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True, input=given).stdout


def committed(folder: Path) -> None:
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "memories")


def scanned(tmp_path: Path) -> dict[str, SourceItem]:
    return {item.title: item for item in items_of(claude_silos.scan(tmp_path / "root", {})).values()}


@pytest.mark.parametrize(
    ("name", "body", "moment"),
    [
        ("incident_2026_03_17.md", "x", MARCH),
        ("20260317-incident.md", "x", MARCH),
        ("notes.md", "# Standup 2026-03-17\n2026-04-01 is late", MARCH),
        ("notes.md", "---\nname: standup\n---\n\n## Standup (2026-03-17)\nx", MARCH),
        ("due-2999-01-01.md", "x", None),
        ("notes.md", "x on 2026-03-17", None),
        ("1220260317.md", "x", None),
        ("2026-03_17.md", "x", None),
        ("2026-02-30.md", "# 2026-02-31", None),
    ],
)
def test_a_date_in_a_name_or_heading_is_the_time(
    write: Write, tmp_path: Path, name: str, body: str, moment: datetime | None
) -> None:
    write(f"-a/memory/{name}", body)
    (item,) = scanned(tmp_path).values()
    assert (item.created_at, item.metadata.get("dated_by")) == (moment, "name" if moment else None)


def test_what_the_owner_states_goes_before_all(write: Write, tmp_path: Path) -> None:
    write("-a/memory/2026-03-17.md", "---\nmodified: 2026-01-01\n---\nx")
    (item,) = scanned(tmp_path).values()
    assert (item.created_at, "dated_by" in item.metadata) == (datetime(2026, 1, 1, tzinfo=UTC), False)


def test_sections_of_the_index_are_dated_by_their_headings(write: Write, tmp_path: Path) -> None:
    write("-a/memory/MEMORY.md", "## Standup 2026-03-17\nlate\n## Other\nlater\n")
    assert [item.created_at for item in scanned(tmp_path).values()] == [MARCH, None]


@pytest.mark.parametrize("top", ["root", "root/-a", "."])
def test_a_file_as_it_was_committed_is_of_its_commit_and_an_edited_one_is_not(write: Write, tmp_path: Path, top: str) -> None:
    write("-a/memory/größe.md", "as committed")
    edited = write("-a/memory/edited.md", "as committed too")
    committed(tmp_path / top)
    edited.write_text("edited since")
    write("-a/memory/new.md", "never committed")
    items = scanned(tmp_path)
    assert (items["größe"].created_at, items["größe"].metadata["dated_by"]) == (datetime.fromisoformat(COMMITTED), "git")
    assert items["edited"].created_at is None
    assert items["new"].created_at is None


def test_a_commit_that_brought_a_folder_dates_none_of_its_files(write: Write, tmp_path: Path) -> None:
    for number in range(12):
        write(f"-a/memory/note{number}.md", f"note {number}")
    committed(tmp_path / "root")
    assert {item.created_at for item in scanned(tmp_path).values()} == {None}


def test_a_commit_of_the_future_dates_nothing(write: Write, tmp_path: Path) -> None:
    write("-a/memory/ahead.md", "as committed")
    git(tmp_path / "root", "init", "-q")
    git(tmp_path / "root", "add", "-A")
    git(tmp_path / "root", "commit", "-qm", "memories", at="2099-01-01T00:00:00+00:00")
    assert scanned(tmp_path)["ahead"].created_at is None


def test_a_commit_whose_date_is_in_milliseconds_dates_nothing_and_stops_nothing(write: Write, tmp_path: Path) -> None:
    write("-a/memory/early.md", "as committed")
    committed(tmp_path / "root")
    write("-a/memory/late.md", "as committed later")
    git(tmp_path / "root", "add", "-A")
    git(tmp_path / "root", "commit", "-qm", "more", at="@1767225600000 +0000")
    items = scanned(tmp_path)
    assert items["early"].created_at == datetime.fromisoformat(COMMITTED)
    assert items["late"].created_at is None


def test_the_homes_of_learnings_are_dated_by_git_too(write: Write, tmp_path: Path) -> None:
    write("USER/a.md", "---\nname: a\n---\nbody")
    committed(tmp_path / "root")
    (item,) = items_of(pai_learning.scan(tmp_path / "root", {})).values()
    assert item.created_at == datetime.fromisoformat(COMMITTED)


def test_git_is_asked_once_a_repository_and_only_for_files_that_need_it(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[list[str]] = []
    real = subprocess.run
    for number in range(5):
        write(f"-a/memory/2026-01-0{number + 1}.md", "dated")
    committed(tmp_path / "root")
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: (calls.append(a[0]), real(*a, **k))[1])
    scanned(tmp_path)
    assert calls == []
    for number in range(5):
        write(f"-b/memory/{number}.md", "undated")
    scanned(tmp_path)
    assert len(calls) == 1


def _sign_head(folder: Path) -> None:
    """Give the newest commit a signature, which Git shows with a program that the repository names."""
    headers, _, message = git(folder, "cat-file", "commit", "HEAD").partition("\n\n")
    signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n iQ\n -----END PGP SIGNATURE-----"
    signed = git(folder, "hash-object", "-t", "commit", "-w", "--stdin", given=f"{headers}\n{signature}\n\n{message}")
    git(folder, "update-ref", "HEAD", signed.strip())


def test_a_hostile_repository_runs_nothing(write: Write, tmp_path: Path) -> None:
    write("-a/memory/a.md", "x")
    committed(tmp_path / "root")
    ran = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {ran}\n")
    program.chmod(0o755)
    for name in ("core.fsmonitor", "gpg.program", "core.pager", "diff.external", "core.sshCommand", "diff.x.textconv"):
        git(tmp_path / "root", "config", name, str(program))
    git(tmp_path / "root", "config", "log.showSignature", "true")
    (tmp_path / "root" / ".gitattributes").write_text("*.md diff=x\n")
    _sign_head(tmp_path / "root")
    for hook in ("post-checkout", "post-index-change", "reference-transaction"):
        (tmp_path / "root" / ".git" / "hooks" / hook).symlink_to(program)
    assert scanned(tmp_path)["a"].created_at == datetime.fromisoformat(COMMITTED)
    assert not ran.exists()


def test_a_repository_that_git_cannot_read_dates_nothing(write: Write, tmp_path: Path) -> None:
    write("-a/memory/a.md", "x")
    write("-a/.git", "gitdir: /nowhere")
    assert scanned(tmp_path)["a"].created_at is None


def test_a_session_that_is_named_dates_by_its_transcript(write: Write, tmp_path: Path) -> None:
    write("-a/memory/a.md", "---\ntype: user\noriginSessionId: 7f-1\n---\nx")
    write("-a/memory/b.md", "---\ntype: user\noriginSessionId: ../7f-1\n---\nx")
    write(
        "-a/7f-1.jsonl", '{"type":"summary"}\nbroken\n{"timestamp":"2026-03-17T00:00:00Z"}\n{"timestamp":"2026-03-18T00:00:00Z"}'
    )
    items = scanned(tmp_path)
    assert (items["a"].created_at, items["a"].metadata["dated_by"]) == (MARCH, "transcript")
    assert items["b"].created_at is None
