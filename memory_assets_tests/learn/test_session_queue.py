"""A session whose end was not reported is remembered once it is silent."""

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from memory_assets.hook_settings import read_hook_settings
from memory_assets.learn.session_queue import has_queued
from memory_assets.learn.session_start import Hook, session_start
from memory_assets.operations.take_in import take_in
from memory_assets.settings import load_settings
from memory_assets.tenants import Tenant
from memory_assets_tests.learn.test_sessions import answered, asked, end, ran, told_of, words, work


def make_old(path: Path, hours: float) -> None:
    moment = time.time() - hours * 3_600
    os.utime(path, (moment, moment))


def begin(tenant: Tenant, atlas: Path, entries: Sequence[dict[str, Any]], hours: float, session: str = "s1") -> Path:
    """Begin a session three hours ago that wrote its transcript some hours ago and had no end; return the transcript."""
    transcript, begun = atlas.parent / f"{session}.jsonl", tenant.folder / "begun"
    tenant.folder.mkdir(parents=True, exist_ok=True)
    session_start(read_hook_settings(), Hook(session=session, directory=str(atlas), transcript=str(transcript)))
    for record in begun.iterdir() if begun.is_dir() else ():
        make_old(record, 3)
    transcript.write_text("\n".join(map(json.dumps, entries)))
    make_old(transcript, hours)
    return transcript


def test_a_session_whose_end_was_not_noticed_is_remembered_once_it_is_silent_and_again_if_it_went_on(
    atlas: Path, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_SESSION_SUMMARY", "on")
    tenant = Tenant(load_settings(), tenant.name)
    transcript = begin(tenant, atlas, work(atlas), hours=0.5)
    take_in(tenant)
    assert len(tenant.memories) == 0
    make_old(transcript, 2)
    take_in(tenant)
    assert "Done: The export writes Parquet now; the tests pass." in told_of(tenant)
    assert not has_queued(tenant.folder)
    later = [asked("Now CSV again.", hour=11), *ran("Edit", file_path="export.py"), answered(words("CSV is back."))]
    begin(tenant, atlas, [*work(atlas), *later], hours=2)
    take_in(tenant)
    assert "CSV is back." in "\n".join(told_of(tenant))


def test_a_session_that_ended_or_began_without_summaries_is_not_taken_for_a_silent_one(
    tenant: Tenant, atlas: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_SESSION_SUMMARY", "on")
    begin(tenant, atlas, work(atlas), hours=2)
    end(tenant, atlas, [asked("What time is it?"), answered(words("Nine."))])
    monkeypatch.setenv("MEMORY_SESSION_SUMMARY", "off")
    begin(tenant, atlas, work(atlas), hours=2, session="s2")
    take_in(tenant)
    assert len(tenant.memories) == 0
    assert list((tenant.folder / "begun").iterdir()) == []
