"""A tenant that several processes create at once, that is deleted during writes, and kills during both."""

import errno
import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from memory_assets.cli.main import cli
from memory_assets.doctor import examine
from memory_assets.errors import ConflictError, StoreError
from memory_assets.models import Kind, Memory, Source, State
from memory_assets.settings import Settings, load_settings
from memory_assets.stores import files, lance
from memory_assets.stores.deferred import import_lancedb
from memory_assets.stores.memories import MemoryStore
from memory_assets.stores.rows import new_id
from memory_assets.tenants import Tenant, create_tenant, delete_tenant, open_states, sweep_deleted, tenant_names
from memory_assets_tests.torture import zygote

VECTOR = np.full((1, 4), 0.5, np.float32)


def add(store: MemoryStore) -> None:
    now = datetime.now(UTC)
    store.add([Memory(new_id(), "a secret", Kind.NOTE, Source.HTTP, "", now, now)], VECTOR, "test")


@pytest.fixture
def written(settings: Settings) -> Tenant:
    tenant = Tenant(settings, "ann")
    create_tenant(tenant)
    for _ in range(3):
        add(tenant.memories)
    return tenant


@pytest.mark.parametrize("commit", [lambda tenant: tenant.memories.stored.committing(), lambda tenant: tenant.state.held()])
def test_deleting_waits_for_the_commit_that_is_under_way(
    written: Tenant, commit: Callable[[Tenant], AbstractContextManager[object]]
) -> None:
    deleting = threading.Thread(target=delete_tenant, args=(Tenant(written.settings, "ann"),))
    with commit(written):
        deleting.start()
        deleting.join(0.3)
        assert deleting.is_alive()
        assert written.folder.exists()
    deleting.join(120)
    assert not written.folder.exists()


def test_a_transaction_of_the_catalog_stops_no_other_write_of_the_tenant(written: Tenant) -> None:
    with written.catalog.write():
        putting = threading.Thread(target=written.state.put, args=("names.json", b"[]"))
        putting.start()
        putting.join(5)
        was_put = not putting.is_alive()
    putting.join(120)
    assert was_put


@pytest.mark.parametrize("is_recreated", [False, True])
def test_a_tenant_that_is_deleted_during_a_transaction_gets_nothing_of_it(written: Tenant, is_recreated: bool) -> None:
    with pytest.raises(StoreError, match="deleted meanwhile"), written.catalog.write() as connection:
        connection.execute("INSERT INTO memory_first_seen VALUES (1, now())")
        delete_tenant(Tenant(written.settings, "ann"))
        if is_recreated:
            create_tenant(Tenant(written.settings, "ann"))
    assert not written.catalog.path.exists()
    assert written.folder.exists() == is_recreated


def test_reading_a_tenant_that_was_deleted_says_so_and_names_no_backup(written: Tenant) -> None:
    assert len(written.memories)
    delete_tenant(Tenant(written.settings, "ann"))
    with pytest.raises(StoreError, match="deleted meanwhile") as told:
        written.memories.scan(("content",))
    assert "backup" not in str(told.value)


def test_reading_a_tenant_that_is_just_being_made_says_so_and_names_no_backup(written: Tenant) -> None:
    table = Path(written.memories.uri) / "memories.lance"
    assert len(written.memories)
    for name in ("_versions", "data"):
        (table / name).rename(written.folder / name)
    with pytest.raises(StoreError, match="another process is making it") as told:
        written.memories.scan(("content",))
    assert "backup" not in str(told.value)


def test_a_full_disk_is_no_deletion(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_given: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files, "replace_file", full)
    with pytest.raises(StoreError, match=r"cannot be made \(.*No space left on device\); the disk is full, so make room"):
        add(Tenant(settings, "ann").memories)


def test_a_disk_that_gets_full_while_a_table_is_made_is_no_other_process(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = import_lancedb().db.LanceDBConnection
    create_table = connection.create_table

    def half_made(self: Any, name: str, **given: Any) -> Any:
        if self.uri.startswith("memory:"):
            return create_table(self, name, **given)
        (Path(self.uri) / f"{name}.lance" / "data").mkdir(parents=True)
        raise RuntimeError("LanceError(IO): No space left on device (os error 28)")

    monkeypatch.setattr(connection, "create_table", half_made)
    with pytest.raises(StoreError, match="the disk is full, so make room"):
        add(Tenant(settings, "ann").memories)


@pytest.mark.parametrize(
    "change",
    [
        add,
        lambda store: store.upkeep.optimize(),
        lambda store: store.transition([1], State, State.FORGOTTEN),
        lambda store: store.delete([1]),
    ],
)
def test_nothing_is_written_to_a_tenant_that_was_deleted(written: Tenant, change: Callable[[MemoryStore], object]) -> None:
    store = written.memories
    delete_tenant(Tenant(written.settings, "ann"))
    with pytest.raises(StoreError):
        change(store)
    assert not written.folder.exists()


def test_a_writer_that_has_just_chosen_the_vector_column_says_that_the_tenant_was_deleted(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant, set_facts = Tenant(settings, "ann"), lance.set_facts
    create_tenant(tenant)

    def deleted_right_after(table: Any, changes: Mapping[str, str | None], *column: str) -> None:
        set_facts(table, changes, *column)
        if not column:
            delete_tenant(Tenant(settings, "ann"))

    monkeypatch.setattr(lance, "set_facts", deleted_right_after)
    with pytest.raises(StoreError, match="deleted meanwhile"):
        add(tenant.memories)


def test_writers_at_full_speed_leave_nothing_of_a_deleted_tenant(settings: Settings) -> None:
    def write(store: MemoryStore, ended: threading.Event) -> None:
        try:
            while not ended.is_set():
                add(store)
        except StoreError:
            ended.set()

    for _ in range(2):
        tenant, ended = Tenant(settings, "ann"), [threading.Event() for _ in range(3)]
        create_tenant(tenant)
        writers = [threading.Thread(target=write, args=(tenant.memories, each)) for each in ended]
        for writer in writers:
            writer.start()
        time.sleep(0.1)
        delete_tenant(Tenant(settings, "ann"))
        for each in ended:
            assert each.wait(60)
        for writer in writers:
            writer.join()
        assert [each.name for each in settings.data_dir.iterdir() if any(each.iterdir())] == []


def _die(*_given: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _die_renaming(path: Path, target: Path) -> None:
    os.rename(path, target)  # noqa: PTH104
    _die()


def _work_and_die(work: Callable[[Tenant], None]) -> None:
    """Create or delete the tenant `ann`, and die by SIGKILL once its folder is made, or renamed."""
    MemoryStore.prepare = _die  # type: ignore[method-assign]
    Path.rename = _die_renaming  # type: ignore[method-assign]
    work(Tenant(load_settings(), "ann"))


def killed(work: Callable[[Tenant], None]) -> None:
    assert zygote.shared().call(_work_and_die, work).wait().killed


def test_a_creation_that_was_killed_is_done_again(settings: Settings) -> None:
    killed(create_tenant)
    assert tenant_names(settings) == []
    create_tenant(Tenant(settings, "ann"))
    assert tenant_names(settings) == ["ann"]


def test_a_deletion_that_was_killed_is_found_and_ended_by_the_next(written: Tenant) -> None:
    killed(delete_tenant)
    (left,) = written.settings.data_dir.glob(".deleted-ann-*")
    create_tenant(Tenant(written.settings, "bob"))
    (found,) = [finding for finding in examine(Tenant(written.settings, "bob")) if finding.what.startswith("Deleting")]
    assert str(left) in found.what
    assert (found.level, found.mend) == ("fault", "Run `memory doctor --mend`.")
    delete_tenant(Tenant(written.settings, "bob"))
    assert not left.exists()


def test_a_deletion_killed_before_vectors_elsewhere_were_dropped_is_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_VECTORS_URI", str(tmp_path / "vectors"))
    monkeypatch.setenv("MEMORY_CATALOG_URI", str(tmp_path / "catalogs"))
    tenant = Tenant(load_settings(), "ann")
    create_tenant(tenant)
    with tenant.catalog.write():
        add(tenant.memories)
    killed(delete_tenant)
    assert not tenant.catalog.exists
    assert tenant_names(tenant.settings) == ["ann"]
    delete_tenant(Tenant(tenant.settings, "ann"))
    assert tenant_names(tenant.settings) == []
    assert [*tmp_path.glob("vectors/*"), *tmp_path.glob("catalogs/*"), *tenant.settings.data_dir.glob("*ann*")] == []


@pytest.mark.parametrize("place", ["data", "elsewhere"])
def test_a_deletion_that_leaves_local_files_fails_and_a_sweep_goes_on_to_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    if place == "elsewhere":
        monkeypatch.setenv("MEMORY_VECTORS_URI", str(tmp_path / "vectors"))
    settings, rmtree = load_settings(), shutil.rmtree
    for name in ("ann", "bob"):
        create_tenant(Tenant(settings, name))

    def refused(path: Path, **given: Any) -> None:
        if "ann" not in str(path):
            rmtree(path, **given)

    monkeypatch.setattr(shutil, "rmtree", refused)
    done = CliRunner().invoke(cli, ["tenant", "delete", "ann", "--yes"])
    assert "cannot be removed; see who owns it, and remove it" in str(done.exception)
    assert "Deleted" not in done.stdout
    delete_tenant(Tenant(settings, "bob"))
    assert not list(tmp_path.rglob("*bob*"))


def test_only_folders_of_deleted_tenants_are_swept(settings: Settings, tmp_path: Path) -> None:
    settings.data_dir.mkdir()
    others = [settings.data_dir / name for name in (".deleted-", ".deleted-ann", ".deleted-ann-0123456", ".deleted-Ann-01234567")]
    for folder in (*others, settings.data_dir / ".deleted-ann-b-01234567"):
        folder.mkdir()
    file, link = settings.data_dir / ".deleted-bob-01234567", settings.data_dir / ".deleted-eve-01234567"
    file.write_text("a person's")
    link.symlink_to(tmp_path)
    sweep_deleted(settings)
    assert set(settings.data_dir.iterdir()) == {*others, file, link}
    assert open_states(settings).deleted() == []


def test_remains_in_an_object_storage_that_is_away_are_told_and_hold_up_no_other_sweep(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    for name, number in (("ann", "1"), ("bob", None)):
        folder = settings.data_dir / f".deleted-{name}-01234567"
        folder.mkdir(parents=True)
        (folder / "store.json").write_text(json.dumps({"id": number})) if number else None
    keys = {"storage_access_key": "key", "storage_secret_key": "secret"}
    sweep_deleted(load_settings(vectors_uri="s3://memories", storage_endpoint="http://127.0.0.1:1", **keys))
    assert [left.tenant for left in open_states(settings).deleted()] == ["ann"]
    assert (
        caplog.text.count("s3://memories/ann/vectors-1 cannot be removed") == caplog.text.count("check MEMORY_VECTORS_URI") == 1
    )


def test_of_several_who_create_a_tenant_at_once_one_does(settings: Settings) -> None:
    def create(begin: threading.Barrier) -> bool:
        begin.wait()
        try:
            create_tenant(Tenant(settings, "ann"))
        except ConflictError:
            return False
        return True

    begin = threading.Barrier(4)
    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(create, [begin] * 4)) == [False, False, False, True]
    assert tenant_names(settings) == ["ann"]


def test_a_table_whose_creation_was_killed_is_made_by_the_next_writing(tenant: Tenant) -> None:
    (tenant.folder / "vectors/memories.lance/_transactions").mkdir(parents=True)
    assert len(tenant.memories) == 0
    add(tenant.memories)
    assert len(tenant.memories) == 1
