"""Run a cluster on this machine: `make cluster` shows it, `make cluster-test` kills its parts and checks that nothing was lost.

    python -m tools.cluster [--tenants 10] [--workers 2] [--replicas 2] [--memories N] [--kill] [--stay] [--folder .cache/cluster]

Each host has its own folder below `--folder`, which no other host reads. The service gives each tenant the memories of the sample home,
the sensors request a run for each tenant, and the workers share the runs. With `--kill`, clients store and search while the program kills
(SIGKILL) a worker, PostgreSQL, the S3 server and a replica one after the other. The exit code is 1 if an acknowledged memory is missing or
stored twice, if a run does not succeed, or if searches of one replica fail while the other is dead. `--stay` keeps everything running
until Ctrl-C.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from memory_assets_tests.cluster import Cluster
from memory_assets_tests.cluster_history import Traffic, find_losses, kill_busy_worker, load, runs_of, settle, where_runs_ran
from memory_assets_tests.services import NoServerError, Server

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "data" / "sample"
_DOWN_SECONDS = 5.0
"""How long a killed server stays down."""
_WATCHED_SECONDS = 10.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenants", type=int, default=10)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--memories", type=int, help="number of sample memories per tenant (default: all)")
    parser.add_argument("--kill", action="store_true")
    parser.add_argument("--stay", action="store_true")
    parser.add_argument("--folder", type=Path, default=ROOT / ".cache" / "cluster")
    given = parser.parse_args()
    shutil.rmtree(given.folder, ignore_errors=True)
    begun = time.monotonic()
    tenants = [f"tenant{number:04}" for number in range(given.tenants)]
    try:
        with Cluster(given.folder, given.workers, given.replicas) as cluster:
            say(begun, f"{len(cluster.hosts)} hosts run; Dagster's UI is at {cluster.page}")
            traffic = load(cluster, tenants, "".join(sample_memories().splitlines(keepends=True)[: given.memories]))
            say(begun, f"{given.tenants} tenants have {len(next(iter(traffic.acknowledged.values())))} memories each")
            faults = kill_parts(cluster, traffic, begun) if given.kill else []
            settle(cluster, tenants)
            say(begun, "every tenant's newest run has succeeded")
            faults += find_losses(traffic, cluster.urls[-1])
            report(cluster, traffic)
            for fault in faults:
                print(f"FAULT {fault}")
            print("1 failed" if faults else f"{given.tenants} tenants: nothing acknowledged is missing or stored twice")
            while given.stay:
                time.sleep(1)
    except NoServerError as error:
        print(f"Skipped: {error}")
        return 0
    except KeyboardInterrupt:
        return 0
    return 1 if faults else 0


def say(begun: float, what: str) -> None:
    print(f"{time.monotonic() - begun:7.1f} s  {what}", flush=True)


def sample_memories() -> str:
    """Return the memories of the sample home as JSON Lines, made by `memory run` in a temporary folder."""
    with TemporaryDirectory() as folder:
        home = Path(folder, "home")
        shutil.copytree(SAMPLE, home)
        environment = os.environ | {
            "HOME": folder,
            "MEMORY_DATA_DIR": f"{folder}/data",
            "MEMORY_CLAUDE_PROJECTS_DIR": f"{home}/.claude/projects",
            "MEMORY_PAI_SEED": f"{home}/.pai/seed.json",
            "MEMORY_PAI_LEARNING_DIR": f"{home}/.pai/MEMORY/LEARNING",
            "MEMORY_PAI_MAPPING": f"{home}/pai-mapping.json",
        }

        def memory(*command: str) -> str:
            done = subprocess.run(
                [sys.executable, "-m", "memory_assets.cli", *command], env=environment, capture_output=True, text=True
            )
            if done.returncode:
                raise RuntimeError(done.stderr)
            return done.stdout

        memory("run")
        return memory("export")


def kill_parts(cluster: Cluster, traffic: Traffic, begun: float) -> list[str]:
    """Kill one part after the other during runs, stores and searches; return the faults."""
    faults: list[str] = []
    with traffic.flowing():
        for part, kill in _kills(cluster):
            cluster.wait_for("a run is under way", lambda: bool(runs_of(cluster, started=True)))
            since = time.monotonic()
            kill()
            say(begun, f"{part} was killed")
            time.sleep(_WATCHED_SECONDS)
            others = cluster.urls[1:] if part.startswith("service") else cluster.urls
            counts = [traffic.answered(url, since, time.monotonic()) for url in others]
            say(begun, f"  searches answered and not, by replica: {counts}")
            if not part.startswith(("PostgreSQL", "the S3")) and any(failed or not answered for answered, failed in counts):
                faults.append(f"searches failed while {part} was dead: {counts}")
            cluster.wait_for("every replica answers again", lambda: all(host.is_ready() for host in cluster.replicas))
    say(begun, f"{sum(map(len, traffic.acknowledged.values()))} texts acknowledged; clients were told {dict(traffic.failures)}")
    return faults


def _kills(cluster: Cluster) -> list[tuple[str, Callable[[], object]]]:
    def restart(server: Server) -> Callable[[], None]:
        def kill() -> None:
            server.kill()
            time.sleep(_DOWN_SECONDS)
            server.start()

        return kill

    return [
        ("a worker with a run", lambda: kill_busy_worker(cluster)),
        ("PostgreSQL", restart(cluster.postgresql)),
        ("the S3 server", restart(cluster.storage)),
        ("service1", cluster.hosts["service1"].kill),
    ]


def report(cluster: Cluster, traffic: Traffic) -> None:
    by_worker, by_status, again = where_runs_ran(cluster)
    print("\nhost        starts  its own folder")
    for host in cluster.hosts.values():
        size = sum(path.stat().st_size for path in host.folder.rglob("*") if path.is_file())
        print(f"{host.name:<12}{1 + host.restarts:>6}  {host.folder} ({size / 1e6:.1f} MB)")
    print(f"\nruns by worker: {dict(by_worker)}; by their end: {dict(by_status)}")
    print(f"runs taken over or made again: {len(again)}")
    for line in again:
        print(f"  {line}")
    print(f"searches answered: {sum(ok for *_, ok in traffic.searches)} of {len(traffic.searches)}\n")


if __name__ == "__main__":
    sys.exit(main())
