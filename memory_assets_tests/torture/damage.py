"""Remove, truncate and overwrite files: derived data must be rebuilt; memories must be served or their loss reported."""

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from memory_assets_tests.torture.world import Report, World, same
from memory_assets_tests.torture.zygote import Zygote

_READING = (("search", "billing export", "--json"), ("show", "1"), ("recent",), ("export",), ("status",))


def _remove(*patterns: str) -> Callable[[Path], None]:
    def act(tenant: Path) -> None:
        for path in _matching(tenant, patterns):
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return act


def _overwrite(data: bytes, *patterns: str) -> Callable[[Path], None]:
    def act(tenant: Path) -> None:
        for path in _matching(tenant, patterns):
            path.write_bytes(data)

    return act


def _cut(*patterns: str, by: int = 2) -> Callable[[Path], None]:
    def act(tenant: Path) -> None:
        for path in _matching(tenant, patterns):
            os.truncate(path, path.stat().st_size - path.stat().st_size // by)

    return act


def _newest_manifest(tenant: Path) -> None:
    versions = tenant / "vectors/memories.lance/_versions"
    hint = sorted((path for path in versions.iterdir() if path.suffix == ".manifest"), key=lambda path: path.stat().st_mtime_ns)
    hint[-1].unlink()


def _matching(tenant: Path, patterns: tuple[str, ...]) -> list[Path]:
    found = [path for pattern in patterns for path in tenant.glob(pattern)]
    assert found, f"nothing to damage at {patterns}"
    return found


_TABLE = "vectors/memories.lance"
REBUILT: dict[str, Callable[[Path], None]] = {
    "all indices removed": _remove(f"{_TABLE}/_indices/*"),
    "an index cut short": _cut(f"{_TABLE}/_indices/*/*"),
    "an index overwritten": _overwrite(b"\0" * 4_096, f"{_TABLE}/_indices/*/*"),
    "the catalog removed": _remove("catalog.duckdb"),
    "the catalog cut by a half": _cut("catalog.duckdb"),
    "the catalog cut by a tenth": _cut("catalog.duckdb", by=10),
    "the catalog overwritten": _overwrite(b"not a database", "catalog.duckdb"),
    "known names overwritten": _overwrite(b"{", "known_names.json"),
    "the access log overwritten": _overwrite(b"\xff\x00 1 2 3 .\n\x00", "access/*"),
    "Dagster's records cut short": _cut("../dagster/history/runs.db"),
}
"""Damage that `memory doctor --mend` and `memory run` repair completely."""
TOLD: dict[str, Callable[[Path], None]] = {
    "the newest manifest removed": _newest_manifest,
    "all manifests removed": _remove(f"{_TABLE}/_versions/*"),
    "a manifest overwritten": _overwrite(b"\0" * 100, f"{_TABLE}/_versions/*.manifest"),
    "data files removed": _remove(f"{_TABLE}/data/*"),
    "data files cut short": _cut(f"{_TABLE}/data/*"),
    "data files overwritten": _overwrite(b"\xff" * 1_000, f"{_TABLE}/data/*"),
    "a key's file overwritten": _overwrite(b"{", "keys/*"),
    "the relations removed": _remove("vectors/relations.lance/data/*"),
}
"""Damage to memories: `doctor` must report it and exit with 1, and no command may pretend that all is well."""


def campaign(zygote: Zygote, folder: Path, names: Sequence[str] = (*REBUILT, *TOLD)) -> Report:
    """Apply each damage to a copy of one healthy store."""
    report = Report("damaged files")
    world = World(zygote, folder / "world").with_sample()
    world.remember(60)
    for line in ("run", "key create laptop", "show 1", "forget 4", "supersede 9 10", "tag 6 billing"):
        world.must(*line.split())
    origin = world.copied(folder / "origin")
    for name in names:
        world = origin.copied(folder / "world")  # the same path, so that the sources have not moved
        (REBUILT | TOLD)[name](world.data / "main")
        for arguments in _READING:
            report.attempt(f"{name}: {arguments[0]}", world.run(*arguments).problem)
        examined = world.run("doctor")
        report.attempt(f"{name}: doctor", examined.problem)
        if name in REBUILT:
            report.attempt(f"{name}: mended", _not_mended(origin, world))
        else:
            report.attempt(f"{name}: told", None if examined.code == 1 else "doctor finds nothing wrong")
    return report


def _not_mended(origin: World, world: World) -> str | None:
    for line in ("doctor --mend", "run", "doctor", "status", "search billing export --json"):
        done = world.run(*line.split())
        if problem := done.problem or (done.out + done.err).strip()[-300:] * (done.code != 0):
            return f"{line}: {problem}"
    return same(origin.seen().rows, world.seen().rows)
