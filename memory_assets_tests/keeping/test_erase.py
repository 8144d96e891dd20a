"""`memory erase` removes a text from every file of the data folder, and no source brings it back."""

import json
import os
import secrets
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

from memory_assets.api.app import create_app
from memory_assets.cli.main import cli
from memory_assets.doctor import examine
from memory_assets.errors import InvalidInputError
from memory_assets.graph.decided_names import NameDecision, change_name_decisions, read_name_decisions
from memory_assets.graph.edges import refresh_graph
from memory_assets.ingest.scans import refusals
from memory_assets.keeping import erasing
from memory_assets.keeping.copying import take_backup
from memory_assets.keeping.erasing import Removal, files_holding
from memory_assets.keeping.matching import Finder
from memory_assets.keeping.repository import Repository
from memory_assets.keeping.restoring import restore_backup
from memory_assets.language.process import ProcessingError
from memory_assets.learn.journal import Journal, Placed, Plan
from memory_assets.learn.noted import Noted, note, read_noted
from memory_assets.learn.session_start import is_quiet, record_told, set_quiet, still_told
from memory_assets.models import Kind, Memory, NewMemory, RelationType, Source
from memory_assets.operations.changes import edit, forget
from memory_assets.operations.erase import allow_again, erase
from memory_assets.operations.exchange import import_lines
from memory_assets.operations.learn import check
from memory_assets.operations.relate import relate
from memory_assets.operations.store import store
from memory_assets.settings import load_settings
from memory_assets.sources.projects import Project
from memory_assets.stores.deferred import import_lancedb
from memory_assets.stores.keys import KeyStore
from memory_assets.stores.tombstones import Tombstones
from memory_assets.tana.formats import node_name
from memory_assets.tana.state import SentEntry, SyncRecord
from memory_assets.tenants import Tenant
from memory_assets_tests.api.service import Service
from memory_assets_tests.conftest import WriteSilo
from memory_assets_tests.ingest.runs import ignore, ingest
from memory_assets_tests.mcp.test_server import converse
from memory_assets_tests.tana.conftest import tana  # noqa: F401 - a fixture
from memory_assets_tests.tana.stand_in import StandIn
from memory_assets_tests.torture import zygote


def token() -> str:
    """A text that cannot be guessed, compressed or broken into words."""
    return f"zq{secrets.token_hex(20)}"


def remember(tenant: Tenant, text: str) -> int:
    return store(tenant, NewMemory(text, Source.CLI)).id


def holding(tenant: Tenant, *texts: str) -> list[Path]:
    """Return the files of the data folder that contain one of the texts as bytes; also query the tables and the catalog."""
    found = files_holding(tenant.settings.data_dir, texts)
    for table in tenant.folder.glob("vectors/*.lance"):
        handle = import_lancedb().connect(table.parent).open_table(table.stem)
        for version in handle.list_versions():
            handle.checkout(version["version"])
            rows = json.dumps(handle.to_arrow().to_pylist(), default=str)
            found += [table for text in texts if text in rows]
    if tenant.catalog.exists:
        with tenant.catalog.read() as connection:
            for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall():
                said = str(connection.execute(f'FROM "{name}"').fetchall())
                found += [tenant.catalog.path for text in texts if text in said]
    return found


@pytest.fixture
def sources(tenant: Tenant, write_silo: WriteSilo) -> dict[str, str]:
    """Ingest one text from each kind of source file; return the texts by kind."""
    texts = {road: token() for road in ("silo", "index", "seed", "learning")}
    silo = write_silo("billing", f"The billing export moved. {texts['silo']} says so.", kind="feedback")
    (silo.parent / "MEMORY.md").write_text(f"- [billing](billing.md) - {texts['index']} about it\n")
    settings = tenant.settings
    settings.pai_seed.parent.mkdir(parents=True, exist_ok=True)
    moment = "2026-03-14T09:30:00Z"
    learned = {"id": "pat_1", "content": f"Prefers {texts['seed']} in reviews", "confirmed": True, "confirmedAt": moment}
    entry = learned | {"extractedAt": moment, "source": "conversation", "confidence": 0.9, "tags": []}
    seed = {"version": "1.0", "learned": {"patterns": [entry], "insights": [], "selfKnowledge": []}}
    settings.pai_seed.write_text(json.dumps(seed))
    home = settings.pai_learning_dir / "FEEDBACK"
    home.mkdir(parents=True)
    (home / "lint.md").write_text(f"---\nname: lint\ndescription: {texts['learning']}\n---\n\nLint {texts['learning']} first.\n")
    ingest(tenant)
    return texts


def test_a_stored_text_leaves_every_file_with_its_versions_and_copies(tenant: Tenant):
    texts = [token() for _ in range(6)]
    kept = remember(tenant, "Bob keeps the keys of the archive.")
    first = remember(tenant, f"Alice said {texts[0]} about the export.")
    second = edit(tenant, first, f"Alice said {texts[1]} instead.", source=Source.CLI).id
    copy = remember(tenant, f"Alice said {texts[1]} instead.")
    relate(tenant, second, RelationType.RELATES_TO, kept, note=f"because of {texts[2]}", stated_by=Source.CLI)
    forget(tenant, copy)
    ingest(tenant)
    note(tenant.folder, [Noted(f"Alice said {texts[1]} instead.", "/home/ada", "", "s1"), Noted("Always lint.", "", "", "s1")])
    deleted = tenant.folder / "deleted" / "2026.jsonl"
    deleted.parent.mkdir()
    deleted.write_text(f"{json.dumps({'id': first, 'content': texts[0]})}\n{json.dumps({'id': 5, 'content': 'Plain.'})}\n")
    (tenant.settings.data_dir / "hooks.log").write_text(f"a failure\nsomething of: Alice said {texts[1]} instead.\n")
    (tenant.folder / ".brief.json.x.tmp").write_text(f"Alice said {texts[1]} instead.")
    (tenant.folder / "catalog.duckdb.damaged-1").write_text(texts[1])
    learn = tenant.folder / "learn"
    learn.mkdir()
    (learn / "proposals.json").write_text(json.dumps({"proposals": [{"quote": f"Alice  said {texts[1]} instead."}], "n": 1}))
    assert len(holding(tenant, *texts[:3])) > 4

    done = erase(tenant, [second], confirm=True)
    assert {memory.id for memory in done.memories} == {first, second, copy}
    assert done.remains == []
    assert holding(tenant, *texts[:3]) == []
    assert [memory.id for memory in tenant.memories.get([kept, first, second, copy])] == [kept]
    assert [each.text for each in read_noted(tenant.folder)] == ["Always lint."]
    assert deleted.read_text() == '{"id": 5, "content": "Plain."}\n'
    assert json.loads((learn / "proposals.json").read_text()) == {"proposals": [{"quote": "[erased]"}], "n": 1}
    assert len(tenant.relations) == 0
    assert all(stone.finished for stone in Tombstones(tenant.state).all)
    found = CliRunner().invoke(cli, ["search", "archive keys", "--json"])
    assert [memory["id"] for memory in json.loads(found.output)["memories"]] == [kept]


def test_reports_of_learn_that_quote_the_text_are_named(tenant: Tenant, write_silo: WriteSilo):
    path = write_silo("okapi", "Deploy only from the okapicorn branch, because Wilhelmine was ill.", kind="feedback")
    tenant.settings.pai_learning_dir.mkdir(parents=True)
    ingest(tenant)
    check(tenant)
    review = tenant.settings.pai_learning_dir / "review.md"
    assert "okapicorn" in review.read_text()
    answer = erase(tenant, matching="okapicorn", confirm=True)
    assert {str(path), str(review)} <= set(answer.files)
    path.unlink()
    check(tenant)
    assert files_holding(tenant.settings.pai_learning_dir, ["okapicorn"]) == []


def test_the_record_of_what_a_session_was_told_holds_no_digest_of_an_erased_sentence(tenant: Tenant):
    erased = store(tenant, NewMemory("The code of the boat house is on the door.", Source.CLI)).id
    record_told(tenant.folder, "s1", [(erased, f"- (id {erased}) The code of the boat house is on the door.")], "start")
    assert still_told(tenant.folder, "s1")[erased]
    erase(tenant, [str(erased)], confirm=True)
    assert still_told(tenant.folder, "s1") == {erased: set()}


def test_what_another_tenant_says_is_erased_there_and_no_file_of_a_store_is_named(tenant: Tenant):
    text = f"The office Wi-Fi is called {token()}."
    other = Tenant(tenant.settings, "copy")
    remember(other, "It keeps something else, too.")
    theirs = remember(other, text)
    ours = [remember(tenant, text) for tenant in (tenant, Tenant(tenant.settings, "third"))]
    (records := tenant.settings.data_dir / "dagster").mkdir()
    (records / "runs.db").write_text(text)
    (tenant.folder / "gazetteer.toml").write_text(f"# {text}")
    stray = other.folder / "export.jsonl"
    stray.write_text(text)

    done = CliRunner().invoke(cli, ["erase", str(ours[0]), "--yes"]).output.splitlines()
    assert [line for line in done if line.startswith("Still in")] == [
        f"Still in {stray}: delete it if you do not need it.",
        f"Still in the tenant copy: `memory erase {theirs} --tenant copy` takes it out there.",
        f"Still in the tenant third: `memory erase {ours[1]} --tenant third` takes it out there.",
        f"Still in {records / 'runs.db'}: keep the file, the program needs it.",
        f"Still in {tenant.folder / 'gazetteer.toml'}: keep the file, the program needs it.",
    ]


def test_another_tenant_is_named_although_its_table_compresses_its_texts(tenant: Tenant, caplog: pytest.LogCaptureFixture):
    other, now = Tenant(tenant.settings, "copy"), datetime.now(UTC)
    texts = [
        f"Valve {number} of the crane was replaced in the winter, says the log book of the harbour." for number in range(1_000)
    ]
    memories = [Memory(number, text, Kind.NOTE, Source.CLI, "", now, now) for number, text in enumerate(texts, start=1)]
    other.memories.put(memories, np.full((len(memories), 16), 0.25, np.float32), "test")
    assert files_holding(other.folder, texts[:1]) == []
    remains = erasing.find_remains(tenant, texts[:1], of_machine=True)
    assert [(each.name, each.ids, each.files) for each in remains.others] == [("copy", [1], [])]
    for manifest in (other.folder / "vectors").rglob("*.manifest"):
        manifest.write_bytes(b"")
    assert erasing.find_remains(tenant, texts[:1], of_machine=True).others == []
    assert "the tenant copy may still have the text: The table" in caplog.text


def test_who_may_not_look_at_other_tenants_is_told_nothing_of_them(tenant: Tenant):
    text = f"The office Wi-Fi is called {token()}."
    remember(Tenant(tenant.settings, "copy"), text)
    done = erase(tenant, [remember(tenant, text)], confirm=True)
    assert (done.remains, done.needed, done.others) == ([], [], [])


def test_what_another_tenant_keeps_in_no_memory_is_no_file_to_delete(tenant: Tenant):
    text = f"The office Wi-Fi is called {token()}."
    other = Tenant(tenant.settings, "copy")
    remember(other, "It keeps something else.")
    (names := other.folder / "names.json").write_text(json.dumps([text]))
    done = erase(tenant, [remember(tenant, text)], confirm=True, of_machine=True)
    assert (done.remains, done.needed, done.others) == ([], [str(names)], [])


def test_what_files_say_is_erased_and_no_run_takes_it_in_again(tenant: Tenant, sources: dict[str, str]):
    assert holding(tenant, *sources.values())
    chosen = list({memory.id for text in sources.values() for memory in erase(tenant, matching=text).memories})
    done = erase(tenant, chosen, confirm=True)
    assert done.remains == []
    assert done.files
    assert holding(tenant, *sources.values()) == []
    ingest(tenant)
    assert holding(tenant, *sources.values()) == []
    assert len(tenant.memories) == 0
    refused = [refusal for refusal in refusals(tenant.catalog) if "was erased on" in refusal.reason]
    assert {refusal.source for refusal in refused} == {Source.CLAUDE_SILO, Source.PAI_SEED, Source.PAI_LEARNING}
    assert all("--allow-again" in refusal.mend for refusal in refused)
    allow_again(tenant, [str(number) for number in chosen])
    ingest(tenant)
    assert len(tenant.memories) == len(chosen)


def _memory(*arguments: str, given: object = None) -> str:
    """Run `memory` as a person or a hook does."""
    done = zygote.shared().memory(*arguments, stdin=json.dumps(given))
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
def test_what_real_processes_took_in_leaves_every_file_their_logs_and_records_too(
    tenant: Tenant, write_silo: WriteSilo, tmp_path: Path
):
    over_mcp, over_http, from_file, said = texts = [token() for _ in range(4)]
    converse(
        ("store", {"content": f"Alice left the key under {over_mcp}."}),
        ("search", {"query": over_mcp}),
    )
    transcript = tmp_path / "session.jsonl"
    said_so = {"type": "user", "message": {"role": "user", "content": f"From now on, always open {said} first."}}
    transcript.write_text(json.dumps(said_so) + "\n")
    hook = {"session_id": "s1", "source": "startup", "cwd": str(tmp_path), "transcript_path": str(transcript)}
    with Service(tmp_path, LOG_LEVEL="DEBUG") as service:
        client = service.client("main", KeyStore(tenant.state).create()[1])
        client.store(f"Bruno left the key under {over_http}.")
        client.post("/search", {"query": over_http})
        client.post("/store", {"content": over_http, over_http: 1})
        write_silo("depot", f"The depot code is {from_file}.", kind="feedback")
        _memory("run")
        _memory("session-start", given=hook)
        _memory("session-end", given=hook)
        noted = json.loads(_memory("noted", "--json"))
        _memory("noted", "--store", *[each["id"] for each in noted["noted"]])
        _memory("context", "key")
        _memory("run")
        assert len(holding(tenant, *texts)) > 6
        for text in texts:
            assert json.loads(_memory("erase", "--matching", text, "--yes", "--json"))["remains"] == []
        assert client.post("/search", {"query": over_http}).json()["memories"] == []
    for _ in range(2):
        assert holding(tenant, *texts) == []
        assert files_holding(tmp_path / "home" / ".local", texts) == []
        assert not [text for text in texts if text in service.log_text()]
        _memory("session-end", given=hook)
        _memory("run")
    assert len(tenant.memories) == 0


def test_an_erased_file_whose_text_changes_is_taken_in(tenant: Tenant, write_silo: WriteSilo):
    write_silo("billing", f"It was {token()}.")
    ingest(tenant)
    (memory,) = erase(tenant, source=Source.CLAUDE_SILO).memories
    erase(tenant, [memory.id], confirm=True)
    write_silo("billing", "It is something else now.")
    ingest(tenant)
    assert len(tenant.memories) == 1


def test_only_a_file_that_is_there_is_named(tenant: Tenant, write_silo: WriteSilo):
    path = write_silo("billing", f"It was {token()}.")
    ingest(tenant)
    assert erase(tenant, source=Source.CLAUDE_SILO).files == [str(path)]
    path.unlink()
    path.symlink_to("/nowhere/billing.md")
    assert erase(tenant, source=Source.CLAUDE_SILO).files == []


def test_storing_and_importing_an_erased_text_is_refused_until_it_is_allowed(tenant: Tenant, tmp_path: Path):
    text = f"Carol said {token()}."
    number = remember(tenant, text)
    erase(tenant, [number], confirm=True)
    with pytest.raises(ProcessingError, match=rf"was erased on .* as memory {number}"):
        remember(tenant, f"  {text.replace(' ', '  ')}\n")
    lines = tmp_path / "lines.jsonl"
    lines.write_text(f"{json.dumps({'content': text})}\n" + '{"content": "Another one."}\n')
    done = CliRunner().invoke(cli, ["import", str(lines), "--json"])
    assert (json.loads(done.output)["added"], json.loads(done.output)["erased"]) == (1, 1)
    note(tenant.folder, [Noted(text, "", "", "s1")])
    assert read_noted(tenant.folder) == ()
    assert holding(tenant, text) == []
    assert CliRunner().invoke(cli, ["erase", str(number), "--allow-again"]).exit_code == 0
    assert tenant.memories.get([remember(tenant, text)])
    assert CliRunner().invoke(cli, ["erase", "12345", "--allow-again"]).exit_code == 1


def test_a_session_whose_name_is_no_file_name_stops_no_erasure(tenant: Tenant):
    (tenant.settings.claude_projects_dir / "-srv-atlas").mkdir(parents=True)
    number = store(tenant, NewMemory("The buoy is red.", Source.CLI, session="s" * 300)).id
    assert erase(tenant, [number], confirm=True).transcripts == []
    assert len(tenant.memories) == 0


def test_a_line_of_an_erasure_that_is_invalid_is_refused(tenant: Tenant):
    valid: dict[str, object] = {"id": 5, "erased_at": "2026-01-01T00:00:00+00:00"}
    wrongs: tuple[dict[str, object], ...] = ({"key": "00"}, {"digests": ["x"]}, {"id": 0}, {"erased_at": "yesterday"})
    lines = [json.dumps(valid | wrong).encode() for wrong in wrongs]
    faults: list[str] = []
    done = import_lines(tenant, "x", lines, skip_invalid=True, on_fault=faults.append, on_progress=ignore)
    assert (done.refused, len(faults), not Tombstones(tenant.state)) == (4, 4, True)


def test_the_command_shows_what_goes_and_asks(tenant: Tenant):
    text = f"Dora said {token()}."
    number = remember(tenant, text)
    asked = CliRunner().invoke(cli, ["erase", "--matching", "dora SAID"], input="n\n")
    assert asked.exit_code == 1
    assert text[:20] in asked.output
    shown = CliRunner().invoke(cli, ["erase", str(number), "--json"])
    assert json.loads(shown.output)["done"] is False
    assert len(tenant.memories) == 1
    assert CliRunner().invoke(cli, ["erase", "--before", "2001-01-01", "--yes"]).exit_code == 1
    assert CliRunner().invoke(cli, ["erase"]).exit_code == 1
    assert CliRunner().invoke(cli, ["erase", "--matching", "dora SAID", "--yes"]).exit_code == 0
    assert holding(tenant, text) == []
    assert len(tenant.memories) == 0


def test_a_blank_text_names_nothing_to_erase(tenant: Tenant):
    remember(tenant, "Alice owns the billing export.")
    for blank in (" ", "\t\n", "\u200b"):
        with pytest.raises(InvalidInputError, match="Name what to erase"):
            erase(tenant, matching=blank, source=Source.CLI, confirm=True)
    assert tenant.memories.scan(("id",)).num_rows == 1


def test_over_http_an_erasure_needs_a_confirmation(tenant: Tenant):
    tenant.memories.prepare()
    key = KeyStore(tenant.state).create()[1]
    text = f"Erin said {token()}."
    with TestClient(create_app(tenant.settings), headers={"X-API-Key": key}, base_url="http://127.0.0.1") as client:
        number = client.post("/api/v1/main/store", json={"content": text}).json()["id"]
        shown = client.post("/api/v1/main/erase", json={"ids": [number]}).json()
        assert (shown["done"], len(shown["memories"])) == (False, 1)
        done = client.post("/api/v1/main/erase", json={"ids": [number], "confirm": True}).json()
        assert done["done"]
        assert done["remains"] == []
        assert client.post("/api/v1/main/search", json={"query": "Erin"}).json()["memories"] == []
        again = client.post("/api/v1/main/erase", json={"ids": [number], "confirm": True}).json()
        assert (again["memories"], [each["id"] for each in again["earlier"]]) == ([], [number])
        assert client.post("/api/v1/main/store", json={"content": text}).status_code >= 400
    assert holding(tenant, text) == []


def test_what_was_sent_to_tana_is_forgotten_and_its_node_named(tenant: Tenant, sources: dict[str, str]):
    sent = SentEntry("node-1", "pattern", "d", name=f"Prefers {sources['seed']} in reviews")
    SyncRecord({"pat_1": sent}).save(tenant.folder)
    tenant.settings.pai_mapping.parent.mkdir(parents=True)
    tenant.settings.pai_mapping.write_text('{"version": 1, "workspace": "w", "lastSync": null, "mappings": {"pat_1": "node-1"}}')
    done = erase(tenant, matching=sources["seed"], confirm=True)
    assert done.nodes == ["node-1"]
    assert not done.trashed
    assert holding(tenant, sources["seed"]) == []


def test_an_older_backup_is_restored_on_a_new_machine_without_what_was_erased_since(tenant: Tenant, tmp_path: Path):
    text = f"Frank said {token()}."
    number = remember(tenant, text)
    remember(tenant, "Grace sails.")
    repository = Repository(str(tmp_path / "backups"))
    older = take_backup(tenant, repository)
    erase(tenant, [number], confirm=True)
    take_backup(tenant, repository)
    moved = Tenant(load_settings(data_dir=tmp_path / "moved"))
    restored = restore_backup(repository, older, moved)
    assert (restored.erased, len(moved.memories)) == (1, 1)
    with pytest.raises(ProcessingError, match="was erased"):
        remember(moved, text)


_STEPS = frozenset({"os.rename", "os.remove", "os.unlink", "os.rmdir"})


def _erase(data: Path, number: int, step: int) -> None:
    tenant = Tenant(load_settings(data_dir=data))
    steps = count()

    def watch(event: str, _given: tuple) -> None:
        if event in _STEPS and next(steps) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    erase(tenant, [number], confirm=True)


def _killed(work: Callable[..., None], *given: object) -> bool:
    return zygote.shared().call(work, *given).wait().killed


def test_erasures_at_once_wait_for_each_other(tenant: Tenant):
    texts = [f"Judy said {token()} in the meeting." for _ in range(4)]
    numbers = [remember(tenant, text) for text in texts]
    ingest(tenant)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda number: erase(Tenant(tenant.settings), [number], confirm=True), numbers))
    assert holding(tenant, *texts) == []
    assert all(stone.finished for stone in Tombstones(tenant.state).all)


@pytest.mark.long
def test_a_killed_erasure_is_finished_by_the_next(tenant: Tenant):
    killed = 0
    for step in (0, 1, 2, 3, 4, 5):
        text = f"Heidi said {token()} in the meeting."
        number = remember(tenant, text)
        ingest(tenant)
        note(tenant.folder, [Noted(text, "", "", "s1")])
        killed += _killed(_erase, tenant.settings.data_dir, number, step)
        erase(tenant, [number], confirm=True)
        assert holding(tenant, text) == [], step
        assert all(stone.finished for stone in Tombstones(tenant.state).all)
    assert killed >= 4


def test_an_erasure_of_another_memory_finishes_the_killed_one(tenant: Tenant):
    text = f"Heidi said {token()} in the meeting."
    number, other = remember(tenant, text), remember(tenant, "Ivan keeps the archive.")
    Tombstones.change(tenant.state, lambda stones: stones.add({number: [text]}))  # then it was killed
    note(tenant.folder, [Noted(text, "", "", "s1")])
    assert {memory.id for memory in erase(tenant, [other], confirm=True).memories} == {number, other}
    assert holding(tenant, text) == []


def _erase_until_the_tables(data: Path, number: int) -> None:
    tenant = Tenant(load_settings(data_dir=data))
    purge = erasing.purge_tables

    def purged(tenant: Tenant, removal: Removal) -> None:
        purge(tenant, removal)
        os.kill(os.getpid(), signal.SIGKILL)

    erasing.purge_tables = purged
    erase(tenant, [number], confirm=True)


@pytest.mark.long
def test_a_run_after_a_killed_erasure_does_not_bring_the_memory_back(tenant: Tenant, sources: dict[str, str]):
    other = remember(tenant, "Ivan keeps the archive.")
    (found,) = erase(tenant, matching=sources["silo"]).memories
    relate(tenant, other, RelationType.RELATES_TO, found.id, note="x", stated_by=Source.CLI)
    third = remember(tenant, "Judy has the keys.")
    (memory,) = tenant.memories.get([found.id])
    relate(tenant, other, RelationType.RELATES_TO, third, note=f"see: {memory.content}", stated_by=Source.CLI)
    assert _killed(_erase_until_the_tables, tenant.settings.data_dir, found.id)
    assert tenant.memories.get([found.id]) == []
    ingest(tenant)
    late = tenant.folder / "noted.json"
    note(tenant.folder, [Noted("Always lint.", "", "", "s1")])
    late.write_text(late.read_text().replace("Always lint.", memory.content.replace("\n", "\\n").replace('"', '\\"')))
    assert any("was stopped" in finding.what for finding in examine(tenant))
    erase(tenant, confirm=True)
    assert holding(tenant, sources["silo"]) == []
    assert not any("was stopped" in finding.what for finding in examine(tenant))


def test_what_is_read_of_tana_again_does_not_bring_an_erased_text_back(
    tenant: Tenant,
    tana: StandIn,  # noqa: F811
    sources: dict[str, str],
):
    name = f"Prefers {sources['seed']} in reviews"
    long = f"{token()} and {'so on ' * 30}{token()}"
    number = remember(tenant, long)
    tag = tana.add_tag("pattern")
    node, longer = tana.add_node(name, tag), tana.add_node(node_name(long), tag)
    tenant.settings.pai_mapping.parent.mkdir(parents=True)
    body = {"version": 1, "workspace": "w", "lastSync": None, "mappings": {"pat_1": node.id}}
    tenant.settings.pai_mapping.write_text(json.dumps(body))
    assert CliRunner().invoke(cli, ["tana", "read"]).exit_code == 0
    assert holding(tenant, sources["seed"], long[:60])
    asked = ["erase", "--matching", sources["seed"], "--trash-in-tana", "--yes", "--json"]
    done = json.loads(CliRunner().invoke(cli, asked).output)
    assert (done["nodes"], done["trashed"], tana.nodes[node.id].in_trash) == ([node.id], True, True)
    erase(tenant, [number], confirm=True)
    tana.nodes[node.id].in_trash = False  # like a person who restores it
    assert CliRunner().invoke(cli, ["tana", "read"]).exit_code == 0
    assert holding(tenant, sources["seed"], long[:60]) == []
    with tenant.catalog.read() as connection:
        rows = connection.execute("SELECT name FROM tana_nodes WHERE id IN ($1, $2)", [node.id, longer.id]).fetchall()
    assert rows == [("[erased]",), ("[erased]",)]


def test_copies_that_an_apply_of_learn_keeps_lose_the_text_and_the_rest_of_the_journal_stays(tenant: Tenant):
    text = f"Karl said {token()}."
    number = remember(tenant, text)
    journal = Journal(tenant.folder / "learn" / "applies")
    journal.begin(Plan(1, "2026-03-14T09:30:00+00:00", (), ()), {"MEMORY.md": text.encode()})
    journal.mark(1, "done")
    holders = holding(tenant, text)
    assert [path for path in holders if "applies" in str(path)]
    erase(tenant, [number], confirm=True)
    assert holding(tenant, text) == []
    assert journal.plan(1)


def test_what_a_person_decided_about_projects_and_names_stays_though_the_text_names_them(tenant: Tenant):
    text = f"The exporter lives in /work/billing-export and {token()} of Bergstrom Logistics owns it."
    number = remember(tenant, text)
    set_quiet(tenant.folder, Project("/work/billing-export", ()), quiet=True)
    decided = NameDecision("merge", ("Bergstrom AG",), ("k1",), "Bergstrom Logistics", "k2")
    change_name_decisions(tenant.state, lambda decisions: (*decisions, decided))
    journal = Journal(tenant.folder / "learn" / "applies")
    plan = Plan(
        1, "2026-03-14T09:30:00+00:00", (Placed("/work/billing-export", "d", None),), (), folders=("/work/billing-export",)
    )
    journal.begin(plan, {})
    erase(tenant, [number], confirm=True)
    assert is_quiet(tenant.folder, Project("/work/billing-export", ()))
    assert read_name_decisions(tenant.state)[-1].into == "Bergstrom Logistics"
    assert journal.plan(1) == plan


TEXTS = st.text("ab\N{LATIN SMALL LETTER E WITH ACUTE}", max_size=40)


@given(st.lists(TEXTS.filter(bool), max_size=8), st.lists(TEXTS, max_size=30).map("".join))
def test_many_texts_are_found_as_each_is_by_itself(texts: list[str], data: str):
    data += "".join(texts[::2])
    for others in ([], [f"c{number}" for number in range(40)]):
        assert set(Finder([*texts, *others]).find_in(data.encode())) == {text for text in texts if text in data}


def test_an_erasure_breaks_no_creative_link_and_the_next_build_drops_those_of_what_is_gone(tenant: Tenant):
    one, two, three = (store(tenant, NewMemory(f"The dock has {n} cranes.", Source.CLI)).id for n in range(3))
    refresh_graph(tenant.catalog, tenant.memories, tenant.relations)
    links = sorted(tuple(sorted(pair)) for pair in ((one, two), (two, three)))
    with tenant.catalog.write() as connection:
        for pair in links:
            connection.execute("INSERT INTO creative_links VALUES ($1, $2, 'SHARES_THEME', 0.9, '2026-W22', now())", pair)

    def kept() -> list[tuple[int, int]]:
        assert not [finding.what for finding in examine(tenant) if "creative link" in finding.what]
        with tenant.catalog.read() as connection:
            return connection.execute("SELECT source_id, target_id FROM creative_links ORDER BY ALL").fetchall()

    erase(tenant, (str(one),), confirm=True)
    assert kept() == links
    refresh_graph(tenant.catalog, tenant.memories, tenant.relations)
    assert kept() == [tuple(sorted((two, three)))]
