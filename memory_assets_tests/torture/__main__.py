"""`python -m memory_assets_tests.torture [--rounds N] [--seconds S] [CAMPAIGN...]`: run the campaigns, print one table."""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from memory_assets_tests.torture import damage, full_disk, hostile, kills, load

if TYPE_CHECKING:
    from collections.abc import Callable

    from memory_assets_tests.torture.world import Report


def main() -> int:
    """Run what was asked for; 1 if anything did not survive."""
    parser = argparse.ArgumentParser(prog="torture")
    parser.add_argument("campaigns", nargs="*", metavar="CAMPAIGN", help="kills, damage, disk, hostile, load; default: all")
    parser.add_argument("--rounds", type=int, default=10, help="kills of each command")
    parser.add_argument("--seconds", type=float, default=300, help="of mixed load")
    given = parser.parse_args()
    campaigns: dict[str, Callable[[Path], Report]] = {
        "kills": lambda folder: kills.campaign(folder, given.rounds),
        "damage": damage.campaign,
        "disk": full_disk.campaign,
        "hostile": hostile.campaign,
        "load": lambda folder: load.campaign(folder, given.seconds),
    }
    reports = []
    for name in given.campaigns or campaigns:
        if name == "disk" and not full_disk.mountable():
            print("disk: left out, because this process may not mount a file system")
            continue
        with tempfile.TemporaryDirectory(prefix="memory-torture-") as folder:
            report = campaigns[name](Path(folder) / "world")
        reports.append(report)
    print(f"{'campaign':<32} {'tried':>7} {'survived':>9} {'failed':>7}")
    for report in reports:
        failed = len(report.failures)
        print(f"{report.campaign:<32} {report.tried:>7} {report.tried - failed:>9} {failed:>7}")
    return int(any(report.failures for report in reports))


if __name__ == "__main__":
    sys.exit(main())
