"""`memory run` reports an unchanged world without Dagster and LanceDB, and never misses a change."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest
from click.testing import CliRunner

import memory_assets
from memory_assets.cli.main import cli
from memory_assets.errors import MemoryAssetsError
from memory_assets.graph.relevance import explain, refresh_relevance
from memory_assets.ingest import stamps
from memory_assets.ingest.direct import store_memories
from memory_assets.learn.briefing import renew_brief
from memory_assets.models import NewMemory, Source, State
from memory_assets.operations.answers import LocalTime
from memory_assets.operations.run import Ran, run
from memory_assets.operations.status import status
from memory_assets.settings import load_settings
from memory_assets.stores.access_log import AccessLog
from memory_assets.tana.config import in_use
from memory_assets.tenants import Tenant
from memory_assets_tests.conftest import WriteSilo
from memory_assets_tests.defs.test_checks import spoil_vectors

NOTE = NewMemory("Alice debugged the DuckDB lock in Atlas.", Source.CLI)


def run_once(on_message: Callable[[str, str], None] = lambda *_: None) -> Ran:
    """Run with a newly opened tenant, like a separate process."""
    return run(Tenant(load_settings()), on_message, lambda _: None)


def look() -> dict[str, str]:
    """Return the current world."""
    world = stamps.RunFingerprint.take(Tenant(load_settings()))
    assert world
    return asdict(world)


def read_note() -> dict[str, str] | None:
    """Return the world that the last run noted, if it was sure that nothing was left to do."""
    note = Tenant(load_settings()).folder / stamps.FINGERPRINT_FILE
    return json.loads(note.read_bytes())["world"] if note.exists() else None


def test_an_unchanged_world_is_told_without_importing_dagster_or_lancedb_and_no_change_is_hidden(
    write_silo: WriteSilo, tenant: Tenant, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class StartedError(Exception):
        pass

    def stop(_step: str, _said: str) -> None:
        raise StartedError

    silo = write_silo("owner", "Priya owns the billing export.")
    store_memories(tenant, [NOTE])
    pipeline = tmp_path / "pipeline"
    pipeline.mkdir()
    (pipeline / "meta.json").write_text("{}")
    assert run_once().assets
    (number, *_) = tenant.memories.scan(("id",))["id"].to_pylist()
    program = """
import sys
from click.testing import CliRunner
from memory_assets.cli.main import cli
done = CliRunner().invoke(cli, ["run"])
assert done.exit_code == 0, done.output
assert "Nothing changed since the last run" in done.output, done.output
heavy = {"dagster", "lancedb", "duckdb", "pyarrow", "spacy", "rich", "sqlalchemy"} & sys.modules.keys()
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert run_once(stop).unchanged_since
    assert read_note() == look()
    for note in ("", "[]", '{"world": {}}', '{"world": {"given": ""}, "ended_at": 5}'):
        (tenant.folder / stamps.FINGERPRINT_FILE).write_text(note)
        with pytest.raises(StartedError):
            run_once(stop)

    def edit_at_the_same_size() -> None:
        silo.write_text(silo.read_text().replace("Priya", "Leila"))

    class Tomorrow(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime(2199, 1, 1, tzinfo=tz)

    def cut(path: Path) -> None:
        os.truncate(path, path.stat().st_size // 2)

    changes: dict[str, Callable[[], object]] = {
        "a file is edited, its size stays": edit_at_the_same_size,
        "a file is written": lambda: silo.write_text(silo.read_text() + "It was checked twice.\n"),
        "a file is new": lambda: write_silo("second", "Leila moved the rota."),
        "a file goes": silo.unlink,
        "seed.json comes": lambda: (tenant.settings.pai_seed.parent.mkdir(), tenant.settings.pai_seed.write_text("{}")),
        "a memory is stored": lambda: store_memories(tenant, [NewMemory("Leila moved the rota.", Source.CLI)]),
        "a memory is forgotten": lambda: tenant.memories.transition([number], (State.ACTIVE,), State.FORGOTTEN),
        "a memory is recalled": lambda: AccessLog(tenant.state).record([number], datetime.now(UTC)),
        "a setting": lambda: monkeypatch.setenv("MEMORY_DECAY_RATE", "0.5"),
        "another pipeline": lambda: monkeypatch.setenv("MEMORY_SPACY_MODEL", str(pipeline)),
        "the pipeline is trained anew in place": lambda: (pipeline / "meta.json").write_text('{"version": "2"}'),
        "another embedder": lambda: monkeypatch.setenv("MEMORY_EMBEDDER", "ollama"),
        "names of the user's own": lambda: (tenant.folder / "gazetteer.toml").write_text('[PROJECT]\n"Atlas" = []\n'),
        "a package is installed": lambda: monkeypatch.syspath_prepend(tmp_path) or monkeypatch.syspath_prepend(tmp_path / "x"),
        "a new day": lambda: monkeypatch.setattr(stamps, "datetime", Tomorrow),
        "the brief is lost": lambda: (tenant.folder / "brief.json").unlink(),
        "scores are computed elsewhere": lambda: refresh_relevance(
            tenant.catalog, tenant.memories, datetime.now(UTC), rate=0.7, archive_threshold=0.2
        ),
        "the store is made anew": lambda: tenant.state.create_id(anew=True),
        "the catalog is damaged": lambda: cut(tenant.catalog.path),
        "the catalog is lost": tenant.catalog.path.unlink,
    }
    for what, change in changes.items():
        world = stamps.RunFingerprint.take(Tenant(load_settings()))
        change()
        assert stamps.RunFingerprint.take(Tenant(load_settings())) != world, what


def test_after_a_search_only_the_scores_are_computed_and_what_happens_meanwhile_is_taken_in_by_the_next(
    write_silo: WriteSilo, tenant: Tenant
) -> None:
    write_silo("owner", "Priya owns the billing export.")
    run_once()
    (number,) = tenant.memories.scan(("id",))["id"].to_pylist()
    AccessLog(tenant.state).record([number], datetime.now(UTC))
    recorded: list[int] = []

    def recall_again(step: str, said: str) -> None:
        if "relevance" in step and not recorded:
            recorded.append(number)
            AccessLog(tenant.state).record([number], datetime.now(UTC))

    def store_note(step: str, said: str) -> None:
        if (step, said) == ("relevance_scores", "started"):
            store_memories(tenant, [NOTE])

    ran = run_once(recall_again)
    assert recorded
    assert ran.assets.keys() == {"relevance_scores"}
    assert ran.assets["relevance_scores"]["written"] == 1
    assert run_once(store_note).assets.keys() == {"relevance_scores"}
    assert (found := explain(tenant.catalog, number))
    assert found.accesses == 2
    told = status(tenant)
    assert told.unconnected == 1
    assert "1 memory not in it yet; `memory run` connects and scores them" in told.text(LocalTime(UTC))
    assert run_once().assets["graph_edges"]["memories"] == 2
    assert status(tenant).unconnected == 0
    assert run_once().unchanged_since


def test_a_step_that_failed_is_told_in_one_sentence_and_run_again_and_a_failed_check_fails_again(
    write_silo: WriteSilo, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_silo("owner", "Priya owns the billing export.")
    told = pytest.raises(MemoryAssetsError, match="step extracted_features failed: spaCy pipeline 'no_such_model'")
    with monkeypatch.context() as broken, told:
        broken.setenv("MEMORY_SPACY_MODEL", "no_such_model")
        run_once()
    assert read_note() != look()
    found = run_once().assets
    assert (found["silo_files"]["files_read"], found["memories"]["added"]) == (0, 1)
    assert read_note() == look()
    spoil_vectors(tenant)
    assert [check.faults for check in run_once().failed_checks] == [1]
    done = CliRunner().invoke(cli, ["run"])
    assert (done.exit_code, "Run `memory doctor --mend`." in done.stderr) == (1, True)
    assert re.search("silo_files .* 1 rows .* 1 files unchanged", done.stdout)


def test_what_others_write_during_a_run_is_noticed_and_taken_in_by_the_next(write_silo: WriteSilo, tenant: Tenant) -> None:
    silo = write_silo("owner", "Priya owns the billing export.")
    writing = f"import duckdb; duckdb.connect({str(tenant.catalog.path)!r}).execute('INSERT INTO graph_touched VALUES (1, 2)')"

    def write_catalog(step: str, said: str) -> None:
        if (step, said) == ("relevance_scores", "started"):
            subprocess.run([sys.executable, "-c", writing], check=True)

    def write_all_else(step: str, said: str) -> None:
        if (step, said) == ("memories", "started"):
            silo.write_text(silo.read_text() + "It was checked twice.\n")
        if (step, said) == ("relevance_scores", "started"):
            store_memories(tenant, [NOTE])

    assert run_once(write_all_else).assets["graph_edges"]["memories"] == 1
    found = run_once(write_catalog).assets
    assert (found["silo_files"]["files_read"], found["graph_edges"]["memories"]) == (1, 3), (
        "two versions of the file, and the note"
    )
    assert read_note() != look()


def test_a_file_that_appears_in_the_checkout_is_no_change(write_silo: WriteSilo) -> None:
    checkout = Path(memory_assets.__file__).parents[1]
    assert str(checkout) in sys.path
    write_silo("owner", "Priya owns the billing export.")
    before = look()
    with NamedTemporaryFile(dir=checkout, prefix=".appears"):
        assert look() == before


@pytest.mark.parametrize("name", ["pai_config", "pai_seed", "pai_learning_dir"])
def test_a_path_of_others_that_cannot_be_looked_at_holds_no_run_up(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(f"MEMORY_{name.upper()}", f"/{'x' * 300}/there")
    if name == "pai_seed":
        (config := load_settings().pai_config).parent.mkdir(parents=True, exist_ok=True)
        config.write_text('{"tanaIntegration": {"enabled": true}}', encoding="utf-8")
    store_memories(Tenant(load_settings()), [NOTE])
    look()
    renew_brief(Tenant(load_settings()))
    assert not in_use(load_settings())
    assert "the brief was not written" not in caplog.text
