"""Backups in object storage: a real S3 server, skipped with the reason where none can be had."""

import json
import os
import signal
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from memory_assets.cli.main import cli
from memory_assets.errors import InvalidInputError, StoreError
from memory_assets.keeping import packs
from memory_assets.keeping.copying import take_backup
from memory_assets.keeping.repository import Repository
from memory_assets.keeping.restoring import find_damage, restore_backup
from memory_assets.operations.backup import backup
from memory_assets.settings import load_settings
from memory_assets.stores import location
from memory_assets.tenants import Tenant
from memory_assets_tests.keeping.test_backup import add, rows
from memory_assets_tests.services import NoServerError, ObjectStorage
from memory_assets_tests.torture import zygote


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStorage]:
    try:
        with ObjectStorage(tmp_path_factory.mktemp("s3")) as storage:
            yield storage
    except NoServerError as error:
        pytest.skip(str(error))


@pytest.fixture
def place(server: ObjectStorage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A folder of the bucket that only this test uses; the settings name the server."""
    monkeypatch.setenv("MEMORY_BACKUP_ENDPOINT", server.endpoint)
    monkeypatch.setenv("MEMORY_BACKUP_ACCESS_KEY", ObjectStorage.ACCESS_KEY)
    monkeypatch.setenv("MEMORY_BACKUP_SECRET_KEY", ObjectStorage.SECRET_KEY)
    return f"s3://{ObjectStorage.BUCKET}/{tmp_path.name}"


def repository_of(place: str) -> Repository:
    return Repository.of(load_settings(), place)


def test_a_backup_in_object_storage_is_listed_verified_pruned_and_restored(
    tenant: Tenant, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    add(tenant, 200)
    run = CliRunner().invoke
    assert "200 memories" in run(cli, ["backup", place]).output
    assert "nothing new" in run(cli, ["backup", f"{place}/"]).output
    add(tenant, 10)
    assert run(cli, ["backup", place]).exit_code == 0
    repository = repository_of(place)
    (newest,) = repository.snapshots("main")  # one a day stays
    assert repository.sizes().keys() >= newest.objects.keys()
    assert len(json.loads(run(cli, ["backup", "list", place, "--json"]).output)["backups"]) == 1
    assert run(cli, ["backup", "verify", place]).exit_code == 0
    done = run(cli, ["restore", place, "--tenant", "restored"])
    assert done.exit_code == 0, done.output
    assert rows(Tenant(tenant.settings, "restored")) == rows(tenant)

    repository._delete(
        f"{repository._root}/objects/{newest.tables['memories'].packs[0].rows[:2]}/{newest.tables['memories'].packs[0].rows}"
    )
    done = run(cli, ["backup", "verify", place])
    assert done.exit_code == 1
    assert "is gone" in done.output
    assert run(cli, ["backup", place]).exit_code == 0
    assert run(cli, ["backup", "verify", place]).exit_code == 0


def test_credentials_stand_in_no_file_no_answer_and_no_error(
    tenant: Tenant, place: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    add(tenant, 3)
    config = Path(os.environ["XDG_CONFIG_HOME"], "memory_assets", "memory.toml")
    config.parent.mkdir(parents=True)
    config.write_text(
        f'backup_access_key = "{ObjectStorage.ACCESS_KEY}"\n'
        f'backup_secret_key = "{ObjectStorage.SECRET_KEY}"\nbackup_to = "s3://k:{ObjectStorage.SECRET_KEY}@b/c"\n'
    )
    said = CliRunner().invoke(cli, ["backup", place]).output
    repository = repository_of(place)
    newest = repository.require("main")
    content = b"".join(repository.get(name, stored) for name, stored in newest.objects.items())
    said += newest.model_dump_json() + content.decode("utf-8", "replace") + repr(repository)
    said += CliRunner().invoke(cli, ["health", "--json"]).output
    said += "".join(path.read_bytes().decode("utf-8", "replace") for path in tenant.folder.rglob("*.json"))
    with pytest.raises(InvalidInputError, match="MEMORY_BACKUP_ACCESS_KEY") as refused:
        backup(tenant, f"s3://{ObjectStorage.ACCESS_KEY}:{ObjectStorage.SECRET_KEY}@{ObjectStorage.BUCKET}/a")
    said += str(refused.value)
    monkeypatch.setenv("MEMORY_BACKUP_SECRET_KEY", f"{ObjectStorage.SECRET_KEY}-no-more")
    denied = CliRunner().invoke(cli, ["backup", place]).exception
    assert "MEMORY_BACKUP_ENDPOINT and the keys" in str(denied)
    said += str(denied)
    monkeypatch.setenv("MEMORY_BACKUP_ENDPOINT", f"http://{ObjectStorage.ACCESS_KEY}:{ObjectStorage.SECRET_KEY}@127.0.0.1")
    wrong = CliRunner().invoke(cli, ["backup", place]).exception
    assert "MEMORY_BACKUP_ENDPOINT cannot be used" in str(wrong)
    said += str(wrong) + caplog.text
    assert ObjectStorage.SECRET_KEY not in said
    assert ObjectStorage.ACCESS_KEY not in said


def test_a_service_that_does_not_answer_is_named_and_no_manifest_is_called_damaged(
    tenant: Tenant, place: str, monkeypatch: pytest.MonkeyPatch
):
    add(tenant, 1)
    repository = repository_of(place)
    snapshot = take_backup(tenant, repository)
    monkeypatch.setenv("MEMORY_BACKUP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setattr(location, "_ATTEMPTS", 1)
    away = repository_of(place)
    for read in (
        lambda: away.require("main"),
        lambda: away._read_manifest(f"snapshots/{snapshot.name}.json"),
        lambda: take_backup(tenant, away),
    ):
        with pytest.raises(StoreError, match=r"cannot be (read|listed)") as error:
            read()
        assert "damaged" not in str(error.value)


@pytest.mark.parametrize("place", ["s3://", "gs://bucket/a", "ftp://host/a"])
def test_a_place_that_is_no_folder_and_no_bucket_is_refused(place: str, tenant: Tenant):
    with pytest.raises(InvalidInputError, match="folder or an s3"):
        backup(tenant, place)


def _back_up(data: Path, place: str, objects: int) -> None:
    """Take a backup in small packs and die after this many written objects."""
    packs.PACK_ROWS = 200
    tenant = Tenant(load_settings(data_dir=data))
    repository = Repository.of(tenant.settings, place)
    written = iter(range(objects))
    write = repository._write

    def counted(path: str, data: bytes) -> None:
        if next(written, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        write(path, data)

    repository._write = counted
    take_backup(tenant, repository)


def test_a_backup_that_is_killed_midway_leaves_the_older_ones_and_the_next_one_works(tenant: Tenant, place: str):
    add(tenant, 300)
    repository = repository_of(place)
    first = take_backup(tenant, repository)
    for objects in (0, 1, 3, 5):
        add(tenant, 500)
        assert zygote.shared().call(_back_up, tenant.settings.data_dir, place, objects).wait().killed
        assert [each.name for each in repository.snapshots()] == [first.name]
        assert find_damage(repository, first) == []
    last = take_backup(tenant, repository)
    restored = Tenant(tenant.settings, "restored")
    restore_backup(repository, last, restored)
    assert rows(restored) == rows(tenant)


@pytest.mark.filterwarnings("ignore:optimize")
def test_tables_in_object_storage_are_backed_up_while_their_old_versions_are_removed(
    tenant: Tenant, server: ObjectStorage, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name, value in {
        "AWS_ACCESS_KEY_ID": ObjectStorage.ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": ObjectStorage.SECRET_KEY,
        "AWS_ENDPOINT": server.endpoint,
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
        "MEMORY_VECTORS_URI": f"s3://{ObjectStorage.BUCKET}/{tmp_path.name}-tables",
    }.items():
        monkeypatch.setenv(name, value)
    remote = Tenant(load_settings())
    add(remote, 500)
    stop = threading.Event()

    def write() -> None:
        other = Tenant(load_settings())
        while not stop.is_set():
            add(other, 20)
            other.memories.stored.writing.optimize(cleanup_older_than=timedelta(microseconds=1), delete_unverified=True)

    writer = threading.Thread(target=write)
    writer.start()
    repository = repository_of(place)
    try:
        snapshots = [take_backup(remote, repository) for _ in range(4)]
    finally:
        stop.set()
        writer.join()
    counts = [each.tables["memories"].rows for each in snapshots]
    assert counts == sorted(counts)
    assert all(find_damage(repository, each) == [] for each in snapshots)
    restored = Tenant(load_settings(), "restored")
    restore_backup(repository, snapshots[0], restored)
    assert len(restored.memories) == counts[0]
