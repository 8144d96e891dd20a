import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_assets.graph.wording import find_cues, retracts
from memory_assets.language.words import prose_sentences
from memory_assets.models import Entity

POSTGRES, MONGO = Entity("PostgreSQL", "DATABASE"), Entity("MongoDB", "DATABASE")


def stated(text: str, *entities: Entity) -> set[tuple[str, str, bool, str]]:
    return {(cue.relation.value, cue.target, cue.outgoing, cue.other) for cue in find_cues(text, entities)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("In the end this led to [[decision]].", ("LEADS_TO", "decision", True, "")),
        ("It failed because of [[outage]].", ("LEADS_TO", "outage", False, "")),
        ("Carried out [[decision]].", ("DERIVED_FROM", "decision", True, "")),
        ("This takes back [[old-rule]] of February.", ("INVALIDATED_BY", "old-rule", False, "")),
        ("[[cache]] is no longer true: it was removed.", ("INVALIDATED_BY", "cache", False, "")),
        ("Superseded by [[new-rule]].", ("INVALIDATED_BY", "new-rule", True, "")),
        ("This contradicts [[other]].", ("CONTRADICTS", "other", True, "")),
        ("The measurement confirms [[guess]].", ("REINFORCES", "guess", True, "")),
        ("A good example of [[pattern]].", ("EXEMPLIFIES", "pattern", True, "")),
        ("One step of [[epic]].", ("PART_OF", "epic", True, "")),
    ],
)
def test_words_beside_a_link_name_its_relation(text, expected):
    assert stated(text) == {expected}


@pytest.mark.parametrize(
    "text",
    [
        "This never led to [[decision]].",
        "It was not caused by [[outage]].",
        "See [[decision]] for more.",
        "[[cache]] is still true.",
        "`led to [[decision]]`",
        "```\nThis led to [[decision]].\n```",
    ],
)
def test_denial_plain_mention_and_code_state_nothing(text):
    assert stated(text) == set()


def test_a_link_under_why_is_a_cause_with_less_confidence_than_plain_words():
    why, *_ = find_cues("Rule.\n\n**Why:** the outage, see [[outage]].\n**How to apply:** read [[handbook]].")
    assert (why.relation, why.target, why.outgoing) == ("LEADS_TO", "outage", False)
    led, *_ = find_cues("This led to [[outage]].")
    assert why.confidence < led.confidence
    assert len(find_cues("**Why:** a.\n**How to apply:** read [[handbook]].")) == 0


@pytest.mark.parametrize(
    "text",
    [
        "The team prefers PostgreSQL over MongoDB for money.",
        "We chose PostgreSQL instead of MongoDB.",
        "Atlas left MongoDB for PostgreSQL.",
        "PostgreSQL instead of MongoDB",
        "They migrated the service from MongoDB to PostgreSQL.",
    ],
)
def test_preference_joins_the_two_things_named(text):
    assert stated(text, POSTGRES, MONGO) == {("PREFERS_OVER", "PostgreSQL", True, "MongoDB")}


@pytest.mark.parametrize("text", ["We would not prefer PostgreSQL over MongoDB.", "PostgreSQL and MongoDB are both here."])
def test_no_preference_without_a_clear_statement(text):
    assert stated(text, POSTGRES, MONGO) == set()


def test_people_and_places_that_something_moves_between_are_no_preference():
    people = Entity("Priya", "PERSON"), Entity("Tomasz", "PERSON")
    assert stated("The export moved from Priya to Tomasz.", *people) == set()


def test_an_opening_that_refers_back_makes_the_previous_memory_the_cause():
    cue, *_ = find_cues("As a result we closed the port.")
    assert (cue.target_kind, cue.outgoing) == ("previous", False)
    assert find_cues("The port is closed as a result.") == []


def test_retraction_needs_its_words():
    assert retracts("The cache is no longer used.")
    assert not retracts("The cache is used.")


@given(st.text(max_size=400))
def test_any_text_is_read_without_error_and_confidences_are_fractions(text):
    for cue in find_cues(text, [POSTGRES, MONGO]):
        assert 0 < cue.confidence <= 1
        assert len(cue.sentence) <= 300
    assert all(part.strip() for part in prose_sentences(text))
