"""Time a backup on a store of synthetic vectors: the first, an incremental one, killed ones, verification and restore.

python benchmarks/backup.py [MEMORIES] [FOLDER]
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import numpy as np

from memory_assets.keeping.copying import take_backup
from memory_assets.keeping.repository import Repository
from memory_assets.keeping.restoring import find_damage, restore_backup
from memory_assets.models import Kind, Memory, RelationType, Source
from memory_assets.operations.backup import format_bytes
from memory_assets.settings import load_settings
from memory_assets.stores.relations import StatedRelation
from memory_assets.stores.rows import new_id
from memory_assets.tenants import Tenant

Result = TypeVar("Result")
_DIMENSION = 384
_BATCH = 10_000
_WORDS = "export billing Alice Bob DuckDB archive moved keeps renewal morning schema because of before after meeting".split()  # noqa: SIM905


def main(count: int, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    tenant = Tenant(load_settings(data_dir=folder / "data"), "bench")
    ids = timed(f"fill {count:,}", lambda: fill(tenant, count))
    print(f"store: {size(tenant.folder)}")
    repository = Repository(str(folder / "backups"))
    first = timed("first backup", lambda: take_backup(tenant, repository))
    print(f"  {format_bytes(first.added_bytes)}")
    unchanged = timed("nothing changed", lambda: take_backup(tenant, repository))
    print(f"  {format_bytes(unchanged.added_bytes)}")
    fill(tenant, 100)
    changed = timed("100 new memories", lambda: take_backup(tenant, repository))
    print(f"  {format_bytes(changed.added_bytes)}")
    fill(tenant, _BATCH)
    kills = [killed(tenant, repository, after) for after in (0.5, 1.0, 1.5, 2.0, 3.0)]
    print(f"killed {sum(kills)} of {len(kills)}")
    last = timed("backup after the kills", lambda: take_backup(tenant, repository))
    print(f"  damage: {timed('verify', lambda: find_damage(repository, last))}")
    restored = Tenant(tenant.settings, "restored")
    done = timed("restore, every row compared", lambda: restore_backup(repository, last, restored))
    columns = tenant.memories.table.schema.names
    before, after = (each.memories.scan(columns).sort_by("id") for each in (tenant, restored))
    print(f"restored {done.rows}; the tables are {'equal' if before.equals(after) else 'DIFFERENT'}; {len(ids):,} at first")
    print(f"repository of {len(repository.snapshots())} backups: {size(Path(repository.target))}")


def fill(tenant: Tenant, count: int) -> list[int]:
    ids: list[int] = []
    for start in range(0, count, _BATCH):
        now = datetime.now(UTC)
        number = min(_BATCH, count - start)
        memories = [
            Memory(new_id(), " ".join(random.choices(_WORDS, k=30)), Kind.NOTE, Source.IMPORT, "", now, now)
            for _ in range(number)
        ]
        vectors = np.random.default_rng(start).normal(size=(number, _DIMENSION)).astype(np.float32)
        tenant.memories.add(memories, vectors / np.linalg.norm(vectors, axis=1, keepdims=True), "synthetic")
        ids += [memory.id for memory in memories]
        tenant.relations.state(StatedRelation(ids[-2], ids[-1], RelationType.RELATES_TO))
    return ids


def killed(tenant: Tenant, repository: Repository, after: float) -> bool:
    """Take a backup in another process and kill it `after` seconds later."""
    environment = os.environ | {"MEMORY_DATA_DIR": str(tenant.settings.data_dir)}
    command = [sys.executable, "-m", "memory_assets.cli", "backup", repository.target, "--tenant", tenant.name]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    while process.poll() is None and not (tenant.folder / ".pinned" / "vectors").exists():
        time.sleep(0.01)
    time.sleep(after)
    process.kill()
    return process.wait() == -signal.SIGKILL


def timed(what: str, work: Callable[[], Result]) -> Result:
    started, used = time.perf_counter(), time.process_time()
    result = work()
    print(f"{what}: {time.perf_counter() - started:.1f} s, {time.process_time() - used:.1f} s of processor time", flush=True)
    return result


def size(folder: Path) -> str:
    return format_bytes(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()))


if __name__ == "__main__":
    main(
        int(sys.argv[1]) if len(sys.argv) > 1 else 100_000,
        Path(sys.argv[2] if len(sys.argv) > 2 else "/tmp/memory-backup-benchmark"),
    )
