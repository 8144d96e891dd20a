"""The sample home is read as its README describes."""

from collections import Counter
from pathlib import Path

import pytest

from memory_assets.models import Kind
from memory_assets.sources import claude_silos, pai_learning, pai_seed
from memory_assets_tests.sources.conftest import items_of, refusals_of

HOME = Path(__file__).parents[2] / "data" / "sample"

pytestmark = pytest.mark.skipif(not HOME.is_dir(), reason="the sample home is not part of this installation")


def test_silos_are_classified_and_refused_as_described() -> None:
    result = claude_silos.scan(HOME / ".claude" / "projects", {})
    items = items_of(result).values()
    assert Counter(item.kind for item in items) == {
        Kind.PROJECT: 24,
        Kind.FEEDBACK: 9,
        Kind.USER: 5,
        Kind.REFERENCE: 4,
    }
    assert {item.project for item in items if item.project.startswith("/")} == {
        "/home/mira/work/atlas",
        "/home/mira/src/skiff.v2_rs",
    }
    assert {item.title for item in items if "guessed" in item.metadata} == {"notes", "Building", "weekly-report-2026-w38"}
    assert {Path(refusal.path).name for refusal in refusals_of(result) if not refusal.passed_over} == {
        "style_sheet_ideas.md",
        "nas-inventory.md",
        "topology.json",
    }
    assert sorted(Path(refusal.path).name for refusal in refusals_of(result) if refusal.passed_over) == ["MEMORY.md"] * 5 + [
        "todo.md"
    ]


def test_the_seed_is_read_as_described() -> None:
    result = pai_seed.scan(HOME / ".pai" / "seed.json", {})
    items = items_of(result).values()
    assert Counter((item.kind, item.confidence) for item in items if "confirmed" in item.metadata) == {
        (Kind.PATTERN, 1.0): 12,
        (Kind.PATTERN, 0.5): 2,
        (Kind.INSIGHT, 1.0): 14,
        (Kind.INSIGHT, 0.5): 1,
        (Kind.SELF_KNOWLEDGE, 1.0): 7,
        (Kind.SELF_KNOWLEDGE, 0.5): 1,
    }
    assert Counter((item.metadata["status"], item.remember) for item in items if "status" in item.metadata) == {
        ("pending", False): 4,
        ("rejected", False): 3,
        ("accepted", True): 1,
    }
    assert [refusal.location for refusal in refusals_of(result)] == ["$.learned.insights[6].content"]


def test_the_learning_store_is_read_as_described() -> None:
    result = pai_learning.scan(HOME / ".pai" / "MEMORY" / "LEARNING", {})
    assert Counter(item.kind for item in items_of(result).values()) == {
        Kind.FEEDBACK: 4,
        Kind.USER: 3,
        Kind.PROJECT: 4,
        Kind.REFERENCE: 3,
        Kind.RATING: 18,
        Kind.REFLECTION: 10,
    }
    assert [(Path(r.path).name, r.location) for r in refusals_of(result)] == [
        ("algorithm-reflections.jsonl", "line 8"),
        ("ratings.jsonl", "line 13"),
    ]
