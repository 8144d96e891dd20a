"""The project of a silo, from its slug and its transcripts."""

import os
import subprocess
from pathlib import Path

import pytest

from memory_assets.sources.claude_silos import scan
from memory_assets.sources.projects import project_of, session_directory, slug_of
from memory_assets_tests.sources.conftest import CWD, PLAIN, SLUG, Write, items_of, line, one, stamps_of


@pytest.mark.parametrize(
    ("directory", "slug"),
    [
        ("/home/mira/.x", "-home-mira--x"),
        ("C:\\Users\\Mira", "C--Users-Mira"),
        ("/a/v2_rs.Größe", "-a-v2-rs-Gr--e"),
        ("/a/\U0001f600", "-a---"),
    ],
)
def test_a_directory_has_the_slug_that_claude_code_gives_it(directory: str, slug: str) -> None:
    assert slug_of(directory) == slug


def test_a_session_stays_in_its_directory_though_the_assistant_works_in_another_folder(tmp_path: Path) -> None:
    (tmp_path / "at.las" / "docs").mkdir(parents=True)
    own, gone = tmp_path / "at.las", tmp_path / "gone"
    transcript = tmp_path / slug_of(str(own)) / "s1.jsonl"
    assert session_directory(transcript, own) == own
    assert session_directory(transcript, own / "docs") == own
    assert session_directory(transcript, tmp_path) is None
    deep = tmp_path.joinpath(*["x" * 90] * 3)
    deep.mkdir(parents=True)
    assert session_directory(tmp_path / f"{slug_of(str(deep))[:200]}-1k9z" / "s1.jsonl", deep) == deep
    assert session_directory(tmp_path / slug_of(str(gone)) / "s1.jsonl", gone) is None
    assert session_directory(Path(), Path()) is None


@pytest.mark.parametrize(
    ("transcript", "project"),
    [
        (line(CWD), CWD),
        ('{"type":"summary"}\n' + line(CWD), CWD),
        ('{"broken\n\n[1]\n' + line(7) + line("/home/mira/elsewhere") + line(CWD), CWD),
        (line("/home/mira/src.app"), "/home/mira/src.app"),
        (line("/home/mira/elsewhere"), SLUG),
        (line(CWD)[:-5], SLUG),
        ('{"cwd":' + "[" * 5000, SLUG),
        ('{"pad":"' + "x" * 70_000 + '"}\n' + line(CWD), SLUG),
        ("", SLUG),
    ],
)
def test_the_project_is_the_directory_that_transcripts_name_or_the_slug(
    write: Write, tmp_path: Path, transcript: str, project: str
) -> None:
    write(f"{SLUG}/1.jsonl", transcript)
    assert one(write, tmp_path, PLAIN.format(name="a")).project == project


def test_the_project_of_a_silo_whose_name_is_cut_is_the_whole_directory(write: Write, tmp_path: Path) -> None:
    deep = f"/srv/{'x' * 90}/{'y' * 90}/{'z' * 90}"
    silo = f"{slug_of(deep)[:200]}-1k9z"
    write(f"{silo}/1.jsonl", line(f"{deep[:-1]}/src/api") + line(f"{deep[:-1]}") + line("/srv") + line(deep))
    write(f"{silo}/memory/a.md", PLAIN.format(name="a"))
    (found,) = items_of(scan(tmp_path / "root", {})).values()
    assert found.project == deep[:-1]


def test_the_newest_transcripts_are_asked_first(write: Write, tmp_path: Path) -> None:
    for name, cwd, mtime in (("old", "/home/mira/src.app", 1), ("new", CWD, 3), ("none", "/else", 4)):
        os.utime(write(f"{SLUG}/{name}.jsonl", line(cwd)), (mtime, mtime))
    assert one(write, tmp_path, PLAIN.format(name="a")).project == CWD


@pytest.mark.timeout(10)
def test_a_transcript_that_is_no_file_does_no_harm(write: Write, tmp_path: Path) -> None:
    os.utime(write(f"{SLUG}/old.jsonl", line(CWD)), (1, 1))
    os.mkfifo(tmp_path / "root" / SLUG / "pipe.jsonl")
    (tmp_path / "root" / SLUG / "link.jsonl").symlink_to("/etc/passwd")
    (tmp_path / "root" / SLUG / "folder.jsonl").mkdir()
    assert one(write, tmp_path, PLAIN.format(name="a")).project == CWD


def test_transcripts_are_read_once_a_silo_and_only_if_something_changed(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(f"{SLUG}/1.jsonl", line(CWD))
    for name in ("a", "b", "c"):
        write(f"{SLUG}/memory/{name}.md", PLAIN.format(name=name))
    opened: list[str] = []
    real_open = os.open

    def recording_open(path: str, *rest: int) -> int:
        opened.append(Path(path).name)
        return real_open(path, *rest)

    monkeypatch.setattr(os, "open", recording_open)
    first = scan(tmp_path / "root", {})
    assert opened.count("1.jsonl") == 1
    opened.clear()
    scan(tmp_path / "root", stamps_of(first))
    assert opened == []


@pytest.mark.parametrize(
    ("url", "remote"),
    [
        ("git@github.com:acme/Atlas.git", "github.com/acme/Atlas"),
        ("https://mira:secret@GitHub.com/acme/Atlas", "github.com/acme/Atlas"),
        ("ssh://git@git.acme.example:2222/acme/Atlas.git/", "git.acme.example/acme/Atlas"),
        ("../atlas.git", ""),
        ("/srv/git/atlas.git", ""),
    ],
)
def test_a_remote_is_its_host_and_path_however_it_is_reached(tmp_path: Path, url: str, remote: str) -> None:
    config = tmp_path / "atlas" / ".git" / "config"
    config.parent.mkdir(parents=True)
    other = '[remote "fork"]\n\turl = https://github.com/mira/Atlas.git\n'
    config.write_text(f'[core]\n\tbare = false\n{other}[remote "origin"]\n\tfetch = +refs/*\n\turl = {url}\n[branch "main"]\n')
    project = project_of(tmp_path / "atlas" / "src")
    assert project and project.remote == remote
    assert {"atlas", remote} - {""} <= set(project.names)


def git(folder: Path, *arguments: str) -> None:
    author = ["-c", "user.name=Mira", "-c", "user.email=mira@acme.example"]
    subprocess.run(["git", *author, *arguments], cwd=folder, check=True, capture_output=True)


def make_repository(folder: Path) -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    git(folder, "commit", "-qm", "first", "--allow-empty")
    return folder


@pytest.mark.parametrize("is_relative", [False, True])
def test_a_worktree_belongs_to_its_repository_whatever_the_form_of_the_pointers(tmp_path: Path, is_relative: bool) -> None:
    main, tree = make_repository(tmp_path / "atlas"), tmp_path / "trees" / "fix"
    git(main, "worktree", "add", "-q", str(tree))
    if is_relative:  # as git writes them since 2.48 if worktree.useRelativePaths is set
        administration = main / ".git/worktrees/fix"
        (tree / ".git").write_text(f"gitdir: {os.path.relpath(administration, tree)}\n")
        (administration / "gitdir").write_text(f"{os.path.relpath(tree / '.git', administration)}\n")
    at_home, in_tree = project_of(main / "src"), project_of(tree)
    assert at_home and in_tree
    assert at_home.folder == in_tree.folder == str(main)
    assert {str(tree), str(main)} < set(in_tree.names) & set(at_home.names)


@pytest.mark.parametrize(
    ("bare", "folder"), [("atlas.git", "atlas.git"), ("atlas/.bare", "atlas"), ("home/.dotfiles", "home/.dotfiles")]
)
def test_the_worktrees_of_a_bare_repository_are_one_project(tmp_path: Path, bare: str, folder: str) -> None:
    git(make_repository(tmp_path / "first"), "clone", "-q", "--bare", ".", str(tmp_path / bare))
    git(tmp_path / bare, "remote", "set-url", "origin", "git@github.com:acme/atlas.git")
    trees = [tmp_path / "atlas" / name for name in ("main", "fix")]
    for tree in trees:
        git(tmp_path / bare, "worktree", "add", "-q", "-b", f"on-{tree.name}", str(tree))
    for project in map(project_of, trees):
        assert project
        assert (project.folder, project.remote) == (str(tmp_path / folder), "github.com/acme/atlas")
        assert set(map(str, trees)) < set(project.names)


@pytest.mark.parametrize("place", ["lib", "worktrees/lib"])
def test_a_submodule_is_a_project_of_its_own_with_its_remote_and_worktrees(tmp_path: Path, place: str) -> None:
    main, library, tree = make_repository(tmp_path / "atlas"), make_repository(tmp_path / "library"), tmp_path / "fix"
    git(main, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), place)
    git(main / place, "remote", "set-url", "origin", "git@github.com:acme/library.git")
    git(main / place, "worktree", "add", "-q", str(tree))
    for project in (project_of(main / place), project_of(tree)):
        assert project
        assert (project.folder, project.remote) == (str(main / place), "github.com/acme/library")
        assert str(tree) in project.names


def test_the_home_directory_and_its_parents_are_no_project() -> None:
    assert project_of(Path.home()) is None
    assert project_of(Path("/")) is None
