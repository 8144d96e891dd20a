"""Takes the pictures of Dagster's UI in docs/images: `python tools/pictures.py`. It needs Chromium (`apt-get install chromium`).

The sample home is copied to a folder of its own, run, changed and run again, so that there is something to see.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import httpx

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"
PORT = 3917
_MEMORY = [sys.executable, "-m", "memory_assets.cli"]
_LAST_RUN = '{ runsOrError(filter: {pipelineName: "remember"}, limit: 1) { ... on Runs { results { runId } } } }'


def prepare(folder: Path, environment: Mapping[str, str]) -> None:
    """Fill the stores: two runs with a change between them, and the sleep cycles."""
    shutil.copytree(ROOT / "data" / "sample", folder / "home", dirs_exist_ok=True)
    subprocess.run([*_MEMORY, "run"], env=environment, check=True)
    imports = (
        "from memory_assets.defs.runner import run_job; from memory_assets.settings import load_settings; "
        "from memory_assets.tenants import Tenant"
    )
    for name in ("creative", "cluster", "backlog"):
        code = f"{imports}; run_job(Tenant(load_settings()), {name!r}, lambda *_: None, lambda *_: None)"
        subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    added = next((folder / "home" / ".claude" / "projects").glob("*/memory")) / "lighthouse.md"
    added.write_text("---\nname: lighthouse\ndescription: who keeps it\ntype: project\n---\n\nOdalys keeps the lighthouse.\n")
    subprocess.run([*_MEMORY, "run"], env=environment, check=True)


def take(name: str, path: str, size: str, folder: Path) -> None:
    """A picture of one page, with few colours, so that it is small."""
    file = IMAGES / f"{name}.png"
    browser = shutil.which("chromium") or sys.exit("Chromium is not installed; apt-get install chromium.")
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={folder / 'browser'}"]
    waiting = ["--virtual-time-budget=40000", f"--window-size={size}", f"--screenshot={file}"]
    subprocess.run([browser, *options, *waiting, f"http://127.0.0.1:{PORT}{path}"], check=True, timeout=240)
    if quantize := shutil.which("pngquant"):
        subprocess.run([quantize, "--force", "--ext", ".png", "64", str(file)], check=True)
    print(file, file.stat().st_size // 1024, "kB")


def main() -> None:
    """Start everything, take the pictures, end everything."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch)
        named = {"MEMORY_DATA_DIR": f"{folder}/data", "HOME": f"{folder}/home", "MEMORY_CONFIG": f"{folder}/none.toml"}
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("MEMORY_", "DAGSTER_"))},
            **named,
        }
        prepare(folder, environment)
        up = subprocess.Popen([*_MEMORY, "up", "--ui-port", str(PORT), "--no-service"], env=environment)
        try:
            graphql = f"http://127.0.0.1:{PORT}/graphql"
            for _ in range(240):
                time.sleep(1)
                try:
                    answer = httpx.post(graphql, json={"query": _LAST_RUN}, timeout=30, trust_env=False).json()
                    break
                except (httpx.HTTPError, ValueError):
                    continue
            else:
                sys.exit("the UI did not answer")
            time.sleep(20)  # sensors tick, freshness is evaluated
            run = answer["data"]["runsOrError"]["results"][0]["runId"]
            for name, path, size in (
                ("lineage", "/asset-groups", "1800,900"),
                ("asset", "/assets/graph_edges", "1300,1500"),
                ("checks", "/assets/silo_files?view=checks", "1300,760"),
                ("run", f"/runs/{run}", "1300,760"),
                ("runs", "/runs", "1400,600"),
            ):
                take(name, path, size, folder)
        finally:
            up.terminate()
            up.wait()


if __name__ == "__main__":
    main()
