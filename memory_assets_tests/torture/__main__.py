"""Run campaigns and print one table: `python -m memory_assets_tests.torture [CAMPAIGN...] [--seconds N] [--seed S]`."""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from memory_assets_tests.torture import commands, daemon, damage, full_disk, history, hostile, mutants, service
from memory_assets_tests.torture.world import Report
from memory_assets_tests.torture.zygote import Zygote

Campaign = Callable[..., Report]
CAMPAIGNS: dict[str, tuple[float, Campaign]] = {
    "damage": (0.0, lambda zygote, folder, *_, **only: damage.campaign(zygote, folder, **only)),
    "disk": (0.0, lambda zygote, folder, *_: full_disk.campaign(zygote, folder)),
    "daemon": (0.0, lambda zygote, folder, _, seed: daemon.campaign(zygote, folder, seed)),
    "hostile": (0.0, lambda zygote, folder, *_, **only: hostile.campaign(zygote, folder, **only)),
    "service": (0.05, service.campaign),
    "large": (0.1, lambda zygote, folder, seconds, seed: history.campaign(zygote, folder, seconds, seed, 20_000)),
    "commands": (0.3, commands.campaign),
    "history": (0.55, history.campaign),
}
"""Name -> the campaign and its share of the time; those with 0 run to their end, and the others share the rest."""


def main() -> int:
    """Run the chosen campaigns; return 1 if any attempt failed."""
    parser = argparse.ArgumentParser(prog="torture")
    parser.add_argument("campaigns", nargs="*", metavar="CAMPAIGN", help=f"{', '.join(CAMPAIGNS)}, mutants; default: all")
    parser.add_argument("--seconds", type=float, default=3_600, help="time for all campaigns together")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="seed of all random choices")
    parser.add_argument("--only", action="append", help="a part of `commands`, `damage`, `hostile` or `mutants`; may be repeated")
    given = parser.parse_args()
    names = given.campaigns or [*CAMPAIGNS, "mutants"]
    print(f"seed {given.seed}", flush=True)
    reports: list[tuple[Report, float, float]] = []
    begun, only = time.monotonic(), {"names": given.only} if given.only else {}
    for place, name in enumerate(names):
        if name == "disk" and not full_disk.mountable():
            print("disk: skipped, because this process may not mount a file system")
            continue
        started, worked = time.monotonic(), _processor_seconds()
        with tempfile.TemporaryDirectory(prefix="memory-torture-") as folder:
            if name == "mutants":
                report = mutants.campaign(Path(folder), 120, given.seed, **only)
            else:
                part, run = CAMPAIGNS[name]
                share = part / (sum(CAMPAIGNS[each][0] for each in names[place:] if each in CAMPAIGNS) or 1.0)
                left = max(0.0, given.seconds - (started - begun))
                with Zygote() as zygote:
                    report = run(zygote, Path(folder) / "world", left * share, given.seed, **only)
        reports.append((report, time.monotonic() - started, _processor_seconds() - worked))
    whole = Report("together")
    for report, *_ in reports:
        for name in ("tried", "kills", "acknowledged", "failures"):
            setattr(whole, name, getattr(whole, name) + getattr(report, name))
    reports.append((whole, sum(seconds for _, seconds, _ in reports), sum(worked for *_, worked in reports)))
    print(f"{'campaign':<32} {'tried':>7} {'kills':>7} {'done':>7} {'failed':>7} {'seconds':>8} {'of processor':>13}")
    for each, seconds, worked in reports:
        counts = "".join(f" {count:>7}" for count in (each.tried, each.kills, each.acknowledged, len(each.failures)))
        print(f"{each.campaign:<32}{counts} {seconds:>8.0f} {worked:>13.0f}")
    return int(bool(whole.failures))


def _processor_seconds() -> float:
    """Return the processor time of this process and its ended children."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


if __name__ == "__main__":
    sys.exit(main())
