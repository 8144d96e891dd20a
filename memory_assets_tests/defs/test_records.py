"""Dagster's records are written atomically, and damaged ones do not block a run."""

import logging
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from dagster._core.storage.schedules import SqliteScheduleStorage
from sqlalchemy import Engine, event

from memory_assets.cli.main import cli
from memory_assets.defs import storage
from memory_assets.defs.instance import open_instance
from memory_assets.defs.partitions import PARTITION_SET
from memory_assets.doctor import Finding, examine
from memory_assets.errors import StoreError
from memory_assets.settings import Settings, load_settings
from memory_assets.stores import records
from memory_assets.stores.records import OURS, instance_home
from memory_assets.tenants import Tenant
from memory_assets_tests.conftest import WriteSilo
from memory_assets_tests.torture import zygote


def use(settings: Settings) -> None:
    with open_instance(settings) as instance:
        instance.add_dynamic_partitions(PARTITION_SET, ["main"])
        assert instance.get_dynamic_partitions(PARTITION_SET) == ["main"]
        assert not instance.get_runs()


def use_folder(data_dir: Path) -> None:
    use(load_settings(data_dir=data_dir))


def empty(file: Path) -> None:
    file.write_bytes(b"")


def overwrite(file: Path) -> None:
    file.write_bytes(b"no database" * 1_000)


def drop_marks(file: Path) -> None:
    """Delete the marks of finished indexes, as if the writer had been killed before it wrote them."""
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("DELETE FROM secondary_indexes")
        connection.commit()


@pytest.mark.parametrize(
    ("damage", "file"),
    [
        (empty, "history/runs/index.db"),
        (drop_marks, "history/runs/index.db"),
        (overwrite, "history/runs.db"),
        (Path.unlink, "history/runs.db"),
        (empty, "schedules/schedules.db"),
    ],
)
def test_damaged_records_are_set_aside_in_one_sentence(
    settings: Settings, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], object], file: str
) -> None:
    use(settings)
    home = instance_home(settings)
    damage(home / file)
    for _ in range(2):
        use(settings)
    folder = home / file.partition("/")[0]
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(told) == 1
    assert told[0].startswith(f"memory: Dagster's records in {folder} were damaged ({Path(file).name}")
    assert {each.name for each in home.iterdir()} >= {"history", "schedules", f"{folder.name}.damaged"}


def test_a_process_that_is_killed_while_it_makes_the_records_leaves_no_half_of_them(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def be_killed(_folder: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(storage, "prepare_records", records.prepare_records.__wrapped__)  # pyright: ignore[reportFunctionMemberAccess]
        patched.setattr(SqliteScheduleStorage, "from_local", be_killed)
        with pytest.raises(KeyboardInterrupt):
            use(settings)
    home = instance_home(settings)
    assert not (home / "history").exists()
    use(settings)
    assert {each.name for each in home.iterdir()} == {"dagster.yaml", "history", "schedules"}
    assert not caplog.records


def test_processes_that_make_the_records_at_once_hinder_none(settings: Settings) -> None:
    started = [zygote.shared().call(use_folder, settings.data_dir) for _ in range(4)]
    assert [each.wait().code for each in started] == [0, 0, 0, 0]


def test_a_partition_that_another_process_adds_meanwhile_is_no_error(settings: Settings) -> None:
    index = instance_home(settings) / "history/runs/index.db"

    def add_first(_: object, __: object, statement: str, *___: object) -> None:
        if statement.startswith("INSERT INTO dynamic_partitions"):
            with closing(sqlite3.connect(index)) as connection:
                row = (PARTITION_SET, "main")
                connection.execute("INSERT INTO dynamic_partitions (partitions_def_name, partition) VALUES (?, ?)", row)
                connection.commit()

    with open_instance(settings) as instance:
        event.listen(Engine, "before_cursor_execute", add_first)
        try:
            instance.add_dynamic_partitions(PARTITION_SET, ["main"])
        finally:
            event.remove(Engine, "before_cursor_execute", add_first)
        assert instance.get_dynamic_partitions(PARTITION_SET) == ["main"]


def test_damage_within_a_file_is_told_by_the_run_and_mended_by_the_doctor(write_silo: WriteSilo, tenant: Tenant) -> None:
    write_silo("owner", "Priya owns the billing export.")
    use(tenant.settings)
    home = instance_home(tenant.settings)
    runs = home / "history/runs.db"
    with closing(sqlite3.connect(runs)) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'runs'").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    with runs.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
    with pytest.raises(StoreError, match=r"records in .* are damaged \(.*malformed\); run `memory doctor --mend`"):
        use(tenant.settings)
    done = CliRunner().invoke(cli, ["run"])
    assert isinstance(done.exception, StoreError)
    (fault,) = [each for each in examine(tenant) if "Dagster" in each.what]
    assert fault.level == "fault"
    assert str(home / "history") in fault.what
    CliRunner().invoke(cli, ["doctor", "--mend"])
    assert not _told_of_records(tenant)
    assert CliRunner().invoke(cli, ["run"]).exit_code == 0
    assert not _told_of_records(tenant)


def test_records_that_cannot_be_opened_are_named_with_the_mend_by_the_run_and_the_doctor(tenant: Tenant) -> None:
    use(tenant.settings)
    runs = instance_home(tenant.settings) / "history/runs.db"
    runs.unlink()
    runs.mkdir()
    told = f"Dagster's records in {instance_home(tenant.settings)} cannot be written (unable to open database file)"
    mend = "give yourself write access there, and run the command again."
    with pytest.raises(StoreError) as failure:
        use(tenant.settings)
    assert str(failure.value) == f"{told}; {mend}"
    assert [(each.level, each.what, each.mend) for each in _told_of_records(tenant)] == [("fault", told, mend)]


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("defs.storage", "defs.gone"), ("class: Storage", "class: Gone"), ("telemetry:", "telemetrie:"), ("telemetry:", "- :")],
)
def test_a_configuration_that_dagster_cannot_use_is_told_with_the_mend(tenant: Tenant, right: str, wrong: str) -> None:
    use(tenant.settings)
    config = instance_home(tenant.settings) / "dagster.yaml"
    config.write_text(config.read_text().replace(right, wrong))
    with pytest.raises(StoreError) as failure:
        use(tenant.settings)
    assert str(failure.value).startswith(f"Dagster's configuration {config} cannot be used (")
    assert str(failure.value).endswith("; mend it, or move it away, and the next run writes another.")
    config.unlink()
    use(tenant.settings)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("{env: DAGSTER_HOME}", "{env: NOT_SET_HERE}"),
        (
            "defs.launcher\n  class: ProcessLauncher",
            "defs.workers\n  class: WorkerLauncher\n  config: {broker: {env: NOT_SET_HERE}}",
        ),
    ],
    ids=["of the storage", "of the launcher"],
)
def test_a_variable_that_dagsters_configuration_needs_is_named(tenant: Tenant, right: str, wrong: str) -> None:
    use(tenant.settings)
    config = instance_home(tenant.settings) / "dagster.yaml"
    config.write_text(config.read_text().replace(right, wrong))
    with pytest.raises(StoreError) as failure, open_instance(tenant.settings) as instance:
        assert instance.run_launcher
    assert str(failure.value) == f"Dagster's configuration {config} needs NOT_SET_HERE, which is not set; set it."


def test_postgresql_that_does_not_answer_is_named_with_the_mend(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    retries = pytest.importorskip("dagster_postgres.utils", reason="the extra [cluster] is not installed")
    monkeypatch.setattr(retries, "calculate_delay", lambda **_: 0)
    monkeypatch.setenv("DAGSTER_POSTGRES_URL", "postgresql://nobody:hidden@127.0.0.1:9/none")
    use(tenant.settings)
    config = instance_home(tenant.settings) / "dagster.yaml"
    config.write_text(f"{OURS}\nstorage: {{postgres: {{postgres_url: {{env: DAGSTER_POSTGRES_URL}}}}}}\n")
    with pytest.raises(
        StoreError, match=r"PostgreSQL cannot be used \(.*refused.*\); check PostgreSQL and DAGSTER_POSTGRES_URL"
    ) as failure:
        use(tenant.settings)
    assert "hidden" not in str(failure.value)


def _told_of_records(tenant: Tenant) -> list[Finding]:
    return [each for each in examine(Tenant(tenant.settings)) if "Dagster" in each.what]
