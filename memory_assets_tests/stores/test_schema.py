"""The schema registry matches every table, new or migrated, and differences are named."""

from pathlib import Path

import duckdb
import numpy as np
import pytest

from memory_assets.models import RelationType
from memory_assets.stores.catalog import Catalog
from memory_assets.stores.relations import StatedRelation
from memory_assets.stores.schema import (
    CATALOG_TABLES,
    LANCE_TABLES,
    MEMORIES,
    TABLES,
    table,
)
from memory_assets.stores.schema_differences import catalog_differences, differences
from memory_assets.tenants import Tenant
from memory_assets_tests.stores.test_damage import memory


def test_every_table_and_column_is_registered_once_with_a_meaning() -> None:
    assert len({each.name for each in TABLES}) == len(TABLES)
    for each in TABLES:
        names = [column.name for column in each.columns]
        assert len(set(names)) == len(names)
        assert set(each.key) <= set(names)
        assert each.meaning.endswith(".")
        assert all(column.meaning.endswith((".", "...")) for column in each.columns)


def test_what_is_written_to_lancedb_has_the_registered_schema(tenant: Tenant) -> None:
    tenant.memories.put([memory(1)], np.eye(4, dtype=np.float32)[:1], "test")
    tenant.relations.state(StatedRelation(1, 2, RelationType.RELATES_TO))
    for expected, stored in zip(LANCE_TABLES, (tenant.memories.stored, tenant.relations.stored), strict=True):
        found = {field.name: str(field.type) for field in stored.reading.schema}
        assert not differences(expected, found)
        assert expected.store == "LanceDB"


def test_duckdb_and_arrow_agree_on_every_column() -> None:
    with duckdb.connect() as connection:
        for each in CATALOG_TABLES:
            connection.execute(each.ddl())
            empty = each.arrow().empty_table()
            connection.register("empty", empty)
            connection.execute(f"INSERT INTO {each.name} BY NAME FROM empty")
            types = connection.execute(f"SELECT * FROM {each.name}").to_arrow_table().schema.types
            read = [str(kind).replace("<l: ", "<item: ").replace("Etc/UTC", "UTC") for kind in types]
            assert read == [str(kind) for kind in empty.schema.types]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("DROP TABLE clusters", "The table clusters is missing."),
        ("ALTER TABLE clusters DROP COLUMN label", "clusters.label is missing."),
        ("ALTER TABLE clusters ALTER COLUMN size TYPE VARCHAR", "clusters.size is VARCHAR and not INTEGER."),
        ("ALTER TABLE clusters ADD COLUMN extra INTEGER", "clusters.extra is not registered."),
    ],
)
def test_a_difference_from_the_registry_is_named(tmp_path: Path, change: str, said: str) -> None:
    catalog = Catalog(str(tmp_path / "catalog.duckdb"), 1)
    with catalog.write() as connection:
        connection.execute(change)
        assert catalog_differences(connection) == [said]


def test_some_columns_come_in_the_order_of_the_table() -> None:
    assert MEMORIES.arrow("title", "id").names == ["id", "title"]
    assert table("memories") is MEMORIES
