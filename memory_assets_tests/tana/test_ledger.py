"""The ledger of syncs, and recordings of Tana: what they hold, and what they hold no longer."""

import json
from pathlib import Path

import httpx
import pytest

from memory_assets.tana.ledger import Ledger, Sent
from memory_assets.tana.recording import Replay

TEXT = "Nobody may know that the spare key lies below the third stone."


@pytest.mark.parametrize("read_first", [True, False])
def test_no_byte_stays_of_what_was_sent_of_an_entry_that_is_gone(tmp_path: Path, read_first: bool) -> None:
    Ledger(tmp_path).record("pat_0001", Sent("n1", "pai_learning", "d1", TEXT, {"Content": TEXT}))
    ledger = Ledger(tmp_path)
    if read_first:
        assert ledger.sent()["pat_0001"].name == TEXT
    ledger.forget(["pat_0001"])
    assert ledger.sent() == {}
    assert not [path for path in ledger.folder.iterdir() if TEXT.encode() in path.read_bytes()]


async def answered(path: Path) -> httpx.Response:
    async with httpx.AsyncClient(transport=Replay(path)) as client:
        return await client.get("http://tana/health")


def test_a_recorded_answer_may_hold_any_line_break(tmp_path: Path) -> None:
    import asyncio

    file = tmp_path / "tana.jsonl"
    line = {"method": "GET", "path": "/health", "sent": "", "status": 200, "answer": "one\u2028two\x85three"}
    file.write_text(json.dumps(line, ensure_ascii=False) + "\n", encoding="utf-8")
    assert asyncio.run(answered(file)).text == "one\u2028two\x85three"
