"""A hostile file is handled quickly, in little memory, and does not stop the rest."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from memory_assets.doctor import examine
from memory_assets.graph.known_names import refresh_known_names
from memory_assets.ingest.scans import refresh_source, refusals
from memory_assets.models import Source
from memory_assets.settings import load_settings
from memory_assets.tenants import Tenant
from memory_assets_tests.conftest import WriteSilo
from memory_assets_tests.ingest.runs import by_title, ingest
from memory_assets_tests.torture import zygote

SECONDS, MEMORY_BYTES = 60, 3 << 30


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(100 << 30)


HOSTILE: dict[str, Callable[[Path], object]] = {
    "a named pipe": os.mkfifo,
    "a link to zeros": lambda path: path.symlink_to("/dev/zero"),
    "a sparse file": _sparse,
    "a folder": lambda path: path.mkdir(),
    "deep JSON": lambda path: path.write_text("[" * 200_000),
    "deep JSON within": lambda path: path.write_text('{"state":{"activeProjects":' + "[" * 200_000),
}


@pytest.fixture(params=HOSTILE)
def make(request: pytest.FixtureRequest) -> Callable[[Path], object]:
    def made(path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        HOSTILE[request.param](path)

    return made


def in_bounds(*arguments: str, given: str = "", folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run Python with arguments; it must end soon and may take three gigabytes."""
    ended = subprocess.run(
        [sys.executable, *arguments],
        input=given,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES)),
    )
    assert "Traceback" not in ended.stderr, ended.stderr
    return ended


def take_in_within_bounds() -> None:
    """Ingest everything in a process that may allocate three more gigabytes."""
    used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_BYTES, used + MEMORY_BYTES))
    tenant = Tenant(load_settings())
    for source in (Source.CLAUDE_SILO, Source.PAI_SEED, Source.PAI_LEARNING):
        refresh_source(tenant, source)
    refresh_known_names(tenant)


def test_a_hostile_seed_is_refused_by_name_and_the_silos_are_remembered(
    make: Callable[[Path], object], tenant: Tenant, write_silo: WriteSilo
) -> None:
    make(tenant.settings.pai_seed)
    make(tenant.settings.pai_learning_dir / "USER" / "user_x.json")
    make(tenant.settings.claude_projects_dir / "-srv-x" / "memory" / "x.json")
    make(tenant.settings.pai_learning_dir / "ratings.jsonl")
    write_silo("owner", "Priya owns the billing export.")
    done = zygote.shared().call(take_in_within_bounds).wait(SECONDS)
    assert done.code == 0, done.err
    seed = [each for each in refusals(tenant.catalog, Source.PAI_SEED) if each.path == str(tenant.settings.pai_seed)]
    assert seed and seed[0].mend
    ingest(tenant)
    assert "owner" in by_title(tenant)


def test_commands_of_tana_and_hooks_end_beside_hostile_files(make: Callable[[Path], object], tenant: Tenant) -> None:
    settings = tenant.settings
    for path in (settings.pai_config, settings.pai_seed, settings.pai_mapping):
        make(path)
    transcript = settings.data_dir.parent / "transcript.jsonl"
    make(transcript)
    checkout = settings.data_dir.parent / "checkout"
    make(checkout / ".git")
    given = json.dumps({"session_id": "s", "transcript_path": str(transcript)})
    folder = checkout if checkout.is_dir() else None
    for arguments in (["pai", "status"], ["session-end"], ["session-start"]):
        ended = in_bounds("-m", "memory_assets.cli", *arguments, given=given, folder=folder)
        assert "fault of memory_assets" not in ended.stderr


def test_a_hostile_settings_file_of_claude_code_is_named(make: Callable[[Path], object], tmp_path: Path) -> None:
    home = tmp_path / "home" / ".claude"
    make(home / "settings.json")
    ended = in_bounds("-m", "memory_assets.cli", "install", "claude-code", "--status-line")
    assert ended.returncode == 1 and "settings.json" in ended.stderr


def test_a_seed_that_is_mended_is_read_at_the_next_run(tenant: Tenant) -> None:
    seed = tenant.settings.pai_seed
    seed.parent.mkdir(parents=True)
    os.mkfifo(seed)
    assert refresh_source(tenant, Source.PAI_SEED).refusals
    assert [finding.level for finding in examine(tenant) if f"{seed} is no file" in finding.what] == ["note"]
    seed.unlink()
    seed.write_text(json.dumps({"version": "1.0.0", "learned": {}}))
    assert not refresh_source(tenant, Source.PAI_SEED).refusals
