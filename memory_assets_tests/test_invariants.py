"""Invariants: each planted corruption is found by its row, and what the invariant prints mends it."""

from datetime import UTC, datetime

import dagster as dg
import pyarrow as pa
import pytest

from memory_assets.defs.build import build_defs
from memory_assets.defs.partitions import PARTITION_SET
from memory_assets.defs.resources import MemoryResource
from memory_assets.ingest.direct import store_memories
from memory_assets.invariants import INVARIANTS
from memory_assets.models import NewMemory, RelationType, Source
from memory_assets.operations.answers import LocalTime
from memory_assets.operations.health import diagnose
from memory_assets.operations.run import run
from memory_assets.settings import load_settings
from memory_assets.stores.relations import StatedRelation
from memory_assets.tenants import Tenant
from memory_assets_tests.conftest import WriteSilo


def broken(tenant: Tenant) -> dict[str, list[str]]:
    """Invariant -> what breaks it, of those that do not hold."""
    found = {each.name: list(each.find(tenant)) for each in INVARIANTS}
    return {name: rows for name, rows in found.items() if rows}


def remember(tenant: Tenant) -> None:
    run(Tenant(tenant.settings), lambda *_: None, lambda _: None)


class Corruptions:
    """Ways to break a tenant; each returns the name of what it broke."""

    def __init__(self, tenant: Tenant) -> None:
        self.tenant = tenant
        self.number = min(tenant.memories.scan(("id",), "source_key <> '' AND state = 'active'")["id"].to_pylist())

    def _execute(self, statement: str) -> None:
        with self.tenant.catalog.write() as connection:
            connection.execute(statement)

    def _set(self, name: str, value: object) -> str:
        table = self.tenant.memories.table
        rows = self.tenant.memories.scan(("id", "updated_at"), f"id = {self.number}")
        column = pa.array([value], table.schema.field(name).type)
        changed = pa.table({"id": rows["id"], name: column, "updated_at": [datetime.now(UTC)]})
        self.tenant.memories.update(changed, rows["updated_at"].to_pylist())
        return f"memory {self.number}"

    def _row(self, number: int | None = None) -> pa.Table:
        return self.tenant.memories.table.search().where(f"id = {number or self.number}").to_arrow()

    def long_vector(self) -> str:
        column = self.tenant.memories.columns.live
        assert column
        size = self.tenant.memories.table.schema.field(column).type.list_size
        return self._set(column, [0.5] * size)

    def missing_vector(self) -> str:
        column = self.tenant.memories.columns.live
        assert column
        return self._set(column, None)

    def superseded_but_active(self) -> str:
        return self._set("superseded_by", 999)

    def importance_of_seven(self) -> str:
        return self._set("importance", 7.0)

    def confidence_that_is_no_number(self) -> str:
        return self._set("confidence", float("nan"))

    def exact_twin(self) -> str:
        self.tenant.memories.table.add(self._row())
        return f"memories {self.number}"

    def older_twin(self) -> str:
        row = self._row()
        place = row.schema.get_field_index("updated_at")
        old = pa.array([datetime(2020, 1, 1, tzinfo=UTC)], row.schema.field("updated_at").type)
        self.tenant.memories.table.add(row.set_column(place, row.schema.field(place), old))
        return f"memories {self.number}"

    def second_memory_of_a_file(self) -> str:
        row = self._row()
        place = row.schema.get_field_index("id")
        self.tenant.memories.table.add(row.set_column(place, row.schema.field(place), pa.array([self.number + 1])))
        return str(self.number + 1)

    def memory_of_an_unknown_file(self) -> str:
        return self._set("source_key", "claude_silo:-home-eve/gone.md")

    def relation_of_a_memory_that_is_gone(self) -> str:
        return f"relation {self.tenant.relations.state(StatedRelation(self.number, 4711, RelationType.RELATES_TO))}"

    def lost_node(self) -> str:
        self._execute(f"DELETE FROM graph_nodes WHERE id = {self.number}")
        return str(self.number)

    def edge_from_nowhere(self) -> str:
        self._execute(
            "INSERT INTO graph_edges (source_id, target_id, type, confidence, origin, evidence_id)"
            f" VALUES (4711, {self.number}, 'RELATES_TO', 1, 'link', 0)"
        )
        return f"edge 4711 to {self.number}"

    def score_of_seven(self) -> str:
        self._execute(f"UPDATE relevance_scores SET relevance = 7 WHERE id = {self.number}")
        return f"score of {self.number}"

    def score_of_nothing(self) -> str:
        self._execute(f"UPDATE relevance_scores SET relevance = NULL WHERE id = {self.number}")
        return f"score of {self.number}"

    def creative_link_to_nowhere(self) -> str:
        self._execute(f"INSERT INTO creative_links (source_id, target_id) VALUES ({self.number}, 4711)")
        return f"link {self.number} to 4711"

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
    ),
    (Corruptions.missing_vector, Corruptions.confidence_that_is_no_number, Corruptions.score_of_nothing, Corruptions.exact_twin),
    (Corruptions.older_twin,),
    (Corruptions.second_memory_of_a_file,),
    (Corruptions.memory_of_an_unknown_file,),
    (Corruptions.lost_column_of_the_catalog, Corruptions.lost_table_of_the_catalog),
)
"""What is planted at once; all of it is mended before the next."""


@pytest.fixture
def world(write_silo: WriteSilo, tenant: Tenant) -> Tenant:
    """A tenant of two files, two stored memories and a relation of theirs, after a run."""
    write_silo("owner", "Priya owns the billing export of Atlas.")
    write_silo("lock", "Leila debugged the DuckDB lock in Atlas.")
    stored = [NewMemory("Alice moved the rota to Friday.", Source.CLI), NewMemory("The boiler was repaired.", Source.CLI)]
    store_memories(tenant, stored)
    first, second = tenant.memories.scan(("id",))["id"].to_pylist()
    tenant.relations.state(StatedRelation(first, second, RelationType.RELATES_TO))
    remember(tenant)
    assert not broken(tenant)
    return tenant


@pytest.mark.long
@pytest.mark.usefixtures("world")
def test_each_corruption_is_found_by_its_row_and_its_printed_mend_mends_it() -> None:
    for planted in PLANTED:
        corruptions = Corruptions(Tenant(load_settings()))
        rows = {corrupt.__name__: corrupt(corruptions) for corrupt in planted}
        found = broken(Tenant(load_settings()))
        told = diagnose(Tenant(load_settings())).text(LocalTime(UTC))
        for name, row in rows.items():
            assert any(row in each for broken_rows in found.values() for each in broken_rows), (name, row, found)
            assert row in told, name
        mends = {each.mend for each in INVARIANTS if each.name in found}
        if any("doctor --mend" in mend for mend in mends):
            diagnose(Tenant(load_settings()), mend=True)
        if any("memory run" in mend for mend in mends):
            remember(Tenant(load_settings()))
        assert not broken(Tenant(load_settings())), list(rows)


def test_a_blocking_check_stops_the_steps_after_it(world: Tenant) -> None:
    Corruptions(world).exact_twin()
    ran = run(Tenant(load_settings()), lambda *_: None, lambda _: None)
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
