import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_assets.language.tags import merge_tags, normalise_tag, singular

WORDS = st.sampled_from(
    [
        "cats",
        "people",
        "boxes",
        "analyses",
        "news",
        "kubernetes",
        "redis",
        "class",
        "status",
        "queries",
        "c++",
        "c#",
        ".net",
        "node.js",
        "🚀",
        "Straße",
        "机器学习",
        "women",
        "specimen",
        "topics",
        "physics",
        "apis",
        "ss",
        "ies",
        "es",
        "s",
    ]
)


@pytest.mark.parametrize(
    ("written", "tag"),
    [
        ("python debugging", "python-debugging"),
        ("debugging python", "debugging-python"),
        ("machine learning", "machine-learning"),
        ("cats", "cat"),
        ("people", "person"),
        ("Unit Tests", "unit-test"),
        ("  multiple   spaces ", "multiple-space"),
        ("c", "c"),
        ("C++", "c++"),
        ("C#", "c#"),
        (".NET", ".net"),
        ("node.js", "node.js"),
        ("#python", "python"),
        ("snake_case", "snake-case"),
        ("redis", "redis"),
        ("Kubernetes", "kubernetes"),
        ("news", "news"),
        ("🚀", "🚀"),
        ("👩‍💻 work", "👩‍💻-work"),
        ("Straße", "straße"),
        ("Über uns", "über-uns"),
        ("机器学习", "机器学习"),
        ("ＡＰＩｓ", "api"),
        ("lang:python", "lang:python"),
        ("v1.2", "v1.2"),
        ("what's new?", "what's-new"),
        ("!!!", "!!!"),
        ("#", "#"),
        (" ... ", "..."),
    ],
)
def test_a_tag_is_spelt_in_one_way(written: str, tag: str):
    assert normalise_tag(written) == tag


@given(st.text(min_size=1).filter(lambda text: text.strip() != ""))
def test_normalising_again_changes_nothing(text: str):
    once = normalise_tag(text)
    assert normalise_tag(once) == once


@given(st.lists(WORDS, min_size=1, max_size=4), st.sampled_from([" ", "  ", "-", "_", "\t"]))
def test_normalising_joined_words_again_changes_nothing(words: list[str], joint: str):
    once = normalise_tag(joint.join(words))
    assert normalise_tag(once) == once


@given(st.text(alphabet=st.characters(categories=("L", "N", "P", "S")), min_size=1))
def test_a_tag_with_something_to_see_never_vanishes(text: str):
    assert normalise_tag(text)


@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=14))
def test_a_singular_has_no_other_singular(word: str):
    assert singular(singular(word)) == singular(word)


@pytest.mark.parametrize(
    ("plural", "one"),
    [
        ("queries", "query"),
        ("boxes", "box"),
        ("classes", "class"),
        ("indices", "index"),
        ("caches", "cache"),
        ("apis", "api"),
        ("laptops", "laptop"),
        ("metrics", "metric"),
        ("grandchildren", "grandchild"),
        ("women", "woman"),
    ],
)
def test_plurals_become_singular(plural: str, one: str):
    assert singular(plural) == one


@pytest.mark.parametrize(
    "word",
    [
        "class",
        "status",
        "analysis",
        "physics",
        "devops",
        "canvas",
        "specimen",
        "james",
        "paris",
        "postgres",
        "os",
        "js",
        "series",
        "bus",
        "4s",
    ],
)
def test_what_only_looks_like_a_plural_stays(word: str):
    assert singular(word) == word


def test_the_users_tags_come_first_and_nothing_twice():
    assert merge_tags(["Cats", "Zebra"], ["alice", "cat", "duckdb"]) == ("cat", "zebra", "alice", "duckdb")


def test_names_among_the_automatic_tags_keep_their_s():
    assert merge_tags([], ["mathews"]) == ("mathews",)
    assert merge_tags(["mathews"], ["mathews"]) == ("mathew",)


@given(st.lists(WORDS, max_size=5), st.lists(WORDS, max_size=5))
def test_every_tag_of_the_user_is_in_the_result(user: list[str], auto: list[str]):
    merged = merge_tags(user, [normalise_tag(tag) for tag in auto])
    assert set(merged) >= {normalise_tag(tag) for tag in user}
    assert len(set(merged)) == len(merged)
