"""Fill the disk and mount it read-only: reading must work, writing must fail with one sentence, and nothing may be lost."""

import os
import shutil
import subprocess
from pathlib import Path

from memory_assets_tests.torture.world import Report, World, same
from memory_assets_tests.torture.zygote import Zygote

_MEGABYTES = 64
READING = (("search", "billing export", "--json"), ("show", "1"), ("recent",), ("export",), ("status",), ("init",), ("doctor",))
WRITING = (
    ("store", "One more note on the export."),
    ("import", "-"),
    ("forget", "1"),
    ("tag", "2", "x"),
    ("run",),
    ("consolidate", "decay"),
    ("consolidate", "creative"),
    ("consolidate", "cluster"),
)

COMMANDS = tuple(arguments[0] for arguments in (*READING, *WRITING))


def mountable() -> bool:
    """Return whether this process may mount a file system in memory."""
    return os.geteuid() == 0 and subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode == 0


def campaign(zygote: Zygote, folder: Path, commands: tuple[str, ...] = COMMANDS) -> Report:
    """Fill the disk to its last byte, then mount it read-only; run the commands each time."""
    report = Report("full and read-only disk")
    world = World(zygote, folder)
    world.data.mkdir()
    _mount("-t", "tmpfs", "-o", f"size={_MEGABYTES}m", "tmpfs", str(world.data))
    try:
        world.remember(60)
        world.must("run")
        _fill(world.data / "filler")
        _ask(report, world, "full", commands)
        (world.data / "filler").unlink()
        done = world.run("store", "There is room again.")
        report.attempt("store when there is room again", done.err.strip()[-200:] if done.code else None)
        _mount("-o", "remount,ro", str(world.data))
        _ask(report, world, "read-only", commands)
    finally:
        subprocess.run(["umount", str(world.data)], check=False)
        shutil.rmtree(folder, ignore_errors=True)
    return report


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while file.write(b"\0" * size):
                    pass
            except OSError:
                continue


def _ask(report: Report, world: World, disk: str, commands: tuple[str, ...]) -> None:
    before = world.seen().rows
    for arguments in (each for each in READING if each[0] in commands):
        done = world.run(*arguments)
        failed = done.err.strip()[-200:] if done.code and arguments[0] != "doctor" else None
        report.attempt(f"{arguments[0]} on a {disk} disk", done.problem or failed)
    acknowledged = before
    for arguments in (each for each in WRITING if each[0] in commands):
        done = world.run(*arguments, given='{"id": 99, "content": "One line more."}')
        now = world.seen().rows
        changed = None if done.code == 0 else same(acknowledged, now)
        report.attempt(f"{' '.join(arguments)} on a {disk} disk", done.problem or changed)
        acknowledged = now
    lost = [number for number, row in before.items() if acknowledged[number].text != row.text]
    report.attempt(f"what was stored before the {disk} disk", f"{len(lost)} memories lost or changed" if lost else None)
