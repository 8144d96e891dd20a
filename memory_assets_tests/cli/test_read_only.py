"""A read-only data folder: reading commands answer, writing commands refuse with one sentence."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from memory_assets.models import NewMemory, Source
from memory_assets.operations.store import store
from memory_assets.settings import Settings
from memory_assets.tenants import Tenant, create_tenant

MOUNTED = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
COMMANDS = [["search", "lock"], ["recent"], ["show", "{id}"], ["export", "-"], ["status"], ["store", "another"]]
RUN = """
import json, sys
from click.testing import CliRunner
from memory_assets.cli.main import cli
done = [CliRunner().invoke(cli, command) for command in json.loads(sys.argv[1])]
print(json.dumps([[each.stdout, repr(each.exception) if each.exception else None] for each in done]))
"""


def test_a_data_folder_that_can_only_be_read_is_read(settings: Settings) -> None:
    if subprocess.run(["unshare", "-rm", "true"], check=False, capture_output=True).returncode:
        pytest.skip("this machine lets nobody mount")
    create_tenant(Tenant(settings))
    stored = store(Tenant(settings), NewMemory("Alice debugs the lock.", Source.CLI))
    before = sorted(Path(settings.data_dir).rglob("*"))
    commands = json.dumps([[word.format(id=stored.id) for word in command] for command in COMMANDS])
    shell = ["unshare", "-rm", "sh", "-c", MOUNTED, str(settings.data_dir)]
    done = subprocess.run([*shell, sys.executable, "-c", RUN, commands], check=True, capture_output=True, text=True)
    *answered, (_, refused) = json.loads(done.stdout)
    for said, failure in answered[:4]:
        assert failure is None
        assert "Alice debugs the lock." in said
    assert answered[4][1] is None
    assert "can only be read" in refused
    assert refused.startswith("StoreError")
    assert sorted(Path(settings.data_dir).rglob("*")) == before
