"""What two short texts state is judged by their words and similarity: a changed value or a denial is never the same."""

import pytest

from memory_assets.language.embedders import open_embedder
from memory_assets.language.embedders.calibration import scale_of
from memory_assets.language.embedders.context import meanings_of
from memory_assets.language.statements import Judgement, Relation, features, find_replaced, judge, load_model


def judged(old: str, new: str) -> Judgement:
    """As the default embedder sees the two."""
    embedder = open_embedder("auto")
    one, other = meanings_of(embedder, [old, new])
    return judge(old, new, float(scale_of(embedder.name, None).similarity(one @ other)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The boiler makes a knocking noise.", "The boiler is due for its yearly service."),
        ("The boiler was repaired by Ines.", "The boiler is due for its yearly service."),
        ("The attic is insured until june.", "The attic got a new window in June."),
        ("The iron tablets cost nine euros", "The iron tablets must not be taken with tea"),
        ("Der Rasenmäher steht im Schuppen.", "Der Rasenmäher braucht neues Öl."),
    ],
)
def test_another_fact_of_the_subject_is_related(old, new):
    assert judged(old, new).relation is Relation.RELATED


@pytest.mark.parametrize(
    ("old", "new", "evidence"),
    [
        ("The rent is 840 euros.", "The rent is 910 euros.", "840 -> 910"),
        ("The choir meets on Tuesday at seven.", "The choir meets on Thursday at seven.", "Tuesday -> Thursday"),
        ("Das Lager schließt um 18 Uhr.", "Das Lager schließt um 20 Uhr.", "18 -> 20"),
        ("The boat is moored in Hoorn.", "The boat is moored in Enkhuizen.", "Hoorn -> Enkhuizen"),
    ],
)
def test_another_value_is_a_change_and_names_what_was_and_what_is(old, new, evidence):
    found = judged(old, new)
    assert (found.relation, found.evidence) == (Relation.CHANGED, evidence)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The garage may be used by guests.", "The garage must not be used by guests."),
        ("Im Garten darf gegrillt werden.", "Im Garten darf nicht gegrillt werden."),
        ("The staging database is reset every night at 04:00.", "The staging database is no longer reset at night."),
    ],
)
def test_a_denial_is_the_contrary(old, new):
    assert judged(old, new).relation in (Relation.OPPOSITE, Relation.CHANGED)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "The under-elevens train at five on Tuesdays and Thursdays.",
            "Training of the under-elevens is on Tuesdays and Thursdays at five.",
        ),
        ("Tea is in the left cupboard.", "tea is in the LEFT cupboard"),
    ],
)
def test_other_words_for_it_are_the_same(old, new):
    assert judged(old, new).relation is Relation.SAME


def test_a_value_that_differs_forbids_the_same_however_alike_the_texts_are():
    texts = (
        "The archive in the old mill opens at nine for members of the club.",
        "For members of the club the archive in the old mill opens at eight.",
    )
    assert judge(*texts, 1.0).relation is not Relation.SAME


def test_words_of_change_of_the_newer_text_are_told():
    assert judged("The rent is 840 euros.", "Since May the rent is 910 euros.").says_change
    assert not judged("The rent is 840 euros.", "The rent is 910 euros.").says_change


def test_one_sentence_of_a_long_text_may_change_another():
    old = "The warehouse is in Kiel. It has two gates. The alarm is tested on Monday at noon. Visitors sign the book at the desk."
    new = "Keys are with the porter. The alarm is tested on Friday at noon. The lift was painted green. Parcels go to the ramp."
    found = judged(old, new)
    assert found.relation is Relation.CHANGED
    assert found.evidence == "Monday -> Friday"


def test_the_trained_model_knows_the_features():
    found = features("The rent is 840 euros.", "The rent is 910 euros.", 0.9)
    assert set(load_model().names) == {name for name in found if not name.startswith("only ")}
    assert sum(load_model().probabilities(found).values()) == pytest.approx(1)


@pytest.mark.parametrize(
    "text",
    [
        *("…", "?", "日本語の文です。", "42", "a", "don't", "²", "🙂", "no " * 500, "One. Two. Three."),
        *("9" * 5_000, "half past ²", "half past " + "7" * 5_000, "The code is " + "8" * 5_000),
    ],
)
def test_no_text_fails(text):
    for other in ("We leave at 10:00.", "The rent is 840 euros. We may paint the walls.", text, f"{text}!", "Ⅳ", "The " * 200):
        assert 0 <= judge(text, other, 0.95).confidence <= 1
        assert judge(other, text, 0.95).evidence.count("\n") == 0


@pytest.mark.parametrize(
    ("old", "new", "replaced"),
    [
        ("Atlas stores shipments in MongoDB 7.", "In April Atlas leaves MongoDB for PostgreSQL 17.", "MongoDB -> PostgreSQL 17"),
        ("The index of the wiki is Elasticsearch.", "The wiki replaced Elasticsearch with Solr.", "Elasticsearch -> Solr"),
        ("The run used up the MongoDB connection pool of Atlas.", "Atlas leaves MongoDB for PostgreSQL.", ""),
        ("Atlas stores shipments in MongoDB.", "Atlas may move from MongoDB to PostgreSQL.", ""),
        ("Atlas stores shipments in MongoDB.", "The portal moved from MongoDB to PostgreSQL.", ""),
        ("Atlas took its data from MongoDB to PostgreSQL.", "Atlas moved from MongoDB to PostgreSQL.", ""),
    ],
)  # fmt: skip
def test_what_a_text_says_was_replaced_by_what(old, new, replaced):
    assert find_replaced(old, new) == replaced


@pytest.mark.parametrize(
    ("old", "new", "relation"),
    [
        ("The choir rehearses in St. Anne.", "The choir rehearses in the town hall.", Relation.CHANGED),
        ("The rehearsals take place in the chapel.", "The rehearsals take place in the school gym.", Relation.CHANGED),
        ("The main branch is protected by two reviews.", "The main branch is called trunk.", Relation.RELATED),
        ("We don't deploy on Mondays.", "We don't deploy on Fridays.", Relation.RELATED),
    ],
)
def test_another_place_in_the_same_words_is_a_change(old, new, relation):
    assert judged(old, new).relation is relation


def test_sentences_of_long_texts_that_exchange_no_value_do_not_differ():
    one = (
        "Boards for latency, pool and settlement run time. " + "The alert on the pool was added after the incident in March. " * 3
    )
    other = (
        "Grafana: boards of latency, pool, settlement time of Atlas. " + "Ask Leila for the rights, she set the boards up. " * 4
    )
    assert judge(one, other, 0.95).relation is Relation.RELATED
