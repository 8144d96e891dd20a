from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from memory_assets.language.words import topic_words, words
from memory_assets.recall.question import understand

NOW = datetime(2026, 6, 17, 12, tzinfo=UTC)


def ask(text: str):
    return understand(text, NOW, ZoneInfo("UTC"))


def test_question_and_function_words_are_not_what_is_looked_for():
    assert ask("Why did we leave MongoDB?").keywords == "leave mongodb"


@pytest.mark.parametrize(
    ("query", "topic"),
    [
        ("What do we know about SOC Defender?", "SOC Defender"),
        ("tell me more about Priya.", "Priya"),
        ("Was ist über Bienenzucht bekannt?", "Bienenzucht"),
    ],
)
def test_who_asks_what_is_known_about_a_topic_looks_for_the_topic(query: str, topic: str):
    assert (ask(query).text, ask(query).is_bare) == (topic, True)


@pytest.mark.parametrize(
    "query", ["What do we have on Friday?", "What do we know about Atlas and who owns it?", "What is it about?"]
)
def test_another_question_stays_as_it_is(query: str):
    assert ask(query).text == query


def test_a_query_of_function_words_alone_is_looked_for_as_it_is():
    assert ask("who are you").keywords == "who are you"


def test_names_lose_their_possessive_ending():
    assert topic_words("Which breed is Ann's dog?") == ["breed", "ann", "dog"]


def test_technical_words_stay_whole():
    assert words("C++ and node.js in feature_flag_x, isn't it") == [
        "c++",
        "and",
        "node.js",
        "in",
        "feature_flag_x",
        "isn't",
        "it",
    ]


def test_terms_are_found_as_whole_words_only():
    question = ask("What about the cat and c++?")
    assert question.terms_in("The category of C++ books") == {"c++"}
    assert question.terms_in("Ann's cat, or the cat of Ann") == {"cat"}
    assert question.terms_in("libc++ concatenates") == set()


def test_a_term_is_not_found_where_only_a_longer_one_stands():
    question = ask("c or c++ or feature-flag or flag?")
    assert question.terms_in("C++ alone") == {"c++"}
    assert question.terms_in("C and C++") == {"c", "c++"}
    assert question.terms_in("the feature-flag, subfeature-flag") == {"feature-flag", "flag"}
    assert question.terms_in("the feature-flag") == {"feature-flag"}
    assert ask("data or base?").terms_in("the data of the database") == {"data"}
    assert question.terms_in("a flag for the feature-flag") == {"feature-flag", "flag"}


def test_a_time_in_the_query_is_understood():
    interval = ask("What broke in March 2026?").interval
    assert interval is not None
    assert (interval.start, interval.end) == (datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC))


@pytest.mark.parametrize("text", ["What does the harbour look like?", "We may march on", "What do I use today?"])
def test_a_query_without_a_time_has_no_interval(text: str):
    assert ask(text).interval is None


@pytest.mark.parametrize(
    ("text", "to_listener"),
    [
        ("Where did I park?", False),
        ("What did you recommend?", True),
        ("What did you tell me about my pension?", True),
        ("What did I tell you about my pension?", False),
        ("How did you actually explain the error to me?", True),
        ("Can you tell me where I parked?", False),
        ("Could you recommend a book?", False),
        ("What title did you give me?", True),
        ("How did your first proposal deal with my allergy?", True),
        ("What should you avoid when you suggest stories to me?", False),
        ("How do I want your answers to look?", False),
        ("Write me a helper that you would use", False),
        ("Who owns the export?", False),
    ],
)
def test_whose_words_a_question_asks_for_is_heard(text: str, to_listener: bool):
    assert ask(text).to_listener is to_listener


def test_today_is_a_time_where_something_past_is_asked_for():
    assert ask("What did I store today?").interval is not None


@pytest.mark.parametrize(
    ("text", "is_task"),
    [
        ("plan the next two months of Atlas", True),
        ("Atlas", True),
        ("hat size of Jonas", True),
        ("Bereite das Treffen mit Priya vor", True),
        ("which port does the gateway use", False),
        ("Wann zieht die Datenbank um", False),
        ("is the staging database reset at night", False),
        ("What leaves on Friday?", False),
        ("Summarise how the release went", False),
        ("Fasse die letzten Treffen zusammen", False),
    ],
)
def test_a_task_asks_for_no_answer(text: str, is_task: bool):
    assert ask(text).is_task is is_task
