"""The catalog's records of the files in silos and canonical homes."""

from datetime import UTC, datetime
from pathlib import Path

from memory_assets.ingest.scans import refresh_source
from memory_assets.learn.memory_files import MemoryFiles, read_homes
from memory_assets.models import Kind, Source
from memory_assets.tenants import Tenant


def scanned_homes(tenant: Tenant) -> MemoryFiles:
    refresh_source(tenant, Source.PAI_LEARNING)
    return read_homes(tenant)


def test_the_sample_homes_are_read_by_type_newest_first(sample_home: Path, tenant: Tenant) -> None:
    homes = scanned_homes(tenant)

    names = {
        kind: [entry.item.title for entry in homes.entries if entry.item.kind is kind] for kind in (Kind.FEEDBACK, Kind.USER)
    }
    assert names[Kind.FEEDBACK] == ["format-on-save-off", "no-settlement-day-deploys", "terraform-ask-first", "concise-answers"]
    assert names[Kind.USER] == ["working-hours", "languages", "user-role"]
    assert len(homes.entries) == 14
    assert not homes.left
    assert not any(entry.missing_provenance for entry in homes.entries)
    first = next(entry for entry in homes.entries if entry.item.kind is Kind.FEEDBACK)
    assert first.item.project == "/home/mira/work/atlas"
    assert first.written_at == datetime(2026, 5, 4, 7, 40, tzinfo=UTC)
    assert first.item.body.startswith("Format on save stays OFF in Atlas")


def test_what_is_no_entry_is_explained_or_passed_over(tenant: Tenant) -> None:
    home = tenant.settings.pai_learning_dir / "USER"
    home.mkdir(parents=True)
    (home / "user_name.md").write_text("---\nmetadata:\n  name: nested name\n---\nIs called Ada.\n")
    (home / "plain.md").write_text("Likes tea.\n")
    (home / ".user_name.md.x.tmp").write_text("---\nname: half\n")
    (home / "empty.md").write_text("\n")
    (home / "broken.md").write_text("---\nname: never closed\n")
    (home / "notes.txt").write_text("no memory")
    (home / "out.md").symlink_to("/etc/hostname")

    homes = scanned_homes(tenant)

    assert sorted((entry.item.title, entry.item.body) for entry in homes.entries) == [
        ("nested name", "Is called Ada."),
        ("plain", "Likes tea."),
    ]
    assert all(entry.missing_provenance == ("source_cwd", "ingested_at") for entry in homes.entries)
    refused = {Path(refusal.path).name: refusal.passed_over for refusal in homes.left}
    assert refused == {
        ".user_name.md.x.tmp": True,
        "empty.md": True,
        "broken.md": False,
        "notes.txt": False,
        "out.md": False,
    }
