"""Text in other languages is recognised and left unchanged."""

import json
from pathlib import Path

import pytest

from memory_assets.language.languages import ENGLISH, recognise
from memory_assets.language.pipeline import Analyzer

ROWS = [
    json.loads(line)
    for name in ("entity_sentences", "entity_sentences_heldout")
    for line in (Path(__file__).parents[1] / f"data/{name}.jsonl").read_text(encoding="utf-8").splitlines()
]


def test_english_notes_are_never_taken_for_another_language():
    for row in ROWS:
        assert recognise(row["text"]) in {ENGLISH, None}, row


@pytest.mark.parametrize(
    ("text", "language", "tags"),
    [
        ("Die Besprechung mit dem Kunden wurde auf Freitag verschoben.", "de", ("besprechung", "kunden", "freitag")),
        ("Wir haben die Datenbank von MongoDB zu PostgreSQL migriert.", "de", ("mongodb", "postgresql", "datenbank")),
        ("Zahnarzttermin am Dienstag", "de", ("zahnarzttermin", "dienstag")),
        ("O servidor de testes não está funcionando.", "pt", ("servidor", "testes", "funcionando")),
        ("Le serveur de production est en panne depuis lundi.", "fr", ("serveur", "production", "panne")),
        ("El despliegue se hace siempre los martes.", "es", ("despliegue", "martes")),
        ("Сервер базы данных упал ночью", "ru", ("сервер", "базы", "данных")),
    ],
)
def test_another_language_gives_whole_words_and_no_english_lemmas(
    analyzer: Analyzer, text: str, language: str, tags: tuple[str, ...]
):
    features = analyzer.analyze(text)
    assert recognise(text) == language
    assert features.actions == ()
    assert features.tags[: len(tags)] == tags
    assert not any(entity.type in {"LOC", "ORG", "NAME"} for entity in features.entities)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("朝は会議の予定を flumewright に入れないでください", "ja"),
        ("我们决定使用 flumewright 数据库存储会议记录", "zh"),
        ("회의는 매주 월요일에 진행합니다. 데이터베이스를 flumewright 백업하세요.", "ko"),
    ],
)
def test_a_script_without_spaces_gives_no_tags(analyzer: Analyzer, text: str, language: str):
    assert recognise(text) == language
    assert analyzer.analyze(text).tags == ("flumewright",)


@pytest.mark.parametrize(
    "text",
    [
        "DuckDB lock",
        "Los Angeles office",
        "Ursula von der Leyen visited us",
        "🚀",
        "",
        "x = 1",
        "de facto standard",
        "Tomasz owns e2e tests",
        "Upgrade k8s nodes on lynx",
        "Retry: 1s, 2s, 4s",
        "Fix car insurance payment",
        "Deploy took 1h30m, usually 20 min.",
        "Who am I",
        "Standup 9 am Monday",
    ],
)
def test_a_text_whose_words_do_not_tell_is_given_no_language(text: str):
    assert recognise(text) in {ENGLISH, None}


def test_a_line_of_two_languages_is_read_sentence_by_sentence(analyzer: Analyzer):
    found = analyzer.analyze(
        "Asked: move the queue to another broker. Nein, nicht RabbitMQ, wir nehmen NATS. Open: the retry test fails."
    )
    assert {entity.text for entity in found.entities} == {"NATS", "RabbitMQ"}
    assert "move" in found.actions
    assert not {"nehman", "nehmen"} & set(found.actions)


def test_paragraphs_of_two_languages_are_each_read_in_their_own(analyzer: Analyzer):
    features = analyzer.analyze("Alice wrote it down for the whole team.\n\nDie Besprechung wurde auf Freitag verschoben.")
    assert features.actions == ("write",)
    assert {"alice", "besprechung"} <= set(features.tags)


def test_a_german_month_is_no_name_in_a_line_that_tells_no_language(analyzer: Analyzer):
    assert "Mai" not in {entity.text for entity in analyzer.analyze("Geburtstag Oma Hilde: 3. Mai").entities}
