"""Cost of `memory export` relative to the size of its output."""

import json
import os
import resource
import signal
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from memory_assets.cli.keep import export as command
from memory_assets.cli.main import main
from memory_assets.errors import InvalidInputError, StoreError
from memory_assets.models import Kind, Memory, Source
from memory_assets.operations import exchange
from memory_assets.operations.erase import erase
from memory_assets.stores.memories import MemoryStore
from memory_assets.stores.rows import new_id
from memory_assets.tenants import Tenant
from memory_assets_tests.torture import zygote


def fill(tenant: Tenant, count: int) -> None:
    """Give a tenant this many memories of about 2 kB."""
    now = datetime.now(UTC)
    memories = [Memory(new_id(), f"{number} " + "Alice " * 330, Kind.NOTE, Source.CLI, "", now, now) for number in range(count)]
    tenant.memories.put(memories, np.full((count, 4), 0.5, np.float32), "test")


def test_an_export_holds_a_few_memories_at_a_time(tenant: Tenant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory_assets.stores.memories._BATCH_ROWS", 100)
    count = 1_000
    fill(tenant, count)
    file = tmp_path / "all.jsonl"
    CliRunner().invoke(command, [str(tmp_path / "once.jsonl")])
    tracemalloc.start()
    done = CliRunner().invoke(command, [str(file)])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert done.exit_code == 0, done.output
    lines = file.read_text().splitlines()
    assert {json.loads(line)["id"] for line in lines} == set(tenant.memories.scan(("id",))["id"].to_pylist())
    assert len(lines) == count
    assert peak < file.stat().st_size / 2
    assert max(len(memories) for memories in tenant.memories.batches()) <= count / 10


def test_an_export_that_fails_midway_leaves_the_old_file(tenant: Tenant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tenant, 1)
    file = tmp_path / "all.jsonl"
    file.write_text("old")
    whole = MemoryStore.batches

    def torn(store: MemoryStore):
        batches = whole(store)
        yield next(batches)
        raise StoreError("The memories cannot be read.")

    monkeypatch.setattr(MemoryStore, "batches", torn)
    done = CliRunner().invoke(command, [str(file)])
    assert done.exit_code
    assert file.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == ["all.jsonl"]


def test_an_export_that_is_ended_leaves_no_file(tenant: Tenant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "_memory_lines", lambda _tenant: signal.raise_signal(signal.SIGTERM) or iter(()))
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGHUP)}
    (tmp_path / "out").mkdir()
    try:
        ended = CliRunner().invoke(command, [str(tmp_path / "out" / "export.jsonl")])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert (ended.exit_code, list((tmp_path / "out").iterdir())) == (128 + signal.SIGTERM, [])


def test_an_export_counts_what_it_wrote_beside_an_erasure(
    tenant: Tenant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tenant, 3)
    (number, *_) = tenant.memories.scan(("id",))["id"].to_pylist()
    whole = MemoryStore.batches

    def erased_meanwhile(store: MemoryStore):
        yield from whole(store)
        erase(Tenant(tenant.settings), [number], confirm=True)

    file = tmp_path / "all.jsonl"
    with monkeypatch.context() as patched:
        patched.setattr(MemoryStore, "batches", erased_meanwhile)
        done = CliRunner().invoke(command, [str(file), "--json"])
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert json.loads(done.output)["memories"] == sum("content" in line for line in lines) == 3
    assert sum("erased_at" in line for line in lines) == 1


def test_an_export_goes_into_a_pipe_and_through_a_link_and_replaces_neither(tenant: Tenant, tmp_path: Path) -> None:
    fill(tenant, 100)  # more than a pipe holds
    pipe, link, target = tmp_path / "pipe", tmp_path / "link.jsonl", tmp_path / "target.jsonl"
    os.mkfifo(pipe)
    target.write_text("old")
    link.symlink_to(target)
    with ThreadPoolExecutor(1) as reader:
        read = reader.submit(pipe.read_text)
        for file in (pipe, link):
            done = CliRunner().invoke(command, [str(file)])
            assert done.exit_code == 0, done.output
    assert pipe.is_fifo()
    assert link.is_symlink()
    assert len(target.read_text().splitlines()) == 100
    assert read.result() == target.read_text()


@pytest.mark.parametrize("place", ["a" * 300, "file/below"])
def test_where_no_file_can_be_an_export_says_so_in_a_sentence(tenant: Tenant, tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInputError, match="name another one"):
        CliRunner().invoke(command, [str(tmp_path / place)], catch_exceptions=False)
    assert sorted(each.name for each in tmp_path.iterdir() if each.name != "home") == ["file"]


def _export_with_small_files(file: str) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_096, 4_096))
    sys.argv[1:] = ["export", file]
    main()


def test_an_export_above_the_limit_of_a_file_says_so_in_a_sentence_and_leaves_the_old_one(tenant: Tenant, tmp_path: Path) -> None:
    fill(tenant, 100)
    file = tmp_path / "all.jsonl"
    file.write_text("old")
    ended = zygote.shared().call(_export_with_small_files, str(file)).wait()
    assert (ended.code, len(ended.err.splitlines())) == (1, 1), ended.err
    assert "raise `ulimit -f`" in ended.err
    assert file.read_text() == "old"
