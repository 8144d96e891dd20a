from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from memory_assets.graph.edges import refresh_graph
from memory_assets.language.embedders import open_embedder
from memory_assets.language.embedders.context import embed_in_context
from memory_assets.models import RelationType, Source
from memory_assets.operations.answers import LocalTime
from memory_assets.operations.context import context
from memory_assets.operations.search import search
from memory_assets.recall.likelihood import Fit
from memory_assets.recall.question import understand
from memory_assets.recall.search import search as search_hits
from memory_assets.stores.memories import Filters, MemoryStore
from memory_assets.stores.relations import StatedRelation
from memory_assets.stores.rows import heading
from memory_assets.tenants import Tenant

NOTES = {
    "The deploy key is in the vault": "where are credentials kept",
    "Ann bought a red kayak": "who owns a boat",
    "Bela paints houses": "who works as a painter",
    "I like tea": "which drink do I prefer",
    "Der Zahnarzttermin der Kinder ist am 14. März um halb vier.": "Wann müssen wir mit den Kleinen zur Kontrolle der Zähne?",
    "A avó não pode comer cebola.": "Que alimento faz mal à nossa avozinha?",
    "할머니는 양파를 못 드신다.": "외할머니가 피해야 할 음식은?",
}
FOREIGN = ("tax treaty between Peru and Chile", "asdf qwer zxcv", "quantum chromodynamics on a lattice", "flurbonium")


@pytest.fixture(scope="module")
def embedder(tmp_path_factory: pytest.TempPathFactory):
    return open_embedder("bge-small")


@pytest.fixture
def store(tenant: Tenant, remember, embedder) -> Callable[..., Tenant]:
    def stored(*contents: str, **more: object) -> Tenant:
        tenant.__dict__["embedder"] = embedder
        memories = [remember(content, **more) for content in contents]
        if memories:
            vectors = embed_in_context(embedder, contents, [heading(each.author, each.created_at, "") for each in memories])
            tenant.memories.put(memories, vectors, embedder.name)
        return tenant

    return stored


@pytest.mark.parametrize("contents", [tuple(NOTES)[:-1], ("The deploy key is in the vault",)])
def test_what_nothing_fits_is_answered_so_and_all_shows_the_nearest(store, contents: tuple[str, ...]):
    tenant = store(*contents)
    for query in FOREIGN:
        answer = search(tenant, query)
        assert (answer.below_floor, answer.memories) == (True, ()), query
        assert answer.text(LocalTime(UTC)).startswith(f"Nothing relevant to {query!r} is remembered; --all"), query
        nearest = search(tenant, query, everything=True)
        assert (nearest.below_floor, nearest.count) == (False, len(contents)), query


@pytest.mark.parametrize(
    ("days", "newer", "guessed", "is_first"),
    [
        (40, "The spare key hangs behind the barometer in the porch of the Brandts.", [], True),
        (0, "The spare key hangs behind the barometer in the porch of the Brandts.", [], False),
        (40, "The spare key hangs behind the barometer in the porch of the Brandts.", ["created_at"], False),
        (40, "The neighbours want a key to the shed.", [], False),
        (40, "The spare key used to hang behind the barometer in the porch of the Brandts.", [], False),
        (40, "We considered the barometer in the porch of the Brandts for the spare key.", [], False),
    ],
)
def test_of_two_answers_the_newer_comes_first_though_no_edge_says_that_it_replaces(
    store, days: int, newer: str, guessed: list[str], is_first: bool
):
    written = datetime(2026, 3, 2, tzinfo=UTC)
    store("The spare key is with Gisela across the lane.", created_at=written)
    tenant = store(newer, created_at=written + timedelta(days=days), metadata={"guessed": guessed})
    first, _ = search_hits(tenant, "where is our spare key")
    assert (first.memory.content == newer) is is_first
    assert [part.name for part in first.components].count("newer") == is_first


@pytest.mark.parametrize(("older", "newer"), [({"author": "Gisela"}, {"author": "Ben"}), ({"session": "a"}, {"session": "b"})])
def test_what_another_person_or_conversation_says_is_no_newer_answer(store, older: dict[str, str], newer: dict[str, str]):
    written = datetime(2026, 3, 2, tzinfo=UTC)
    text = "The spare key is with Gisela across the lane."
    store(text, created_at=written, **older)
    tenant = store(
        "The spare key hangs behind the barometer in the porch of the Brandts.",
        created_at=written + timedelta(days=40),
        **newer,
    )
    assert search_hits(tenant, "where is our spare key")[0].memory.content == text


def test_a_newer_file_needs_no_word_of_change_though_sessions_wrote_both(store):
    written = datetime(2026, 3, 2, tzinfo=UTC)
    store("The spare key is with Gisela across the lane.", created_at=written, session="a", source=Source.CLAUDE_SILO)
    text = "The spare key hangs behind the barometer in the porch of the Brandts."
    tenant = store(text, created_at=written + timedelta(days=40), session="b", source=Source.CLAUDE_SILO)
    assert search_hits(tenant, "where is our spare key")[0].memory.content == text


def test_of_two_answers_the_one_that_holds_comes_first_whatever_their_times(store):
    written = datetime(2026, 3, 2, tzinfo=UTC)
    store("The spare key is with Gisela across the lane.", created_at=written)
    tenant = store(
        "The spare key hangs behind the barometer in the porch of the Brandts.", created_at=written + timedelta(days=40)
    )
    newer, older = (each.id for each in tenant.memories.recent(2, Filters()))
    tenant.relations.state(StatedRelation(newer, older, RelationType.INVALIDATED_BY))
    refresh_graph(tenant.catalog, tenant.memories, tenant.relations)
    assert [hit.memory.id for hit in search_hits(tenant, "where is our spare key")] == [older, newer]


ODD = [
    "Prefers DuckDB over pandas for one-off questions about CSV files",
    "Switches format on save off, because it makes noisy diffs in Atlas",
    "skiff head on an empty Parquet file panics; arrow crate 2 versions behind",
    "Tried RabbitMQ in a spike for ledger; no decision yet",
]
"""Texts near to any odd word."""


def test_words_that_nobody_wrote_find_nothing_among_texts_full_of_names(store):
    tenant = store(*ODD)
    for query in ["xqzvw plmokn", "SOC Defender", "zxqv flurbish"]:
        assert search(tenant, query).below_floor, query
        assert not context(tenant, [query]).found, query
        assert search(tenant, "What reads Parquet?").count, query


def test_a_question_in_letters_may_be_about_what_is_written_without_spaces(store):
    tenant = store(*NOTES, "王芳五月起调到成都分公司工作。")
    assert not search(tenant, "Which branch does she belong to since spring?").below_floor


def test_a_question_in_other_words_or_another_language_keeps_its_answer(store):
    tenant = store(*NOTES)
    for content, question in NOTES.items():
        assert content in [memory.content for memory in search(tenant, question).memories], (content, question)


@pytest.mark.parametrize("query", ["lattice of the vault", "what happened in March 2026", "what is it", "did Joanna vote"])
def test_words_a_time_and_an_author_fit_by_themselves(store, query: str):
    assert search(store("The deploy key is in the vault", author="Joanna"), query).count == 1


def test_a_hit_says_how_well_it_fits_and_a_score_is_told_on_demand_alone(store):
    tenant = store(*tuple(NOTES)[:-1])
    found = search(tenant, "where is the deploy key")
    assert found.memories[0].fit is Fit.SURE
    assert " · sure · id " in found.text(LocalTime(UTC))
    assert " · sure · score 0." in found.text(LocalTime(UTC), explain=True)
    assert {each.fit for each in search(tenant, FOREIGN[0], everything=True).memories} == {Fit.NEAR}


def test_a_search_embeds_its_question_once_and_looks_it_up_once(store, embedder, monkeypatch):
    tenant = store(*tuple(NOTES)[:-1])
    search(tenant, "where is the deploy key")
    asked: list[Sequence[str]] = []

    class Listening:
        name = embedder.name

        def embed(self, texts: Sequence[str], *role: str):
            asked.append(list(texts))
            return embedder.embed(texts, *role)

    tenant.__dict__["embedder"] = Listening()
    monkeypatch.delattr(MemoryStore, "alike")
    assert search(tenant, "where is the key of the deploy").count
    assert asked.count(["where is the key of the deploy"]) == 1


def test_what_search_hides_a_context_of_a_question_tells_last(store):
    tenant = store(*tuple(NOTES)[:-1])
    told = [node.name for node in context(tenant, ["where is the deploy key"]).found]
    assert told[0] == "The deploy key is in the vault"
    assert set(tuple(NOTES)[:-1]) <= set(told)


def test_a_context_of_a_topic_tells_what_search_shows_however_much_room_there_is(store):
    notes = tuple(NOTES)[:-1]
    tenant = store(*notes)
    for topic in ["deploy key", "red kayak"]:
        shown = {memory.content for memory in search(tenant, topic).memories}
        told = {note for note in notes if note in context(tenant, [topic]).document}
        assert told == shown, topic
        assert len(shown) < len(notes), topic


def test_a_damaged_vector_silences_no_other_memory(store):
    tenant = store(*NOTES)
    column = tenant.memories.columns.live
    damaged = [1e30] * tenant.embedder.dimension
    tenant.memories.table.update(where=f"content = '{next(iter(NOTES))}'", values={column: damaged})
    said, asked = list(NOTES.items())[1]
    assert [memory.content for memory in search(tenant, asked).memories][:1] == [said]


def test_nothing_is_found_in_an_empty_store_and_that_is_no_matter_of_fit(store):
    answer = search(store(), "deploy key")
    assert not answer.below_floor
    assert answer.text(LocalTime(UTC)).startswith("Nothing is remembered about")


def test_without_a_common_scale_there_is_no_floor(tenant: Tenant, remember):
    remember("The deploy key is in the vault")
    assert search(tenant, "tax treaty between Peru and Chile").count == 1
    (hit,) = search_hits(tenant, "where is the deploy key")
    assert hit.fit is None
    assert hit.likelihood is not None, "a prompt is told by it"


def test_what_does_not_fit_does_not_come_last_but_not_at_all(store):
    notes = tuple(NOTES)[:-1]
    tenant = store(*notes)
    found = [memory.content for memory in search(tenant, "where is the deploy key").memories]
    assert found[0] == "The deploy key is in the vault"
    assert not {"Bela paints houses", "Ann bought a red kayak"} & set(found)
    assert search(tenant, "where is the deploy key", everything=True).count == len(notes)


def test_what_the_network_cannot_read_is_at_most_near(store):
    tenant = store("O servidor Marlin node não pode ser reiniciado sem o aval de quem está de plantão.", *ODD)
    best = search(tenant, "who bought the Marlin node").memories[0]
    assert (best.content.startswith("O servidor"), best.fit) == (True, Fit.NEAR)


def test_a_question_in_another_language_is_no_bare_words():
    def is_bare(text: str) -> bool:
        return understand(text, datetime.now(UTC), UTC).is_bare

    assert is_bare("SOC Defender")
    assert not is_bare("Wann kommt der Zahnarzt?")
    assert not is_bare("いつデプロイしてはいけませんか")
