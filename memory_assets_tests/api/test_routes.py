"""The routes keep their promises to a client that uses them as intended."""

import time
from datetime import UTC, datetime, timedelta
from uuid import UUID

import numpy as np
import pytest

from memory_assets.graph.edges import refresh_graph
from memory_assets.language.embedders.calibration import scale_of
from memory_assets.models import Kind, NewMemory, Source, State
from memory_assets.operations.store import store
from memory_assets.stores.embedding_columns import meaning_column
from memory_assets_tests.api.service import TenantClient

SEED_FIELDS = {"id", "content", "created_at", "tags", "entities", "actions"}
_ROUNDED = 2e-3
"""How far a similarity may be off once the service holds the memories in memory, where a component has eight bits."""
DUCKDB_NOTES = [
    "Alice moved the billing export to DuckDB.",
    "Alice moved the billing export from MongoDB to DuckDB last week.",
    "Bob moved the billing export to DuckDB.",
    "Alice moved the billing report to DuckDB.",
    "The billing export is now written by DuckDB.",
    "Alice moved the invoice export to PostgreSQL.",
    "Carol grows tomatoes on her balcony.",
    "The billing export failed in DuckDB because of a lock.",
]


def test_a_stored_memory_is_understood_and_shown_as_the_seed_shows_it(client: TenantClient) -> None:
    number = client.store("Alice moved Atlas to DuckDB.", tags=["machine learning"])
    begun = client.post("/init").json()
    assert begun.keys() == {"current_time", "recent_memories"}
    (memory,) = begun["recent_memories"]
    assert memory.keys() >= SEED_FIELDS
    assert memory["id"] == number
    assert memory["content"] == "Alice moved Atlas to DuckDB."
    assert memory["tags"][0] == "machine-learning"
    assert "move" in memory["actions"]
    assert all(entity.keys() == {"text", "type"} for entity in memory["entities"])
    assert "Alice" in [entity["text"] for entity in memory["entities"]]
    for moment in (begun["current_time"], memory["created_at"]):
        assert moment.endswith("+00:00")
        assert abs(datetime.now(UTC) - datetime.fromisoformat(moment)) < timedelta(minutes=1)


def test_a_password_is_masked_and_the_answer_says_so(client: TenantClient) -> None:
    content = {"content": "The admin password is " + "kestrel" + "-4711!", "tags": ["AK" + "IA" + "QX7T" * 4]}
    answer = client.post("/store", content, Idempotency_Key="once").json()
    assert answer["masked"] == ["password", "aws access key"]
    assert client.post("/store", content, Idempotency_Key="once").json()["id"] == answer["id"]
    shown = client.post("/search", {"query": "admin password"}).json()["memories"]
    assert [memory["content"] for memory in shown if memory["id"] == answer["id"]] == ["The admin password is [secret: password]"]


def test_the_splash_is_what_lies_between_0_7_and_0_9_and_nothing_else(client: TenantClient) -> None:
    forgotten = client.store(DUCKDB_NOTES[4])
    client.post(f"/memories/{forgotten}/forget")
    sizes = set()
    for note in [*DUCKDB_NOTES, DUCKDB_NOTES[0]]:
        answer = client.post("/store", {"content": note}).json()
        assert answer.keys() >= {"id", "splash"}
        memories = client.tenant.memories
        column = meaning_column(str(memories.columns.live))
        rows = memories.scan(("id", "state", column))
        vectors = np.stack(rows[column].to_numpy())
        ids, states = rows["id"].to_pylist(), rows["state"].to_pylist()
        scale = scale_of(client.tenant.embedder.name, memories.columns.scale)
        similarities = scale.similarity(vectors @ vectors[ids.index(answer["id"])])
        expected = sorted(
            (
                (-float(similarity), number)
                for similarity, number, state in zip(similarities, ids, states, strict=True)
                if state == State.ACTIVE and 0.7 < similarity < 0.9 and number != answer["id"]
            ),
        )[:3]
        assert [each["id"] for each in answer["splash"]] == [number for _, number in expected]
        assert np.allclose(
            [each["similarity"] for each in answer["splash"]], [-negative for negative, _ in expected], atol=_ROUNDED
        )
        sizes.add(len(answer["splash"]))
    assert 0 in sizes
    assert max(sizes) > 1


def test_search_explains_its_scores_and_an_empty_query_finds_the_newest(client: TenantClient) -> None:
    ids = [client.store(note) for note in DUCKDB_NOTES]
    found = client.post("/search", {"query": "who grows tomatoes", "limit": 3}).json()
    best = found["memories"][0]
    assert best["id"] == ids[6]
    assert best.keys() >= SEED_FIELDS
    assert abs(sum(part["contribution"] for part in best["components"]) - best["score"]) < 0.05
    assert {"vector", "keyword"} <= {part["name"] for part in best["components"]}
    newest = client.post("/search", {"limit": 2}).json()
    assert [memory["id"] for memory in newest["memories"]] == ids[:-3:-1]
    assert newest["count"] == 2


def test_search_shows_the_paths_that_stated_relations_make_and_remembers_what_was_recalled(client: TenantClient) -> None:
    cause = client.store("The settlement run took 40 seconds in MongoDB.")
    decision = client.store("Jonas decided to move shipments to PostgreSQL.")
    stated = {"source_id": cause, "target_id": decision, "type": "LEADS_TO", "confidence": 0.9, "note": "too slow"}
    assert client.post("/relations", stated).status_code == 200
    tenant = client.tenant
    refresh_graph(tenant.catalog, tenant.memories, tenant.relations)
    time.sleep(1.1)
    found = client.post("/search", {"query": "settlement run slow", "limit": 1, "bridges": 2}).json()
    (bridge,) = found["bridges"]
    assert [place["id"] for place in bridge["path"]] == [cause, decision]
    assert (bridge["hops"][0]["type"], bridge["hops"][0]["reason"]) == ("LEADS_TO", "too slow")
    assert client.post("/search", {"query": "settlement run slow"}).json()["bridges"] == []
    log = "".join(path.read_text() for path in (tenant.folder / "access").iterdir())
    assert str(cause) in log


def test_filters_narrow_by_tags_kind_and_time(client: TenantClient) -> None:
    long_ago = datetime(2024, 3, 1, 12, tzinfo=UTC)
    old = store(client.tenant, NewMemory("Atlas began in March.", Source.CLI, created_at=long_ago)).id
    tagged = client.store("Atlas ships on Friday.", tags=["Release Plan"])
    rule = client.store("Never deploy Atlas on Fridays.", kind="feedback")

    def found(**filters: object) -> set[int]:
        answer = client.post("/search", {"query": "Atlas", **filters})
        assert answer.status_code == 200, answer.text
        return {memory["id"] for memory in answer.json()["memories"]}

    assert found(actions=["deploy"]) == {rule}

    assert found() == {old, tagged, rule}
    assert found(tags=["release plan"]) == {tagged}
    assert found(kinds=["feedback"]) == {rule}
    assert found(until="2024-12-31T00:00:00+02:00") == {old}
    assert found(since="2024-03-01T13:00:00+01:00", until="2024-03-01T12:00:00.000001Z") == {old}
    assert found(since="2024-12-31T00:00:00Z") == {tagged, rule}
    recent = client.post("/recent", {"since": "2024-01-01T00:00:00Z", "kinds": [Kind.NOTE]}).json()
    assert [memory["id"] for memory in recent["memories"]] == [tagged, old]
    assert [memory["id"] for memory in client.post("/recent").json()["memories"]] == [rule, tagged]
    assert client.post("/recent", {"until": "2024-03-02T00:00:00Z"}).json()["count"] == 1


def pages_of(client: TenantClient, path: str, body: dict[str, object], stored_meanwhile: str) -> list[int]:
    """Return the ids on all pages; something is stored between any two."""
    seen: list[int] = []
    while True:
        page = client.post(path, body).json()
        assert "memories" in page, page
        seen += [memory["id"] for memory in page["memories"]]
        if page["next_cursor"] is None:
            return seen
        client.store(stored_meanwhile)
        body["cursor"] = page["next_cursor"]


def test_pages_of_recent_neither_repeat_nor_skip_while_others_store(client: TenantClient) -> None:
    moment = datetime.now(UTC) - timedelta(hours=1)
    ids = [store(client.tenant, NewMemory(f"Note {n}.", Source.CLI, created_at=moment)).id for n in range(5)]
    ids.append(store(client.tenant, NewMemory("Later.", Source.CLI, created_at=moment + timedelta(minutes=1))).id)
    assert sorted(pages_of(client, "/recent", {"limit": 2}, "Somebody else's note.")) == sorted(ids)


def test_pages_of_a_search_neither_repeat_nor_take_in_what_came_later(client: TenantClient) -> None:
    ids = [client.store(note) for note in DUCKDB_NOTES if "tomatoes" not in note]
    ahead = store(client.tenant, NewMemory("Forgotten.", Source.CLI, created_at=datetime.now(UTC) + timedelta(hours=1)))
    client.post(f"/memories/{ahead.id}/forget")
    asked: dict[str, object] = {"query": "billing export in DuckDB", "limit": 3, "all": True}
    assert sorted(pages_of(client, "/search", asked, "The billing export in DuckDB again.")) == sorted(ids)


@pytest.mark.parametrize("query", ["billing export in DuckDB", ""])
def test_pages_of_a_search_hold_memories_that_are_dated_ahead(client: TenantClient, query: str) -> None:
    ahead = datetime.now(UTC) + timedelta(hours=1)
    ids = [store(client.tenant, NewMemory(note, Source.CLI, created_at=ahead)).id for note in DUCKDB_NOTES[:5]]
    asked: dict[str, object] = {"query": query, "limit": 2, "all": True}
    assert set(ids) <= set(pages_of(client, "/search", asked, "The billing export in DuckDB again."))


def test_a_forgotten_memory_leaves_recall_and_comes_back(client: TenantClient) -> None:
    number = client.store("Dora prefers tabs.")
    assert client.post(f"/memories/{number}/forget").json()["state"] == "forgotten"
    assert client.post("/search", {"query": "Dora prefers tabs"}).json()["count"] == 0
    assert client.post("/recent").json()["count"] == 0
    assert client.http.get(f"/memories/{number}").json()["state"] == "forgotten"
    assert client.http.get("/health").json()["memory_count"] == 0
    assert client.post(f"/memories/{number}/restore").json()["state"] == "active"
    assert client.post("/search", {"query": "Dora prefers tabs"}).json()["memories"][0]["id"] == number


def test_relations_are_stated_shown_and_replaced(client: TenantClient) -> None:
    cause, effect = client.store("The lock was held too long."), client.store("Readers timed out.")
    relation = {"source_id": cause, "target_id": effect, "type": "LEADS_TO", "confidence": 0.5, "note": "seen in the log"}
    stated = client.post("/relations", relation).json()
    again = client.post("/relations", relation | {"confidence": 0.75}).json()
    assert stated["id"] == again["id"]
    for number in (cause, effect):
        shown = client.http.get(f"/memories/{number}/relations").json()
        assert shown == {"relations": [{"id": stated["id"], **relation, "confidence": 0.75, "stated_by": "http"}], "count": 1}
    assert client.post("/relations", relation | {"target_id": 17}).status_code == 404
    assert client.post("/relations", relation | {"target_id": cause}).status_code == 400
    assert client.post("/relations", relation | {"type": "RESEMBLES"}).status_code == 400


def test_the_health_of_a_tenant_counts_its_memories_alone(client: TenantClient) -> None:
    empty = client.http.get("/health").json()
    assert (empty["memory_count"], empty["oldest_memory"], empty["newest_memory"]) == (0, None, None)
    client.store("One.")
    client.store("Two.")
    health = client.http.get("/health").json()
    assert health["status"] == "healthy"
    assert health["tenant"] == client.name
    assert (health["memory_count"], health["embedding_count"]) == (2, 2)
    assert health["oldest_memory"] < health["newest_memory"]
    assert health["embedding_healthy"] is True


def test_every_answer_has_an_id_of_its_own_and_errors_repeat_it(client: TenantClient) -> None:
    answers = [client.post("/init"), client.post("/store", {}), client.http.get("/nothing"), client.http.get("/store")]
    ids = [answer.headers["X-Request-ID"] for answer in answers]
    assert [answer.status_code for answer in answers] == [200, 400, 404, 405]
    assert len({UUID(each) for each in ids}) == 4
    for answer, number in zip(answers[1:], ids[1:], strict=True):
        assert answer.json().keys() == {"error", "request_id"}
        assert answer.json()["request_id"] == number


def test_the_same_idempotency_key_stores_once_and_refuses_another_body(client: TenantClient) -> None:
    body = {"content": "Pay the invoice of March."}
    first = client.post("/store", body, Idempotency_Key="march").json()["id"]
    client.post(f"/memories/{first}/forget")
    assert client.post("/store", body, Idempotency_Key="march").json()["id"] == first
    assert client.http.get(f"/memories/{first}").json()["state"] == "forgotten"
    refused = client.post("/store", {"content": "Pay the invoice of April."}, Idempotency_Key="march")
    assert refused.status_code == 409
    other = client.post("/store", body, Idempotency_Key="april").json()["id"]
    assert other != first
    assert len(client.tenant.memories) == 2


def test_one_idempotency_key_gives_two_stores_different_ids_so_that_they_can_be_merged(client: TenantClient) -> None:
    other = client.service.new_tenant("merged")
    other.post("/store", {"content": "Crane 3 is red."}, Idempotency_Key="1")
    client.post("/store", {"content": "Dock 9 is flooded."}, Idempotency_Key="1")
    taken = client.http.post(
        "/import", content=other.http.get("/export").content, headers={"Content-Type": "application/x-ndjson"}
    )
    assert (taken.status_code, taken.json()["added"]) == (200, 1)
    assert len(client.tenant.memories) == 2


def test_a_request_that_saw_a_version_is_answered_from_it(client: TenantClient) -> None:
    number = client.store("Atlas runs on DuckDB.")
    for version in ("1", "9" * 30, "no version"):
        answer = client.post("/search", {}, X_Memory_Version=version)
        assert (answer.status_code, [memory["id"] for memory in answer.json()["memories"]]) == (200, [number])


def test_operations_keep_the_ids_by_which_generated_clients_call_them(client: TenantClient) -> None:
    paths = client.http.get(f"{client.service.url}/openapi.json").json()["paths"]
    ids = sorted(each["operationId"].partition("_api_v1_")[0] for methods in paths.values() for each in methods.values())
    assert " ".join(dict.fromkeys(ids)) == (
        "conflicts context edit erase export forget health import_ init learn_apply learn_check learn_review learn_reword learn_undo "
        "merge_names name name_decisions names recent relate relations restore search session show split_name store supersede tag "
        "tell_at_start timeline undo undo_name_decision"
    )
