"""The next sync completes a sync that was killed at any step: nothing is lost or duplicated."""

import copy
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from memory_assets.cli.main import cli
from memory_assets.http import Service
from memory_assets.settings import Settings
from memory_assets.tana.client import TanaClient
from memory_assets.tana.state import Mapping, SyncRecord
from memory_assets.tana.sync import sync
from memory_assets.tenants import Tenant
from memory_assets_tests.tana.seeds import HOSTILE, SLOW_REVIEW, TEST_FIRST, counts, learning, mapping, write_seed
from memory_assets_tests.tana.stand_in import StandIn


class KilledError(BaseException):
    """The process is killed here."""


class _Killer:
    """Kills the process before or after its n-th effect."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "fsync", lambda _: None)  # the process dies, not the machine
        monkeypatch.setattr("memory_assets.tana.sync.read_activity", lambda *_, **__: None)  # after the sync, and only reads
        self.at = 0
        self.step = 0
        self._wrap(monkeypatch, Mapping, "save")
        self._wrap(monkeypatch, SyncRecord, "save")
        send = Service.send

        def sent(service: Service, method: str, *given: Any, **named: Any) -> Any:
            if method == "GET":
                return send(service, method, *given, **named)
            self._count()
            answer = send(service, method, *given, **named)
            self._count()
            return answer

        monkeypatch.setattr(Service, "send", sent)

    def _wrap(self, monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> None:
        real: Callable[..., Any] = getattr(owner, name)

        def wrapped(*given: Any, **named: Any) -> Any:
            self._count()
            found = real(*given, **named)
            self._count()
            return found

        monkeypatch.setattr(owner, name, wrapped)

    def _count(self) -> None:
        self.step += 1
        if self.step == self.at:
            raise KilledError

    def die_at(self, step: int) -> None:
        """Die at this step from now on; 0 means never."""
        self.step, self.at = 0, step


@pytest.fixture
def killer(monkeypatch: pytest.MonkeyPatch) -> _Killer:
    return _Killer(monkeypatch)


class _World:
    """Tana and the disk, to be brought back to how they were."""

    def __init__(self, tana: StandIn, folder: Path) -> None:
        self._tana = tana
        self._folder = folder
        self._kept = folder.with_name("kept")
        shutil.copytree(folder, self._kept)
        self._state = copy.deepcopy((tana.nodes, tana.tags, tana.by_tag))

    def again(self) -> None:
        shutil.rmtree(self._folder)
        shutil.copytree(self._kept, self._folder)
        self._tana.nodes, self._tana.tags, self._tana.by_tag = copy.deepcopy(self._state)


def _walked(killer: _Killer, world: _World, tenant: Tenant, tana: StandIn) -> Iterator[int]:
    """Kill a sync at every step; yield after the sync that follows each kill."""
    client = TanaClient.open(tenant.settings)
    step = 0
    while True:
        step += 1
        world.again()
        killer.die_at(step)
        try:
            sync(tenant, client=client)
        except KilledError:
            killer.die_at(0)
            sync(tenant, client=client)
            writes = tana.writes
            sync(tenant, client=client)
            assert tana.writes == writes, f"killed at step {step}: a sync after the next one writes"
            yield step
        else:
            assert step > 20
            return


def _in_one_folder(settings: Settings, world: Path) -> Settings:
    """Settings with everything that a sync reads and writes below one folder, which can be copied and restored."""
    return settings.model_copy(
        update={"data_dir": world / "data", "pai_mapping": world / "map/m.json", "pai_seed": world / "seed.json"}
    )


@pytest.mark.long
def test_killed_at_every_step_of_a_first_sync_nothing_is_lost_or_doubled(
    workspace: StandIn, settings: Settings, tmp_path: Path, killer: _Killer
) -> None:
    at = _in_one_folder(settings, tmp_path / "world")
    tenant = Tenant(at)
    write_seed(at.pai_seed, [HOSTILE], [], [], [SLOW_REVIEW])
    CliRunner().invoke(cli, ["pai", "schema", "init"])
    workspace.tags[workspace.tag_named("pai_learning")].fields.pop()
    world = _World(workspace, tmp_path / "world")
    for step in _walked(killer, world, tenant, workspace):
        assert counts(workspace) == (1, 1), f"killed at step {step}"
        assert len([tag for tag in workspace.tags.values() if tag.name == "pai_learning"]) == 1
        assert sum(node.name == "PAI memory" for node in workspace.nodes.values()) == 1
        nodes = Mapping.load(at.pai_mapping).nodes
        assert [
            workspace.by_seed_id("pai_learning", "pat_0002")[0].id,
            workspace.by_seed_id("pai_proposal", "prop_077")[0].id,
        ] == [
            nodes["pat_0002"],
            nodes["prop_077"],
        ]


@pytest.mark.long
def test_killed_at_every_step_of_a_later_sync_nothing_is_lost_or_doubled(
    workspace: StandIn, settings: Settings, tmp_path: Path, killer: _Killer
) -> None:
    at = _in_one_folder(settings, tmp_path / "world")
    tenant = Tenant(at)
    trashed = learning("pat_0005", "Trashed in Tana")
    write_seed(at.pai_seed, [TEST_FIRST, trashed, learning("pat_0009", "Goes soon")], [], [], [SLOW_REVIEW])
    sync(tenant)
    workspace.trash(mapping(at)["pat_0005"])
    workspace.nodes[mapping(at)["pat_0005"]].indexed_at = 0
    changed = learning("pat_0005", "Trashed in Tana, and then corrected")
    learned = learning("prop_077", SLOW_REVIEW["content"])
    write_seed(at.pai_seed, [learning("pat_0001", "Grace Hopper writes the failing test, see prop_077"), changed], [learned])
    world = _World(workspace, tmp_path / "world")
    for step in _walked(killer, world, tenant, workspace):
        assert counts(workspace) == (3, 0), f"killed at step {step}"
        (edited,) = workspace.by_seed_id("pai_learning", "pat_0001")
        assert workspace.value(edited, "Related People") == ["Grace Hopper"]
        assert len(workspace.by_seed_id("pai_learning", "prop_077")) == 1


@pytest.mark.parametrize("then", ["the entry is as before", "the look-up fails"])
def test_links_that_a_kill_interrupted_are_completed_beside_one_that_is_added_meanwhile(
    workspace: StandIn, tenant: Tenant, seed: Path, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    write_seed(seed, [TEST_FIRST])
    sync(tenant)
    node = workspace.nodes[mapping(tenant.settings)["pat_0001"]]
    people = next(definition.id for definition in workspace.tags[node.tags[0]].fields if definition.name == "Related People")
    for name in ("Mary Somerville", "Charles Babbage"):
        workspace.set_option(node.id, people, workspace.add_node(name, workspace.tag_named("person")).id, "append")
    write_seed(seed, [learning("pat_0001", "Grace Hopper writes the failing test before the fix")])
    send = Service.send

    def send_until_killed(service: Service, method: str, path: str, **named: Any) -> Any:
        answer = send(service, method, path, **named)
        if path.endswith("/option"):
            raise KilledError
        return answer

    with monkeypatch.context() as patched, pytest.raises(KilledError):
        patched.setattr(Service, "send", send_until_killed)
        sync(tenant)
    assert workspace.value(node, "Related People") == ["Mary Somerville"]
    workspace.set_option(node.id, people, workspace.add_node("Emmy Noether", workspace.tag_named("person")).id, "append")
    ours = "Grace Hopper"
    if then == "the entry is as before":
        write_seed(seed, [TEST_FIRST])
        ours = "Ada Lovelace"
    else:
        workspace.traps.failing_searches = "grace"
    sync(tenant)
    workspace.traps.failing_searches = ""
    sync(tenant)
    assert workspace.value(node, "Related People") == ["Mary Somerville", "Charles Babbage", ours, "Emmy Noether"]
    writes = workspace.writes
    sync(tenant)
    assert workspace.writes == writes


def test_a_process_that_is_killed_in_the_midst_of_a_sync_is_gone_on_with(workspace: StandIn, tenant: Tenant, seed: Path) -> None:
    write_seed(seed, [learning(f"pat_{number:04}", f"Lesson {number} of six") for number in range(6)])
    running = subprocess.Popen([sys.executable, "-m", "memory_assets.cli", "pai", "sync"], stderr=subprocess.DEVNULL)
    imports: list[str] = []

    def kill_at_the_fourth(operation: str) -> None:
        if operation == "nodes.importTanaPaste":
            imports.append(operation)
            if len(imports) == 4:
                os.kill(running.pid, signal.SIGKILL)

    workspace.on_write = kill_at_the_fourth
    assert running.wait() == -signal.SIGKILL
    assert counts(workspace) == (3, 0)
    sync(tenant)
    assert counts(workspace) == (6, 0)
    assert sorted(mapping(tenant.settings).values()) == sorted(node.id for node in workspace.live("pai_learning"))
