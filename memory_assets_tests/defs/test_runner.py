"""`memory run` reports failures, and Dagster records every ending."""

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from threading import Timer

import dagster as dg
import duckdb
import pytest
from click.testing import CliRunner
from dagster._utils.interrupts import raise_interrupts_as

from memory_assets.cli.main import cli, main
from memory_assets.defs import failures, runner
from memory_assets.defs.build import build_defs
from memory_assets.defs.instance import main as set_up_instance
from memory_assets.defs.instance import open_instance
from memory_assets.defs.partitions import PARTITION_SET
from memory_assets.defs.resources import MemoryResource
from memory_assets.errors import MemoryAssetsError
from memory_assets.operations.run import run as remember
from memory_assets.settings import load_settings
from memory_assets.stores.records import OURS
from memory_assets.tenants import Tenant, create_tenant, tenant_names
from memory_assets_tests.conftest import WriteSilo
from memory_assets_tests.defs.conftest import run
from memory_assets_tests.torture import zygote


def quietly(tenant: Tenant) -> None:
    remember(tenant, lambda *_: None, lambda _: None)


def test_a_run_leaves_a_dagster_home_of_somebody_else_alone_ends_a_killed_deletion_and_closes_its_folder_to_others(
    write_silo: WriteSilo, tenant: Tenant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    theirs.chmod(0o755)
    (theirs / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    monkeypatch.setenv("DAGSTER_HOME", str(theirs))
    write_silo("owner", "Priya owns the billing export.")
    left = tenant.settings.data_dir / ".deleted-bob-0123abcd" / "vectors"
    left.mkdir(parents=True)
    home, before = tenant.settings.data_dir / "dagster", os.umask(0)
    try:
        (home / "schedules").mkdir(parents=True)
        (home / "schedules" / "schedules.db").touch()
        monkeypatch.setattr(sys, "argv", ["memory", "run"])
        with pytest.raises(SystemExit) as leaving:
            main()
        assert not leaving.value.code
    finally:
        os.umask(before)
    modes = {each: each.stat().st_mode & 0o777 for each in [home, *home.rglob("*")]}
    assert {each: mode for each, mode in modes.items() if mode != (0o700 if each.is_dir() else 0o600)} == {}
    assert not left.parent.exists()
    assert [(each.name, each.read_text()) for each in theirs.iterdir()] == [("dagster.yaml", "telemetry:\n  enabled: false\n")]
    assert theirs.stat().st_mode & 0o777 == 0o755
    assert f"DAGSTER_HOME={theirs} is not used (its dagster.yaml does not begin with" in caplog.text
    assert (home / "history" / "runs.db").exists()


@pytest.mark.parametrize("named", ["relative", "/proc/nowhere"])
def test_a_dagster_home_that_cannot_be_is_left_alone_or_told(
    tenant: Tenant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DAGSTER_HOME", named)
    told = (
        pytest.raises(MemoryAssetsError, match=r"/proc/nowhere cannot be made .*DAGSTER_HOME")
        if named[0] == "/"
        else nullcontext()
    )
    with told, open_instance(tenant.settings) as instance:
        assert Path(instance.root_directory) == tenant.settings.data_dir / "dagster"
    assert not Path(named).exists()


@pytest.mark.parametrize("text", [b"storage: [\n", b"# M\xfcller\n"])
def test_a_configuration_of_dagster_that_cannot_be_read_is_told_in_one_sentence(
    tenant: Tenant, text: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    home = tenant.settings.data_dir / "dagster"
    home.mkdir(parents=True)
    (home / "dagster.yaml").write_bytes(OURS.encode() + b"\n" + text)
    with pytest.raises(SystemExit) as ended:
        set_up_instance()
    said = str(ended.value.code)
    assert said.startswith("memory: Dagster's configuration") and "\n" not in said
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("step", "next_one"), [("extracted_features", []), ("graph_edges", ["main"])])
def test_a_tenant_that_is_deleted_while_its_run_is_under_way_ends_it_and_leaves_nothing_even_to_a_new_one_of_its_name(
    write_silo: WriteSilo, tenant: Tenant, step: str, next_one: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    write_silo("owner", "Priya owns the billing export.")
    commands = [["delete", "main", "--yes"], *(["create", name] for name in next_one)]

    def on_message(asset: str, _: str) -> None:
        if asset == step and tenant.exists:
            while commands:
                assert not CliRunner().invoke(cli, ["tenant", *commands.pop(0)], catch_exceptions=False).exit_code

    with pytest.raises(MemoryAssetsError, match="tenant 'main' was deleted during"):
        remember(tenant, on_message, lambda _: None)
    assert tenant_names(tenant.settings) == next_one
    assert not tenant.catalog.exists
    assert len(Tenant(tenant.settings).memories) == 0
    with open_instance(tenant.settings) as instance:
        assert not instance.get_runs_count()
        assert not instance.get_dynamic_partitions(PARTITION_SET)
    assert "event log" not in capfd.readouterr().err


def test_a_tenant_that_is_deleted_before_its_run_opens_it_is_not_made_again(tenant: Tenant) -> None:
    create_tenant(tenant)
    deleting: list[zygote.Command] = []

    def on_message(asset: str, _: str) -> None:
        if asset == "learning_entries" and not deleting:
            deleting.append(zygote.shared().start(dict(os.environ), "tenant", "delete", "main", "--yes"))
            while tenant.exists and not deleting[0].ends_within(0.01):
                pass

    with pytest.raises(MemoryAssetsError, match="tenant 'main' was deleted during"):
        remember(tenant, on_message, lambda _: None)
    assert deleting[0].wait().code == 0
    assert not tenant.folder.exists()


def test_a_run_that_begins_after_its_tenant_was_deleted_fails_and_leaves_nothing(
    instance: dg.DagsterInstance, tenant: Tenant
) -> None:
    job = build_defs(MemoryResource()).resolve_job_def("remember")
    ended = job.execute_in_process(instance=instance, partition_key="main", raise_on_error=False)
    assert "There is no tenant 'main'" in str(ended.failure_data_for_node("seed_entries"))
    assert not tenant.folder.exists()


def test_a_run_that_is_interrupted_at_any_step_says_so_and_the_next_one_goes_on(write_silo: WriteSilo, tenant: Tenant) -> None:
    write_silo("owner", "Priya owns the billing export.")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # an earlier test may have changed it
    reached: list[str] = []

    def on_message(asset: str, _: str) -> None:
        if asset == step and asset not in reached:
            reached.append(asset)
            signal.raise_signal(signal.SIGINT)

    steps = ("Dagster", "learning_entries", "memory_entries", "extracted_features", "relevance_scores")
    for canceled, step in enumerate(steps):
        with pytest.raises(KeyboardInterrupt):
            remember(Tenant(load_settings()), on_message, lambda _: None)
        with open_instance(tenant.settings) as instance:
            assert [each.status for each in instance.get_runs()] == [dg.DagsterRunStatus.CANCELED] * canceled, step
    quietly(tenant)
    assert len(tenant.memories) == 1


def test_an_interruption_that_a_library_turns_into_its_own_failure_is_still_one(
    write_silo: WriteSilo, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_silo("owner", "Priya owns the billing export.")

    def fail(*_: object) -> None:
        previous = signal.signal(signal.SIGINT, lambda *_: None)
        signal.raise_signal(signal.SIGINT)
        signal.signal(signal.SIGINT, previous)
        raise sqlite3.OperationalError("interrupted")

    monkeypatch.setattr(runner, "sweep_runs", fail)
    done = CliRunner().invoke(cli, ["run"])
    assert (done.exit_code, done.stderr) == (130, "memory: Stopped. `memory run` goes on from here.\n")


@pytest.mark.parametrize("interruption", [dg.DagsterExecutionInterruptedError, KeyboardInterrupt])
def test_a_signal_during_a_query_ends_the_run_and_is_no_fault(interruption: type[BaseException]) -> None:
    @failures.translate_errors
    def query() -> None:
        with duckdb.connect(config={"threads": 1}) as connection:
            Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
            connection.execute("SELECT max(hash(a.range, b.range)) FROM range(1_000_000) a, range(300) b")

    with raise_interrupts_as(interruption), pytest.raises(interruption):
        query()


def test_a_locked_catalog_delays_a_run_and_does_not_fail_it(
    write_silo: WriteSilo, tenant: Tenant, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_silo("owner", "Priya owns the billing export.")
    with tenant.catalog.write():
        pass
    monkeypatch.setenv("MEMORY_LOCK_TIMEOUT", "0.1")
    monkeypatch.setattr(failures, "_PAUSE_SECONDS", 0.1)
    holding = f"import duckdb, time; held = duckdb.connect({str(tenant.catalog.path)!r}); print(1, flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", holding], stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        holder.stdout.readline()
        retry = dg.RetryRequested

        def let_go(most: int, seconds: float) -> dg.RetryRequested:
            holder.kill()
            holder.wait()
            return retry(most, seconds)

        monkeypatch.setattr(failures.dg, "RetryRequested", let_go)
        result = run(instance, asset_selection=[dg.AssetKey("silo_files")])
    assert result.success
    assert any(event.is_step_up_for_retry for event in result.all_events)


def test_what_a_foreign_exception_quotes_is_not_recorded(tmp_path: Path) -> None:
    @dg.asset
    @failures.translate_errors
    def choking() -> None:
        row = "the vault code is 4711"
        try:
            int(row)
        except ValueError as error:
            raise RuntimeError(row) from error

    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        result = dg.materialize([choking], instance=instance, raise_on_error=False)
    (failure,) = [event for event in result.all_events if event.is_step_failure]
    data = failure.step_failure_data.user_failure_data
    assert data
    assert "RuntimeError in choking" in (data.description or "")
    assert "test_runner.py" in str(data.metadata["where"].value)
    assert not [each for each in tmp_path.rglob("*") if each.is_file() and b"vault code is" in each.read_bytes()]
