"""The hook at a session's start as Claude Code calls it, and a brief for it to read."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from resource import RLIMIT_FSIZE, getrlimit, setrlimit
from typing import Any

from click.testing import CliRunner

from memory_assets.cli.main import cli
from memory_assets.language.tokens import count_tokens
from memory_assets.learn.brief import (
    FORMAT,
    NAME,
    Brief,
    BriefLine,
    render_line,
)
from memory_assets.settings import Settings


def told(kind: str, text: str, project: str = "", number: int = 1, *, curated: bool = False) -> BriefLine:
    framed_line = render_line(text)
    return BriefLine(kind, project, framed_line, count_tokens(f"{framed_line}\n"), number, curated)


def write_brief(settings: Settings, *lines: BriefLine) -> None:
    folder = settings.tenant_dir()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / NAME).write_text(json.dumps({"format": FORMAT, **asdict(Brief(len(lines), lines))}), encoding="utf-8")


def hook(source: str = "startup", session: str = "s1", **more: Any) -> str:
    """Run the hook, which must not fail, and return its output."""
    given = json.dumps({"session_id": session, "source": source, "hook_event_name": "SessionStart", **more})
    ended = CliRunner().invoke(cli, ["session-start"], input=given)
    assert ended.exit_code == 0, ended.output
    return ended.output


@contextmanager
def full_disk(size: int = 0) -> Iterator[None]:
    """Let this process write no byte to any file behind its first `size` bytes."""
    before = getrlimit(RLIMIT_FSIZE)
    setrlimit(RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        setrlimit(RLIMIT_FSIZE, before)
