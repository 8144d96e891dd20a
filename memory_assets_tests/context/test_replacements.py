"""A later statement replaces an earlier one that nothing links it with, and only then."""

from datetime import UTC, datetime, timedelta

import pytest

from memory_assets.context.model import Category, Node
from memory_assets.context.replacements import find_replaced
from memory_assets.language.words import stems
from memory_assets.operations.context import context
from memory_assets.tenants import Tenant
from memory_assets_tests.recall.conftest import Remember

DAY = datetime(2026, 3, 1, tzinfo=UTC)


def found(topic: str, *texts: str) -> dict[str, str]:
    """What replaces what, for texts a day apart."""
    nodes = [
        Node(str(n), text[:80], Category.MEMORY, "note", text, created=DAY + timedelta(days=n)) for n, text in enumerate(texts)
    ]
    return find_replaced(nodes, stems(topic))


@pytest.mark.parametrize(
    ("topic", "earlier", "later"),
    [
        ("plan the quay", "Wanda Oak leads the quay works.", "From May on Piet Elm took over the quay works from Wanda Oak."),
        ("the wedding", "The wedding begins on 4 June.", "About the wedding: 4 June is no longer possible, it begins on 9 July."),
        ("the ferry", "The ferry is painted by the Lund workshop.", "The ferry is painted by Moen instead of the Lund workshop."),
    ],
)
def test_a_change_replaces_what_it_repeats(topic: str, earlier: str, later: str):
    assert found(topic, earlier, later) == {"0": "1"}
    assert found(topic, later, earlier) == {}


@pytest.mark.parametrize(
    ("topic", "earlier", "later"),
    [
        ("plan the quay", "Wanda Oak leads the quay works.", "Wanda Oak leads the quay works, as everybody knows by now."),
        ("plan the quay", "Wanda Oak leads the quay works.", "From May on Piet Elm took over the mill works from Wanda Oak."),
        ("plan the quay", "The quay moved to Monday.", "Reminder: the quay moved to Monday."),
        (
            "quay",
            "Wanda Oak leads the quay works. The quay closes in March.",
            "Piet took over the quay works from Wanda Oak in May.",
        ),
    ],
)
def test_other_matters_and_repetitions_replace_nothing(topic: str, earlier: str, later: str):
    assert found(topic, earlier, later) == {}


def test_what_seems_replaced_is_marked_and_comes_after_what_replaces_it(tenant: Tenant, remember: Remember):
    remember("Wanda Oak leads the quay works.", created_at=DAY)
    remember("The quay works: from May on Piet Elm took over from Wanda Oak, who led them.", created_at=DAY + timedelta(days=60))
    for most in (1_000, 4_000):
        document = context(tenant, ["who leads the quay works"], max_tokens=most).document
        assert "perhaps no longer so, see id 2\n> Wanda Oak leads" in document
        assert document.index("Piet Elm took over") < document.index("Wanda Oak leads")
    tenant.folder.mkdir(exist_ok=True)
    context(tenant, ["who leads the quay works"])
    assert "nothing has changed" in context(tenant, ["who leads the quay works"], since_last=True).document
