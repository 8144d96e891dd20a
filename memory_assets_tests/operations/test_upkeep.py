"""Memories written one by one are compacted as they arrive, through every interface."""

import os
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest

from memory_assets.errors import StoreError
from memory_assets.models import NewMemory, RelationType, Source
from memory_assets.operations.relate import relate
from memory_assets.operations.search import search
from memory_assets.operations.show import recent
from memory_assets.operations.store import store
from memory_assets.settings import Settings
from memory_assets.stores import upkeep
from memory_assets.stores.tables import StoredTable
from memory_assets.tenants import Tenant


def fragments(stored: StoredTable) -> int:
    """Files that hold a table's rows."""
    return cast("dict[str, Any]", stored.reading.stats())["fragment_stats"]["num_fragments"]


def test_what_an_assistant_stores_and_relates_one_by_one_is_compacted(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "_WORTH_MERGING", 4)
    for number in range(7):
        store(tenant, NewMemory(f"Alice wrote note {number}.", Source.MCP))
    numbers = [each.id for each in recent(tenant, limit=7).memories]
    for one, other in pairwise(numbers):
        relate(tenant, one, RelationType.RELATES_TO, other, stated_by=Source.MCP)
    assert fragments(tenant.memories.stored) <= 4
    assert fragments(tenant.relations.stored) <= 4
    assert tenant.relations.scan().num_rows == 6


def test_what_is_stored_is_answered_whatever_becomes_of_the_merging(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_upkeep: object) -> bool:
        raise StoreError("No space left on device.")

    monkeypatch.setattr(upkeep.Upkeep, "optimize", full)
    one, other = (store(tenant, NewMemory(f"Alice wrote note {number}.", Source.MCP)) for number in range(2))
    relate(tenant, one.id, RelationType.RELATES_TO, other.id, stated_by=Source.MCP)
    assert (len(tenant.memories), len(tenant.relations)) == (2, 1)


@pytest.mark.parametrize("missing", [False, True])
def test_where_temporary_files_go_is_said_before_lancedb_has_threads_that_read_it(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, missing: bool
) -> None:
    assert "TMPDIR" not in os.environ
    if missing:
        monkeypatch.setenv("TMPDIR", str(tmp_path / "missing"))
    _ = Tenant(settings).memories
    assert os.environ["TMPDIR"] == str(settings.data_dir / "tmp")


def test_reading_a_store_makes_no_folder_for_temporary_files(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    store(Tenant(settings), NewMemory("Alice wrote a note.", Source.CLI))
    monkeypatch.delenv("TMPDIR", raising=False)
    temporary = Path(settings.data_dir) / "tmp"
    if temporary.exists():
        temporary.rmdir()
    reader = Tenant(settings)
    assert search(reader, "note").memories
    assert len(reader.relations.scan()) == 0
    assert not temporary.exists()
    (found,) = recent(reader).memories
    second = store(reader, NewMemory("Bob wrote another.", Source.CLI))
    relate(reader, found.id, RelationType.RELATES_TO, second.id, stated_by="cli")
    assert temporary.is_dir()
