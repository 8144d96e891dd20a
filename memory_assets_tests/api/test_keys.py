"""Keys and tenants on the command line and on disk."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner

from memory_assets.cli.main import cli
from memory_assets.errors import MemoryAssetsError, NotFoundError, StoreError
from memory_assets.language.secrets import mask
from memory_assets.settings import Settings
from memory_assets.stores.keys import KeyStore
from memory_assets.tenants import Tenant, tenant_names


def run(*arguments: str) -> str:
    done = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_key_is_shown_once_and_kept_as_a_digest_that_only_its_owner_reads(tenant: Tenant) -> None:
    run("tenant", "create", "main")
    shown = json.loads(run("key", "create", "laptop", "--json"))
    (file,) = (tenant.folder / "keys").iterdir()
    assert shown["key"].split("_", 2)[2] not in file.read_text(encoding="utf-8")
    assert file.stat().st_mode & 0o077 == 0
    listed = json.loads(run("key", "list", "--json"))["keys"]
    assert [(key["id"], key["description"], key["active"]) for key in listed] == [(shown["id"], "laptop", True)]
    assert shown["key"] not in run("key", "list")
    found = KeyStore(tenant.state).find(shown["key"])
    assert found
    assert found.id == shown["id"]


def test_a_key_of_the_program_is_masked_in_every_text(tenant: Tenant) -> None:
    key = KeyStore(tenant.state).create()[1]
    for text in ("We use {} for the laptop.", "export KEY={}", "Its key, which is shown only now: {}"):
        assert mask(text.format(key)) == text.format("[secret: memory key]")
    assert json.loads(run("key", "create", f"my key {key}", "--json"))["description"] == "my key [secret: memory key]"


def test_a_revoked_key_opens_nothing_and_stays_listed(tenant: Tenant) -> None:
    run("tenant", "create", "main")
    shown = json.loads(run("key", "create", "--json"))
    run("key", "revoke", shown["id"])
    run("key", "revoke", shown["id"])
    assert KeyStore(tenant.state).find(shown["key"]) is None
    assert json.loads(run("key", "list", "--json"))["keys"][0]["active"] is False
    with pytest.raises(NotFoundError, match="memory key list"):
        run("key", "revoke", "../../../etc")


def test_tenants_are_created_listed_and_deleted(settings: object) -> None:
    shown = json.loads(run("tenant", "create", "claude", "--with-key", "--json"))
    assert shown["key"].startswith("mk_")
    run("store", "Only claude knows.", "--tenant", "claude")
    assert json.loads(run("tenant", "list", "--json"))["tenants"] == [
        {"tenant": "claude", "memories": 1, "keys": 1, "fault": "", "others": []}
    ]
    with pytest.raises(MemoryAssetsError, match="exists already"):
        run("tenant", "create", "claude")
    refused = CliRunner().invoke(cli, ["tenant", "delete", "claude"], input="n\n")
    assert refused.exit_code != 0
    deleted = json.loads(run("tenant", "delete", "claude", "--yes", "--json"))
    assert deleted == {"tenant": "claude", "deleted_memories": 1, "records_fault": ""}
    assert json.loads(run("tenant", "list", "--json"))["tenants"] == []
    with pytest.raises(NotFoundError):
        run("tenant", "delete", "claude", "--yes")


def test_a_damaged_tenant_hides_no_other_and_can_be_deleted(settings: Settings) -> None:
    for name in ("broken", "whole"):
        run("store", "A note.", "--tenant", name, "--create")
    for manifest in (settings.tenant_dir("broken") / "vectors" / "memories.lance" / "_versions").iterdir():
        manifest.write_bytes(b"nothing")
    broken, whole = json.loads(run("tenant", "list", "--json"))["tenants"]
    assert (broken["memories"], whole["memories"]) == (None, 1)
    assert broken["fault"] in run("tenant", "list")
    assert run("tenant", "delete", "broken", "--yes") == "Deleted tenant broken\n"
    assert tenant_names(settings) == ["whole"]


def test_only_the_default_tenant_may_be_absent_in_silence(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Nothing" in run("recent")
    run("tenant", "create", "claude")
    monkeypatch.setenv("MEMORY_TENANT", "cluade")
    for command in (["recent"], ["store", "A note."], ["status"]):
        with pytest.raises(NotFoundError, match=r"no tenant 'cluade'.* Did you mean 'claude'"):
            run(*command)
    assert "Stored" in run("store", "A note.", "--create")


def test_a_name_that_cannot_be_a_tenants_is_refused(tenant: Tenant) -> None:
    for name in ["../x", "x/y", "Main", "ｍain", "mаin", "con", "health", "a" * 64, "", "x\n", ".x"]:
        with pytest.raises(MemoryAssetsError):
            run("tenant", "create", name) if name else Tenant(tenant.settings, "/")
        assert tenant_names(tenant.settings) == [], name


def test_two_processes_that_create_keys_at_once_lose_none(tenant: Tenant) -> None:
    program = (
        "import sys; from pathlib import Path; from memory_assets.stores.keys import KeyStore\n"
        "from memory_assets.stores.state import FileState\n"
        + ("for _ in range(25): print(KeyStore(FileState(Path(sys.argv[1]))).create()[1])")
    )

    def create(_: int) -> list[str]:
        command = [sys.executable, "-c", program, str(tenant.folder)]
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
        return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.split()

    with ThreadPoolExecutor(2) as threads:
        keys = [key for made in threads.map(create, range(2)) for key in made]
    store = KeyStore(tenant.state)
    assert len({key.id for key in store.list()}) == 50
    assert all(store.find(key) for key in keys)


def test_a_key_file_that_is_damaged_is_named(tenant: Tenant) -> None:
    store = KeyStore(tenant.state)
    known, key = store.create()
    file = tenant.folder / "keys" / f"{known.id}.json"
    file.write_text("{", encoding="utf-8")
    with pytest.raises(StoreError, match=known.id):
        store.find(key)
