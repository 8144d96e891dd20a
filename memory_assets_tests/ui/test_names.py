"""Names as pages; merging and splitting them as decisions that later runs respect."""

from itertools import count

import pytest

from memory_assets.errors import InvalidInputError
from memory_assets.graph.decided_names import read_spellings
from memory_assets.graph.edges import refresh_graph
from memory_assets.operations import names
from memory_assets.operations.answers import LocalTime
from memory_assets.operations.arguments import Narrowing
from memory_assets.operations.backup import backup, restore_backup
from memory_assets.operations.show import recent
from memory_assets.stores.layout import kept_entries
from memory_assets.tenants import Tenant
from memory_assets_tests.conftest import filled_once
from memory_assets_tests.ui.site import Site, Visitor, remember, remember_all

_TEXTS = (
    "Robert Miller said the export is slow.",
    "Robert Miller told Carla Weber about the pump.",
    "Bob Miller said that Lyon is far.",
    "Bob Miller told Carla Weber that Bob is tired.",
)
_numbers = count(1)


@pytest.fixture
def named(site: Site) -> Tenant:
    """Memories of Robert Miller, who is also called Bob Miller and Bob, and of Carla Weber."""
    name = f"named{next(_numbers)}"
    tenant = Tenant(site.settings, name)

    def fill() -> None:
        site.new_tenant(name)
        remember_all(tenant, _TEXTS)
        run(tenant)

    filled_once(tenant, "names", fill)
    return tenant


def run(tenant: Tenant) -> None:
    refresh_graph(tenant.catalog, tenant.memories, tenant.relations, read_spellings(tenant))


def found(tenant: Tenant) -> dict[str, int]:
    return {each.name: each.id for each in names.list_names(tenant, kind="PERSON").names}


def test_merged_names_are_one_in_memories_to_come_too(named: Tenant) -> None:
    people = found(named)
    done = names.merge_names(named, people["Bob Miller"], people["Robert Miller"])
    assert done.name is not None
    assert names.show_name(named, done.name).name.memories == 4
    assert len(found(named)) == 2
    remember(named, "Bob Miller said the pump hums.")
    run(named)
    assert names.show_name(named, done.name).name.memories == 5
    assert recent(named, narrowed=Narrowing(entities=["Robert Miller"])).count == 5
    with pytest.raises(InvalidInputError, match="one already"):
        names.merge_names(named, done.name, done.name)


def test_what_was_merged_is_called_as_the_decision_says(named: Tenant) -> None:
    remember(named, "Robert Miller said the pump hums.")
    run(named)
    people = found(named)
    done = names.merge_names(named, people["Robert Miller"], people["Bob Miller"])
    assert names.show_name(named, done.name or 0).name.name == "Bob Miller"
    remember(named, "Robert Miller said the lamp is green.")
    run(named)
    assert names.show_name(named, done.name or 0).name.name == "Bob Miller"
    names.undo_decision(named, done.decision.id)
    assert {"Robert Miller", "Bob Miller"} <= set(found(named))


def test_names_have_their_ids_again_when_a_merge_is_undone(named: Tenant) -> None:
    remember(named, "Robert Miller said the pump hums.")
    run(named)
    people = found(named)
    done = names.merge_names(named, people["Bob Miller"], people["Robert Miller"])
    names.undo_decision(named, done.decision.id)
    assert found(named) == people


def test_edges_follow_a_merge_without_a_changed_memory(named: Tenant) -> None:
    def connected() -> int:
        with named.catalog.read() as connection:
            row = connection.execute(
                "SELECT count(*) FROM graph_edges WHERE origin = 'entities' AND note LIKE '%Miller%'"
            ).fetchone()
        return row[0] if row else 0

    before, people = connected(), found(named)
    names.merge_names(named, people["Bob Miller"], people["Robert Miller"])
    assert connected() > before
    names.undo_decision(named, names.list_decisions(named).decisions[0].id)
    assert connected() == before


def test_a_split_spelling_stays_alone_until_it_is_undone(named: Tenant) -> None:
    people = found(named)
    done = names.merge_names(named, people["Bob Miller"], people["Robert Miller"])
    assert done.name is not None
    split = names.split_name(named, done.name, "Robert Miller")
    assert split.name not in (None, done.name)
    assert split.text(LocalTime.of(named.settings)).startswith("“Robert Miller” is not “Bob Miller”")
    remember(named, "Robert Miller said the pump hums.")
    run(named)
    assert names.show_name(named, split.name or 0).name.memories == 3
    with pytest.raises(InvalidInputError, match="the only spelling"):
        names.split_name(named, split.name or 0, "Robert Miller")
    undone = names.undo_decision(named, split.decision.id)
    assert names.show_name(named, undone.name or 0).name.memories == 5
    names.undo_decision(named, done.decision.id)
    assert {name.partition(" ")[0] for name in found(named)} == {"Robert", "Bob", "Carla"}


def test_a_first_name_alone_can_be_split_from_the_full_name(tenant: Tenant) -> None:
    remember(tenant, "Bob Miller said that Lyon is far.")
    number = remember(tenant, "Yesterday Bob said the pump hums.")
    run(tenant)
    people = found(tenant)
    if "Bob" not in {each.text for each in names.show_name(tenant, people["Bob Miller"]).spellings}:
        pytest.fail(str(tenant.memories.get([number])[0].entities))
    split = names.split_name(tenant, people["Bob Miller"], "Bob")
    run(tenant)
    assert {each.text for each in names.show_name(tenant, split.name or 0).spellings} == {"Bob"}
    assert set(found(tenant)) == {"Bob", "Bob Miller"}


def test_files_and_addresses_are_not_merged(tenant: Tenant) -> None:
    remember(tenant, "Carla Weber wrote docs/plan.md.")
    run(tenant)
    every = {each.name: each.id for each in names.list_names(tenant).names}
    with pytest.raises(InvalidInputError, match="cannot be merged"):
        names.merge_names(tenant, every["docs/plan.md"], every["Carla Weber"])


def test_decisions_are_kept_by_backups(named: Tenant, tmp_path) -> None:
    people = found(named)
    names.merge_names(named, people["Bob Miller"], people["Robert Miller"])
    assert "names.json" in kept_entries(named.state, named.folder)
    backup(named, str(tmp_path / "stick"))
    other = Tenant(named.settings, f"{named.name}-again")
    restore_backup(other, str(tmp_path / "stick"), source=named.name)
    run(other)
    assert len(found(other)) == 2


def test_names_are_listed_page_by_page(named: Tenant) -> None:
    seen: list[int] = []
    cursor: str | None = None
    while True:
        page = names.list_names(named, limit=1, cursor=cursor)
        seen += [each.id for each in page.names]
        if (cursor := page.next_cursor) is None:
            break
    assert len(seen) == len(set(seen)) == len(names.list_names(named).names)
    with pytest.raises(InvalidInputError):
        names.list_names(named, cursor="x-1")
    assert names.list_names(named, kind="person") == names.list_names(named, kind="PERSON")
    with pytest.raises(InvalidInputError, match="PERSON"):
        names.list_names(named, kind="ship")


def test_pages_merge_split_and_undo(site: Site, named: Tenant) -> None:
    people, visitor = found(named), site.visitor(named)
    page = visitor.get(f"/names/{people['Bob Miller']}").text
    assert f'value="{people["Robert Miller"]}"' in page
    merged = visitor.post(f"/names/{people['Bob Miller']}/merge", into=people["Robert Miller"])
    assert "is the same as “Robert Miller”" in merged.text
    assert "4 memories" in merged.text
    apart = visitor.post(merged.url.path.removeprefix("/ui") + "/split", spelling="Bob Miller")
    assert "is not “Robert Miller”" in apart.text
    listed = visitor.get("/names").text
    assert listed.count("/undo") == 2
    decision = names.list_decisions(named).decisions[0].id
    assert "Taken back" in visitor.post(f"/decisions/{decision}/undo").text
    assert visitor.post(f"/decisions/{decision}/undo").status_code == 404
    for wrong, status in (
        ({"into": "x"}, 400),
        ({"into": "9" * 30}, 400),
        ({"other": "Nobody Known"}, 404),
        ({"other": "carla weber"}, 400),
    ):
        assert visitor.post(f"/names/{people['Carla Weber']}/merge", **wrong).status_code == status
    written = visitor.post(f"/names/{people['Carla Weber']}/merge", other="bob miller")
    assert "“Carla Weber” is the same as" in written.text
    assert visitor.get("/names/1").status_code == 404


def test_projects_and_tags_lead_to_the_timeline(tenant: Tenant, visitor: Visitor) -> None:
    assert "None." in visitor.get("/names?type=tags").text
    remember(tenant, "Alice moved the export.", project="/home/mira/atlas", tags=("release plan",))
    assert "/ui/timeline?tag=release" in visitor.get("/names?type=tags").text
    assert "/ui/timeline?project=atlas" in visitor.get("/names?type=projects").text
