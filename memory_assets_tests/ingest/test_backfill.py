"""A change of embedder resumes after a kill and misses no memory stored meanwhile."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from memory_assets.errors import StoreError
from memory_assets.ingest import backfill
from memory_assets.language.embedders.calibration import PLACES
from memory_assets.language.embedders.e5 import E5_INSTALL_COMMAND, E5_NAME, e5_is_installed
from memory_assets.language.embedders.protocol import Embedder, EmbedderError, Role
from memory_assets.models import Kind, Memory, NewMemory, Source
from memory_assets.operations.store import store as remember
from memory_assets.recall.search import search
from memory_assets.settings import Settings
from memory_assets.stores import embedding_columns, lance
from memory_assets.stores.memories import Filters, MemoryStore
from memory_assets.stores.rows import new_id, to_arrow
from memory_assets.tenants import Tenant

NOW = datetime(2026, 11, 1, tzinfo=UTC)


class Turned:
    """Unit vectors of another dimension than the live ones; calls `before` ahead of each batch."""

    name = "turned"
    dimension = 3

    def __init__(self, before=lambda: None) -> None:
        self.before = before
        self.embedded = 0

    def embed(self, texts: Sequence[str], role: Role = "document") -> np.ndarray:
        memories = sum(text.startswith("x") or text == "yy" for text in texts)
        if memories:
            self.before()
        self.embedded += memories
        return np.eye(3, dtype=np.float32)[[len(text) % 3 for text in texts]]


def put(store: MemoryStore, count: int) -> None:
    memories = [Memory(new_id(), "x" * (n + 1), Kind.NOTE, Source.CLI, "", NOW, NOW) for n in range(count)]
    store.add(memories, np.eye(4, dtype=np.float32)[[n % 4 for n in range(count)]], "old")


@pytest.fixture
def store(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    monkeypatch.setattr(backfill, "_CHUNK", 3)
    put(tenant.memories, 10)
    return tenant.memories


def test_search_stays_with_the_old_embedder_until_every_vector_is_made(store: MemoryStore) -> None:
    def still_old() -> None:
        assert store.columns.embedder == "old"
        assert store.nearest(np.eye(4, dtype=np.float32)[0], "old", 20, Filters()).num_rows == 10

    assert backfill.reembed(store, Turned(still_old), lambda *_: None) == 10
    assert store.columns.embedder == "turned"
    assert store.nearest(np.eye(3, dtype=np.float32)[0], "turned", 20, Filters()).num_rows == 10
    assert sum(name.startswith("embedding_") for name in store.table.schema.names) == 1


def test_a_text_that_the_new_embedder_refuses_is_named_when_all_others_are_ready(store: MemoryStore) -> None:
    class Refusing(Turned):
        def embed(self, texts: Sequence[str], role: Role = "document") -> np.ndarray:
            if "x" * 5 in texts:
                raise EmbedderError("Too long; shorten it.")
            return super().embed(texts, role)

    (culprit,) = store.scan(("id",), "content = 'xxxxx'")["id"].to_pylist()
    with pytest.raises(EmbedderError, match=f"Memory {culprit} cannot be moved, .*: Too long; .*memory edit {culprit}"):
        backfill.reembed(store, Refusing(), lambda *_: None)
    assert (store.columns.embedder, store.columns.newest_embedder()) == ("old", "old")
    assert backfill.reembed(store, Turned(), lambda *_: None) == 1


def test_memories_stored_during_the_backfill_are_found_by_it(store: MemoryStore) -> None:
    calls = iter(range(100))
    embedder = Turned(lambda: put(store, 1) if next(calls) < 2 else None)
    assert backfill.reembed(store, embedder, lambda *_: None) == 12
    assert store.nearest(np.eye(3, dtype=np.float32)[0], "turned", 20, Filters()).num_rows == 12


def test_what_is_stored_after_the_last_pass_is_found_by_another(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    switching, late = store.columns.switching, iter(range(2))

    @contextmanager
    def storing_before_the_switch() -> Iterator[None]:
        if next(late, None) is not None:
            put(MemoryStore(store.uri), 1)
        with switching():
            yield

    monkeypatch.setattr(store.columns, "switching", storing_before_the_switch)
    assert backfill.reembed(store, Turned(), lambda *_: None) == 12
    assert store.nearest(np.eye(3, dtype=np.float32)[0], "turned", 20, Filters()).num_rows == 12


def test_who_commits_old_vectors_during_the_switch_waits_and_is_refused(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_live, other = store.columns.make_live, MemoryStore(store.uri, freshness=1_000)
    late = [Memory(new_id(), "late", Kind.NOTE, Source.CLI, "", NOW, NOW)]
    rows = other.columns.fill(to_arrow(late), np.eye(4, dtype=np.float32)[[0]], "old")
    refused: list[StoreError] = []

    def store_late() -> None:
        try:
            lance.append(other.stored, rows)
        except StoreError as error:
            refused.append(error)

    storing = threading.Thread(target=store_late)

    def switched(column: str) -> None:
        storing.start()
        storing.join(0.3)
        assert storing.is_alive()
        make_live(column)

    monkeypatch.setattr(store.columns, "make_live", switched)
    assert backfill.reembed(store, Turned(), lambda *_: None) == 10
    storing.join(120)
    assert [str(error).partition(";")[2] for error in refused] == [" nothing was written, run the command again."]
    assert len(store) == 10


def test_what_is_edited_while_it_is_embedded_gets_the_vector_of_its_new_text(store: MemoryStore) -> None:
    first = store.recent(1, Filters())[0]
    acts = [
        lambda: store.put([replace(first, content="yy", updated_at=datetime.now(UTC))], np.eye(4, dtype=np.float32)[[0]], "old")
    ]
    embedder = Turned(lambda: acts.pop()() if acts else None)
    assert backfill.reembed(store, embedder, lambda *_: None) == 10
    assert embedder.embedded == 11
    assert store.scan(("id",), f"{store.columns.live} IS NULL").num_rows == 0


KILLED = """
import os, signal, sys
from memory_assets.ingest import backfill
from memory_assets.settings import load_settings
from memory_assets.tenants import Tenant
from memory_assets_tests.ingest.test_backfill import Turned
backfill._CHUNK = 3
calls = iter(range(100))
embedder = Turned(lambda: os.kill(os.getpid(), signal.SIGKILL) if next(calls) == 2 else None)
backfill.reembed(Tenant(load_settings()).memories, embedder, lambda *_: None)
"""


def test_a_killed_backfill_goes_on_where_it_was(store: MemoryStore, request: pytest.FixtureRequest) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED], cwd=request.config.rootpath, check=False)
    assert done.returncode == -signal.SIGKILL
    assert store.columns.embedder == "old"
    embedder = Turned()
    assert backfill.reembed(store, embedder, lambda *_: None) == embedder.embedded == 4
    assert store.columns.embedder == "turned"


@pytest.mark.skipif(not e5_is_installed(), reason=E5_INSTALL_COMMAND)
def test_tenants_that_stay_open_follow_a_move_to_another_embedder(settings: Settings) -> None:
    searching, storing, unaware = Tenant(settings), Tenant(settings), Tenant(settings, freshness=60)
    given = [NewMemory(content=f"{owner} owns the release notes", source=Source.CLI) for owner in ("Priya", "Marco", "Ines")]
    remember(unaware, given[0])
    remember(storing, given[1])
    assert len(search(searching, "who owns them")) == 2
    moving = Tenant(settings.model_copy(update={"embedder": "e5-multilingual"}))
    assert backfill.catch_up(moving, lambda *_: None) == 2
    remember(storing, given[2])
    assert given[0].content in [hit.memory.content for hit in search(searching, "who owns them")]
    assert {tenant.embedder.name for tenant in (searching, storing)} == {E5_NAME}
    remember(unaware, replace(given[0], content="Priya stored this in the moment of the change"))
    assert moving.memories.table.count_rows(f"{moving.memories.columns.live} IS NULL") == 0
    assert backfill.catch_up(moving, lambda *_: None) == 0


def test_vectors_that_were_made_in_another_way_answer_until_they_are_made_anew(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["Marta moved to Lisbon in the spring.", "In spring Marta moved to Lisbon with her cat.", "Tea", "ok"]
    columns, given = tenant.memories.columns, [NewMemory(content=text, source=Source.CLI) for text in texts]
    with monkeypatch.context() as earlier:
        earlier.setattr(embedding_columns, "_VECTORS_VERSION", 1)
        remember(tenant, given[0])
        tenant.memories.table.drop_columns([str(columns.meaning)])
    assert [remember(tenant, each).splash for each in given[1:]] == [[], [], []]
    assert columns.outdated
    assert search(tenant, "where does Marta live")[0].memory.content in texts[:2]
    assert backfill.catch_up(tenant, lambda *_: None) == 4
    assert not columns.outdated
    assert search(tenant, "where does Marta live")[0].memory.content in texts[:2]
    called = remember(tenant, NewMemory(content="Marta has a cat.", source=Source.CLI)).splash
    assert [ripple.content for ripple in called] == texts[:1]
    assert 0.7 < called[0].similarity < 0.9


def test_an_embedder_whose_scale_is_not_known_is_calibrated_once(tenant: Tenant) -> None:
    tenant.__dict__["embedder"] = Turned()
    put(tenant.memories, 2)
    backfill.reembed(tenant.memories, tenant.embedder, lambda *_: None)
    assert MemoryStore(tenant.memories.uri).columns.scale == PLACES


def test_two_threads_that_notice_a_new_embedder_at_once_both_retry(tenant: Tenant) -> None:
    tenant.__dict__["embedder"] = Turned()

    def work(embedder: Embedder) -> str:
        if embedder.name == Turned.name:
            tenant.__dict__.pop("embedder")  # as the other thread does
            raise StoreError("The memories have another embedder.")
        return embedder.name

    assert tenant.with_embedder(work) == tenant.embedder.name
