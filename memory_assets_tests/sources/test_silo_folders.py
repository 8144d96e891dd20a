"""Folders of silos: read, missing, linked and obstructed ones; nothing is read twice."""

import os
from pathlib import Path

import pytest

from memory_assets.ingest.scans import vanished_paths
from memory_assets.sources.claude_silos import scan
from memory_assets_tests.sources.conftest import PLAIN, SLUG, Write, items_of, refusals_of, stamps_of


def test_a_subfolder_is_refused_once(write: Write, tmp_path: Path) -> None:
    write(f"{SLUG}/memory/old/a.md", PLAIN.format(name="a"))
    write(f"{SLUG}/memory/old/deep/b.md", PLAIN.format(name="b"))
    result = scan(tmp_path / "root", {})
    (refusal,) = refusals_of(result)
    assert refusal.path == str(tmp_path / "root" / SLUG / "memory" / "old")
    assert refusal.reason.startswith("unrecognised: ")
    assert refusal.key is None
    assert items_of(result) == {}


def test_only_memory_folders_of_projects_are_read(write: Write, tmp_path: Path) -> None:
    write("stray.md", PLAIN)
    write(f"{SLUG}/note.md", PLAIN)
    write("-no-memory-here/session.jsonl", "{}")
    assert scan(tmp_path / "root", {}).changed == ()


def test_a_missing_folder_is_an_empty_source_and_one_sentence(tmp_path: Path) -> None:
    result = scan(tmp_path / "nowhere", {})
    assert result.changed == ()
    (note,) = result.notes
    assert str(tmp_path / "nowhere") in note
    assert "MEMORY_CLAUDE_PROJECTS_DIR" in note


@pytest.mark.parametrize("lost", ["", "-a"])
@pytest.mark.parametrize("unmounted", [False, True])
def test_a_folder_that_is_gone_after_it_was_there_lets_nothing_vanish(
    write: Write, tmp_path: Path, lost: str, unmounted: bool
) -> None:
    for slug in ("-a", "-b"):
        write(f"{slug}/memory/note.md", PLAIN.format(name="note"))
    known = stamps_of(scan(tmp_path / "root", {}))
    gone = tmp_path / "root" / lost
    gone.rename(tmp_path / "away")
    if unmounted and not lost:
        gone.mkdir()
    result = scan(tmp_path / "root", known)
    assert vanished_paths(result, known) == []
    (refusal,) = refusals_of(result)
    assert (refusal.path, result.notes) == (str(gone), ())
    assert f"memory run --gone {gone}" in refusal.mend
    known |= stamps_of(result)
    again = scan(tmp_path / "root", known)
    assert (again.changed, vanished_paths(again, known)) == ((), [])
    if unmounted and not lost:
        gone.rmdir()
    (tmp_path / "away").rename(gone)
    back = scan(tmp_path / "root", known)
    assert (back.changed, vanished_paths(back, known)) == ((), [str(gone)])


def test_what_is_known_from_another_folder_stays_while_the_new_one_is_absent(write: Write, tmp_path: Path) -> None:
    write("-a/memory/note.md", PLAIN.format(name="note"))
    known = stamps_of(scan(tmp_path / "root", {}))
    assert vanished_paths(scan(tmp_path / "nowhere", known), known) == []
    (tmp_path / "elsewhere").mkdir()
    assert vanished_paths(scan(tmp_path / "elsewhere", known), known) == list(known)


def test_files_deleted_one_by_one_vanish_and_a_silo_whose_link_is_broken_does_not(write: Write, tmp_path: Path) -> None:
    deleted = write("-a/memory/note.md", PLAIN.format(name="note"))
    write("-real/memory/note.md", PLAIN.format(name="note"))
    (tmp_path / "root" / "-linked").symlink_to("-real")
    known = stamps_of(scan(tmp_path / "root", {}))
    assert len(known) == 3
    deleted.unlink()
    (tmp_path / "root" / "-linked").unlink()
    (tmp_path / "root" / "-linked").symlink_to("-nowhere")
    assert vanished_paths(scan(tmp_path / "root", known), known) == [str(deleted)]


def test_one_bad_file_does_not_keep_the_others_out(write: Write, tmp_path: Path) -> None:
    for name in ("a", "c"):
        write(f"{SLUG}/memory/{name}.md", PLAIN.format(name=name))
    write(f"{SLUG}/memory/b.md", b"\x00")
    result = scan(tmp_path / "root", {})
    assert [item.title for item in items_of(result).values()] == ["a", "c"]
    assert len(refusals_of(result)) == 1


def test_a_file_with_the_known_stamp_is_not_opened(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        write(f"{SLUG}/memory/{name}.md", PLAIN.format(name=name))
    write(f"{SLUG}/memory/bad.md", "---\nnever closed")
    write(f"{SLUG}/memory/MEMORY.md", "- [a](a.md)\n- a fact\n")
    write(f"{SLUG}/memory/empty.md", "")
    write(f"{SLUG}/memory/sub/x.md", PLAIN)
    first = scan(tmp_path / "root", {})
    assert len(first.changed) == 6
    opened: list[str] = []
    real_open = os.open

    def recording_open(path: str, *rest: int) -> int:
        opened.append(path)
        return real_open(path, *rest)

    monkeypatch.setattr(os, "open", recording_open)
    second = scan(tmp_path / "root", stamps_of(first))
    assert second.changed == ()
    assert second.unchanged == tuple(file.path for file in first.changed)
    assert opened == []


def test_a_changed_file_is_read_again_and_a_removed_one_is_left_out(write: Write, tmp_path: Path) -> None:
    changed = write(f"{SLUG}/memory/a.md", PLAIN.format(name="a"))
    removed = write(f"{SLUG}/memory/b.md", PLAIN.format(name="b"))
    stamps = stamps_of(scan(tmp_path / "root", {}))
    changed.write_text(PLAIN.format(name="new"), encoding="utf-8")
    removed.unlink()
    result = scan(tmp_path / "root", stamps)
    assert [item.title for item in items_of(result).values()] == ["new"]
    assert result.unchanged == ()


def test_two_scans_of_the_same_files_are_equal(write: Write, tmp_path: Path) -> None:
    for name in ("b", "a", "Z", "ä"):
        write(f"{SLUG}/memory/{name}.md", PLAIN.format(name=name))
        write(f"-other/memory/{name}.md", PLAIN.format(name=name))
    result = scan(tmp_path / "root", {})
    assert scan(tmp_path / "root", {}) == result
    assert [file.path for file in result.changed] == sorted(file.path for file in result.changed)


def test_a_file_that_vanishes_after_it_was_listed_is_left_out(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(f"{SLUG}/memory/a.md", PLAIN.format(name="a"))
    gone = write(f"{SLUG}/memory/b.md", PLAIN.format(name="b"))
    real_open = os.open

    def open_after_removal(path: str, *rest: int) -> int:
        gone.unlink(missing_ok=True)
        return real_open(path, *rest)

    monkeypatch.setattr(os, "open", open_after_removal)
    result = scan(tmp_path / "root", {})
    assert [item.title for item in items_of(result).values()] == ["a"]
    assert refusals_of(result) == []


def test_links_are_followed_inside_the_projects_and_refused_outside(write: Write, tmp_path: Path) -> None:
    target = write("-other/memory/a.md", PLAIN.format(name="shared"))
    (tmp_path / "secret.md").write_text(PLAIN.format(name="secret"), encoding="utf-8")
    memory = write(f"{SLUG}/memory/MEMORY.md", "").parent
    (memory / "in.md").symlink_to(target)
    (memory / "out.md").symlink_to(tmp_path / "secret.md")
    (memory / "loop.md").symlink_to("loop.md")
    result = scan(tmp_path / "root", {})
    assert sorted(items_of(result)) == ["claude_silo:-home-mira-src-app/in.md", "claude_silo:-other/a.md"]
    assert {Path(r.path).name for r in refusals_of(result) if not r.passed_over} == {"out.md", "loop.md"}
    assert len(scan(tmp_path / "root", stamps_of(result)).unchanged) == 5


def test_a_silo_that_is_a_link_out_of_the_projects_or_to_itself_is_refused(write: Write, tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "memory").mkdir(parents=True)
    (tmp_path / "elsewhere" / "memory" / "a.md").write_text(PLAIN, encoding="utf-8")
    write("-real/memory/MEMORY.md", "")
    (tmp_path / "root" / "-linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "root" / "-half").mkdir()
    (tmp_path / "root" / "-half" / "memory").symlink_to(tmp_path / "elsewhere" / "memory")
    (tmp_path / "root" / "-loop").symlink_to("-loop")
    result = scan(tmp_path / "root", {})
    assert items_of(result) == {}
    assert [refusal.path for refusal in refusals_of(result) if not refusal.passed_over] == [
        str(tmp_path / "root" / "-half" / "memory"),
        str(tmp_path / "root" / "-linked"),
        str(tmp_path / "root" / "-loop"),
    ]


@pytest.mark.timeout(10)
def test_pipes_and_huge_files_are_refused_and_not_waited_for(write: Write, tmp_path: Path) -> None:
    memory = write(f"{SLUG}/memory/a.md", PLAIN.format(name="a")).parent
    os.mkfifo(memory / "pipe.md")
    with (memory / "huge.md").open("wb") as file:
        file.truncate(50 << 20)
    result = scan(tmp_path / "root", {})
    assert [item.title for item in items_of(result).values()] == ["a"]
    assert [refusal.reason.split(":")[0] for refusal in refusals_of(result)] == [
        "the file is too large",
        "it is a named pipe, not a regular file",
    ]


def test_a_name_that_is_not_utf_8_is_refused(write: Write, tmp_path: Path) -> None:
    memory = write(f"{SLUG}/memory/a.md", PLAIN.format(name="a")).parent
    try:
        (memory / os.fsdecode(b"\xe9.md")).write_text(PLAIN, encoding="utf-8")
    except OSError:
        pytest.skip("the file system wants UTF-8")
    (memory / "two\nlines.md").write_text(PLAIN, encoding="utf-8")
    result = scan(tmp_path / "root", {})
    assert [refusal.reason for refusal in refusals_of(result)] == [
        "its name holds control characters or bytes that are not UTF-8"
    ] * 2
    for refusal in refusals_of(result):
        f"{refusal.path} {refusal.key}".encode()
    assert len(scan(tmp_path / "root", stamps_of(result)).unchanged) == 3


@pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not bind root")
def test_what_may_not_be_read_is_refused_until_it_may(write: Write, tmp_path: Path) -> None:
    file = write(f"{SLUG}/memory/a.md", PLAIN.format(name="a"))
    closed = write("-closed/memory/b.md", PLAIN.format(name="b")).parent
    shut = write("-shut/memory/c.md", PLAIN.format(name="c")).parent
    file.chmod(0)
    closed.chmod(0)
    shut.parent.chmod(0)
    (tmp_path / "root" / "-link").symlink_to(shut)
    first = scan(tmp_path / "root", {})
    link = str(tmp_path / "root" / "-link")
    assert [refusal.path for refusal in refusals_of(first)] == [str(closed), str(file), link, str(shut)]
    assert first.unreadable == (str(closed), link, str(shut))
    still = scan(tmp_path / "root", stamps_of(first))
    assert still.changed == ()
    assert still.unreadable == first.unreadable
    (tmp_path / "root" / "-link").unlink()
    file.chmod(0o600)
    closed.chmod(0o700)
    shut.parent.chmod(0o700)
    after = scan(tmp_path / "root", stamps_of(first))
    assert sorted(item.title for item in items_of(after).values()) == ["a", "b", "c"]
    assert after.unreadable == ()


def test_a_folder_that_cannot_be_listed_is_unreadable_and_refused(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("-a/memory/a.md", PLAIN.format(name="a"))
    closed = write("-b/memory/b.md", PLAIN.format(name="b")).parent
    real_scandir = os.scandir

    def scandir(path: str) -> object:
        if str(path) == str(closed):
            raise PermissionError(13, "Permission denied")
        return real_scandir(path)

    monkeypatch.setattr(os, "scandir", scandir)
    result = scan(tmp_path / "root", {})
    assert result.unreadable == (str(closed),)
    (refusal,) = refusals_of(result)
    assert (refusal.path, refusal.key) == (str(closed), None)
    assert "Permission denied" in refusal.reason
    assert [item.title for item in items_of(result).values()] == ["a"]
    again = scan(tmp_path / "root", stamps_of(result))
    assert (again.changed, again.unreadable) == ((), (str(closed),))


def test_a_root_that_cannot_be_listed_is_refused_once(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("-a/memory/a.md", PLAIN.format(name="a"))
    known = stamps_of(scan(tmp_path / "root", {}))

    def scandir(_path: str) -> object:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", scandir)
    result = scan(tmp_path / "root", known)
    assert [(file.path, file.refusals[0].reason) for file in result.changed] == [
        (str(tmp_path / "root"), "it cannot be read: Permission denied")
    ]
    assert result.unreadable == (str(tmp_path / "root"),)


def test_a_file_in_the_place_of_the_root_is_refused_once_and_what_was_below_is_kept(write: Write, tmp_path: Path) -> None:
    file = write("-a/memory/a.md", PLAIN.format(name="a"))
    known = stamps_of(scan(root := tmp_path / "root", {}))
    file.unlink()
    for folder in (*file.parents,)[:3]:
        folder.rmdir()
    root.write_text("notes", encoding="utf-8")
    result = scan(root, known)
    assert [(each.path, each.reason) for each in refusals_of(result)] == [(str(root), "it is a file, not a folder")]
    assert vanished_paths(result, known) == []
    again = scan(root, known | stamps_of(result))
    assert (again.changed, vanished_paths(again, known)) == ((), [])


def test_scanning_changes_nothing(write: Write, tmp_path: Path) -> None:
    write(f"{SLUG}/memory/a.md", PLAIN.format(name="a"))
    write(f"{SLUG}/memory/bad.md", "bad")
    before = {path: path.stat() for path in (tmp_path / "root").rglob("*")}
    scan(tmp_path / "root", {})
    after = {path: path.stat() for path in (tmp_path / "root").rglob("*")}
    assert {p: (s.st_mtime_ns, s.st_size) for p, s in before.items()} == {p: (s.st_mtime_ns, s.st_size) for p, s in after.items()}
