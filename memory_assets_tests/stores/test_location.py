"""Facts that keep a store whole where no lock can: a commit checks that its tenant is still there, a rewriting that nobody was faster."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from memory_assets.errors import StoreError
from memory_assets.models import Kind, Memory, Source
from memory_assets.settings import Settings
from memory_assets.stores import upkeep
from memory_assets.stores.location import Location
from memory_assets.stores.memories import MemoryStore
from memory_assets.stores.rows import new_id
from memory_assets.tenants import Tenant, create_tenant, delete_tenant

VECTOR = np.full((1, 4), 0.5, np.float32)


def add(store: MemoryStore, content: str = "a secret") -> Memory:
    now = datetime.now(UTC)
    memory = Memory(new_id(), content, Kind.NOTE, Source.HTTP, "", now, now)
    store.add([memory], VECTOR, "test")
    return memory


@contextmanager
def no_lock(*_given: object) -> Iterator[None]:
    """As object storage has none."""
    yield


def test_a_writer_that_passed_its_check_does_not_make_a_tenant_again_that_was_deleted_meanwhile(settings: Settings) -> None:
    create_tenant(Tenant(settings, "ann"))
    writer = Tenant(settings, "ann")
    writer.must_exist()
    delete_tenant(Tenant(settings, "ann"))
    for write in (
        lambda: add(writer.memories),
        lambda: writer.relations.prepare(),
        lambda: writer.state.put("names.json", b"[]"),
    ):
        with pytest.raises(StoreError, match="deleted meanwhile"):
            write()
    assert not writer.folder.exists()


def test_a_writer_of_a_deleted_tenant_does_not_write_to_its_namesake(settings: Settings) -> None:
    create_tenant(Tenant(settings, "ann"))
    writer = Tenant(settings, "ann")
    writer.must_exist()
    delete_tenant(Tenant(settings, "ann"))
    create_tenant(Tenant(settings, "ann"))
    with pytest.raises(StoreError, match="deleted meanwhile"):
        add(writer.memories)
    assert len(Tenant(settings, "ann").memories) == 0


def test_a_catalog_that_was_read_is_not_written_into_that_of_a_namesake(settings: Settings) -> None:
    create_tenant(Tenant(settings, "ann"))
    builder = Tenant(settings, "ann")
    with builder.catalog.read():
        pass
    delete_tenant(Tenant(settings, "ann"))
    create_tenant(Tenant(settings, "ann"))
    with pytest.raises(StoreError, match="deleted meanwhile"), builder.catalog.write():
        pass
    assert not builder.catalog.exists


def test_rewriting_leaves_what_others_change_and_store_meanwhile(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Location, "closed_to_writers", no_lock)
    store, other = (Tenant(settings, "ann").memories for _ in range(2))
    gone, changed, kept = (add(store, content) for content in ("goes", "changes", "stays"))
    late: list[Memory] = []

    def without(rows: pa.Table) -> pa.Table:
        if not late:
            other.put([replace(changed, content="changed")], VECTOR, "test")
            late.append(add(other, "late"))
        return rows.filter(pa.array([number != gone.id for number in rows["id"].to_pylist()]))

    upkeep.rewrite(store.stored, without)
    found = {
        memory.id: memory.content for memory in Tenant(settings, "ann").memories.get([gone.id, changed.id, kept.id, late[0].id])
    }
    assert found == {changed.id: "changed", kept.id: "stays", late[0].id: "late"}
    data = b"".join(path.read_bytes() for path in Path(store.uri).rglob("*.lance") if path.is_file())
    assert b"goes" not in data


def test_rewriting_whose_index_fails_does_not_say_that_no_row_was_removed(settings: Settings) -> None:
    store = Tenant(settings, "ann").memories
    for content in ("goes", "stays"):
        add(store, content)
    indices = next(Path(store.uri).rglob("_indices"))
    shutil.rmtree(indices)
    indices.touch()
    with pytest.raises(StoreError, match=r"cannot be built .*; earlier changes of rows are kept: run the command again"):
        upkeep.rewrite(store.stored, lambda rows: rows.slice(1))
    assert len(Tenant(settings, "ann").memories) == 1


def test_a_version_in_a_folder_is_the_one_that_lancedb_counts(settings: Settings) -> None:
    tenant = Tenant(settings, "ann")
    assert tenant.location.version("memories") == 0
    for _ in range(3):
        add(tenant.memories)
        assert (newest := tenant.location.version("memories")) == tenant.memories.version
        assert [each.exists() for each in tenant.location.manifests("memories", newest)] == [True, False]
