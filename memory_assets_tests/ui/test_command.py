"""`memory ui` as a person runs it."""

import re
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import httpx

from memory_assets_tests.api.service import Service


def test_it_serves_the_pages_on_loopback_until_interrupted(tmp_path: Path) -> None:
    environment = Service(tmp_path).environment
    command = [sys.executable, "-m", "memory_assets.cli", "ui", "--no-browser"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process, ExitStack() as at_end:
        at_end.callback(process.kill)
        assert process.stderr
        found = re.search(r"http://127\.0\.0\.1:\d+/ui/open/main/\S+", process.stderr.readline())
        assert found
        with httpx.Client(follow_redirects=True, timeout=120) as client:
            opened = client.get(found[0])
            assert (opened.status_code, opened.url.path) == (200, "/ui/")
            assert "Nothing is remembered yet." in opened.text
            assert client.get(found[0]).status_code == 403
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        assert process.wait(60) in (0, 130)
    assert "Traceback" not in rest
