"""`memory ui` as a person runs it."""

import os
import re
import signal
from pathlib import Path

import httpx

from memory_assets_tests.api.service import Service
from memory_assets_tests.torture import zygote


def test_it_serves_the_pages_on_loopback_until_interrupted(tmp_path: Path) -> None:
    memory = zygote.shared().start(Service(tmp_path).environment, "ui", "--no-browser", folder=tmp_path / "process")
    try:
        while not (found := re.search(r"http://127\.0\.0\.1:\d+/ui/open/main/\S+(?=\s)", memory.written("err"))):
            assert not memory.ends_within(0.05), memory.written("err")
        with httpx.Client(follow_redirects=True, timeout=120) as client:
            opened = client.get(found[0])
            assert (opened.status_code, opened.url.path) == (200, "/ui/")
            assert "Nothing is remembered yet." in opened.text
            assert client.get(found[0]).status_code == 403
        os.kill(memory.pid, signal.SIGINT)
    except BaseException:
        memory.kill()
        raise
    ended = memory.wait(60)
    assert ended.code in (0, 130)
    assert "Traceback" not in ended.err
