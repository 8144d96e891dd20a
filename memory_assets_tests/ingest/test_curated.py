"""Files moved by `memory learn apply`, and renamed files, remain the same memories."""

import json
from pathlib import Path

import pytest

from memory_assets.models import State
from memory_assets.stores.layout import moves_file
from memory_assets.stores.rows import COLUMNS, from_arrow
from memory_assets.tenants import Tenant
from memory_assets_tests.conftest import WriteSilo
from memory_assets_tests.ingest.runs import by_title, changed, ingest


def curate(tenant: Tenant, canonical: dict[Path, Path]) -> None:
    """Move silo files to their canonical homes as `memory learn apply` does, and note the moves."""
    moves = {}
    for silo, home in canonical.items():
        home.parent.mkdir(parents=True, exist_ok=True)
        home.write_bytes(silo.read_bytes())
        silo.unlink()
        moves[f"claude_silo:{silo.parents[1].name}/{silo.name}"] = f"pai_learning:{home.parent.name}/{home.name}"
    file = moves_file(tenant.folder)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(moves))


def test_a_curated_memory_stays_the_same_memory_and_is_never_there_twice(tenant: Tenant, write_silo: WriteSilo) -> None:
    home = tenant.settings.pai_learning_dir / "PROJECT"
    owner = write_silo("owner", "Tomasz owned the billing export.")
    ingest(tenant)
    old = write_silo("owner", "Priya owns the billing export.")
    twin, other = write_silo("owner", "Priya owns the billing export.", slug="-b"), write_silo("owner", "Ada owns it.", slug="-c")
    ingest(tenant)
    before = {
        memory.source_key: memory.id for memory in from_arrow(tenant.memories.scan(COLUMNS)) if memory.state is State.ACTIVE
    }
    kept = old.read_bytes()

    curate(tenant, {owner: home / "project_owner.md", twin: home / "project_owner.md", other: home / "project_owner.md"})
    (home / "project_owner.md").write_bytes(kept)
    ingest(tenant)

    rows = {memory.id: memory for memory in from_arrow(tenant.memories.scan(COLUMNS))}
    active = [memory for memory in rows.values() if memory.state is State.ACTIVE]
    assert [memory.source_key for memory in active] == ["pai_learning:PROJECT/project_owner.md"]
    assert active[0].id in {before["claude_silo:-home-ada-atlas/owner.md"], before["claude_silo:-b/owner.md"]}
    assert rows[before["claude_silo:-c/owner.md"]].superseded_by == active[0].id
    assert {memory.state for memory in rows.values() if memory.content.endswith("Tomasz owned the billing export.")} == {
        State.SUPERSEDED
    }
    assert not changed(tenant)


def test_between_two_steps_of_an_apply_a_memory_is_there_once_and_an_undo_gives_it_back(
    tenant: Tenant, write_silo: WriteSilo
) -> None:
    silo = write_silo("owner", "Priya owns the billing export.")
    ingest(tenant)
    (identity,) = tenant.memories.scan(("id",))["id"].to_pylist()
    kept = silo.read_bytes()
    home = tenant.settings.pai_learning_dir / "PROJECT" / "project_owner.md"

    def state() -> list[tuple[int, str]]:
        return [
            (memory.id, memory.source_key.partition(":")[0])
            for memory in from_arrow(tenant.memories.scan(COLUMNS))
            if memory.state is State.ACTIVE
        ]

    curate(tenant, {silo: home})
    silo.write_bytes(kept)  # killed before it was deleted
    ingest(tenant)
    assert state() == [(identity, "claude_silo")]
    silo.unlink()
    ingest(tenant)
    assert state() == [(identity, "pai_learning")]
    silo.write_bytes(kept)  # the assistant writes the same again
    moves_file(tenant.folder).write_text("{}")
    assert not ingest(tenant).added
    assert state() == [(identity, "pai_learning")]
    home.unlink()  # undone
    ingest(tenant)
    assert state() == [(identity, "claude_silo")]
    assert len(tenant.memories) == 1


def test_a_curated_memory_stays_one_though_the_catalog_was_lost_after_the_apply(tenant: Tenant, write_silo: WriteSilo) -> None:
    write_silo("boiler", "The boiler is in the attic.", slug="-b")
    silo = write_silo("owner", "Priya owns the billing export.")
    ingest(tenant)
    curate(tenant, {silo: tenant.settings.pai_learning_dir / "PROJECT" / "project_owner.md"})
    silo.parent.rmdir()
    tenant.catalog.reset()
    ingest(tenant)
    rows = from_arrow(tenant.memories.scan(COLUMNS))
    assert sorted((memory.title, memory.source_key, memory.state) for memory in rows) == [
        ("boiler", "claude_silo:-b/boiler.md", State.ACTIVE),
        ("owner", "pai_learning:PROJECT/project_owner.md", State.ACTIVE),
    ]


def test_a_file_keeps_its_memory_under_a_name_that_another_file_had(tenant: Tenant, write_silo: WriteSilo) -> None:
    paths = [write_silo(name, f"{name} is round.") for name in ("moon", "sun", "wheel", "ball")]
    ingest(tenant)
    ids = {title: memory.id for title, memory in by_title(tenant).items()}
    tenant.memories.transition([ids["moon"]], [State.ACTIVE], State.FORGOTTEN)
    paths[2].unlink()
    ingest(tenant)
    paths[0].rename(paths[2])  # a name that was used before
    paths[1].rename(paths[3])  # over another file
    ingest(tenant)
    states = {memory.title: (memory.id, memory.state) for memory in from_arrow(tenant.memories.scan(COLUMNS))}
    assert states == {
        "moon": (ids["moon"], State.FORGOTTEN),
        "sun": (ids["sun"], State.ACTIVE),
        "wheel": (ids["wheel"], State.VANISHED),
        "ball": (ids["ball"], State.VANISHED),
    }
    assert not changed(tenant)
    write_silo("sun", "ball is round.")
    paths[1].write_text(paths[1].read_text().replace("sun", "ball"))  # the text that was overwritten, under another name
    ingest(tenant)
    assert by_title(tenant)["ball"].id == ids["ball"]


@pytest.mark.parametrize("is_listed", [False, True])
def test_files_that_exchange_their_names_keep_their_memories(tenant: Tenant, write_silo: WriteSilo, is_listed: bool) -> None:
    paths = [write_silo(name, f"{name} is round.") for name in ("moon", "sun", "wheel")]
    if is_listed:
        paths[0].with_name("MEMORY.md").write_text("".join(f"- [It]({each.name}) — in {each.stem}\n" for each in paths))
    ingest(tenant)
    before = by_title(tenant)
    tenant.memories.transition([before["moon"].id], [State.ACTIVE], State.FORGOTTEN)

    def ingest_and_compare() -> None:
        ingest(tenant)
        assert not changed(tenant)
        current = [each for each in from_arrow(tenant.memories.scan(COLUMNS)) if each.state is not State.SUPERSEDED]
        assert {each.title: each.state for each in current} == {
            "moon": State.FORGOTTEN,
            "sun": State.ACTIVE,
            "wheel": State.ACTIVE,
        }
        assert is_listed or {each.id for each in current} == {each.id for each in before.values()}
        replaced = [each for each in from_arrow(tenant.memories.scan(COLUMNS)) if each.state is State.SUPERSEDED]
        titles = {each.id: each.title for each in [*current, *replaced]}
        assert [titles[each.superseded_by or 0] for each in replaced] == [each.title for each in replaced]

    spare = paths[0].with_name("spare.md")
    for one, other in ((paths[0], spare), (paths[1], paths[0]), (spare, paths[1])):  # a swap
        one.rename(other)
    ingest_and_compare()
    for one, other in ((paths[1], spare), (paths[0], paths[1]), (paths[2], paths[0])):  # a chain
        one.rename(other)
    ingest_and_compare()


def test_a_file_that_takes_over_an_archived_text_is_no_rename(tenant: Tenant, write_silo: WriteSilo) -> None:
    archived, edited = write_silo("moon", "It is round."), write_silo("sun", "It is hot.")
    ingest(tenant)
    tenant.memories.transition([by_title(tenant)["moon"].id], [State.ACTIVE], State.ARCHIVED)
    text = archived.read_text()
    archived.unlink()
    ingest(tenant)
    before = by_title(tenant)["sun"].id
    edited.write_text(text)
    ingest(tenant)
    now = by_title(tenant)["moon"]
    assert (now.content, now.source_key) == ("about moon\n\nIt is round.", "claude_silo:-home-ada-atlas/sun.md")
    (old,) = tenant.memories.get([before])
    assert (old.state, old.superseded_by) == (State.SUPERSEDED, now.id)


def test_a_section_keeps_its_memory_when_one_of_the_same_heading_goes(tenant: Tenant, write_silo: WriteSilo) -> None:
    index = write_silo("other", "Nothing to do with it.").with_name("MEMORY.md")
    first, second = "## Gotchas\n\nDora signs every release.\n\n", "## Gotchas\n\nEmil signs every invoice.\n"
    index.write_text(f"# Notes\n\n{first}{second}")
    ingest(tenant)
    before = {memory.content: memory.id for memory in from_arrow(tenant.memories.scan(COLUMNS))}
    index.write_text(f"# Notes\n\n{second}")
    ingest(tenant)
    after = {memory.content: memory for memory in from_arrow(tenant.memories.scan(COLUMNS))}
    assert {content: memory.id for content, memory in after.items()} == before
    assert after["Emil signs every invoice."].state is State.ACTIVE
    assert (after["Dora signs every release."].state, after["Dora signs every release."].superseded_by) == (State.VANISHED, None)
    assert not changed(tenant)


def test_what_was_forgotten_stays_so_when_its_index_line_changes_or_its_file_is_renamed(
    tenant: Tenant, write_silo: WriteSilo
) -> None:
    paths = [write_silo(name, f"{name} is round.") for name in ("moon", "sun")]
    index = paths[0].with_name("MEMORY.md")

    def run(hook: str) -> dict[str, list[tuple[str, str]]]:
        index.write_text(f"# Index\n\n- [Moon](moon.md) — {hook}\n- [Sun](sun.md) — {hook}\n")
        ingest(tenant)
        assert not changed(tenant)
        rows = sorted(from_arrow(tenant.memories.scan(COLUMNS)), key=lambda memory: memory.content)
        return {
            title: [(memory.content.split("\n")[1], memory.state.value) for memory in rows if memory.title == title]
            for title in ("moon", "sun")
        }

    run("a: seen in Graz")
    tenant.memories.transition([by_title(tenant)["moon"].id], [State.ACTIVE], State.FORGOTTEN)
    first, second = "a: seen in Graz", "b: seen in spring"
    assert run(second) == {
        "moon": [(first, "superseded"), (second, "forgotten")],
        "sun": [(first, "superseded"), (second, "active")],
    }
    assert run(first) == {
        "moon": [(first, "forgotten"), (second, "superseded")],
        "sun": [(first, "active"), (second, "superseded")],
    }
    for path in paths:
        path.rename(path.with_name(f"the_{path.name}"))
    assert run(first) == {
        "moon": [("", "forgotten"), (first, "superseded"), (second, "superseded")],
        "sun": [("", "active"), (first, "superseded"), (second, "superseded")],
    }
    renamed = paths[0].with_name("the_moon.md")
    renamed.write_text(renamed.read_text().replace("round", "far away"))
    ingest(tenant)
    assert "far away" in by_title(tenant)["moon"].content
