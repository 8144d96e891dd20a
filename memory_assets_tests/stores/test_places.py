"""The same history of operations gives the same answers on a folder with DuckDB and on S3 with DuckLake and PostgreSQL."""

import asyncio
import itertools
import json
import os
import random
import re
import signal
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from memory_assets.api.errors import describe_error
from memory_assets.api.middleware import Metrics
from memory_assets.api.pool import TenantPool
from memory_assets.doctor import _run_check, _tables, examine
from memory_assets.errors import ConflictError, MemoryAssetsError, StoreError, UnansweredError
from memory_assets.graph.clusters import find_clusters
from memory_assets.graph.decided_names import read_spellings
from memory_assets.graph.edges import refresh_graph
from memory_assets.graph.known_names import refresh_known_names
from memory_assets.graph.relevance import decay_cycle
from memory_assets.ingest import direct
from memory_assets.ingest.stamps import RunFingerprint, table_stamps
from memory_assets.invariants import INVARIANTS
from memory_assets.keeping import erasing, restoring
from memory_assets.keeping.copying import take_backup
from memory_assets.keeping.repository import Repository
from memory_assets.keeping.restoring import restore_backup
from memory_assets.learn import briefing
from memory_assets.learn.brief import NAME, parse_brief
from memory_assets.models import NewMemory, RelationType, Source
from memory_assets.operations import changes, erase, relate, show, tenants
from memory_assets.operations.search import search
from memory_assets.operations.status import status
from memory_assets.operations.store import store
from memory_assets.operations.take_in import take_in
from memory_assets.settings import Settings
from memory_assets.stores import location, locks
from memory_assets.stores.keys import KeyStore
from memory_assets.stores.postgres import PostgresState
from memory_assets.stores.relations import StatedRelation
from memory_assets.stores.schema import CATALOG_TABLES
from memory_assets.stores.schema_differences import duplicate_keys
from memory_assets.tenants import Tenant, open_states, sweep_deleted, tenant_names
from memory_assets_tests.conftest import WriteSilo
from memory_assets_tests.services import ObjectStorage, PostgreSQL
from memory_assets_tests.stores.objects import objects

pytestmark = pytest.mark.timeout(600)
_SEED, _STEPS = 35_043, 17
"""Of a history in which every operation comes, and a run that has files to take in."""
_ABOUT = ("billing export", "boiler", "staging database", "carrier portal", "attic")
_SAYS = ("is owned by Mira.", "was moved to PostgreSQL.", "is checked every Friday.", "belongs to Tomasz.", "fails at night.")
_MOMENT = re.compile(r"20\d\d-\d\d-\d\d[T ][\d:.]+(?:Z|[+-]\d\d:\d\d)?")
_UNLIKE = {
    "updated_at",
    "created_at",
    "why",
    "catalog_path",
    "path",
    "remains",
    "needed",
    "relevance_now",
    "last_run",
    "key",
    "backups",
}
"""Fields that contain a time or a path."""


def fail_to_count(monkeypatch: pytest.MonkeyPatch, *, after: int) -> None:
    """Let every count of a commit fail after so many, as if PostgreSQL had died."""
    counted, count = itertools.count(), PostgresState.note_commit

    def note_commit(state: PostgresState) -> int:
        if next(counted) >= after:
            raise StoreError("PostgreSQL failed.")
        return count(state)

    monkeypatch.setattr(PostgresState, "note_commit", note_commit)


def told(answer: Any) -> Any:
    """Normalise an answer: remove times and paths, round numbers to three digits."""
    if hasattr(answer, "model_dump"):
        return told(answer.model_dump(mode="json"))
    if isinstance(answer, dict):
        return {name: told(value) for name, value in answer.items() if name not in _UNLIKE}
    if isinstance(answer, list | tuple):
        return [told(each) for each in answer]
    if isinstance(answer, float):
        return round(answer, 3)
    return _MOMENT.sub("T", answer) if isinstance(answer, str) else answer


def run_steps(tenant: Tenant) -> Any:
    """Run the steps of a run without Dagster."""
    taken = take_in(tenant)
    refresh_graph(tenant.catalog, tenant.memories, tenant.relations, read_spellings(tenant))
    refresh_known_names(tenant)
    decay_cycle(tenant, datetime.now(UTC))
    find_clusters(tenant, datetime.now(UTC))
    with tenant.catalog.read() as connection:
        counts = {each.name: connection.execute(f"SELECT count(*) FROM {each.name}").fetchall() for each in CATALOG_TABLES}
        edges = connection.execute(
            "SELECT source_id, target_id, type, origin, round(confidence, 3) FROM graph_edges ORDER BY ALL"
        ).fetchall()
        scores = connection.execute("SELECT id, round(relevance, 4), edges FROM relevance_scores ORDER BY id").fetchall()
        assert duplicate_keys(connection) == []
    return [told(taken), counts, told(edges), told(scores)]


class History:
    """Operations generated from a seed, the same for every place."""

    def __init__(self, seed: int, silo: Callable[[str, str], object]) -> None:
        self._chance = random.Random(seed)
        self._silo = silo
        self._ids: list[int] = []

    def step(self) -> Callable[[Tenant], Any]:
        """Return the next operation."""
        chance, ids = self._chance, self._ids
        old = chance.choice(ids) if ids else 0
        other = chance.choice(ids) if ids else 0
        about, says = chance.choice(_ABOUT), chance.choice(_SAYS)
        text = f"The {about} {says}"
        at = datetime(2026, 5, 1, tzinfo=UTC) + timedelta(days=len(ids), seconds=chance.randrange(1000))
        number = 2**52 + chance.randrange(2**40)
        steps: list[tuple[int, Callable[[Tenant], Any]]] = [
            (
                8,
                lambda tenant: store(
                    tenant, NewMemory(text, Source.CLI, id=number, created_at=at, project=f"/home/me/{about[:5]}")
                ),
            ),
            (2, lambda tenant: changes.edit(tenant, old, f"{text} Since {at:%B}.", source=Source.CLI)),
            (2, lambda tenant: changes.tag(tenant, old, add=[about.replace(" ", "-")])),
            (1, lambda tenant: changes.forget(tenant, old)),
            (1, lambda tenant: changes.restore(tenant, old)),
            (2, lambda tenant: changes.supersede(tenant, old, other)),
            (1, lambda tenant: relate.relate(tenant, old, RelationType.CONTRADICTS, other, stated_by="cli")),
            (1, lambda tenant: erase.erase(tenant, [old], confirm=True)),
            (3, run_steps),
            (5, lambda tenant: search(tenant, f"{about} {says.split()[-1]}", bridges=2)),
            (2, lambda tenant: show.recent(tenant, limit=20)),
            (2, lambda tenant: show.show(tenant, old)),
            (1, lambda tenant: status(tenant)),
        ]
        (chosen,) = chance.choices([step for _, step in steps], [weight for weight, _ in steps])
        if chosen is steps[0][1]:
            ids.append(number)
        if chosen is run_steps and chance.random() < 0.5:
            self._silo(about.replace(" ", "-"), text)
        return chosen


def answer(step: Callable[[Tenant], Any], tenant: Tenant, number: int) -> Any:
    """Return the answer of an operation; its random ids are the same in every place."""
    direct.new_id = itertools.count(2**52 + 2**41 + 1_000 * number).__next__
    try:
        return told(step(tenant))
    except MemoryAssetsError as error:
        return type(error).__name__, _MOMENT.sub("T", str(error))


def test_one_history_has_the_same_answers_everywhere_and_every_invariant_holds(
    elsewhere: Settings, settings: Settings, write_silo: WriteSilo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct, "new_id", direct.new_id)
    history = History(_SEED, lambda name, text: write_silo(name, text))
    here, there = Tenant(settings), Tenant(elsewhere, embedders=(embedders := {}))
    here._embedders = embedders
    for number in range(_STEPS):
        step = history.step()
        assert answer(step, there, number) == answer(step, here, number), number
    for step in (run_steps, lambda tenant: show.recent(tenant, limit=50), lambda tenant: search(tenant, "Mira")):
        assert answer(step, there, _STEPS) == answer(step, here, _STEPS)
    assert [path.name for path in elsewhere.data_dir.rglob("*") if path.is_file()] == []
    assert RunFingerprint.take(there) == RunFingerprint.take(Tenant(elsewhere))
    assert [(each.name, found) for each in INVARIANTS if (found := each.find(there))] == []


def test_tenants_elsewhere_are_made_listed_and_deleted(elsewhere: Settings) -> None:
    ann = Tenant(elsewhere, "ann")
    assert tenant_names(elsewhere) == []
    key = tenants.create(ann, with_key=True).key or ""
    with pytest.raises(ConflictError):
        tenants.create(Tenant(elsewhere, "ann"))
    store(ann, NewMemory("Mira owns the export.", Source.CLI))
    with ann.catalog.write():
        pass
    assert (tenant_names(elsewhere), table_stamps(elsewhere).keys()) == (["ann"], {"ann"})
    assert KeyStore(Tenant(elsewhere, "ann").state).find(key)
    late = Tenant(elsewhere, "ann")
    assert len(late.memories) == 1
    tenants.delete(Tenant(elsewhere, "ann"))
    assert tenant_names(elsewhere) == []
    assert objects(elsewhere, "ann") == []
    tenants.create(Tenant(elsewhere, "ann"))
    writes: list[Callable[[], object]] = [
        lambda: store(late, NewMemory("Too late.", Source.CLI)),
        lambda: late.catalog.write().__enter__(),
        lambda: late.state.put("names.json", b"[]"),
    ]
    for write in writes:
        with pytest.raises(StoreError, match="deleted"):
            write()
    fresh = Tenant(elsewhere, "ann")
    assert (len(fresh.memories), KeyStore(fresh.state).find(key), fresh.state.list()) == (0, None, [])


def test_a_tenant_whose_tables_cannot_be_made_can_be_created_again(elsewhere: Settings) -> None:
    with pytest.raises(StoreError, match="MEMORY_STORAGE_"):
        tenants.create(Tenant(elsewhere.model_copy(update={"storage_secret_key": SecretStr("wrong")}), "ann"))
    assert tenant_names(elsewhere) == []
    assert tenants.create(Tenant(elsewhere, "ann"), with_key=True).key


def test_a_tenant_deleted_while_others_write_stays_deleted(elsewhere: Settings) -> None:
    tenants.create(Tenant(elsewhere, "ann"))
    store(Tenant(elsewhere, "ann"), NewMemory("The first.", Source.CLI))
    refused = threading.Event()

    def write() -> None:
        tenant = Tenant(elsewhere, "ann")
        for number in range(200):
            try:
                store(tenant, NewMemory(f"Number {number}.", Source.CLI))
            except MemoryAssetsError:
                refused.set()
                return

    writers = [threading.Thread(target=write) for _ in range(2)]
    for each in writers:
        each.start()
    refused.wait(1)
    tenants.delete(Tenant(elsewhere, "ann"))
    for each in writers:
        each.join(60)
    assert refused.is_set()
    sweep_deleted(elsewhere)
    assert (tenant_names(elsewhere), objects(elsewhere, "ann")) == ([], [])


def test_a_backup_moves_a_tenant_from_a_folder_to_elsewhere(elsewhere: Settings, settings: Settings, tmp_path: Path) -> None:
    here = Tenant(settings)
    store(here, NewMemory("Mira owns the export.", Source.CLI, id=2**52 + 1))
    key = KeyStore(here.state).create("laptop")[1]
    run_steps(here)
    repository = Repository.of(settings, str(tmp_path / "backups"))
    take_backup(here, repository)
    there = Tenant(elsewhere)
    restore_backup(repository, repository.require("main"), there)
    moved = Tenant(elsewhere)
    assert [memory.content for memory in moved.memories.get([2**52 + 1])] == ["Mira owns the export."]
    assert KeyStore(moved.state).find(key)
    take_backup(moved, repository)


def test_what_is_stored_while_its_tenant_is_restored_is_kept(
    elsewhere: Settings, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, refuse = Tenant(settings), restoring._refuse_filled
    store(here, NewMemory("Mira owns the export.", Source.CLI, id=2**52 + 1))
    here.relations.state(StatedRelation(2**52 + 1, 2**52 + 2, RelationType.LEADS_TO))
    take_backup(here, repository := Repository.of(settings, str(tmp_path / "backups")))
    tenants.create(Tenant(elsewhere))
    texts = iter(("", "", "Tomasz owns the boiler."))

    def refuse_and_store(*given: Any) -> None:
        refuse(*given)
        if text := next(texts):
            number = store(Tenant(elsewhere), NewMemory(text, Source.CLI)).id
            Tenant(elsewhere).relations.state(StatedRelation(number, 2**52 + 1, RelationType.LEADS_TO))

    monkeypatch.setattr(restoring, "_refuse_filled", refuse_and_store)
    restore_backup(repository, repository.require("main"), Tenant(elsewhere))
    found = search(Tenant(elsewhere), "who owns the boiler or the export").memories
    assert {memory.content for memory in found} == {"Mira owns the export.", "Tomasz owns the boiler."}
    assert set(Tenant(elsewhere).relations.scan()["target_id"].to_pylist()) == {2**52 + 1, 2**52 + 2}


def test_an_erasure_says_which_other_tenants_elsewhere_hold_the_text(elsewhere: Settings) -> None:
    for number, name in enumerate(("ann", "ben", "eve")):
        text = "Tomasz owns the boiler." if name == "eve" else "Mira owns the export."
        store(Tenant(elsewhere, name), NewMemory(text, Source.CLI, id=2**52 + number))
    for machine, said in ((True, [("ben", [2**52 + 1])]), (False, [])):
        remains = erasing.find_remains(Tenant(elsewhere, "ann"), ["Mira owns the export."], of_machine=machine)
        assert [(other.name, other.ids) for other in remains.others] == said


def test_what_one_machine_erased_is_in_no_copy_of_another(
    elsewhere: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory_assets.api.pool._DELETION_CHECK_SECONDS", 0.2)
    tenant = Tenant(elsewhere.model_copy(update={"data_dir": tmp_path / "other"}))
    store(tenant, NewMemory("Mira owns the export.", Source.CLI, id=2**52 + 1))
    store(tenant, NewMemory("Tomasz owns the boiler.", Source.CLI))

    def holding(word: str) -> bool:
        return bool(erasing.files_holding(elsewhere.data_dir, [word]))

    async def serve() -> None:
        pools = [TenantPool(elsewhere.model_copy(update={"resident_bytes": 1 << 30, "workers": 2}), Metrics()) for _ in range(2)]
        opened = [await pool.get("main") for pool in pools]
        upkeep = [asyncio.create_task(pool.keep_up()) for pool in pools]
        await opened[0].search(opened[0].tenant.memories.maintain_resident)
        await asyncio.sleep(1)
        assert holding("Mira")
        await asyncio.to_thread(erase.erase, tenant, [2**52 + 1], confirm=True)
        await asyncio.sleep(2)
        assert not holding("Mira")
        await opened[1].search(opened[1].tenant.memories.maintain_resident)
        await asyncio.sleep(1)
        assert holding("Tomasz")
        assert not holding("Mira")
        for pool, each in zip(pools, upkeep, strict=True):
            await pool.close(each)

    asyncio.run(serve())


def test_no_request_lists_the_bucket(elsewhere: Settings, servers: tuple[ObjectStorage, PostgreSQL]) -> None:
    storage, _ = servers
    first = Tenant(elsewhere)
    tenants.create(first)
    store(first, NewMemory("Mira owns the export.", Source.CLI))
    refresh_graph(first.catalog, first.memories, first.relations)

    def requests_of(work: Callable[[], object]) -> int:
        before = storage.requests()
        work()
        return (storage.requests() - before)["LIST"]

    def open_and_search() -> None:
        tenant = Tenant(elsewhere, freshness=0.5, embedders=first._embedders)
        tenant.memories.prepare()
        tenant.relations.prepare()
        assert [hit.content for hit in search(tenant, "who owns the export").memories] == ["Mira owns the export."]

    assert sum(storage.requests().values()) > 0
    assert requests_of(open_and_search) == 0
    assert requests_of(lambda: store(first, NewMemory("Tomasz owns the boiler.", Source.CLI))) == 0
    late = Tenant(elsewhere, freshness=0.5, embedders=first._embedders)
    assert len(late.memories) == 2
    store(first, NewMemory("Priya owns the attic.", Source.CLI))
    assert requests_of(lambda: late.memories.ensure_version(first.memories.version)) == 0
    assert len(late.memories) == 3, "a commit of another process is seen"


def test_object_storage_that_does_not_answer_is_said_and_asked_again(
    elsewhere: Settings, servers: tuple[ObjectStorage, PostgreSQL]
) -> None:
    storage, _ = servers
    tenant = Tenant(elsewhere, freshness=0.5)
    store(tenant, NewMemory("Mira owns the export.", Source.CLI))
    storage.kill()
    with pytest.raises(StoreError, match=r"cannot be read \(the object storage fails at the moment\); check MEMORY_VECTORS_URI"):
        search(tenant, "who owns the export")
    storage.start()
    assert [hit.content for hit in search(tenant, "who owns the export").memories] == ["Mira owns the export."]


def test_a_call_ends_if_the_object_storage_stops_answering(
    elsewhere: Settings, servers: tuple[ObjectStorage, PostgreSQL], monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, _ = servers
    tenant = Tenant(elsewhere)
    store(tenant, NewMemory("Mira owns the export.", Source.CLI))
    os.kill(storage.pid, signal.SIGSTOP)
    try:
        with monkeypatch.context() as halted:
            halted.setattr(location, "_CHECK_SECONDS", 0.3)
            halted.setattr(location, "_CHECKED_SECONDS", 0.3)
            for work in (
                lambda: search(Tenant(elsewhere, embedders=tenant._embedders), "who owns the export"),
                lambda: store(tenant, NewMemory("Tomasz owns the boiler.", Source.CLI)),
            ):
                with pytest.raises(UnansweredError, match=r"does not answer; check MEMORY_VECTORS_URI") as raised:
                    work()
                assert "it may have been made" in describe_error(raised.value)
    finally:
        os.kill(storage.pid, signal.SIGCONT)
    assert search(tenant, "who owns the export").memories[0].content == "Mira owns the export."


def test_tables_that_a_wrong_key_does_not_open_are_told_with_their_settings_and_deleted_later(elsewhere: Settings) -> None:
    store(Tenant(elsewhere), NewMemory("Mira owns the export.", Source.CLI))
    wrong = Tenant(elsewhere.model_copy(update={"storage_secret_key": SecretStr("wrong")}))
    mends = {found.mend for found in _run_check(_tables, wrong)}
    assert mends == {"the keys are refused, so check MEMORY_STORAGE_*."}
    with pytest.raises(StoreError, match="the object storage refuses it") as raised:
        search(wrong, "who owns the export")
    assert describe_error(raised.value).endswith("nothing was written; the keys are refused, so check MEMORY_STORAGE_*.")
    tenants.delete(wrong)
    assert objects(elsewhere, wrong.name)
    sweep_deleted(elsewhere)
    assert (tenant_names(elsewhere), objects(elsewhere, wrong.name)) == ([], [])


def test_a_commit_that_postgresql_does_not_count_is_told_as_stored(elsewhere: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    tenant = Tenant(elsewhere)
    store(tenant, NewMemory("Mira owns the export.", Source.CLI))
    fail_to_count(monkeypatch, after=1)
    store(tenant, NewMemory("Tomasz owns the boiler.", Source.CLI, id=2**52 + 1))
    assert len(Tenant(elsewhere).memories) == 2


@pytest.mark.parametrize("place", ["settings", "elsewhere"])
def test_what_is_forgotten_while_the_brief_is_built_is_not_told(
    place: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant = Tenant(request.getfixturevalue(place))
    store(tenant, NewMemory("Mira is a baker.", Source.CLI))
    direct.import_memories(tenant, [NewMemory("The relay stands in room 12.", Source.CLI, id=7)], lambda *_: None)
    choose, forgotten = briefing._limit_groups, list[object]()

    def forget_once(facts: Any) -> Any:
        if not forgotten:
            forgotten.append(changes.forget(Tenant(tenant.settings), 7))
        return choose(facts)

    monkeypatch.setattr(briefing, "_limit_groups", forget_once)
    briefing.renew_brief(tenant)
    brief = parse_brief(tenant.state.get(NAME))
    assert forgotten and brief
    assert [each.fact for each in brief.lines] == ["Mira is a baker."]


def test_nothing_is_committed_that_postgresql_cannot_announce(elsewhere: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    tenant = Tenant(elsewhere)
    store(tenant, NewMemory("Mira owns the export.", Source.CLI))
    fail_to_count(monkeypatch, after=0)
    with pytest.raises(StoreError):
        store(tenant, NewMemory("Tomasz owns the boiler.", Source.CLI))
    assert len(Tenant(elsewhere).memories) == 1


def test_a_commit_that_was_not_counted_is_seen_by_others_and_checks_for_it_end(
    elsewhere: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "_RECHECK_SECONDS", 0.0)
    first, late = Tenant(elsewhere), Tenant(elsewhere)
    store(first, NewMemory("Mira owns the export.", Source.CLI))
    assert len(late.memories) == 1
    fail_to_count(monkeypatch, after=1)
    store(first, NewMemory("Tomasz owns the boiler.", Source.CLI))
    assert len(late.memories) == 2

    monkeypatch.setattr(locks, "_DOUBT_SECONDS", 0.0)
    idle = Tenant(elsewhere)
    assert len(idle.memories) == 2
    checkouts: list[Any] = []
    monkeypatch.setattr("lancedb.table.LanceTable.checkout_latest", checkouts.append)
    assert len(idle.memories) == 2
    assert checkouts == []


def test_the_doctor_names_a_database_that_does_not_answer_beside_its_other_findings(settings: Settings) -> None:
    pytest.importorskip("psycopg_pool", reason="the extra [cluster] is not installed")
    findings = examine(Tenant(settings.model_copy(update={"state_uri": "postgresql://memory@127.0.0.1:9/memory"})))
    assert [found.mend for found in findings if "PostgreSQL failed" in found.what] == [
        "check MEMORY_STATE_URI and PGPASSWORD, and run the command again."
    ]
    assert any(found.level == "ok" for found in findings)


def test_no_message_shows_a_credential(elsewhere: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    tenant = Tenant(elsewhere)
    store(tenant, NewMemory("Mira owns the export.", Source.CLI))
    broken = elsewhere.model_copy(update={"storage_endpoint": "http://127.0.0.1:9", "lock_timeout": 1.0})
    said = [repr(tenant.location), repr(elsewhere), json.dumps(elsewhere.model_dump(mode="json"))]
    with pytest.raises(MemoryAssetsError) as error:
        len(Tenant(broken).memories)
    monkeypatch.setenv("PGPASSWORD", "wrong-password")
    other = elsewhere.model_copy(update={"state_uri": f"{elsewhere.state_uri}?application_name=x"})
    with pytest.raises(StoreError, match="PGPASSWORD") as refused:
        list(open_states(other).names())
    for text in (*said, str(error.value), str(refused.value)):
        assert ObjectStorage.SECRET_KEY not in text
        assert "wrong-password" not in text
        assert PostgreSQL.PASSWORD not in text
