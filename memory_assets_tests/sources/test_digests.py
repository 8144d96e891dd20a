"""Digests change exactly when there is something new to read."""

import os
from pathlib import Path

import pytest

from memory_assets.models import Source
from memory_assets.sources.digests import stat_digests
from memory_assets_tests.sources.conftest import Write


def test_only_the_silo_that_changed_has_another_digest(write: Write, tmp_path: Path) -> None:
    a = write("-a/memory/a.md", "a")
    write("-b/memory/b.md", "b")
    write("-c/no-memory.txt", "c")
    before = stat_digests(Source.CLAUDE_SILO, tmp_path / "root")
    assert list(before) == ["-a", "-b"]
    assert stat_digests(Source.CLAUDE_SILO, tmp_path / "root") == before
    a.write_text("changed", encoding="utf-8")
    after = stat_digests(Source.CLAUDE_SILO, tmp_path / "root")
    assert after["-a"] != before["-a"]
    assert after["-b"] == before["-b"]


def test_adding_removing_touching_and_replacing_are_all_seen(write: Write, tmp_path: Path) -> None:
    def digest() -> str:
        return stat_digests(Source.CLAUDE_SILO, tmp_path / "root")["-a"]

    file = write("-a/memory/a.md", "a")
    seen = [digest()]
    other = write("-a/memory/b.md", "b")
    seen.append(digest())
    other.unlink()
    os.utime(file, ns=(1, 1))
    seen.append(digest())
    replacement = write("-a/memory.tmp", "b")
    os.utime(replacement, ns=(1, 1))
    replacement.replace(file)
    seen.append(digest())
    file.rename(file.with_name("c.md"))
    seen.append(digest())
    assert len(set(seen)) == len(seen)


def test_the_index_counts_and_the_transcripts_do_not(write: Write, tmp_path: Path) -> None:
    write("-a/memory/a.md", "a")
    before = stat_digests(Source.CLAUDE_SILO, tmp_path / "root")
    write("-a/session.jsonl", "{}")
    assert stat_digests(Source.CLAUDE_SILO, tmp_path / "root") == before
    write("-a/memory/MEMORY.md", "- [a](a.md)")
    assert stat_digests(Source.CLAUDE_SILO, tmp_path / "root") != before


def test_seed_and_learning_files_have_digests_of_their_own(write: Write, tmp_path: Path) -> None:
    seed = write("seed.json", "{}")
    ratings = write("LEARNING/SIGNALS/ratings.jsonl", "{}")
    write("LEARNING/USER/a.md", "a")
    failures = write("LEARNING/FAILURES/dump.txt", "x")
    write("LEARNING/ratings.jsonl", "{}")
    root = tmp_path / "root"
    before = stat_digests(Source.PAI_SEED, seed), stat_digests(Source.PAI_LEARNING, root / "LEARNING")
    assert [list(digests) for digests in before] == [["seed.json"], [".", "SIGNALS", "USER"]]
    failures.write_text("longer", encoding="utf-8")
    assert stat_digests(Source.PAI_LEARNING, root / "LEARNING") == before[1]
    seed.write_text("{ }", encoding="utf-8")
    ratings.write_text("{ }", encoding="utf-8")
    assert stat_digests(Source.PAI_SEED, seed) != before[0]
    after = stat_digests(Source.PAI_LEARNING, root / "LEARNING")
    assert {name for name in after if after[name] != before[1][name]} == {"SIGNALS"}


@pytest.mark.parametrize("source", [Source.CLAUDE_SILO, Source.PAI_SEED, Source.PAI_LEARNING])
def test_a_source_that_is_missing_has_no_parts(tmp_path: Path, source: Source) -> None:
    assert stat_digests(source, tmp_path / "nowhere") == {}


def test_links_out_of_the_source_are_not_followed(write: Write, tmp_path: Path) -> None:
    (tmp_path / "outside" / "memory").mkdir(parents=True)
    secret = tmp_path / "outside" / "memory" / "a.md"
    secret.write_text("a")
    memory = write("-a/memory/a.md", "a").parent
    (memory / "link.md").symlink_to(secret)
    (tmp_path / "root" / "-linked").symlink_to(tmp_path / "outside")
    before = stat_digests(Source.CLAUDE_SILO, tmp_path / "root")
    assert list(before) == ["-a"]
    secret.write_text("longer")
    assert stat_digests(Source.CLAUDE_SILO, tmp_path / "root") == before


def test_a_folder_that_cannot_be_listed_is_told_from_an_empty_one(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = write("-a/memory/a.md", "a").parent
    write("-b/memory/b.md", "b")
    real_scandir = os.scandir

    def scandir(path: object) -> object:
        if str(path) == str(closed):
            raise PermissionError(13, "Permission denied")
        return real_scandir(path)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "scandir", scandir)
    digests = stat_digests(Source.CLAUDE_SILO, tmp_path / "root")
    assert digests["-a"] == "unreadable"
    assert len(digests["-b"]) == 32


def test_a_source_that_is_not_read_from_files_has_no_digest(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="mcp is not read from files"):
        stat_digests(Source.MCP, tmp_path)
