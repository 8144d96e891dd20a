"""What is written without spaces between words, or with accents, is found by its words."""

from collections.abc import Callable
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_assets.ingest.backfill import reindex
from memory_assets.language.words import fold, pieces
from memory_assets.models import Memory
from memory_assets.recall.question import understand
from memory_assets.recall.search import search
from memory_assets.stores import lance
from memory_assets.stores.memories import Filters, MemoryStore
from memory_assets.stores.resident.memories import Allowance
from memory_assets.stores.rows import PIECES_FACT, SCHEMA, statement
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
    """What was said, by the question that it answers."""
    return {question: remember(content) for content, question in SAID.items()}


def test_a_question_finds_what_says_its_words_on_disk_and_in_memory(tenant: Tenant, said: dict[str, Memory]) -> None:
    resident = MemoryStore(tenant.memories.uri)
    resident.keep_resident(Allowance(64 << 20))
    resident.tend_resident()
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
    assert "by the one the question names" in next(part.reason for part in hits[0].components if part.name == "relation")


def test_what_an_earlier_release_indexed_is_indexed_anew_once(tenant: Tenant, said: dict[str, Memory]) -> None:
    store = tenant.memories
    memories = list(said.values())
    old = pa.table(
        {
            "id": [memory.id for memory in memories],
            "indexed_text": [statement(memory.title, memory.content) for memory in memories],
            "updated_at": [datetime.now(UTC)] * len(memories),
        },
        schema=pa.schema([SCHEMA.field(name) for name in ("id", "indexed_text", "updated_at")]),
    )
    store.update(old, [memory.updated_at for memory in memories])
    lance.set_facts(store.stored.writing, {PIECES_FACT: None})
    vector = tenant.embedder.embed(["猫"], "query")[0]
    near = store.nearest(vector, tenant.embedder.name, 20, Filters())
    assert not by_words(store, "猫")
    assert by_words(store, "Straße") == [memories[7].id]

    assert reindex(store) == sum(bool(pieces(memory.content)) for memory in memories)
    for question, memory in said.items():
        assert by_words(store, question)[:1] == [memory.id]
    after = store.nearest(vector, tenant.embedder.name, 20, Filters())
    assert dict(zip(after["id"].to_pylist(), after["similarity"].to_pylist(), strict=True)) == dict(
        zip(near["id"].to_pylist(), near["similarity"].to_pylist(), strict=True)
    )
    version = store.version
    assert reindex(store) == 0
    assert store.version == version


def test_a_new_store_has_nothing_to_be_indexed_anew(tenant: Tenant, said: dict[str, Memory]) -> None:
    version = tenant.memories.version
    assert reindex(tenant.memories) == 0
    assert tenant.memories.version == version
    assert len(said) == len(np.unique(tenant.memories.scan(("id",))["id"].to_numpy()))


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
