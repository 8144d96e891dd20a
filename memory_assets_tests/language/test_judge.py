"""The judge of the relation between two statements."""

import runpy
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from memory_assets.language import judge
from memory_assets.language.embedders.bge import open_session
from memory_assets.language.judge import (
    ANSWERS,
    STATEMENTS,
    Network,
    Relation,
    answer_logits,
    classify_relations,
    relation_probabilities,
    says_the_same,
)

RECIPE = Path(__file__).parents[2] / "tools" / "bge_graph.py"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The boiler makes a knocking noise.", "The boiler is due for its yearly service."),
        ("The boiler was repaired by Ines.", "The boiler is due for its yearly service."),
        ("The attic is insured until june.", "The attic got a new window in June."),
        ("The iron tablets cost nine euros", "The iron tablets must not be taken with tea"),
        ("Der Rasenmäher steht im Schuppen.", "Der Rasenmäher braucht neues Öl."),
        ("The main branch is protected by two reviews.", "The main branch is called trunk."),
    ],
)
def test_another_fact_of_the_subject_is_related(one: str, other: str) -> None:
    assert classify_relations([(one, other)]) == [Relation.RELATED]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The rent is 840 euros.", "The rent is 910 euros."),
        ("The choir meets on Tuesday at seven.", "The choir meets on Thursday at seven."),
        ("Das Lager schließt um 18 Uhr.", "Das Lager schließt um 20 Uhr."),
        ("The boat is moored in Hoorn.", "The boat is moored in Enkhuizen."),
        ("We open at six in the morning.", "Doors are unlocked from seven in the morning."),
        ("The garage may be used by guests.", "The garage must not be used by guests."),
        ("Im Garten darf gegrillt werden.", "Im Garten darf nicht gegrillt werden."),
        ("The staging database is reset every night at 04:00.", "The staging database is no longer reset at night."),
    ],
)
def test_another_value_and_a_denial_differ(old: str, new: str) -> None:
    assert classify_relations([(old, new)])[0] in (Relation.CHANGED, Relation.OPPOSITE)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Guests park behind the barn.", "Parking for guests is behind the barn."),
        ("Tea is in the left cupboard.", "tea is in the LEFT cupboard"),
        ("The car is serviced by Brewer's garage every spring.", "Every spring Brewer's garage services the car."),
    ],
)
def test_other_words_for_it_are_the_same(one: str, other: str) -> None:
    assert classify_relations([(one, other), (other, one)]) == [Relation.SAME, Relation.SAME]


def test_a_pair_is_judged_the_same_alone_and_among_others() -> None:
    pairs = [
        ("The rent is 840 euros.", "The rent is 910 euros."),
        ("Tea is in the left cupboard.", "Every spring the garage services the car."),
        ("A text " * 200, "Another one"),
    ] * 9
    together = relation_probabilities(pairs)
    assert np.array_equal(together[:1], relation_probabilities(pairs[:1]))
    assert together.sum(axis=1) == pytest.approx(np.ones(len(pairs)))


@pytest.mark.parametrize("text", ["", " ", "…", "?", "日本語の文です。", "42", "don't", "🙂", "no " * 900, "9" * 5_000, "\x00"])
def test_no_text_fails(text: str) -> None:
    found = relation_probabilities([(text, "We leave at 10:00."), ("The " * 200, text), (text, text)])
    assert np.isfinite(found).all()


def test_nothing_is_judged_of_nothing() -> None:
    assert relation_probabilities([]).shape == (0, len(Relation))


@pytest.mark.parametrize(("network", "outputs"), [(STATEMENTS, len(Relation)), (ANSWERS, 1)])
def test_the_graph_is_what_its_recipe_makes(network: Network, outputs: int) -> None:
    build = runpy.run_path(str(RECIPE))["build_graph"]
    assert build(network.name, network.layers, outputs).SerializeToString(deterministic=True) == network.graph.read_bytes()


def test_threads_that_come_together_open_one_network(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []
    monkeypatch.setattr(judge, "open_session", lambda *given: opened.append(given) or open_session(*given))
    judge._opened.cache_clear()
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: answer_logits("Who is it?", ["It is Ines."]).tolist(), range(8)))
    assert len(opened) == 1
    assert found == found[:1] * 8


@pytest.mark.parametrize(
    ("question", "answer", "near"),
    [
        ("When does the choir rehearse?", "The choir meets on Tuesdays at half past seven.", "The choir sings Bach at Easter."),
        ("Which host runs the nightly import?", "The nightly import runs on alder.", "The nightly import takes forty minutes."),
        ("Wann probt der Chor?", "Der Chor trifft sich dienstags um halb acht.", "Der Chor singt zu Ostern Bach."),
    ],
)
def test_what_answers_is_likelier_than_what_is_near(question: str, answer: str, near: str) -> None:
    said, beside = answer_logits(question, [f"[3 May 2026] {text}" for text in (answer, near)])
    assert said > beside


def test_the_same_is_not_said_of_two_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "classify_relations", lambda pairs: [Relation.SAME] * len(pairs))
    assert says_the_same([("Tea is in the left cupboard.", "tea is in the LEFT cupboard")]) == [True]
    assert not any(
        says_the_same([("The rent is 840 euros.", "The rent is 910 euros."), ("We meet at nine.", "We meet at 10:00.")])
    )


def test_the_network_is_opened_on_first_use_alone() -> None:
    script = "import memory_assets.language.judge, sys; print('onnxruntime' in sys.modules, 'tokenizers' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "False"]
