"""Isolation of tenants: no key gives access to another tenant's memory, whatever names and fields contain."""

import http.client
import json
from functools import lru_cache
from urllib.parse import quote

import httpx
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_assets.stores.keys import KeyStore
from memory_assets.tenants import delete_tenant
from memory_assets_tests.api.service import Service, TenantClient

NAMES = ["iso-a", "iso-ab", "iso-b", "iso_a", "isoa", "iso-a-b"]
HOSTILE = [
    "..", "../iso-b", "iso-a/../iso-b", "iso-b/", "/iso-b", "iso-b%00", "iso-b%2f..", "ISO-B", "iso-B", "iso‐b", "іso-b", "iso-b\u200b",
    "*", "iso-?", "keys", "vectors", ".deleted", "~", "$HOME", "iso-b;ls", "' OR '1'='1", "",
]  # fmt: skip


@lru_cache(maxsize=1)
def _world(service: Service) -> tuple[dict[str, TenantClient], dict[str, int]]:
    clients = {name: service.new_tenant(name) for name in NAMES}
    secrets = {
        name: client.store(f"The secret word of {name} is {name.upper()}-ONLY.", tags=["secret"])
        for name, client in clients.items()
    }
    return clients, secrets


REQUESTS = st.sampled_from(
    [
        ("POST", "store", {"content": "An intruder was here."}),
        ("POST", "search", {"query": "secret word"}),
        ("POST", "search", {"tags": ["secret"]}),
        ("POST", "search", {}),
        ("POST", "recent", {"hours": 720}),
        ("POST", "init", {}),
        ("GET", "health", None),
        ("GET", "memories/{other}", None),
        ("POST", "memories/{other}/forget", None),
        ("POST", "memories/{other}/restore", None),
        ("GET", "memories/{other}/relations", None),
        ("POST", "relations", {"source_id": "{mine}", "target_id": "{other}", "type": "LEADS_TO"}),
    ]
)


@settings(max_examples=150)
@given(mine=st.sampled_from(NAMES), other=st.sampled_from(NAMES), path=st.sampled_from([*NAMES, *HOSTILE]), request=REQUESTS)
def test_no_key_reads_counts_changes_or_names_what_is_not_its_own(
    service: Service, mine: str, other: str, path: str, request: tuple[str, str, dict[str, object] | None]
) -> None:
    clients, secrets = _world(service)
    method, route, body = request
    ids = {"{mine}": secrets[mine], "{other}": secrets[other]}
    if body is not None:
        body = {field: ids.get(value, value) if isinstance(value, str) else value for field, value in body.items()}
    route = route.replace("{other}", str(secrets[other]))
    target = f"/api/v1/{quote(path, safe='/%')}/{route}"
    if method == "POST" and route == "store" and path == mine:
        return
    if (route.endswith("forget") or route == "relations") and other == mine and path == mine:
        return
    connection = http.client.HTTPConnection(service.url.removeprefix("http://"), timeout=60)  # sends `..` as it is
    headers = {"X-API-Key": clients[mine].key, "Content-Type": "application/json"}
    connection.request(method, target, json.dumps(body) if body is not None else None, headers)
    reply = connection.getresponse()
    answer = httpx.Response(reply.status, content=reply.read())
    connection.close()
    foreign = [name for name in NAMES if name != mine]
    if path != mine:
        assert answer.status_code in {401, 404, 405}
        assert answer.json().keys() == {"error", "request_id"}
    elif "{other}" in request[1] or request[1] == "relations":
        assert answer.status_code == (200 if other == mine else 404)
    for name in foreign:
        assert f"{name.upper()}-ONLY" not in answer.text
        if name != other:
            assert str(secrets[name]) not in answer.text
    if path == mine and answer.status_code == 200 and route == "health":
        assert (answer.json()["tenant"], answer.json()["memory_count"]) == (mine, 1)
    if path == mine and answer.status_code == 200 and "count" in answer.json() and route in {"search", "recent"}:
        assert [memory["id"] for memory in answer.json()["memories"]] == [secrets[mine]]


def test_after_all_of_that_every_tenant_holds_exactly_its_own(service: Service) -> None:
    clients, secrets = _world(service)
    for name, client in clients.items():
        memories = client.tenant.memories
        assert [(memory.id, memory.state) for memory in memories.get([secrets[name]])] == [(secrets[name], "active")]
        assert len(memories) == 1
        assert len(client.tenant.relations.scan()) == 0


def test_a_deleted_tenant_that_is_created_again_has_nothing_of_the_old_one(service: Service) -> None:
    old = service.new_tenant("phoenix")
    old.store("What the old one knew.")
    delete_tenant(old.tenant)
    assert old.post("/recent").status_code == 401
    new = service.new_tenant("phoenix")
    assert old.post("/recent").status_code == 401
    assert new.post("/recent").json()["count"] == 0
    new.store("What the new one knows.")
    assert [memory["content"] for memory in new.post("/search", {"query": "what"}).json()["memories"]] == [
        "What the new one knows."
    ]


def test_a_revoked_key_is_refused_with_its_next_request_and_a_new_one_opens_at_once(client: TenantClient) -> None:
    store = KeyStore(client.tenant.state)
    known, second = store.create("second")
    again = client.service.client(client.name, second)
    assert again.post("/init").status_code == 200
    store.revoke(known.id)
    assert again.post("/init").status_code == 401
    assert client.post("/init").status_code == 200
