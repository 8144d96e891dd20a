"""Stamps change exactly when there is something new to read."""

import os
from pathlib import Path

import pytest

from memory_assets.models import Source
from memory_assets.settings import Settings, load_settings
from memory_assets.sources.readers import scan_files, stat_stamp
from memory_assets_tests.sources.conftest import Write


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    root = tmp_path / "root"
    return load_settings(claude_projects_dir=root, pai_seed=root / "seed.json", pai_learning_dir=root / "LEARNING")


def test_adding_removing_touching_and_replacing_are_all_seen(write: Write, settings: Settings) -> None:
    def stamp() -> str:
        return stat_stamp(settings, Source.CLAUDE_SILO)

    file = write("-a/memory/a.md", "a")
    seen = [stamp()]
    other = write("-a/memory/b.md", "b")
    seen.append(stamp())
    assert stamp() == seen[-1]
    other.unlink()
    os.utime(file, ns=(1, 1))
    seen.append(stamp())
    replacement = write("-a/memory.tmp", "b")
    os.utime(replacement, ns=(1, 1))
    replacement.replace(file)
    seen.append(stamp())
    file.rename(file.with_name("c.md"))
    seen.append(stamp())
    assert len(set(seen)) == len(seen)


def test_no_file_is_opened(write: Write, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    write("-a/memory/a.md", "a")
    write("-a/memory/MEMORY.md", "Index")
    write("seed.json", "{}")
    write("LEARNING/ratings.jsonl", "{}")
    monkeypatch.setattr(os, "open", None)
    for source in (Source.CLAUDE_SILO, Source.PAI_SEED, Source.PAI_LEARNING):
        scan = scan_files(settings, source, None)
        assert scan.changed
        assert not [file for file in scan.changed if file.items or file.refusals or file.digest]


def test_the_index_counts_and_the_transcripts_do_not(write: Write, settings: Settings) -> None:
    write("-a/memory/a.md", "a")
    before = stat_stamp(settings, Source.CLAUDE_SILO)
    write("-a/session.jsonl", "{}")
    assert stat_stamp(settings, Source.CLAUDE_SILO) == before
    write("-a/memory/MEMORY.md", "- [a](a.md)")
    assert stat_stamp(settings, Source.CLAUDE_SILO) != before


def test_seed_and_learning_files_have_stamps_of_their_own(write: Write, settings: Settings) -> None:
    seed = write("seed.json", "{}")
    ratings = write("LEARNING/SIGNALS/ratings.jsonl", "{}")
    write("LEARNING/USER/a.md", "a")
    failures = write("LEARNING/FAILURES/dump.txt", "x")
    before = [stat_stamp(settings, source) for source in (Source.PAI_SEED, Source.PAI_LEARNING)]
    failures.write_text("longer", encoding="utf-8")
    assert [stat_stamp(settings, source) for source in (Source.PAI_SEED, Source.PAI_LEARNING)] == before
    seed.write_text("{ }", encoding="utf-8")
    assert stat_stamp(settings, Source.PAI_SEED) != before[0]
    assert stat_stamp(settings, Source.PAI_LEARNING) == before[1]
    ratings.write_text("{ }", encoding="utf-8")
    assert stat_stamp(settings, Source.PAI_LEARNING) != before[1]


@pytest.mark.parametrize("source", [Source.CLAUDE_SILO, Source.PAI_SEED, Source.PAI_LEARNING])
def test_a_source_that_is_missing_has_no_stamp(settings: Settings, source: Source) -> None:
    assert stat_stamp(settings, source) == ""


def test_links_out_of_the_source_are_not_followed(write: Write, settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "outside" / "memory").mkdir(parents=True)
    secret = tmp_path / "outside" / "memory" / "a.md"
    secret.write_text("a")
    memory = write("-a/memory/a.md", "a").parent
    (memory / "link.md").symlink_to(secret)
    (tmp_path / "root" / "-linked").symlink_to(tmp_path / "outside")
    before = stat_stamp(settings, Source.CLAUDE_SILO)
    secret.write_text("longer")
    assert stat_stamp(settings, Source.CLAUDE_SILO) == before


def test_a_folder_that_cannot_be_listed_is_told_from_an_empty_one(
    write: Write, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = write("-a/memory/a.md", "a").parent
    write("-b/memory/b.md", "b")
    real_scandir = os.scandir

    def scandir(path: object) -> object:
        if str(path) == str(closed):
            raise PermissionError(13, "Permission denied")
        return real_scandir(path)  # type: ignore[arg-type]

    before = stat_stamp(settings, Source.CLAUDE_SILO)
    (closed / "a.md").unlink()
    emptied = stat_stamp(settings, Source.CLAUDE_SILO)
    monkeypatch.setattr(os, "scandir", scandir)
    assert len({before, emptied, stat_stamp(settings, Source.CLAUDE_SILO)}) == 3
