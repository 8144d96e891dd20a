"""Finding a stored memory's neighbours has a bounded cost, however many equal texts are nearby."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import combinations

import numpy as np
import pytest

from memory_assets.ingest.direct import Stored
from memory_assets.language import judge
from memory_assets.language.judge import Relation
from memory_assets.models import Kind, Memory, Source
from memory_assets.operations.store import _answer_with_neighbours as with_splash
from memory_assets.recall import similar
from memory_assets.recall.similar import Neighbour, judge_neighbours
from memory_assets.stores.resident.memories import Allowance
from memory_assets.tenants import Tenant

_EQUAL = 1_500
_DIMENSION = 64


def _at(cosine: float, turned: int) -> np.ndarray:
    """Return a unit vector with this cosine to the first axis."""
    vector = np.zeros(_DIMENSION, np.float32)
    vector[0], vector[turned] = cosine, np.sqrt(1 - cosine**2)
    return vector


@pytest.fixture
def crowd(tenant: Tenant) -> Stored:
    """A memory among many with the same text, three similar ones and a dissimilar one."""
    now = datetime.now(UTC)
    first = Memory(1, "Ana moved.", Kind.NOTE, Source.CLI, "", now, now, content_hash="same")
    vectors = [_at(1.0, 1)] * _EQUAL + [_at(cosine, 1 + place) for place, cosine in enumerate((0.75, 0.8, 0.85, 0.3))]
    memories = [
        replace(first, id=number) if number <= _EQUAL else replace(first, id=number, content=text, content_hash=text)
        for number, text in enumerate(
            ["Ana moved."] * _EQUAL + ["Ana paints.", "Her flat is loud.", "Boxes arrived.", "Rain."], 1
        )
    ]
    tenant.memories.put(memories, np.stack(vectors), tenant.embedder.name)
    return Stored(first, vectors[0], [])


@pytest.mark.parametrize("resident", [False, True])
def test_what_is_near_is_found_behind_thousands_of_equal_texts(tenant: Tenant, crowd: Stored, resident: bool) -> None:
    if resident:
        tenant.memories.keep_resident(Allowance(1 << 30), tenant.folder / "cache")
        tenant.memories.maintain_resident()
        assert tenant.memories.is_resident
    answer = with_splash(tenant, crowd)
    assert [ripple.id for ripple in answer.splash] == [_EQUAL + 3, _EQUAL + 2, _EQUAL + 1]
    assert len(answer.echoes) == 3


def test_neighbours_are_compared_with_each_other_until_three_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []

    def classify_relations(pairs: Sequence[tuple[str, str]]) -> list[Relation]:
        asked.extend(pairs)
        return [Relation.RELATED] * len(pairs)

    monkeypatch.setattr(judge, "classify_relations", classify_relations)
    monkeypatch.setattr(similar, "classify_relations", classify_relations)
    now = datetime.now(UTC)
    new = Memory(1, "Ana owns the boat.", Kind.NOTE, Source.CLI, "", now, now, content_hash="new")
    texts = ["Ana paints the boat.", "Ana sells the boat.", "Ana rows the boat.", "Ana moors the boat."]
    near = [Neighbour(replace(new, id=number, content=text, content_hash=text), 0.8) for number, text in enumerate(texts, 2)]
    related, _ = judge_neighbours(new, near)
    assert [each.memory.content for each in related] == texts[:3]
    among_themselves = {pair for pair in asked if new.content not in pair}
    assert among_themselves == set(combinations(texts[:3], 2))

    asked.clear()
    dated = [each._replace(memory=replace(each.memory, content=f"Boat {each.memory.id} is Ana's boat.")) for each in near]
    related, _ = judge_neighbours(new, dated)
    assert len(related) == 3
    assert all(new.content in pair for pair in asked)
