"""`memory scan` finds secrets stored before masking existed or where they are allowed."""

import json
import re
import shlex
import sys
from datetime import UTC, datetime

import numpy as np
import pytest
from click.testing import CliRunner

from memory_assets.cli.look import scan as command
from memory_assets.cli.main import cli
from memory_assets.ingest.direct import import_memories, store_memories
from memory_assets.ingest.scans import refresh_source
from memory_assets.keeping.copying import take_backup
from memory_assets.keeping.repository import Repository
from memory_assets.language.embedders.context import embed_in_context
from memory_assets.learn.briefing import renew_brief
from memory_assets.models import NewMemory, RelationType, SecretPolicy, Source, State
from memory_assets.operations.backup import backup
from memory_assets.operations.changes import tag
from memory_assets.operations.scan import mend, scan
from memory_assets.stores.access_log import AccessLog, fold_accesses
from memory_assets.stores.keys import KeyStore
from memory_assets.stores.relations import StatedRelation
from memory_assets.stores.rows import COLUMNS, from_arrow, headed
from memory_assets.tenants import Tenant
from memory_assets_tests.conftest import WriteSilo
from memory_assets_tests.ingest.runs import ignore, ingest
from memory_assets_tests.ingest.test_secrets import PASSWORD, TOKEN, files_with, use


def test_a_mend_leaves_no_byte_of_a_secret_and_takes_nothing_else(tenant: Tenant, write_silo: WriteSilo, settings):
    open_to_all = use(tenant, SecretPolicy.ALLOW)
    given = [NewMemory(f"The admin password is {PASSWORD}", Source.CLI, tags=("billing",)), NewMemory("Plain.", Source.CLI)]
    secret, plain = (each.memory.id for each in store_memories(open_to_all, given))
    write_silo("staging", f"Staging runs with {TOKEN}")
    refresh_source(open_to_all, Source.CLAUDE_SILO)
    ingest(tenant)
    tenant.memories.transition([secret], [State.ACTIVE], State.FORGOTTEN)
    tenant.relations.state(StatedRelation(secret, plain, RelationType.RELATES_TO, note=f"because of {TOKEN}"))
    with tenant.catalog.write() as connection:
        link = [plain, secret, plain, f"both use {TOKEN}"]
        connection.execute("INSERT INTO analyzer_links VALUES ($1, $2, $3, 'RELATES_TO', 0.5, $4)", link)
    AccessLog(tenant.state).record([plain], datetime.now(UTC))
    fold_accesses(tenant.catalog, AccessLog(tenant.state), datetime.now(UTC))
    deleted = tenant.folder / "deleted" / "2026.jsonl"
    deleted.parent.mkdir()
    deleted.write_text(json.dumps({"content": f"pw: {PASSWORD}"}) + "\n")
    assert {path.suffix for path in files_with(settings.data_dir, TOKEN, PASSWORD)} == {".lance", ".duckdb", ".json", ".jsonl"}
    assert len(scan(tenant).leaks) == 7

    mended = mend(tenant)
    assert len(mended.leaks) == 7
    assert mended.remains == []
    assert files_with(settings.data_dir, TOKEN, PASSWORD) == []
    assert scan(tenant).leaks == []
    (forgotten,) = tenant.memories.get([secret])
    assert (forgotten.content, forgotten.state) == ("The admin password is [secret: password]", State.FORGOTTEN)
    assert "billing" in forgotten.tags
    column = str(tenant.memories.columns.live)
    rows = tenant.memories.scan(("id", column), f"id = {secret}")
    said_when, said = headed(forgotten)
    made = embed_in_context(tenant.embedder, [said], [said_when])
    assert np.allclose(rows[column][0].as_py(), made.in_context[0], atol=1e-5)

    again = ingest(tenant)
    assert (again.added, again.superseded, again.vanished) == (0, 0, 0)
    assert {memory.state for memory in from_arrow(tenant.memories.scan(COLUMNS)) if memory.source_key} == {State.ACTIVE}
    with tenant.catalog.read() as connection:
        assert connection.execute("SELECT id, accesses FROM memory_access").fetchall() == [(plain, 1)]


def test_a_secret_of_another_tenant_is_masked_there_and_its_files_are_kept(tenant: Tenant):
    open_to_all = use(tenant, SecretPolicy.ALLOW)
    other = Tenant(open_to_all.settings, "copy")
    for each in (open_to_all, other):
        import_memories(each, [NewMemory(f"pw: {PASSWORD}", Source.IMPORT)], ignore)
    done = CliRunner().invoke(command, ["--mend"])
    assert done.exit_code == 1
    assert [line for line in done.output.splitlines() if line.startswith("Still in")] == [
        "Still in the tenant copy: `memory scan --mend --tenant copy` takes it out there."
    ]
    assert mend(other).others == [] and len(other.memories) == 1


def test_a_mend_names_the_backups_that_hold_a_secret(tenant: Tenant, tmp_path, monkeypatch: pytest.MonkeyPatch):
    place = str(tmp_path / "backups")
    given = [NewMemory(text, Source.CLI) for text in ("Plain.", "Even plainer.")]
    first, second = (each.memory.id for each in store_memories(tenant, given))
    backup(tenant, place)
    tenant.relations.state(StatedRelation(first, second, RelationType.RELATES_TO, note=f"because of {TOKEN}"))
    store_memories(use(tenant, SecretPolicy.ALLOW), [NewMemory(f"pw: {PASSWORD}", Source.CLI)])
    with_secrets = take_backup(tenant, Repository(place))
    said = CliRunner().invoke(command, ["--mend"]).output
    assert [line for line in said.splitlines() if line.startswith("Still in")] == [
        f"Still in the backup {place}/snapshots/{with_secrets.name}"
    ]
    tenant.relations.state(StatedRelation(second, first, RelationType.RELATES_TO, note=f"because of {TOKEN}"))
    take_backup(tenant, Repository(place))
    (named,) = mend(tenant).backups
    assert named > f"{place}/snapshots/{with_secrets.name}"
    (tenant.folder / "names.json").write_text(json.dumps([{"names": [f"password: {PASSWORD}"]}]))
    with_file = take_backup(tenant, Repository(place))
    with monkeypatch.context() as patched, pytest.raises(SystemExit):
        patched.setattr("memory_assets.operations.scan.purge_derived", lambda _: sys.exit())
        mend(tenant)
    assert mend(tenant).backups == [f"{place}/snapshots/{with_file.name}"]


def test_the_command_exits_with_1_while_a_secret_is_there(tenant: Tenant):
    import_memories(use(tenant, SecretPolicy.ALLOW), [NewMemory(f"pw: {PASSWORD}", Source.IMPORT)], ignore)
    found = CliRunner().invoke(command, [])
    assert found.exit_code == 1
    assert "password" in found.output
    assert PASSWORD not in found.output
    assert CliRunner().invoke(command, ["--mend"]).exit_code == 0
    assert CliRunner().invoke(command, []).exit_code == 0


def test_deleted_memories_with_line_breaks_of_unicode_are_looked_through(tenant: Tenant):
    deleted = tenant.folder / "deleted" / "2026.jsonl"
    deleted.parent.mkdir(parents=True)
    text = f"One\u2028two\x85three {TOKEN}"
    deleted.write_text(json.dumps({"content": text}, ensure_ascii=False) + "\n", encoding="utf-8")
    assert len(scan(tenant).leaks) == 1
    mend(tenant)
    assert json.loads(deleted.read_text(encoding="utf-8"))["content"].startswith("One\u2028two\x85three [secret:")


def test_a_secret_in_the_brief_that_sessions_are_told_is_found_and_masked(tenant: Tenant):
    import_memories(tenant, [NewMemory("Mira bakes bread.", Source.IMPORT)], ignore)
    renew_brief(tenant)
    brief = tenant.folder / "brief.json"
    brief.write_text(brief.read_text().replace("bread", TOKEN))
    (leak,) = scan(tenant).leaks
    assert str(brief) in leak.place
    mend(tenant)
    assert scan(tenant).leaks == [] and TOKEN not in brief.read_text()


GITHUB = "gh" + "p_16C7e42F292c6912E771" + "0c838347Ae178B4b"


def test_a_secret_in_a_tag_a_decision_and_a_keys_description_is_found_and_masked(tenant: Tenant, settings):
    open_to_all = use(tenant, SecretPolicy.ALLOW)
    number = store_memories(open_to_all, [NewMemory("Plain.", Source.CLI)])[0].memory.id
    tag(open_to_all, number, add=[GITHUB, "billing"])
    tag(open_to_all, number, remove=["billing"])
    kept, _ = KeyStore(tenant.state).create(f"password={PASSWORD}")
    (tenant.folder / "names.json").write_text(json.dumps([{"names": [f"password: {PASSWORD}"]}]))
    assert [leak.place.split(" ")[0] for leak in scan(tenant).leaks] == ["Memory", str(tenant.folder / "names.json"), "The"]
    assert mend(tenant).remains == []
    assert scan(tenant).leaks == []
    assert tenant.memories.get([number])[0].tags == ("secret-github-token",)
    assert [each.description for each in KeyStore(tenant.state).list()] == ["password=[secret: password]"]
    assert KeyStore(tenant.state).is_active(kept.id)
    assert files_with(settings.data_dir, PASSWORD, GITHUB, GITHUB.lower().replace("_", "-")) == []


def test_a_mend_that_ended_early_goes_through_everything_again(tenant: Tenant, monkeypatch: pytest.MonkeyPatch):
    import_memories(use(tenant, SecretPolicy.ALLOW), [NewMemory(f"pw: {PASSWORD}", Source.IMPORT)], ignore)
    names = tenant.folder / "known_names.json"
    names.write_text(PASSWORD, encoding="utf-8")
    with monkeypatch.context() as patched, pytest.raises(SystemExit):
        patched.setattr("memory_assets.operations.scan.purge_derived", lambda _: sys.exit())
        mend(tenant)
    mend(tenant)
    assert not names.exists() or PASSWORD not in names.read_text(encoding="utf-8")
    assert not list(tenant.folder.glob("*.tmp"))


def test_a_mend_ends_with_a_secret_that_a_character_without_a_shape_parts(tenant: Tenant, settings):
    store_memories(use(tenant, SecretPolicy.ALLOW), [NewMemory("The pass\u200bword: Krabbe19xyz", Source.CLI)])
    renew_brief(tenant)
    assert len(scan(tenant).leaks) == 2
    assert not mend(tenant).is_failure
    assert not scan(tenant).is_failure
    assert files_with(settings.data_dir, "Krabbe19xyz") == []


def test_a_file_name_with_a_secret_that_was_taken_in_before_is_found_and_masked(tenant: Tenant, write_silo: WriteSilo, settings):
    path = write_silo("kiln", "The kiln is warm.")
    path.rename(path.with_name(f"{TOKEN}.md"))
    ingest(use(tenant, SecretPolicy.ALLOW))
    assert files_with(settings.data_dir, TOKEN)
    assert scan(tenant).is_failure
    assert not mend(tenant).is_failure
    ingest(tenant)
    assert files_with(settings.data_dir, TOKEN) == []
    assert not scan(tenant).is_failure


def test_what_is_advised_about_another_tenant_is_done_to_it_when_pasted(tenant: Tenant):
    other = Tenant(use(tenant, SecretPolicy.ALLOW).settings, "work")
    store_memories(other, [NewMemory(f"The admin password is {PASSWORD}", Source.CLI)])
    said = CliRunner().invoke(cli, ["scan", "--tenant", "work"]).stdout
    assert "`memory --tenant work scan --mend`" in said
    for advised in re.findall("`memory (.*?)`", said):
        pasted = CliRunner().invoke(cli, shlex.split(advised))
        assert not pasted.exit_code, (advised, pasted.output)
    assert scan(Tenant(tenant.settings, "work")).leaks == []
    for name in ("status", "doctor"):
        assert "`memory --tenant work run`" in CliRunner().invoke(cli, [name, "--tenant", "work"]).stdout, name
