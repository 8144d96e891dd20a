"""Nothing leaves this machine, and nothing is written but where the settings say: seen from outside, by the system calls."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

import pytest

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
    """What a command line begins with to run without a network, under a trace; skips the test where that cannot be had."""
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


def test_no_command_and_no_face_reaches_beyond_this_machine_or_writes_elsewhere(sample_home: Path, tmp_path: Path) -> None:
    alone, trace, given, folder = _isolated(), tmp_path / "trace", tmp_path / "given", tmp_path / "cwd"
    given.mkdir()
    folder.mkdir()
    unset = ("MEMORY_EMBEDDER", "DAGSTER_DISABLE_TELEMETRY", "ORT_DISABLE_TELEMETRY", "HF_HUB_DISABLE_TELEMETRY", "TMPDIR")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    environment |= {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    calls_watched = f"trace={','.join((*_NETWORK, *_FILES))}"
    watch = ["strace", "-f", "--seccomp-bpf", "-qq", "-y", "-s", "4096", "-e", calls_watched, "-o", str(trace)]
    command = [*alone, *watch, sys.executable, "-m", "memory_assets_tests.every_command", str(given)]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-3_000:]
    calls = trace.read_text(encoding="utf-8", errors="replace")
    assert len(calls.splitlines()) > 1_000
    assert list(_reached(calls)) == []
    allowed = [tmp_path / "data", given, Path("/dev"), Path("/proc/self")]
    elsewhere = {path for path in _written(calls) if not any(path.is_relative_to(each) for each in allowed)}
    assert elsewhere == set()
