"""Time the pages over a large memory: the start page, search while typing, a memory and the graph.

    python benchmarks/page.py [--memories 100000] [--folder DIR] [--json]

Fills a tenant as in benchmarks/service.py, with graph and scores, starts `memory serve` and sends requests from one client. If Chromium
is installed, it also measures the first paint, the time to draw 2,000 nodes, and the frames per second while panning. `--folder` keeps the
tenant for the next run.
"""

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import numpy as np
from service import build, fill, sentence  # type: ignore[import-not-found]

from memory_assets.settings import load_settings
from memory_assets.tenants import Tenant, create_tenant
from memory_assets.ui.app import one_time_address

_TIMES = 30
_WARM_SECONDS = 8.0


def percentiles(work: Callable[[], object], times: int = _TIMES) -> list[float]:
    """Return the median and the 95th percentile in milliseconds."""
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        work()
        taken.append((time.perf_counter() - begun) * 1e3)
    return [round(float(each), 1) for each in np.percentile(taken, (50, 95))]


def ask(url: str, link: str, number: int) -> dict[str, list[float]]:
    chance = random.Random(3)
    typed = [text[:length] for text in (sentence(chance) for _ in range(4)) for length in range(4, 40, 5)]
    with httpx.Client(base_url=url, follow_redirects=True, timeout=120) as client:
        begun = time.perf_counter()
        assert client.get(link).status_code == 200
        results = {"start, first of the process, ms": [round((time.perf_counter() - begun) * 1e3, 1)] * 2}
        time.sleep(_WARM_SECONDS)
        results["start, ms"] = percentiles(lambda: client.get("/ui/").raise_for_status())
        letters = iter(typed)
        results["search as one types, ms"] = percentiles(
            lambda: client.get("/ui/search", params={"q": next(letters)}, headers={"HX-Request": "true"}).raise_for_status(),
            len(typed),
        )
        results["memory, ms"] = percentiles(lambda: client.get(f"/ui/memories/{number}").raise_for_status())
        name = httpx.URL(client.get("/ui/names?type=all").text.partition('<td><a href="')[2].partition('"')[0]).path
        for page in (
            "timeline",
            "timeline?on=2026-06-01",
            "names",
            name.removeprefix("/ui/"),
            "session",
            "context?topic=billing+export",
        ):
            shown = "names/most mentioned" if page == name.removeprefix("/ui/") else page
            results[f"{shown}, ms"] = percentiles(lambda at=f"/ui/{page}": client.get(at).raise_for_status(), 5)
        for most in (60, 2000):
            address = f"/ui/graph?id={number}&steps=3&most={most}"
            results[f"graph of at most {most} nodes, ms"] = percentiles(lambda at=address: client.get(at).raise_for_status(), 5)
    return results


def paint(link: str, url: str, program: str) -> dict[str, list[float]]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(link)
        paints = []
        for _ in range(7):
            page.goto(f"{url}/ui/")
            page.wait_for_timeout(700)
            paints.append(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
        results = {"start, first paint, ms": [round(float(each), 1) for each in np.percentile(paints, (50, 95))]}
        page.goto(f"{url}/ui/graph?q=a&all=1")
        count = page.evaluate(_MANY)
        page.wait_for_timeout(500)
        frames = page.evaluate(_PAN)
        drawn = float(page.locator("#map").get_attribute("data-milliseconds") or 0)
        results[f"drawing {count} nodes, ms"] = [drawn] * 2
        results["frames a second while panning"] = [frames] * 2
        browser.close()
    return results


_MANY = """async () => {
    const nodes = [], edges = [];
    for (let id = 1; id <= 2000; id++) {
        nodes.push({id, kind: "note", is_memory: id % 3 > 0, label: "memory " + id, relevance: (id % 10) / 10, step: +(id > 3),
                    degree: 5, x: 60 * Math.cos(id) * Math.sqrt(id), y: 60 * Math.sin(id) * Math.sqrt(id)});
        for (let other = 1; other <= 3 && id > 3; other++) {
            edges.push({source: id, target: 1 + (id * other * 7919) % id, type: "RELATES_TO", confidence: 0.5, origin: "", note: ""});
        }
    }
    const old = document.getElementById("map"), fresh = old.cloneNode(true);
    old.replaceWith(fresh);
    document.getElementById("graph-data").textContent = JSON.stringify({nodes, edges});
    const script = document.createElement("script");
    script.type = "module";
    script.src = document.querySelector('script[src*="graph.js"]').src + "?again";
    document.head.append(script);
    await new Promise((done) => script.onload = done);
    return nodes.length;
}"""
_PAN = """async () => {
    const canvas = document.querySelector("#map canvas");
    let frames = 0;
    const begun = performance.now();
    while (performance.now() - begun < 2000) {
        canvas.dispatchEvent(new KeyboardEvent("keydown", {key: frames % 2 ? "ArrowLeft" : "ArrowRight", bubbles: true}));
        await new Promise(requestAnimationFrame);
        frames++;
    }
    return Math.round(frames / 2);
}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=100_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or Path(scratch)
        settings = load_settings(data_dir=folder / "data")
        tenant = Tenant(settings)
        if not tenant.exists:
            create_tenant(tenant)
            fill(tenant, options.memories)
            build(tenant)
        count = len(tenant.memories)
        with tenant.catalog.read() as connection:
            (number,) = connection.execute(
                "SELECT source_id FROM graph_edges GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 1"
            ).fetchone() or (0,)
        command = [sys.executable, "-m", "memory_assets.cli", "serve", "--port", "0"]
        environment = {
            "MEMORY_DATA_DIR": str(folder / "data"),
            "MEMORY_WATCH_SOURCES": "off",
            "PATH": "/usr/bin:/bin",
            "HOME": scratch,
        }
        with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as service:
            assert service.stderr
            try:
                url = service.stderr.readline().split()[-1]
                results = ask(url, one_time_address(tenant, url), number)
                if program := shutil.which("chromium"):
                    results |= paint(one_time_address(tenant, url), url, program)
            finally:
                service.terminate()
    if options.json:
        print(json.dumps(results, indent=2))
        return
    print(f"{count:,} memories; median, 95th percentile")
    for name, (median, high) in results.items():
        print(f"  {name:<40} {median:9.1f} {high:9.1f}")


if __name__ == "__main__":
    main()
