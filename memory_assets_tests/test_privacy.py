"""System calls show that nothing leaves this machine and that files are written only where the settings say."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

import pytest
from click.testing import CliRunner

from memory_assets.api.middleware import authorise
from memory_assets.cli.main import cli
from memory_assets.doctor import examine
from memory_assets.errors import StoreError
from memory_assets.ingest.direct import store_memories
from memory_assets.models import NewMemory, Source
from memory_assets.privacy import close_to_others, refuse_link
from memory_assets.settings import Settings
from memory_assets.stores.keys import KeyStore
from memory_assets.stores.state import FileState
from memory_assets.tenants import Tenant, tenant_names
from memory_assets_tests.torture import zygote

ROOT = Path(__file__).parents[1]
_NETWORK = ("connect", "bind", "sendto", "sendmsg", "sendmmsg")
_FILES = (
    "open",
    "openat",
    "creat",
    "mkdir",
    "mkdirat",
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "symlink",
    "symlinkat",
)
_LOOPBACK_UP = """
import fcntl, os, socket, struct, sys
with socket.socket() as any_socket:
    fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh", b"lo", 1))  # SIOCSIFFLAGS, IFF_UP
os.execvp(sys.argv[1], sys.argv[1:])
"""
"""A new network namespace has a loopback device that is down."""


def _isolated() -> list[str]:
    """Return the command prefix to run without a network under a trace; skip the test if that is not possible."""
    missing = [tool for tool in ("strace", "unshare") if not shutil.which(tool)]
    if missing:
        pytest.skip(f"{' and '.join(missing)} missing: tools/trace_packages.sh installs what Debian has")
    alone = ["unshare", "--map-root-user", "--net", sys.executable, "-c", _LOOPBACK_UP]
    tried = subprocess.run([*alone, "strace", "-f", "-o", os.devnull, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"this machine allows no network namespace or no trace: {tried.stderr.strip()}")
    return alone


def _reached(trace: str) -> Iterator[str]:
    """Lines of a trace that name a host other than this one, or a name server wherever it is."""
    for line in trace.splitlines():
        for address in re.findall(r'inet_(?:addr\("|pton\(AF_INET6, ")([^"]+)"', line):
            if not ip_address(address).is_loopback or "htons(53)" in line:
                yield line


def _written(trace: str) -> Iterator[Path]:
    """Paths that a trace shows as created, opened for writing, or named anew."""
    for line in trace.splitlines():
        call = re.match(r"\d+ +(\w+)\((.*)\) += (?!-1)", line)
        if not call or call[1] not in _FILES:
            continue
        if call[1].startswith("open") and not re.search(r"O_WRONLY|O_RDWR|O_CREAT", call[2]):
            continue
        folder = re.match(r"(?:AT_FDCWD|\d+)<([^>]*)>", call[2])
        name = re.findall(r'"((?:[^"\\]|\\.)*)"', call[2])[-1]
        yield Path(folder[1] if folder else "/", name)


@pytest.mark.long
def test_no_command_and_no_face_reaches_beyond_this_machine_or_writes_elsewhere(sample_home: Path, tmp_path: Path) -> None:
    alone, trace, given, folder = _isolated(), tmp_path / "trace", tmp_path / "given", tmp_path / "cwd"
    for project in (sample_home / ".claude/projects").iterdir():
        if project.name != "-home-mira-lab":  # it has files of every kind, and each is embedded
            shutil.rmtree(project)
    given.mkdir()
    folder.mkdir()
    unset = ("MEMORY_EMBEDDER", "DAGSTER_DISABLE_TELEMETRY", "ORT_DISABLE_TELEMETRY", "HF_HUB_DISABLE_TELEMETRY", "TMPDIR")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    environment |= {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    calls_watched = f"trace={','.join((*_NETWORK, *_FILES))}"
    watch = ["strace", "-f", "--seccomp-bpf", "-qq", "-y", "-s", "4096", "-e", calls_watched, "-o", str(trace)]
    command = [*alone, *watch, sys.executable, "-m", "memory_assets_tests.every_command", str(given)]
    done = subprocess.run(command, env=environment, cwd=folder, umask=0, capture_output=True, text=True, timeout=580, check=False)
    assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-3_000:]
    calls = trace.read_text(encoding="utf-8", errors="replace")
    assert len(calls.splitlines()) > 1_000
    assert list(_reached(calls)) == []
    curated = [sample_home / ".claude/projects", sample_home / ".pai/MEMORY/LEARNING"]
    ours, devices = [tmp_path / "data", given, *curated], [Path("/dev"), Path("/proc/self")]
    elsewhere = {
        path
        for path in _written(calls)
        if not any(path.is_relative_to(each) for each in (ours if path.is_relative_to(tmp_path) else devices))
    }
    assert elsewhere == set()
    assert _modes(tmp_path / "data") == {}


def _modes(folder: Path) -> dict[str, str]:
    """Return the permissions at and below a folder that allow more than the owner."""
    return {
        str(path): oct(path.stat().st_mode & 0o7777)
        for path in (folder, *folder.rglob("*"))
        if path.stat().st_mode & 0o7777 != (0o700 if path.is_dir() else 0o600)
    }


def _memory(*arguments: str) -> subprocess.CompletedProcess[str]:
    return zygote.shared().memory(*arguments, umask=0)


def test_what_is_written_under_any_umask_is_for_its_owner_alone(settings: Settings) -> None:
    assert _memory("store", "Alice moved the billing export to DuckDB.").returncode == 0
    assert _memory("key", "create").returncode == 0
    assert _memory("search", "export").returncode == 0
    assert _modes(settings.data_dir) == {}


def test_the_doctor_finds_what_others_may_read_and_mends_it(settings: Settings, tenant: Tenant) -> None:
    store_memories(tenant, [NewMemory("Alice moved the billing export to DuckDB.", Source.CLI)])
    for path in (settings.data_dir, *settings.data_dir.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    found = _memory("doctor")
    assert found.returncode == 1
    assert "can be read by other users" in found.stdout
    assert "memory doctor --mend" in found.stdout
    mended = _memory("doctor", "--mend")
    assert (mended.returncode, _modes(settings.data_dir)) == (0, {}), mended.stdout


@pytest.mark.parametrize(("owner", "command"), [(0, "chmod -R u+rwX {1}"), (4242, "sudo chown -R {0} {1} && chmod -R u+rwX {1}")])
def test_the_doctor_names_all_that_its_user_may_not_use_and_one_command(
    settings: Settings, tenant: Tenant, monkeypatch: pytest.MonkeyPatch, owner: int, command: str
) -> None:
    store_memories(tenant, [NewMemory("Alice moved the billing export to DuckDB.", Source.CLI)])
    closed = [tenant.folder / "brief.json", tenant.folder / "state.json"]
    for path in closed:
        path.touch()
    monkeypatch.setattr(os, "access", lambda path, _mode, **_: path not in closed)
    monkeypatch.setattr(os, "geteuid", lambda: settings.data_dir.stat().st_uid + owner)
    (found,) = (each for each in examine(tenant) if "may not read" in each.what)
    assert all(str(path) in found.what for path in closed)
    assert found.mend == f"Run `{command.format(os.geteuid(), settings.data_dir)}`."


@pytest.mark.parametrize("part", ["", "vectors", "keys", "access", "catalog.duckdb"])
def test_a_tenant_whose_folder_or_a_part_of_it_is_a_link_is_refused(settings: Settings, tmp_path: Path, part: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    link = settings.data_dir / "other" / part
    link.parent.mkdir(parents=True)
    link.symlink_to(elsewhere)
    with pytest.raises(StoreError, match="is a link"):
        Tenant(settings, "other")
    if not part:
        _, key = KeyStore(FileState(elsewhere)).create()
        with pytest.raises(StoreError, match="is a link"):
            authorise(settings, "other", key)
        assert tenant_names(settings) == []


def test_the_doctor_closes_its_own_files_and_no_others(settings: Settings) -> None:
    tenant = Tenant(settings)
    store_memories(tenant, [NewMemory("Kept closed.", Source.CLI)])
    project = settings.data_dir
    foreign = [
        project / "src",
        project / "tmp",
        project / "src" / "main.py",
        project / "README.md",
        project / "app" / "keys" / "a.txt",
    ]
    for path in foreign:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix:
            path.write_text("theirs")
        else:
            path.mkdir(exist_ok=True)
        path.chmod(0o755)
    project.chmod(0o755)
    (tenant.folder / "vectors").chmod(0o755)
    done = CliRunner().invoke(cli, ["doctor", "--mend"])
    assert done.exit_code == 0, done.output
    assert (tenant.folder / "vectors").stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in (project, *foreign)} == {0o755}


def test_a_data_folder_that_others_can_list_is_said_and_mended_but_no_fault(settings: Settings) -> None:
    store_memories(Tenant(settings), [NewMemory("Kept closed.", Source.CLI)])
    close_to_others(settings.data_dir)
    settings.data_dir.chmod(0o755)
    done = CliRunner().invoke(cli, ["doctor"])
    assert (done.exit_code, "can list the names" in done.stdout) == (0, True), done.output
    assert CliRunner().invoke(cli, ["doctor", "--mend"]).exit_code == 0
    assert settings.data_dir.stat().st_mode & 0o777 == 0o700


def test_an_empty_data_folder_setting_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_DATA_DIR", "")
    done = _memory("doctor", "--mend")
    assert done.returncode
    assert "MEMORY_DATA_DIR cannot be used: is empty" in done.stderr


def test_a_tenant_in_a_folder_that_cannot_be_looked_at_is_refused_in_a_sentence() -> None:
    with pytest.raises(StoreError, match=r"cannot be used \(File name too long\)"):
        refuse_link(Path("/", "x" * 300))
