"""The sleep cycles as operations: their answers as text and as JSON."""

import json
import os
import subprocess
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from memory_assets.cli.main import cli
from memory_assets.errors import MemoryAssetsError
from memory_assets.graph.clusters import Cluster
from memory_assets.ingest.direct import store_memories
from memory_assets.models import NewMemory, Source, State
from memory_assets.operations.answers import LocalTime
from memory_assets.operations.consolidate import Clustered, decay, forget
from memory_assets.operations.exchange import export
from memory_assets.settings import load_settings
from memory_assets.stores.filters import Filters
from memory_assets.tenants import Tenant

LOCAL = LocalTime(UTC)


@pytest.fixture
def aged(monkeypatch: pytest.MonkeyPatch) -> Tenant:
    """A tenant with three memories, two of them years old."""
    monkeypatch.setenv("MEMORY_FORGET_GRACE_DAYS", "0")
    monkeypatch.setenv("MEMORY_ARCHIVE_THRESHOLD", "0.5")
    tenant = Tenant(load_settings())
    old = datetime.now(UTC) - timedelta(days=2_000)
    given = [
        NewMemory("Redis was slow on a Tuesday.", Source.CLI, created_at=old, importance=0.1),
        NewMemory("The lamp in the corner flickered.", Source.CLI, created_at=old, importance=0.1),
        NewMemory("Priya owns the billing export.", Source.CLI, importance=0.9),
    ]
    store_memories(tenant, given)
    return tenant


def test_a_cleaning_says_what_would_go_asks_where_that_is_much_and_archives_it(aged: Tenant) -> None:
    looked = forget(aged, dry_run=True)
    assert (looked.active, looked.scored, looked.held_back) == (3, 3, True)
    assert {each.name for each in looked.archived} == {"Redis was slow on a Tuesday.", "The lamp in the corner flickered."}
    assert "2 would be archived" in looked.text(LOCAL)
    assert "more than 10% of the 3 active memories, so nothing would be done" in looked.text(LOCAL)
    refused = CliRunner().invoke(cli, ["consolidate", "forget", "--json"])
    assert (refused.exit_code, json.loads(refused.output)["held_back"]) == (1, True)
    assert aged.memories.count(Filters()) == 3
    done = forget(aged, however_many=True)
    assert (done.held_back, len(done.archived), done.deleted, done.file) == (False, 2, (), None)
    assert f"`forget {done.archived[0].id} --restore` brings one back" in done.text(LOCAL)
    kept = done.model_copy(update={"file": "kept.jsonl"}).text(replace(LOCAL, program="memory --tenant ann "))
    assert "`memory --tenant ann import kept.jsonl` brings them back" in kept
    states = {memory.id: memory.state for memory in aged.memories.get([each.id for each in done.archived])}
    assert set(states.values()) == {State.ARCHIVED}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a file system")
def test_a_full_disk_is_told_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", str(disk)], check=True)
    try:
        monkeypatch.setenv("MEMORY_DATA_DIR", str(disk))
        monkeypatch.setenv("MEMORY_CREATIVE_SIMILARITY", "0")
        tenant = Tenant(load_settings())
        texts = (f"The heron fished at pond {number} on a {day}." for number in range(12) for day in ("Monday", "Friday"))
        store_memories(tenant, [NewMemory(text, Source.CLI) for text in texts])
        decay(tenant)
        with (disk / "filler").open("wb", buffering=0) as filler, suppress(OSError):
            while filler.write(b"0" * 4096):
                pass
        for cycle in ("decay", "creative", "cluster"):
            done = CliRunner().invoke(cli, ["consolidate", cycle])
            assert done.exception is None or isinstance(done.exception, SystemExit | MemoryAssetsError), cycle
            assert done.exit_code == 1 or cycle == "decay", done.output
        assert tenant.memories.count(Filters()) == 24
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_decay_that_only_looks_says_so(aged: Tenant) -> None:
    lines = decay(aged, dry_run=True).text(LOCAL).splitlines()
    assert lines[0] == "3 memories scored, 3 scores would change, 0 back from the archive"
    assert sum(int(line.split()[3]) for line in lines[2:]) == 3


def test_a_long_list_names_how_much_is_left_out() -> None:
    found = tuple(Cluster(id=n, label="atlas", summary="About it.", members=(1, 2), cohesion=1) for n in range(25))
    answer = Clustered(dry_run=True, memories=50, kept=0, founded=25, dissolved=0, written=0, clusters=found)
    told = answer.text(LOCAL)
    assert told.startswith("25 clusters among 50 memories: 0 kept, 25 new, 0 dissolved (nothing written)")
    assert told.endswith("and 5 more; --json lists all")
    assert len(json.loads(answer.model_dump_json())["clusters"]) == 25


def test_an_export_answers_with_where_it_went(aged: Tenant, tmp_path: Path) -> None:
    file = tmp_path / "all.jsonl"
    done = CliRunner().invoke(cli, ["export", str(file), "--json"])
    assert json.loads(done.stdout) == {"file": str(file), "memories": 3}
    assert export(aged, file).text(LOCAL) == f"3 memories written to {file}"
