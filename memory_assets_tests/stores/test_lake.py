"""Catalogs in DuckLake on PostgreSQL and object storage."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from pydantic import SecretStr

from memory_assets.doctor import _catalog, _run_check
from memory_assets.errors import DamagedError, NewerStoreError, StoreError
from memory_assets.operations import tenants
from memory_assets.settings import Settings
from memory_assets.stores import lake
from memory_assets.stores.postgres import Database
from memory_assets.stores.schema import CATALOG_TABLES
from memory_assets.stores.schema_differences import catalog_differences
from memory_assets.tenants import Tenant
from memory_assets_tests.services import ObjectStorage, PostgreSQL
from memory_assets_tests.stores.objects import object_storage, objects

pytestmark = pytest.mark.timeout(600)


def test_many_write_one_catalog_elsewhere_and_lose_nothing(elsewhere: Settings) -> None:
    Tenant(elsewhere).state.claim()

    def write(first: int) -> None:
        tenant = Tenant(elsewhere)
        for number in range(5):
            with tenant.catalog.write() as connection:
                connection.execute("INSERT INTO memory_first_seen VALUES (?, now())", [first + number])

    writers = [threading.Thread(target=write, args=(100 * number,)) for number in range(3)]
    for each in writers:
        each.start()
    for each in writers:
        each.join(60)
    with Tenant(elsewhere).catalog.read() as connection:
        assert connection.execute("SELECT count(*), count(DISTINCT id) FROM memory_first_seen").fetchall() == [(15, 15)]


def test_a_catalog_is_read_again_after_postgresql_was_away(
    elsewhere: Settings, servers: tuple[ObjectStorage, PostgreSQL]
) -> None:
    _, database = servers
    tenant = Tenant(elsewhere.model_copy(update={"lock_timeout": 1.0}))
    tenant.state.claim()
    with tenant.catalog.write() as connection:
        connection.execute("INSERT INTO memory_first_seen VALUES (7, now())")
    database.kill()
    with pytest.raises(StoreError), tenant.catalog.read():
        pass
    database.start()
    with tenant.catalog.read() as connection:
        assert connection.execute("SELECT id FROM memory_first_seen").fetchall() == [(7,)]


def test_a_catalog_out_of_reach_is_not_called_damaged_and_a_damaged_one_keeps_what_no_run_derives(elsewhere: Settings) -> None:
    tenant = Tenant(elsewhere)
    with tenant.catalog.write() as connection:
        connection.execute("INSERT INTO memory_first_seen VALUES (7, now()), (7, now())")
        connection.execute("INSERT INTO graph_builds FROM (SELECT unnest(range(100)), 2, 3)")
    (file,) = object_storage(elsewhere).get_file_info(objects(elsewhere, "main"))
    without_key = Tenant(elsewhere.model_copy(update={"storage_secret_key": SecretStr("wrong")})).catalog
    with pytest.raises(StoreError, match="check PostgreSQL and the object storage"):
        without_key.find_damage()
    with pytest.raises(StoreError, match="ACCESS_DENIED"):
        without_key.set_aside()
    with object_storage(elsewhere).open_output_stream(file.path) as stream:
        stream.write(bytes(file.size))
    tenant.catalog.set_aside()
    with tenant.catalog.read() as connection:
        assert connection.execute("SELECT id FROM memory_first_seen").fetchall() == [(7,)]


def test_a_catalog_whose_files_are_lost_is_set_aside_by_the_doctor(elsewhere: Settings) -> None:
    tenant = Tenant(elsewhere)
    with tenant.catalog.write() as connection:
        connection.execute("INSERT INTO memory_access VALUES (7, now(), 3)")
        connection.execute("INSERT INTO memory_first_seen FROM (SELECT unnest(range(100)), now())")
        connection.execute("INSERT INTO graph_builds FROM (SELECT unnest(range(100)), 2, 3)")
    for lost in objects(elsewhere, "main"):
        object_storage(elsewhere).delete_file(lost)
    with pytest.raises(DamagedError, match="doctor --mend"), tenant.catalog.read() as connection:
        connection.execute("FROM graph_builds")
    (found,) = _run_check(_catalog, tenant)
    assert found.repair
    found.repair()
    assert tenant.catalog.find_damage() == ""
    with tenant.catalog.read() as connection:
        assert connection.execute("SELECT accesses FROM memory_access").fetchall() == [(3,)]


def test_a_catalog_whose_bucket_is_missing_is_not_called_damaged(elsewhere: Settings) -> None:
    tenant = Tenant(elsewhere.model_copy(update={"vectors_uri": "s3://missing/tenants"}))
    with tenant.catalog.write() as connection:
        connection.execute("INSERT INTO graph_builds FROM (SELECT unnest(range(100)), 2, 3)")
    object_storage(elsewhere).delete_dir("missing")
    with pytest.raises(StoreError, match=r"cannot be used .*; check PostgreSQL"), tenant.catalog.read() as connection:
        connection.execute("FROM graph_builds")


def test_who_reads_a_catalog_while_it_is_recreated_finds_all_its_tables(elsewhere: Settings) -> None:
    tenant = Tenant(elsewhere)
    with tenant.catalog.write() as connection:
        connection.execute("INSERT INTO memory_first_seen VALUES (7, now())")
    done, found = threading.Event(), set[Any]()

    def read() -> None:
        catalog = Tenant(elsewhere).catalog
        while not done.is_set():
            try:
                with catalog.read() as connection:
                    found.update(
                        connection.execute("SELECT id FROM memory_first_seen, (SELECT count(*) FROM graph_builds)").fetchall()
                    )
            except Exception as error:  # noqa: BLE001
                found.add(type(error))

    readers = [threading.Thread(target=read) for _ in range(2)]
    for each in readers:
        each.start()
    for _ in range(2):
        tenant.catalog.recreate()
    done.set()
    for each in readers:
        each.join(60)
    assert (7,) in found
    assert found <= {(7,), StoreError}
    assert tenant.catalog.find_damage() == ""


def test_a_catalog_of_a_newer_release_is_not_replaced(elsewhere: Settings) -> None:
    catalog = Tenant(elsewhere).catalog
    with catalog.write() as connection:
        connection.execute("UPDATE schema_version SET version = 99")
    before = catalog.stamp
    with pytest.raises(NewerStoreError, match=r"has schema version 99 .*, or start again"):
        catalog.recreate()
    assert catalog.stamp == before


def test_a_catalog_that_another_machine_removed_hinders_no_other_one(elsewhere: Settings) -> None:
    removed, kept = Tenant(elsewhere, "ann").catalog, Tenant(elsewhere, "ben").catalog
    for each in (removed, kept):
        with each.write():
            pass
    Database(elsewhere.state_uri or "", 5.0).execute(f'DROP SCHEMA "{removed._schema}" CASCADE')  # pyright: ignore[reportAttributeAccessIssue]
    kept.recreate()
    with Tenant(elsewhere, "cem").catalog.write() as connection:
        assert catalog_differences(connection) == []
    assert kept.find_damage() == ""


def test_many_catalogs_are_made_and_open_at_once(elsewhere: Settings) -> None:
    catalogs = [Tenant(elsewhere, f"t{number}").catalog for number in range(3)]
    lake._lakes.cache_clear()

    def write(catalog: Any) -> object:
        with catalog.write() as connection:
            connection.execute("INSERT INTO memory_first_seen VALUES (?, now())", [int(catalog._tenant[1:])])
        return catalog._lakes

    with ThreadPoolExecutor() as threads:
        assert len(set(threads.map(write, catalogs))) == 1
    assert lake._lakes.cache_info().misses == 1
    with ExitStack() as stack:
        opened = [stack.enter_context(each.read()) for each in catalogs]
        found = [connection.execute("SELECT id FROM memory_first_seen").fetchall() for connection in opened]
    assert found == [[(0,)], [(1,)], [(2,)]]


def test_a_database_that_does_not_answer_is_named_by_its_setting(settings: Settings) -> None:
    pytest.importorskip("psycopg_pool", reason="the extra [cluster] is not installed")
    tenant = Tenant(settings.model_copy(update={"catalog_uri": "ducklake:postgres:host=127.0.0.1 port=9"}))
    tenant.state.claim()
    with pytest.raises(StoreError, match="check MEMORY_CATALOG_URI and PGPASSWORD"):
        _ = tenant.catalog.exists


def test_a_new_catalog_has_tables_in_postgresql_for_the_rows_that_it_has(elsewhere: Settings) -> None:
    tenant = Tenant(elsewhere, "one")
    tenants.create(tenant)
    assert elsewhere.state_uri
    database = Database(elsewhere.state_uri, 5.0)

    def count_inlined() -> int:
        ((count,),) = database.execute("SELECT count(*) FROM pg_tables WHERE tablename LIKE 'ducklake_inlined_data_%%_%%'")
        return count

    with tenant.catalog.write():
        pass
    at_first = count_inlined()
    assert at_first <= 2, "the schema's version"
    with tenant.catalog.write() as connection:
        connection.execute("INSERT INTO graph_builds VALUES (1, 2, 3)")
    assert count_inlined() == at_first + 1
    tenant.catalog.recreate()
    assert count_inlined() < len(CATALOG_TABLES) // 2
