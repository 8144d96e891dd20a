"""seed.json files in pai-seed's format, and the result of a sync."""

import json
from pathlib import Path
from typing import Any

from memory_assets.settings import Settings
from memory_assets_tests.tana.stand_in import StandIn


def learning(seed_id: str, content: str, confirmed_at: str = "2026-01-11T08:00:00Z", **changed: Any) -> dict[str, Any]:
    said = {
        "id": seed_id,
        "content": content,
        "source": "session-0141",
        "extractedAt": "2026-01-10T09:12:00Z",
        "confirmed": True,
        "confirmedAt": confirmed_at,
        "tags": [],
    }
    return said | changed


def proposal(seed_id: str, content: str, **changed: Any) -> dict[str, Any]:
    said = {
        "id": seed_id,
        "type": "insight",
        "content": content,
        "source": "session-0150",
        "extractedAt": "2026-01-20T17:00:00Z",
        "status": "pending",
        "method": "acr",
        "confidence": 0.82,
    }
    return said | changed


def write_seed(
    path: Path,
    patterns: list[dict[str, Any]] | None = None,
    insights: list[dict[str, Any]] | None = None,
    self_knowledge: list[dict[str, Any]] | None = None,
    proposals: list[dict[str, Any]] | None = None,
    **root: Any,
) -> None:
    """Write a seed.json in pai-seed's format, indented by two spaces and ending with a line break."""
    preferences = {"responseStyle": "concise", "timezone": "Europe/Berlin", "locale": "en-GB"}
    seed = {
        "version": "1.0.0",
        "identity": {
            "principalName": "Ada",
            "aiName": "Rook",
            "catchphrase": "Rook, ready.",
            "voiceId": "default",
            "preferences": preferences,
        },
        "learned": {"patterns": patterns or [], "insights": insights or [], "selfKnowledge": self_knowledge or []},
        "state": {"proposals": proposals or [], "activeProjects": ["atlas"]},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(seed | root, indent=2) + "\n", encoding="utf-8")


TEST_FIRST = learning("pat_0001", "Ada Lovelace writes the failing test before the fix")
HOSTILE = learning("pat_0002", "Atlas: use std::vector #here [[x]]\n- **not** a field:: see pat_0001")
SLOW_REVIEW = proposal("prop_077", "Review is slow on Fridays")


def counts(tana: StandIn) -> tuple[int, int]:
    """Count the learnings and proposals in Tana."""
    return len(tana.live("pai_learning")), len(tana.live("pai_proposal"))


def mapping(settings: Settings) -> dict[str, str]:
    """Read the mapping of entries to nodes."""
    return json.loads(settings.pai_mapping.read_text())["mappings"]
