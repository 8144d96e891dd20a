import pytest

from memory_assets.recall.search import Hit, search

QUESTION = "When will the kayak leave the harbour?"


def _nearness(hits: list[Hit]) -> dict[str, float]:
    return {hit.memory.content: component.value for hit in hits for component in hit.components if component.name == "vector"}


def _talk(remember, asked: str, answering: str) -> None:
    for author, content in (("Ann", "Fine weather."), ("Ines", asked), (answering, "Not before April."), ("Ines", "Pity.")):
        remember(content, author=author, session="harbour")


@pytest.mark.parametrize(
    ("asked", "answering", "least", "most"),
    [
        (QUESTION, "Ann", 0.45, 0.7),
        ("Kayak, harbour, leave？", "Ann", 0.3, 0.7),
        (QUESTION[:-1], "Ann", 0.2, 0.42),
        (QUESTION, "Ines", 0, 0.1),
        (QUESTION, "assistant", 0, 0.25),
    ],
)
def test_an_answer_is_near_to_what_it_was_asked(tenant, remember, asked: str, answering: str, least: float, most: float):
    _talk(remember, asked, answering)
    near = _nearness(search(tenant, QUESTION))
    assert least <= near["Not before April."] <= most
    assert near["Fine weather."] < 0.25


def test_an_answer_that_no_index_finds_comes_before_other_neighbours(tenant, remember):
    _talk(remember, QUESTION, "Ann")
    remember.all([f"The oar of the harbour number {number} and a long day out" for number in range(120)])
    found = [hit.memory.content for hit in search(tenant, QUESTION, limit=3)]
    assert set(found[:2]) == {QUESTION, "Not before April."}
