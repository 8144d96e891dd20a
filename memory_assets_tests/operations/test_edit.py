import pytest

from memory_assets.errors import ConflictError, InvalidInputError
from memory_assets.models import Memory, NewMemory, Source, State
from memory_assets.operations.changes import edit, forget, tag
from memory_assets.operations.store import store
from memory_assets.stores.memories import MemoryStore
from memory_assets.tenants import Tenant
from memory_assets_tests.conftest import filled_once


@pytest.fixture
def note(tenant: Tenant) -> int:
    given = NewMemory("Priya owns the billing export.", Source.CLI, tags=("Money",), author="Mira", importance=0.9)
    return filled_once(tenant, "edit", lambda: store(tenant, given).id)


def memory(tenant: Tenant, number: int) -> Memory:
    (found,) = tenant.memories.get([number])
    return found


def test_an_edit_takes_the_place_of_what_it_corrects_and_keeps_it_as_history(tenant: Tenant, note: int) -> None:
    newer = edit(tenant, str(note), "Oona owns the parking garage.", source=Source.CLI)
    assert (newer.replaces, newer.author, round(newer.importance, 3)) == (note, "Mira", 0.9)
    assert "money" in newer.tags
    assert "billing-export" not in newer.tags
    assert (memory(tenant, note).state, memory(tenant, note).superseded_by) == (State.SUPERSEDED, newer.id)


def test_an_edit_without_a_change_says_so_and_makes_no_version(tenant: Tenant, note: int) -> None:
    for content in ["Priya owns the billing export.", "Priya owns the billing export.\n"]:
        before = memory(tenant, note)
        same = edit(tenant, note, content, source=Source.CLI)
        assert (same.id, same.replaces) == (note, None), content
        assert same.summary.startswith(f"Nothing changed: {note} "), content
        assert memory(tenant, note) == before, content
        assert len(tenant.memories) == 1, content


def test_other_line_ends_are_no_change(tenant: Tenant) -> None:
    number = store(tenant, NewMemory("Priya owns the export.\r\nTomasz owns the pump.", Source.HTTP)).id
    assert edit(tenant, number, "Priya owns the export.\nTomasz owns the pump.", source=Source.HTTP).replaces is None


def test_the_secret_that_was_masked_is_no_change(tenant: Tenant) -> None:
    said = "The FTP password is Seestern_99 until June."
    number = store(tenant, NewMemory(said, Source.CLI)).id
    assert "Seestern" not in memory(tenant, number).content
    assert edit(tenant, number, said, source=Source.CLI).id == number


def test_an_edit_says_what_it_masked(tenant: Tenant, note: int) -> None:
    edited = edit(tenant, note, "The FTP password is Seestern_99 until June.", source=Source.CLI)
    assert edited.masked == ["password"]
    assert "\n   masked password: only the kind is kept (MEMORY_SECRETS)" in edited.summary
    assert edit(tenant, edited.id, "Priya owns the garage.", source=Source.CLI).masked == []


def test_what_was_edited_already_is_not_edited_again(tenant: Tenant, note: int) -> None:
    edit(tenant, note, "Oona owns it.", source=Source.CLI)
    with pytest.raises(ConflictError, match="superseded"):
        edit(tenant, note, "Nina owns it.", source=Source.CLI)
    assert len(tenant.memories) == 2


def test_of_what_is_forgotten_an_edit_says_how_to_bring_it_back(tenant: Tenant, note: int) -> None:
    forget(tenant, note)
    with pytest.raises(ConflictError, match="restore it"):
        edit(tenant, note, "Nina owns it.", source=Source.CLI)
    assert memory(tenant, note).state is State.FORGOTTEN


def test_an_edit_that_is_not_valid_changes_nothing(tenant: Tenant, note: int) -> None:
    with pytest.raises(Exception, match="blank"):
        edit(tenant, note, "  ", source=Source.CLI)
    assert memory(tenant, note).state is State.ACTIVE


def test_what_a_file_says_is_changed_in_the_file(tenant: Tenant, note: int) -> None:
    from_file = NewMemory(
        "From a file.", Source.CLAUDE_SILO, source_key="claude_silo:x/a.md", metadata={"original_path": "/silo/a.md"}
    )
    number = store(tenant, from_file).id
    for change in (lambda: edit(tenant, number, "x", source=Source.CLI), lambda: tag(tenant, number, add=["x"])):
        with pytest.raises(ConflictError, match=r"/silo/a[.]md"):
            change()


def test_tags_are_added_and_taken_away_as_the_store_writes_them(tenant: Tenant, note: int) -> None:
    assert "release-plan" in tag(tenant, note, add=["Release Plan"]).tags
    assert "release-plan" not in tag(tenant, note, remove=["release plan"]).tags
    with pytest.raises(InvalidInputError, match="blank"):
        tag(tenant, note, add=[" "])


def test_a_tag_never_overwrites_what_somebody_changed_meanwhile(
    tenant: Tenant, note: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_together = MemoryStore.change_together

    def late(self: MemoryStore, *given: object) -> bool:
        self.transition([note], {State.ACTIVE}, State.FORGOTTEN)
        return change_together(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(MemoryStore, "change_together", late)
    with pytest.raises(ConflictError, match="changed this moment"):
        tag(tenant, note, add=["x"])
    assert memory(tenant, note).state is State.FORGOTTEN


def test_an_edit_never_loses_a_tag_that_somebody_gave_meanwhile(
    tenant: Tenant, note: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert_superseding = MemoryStore.insert_superseding

    def late(self: MemoryStore, *given: object) -> int:
        tag(tenant, note, add=["late"])
        return insert_superseding(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(MemoryStore, "insert_superseding", late)
    with pytest.raises(ConflictError, match="was just changed"):
        edit(tenant, note, "Oona owns it.", source=Source.CLI)
    assert (len(tenant.memories), memory(tenant, note).state) == (1, State.ACTIVE)
    assert "late" in memory(tenant, note).tags
