"""The loader of the four canonical homes."""

from datetime import UTC, datetime
from pathlib import Path

from memory_assets.learn.homes import load_pai_memories
from memory_assets.models import Kind
from memory_assets_tests.conftest import SAMPLE


def test_the_sample_homes_are_read_by_type_newest_first() -> None:
    homes = load_pai_memories(SAMPLE / ".pai/MEMORY/LEARNING")

    names = {kind: [entry.name for entry in homes.of(kind)] for kind in (Kind.FEEDBACK, Kind.USER)}
    assert names[Kind.FEEDBACK] == ["format-on-save-off", "no-settlement-day-deploys", "terraform-ask-first", "concise-answers"]
    assert names[Kind.USER] == ["working-hours", "languages", "user-role"]
    assert len(homes.entries) == 14
    assert not homes.refusals
    assert not any(entry.missing_provenance for entry in homes.entries)
    first = homes.of(Kind.FEEDBACK)[0]
    assert first.source_cwd == "/home/mira/work/atlas"
    assert first.ingested_at == first.written_at == datetime(2026, 5, 4, 7, 40, tzinfo=UTC)
    assert first.body.startswith("Format on save stays OFF in Atlas")


def test_what_is_no_entry_is_explained_or_passed_over(tmp_path: Path) -> None:
    home = tmp_path / "USER"
    home.mkdir()
    (home / "user_name.md").write_text("---\nmetadata:\n  name: nested name\n---\nIs called Ada.\n")
    (home / "plain.md").write_text("Likes tea.\n")
    (home / ".user_name.md.x.tmp").write_text("---\nname: half\n")
    (home / "empty.md").write_text("\n")
    (home / "broken.md").write_text("---\nname: never closed\n")
    (home / "notes.txt").write_text("no memory")
    (home / "out.md").symlink_to("/etc/hostname")

    homes = load_pai_memories(tmp_path)

    assert sorted((entry.name, entry.body) for entry in homes.entries) == [
        ("nested name", "Is called Ada."),
        ("plain", "Likes tea."),
    ]
    assert all(entry.missing_provenance == ("source_cwd", "ingested_at") for entry in homes.entries)
    refused = {Path(refusal.path).name: refusal.passed_over for refusal in homes.refusals}
    assert refused == {
        ".user_name.md.x.tmp": True,
        "empty.md": True,
        "broken.md": False,
        "notes.txt": False,
        "out.md": False,
    }
    assert not load_pai_memories(tmp_path / "nowhere").entries
