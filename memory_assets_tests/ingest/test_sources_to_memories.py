"""From files to rows: added, changed, superseded, vanished, returned and refused memories."""

import json
import os
import shutil
import socket
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePath

import pytest

from memory_assets.errors import NotFoundError
from memory_assets.ingest.features import extract_features, refresh_entries
from memory_assets.ingest.memories import sync_memories
from memory_assets.ingest.scans import FolderStatus, drop_path, known_stamps, record_scan, refresh_source, refusals
from memory_assets.language.embedders import Embedder
from memory_assets.models import Source, State
from memory_assets.operations.answers import LocalTime
from memory_assets.operations.exchange import export_lines, import_lines
from memory_assets.operations.show import init, recent
from memory_assets.operations.status import status as tenant_status
from memory_assets.sources import claude_silos, dating
from memory_assets.stores.layout import write_known_names
from memory_assets.stores.memories import Filters
from memory_assets.stores.resident.memories import Allowance
from memory_assets.tenants import Tenant
from memory_assets_tests.conftest import WriteSilo
from memory_assets_tests.ingest.runs import by_title, changed, ignore, ingest


def test_files_become_memories_with_their_provenance(tenant: Tenant, write_silo: WriteSilo) -> None:
    path = write_silo("owner", "Priya owns the billing export. See [[deadline]].")
    assert ingest(tenant).added == 1
    memory = by_title(tenant)["owner"]
    assert memory.content == "about owner\n\nPriya owns the billing export. See [[deadline]]."
    assert memory.links == ("deadline",)
    assert memory.source_key == f"claude_silo:-home-ada-atlas/{path.name}"
    assert memory.metadata["path"] == str(path)
    assert tenant.memories.matching("billing", 5, Filters())["id"].to_pylist() == [memory.id]


def test_a_second_run_of_an_unchanged_world_writes_nothing(tenant: Tenant, write_silo: WriteSilo) -> None:
    write_silo("owner", "Priya owns the billing export.")
    ingest(tenant)
    version, catalog = tenant.memories.version, tenant.catalog.path.read_bytes()
    assert changed(tenant) == 0
    assert tenant.memories.version == version
    assert tenant.catalog.path.read_bytes() == catalog


def test_a_changed_text_supersedes_its_memory_and_keeps_the_old_one(tenant: Tenant, write_silo: WriteSilo) -> None:
    write_silo("owner", "Priya owns the billing export.")
    write_silo("other", "Nothing to do with it.")
    ingest(tenant)
    other = by_title(tenant)["other"]
    write_silo("owner", "Tomasz owns the billing export.")
    outcome = ingest(tenant)
    assert (outcome.added, outcome.superseded, outcome.updated) == (1, 1, 0)
    old, new = by_title(tenant, State.SUPERSEDED)["owner"], by_title(tenant)["owner"]
    assert "Priya" in old.content
    assert "Tomasz" in new.content
    assert old.superseded_by == new.id
    assert by_title(tenant)["other"] == other


def test_a_text_that_returns_to_an_earlier_one_revives_that_memory(tenant: Tenant, write_silo: WriteSilo) -> None:
    for name in ("Priya", "Tomasz", "Priya"):
        write_silo("owner", f"{name} owns the billing export.")
        ingest(tenant)
    active, superseded = by_title(tenant)["owner"], by_title(tenant, State.SUPERSEDED)["owner"]
    assert "Priya" in active.content
    assert active.superseded_by is None
    assert superseded.superseded_by == active.id
    assert len(tenant.memories) == 2
    assert changed(tenant) == 0


def test_a_changed_attribute_updates_its_memory_in_place(tenant: Tenant, write_silo: WriteSilo) -> None:
    path = write_silo("owner", "Priya owns the billing export.")
    ingest(tenant)
    before = by_title(tenant)["owner"]
    path.write_text(path.read_text().replace("type: project", "type: reference"))
    outcome = ingest(tenant)
    assert (outcome.added, outcome.updated) == (0, 1)
    after = by_title(tenant)["owner"]
    assert (after.id, after.kind, after.content) == (before.id, "reference", before.content)


def test_a_touched_file_changes_nothing(tenant: Tenant, write_silo: WriteSilo) -> None:
    path = write_silo("owner", "Priya owns the billing export.")
    path.write_text(path.read_text().replace("type: project", "type: project\nmodified: 2026-03-01T00:00:00Z"))
    ingest(tenant)
    version = tenant.memories.version
    os.utime(path, (1_700_000_000, 1_700_000_000))
    assert changed(tenant) == 0
    assert tenant.memories.version == version


def test_a_file_whose_time_is_beyond_the_calendar_is_taken_in_with_a_guess(tenant: Tenant, write_silo: WriteSilo) -> None:
    os.utime(write_silo("owner", "Priya owns the billing export."), (3e11, 3e11))
    assert ingest(tenant).added == 1
    assert "created_at" in by_title(tenant)["owner"].metadata["guessed"]


def test_a_file_whose_time_lies_in_the_future_is_a_memory_of_today_as_a_guess(tenant: Tenant, write_silo: WriteSilo) -> None:
    ahead = datetime.now(UTC).timestamp() + 1e8
    for text in ("Priya owns the billing export.", "Tomasz owns it now."):
        os.utime(write_silo("owner", text), (ahead, ahead))
        ingest(tenant)
        owner = by_title(tenant)["owner"]
        assert owner.created_at <= datetime.now(UTC)
        assert owner.metadata["guessed"] == ["created_at"]


def test_a_vanished_source_rests_and_its_return_wakes_it(tenant: Tenant, write_silo: WriteSilo) -> None:
    path = write_silo("owner", "Priya owns the billing export.")
    ingest(tenant)
    before = by_title(tenant)["owner"]
    text = path.read_text()
    path.unlink()
    assert ingest(tenant).vanished == 1
    assert tenant.memories.count(Filters()) == 0
    path.write_text(text)
    assert ingest(tenant).returned == 1
    assert by_title(tenant)["owner"].id == before.id


def test_what_a_person_forgot_stays_forgotten(tenant: Tenant, write_silo: WriteSilo) -> None:
    path = write_silo("owner", "Priya owns the billing export.")
    ingest(tenant)
    tenant.memories.transition([by_title(tenant)["owner"].id], State, State.FORGOTTEN)
    path.write_text(path.read_text().replace("type: project", "type: user"))
    ingest(tenant)
    assert by_title(tenant, State.FORGOTTEN)["owner"].kind == "user"


def test_a_renamed_file_keeps_its_memory_and_stays_forgotten(tenant: Tenant, write_silo: WriteSilo) -> None:
    paths = [write_silo(name, f"{name} is round.") for name in ("moon", "sun")]
    ingest(tenant)
    ids = {title: memory.id for title, memory in by_title(tenant).items()}
    tenant.memories.transition([ids["moon"]], [State.ACTIVE], State.FORGOTTEN)
    for path in paths:
        path.rename(path.with_name(f"the_{path.name}"))
    assert ingest(tenant).added == 0
    assert {title: memory.id for title, memory in by_title(tenant).items()} == {"sun": ids["sun"]}
    assert by_title(tenant, State.FORGOTTEN)["moon"].source_key.endswith("/the_moon.md")
    for path in paths:
        path.with_name(f"the_{path.name}").rename(path)
    assert ingest(tenant).added == 0
    assert by_title(tenant)["sun"].id == ids["sun"]
    assert set(by_title(tenant, State.FORGOTTEN)) == {"moon"}


def test_a_renamed_silo_keeps_its_memories_and_leaves_none_behind(tenant: Tenant, write_silo: WriteSilo) -> None:
    paths = [write_silo(name, f"{name} is round.") for name in ("moon", "sun", "wheel")]
    ingest(tenant)
    ids = {title: memory.id for title, memory in by_title(tenant).items()}
    silo = paths[0].parent.parent
    silo.rename(silo.with_name("-home-ada-zenith"))
    there = silo.with_name("-home-ada-zenith") / "memory" / paths[0].name
    there.write_text(there.read_text().replace("round", "far away"))
    assert (outcome := ingest(tenant)).added == 1
    assert outcome.vanished == 1
    found = by_title(tenant)
    assert {title: memory.id for title, memory in found.items() if title != "moon"} == {
        name: ids[name] for name in ("sun", "wheel")
    }
    assert "far away" in found["moon"].content
    assert not refusals(tenant.catalog)


def test_what_a_person_forgets_or_restores_while_a_run_embeds_stays_as_they_left_it(
    tenant: Tenant, write_silo: WriteSilo, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [write_silo(name, f"Priya owns {name}.") for name in ("owner", "deadline")]
    ingest(tenant)
    owner, deadline = (by_title(tenant)[name].id for name in ("owner", "deadline"))
    tenant.memories.transition([deadline], State, State.FORGOTTEN)
    embed = type(tenant.embedder).embed

    def embed_while_somebody_decides(self: Embedder, texts: Sequence[str]) -> object:
        tenant.memories.transition([owner], (State.ACTIVE,), State.FORGOTTEN)
        tenant.memories.transition([deadline], (State.FORGOTTEN,), State.ACTIVE)
        return embed(self, texts)

    monkeypatch.setattr(type(tenant.embedder), "embed", embed_while_somebody_decides)
    paths[0].write_text(paths[0].read_text().replace("Priya", "Ada"))
    paths[1].write_text(paths[1].read_text().replace("type: project", "type: reference"))
    ingest(tenant)
    states = {memory.id: memory.state for memory in tenant.memories.get([owner, deadline])}
    assert states == {owner: State.FORGOTTEN, deadline: State.ACTIVE}


def test_a_file_that_breaks_keeps_its_last_good_memory_and_is_reported(tenant: Tenant, write_silo: WriteSilo) -> None:
    path = write_silo("owner", "Priya owns the billing export.")
    ingest(tenant)
    path.write_text("---\nname: owner\nno end of frontmatter")
    assert changed(tenant) == 0
    assert "owner" in by_title(tenant)
    (refusal,) = refusals(tenant.catalog)
    assert refusal.path == str(path)
    assert refusal.mend


def test_a_restored_memory_of_a_silo_that_is_not_here_stays(tenant: Tenant, write_silo: WriteSilo) -> None:
    folder = write_silo("owner", "Priya owns the billing export.").parent
    ingest(tenant)
    shutil.rmtree(folder.parent)
    for has_other_silo in (False, True):
        tenant.catalog.path.unlink()  # like `memory restore`
        if has_other_silo:
            write_silo("deadline", "The portal is due in May.", slug="-home-ada-skiff")
        assert ingest(tenant).vanished == 0
        assert "owner" in by_title(tenant)


def test_memories_of_files_stay_in_a_tenant_that_has_no_sources(tenant: Tenant, write_silo: WriteSilo) -> None:
    write_silo("owner", "Priya owns the billing export.")
    ingest(tenant)
    elsewhere = Tenant(tenant.settings.model_copy(update={"tenant": "somebody-else"}), tenant.name)
    for is_restored in (False, True):
        if is_restored:
            tenant.catalog.path.unlink()
        refresh_source(elsewhere, Source.CLAUDE_SILO)
        refresh_entries(elsewhere)
        assert ingest(elsewhere).vanished == 0
        assert "owner" in by_title(elsewhere)


def test_an_imported_memory_of_a_file_that_is_only_on_another_machine_stays(tenant: Tenant, write_silo: WriteSilo) -> None:
    path = write_silo("owner", "Priya owns the billing export.")
    write_silo("deadline", "The portal is due in May.")
    ingest(tenant)
    lines = [line.encode() for text in export_lines(tenant) for line in text.splitlines()]
    laptop = Tenant(tenant.settings.model_copy(update={"data_dir": tenant.settings.data_dir / "laptop"}))
    path.unlink()
    ingest(laptop)
    there = [line.replace(socket.gethostname().encode(), b"desktop") for line in lines]
    import_lines(laptop, "desktop", there, skip_invalid=False, on_fault=pytest.fail, on_progress=ignore)
    assert ingest(laptop).vanished == 0
    assert set(by_title(laptop)) == {"owner", "deadline"}


def test_an_imported_memory_of_a_file_whose_namesake_was_deleted_here_stays(tenant: Tenant, write_silo: WriteSilo) -> None:
    path = write_silo("owner", "Priya owns the billing export.")
    write_silo("deadline", "The portal is due in May.")
    ingest(tenant)
    lines = [line.encode().replace(socket.gethostname().encode(), b"desktop") for line in export_lines(tenant)]
    laptop = Tenant(tenant.settings.model_copy(update={"data_dir": tenant.settings.data_dir / "laptop"}))
    path.write_text(path.read_text().replace("Priya owns", "Tomasz owns"))
    ingest(laptop)
    path.unlink()
    assert ingest(laptop).vanished == 1
    each = [line for text in lines for line in text.splitlines()]
    import_lines(laptop, "desktop", each, skip_invalid=False, on_fault=pytest.fail, on_progress=ignore)
    assert ingest(laptop).vanished == 0
    assert "Priya" in by_title(laptop)["owner"].content


def test_what_vanished_while_the_catalog_was_lost_rests(tenant: Tenant, write_silo: WriteSilo) -> None:
    path = write_silo("owner", "Priya owns the billing export.")
    write_silo("deadline", "The portal is due in May.")
    ingest(tenant)
    path.unlink()
    tenant.catalog.path.unlink()
    assert ingest(tenant).vanished == 1
    assert list(by_title(tenant)) == ["deadline"]


def test_a_broken_seed_touches_no_memory_of_it(tenant: Tenant) -> None:
    entry = {"source": "s", "extractedAt": "2026-01-01T00:00:00Z", "confirmed": True, "tags": []}
    patterns = [entry | {"id": f"p{n}", "content": f"pattern number {n}"} for n in range(3)]
    seed = {"version": "1.0.0", "learned": {"patterns": patterns, "insights": [], "selfKnowledge": []}}
    path = tenant.settings.pai_seed
    path.parent.mkdir()
    path.write_text(json.dumps(seed))
    ingest(tenant)
    path.write_text(json.dumps(seed)[:-9])
    ingest(tenant)
    assert tenant.memories.count(Filters()) == 3
    del patterns[1]
    path.write_text(json.dumps(seed))
    ingest(tenant)
    assert tenant.memories.count(Filters()) == 2


def test_a_source_that_is_gone_keeps_its_memories_until_a_person_lets_them_go(tenant: Tenant, write_silo: WriteSilo) -> None:
    write_silo("owner", "Priya owns the billing export.")
    other = write_silo("other", "Nothing to do with it.", slug="-home-ada-other")
    ingest(tenant)
    projects = tenant.settings.claude_projects_dir
    projects.rename(projects.with_name("away"))
    assert changed(tenant) == 0
    assert [refusal.path for refusal in refusals(tenant.catalog)] == [str(projects)]
    projects.with_name("away").rename(projects)
    assert changed(tenant) == 0
    assert refusals(tenant.catalog) == ()
    shutil.rmtree(other.parents[1])
    assert changed(tenant) == 0
    drop_path(tenant.catalog, other.parents[1])
    assert ingest(tenant).vanished == 1
    assert list(by_title(tenant)) == ["owner"]
    assert refusals(tenant.catalog) == ()
    with pytest.raises(NotFoundError):
        drop_path(tenant.catalog, other.parents[1])


def test_a_file_with_a_time_of_the_future_is_refused_until_the_time_has_come(
    tenant: Tenant, write_silo: WriteSilo, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = ("date", "modified")
    paths = [write_silo(field, f"Priya owns {field}.", f"project\n{field}: 2099-01-01") for field in fields]
    assert ingest(tenant).added == 0
    refused = refusals(tenant.catalog)
    assert [(each.path, each.reason) for each in refused] == [
        (str(path), "its time 2099-01-01 lies in the future") for path in paths
    ]
    assert all(each.mend for each in refused)
    monkeypatch.setattr(dating, "CLOCK_DIFFERENCE", timedelta(days=40_000))
    assert ingest(tenant).added == 2
    assert refusals(tenant.catalog) == ()


def test_a_lost_catalog_is_rebuilt_without_touching_the_memories(tenant: Tenant, write_silo: WriteSilo) -> None:
    for number in range(3):
        write_silo(f"note-{number}", f"Something about project {number}.")
    ingest(tenant)
    before = by_title(tenant)
    tenant.catalog.path.unlink()
    sync_memories(tenant, ignore)
    assert by_title(tenant) == before
    assert changed(tenant) == 0
    assert by_title(tenant) == before


def test_a_lost_catalog_gives_the_memories_no_other_tags_when_more_names_are_known_by_then(
    tenant: Tenant, write_silo: WriteSilo
) -> None:
    write_silo("owner", "ask juno larkfield about the export")
    ingest(tenant)
    before = tenant.memories.scan(("id", "tags", "entities", "updated_at"))
    write_known_names(tenant.state, {"Juno Larkfield": "PERSON"})
    tenant.catalog.path.unlink()
    named = Tenant(tenant.settings)
    assert changed(named) == 0
    assert tenant.memories.scan(("id", "tags", "entities", "updated_at")) == before
    with named.catalog.read() as connection:
        assert "juno" in str(connection.execute("SELECT entities FROM extracted_features").fetchall())


def test_the_sample_home_is_taken_in_every_refusal_names_its_mend_and_status_accounts_for_every_file(
    sample_home: Path, tenant: Tenant, write_silo: WriteSilo
) -> None:
    def accounts() -> dict[str, FolderStatus]:
        folders = {each.folder: each for each in tenant_status(tenant).folders}
        for folder, each in folders.items():
            assert each.entries == each.taken_in + each.refused + each.passed_over + each.waiting
            if each.source is Source.CLAUDE_SILO:
                assert each.entries == (len(list(Path(folder).iterdir())) if Path(folder).exists() else 0)
        return folders

    assert {each.waiting for each in accounts().values()} >= {7, 8, 15}
    ingest(tenant)
    status = tenant_status(tenant)
    assert sum(status.items_by_source["claude_silo"].values()) == 42
    assert status.items_by_source["pai_seed"] == {"insight": 15, "pattern": 15, "proposal": 7, "self_knowledge": 8}
    assert len([each for each in status.folders if each.source is Source.CLAUDE_SILO]) == 6
    assert sum(each.waiting for each in accounts().values()) == 0
    assert len([refusal for refusal in status.refusals if refusal.mend]) == 6
    assert all(refusal.reason for refusal in status.refusals)
    assert {tuple(PurePath(path).parts[-3::2]) for path in status.guessed} >= {
        ("-home-mira-src-skiff-v2-rs", "notes.md"),
        ("-home-mira-src-skiff-v2-rs", "MEMORY.md"),
    }
    assert any("vlan-rules.md, which is not there: which VLAN" in remark for remark in status.remarks)

    silo = write_silo("untold", "Nothing.").parent
    (silo / "bare.md").write_text("No frontmatter.")
    (silo / ".hidden").write_text("x")
    (silo / "empty.md").write_text("")
    (silo / "data.bin").write_bytes(b"\0")
    (silo / "folder").mkdir()
    (silo / "wrong.md").write_bytes("größer und größer ".encode() + b"\xff")
    ingest(tenant)
    found = accounts()[str(silo)]
    assert (found.taken_in, found.guessed, found.refused, found.passed_over, found.waiting) == (3, 3, 2, 2, 0)
    assert any("wrong.md: 1 byte that is not UTF-8 replaced" in remark for remark in tenant_status(tenant).remarks)
    (silo / "bare.md").write_text("Changed.")
    assert accounts()[str(silo)].waiting == 1
    shutil.rmtree(silo.parent)
    gone = accounts()[str(silo)]
    assert (gone.entries, gone.kept) == (0, 7)


def test_a_run_that_did_not_finish_is_told_from_one_that_did(tenant: Tenant, write_silo: WriteSilo) -> None:
    write_silo("owner", "Priya owns the billing export.")
    known = known_stamps(tenant.catalog, Source.CLAUDE_SILO)
    record_scan(tenant.catalog, claude_silos.scan(tenant.settings.claude_projects_dir, known), known)
    refresh_entries(tenant)
    assert tenant_status(tenant).unfinished == 1
    extract_features(tenant, ignore)
    assert tenant_status(tenant).unfinished == 1
    ingest(tenant)
    assert tenant_status(tenant).unfinished == 0


def test_new_silo_files_are_counted_as_waiting_until_they_are_taken_in(tenant: Tenant, write_silo: WriteSilo) -> None:
    path = write_silo("owner", "Priya owns the billing export.")
    assert [(each.folder, each.waiting) for each in tenant_status(tenant).folders] == [(str(path.parent), 1)]
    ingest(tenant)
    assert [each.waiting for each in tenant_status(tenant).folders] == [0]


def test_a_line_edited_in_the_index_supersedes_its_section_alone(tenant: Tenant, write_silo: WriteSilo) -> None:
    index = write_silo("owner", "Priya owns the billing export.").with_name("MEMORY.md")
    index.write_text("# Atlas\n\n## Ports\n- staging listens on 8443\n\n## Rules\n- never deploy on Fridays\n")
    assert ingest(tenant).added == 3
    before = by_title(tenant)
    index.write_text("# Atlas\n\n## Rules\n- never deploy on Fridays\n\n## Ports\n- staging listens on 9443\n")
    outcome = ingest(tenant)
    assert (outcome.added, outcome.superseded, outcome.updated) == (1, 1, 0)
    assert by_title(tenant)["Atlas: Ports"].content == "- staging listens on 9443"
    assert by_title(tenant)["Atlas: Rules"] == before["Atlas: Rules"]
    index.write_text("# Atlas\n\n## Rules\n- never deploy on Fridays\n")
    assert ingest(tenant).vanished == 1
    index.write_text("")
    assert ingest(tenant).vanished == 1
    assert list(by_title(tenant)) == ["owner"]


def test_a_hook_of_the_index_adds_to_its_file_unless_the_file_says_so(tenant: Tenant, write_silo: WriteSilo) -> None:
    index = write_silo("owner", "Priya owns the billing export.").with_name("MEMORY.md")
    write_silo("later", "Nothing yet.")
    index.write_text("- [Owner](owner.md) — priya owns\n- [Later](later.md) — due in May\n- [Missing](missing.md) — not there\n")
    assert ingest(tenant).added == 2
    assert by_title(tenant)["owner"].content == "about owner\n\nPriya owns the billing export."
    assert by_title(tenant)["later"].content == "about later\ndue in May\n\nNothing yet."
    index.write_text("- [Owner](owner.md) — priya owns\n- [Later](later.md) — due in June\n")
    assert ingest(tenant).superseded == 1
    assert by_title(tenant)["later"].content == "about later\ndue in June\n\nNothing yet."
    index.unlink()
    assert ingest(tenant).superseded == 1
    assert changed(tenant) == 0


def test_a_file_emptied_on_purpose_lets_its_memory_rest(tenant: Tenant, write_silo: WriteSilo) -> None:
    path = write_silo("owner", "Priya owns the billing export.")
    ingest(tenant)
    path.write_text("")
    assert ingest(tenant).vanished == 1
    assert [refusal.passed_over for refusal in refusals(tenant.catalog)] == [True]


def test_a_first_import_is_guessed_to_be_of_its_files_and_never_listed_as_recent(tenant: Tenant, write_silo: WriteSilo) -> None:
    write_silo("copied", "Priya owns the billing export.")
    ingest(tenant)
    guessed = by_title(tenant)["copied"]
    assert guessed.metadata["guessed"] == ["created_at"]
    later = write_silo("written", "Tomasz owns it now.")
    ingest(tenant)
    assert "guessed" not in by_title(tenant)["written"].metadata
    later.touch()
    assert changed(tenant) == 0
    local = LocalTime(UTC)
    for resident in (False, True):
        if resident:
            tenant.memories.keep_resident(Allowance(1 << 20), tenant.folder / "cache")
            tenant.memories.maintain_resident()
            assert tenant.memories.is_resident
        assert [memory.title for memory in init(tenant).recent_memories] == ["written"]
        assert [memory.title for memory in recent(tenant, hours=24).memories] == ["written"]
        assert {m.title: "guessed" in m.entry(local) for m in recent(tenant).memories} == {"written": False, "copied": True}
