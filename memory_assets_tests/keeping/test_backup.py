"""`memory backup` and `memory restore`: what is copied and restored, and what a kill or damage in between leaves."""

import errno
import json
import os
import random
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from zoneinfo import ZoneInfo

import pytest
from click.testing import CliRunner

from memory_assets.cli.main import cli
from memory_assets.doctor import examine
from memory_assets.errors import ConflictError, DamagedError, InvalidInputError, NotFoundError, SettingsError, StoreError
from memory_assets.keeping import restoring
from memory_assets.keeping.copying import prune, select_kept, take_backup
from memory_assets.keeping.encryption import Cipher
from memory_assets.keeping.erasing import files_holding
from memory_assets.keeping.repository import Repository, Snapshot
from memory_assets.keeping.restoring import _Restore, find_damage, restore_backup
from memory_assets.learn.noted import Noted, note
from memory_assets.models import Kind, Memory, RelationType, Source, State
from memory_assets.operations.backup import backup, places_of, verify
from memory_assets.operations.erase import erase
from memory_assets.settings import Settings, load_settings
from memory_assets.stores.access_log import AccessLog, fold_accesses
from memory_assets.stores.keys import KeyStore
from memory_assets.stores.location import Location
from memory_assets.stores.relations import StatedRelation
from memory_assets.stores.rows import new_id
from memory_assets.tana.state import SyncRecord
from memory_assets.tenants import Tenant, create_tenant, delete_tenant
from memory_assets_tests.conftest import filled_once
from memory_assets_tests.operations.test_health import limited_files
from memory_assets_tests.stores.unit_vectors import vectors
from memory_assets_tests.torture import zygote


def add(tenant: Tenant, count: int, said: str = "fact") -> list[int]:
    now = datetime.now(UTC)
    memories = [Memory(new_id(), f"{said} {number}", Kind.NOTE, Source.HTTP, "", now, now) for number in range(count)]
    tenant.memories.add(memories, vectors(count, seed=random.randrange(1 << 30)), "test")
    return [memory.id for memory in memories]


def rows(tenant: Tenant) -> list[dict]:
    """Return every value of every row, which a restored tenant must equal."""
    tables = [store.stored.reading.search().to_arrow() for store in (tenant.memories, tenant.relations)]
    return [row for table in tables for row in table.sort_by("id").to_pylist()]


@pytest.fixture
def used(tenant: Tenant) -> Tenant:
    """A tenant with something of each kind that no run derives."""
    filled_once(tenant, "used", lambda: use(tenant))
    tenant.settings.pai_mapping.parent.mkdir(parents=True)
    tenant.settings.pai_mapping.write_text('{"version": 1, "mappings": {"seed-1": "node"}}')
    return tenant


def use(tenant: Tenant) -> None:
    first, second, *_ = add(tenant, 30)
    tenant.memories.transition([second], [State.ACTIVE], State.SUPERSEDED, superseded_by=[first])
    tenant.relations.state(StatedRelation(first, second, RelationType.RELATES_TO, note="because"))
    KeyStore(tenant.state).create("laptop")
    note(tenant.folder, [Noted("Always lint first.", "/home/ada", "", "s1")])
    AccessLog(tenant.state).record([first], datetime.now(UTC))
    fold_accesses(tenant.catalog, AccessLog(tenant.state), datetime.now(UTC))
    AccessLog(tenant.state).record([second], datetime.now(UTC))
    SyncRecord(queue={"seed-1": "create"}).save(tenant.folder)
    (tenant.folder / "gazetteer.toml").write_text('[project]\n"Halcyon" = []\n')
    (tenant.folder / "learn").mkdir()
    (tenant.folder / "learn" / "proposals.json").write_text("{}")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(str(tmp_path / "backups"))


def test_of_a_tenant_that_is_deleted_meanwhile_no_backup_and_no_copy_is_kept(
    used: Tenant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_when_it_is_deleted(*given: Any) -> None:
        delete_tenant(Tenant(used.settings))
        write(*given)

    def objects() -> set[str]:
        return {path.name for path in (tmp_path / "backups" / "objects").rglob("*") if path.is_file()}

    repository = Repository.of(used.settings, str(tmp_path / "backups"))
    take_backup(used, repository)
    copied, write = objects(), Repository.write
    used.state.put("names.json", b"[]")
    monkeypatch.setattr(Repository, "write", write_when_it_is_deleted)
    with pytest.raises(StoreError, match="deleted meanwhile"):
        take_backup(used, repository)
    assert (repository.require("main").number, objects()) == (1, copied)


def test_a_restored_tenant_holds_every_row_and_file_that_is_not_derived(used: Tenant, repository: Repository):
    snapshot = take_backup(used, repository)
    used.settings.pai_mapping.unlink()
    moved = Tenant(load_settings(data_dir=used.settings.data_dir.with_name("other")))
    done = restore_backup(repository, snapshot, moved)
    assert rows(moved) == rows(used)
    assert moved.memories.columns.embedder == "test"
    assert done.rows == {"memories": 30, "relations": 1}
    assert moved.folder.joinpath("noted.json").read_bytes() == used.folder.joinpath("noted.json").read_bytes()
    assert moved.folder.joinpath("gazetteer.toml").exists()
    assert moved.folder.joinpath("learn/proposals.json").exists()
    assert [key.description for key in KeyStore(moved.state).list()] == ["laptop"]
    assert SyncRecord.load(moved.folder).queue == {"seed-1": "create"}
    assert json.loads(used.settings.pai_mapping.read_text())["mappings"] == {"seed-1": "node"}
    with moved.catalog.read() as connection:
        assert connection.execute("SELECT accesses FROM memory_access").fetchall() == [(1,)]
    assert fold_accesses(moved.catalog, AccessLog(moved.state), datetime.now(UTC)) == 1
    assert find_damage(repository, snapshot) == []


def test_a_place_in_the_home_of_nobody_is_refused(settings: Settings):
    with pytest.raises(InvalidInputError, match="~nobody-at-all/backups names the home of a user who does not exist"):
        Repository.of(settings, "~nobody-at-all/backups")


def test_only_what_changed_is_copied_again(used: Tenant, repository: Repository):
    add(used, 2_000, "many")
    first = take_backup(used, repository)
    again = take_backup(used, repository)
    assert again.added_bytes == 0
    assert again.objects == first.objects
    (one,) = add(used, 1, "one more")
    used.memories.transition([one], [State.ACTIVE], State.FORGOTTEN)
    third = take_backup(used, repository)
    assert third.added_bytes < first.added_bytes / 40
    restored = Tenant(used.settings, "restored")
    restore_backup(repository, third, restored)
    assert rows(restored) == rows(used)


def test_deleted_rows_are_gone_from_the_next_backup_and_many_small_packs_become_one(tenant: Tenant, repository: Repository):
    ids = [number for _ in range(20) for number in add_and_back_up(tenant, repository)]
    tenant.memories.delete(ids[:7])
    snapshot = take_backup(tenant, repository)
    assert len(snapshot.tables["memories"].packs) < 16
    restored = Tenant(tenant.settings, "restored")
    restore_backup(repository, snapshot, restored)
    assert rows(restored) == rows(tenant)


def add_and_back_up(tenant: Tenant, repository: Repository) -> list[int]:
    ids = add(tenant, 5)
    take_backup(tenant, repository)
    return ids


@pytest.mark.filterwarnings("ignore:optimize")
def test_a_backup_is_of_one_moment_while_others_write(tenant: Tenant, repository: Repository):
    (first,) = add(tenant, 1)
    stop = threading.Event()

    def write() -> None:
        other = Tenant(tenant.settings)
        while not stop.is_set():
            (number,) = add(other, 1)
            other.relations.state(StatedRelation(first, number, RelationType.RELATES_TO))
            table = other.memories.stored.writing
            with other.memories.stored.committing():  # like upkeep, which removes files that no current version needs
                table.optimize(cleanup_older_than=timedelta(microseconds=1), delete_unverified=True)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        snapshots = [take_backup(tenant, repository) for _ in range(4)]
    finally:
        stop.set()
        writer.join()
    for number, snapshot in enumerate(snapshots):
        restored = Tenant(tenant.settings, f"restored{number}")
        restore_backup(repository, snapshot, restored)
        known = set(restored.memories.scan(("id",))["id"].to_pylist())
        assert set(restored.relations.scan()["target_id"].to_pylist()) <= known
    assert not (tenant.folder / ".pinned").exists()


_STEPS = frozenset({"os.rename", "os.link", "os.mkdir", "os.remove", "os.rmdir"})


def _killed_at(step: int) -> None:
    """Make this process die just before its `step`th change of a folder."""
    steps = count()

    def watch(event: str, _given: tuple) -> None:
        if event in _STEPS and next(steps) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


def _back_up(data: Path, place: str, step: int) -> None:
    tenant = Tenant(load_settings(data_dir=data))
    _killed_at(step)
    backup(tenant, place)


def _restore(data: Path, place: str, step: int) -> None:
    tenant = Tenant(load_settings(data_dir=data), "restored")
    repository = Repository(place)
    snapshot = repository.require("main")
    _killed_at(step)
    restore_backup(repository, snapshot, tenant)


def _run(work: Callable[..., None], *given: object) -> int:
    return zygote.shared().call(work, *given).wait().code


@pytest.mark.long
def test_a_killed_backup_leaves_the_older_ones_whole_and_the_next_one_works(used: Tenant, repository: Repository):
    add(used, 500)
    first = take_backup(used, repository)
    ends: list[int | None] = []
    for step in (0, 2, 7, 19, 24, 27, 30, 34, 300):
        add(used, 50)
        ends.append(_run(_back_up, used.settings.data_dir, repository.target, step))
        assert find_damage(repository, first) == []
        assert all(find_damage(repository, each) == [] for each in repository.snapshots())
    assert {*ends} == {0, -signal.SIGKILL}
    last = take_backup(used, repository)
    restored = Tenant(used.settings, "restored")
    restore_backup(repository, last, restored)
    assert rows(restored) == rows(used)


@pytest.mark.long
def test_a_killed_restore_leaves_no_tenant_and_can_be_run_again(used: Tenant, repository: Repository):
    add(used, 3_000)
    take_backup(used, repository)
    restored = Tenant(used.settings, "restored")
    for step in (1, 5, 9, 14, 17, 20):
        assert _run(_restore, used.settings.data_dir, repository.target, step) == -signal.SIGKILL
        assert not restored.exists
    assert _run(_restore, used.settings.data_dir, repository.target, 300) == 0
    assert rows(restored) == rows(used)


def _restore_until_in_place(data: Path, place: str) -> None:
    tenant = Tenant(load_settings(data_dir=data), "main")
    repository = Repository(place)

    def watch(event: str, given: tuple) -> None:
        if event == "open" and tenant.folder.exists():
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    restore_backup(repository, repository.require("main"), tenant)
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_restore_that_is_killed_when_the_memories_are_in_place_has_brought_the_mapping(used: Tenant, repository: Repository):
    take_backup(used, repository)
    used.settings.pai_mapping.unlink()
    data = used.settings.data_dir.with_name("other")
    assert _run(_restore_until_in_place, data, repository.target) == -signal.SIGKILL
    assert len(Tenant(load_settings(data_dir=data)).memories) == 30
    assert json.loads(used.settings.pai_mapping.read_text())["mappings"] == {"seed-1": "node"}


def _elsewhere(data: Path, stores: Path) -> Tenant:
    return Tenant(load_settings(data_dir=data, vectors_uri=str(stores / "tables"), catalog_uri=str(stores / "catalogs")))


def _restore_elsewhere(data: Path, place: str, stores: Path) -> None:
    """Restore, and die between the two tables."""

    def die(table: Any, *_given: object, **_named: object) -> int:
        assert table.name == "relations"
        os.kill(os.getpid(), signal.SIGKILL)
        return 0

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(restoring, "_verify_table", die)
        repository = Repository(place)
        restore_backup(repository, repository.require("main"), _elsewhere(data, stores))


def test_a_backup_is_restored_to_stores_in_another_folder_after_a_kill_too(used: Tenant, repository: Repository, tmp_path: Path):
    take_backup(used, repository)
    for name in ("first", "killed"):
        data, stores = tmp_path / name, tmp_path / f"{name}-stores"
        if name == "killed":
            assert zygote.shared().call(_restore_elsewhere, data, repository.target, stores).wait().killed
        there = _elsewhere(data, stores)
        restore_backup(repository, repository.require("main"), there)
        assert rows(there) == rows(used)
        with there.catalog.read() as connection:
            assert connection.execute("SELECT accesses FROM memory_access").fetchall() == [(1,)]
        assert [key.description for key in KeyStore(there.state).list()] == ["laptop"]
        with pytest.raises(ConflictError, match="holds 30 memories"):
            restore_backup(repository, repository.require("main"), there)


def test_damage_is_named_and_the_rest_comes_back(tenant: Tenant, repository: Repository):
    add(tenant, 300)
    take_backup(tenant, repository)
    add(tenant, 300, "later")
    snapshot = take_backup(tenant, repository)
    hurt = snapshot.tables["memories"].packs[0].rows
    file = Path(repository.target, "objects", hurt[:2], hurt)
    file.write_bytes(file.read_bytes()[:-100] + bytes(100))
    (verified,) = verify(tenant.settings, repository.target, tenant.name).backups
    assert hurt in " ".join(verified.damage)
    with pytest.raises(DamagedError, match=hurt):
        restore_backup(repository, snapshot, Tenant(tenant.settings, "restored"))
    assert not Tenant(tenant.settings, "restored").exists
    done = restore_backup(repository, snapshot, Tenant(tenant.settings, "restored"), skip_damaged=True)
    assert done.rows["memories"] == 300
    assert hurt in done.damaged[0]
    file.unlink()
    assert find_damage(repository, take_backup(tenant, repository)) == []


def test_a_damaged_manifest_is_named_and_older_backups_are_restored_if_asked_for(used: Tenant, repository: Repository):
    first = take_backup(used, repository)
    add(used, 1)
    second = take_backup(used, repository)
    path = Path(repository.target, "snapshots", f"{second.name}.json")
    path.write_text(path.read_text().replace('"rows": 31', '"rows": 32'))
    with pytest.raises(DamagedError, match=path.name):
        repository.snapshots()
    for asked in (None, datetime.now(UTC)):
        with pytest.raises(DamagedError, match=path.name):
            repository.require("main", asked)
    assert repository.require("main", first.taken_at).name == first.name
    assert repository.require("main", skip_damaged=True).name == first.name


def test_a_tenant_with_memories_is_not_overwritten(used: Tenant, repository: Repository):
    snapshot = take_backup(used, repository)
    with pytest.raises(
        ConflictError, match=r"restore into a new one with --tenant NAME\.$"
    ):  # deleting it would bring erased texts back
        restore_backup(repository, snapshot, used)
    empty = Tenant(used.settings, "empty")
    create_tenant(empty)
    KeyStore(empty.state).create("its own")
    restore_backup(repository, snapshot, empty)
    assert rows(empty) == rows(used)
    assert [key.description for key in KeyStore(empty.state).list()] == ["its own"]


def test_what_is_stored_while_a_backup_is_restored_is_kept(used: Tenant, repository: Repository, monkeypatch: pytest.MonkeyPatch):
    snapshot = take_backup(used, repository)
    empty = Tenant(used.settings, "empty")
    restore_tables = _Restore._restore_tables

    def restored(restore: _Restore, place: Location) -> None:
        restore_tables(restore, place)
        add(Tenant(used.settings, "empty"), 1, "meanwhile")

    monkeypatch.setattr(_Restore, "_restore_tables", restored)
    with pytest.raises(ConflictError, match="holds 1 memories"):
        restore_backup(repository, snapshot, empty)
    assert [row["content"] for row in rows(Tenant(used.settings, "empty"))] == ["meanwhile 0"]


def test_a_deletion_and_an_erasure_find_what_a_killed_backup_pinned_beside_tables_elsewhere(settings: Settings, tmp_path: Path):
    tenant = Tenant(settings.model_copy(update={"vectors_uri": str(tmp_path / "elsewhere")}), "main")
    (number, _), text = add(tenant, 2, "Ines said kettle-4711"), "Ines said kettle-4711 0"
    pinned = tmp_path / "elsewhere/main/.pinned/vectors"
    for end in (lambda: erase(tenant, [number], confirm=True), lambda: delete_tenant(tenant)):
        shutil.copytree(tenant.location.path, pinned)
        end()
        assert files_holding(tmp_path, [text]) == []


def test_encrypted_backups_hold_no_text_and_need_the_identity(used: Tenant, tmp_path: Path):
    from pyrage import x25519  # pyright: ignore[reportAttributeAccessIssue]

    identity = x25519.Identity.generate()
    secret = tmp_path / "identity.txt"
    secret.write_text(f"# created\n{identity}\n")
    writing = Repository(str(tmp_path / "backups"), Cipher(str(identity.to_public())))
    snapshot = take_backup(used, writing)
    assert take_backup(used, writing).added_bytes == 0
    assert not [path for path in (tmp_path / "backups").rglob("*.zst") if b"fact" in path.read_bytes()]
    assert find_damage(writing, snapshot, decrypting=False) == []
    with pytest.raises(SettingsError, match="MEMORY_BACKUP_IDENTITY"):
        restore_backup(writing, snapshot, Tenant(used.settings, "restored"))
    reading = Repository(writing.target, Cipher(identity=secret))
    assert find_damage(reading, snapshot) == []
    held = secret.read_text()
    secret.unlink()  # a pipe can be read once
    assert find_damage(reading, snapshot) == []
    secret.write_text(held)
    other = tmp_path / "other.txt"
    other.write_text(f"{x25519.Identity.generate()}\n")
    with pytest.raises(SettingsError, match=r"other\.txt"):
        restore_backup(Repository(writing.target, Cipher(identity=other)), snapshot, Tenant(used.settings, "restored"))
    restored = Tenant(used.settings, "restored")
    restore_backup(Repository(writing.target, Cipher(identity=secret)), snapshot, restored)
    assert rows(restored) == rows(used)


def test_a_backup_that_the_identity_would_not_open_is_refused_and_a_changed_key_leaves_older_ones_readable(
    tenant: Tenant, tmp_path: Path
):
    from pyrage import x25519  # pyright: ignore[reportAttributeAccessIssue]

    add(tenant, 1)
    old, new = x25519.Identity.generate(), x25519.Identity.generate()
    secret, place = tmp_path / "identity.txt", str(tmp_path / "backups")
    secret.write_text(f"{old}\n")
    first = take_backup(tenant, Repository(place, Cipher(str(old.to_public()))))
    changed = {"backup_recipient": str(new.to_public()), "backup_identity": secret}
    wrong = Tenant(tenant.settings.model_copy(update=changed))
    with pytest.raises(SettingsError, match="does not open backups for MEMORY_BACKUP_RECIPIENT"):
        backup(wrong, place)
    assert [each.name for each in Repository(place).snapshots()] == [first.name]
    assert "does not open backups" in "".join(found.what for found in examine(wrong))
    secret.write_text(f"{old}\n{new}\n")
    reading = Repository(place, Cipher.of(wrong.settings))
    second = take_backup(wrong, reading)
    assert find_damage(reading, first) == find_damage(reading, second) == []


def test_a_plain_backup_replaces_no_encrypted_one(tenant: Tenant, tmp_path: Path):
    from pyrage import x25519  # pyright: ignore[reportAttributeAccessIssue]

    add(tenant, 1)
    place = str(tmp_path / "backups")
    taken = take_backup(tenant, Repository(place, Cipher(str(x25519.Identity.generate().to_public()))))
    with pytest.raises(SettingsError, match="are encrypted; set MEMORY_BACKUP_RECIPIENT, or name another place"):
        backup(tenant, place)
    assert [each.name for each in Repository(place).snapshots()] == [taken.name]
    assert Repository(place).sizes().keys() == taken.objects.keys()
    assert backup(tenant, str(tmp_path / "plain")).backup.memories == 1


def test_a_backup_is_taken_if_the_keys_of_the_identity_are_out_of_reach(tenant: Tenant, tmp_path: Path):
    from pyrage import x25519  # pyright: ignore[reportAttributeAccessIssue]

    add(tenant, 1)
    recipient, (locked, binary, pipe) = str(x25519.Identity.generate().to_public()), map(tmp_path.joinpath, ("a", "b", "c"))
    locked.write_text("-----BEGIN AGE ENCRYPTED FILE-----\nYWdl\n-----END AGE ENCRYPTED FILE-----\n")
    binary.write_bytes(b"age-encryption.org/v1\n\xff")
    os.mkfifo(pipe)
    for identity in (locked, binary, pipe):
        there = Tenant(tenant.settings.model_copy(update={"backup_recipient": recipient, "backup_identity": identity}))
        assert backup(there, str(tmp_path / "backups")).backup.memories == 1


def test_retention_keeps_days_weeks_and_months_and_all_that_they_need(tenant: Tenant, repository: Repository):
    start = datetime(2026, 1, 1, 12, tzinfo=UTC)
    days = [Snapshot(tenant="main", taken_at=start + timedelta(hours=12 * half), program="") for half in range(2 * 400)]
    kept = select_kept(days, (7, 4, 12), ZoneInfo("UTC"))
    assert kept[-1] == days[-1]
    assert len(kept) <= 7 + 4 + 12
    assert len({each.taken_at.date() for each in kept[-7:]}) == 7
    assert (days[-1].taken_at - kept[0].taken_at).days > 300
    for _ in range(5):
        add(tenant, 300)
        take_backup(tenant, repository)
    removed = prune(repository, "main", (1, 1, 1), ZoneInfo("UTC"))
    assert len(removed) == 4
    (left,) = repository.snapshots()
    assert find_damage(repository, left) == []
    assert repository.sizes().keys() == left.objects.keys()


def test_a_place_is_verified_with_the_backups_of_every_tenant_in_it(used: Tenant, repository: Repository):
    take_backup(used, repository)
    work = Tenant(used.settings, "work")
    create_tenant(work)
    take_backup(work, repository)

    def verified(*options: str) -> tuple[int, list[str]]:
        done = CliRunner().invoke(cli, ["backup", "verify", str(repository.target), "--json", *options])
        return done.exit_code, [each["backup"]["tenant"] for each in json.loads(done.output)["backups"]]

    assert verified() == (0, ["main", "work"])
    assert verified("--tenant", "work") == (0, ["work"])


def test_a_tenant_whose_backup_cannot_be_checked_hides_no_other(tenant: Tenant, repository: Repository, tmp_path: Path):
    from pyrage import x25519  # pyright: ignore[reportAttributeAccessIssue]

    recipient, (secret, place) = str(x25519.Identity.generate().to_public()), map(tmp_path.joinpath, ("identity", "backups"))
    secret.write_text(f"{x25519.Identity.generate()}\n")
    tenants = [Tenant(tenant.settings, name) for name in ("broken", "foreign", "main", "young")]
    for each in tenants:
        create_tenant(each)
        add(each, 1)
    foreign = Repository(str(place), Cipher(recipient))
    broken, _, main = (take_backup(each, foreign if each.name == "foreign" else repository) for each in tenants[:3])
    Path(repository.target, "snapshots", f"{broken.name}.json").write_text("x")
    take_backup(tenants[3], repository)
    settings = tenant.settings.model_copy(update={"backup_identity": secret})
    found = verify(settings, repository.target, None, main.taken_at).backups
    assert [(each.tenant, bool(each.damage)) for each in found] == [("broken", True), ("foreign", True), ("main", False)]
    with pytest.raises(NotFoundError, match="no backup"):
        verify(settings, repository.target, None, datetime(2020, 1, 1, tzinfo=UTC))


def test_the_commands_move_a_memory_to_another_machine(used: Tenant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    config = tmp_path / "settings" / "memory.toml"
    config.parent.mkdir()
    monkeypatch.setenv("MEMORY_CONFIG", str(config))
    held = "MEMORY_LOCK_TIMEOUT = 20\ndecay_rate = 0.02\n"
    config.write_text(f'{held}tana_token = "very-secret"\nMEMORY_METRICS_TOKEN = "very-secret"\n')
    place = str(tmp_path / "stick")
    done = CliRunner().invoke(cli, ["backup", place])
    assert done.exit_code == 0, done.output
    assert "30 memories" in done.output
    assert "nothing new" in CliRunner().invoke(cli, ["backup", place]).output
    assert len(json.loads(CliRunner().invoke(cli, ["backup", "list", place, "--json"]).output)["backups"]) == 1
    assert CliRunner().invoke(cli, ["backup", "verify", place]).exit_code == 0
    expected = rows(used)
    config.unlink()
    monkeypatch.setenv("MEMORY_DATA_DIR", str(tmp_path / "new"))
    done = CliRunner().invoke(cli, ["restore", place, "--as-of", "0d", "--with-settings"])
    assert done.exit_code == 0, done.output
    assert str(config) in done.output
    monkeypatch.setenv("MEMORY_CONFIG", str(config))
    assert rows(Tenant(load_settings())) == expected
    assert config.read_text() == held


def test_restored_settings_are_toml_and_leave_the_data_where_the_new_machine_keeps_it(
    used: Tenant, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    config = Path(os.environ["XDG_CONFIG_HOME"], "memory_assets", "memory.toml")
    config.parent.mkdir(parents=True)
    held = 'tana_workspace = "Zuhause 🏡"\n'
    places = "".join(f'{name} = "/old/machine"\n' for name in ("data_dir", "MEMORY_VECTORS_URI", "catalog_uri", "state_uri"))
    config.write_text(places + held, encoding="utf-8")
    snapshot = take_backup(used, repository)
    config.unlink()
    new = Tenant(load_settings(data_dir=tmp_path / "new"))
    restore_backup(repository, snapshot, new, settings_file=config)
    assert config.read_text(encoding="utf-8") == held
    assert rows(Tenant(load_settings(data_dir=tmp_path / "new"))) == rows(used)


def test_a_restore_writes_no_table_while_the_size_of_files_is_limited(used: Tenant, repository: Repository, tmp_path: Path):
    snapshot = take_backup(used, repository)
    new = Tenant(used.settings.model_copy(update={"data_dir": tmp_path / "new"}))
    with limited_files(), pytest.raises(StoreError, match="`ulimit -f`"):
        restore_backup(repository, snapshot, new)
    assert not list(new.settings.data_dir.rglob("*.lance"))
    restore_backup(repository, snapshot, new)
    assert rows(new) == rows(used)


def test_a_backup_as_of_a_time_is_the_newest_before_it(tenant: Tenant, repository: Repository):
    add(tenant, 1)
    first = take_backup(tenant, repository)
    add(tenant, 1)
    second = take_backup(tenant, repository)
    assert repository.require("main", first.taken_at).name == first.name
    assert repository.require("main", second.taken_at + timedelta(seconds=1)).name == second.name


def test_a_backup_from_a_clock_ahead_is_not_the_newest_one_for_ever(tenant: Tenant, repository: Repository):
    ahead = Snapshot(tenant="main", taken_at=datetime.now(UTC) + timedelta(days=365), program="")
    repository.write(ahead)
    add(tenant, 1)
    snapshot = take_backup(tenant, repository)
    assert [each.name for each in repository.snapshots()] == [ahead.name, snapshot.name]
    assert repository.require("main").name == snapshot.name


def test_a_tenant_made_again_leaves_the_last_backup_of_the_deleted_one(used: Tenant, repository: Repository):
    old = backup(used, repository.target).backup
    delete_tenant(used)
    again = Tenant(used.settings)
    add(again, 1)
    for _ in range(2):
        new = backup(again, repository.target).backup
        assert [each.taken_at for each in repository.snapshots()] == [old.taken_at, new.taken_at]


def test_a_place_within_the_data_folder_or_none_is_refused(used: Tenant, settings: Settings):
    with pytest.raises(InvalidInputError, match="elsewhere"):
        backup(used, str(settings.data_dir / "backups"))
    link = settings.data_dir.with_name("link")
    link.symlink_to(settings.data_dir)
    with pytest.raises(InvalidInputError, match="elsewhere"):
        backup(used, str(link / "backups"))
    with pytest.raises(InvalidInputError, match="MEMORY_BACKUP_TO"):
        backup(used)


@pytest.mark.parametrize("damaged", [b"{", b"5", b"\xff"])
def test_a_damaged_list_of_places_stops_no_backup(used: Tenant, tmp_path: Path, damaged: bytes):
    used.state.put("backups.json", damaged)
    assert places_of(used) == []
    place = str(tmp_path / "backups")
    backup(used, place)
    assert places_of(used) == [place]


def test_a_folder_that_vanishes_before_it_is_locked_is_said(repository: Repository, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Path, "mkdir", lambda *_, **__: None)
    with pytest.raises(StoreError, match="No such file or directory"), repository.locked():
        pytest.fail("nothing is locked")


def test_what_a_killed_backup_pinned_goes_with_the_next_one(used: Tenant, repository: Repository):
    (used.folder / ".pinned" / "vectors" / "memories.lance").mkdir(parents=True)
    take_backup(used, repository)
    assert not (used.folder / ".pinned").exists()


def test_a_full_data_disk_is_not_taken_for_the_disk_of_the_backup(
    tenant: Tenant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    add(tenant, 1)
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    monkeypatch.setattr("os.link", Mock(side_effect=full))
    monkeypatch.setattr("shutil.copyfile", Mock(side_effect=full))
    with pytest.raises(StoreError, match=rf"{tenant.folder}.*No space left.*make room.*memory export FILE"):
        backup(tenant, str(tmp_path / "backups"))
