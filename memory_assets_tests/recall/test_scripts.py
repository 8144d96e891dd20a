"""Text without spaces between words, or with accents, is found by its words."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_assets.language.words import fold, pieces
from memory_assets.models import Memory
from memory_assets.recall.question import understand
from memory_assets.recall.search import search
from memory_assets.stores.memories import Filters, MemoryStore
from memory_assets.stores.resident.memories import Allowance
from memory_assets.tenants import Tenant

SAID = {
    "佐藤さんは四月から大阪支社に異動した。": "佐藤さんは今どこで働いていますか",
    "うちの猫は夜に薬を飲む": "猫",
    "メッセージキューを廃止して、Postgresの表に置き換えた。": "Postgres",
    "ｾﾝﾀｰの予算は木曜日に決まる": "センターはいつ?",
    "数据库每周日凌晨三点备份。": "数据库什么时候备份?",
    "거래처 송장은 지연이가 관리한다.": "송장을 관리하는 사람은?",
    "ลูกค้าจากเชียงใหม่จ่ายเงินล่วงหน้า": "เชียงใหม่จ่ายอย่างไร",
    "Die Straße zum Büro ist gesperrt": "buro STRASSE",
    "O pão está na prateleira": "pao",
}


def by_words(store: MemoryStore, question: str) -> list[int]:
    asked = understand(question, datetime.now(UTC), UTC).keywords
    return store.matching(asked, 3, Filters())["id"].to_pylist()


@pytest.fixture
def said(remember: Callable[..., Memory]) -> dict[str, Memory]:
    """Store the statements; return each by the question that it answers."""
    return {question: remember(content) for content, question in SAID.items()}


def test_a_question_finds_what_says_its_words_on_disk_and_in_memory(tenant: Tenant, said: dict[str, Memory]) -> None:
    resident = MemoryStore(tenant.memories.uri)
    resident.keep_resident(Allowance(64 << 20), tenant.folder / "cache")
    resident.maintain_resident()
    assert resident.is_resident
    for question, memory in said.items():
        for store in (tenant.memories, resident):
            assert by_words(store, question)[:1] == [memory.id], question
        hits = search(tenant, question)
        content = {hit.memory.id: part.value for hit in hits for part in hit.components if part.name == "content"}
        assert max(content, key=lambda number: content[number]) == memory.id


def test_an_author_is_named_within_a_sentence_without_spaces(tenant: Tenant, remember: Callable[..., Memory]) -> None:
    others = [remember("会議は十時から", author="鈴木一郎"), remember("会議は九時から", author="佐藤花子")]
    hits = search(tenant, "佐藤さんの会議は?")
    assert hits[0].memory == others[1]
    assert "written by someone the question names" in next(part.reason for part in hits[0].components if part.name == "relation")


def test_pieces_are_pairs_and_single_chinese_characters_and_words_of_other_scripts() -> None:
    assert pieces("DBをPostgresに移した") == ["db", "を", "postgres", "移", "に移", "移し", "した"]
    assert pieces("plain English, naïve café") == []
    assert pieces("약을 먹다") == ["약을", "먹다"]
    assert pieces("ก็") == ["ก"]


@given(st.text(st.characters(codec="utf-8") | st.sampled_from("日本語かなカナｶﾅ한국어ไทย่ é-_・1a \n")))
def test_pieces_are_single_words_to_every_index(text: str) -> None:
    found = pieces(text)
    assert all(piece.isalnum() for piece in found)
    assert len(found) <= 3 * len(fold(text)) + 1
