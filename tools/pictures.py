"""Take the screenshots in docs/images: `python tools/pictures.py` those of Dagster's UI, with `pages` those of `memory ui`.

It needs Chromium (`apt-get install chromium`) and works on a copy of the sample home. For Dagster's UI the main job runs, a file changes
and the job runs again, so that there is something to see. The pages show paths, so their home is `home` in the temporary folder.
"""

import base64
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
PAGES = {
    "start": ("/", 970),
    "search": ("/search?q=who+owns+the+billing+export", 970),
    "memory": ("/search?q=who+owns+the+billing+export", 1290),
    "review": ("/review", 970),
    "graph": ("/graph?q=billing+export", 970),
    "names": ("/names", 700),
    "timeline": ("/timeline", 900),
    "context": ("/context?topic=billing+export&budget=1000", 900),
    "session": ("/session", 900),
    "sleep": ("/sleep?cycle=cluster", 900),
    "health": ("/health", 900),
}
"""Picture name -> the address of its page and the height of the screen in pixels; all are 1440 wide."""
_SCALE = 0.75
_QUALITY = 55
_LAST_RUN = '{ runsOrError(filter: {pipelineName: "remember"}, limit: 1) { ... on Runs { results { runId } } } }'


def prepare(folder: Path, environment: Mapping[str, str]) -> None:
    """Fill the stores: two runs with a change in between, and the sleep cycles."""
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
    """Take a screenshot of one page and reduce its colours to keep the file small."""
    file = IMAGES / f"{name}.png"
    browser = shutil.which("chromium") or sys.exit("Chromium is not installed; apt-get install chromium.")
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={folder / 'browser'}"]
    waiting = ["--virtual-time-budget=40000", f"--window-size={size}", f"--screenshot={file}"]
    subprocess.run([browser, *options, *waiting, f"http://127.0.0.1:{PORT}{path}"], check=True, timeout=240)
    if quantize := shutil.which("pngquant"):
        subprocess.run([quantize, "--force", "--ext", ".png", "64", str(file)], check=True)
    print(file, file.stat().st_size // 1024, "kB")


def environment_of(home: Path, data: Path) -> Mapping[str, str]:
    """Return an environment in which commands see only this home."""
    named = {"MEMORY_DATA_DIR": f"{data}", "HOME": f"{home}", "MEMORY_CONFIG": os.devnull}
    return {**{name: value for name, value in os.environ.items() if not name.startswith(("MEMORY_", "DAGSTER_"))}, **named}


def take_pages() -> None:
    """Take a screenshot of each page, small enough for the documentation."""
    from playwright.sync_api import sync_playwright

    home = Path(tempfile.gettempdir()) / "home"
    shutil.copytree(ROOT / "data" / "sample", home)
    environment = environment_of(home, home / ".local/share/memory_assets")
    for command in (["run"], ["learn", "check"]):
        subprocess.run([*_MEMORY, *command], env=environment, check=True)
    service = subprocess.Popen([*_MEMORY, "ui", "--no-browser"], env=environment, stderr=subprocess.PIPE, text=True)
    try:
        assert service.stderr
        address = next(word for line in service.stderr for word in line.split() if word.startswith("http"))
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            page = browser.new_page(locale="en-GB", reduced_motion="reduce")
            page.goto(address)
            for name, (path, height) in PAGES.items():
                page.set_viewport_size({"width": 1440, "height": height})
                page.goto(f"{address.partition('/ui')[0]}/ui{path}")
                if name == "search":
                    page.locator("#results summary").first.click()
                if name == "memory":
                    page.locator("#results h3 a").first.click()
                page.wait_for_load_state("networkidle")
                clip = {"x": 0, "y": 0, "width": 1440, "height": height, "scale": _SCALE}
                shot = page.context.new_cdp_session(page).send(
                    "Page.captureScreenshot", {"format": "webp", "quality": _QUALITY, "clip": clip}
                )
                file = IMAGES / f"ui-{name}.webp"
                print(file, file.write_bytes(base64.b64decode(shot["data"])) // 1024, "kB")
            browser.close()
    finally:
        service.terminate()
        service.wait()
        shutil.rmtree(home)


def main() -> None:
    """Start the servers, take the screenshots, stop the servers."""
    IMAGES.mkdir(exist_ok=True)
    if sys.argv[1:] == ["pages"]:
        return take_pages()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch)
        environment = environment_of(folder / "home", folder / "data")
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
