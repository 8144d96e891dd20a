"""Invariants: each planted corruption is found by its row, and the printed fix repairs it."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from memory_assets.defs.build import build_defs
from memory_assets.defs.partitions import PARTITION_SET
from memory_assets.defs.resources import MemoryResource
from memory_assets.graph.edges import refresh_graph
from memory_assets.graph.relevance import decay_cycle
from memory_assets.ingest.direct import store_memories
from memory_assets.invariants import INVARIANTS
from memory_assets.models import NewMemory, RelationType, Source, State
from memory_assets.operations.answers import LocalTime
from memory_assets.operations.changes import edit
from memory_assets.operations.health import diagnose
from memory_assets.operations.run import Ran, run
from memory_assets.operations.take_in import take_in
from memory_assets.settings import load_settings
from memory_assets.stores.relations import StatedRelation
from memory_assets.stores.rows import content_hash
from memory_assets.tenants import Tenant
from memory_assets_tests.conftest import WriteSilo


def broken(tenant: Tenant) -> dict[str, list[str]]:
    """Return the violated invariants, each with the rows that violate it."""
    with tenant.catalog.read():  # so that the others open without delay
        found = {each.name: list(each.find(tenant)) for each in INVARIANTS}
    return {name: rows for name, rows in found.items() if rows}


def remember(tenant: Tenant) -> None:
    """Do what `memory run` does, without Dagster, which takes six times as long."""
    take_in(tenant)
    refresh_graph(tenant.catalog, tenant.memories, tenant.relations)
    decay_cycle(tenant, datetime.now(UTC))


def run_quietly(tenant: Tenant) -> Ran:
    return run(tenant, lambda *_: None, lambda _: None)


class Corruptions:
    """Ways to break a tenant; each returns the name of what it broke."""

    def __init__(self, tenant: Tenant) -> None:
        self.tenant = tenant
        self.number, self.second, *_ = sorted(
            tenant.memories.scan(("id",), "source_key <> '' AND state = 'active'")["id"].to_pylist()
        )
        self.third = min(tenant.memories.scan(("id",), "source_key = ''")["id"].to_pylist())
        self.by_hand: list[Any] = []
        """Do what a person does if the fix is to change a file."""

    def _execute(self, statement: str) -> None:
        with self.tenant.catalog.write() as connection:
            connection.execute(statement)

    def _set(self, name: str, value: object, number: int | None = None) -> str:
        table = self.tenant.memories.table
        rows = self.tenant.memories.scan(("id", "updated_at"), f"id = {number or self.number}")
        column = pa.array([value], table.schema.field(name).type)
        changed = pa.table({"id": rows["id"], name: column, "updated_at": [datetime.now(UTC)]})
        self.tenant.memories.update(changed, rows["updated_at"].to_pylist())
        return f"memory {number or self.number}"

    def _row(self, number: int | None = None) -> pa.Table:
        return self.tenant.memories.table.search().where(f"id = {number or self.number}").to_arrow()

    def long_vector(self) -> str:
        return self._vector(0.5, self.number)

    def missing_vector(self) -> str:
        column = self.tenant.memories.columns.live
        assert column
        return self._set(column, None)

    def vector_of_zeros(self) -> str:
        return self._vector(0.0, self.second)

    def vector_of_no_numbers(self) -> str:
        return self._vector(float("nan"), self.third)

    def _vector(self, value: float, number: int) -> str:
        column = self.tenant.memories.columns.live
        assert column
        size = self.tenant.memories.table.schema.field(column).type.list_size
        return self._set(column, [value] * size, number)

    def importance_of_nothing(self) -> str:
        return self._set("importance", None, self.second)

    def nearly_all_archived(self) -> str:
        ids = [self.number, self.second, self.third]
        self.tenant.memories.transition(ids, [State.ACTIVE], State.ARCHIVED)
        return "3 archived, 1 in recall"

    def twin_relation(self) -> str:
        table = self.tenant.relations.stored.writing
        row = self.tenant.relations.stored.reading.search().limit(1).to_arrow()
        table.add(row)
        return f"relations {row['id'][0].as_py()}"

    def superseded_but_active(self) -> str:
        return self._set("superseded_by", 999)

    def importance_of_seven(self) -> str:
        return self._set("importance", 7.0)

    def memory_of_the_future(self) -> str:
        return self._set("created_at", datetime(2099, 1, 1, tzinfo=UTC), self.third)

    def confidence_that_is_no_number(self) -> str:
        return self._set("confidence", float("nan"))

    def exact_twin(self) -> str:
        self.tenant.memories.table.add(self._row())
        return f"memories {self.number}"

    def older_twin(self) -> str:
        row = self._row(self.second)
        place = row.schema.get_field_index("updated_at")
        old = pa.array([datetime(2020, 1, 1, tzinfo=UTC)], row.schema.field("updated_at").type)
        self.tenant.memories.table.add(row.set_column(place, row.schema.field(place), old))
        return f"memories {self.second}"

    def second_memory_of_a_file(self) -> str:
        row = self._row()
        place = row.schema.get_field_index("id")
        self.tenant.memories.table.add(row.set_column(place, row.schema.field(place), pa.array([self.number + 1])))
        return str(self.number + 1)

    def memory_of_a_vanished_file(self) -> str:
        digest = content_hash(self.tenant.memories.get([self.number])[0].content)
        self._execute(f"INSERT INTO entry_keys (key, content_hash) VALUES ('claude_silo:-home-eve/gone.md', '{digest}')")
        return self._set("source_key", "claude_silo:-home-eve/gone.md")

    def relation_of_a_memory_that_is_gone(self) -> str:
        self.tenant.relations.state(stated := StatedRelation(self.number, 4711, RelationType.RELATES_TO))
        return f"relation {stated.id}"

    def lost_node(self) -> str:
        self._execute(f"DELETE FROM graph_nodes WHERE id = {self.number}")
        return str(self.number)

    def edge_from_nowhere(self) -> str:
        self._execute(
            "INSERT INTO graph_edges (source_id, target_id, type, confidence, origin, evidence_id)"
            f" VALUES (4711, {self.number}, 'RELATES_TO', 1, 'link', 0)"
        )
        return f"edge 4711 to {self.number}"

    def mention_of_no_entity(self) -> str:
        self._execute(f"INSERT INTO graph_mentions (memory_id, entity_id) VALUES ({self.number}, 4711)")
        return f"mention {self.number} of 4711"

    def edge_that_is_too_sure(self) -> str:
        with self.tenant.catalog.read() as connection:
            (start,) = connection.execute("SELECT min(source_id) FROM graph_edges").fetchone() or (0,)
        self._execute(f"UPDATE graph_edges SET confidence = 7 WHERE source_id = {start}")
        return f"edge {start} to "

    def edge_to_itself(self) -> str:
        self._execute(
            "INSERT INTO graph_edges (source_id, target_id, type, confidence, origin, evidence_id)"
            f" VALUES ({self.second}, {self.second}, 'RELATES_TO', 1, 'link', 0)"
        )
        return f"edge {self.second} to {self.second}"

    def score_below_nothing(self) -> str:
        self._execute(f"UPDATE relevance_scores SET relevance = -1 WHERE id = {self.third}")
        return f"score of {self.third}"

    def lost_score(self) -> str:
        self._execute(f"DELETE FROM relevance_scores WHERE id = {self.second}")
        return f"score of {self.second}"

    def score_of_seven(self) -> str:
        self._execute(f"UPDATE relevance_scores SET relevance = 7 WHERE id = {self.number}")
        return f"score of {self.number}"

    def score_of_nothing(self) -> str:
        self._execute(f"UPDATE relevance_scores SET relevance = NULL WHERE id = {self.number}")
        return f"score of {self.number}"

    def creative_link_to_nowhere(self) -> str:
        self._execute(f"INSERT INTO creative_links (source_id, target_id) VALUES ({self.number}, 4711)")
        return f"link {self.number} to 4711"

    def creative_link_from_nowhere(self) -> str:
        self._execute(f"INSERT INTO creative_links (source_id, target_id) VALUES (4711, {self.second})")
        return f"link 4711 to {self.second}"

    def unknown_member(self) -> str:
        self._execute("INSERT INTO cluster_members (memory_id, cluster_id) VALUES (4711, 4712)")
        return "member 4711 of 4712"

    def member_of_no_cluster(self) -> str:
        self._execute(f"INSERT INTO cluster_members (memory_id, cluster_id) VALUES ({self.number}, 4711)")
        return f"member {self.number} of 4711"

    def field_of_an_unknown_node(self) -> str:
        self._execute("INSERT INTO tana_fields (node) VALUES ('nobody')")
        return "field of nobody"

    def link_of_an_unknown_node(self) -> str:
        self._execute("INSERT INTO tana_links (source) VALUES ('nobody')")
        return "link of nobody"

    def lost_column_of_the_catalog(self) -> str:
        self._execute("ALTER TABLE tana_activity DROP COLUMN because")
        return "tana_activity.because is missing."

    def column_of_another_type(self) -> str:
        self._execute("ALTER TABLE tana_nodes ALTER children TYPE VARCHAR")
        return "tana_nodes.children is VARCHAR and not INTEGER."

    def refused_file(self) -> str:
        path = self._silo("torn.md", "---\nname: torn\n")
        return str(path)

    def line_of_an_index_without_its_file(self) -> str:
        path = self._silo("MEMORY.md", "- [Gone](gone.md) — what is gone\n")
        return f"{path}: gone.md"

    def _silo(self, name: str, text: str) -> Path:
        path = self.tenant.settings.claude_projects_dir / "-home-ada-atlas" / "memory" / name
        path.write_text(text, encoding="utf-8")
        take_in(self.tenant)
        self.by_hand.append(path.unlink)
        return path

    def entries_of_one_name_without_provenance(self) -> str:
        home = self.tenant.settings.pai_learning_dir / "FEEDBACK"
        home.mkdir(parents=True)

        def write(title: str, name: str, learned: str) -> None:
            text = f"---\nname: {title}\ndescription: {title}\ntype: feedback\n{learned}---\n\n{title}.\n"
            (home / f"{name}.md").write_text(text, encoding="utf-8")

        for name in ("one", "two"):
            write("Lint first", name, "")
            self.by_hand.append(lambda name=name: write(f"Lint {name}", name, "source_cwd: /a\ningested_at: 2026-11-01\n"))
        take_in(self.tenant)
        return str(home)

    def lost_table_of_the_catalog(self) -> str:
        self._execute("DROP TABLE analyzer_news")
        return "The table analyzer_news is missing."


PLANTED = (
    (
        Corruptions.long_vector,
        Corruptions.superseded_but_active,
        Corruptions.importance_of_seven,
        Corruptions.relation_of_a_memory_that_is_gone,
        Corruptions.lost_node,
        Corruptions.edge_from_nowhere,
        Corruptions.score_of_seven,
        Corruptions.creative_link_to_nowhere,
        Corruptions.member_of_no_cluster,
        Corruptions.field_of_an_unknown_node,
        Corruptions.link_of_an_unknown_node,
        Corruptions.vector_of_zeros,
        Corruptions.vector_of_no_numbers,
        Corruptions.importance_of_nothing,
        Corruptions.mention_of_no_entity,
        Corruptions.edge_that_is_too_sure,
        Corruptions.edge_to_itself,
        Corruptions.score_below_nothing,
        Corruptions.lost_score,
        Corruptions.creative_link_from_nowhere,
        Corruptions.unknown_member,
    ),
    (
        Corruptions.missing_vector,
        Corruptions.confidence_that_is_no_number,
        Corruptions.score_of_nothing,
        Corruptions.second_memory_of_a_file,
        Corruptions.exact_twin,
        Corruptions.older_twin,
        Corruptions.twin_relation,
    ),
    (
        Corruptions.nearly_all_archived,
        Corruptions.lost_column_of_the_catalog,
        Corruptions.lost_table_of_the_catalog,
        Corruptions.column_of_another_type,
    ),
    (
        Corruptions.refused_file,
        Corruptions.line_of_an_index_without_its_file,
        Corruptions.entries_of_one_name_without_provenance,
        Corruptions.memory_of_a_vanished_file,
    ),
)
"""Corruptions that are planted together; all are repaired before the next."""
_NAMED_ROWS = 5
"""Of a fault that the doctor names; of more rows it tells the number."""


@pytest.fixture
def world(write_silo: WriteSilo, tenant: Tenant) -> Tenant:
    """A tenant of two files, two stored memories and a relation of theirs, with its graph and scores."""
    write_silo("owner", "Priya owns the billing export of Atlas.")
    write_silo("lock", "Leila debugged the DuckDB lock in Atlas.")
    stored = [NewMemory("Alice moved the rota to Friday.", Source.CLI), NewMemory("The boiler was repaired.", Source.CLI)]
    store_memories(tenant, stored)
    first, second = tenant.memories.scan(("id",))["id"].to_pylist()
    tenant.relations.state(StatedRelation(first, second, RelationType.RELATES_TO))
    remember(tenant)
    assert not broken(tenant)
    return tenant


def test_a_finding_of_the_doctor_does_not_read_as_its_contrary(tenant: Tenant, write_silo: WriteSilo) -> None:
    write_silo("owner", "Priya owns the billing export.").write_bytes(b"A NUL byte \0 is no text.")
    take_in(tenant)
    (note,) = [each.what for each in diagnose(tenant).findings if "owner" in each.what]
    assert note.startswith("Files, or parts of them, were not taken in (")
    assert all(each.broken for each in INVARIANTS if each.is_warning)


def test_a_memory_of_the_future_is_named_until_it_is_edited_and_one_forgotten_before_the_scores_breaks_nothing(
    world: Tenant,
) -> None:
    corruptions = Corruptions(world)
    name = corruptions.memory_of_the_future()
    assert broken(world) == {"no_memory_of_the_future": [name]}
    edit(world, corruptions.third, "The boiler was replaced.", source=Source.CLI)
    refresh_graph(world.catalog, world.memories, world.relations)
    world.memories.transition([corruptions.number], [State.ACTIVE], State.FORGOTTEN)
    decay_cycle(world, datetime.now(UTC))
    assert not broken(world)


@pytest.mark.long
@pytest.mark.usefixtures("world")
def test_each_corruption_is_found_by_its_row_and_its_printed_mend_mends_it() -> None:
    for mend_by_run, planted in zip((run_quietly, remember, remember, remember), PLANTED, strict=True):
        corruptions = Corruptions(Tenant(load_settings()))
        rows = {corrupt.__name__: corrupt(corruptions) for corrupt in planted}
        found = broken(Tenant(load_settings()))
        told = diagnose(Tenant(load_settings())).text(LocalTime(UTC))
        for name, row in rows.items():
            faults = [each for each, broken_rows in found.items() if any(row in broken_row for broken_row in broken_rows)]
            assert faults, (name, row, found)
            promises = [
                each.broken or each.promise for each in INVARIANTS if each.name in faults and len(found[each.name]) > _NAMED_ROWS
            ]
            assert row in told or any(promise in told for promise in promises), name
        mends = {each.mend for each in INVARIANTS if each.name in found}
        if any("doctor --mend" in mend for mend in mends):
            diagnose(Tenant(load_settings()), mend=True)
        for mend_by_hand in corruptions.by_hand:
            mend_by_hand()
        if corruptions.by_hand or any("memory run" in mend for mend in mends):
            mend_by_run(Tenant(load_settings()))
        assert not broken(Tenant(load_settings())), list(rows)


def test_thirty_corruptions_are_planted() -> None:
    assert len({corrupt for planted in PLANTED for corrupt in planted}) >= 30


def test_a_blocking_check_stops_the_steps_after_it(world: Tenant) -> None:
    Corruptions(world).exact_twin()
    ran = run_quietly(Tenant(load_settings()))
    assert "every_key_is_unique" in {each.name for each in ran.failed_checks}
    assert "graph_edges" not in ran.assets


def test_checks_that_are_started_without_a_partition_look_at_the_tenant_of_the_settings(world: Tenant) -> None:
    Corruptions(world).score_of_seven()
    defs = build_defs(MemoryResource())
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions(PARTITION_SET, ["main"])
        keys = defs.resolve_asset_graph().asset_check_keys
        ours = {key for key in keys if key.name in {each.name for each in INVARIANTS}}
        job = defs.resolve_implicit_global_asset_job_def().get_subset(asset_selection=set(), asset_check_selection=ours)
        result = job.execute_in_process(instance=instance, raise_on_error=False)
        failed = [each.check_name for each in result.get_asset_check_evaluations() if not each.passed]
        assert failed == ["scores_within_bounds"]
        assert result.success
