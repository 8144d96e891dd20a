"""Invalid input to the service: it is refused with a clear message, and nothing of it is stored."""

import http.client
import json
from contextlib import closing
from urllib.parse import quote, urlsplit

import httpx
import pytest

from memory_assets.stores.keys import KeyStore
from memory_assets_tests.api.service import Service, TenantClient

JSON = {"Content-Type": "application/json"}
INJECTIONS = [
    "' OR 1=1 --",
    "'; DROP TABLE memories; --",
    "x') OR (state = 'forgotten",
    "\\' OR true OR '",
    "%' OR '%'='",
    '" OR ""="',
    "$(rm -rf /)",
    "{{7*7}}",
]


def test_a_store_of_bad_fields_is_refused_by_name_and_keeps_nothing(client: TenantClient) -> None:
    for body, named in [
        ({}, "content"),
        ({"content": ""}, "content"),
        ({"content": " \t\n\u200b"}, "content"),
        ({"content": "x" * 7_501}, "content"),
        ({"content": 7}, "content"),
        ({"content": None}, "content"),
        ({"content": ["a"]}, "content"),
        ({"content": "a\x00b"}, "content"),
        ({"content": "a\ufffeb"}, "content"),
        ({"content": "a", "tags": "b"}, "tags"),
        ({"content": "a", "tags": [""]}, "tags"),
        ({"content": "a", "tags": [7]}, "tags"),
        ({"content": "a", "tags": ["x" * 201]}, "tags"),
        ({"content": "a", "kind": "poem"}, "kind"),
        ({"content": "a", "importance": 1.1}, "importance"),
        ({"content": "a", "importance": "0.5"}, "importance"),
        ({"content": "a", "importance": True}, "importance"),
        ({"content": "a", "surprise": 1}, "surprise"),
        ({"content": "a", "tags": ["a\x1bb"]}, "tags"),
        ({"content": "a", "tags": ["a\nb"]}, "tags"),
        ({"content": "a", "author": "Mallory\x9b31m"}, "author"),
        ({"content": "a", "author": "Mallory\r"}, "author"),
        ({"content": "a", "project": "a\tb"}, "project"),
        ({"content": "a", "session": "a\u2028b"}, "session"),
    ]:
        answer = client.post("/store", body)
        assert answer.status_code == 400, (body, named)
        assert named in answer.json()["error"], (body, named)
        assert len(client.tenant.memories) == 0, (body, named)


def test_a_body_that_is_no_memory_is_refused(client: TenantClient) -> None:
    for body in [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"content"',
        b"\xff\xfe",
        b'{"content": "a", "importance": NaN}',
        b'{"content": "a", "importance": Infinity}',
        b'{"content": "\\ud800"}',
        b'{"content": "a", "tags": ["\\udfff"]}',
        b'{"content": "a", "\\ud800": 1}',
        b'{"content": "\xed\xa0\x80"}',
        b"[" * 100_000,
        b'{"content": "a", "importance": ' + b"9" * 5_000 + b"}",
    ]:
        answer = client.http.post("/store", content=body, headers=JSON)
        assert answer.status_code == 400, body
        assert answer.json().keys() == {"error", "request_id"}, body
        assert len(client.tenant.memories) == 0, body


def test_a_query_that_a_route_does_not_know_is_refused_by_name_and_nothing_is_stored(client: TenantClient) -> None:
    line = b'{"content": "Stored by mistake."}'
    for path, body in (
        ("/store?dry_run=true", line),
        ("/recent?dry_run=true", b"{}"),
        ("/import?dry_run=true&skip_invalid=true", line),
        ("/learn/apply?dry_run=true", b"{}"),
        ("/mcp?dry_run=true", b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}'),
    ):
        answer = client.http.post(path, content=body, headers=JSON)
        assert (answer.status_code, answer.json()["error"]) == (400, "dry_run: is not a parameter in the query of this route"), (
            path
        )
    assert len(client.tenant.memories) == 0
    assert client.http.post("/import?skip_invalid=true", content=line, headers=JSON).status_code == 200


def test_a_body_without_its_content_type_is_told_which_to_send(client: TenantClient) -> None:
    answer = client.http.post("/store", content=b'{"content": "a"}')
    assert answer.status_code == 400
    assert "application/json" in answer.json()["error"]


def test_other_routes_refuse_what_they_do_not_understand(client: TenantClient) -> None:
    for path, body in [
        ("/search", {"query": "x" * 501}),
        ("/search", {"query": None}),
        ("/search", {"limit": 0}),
        ("/search", {"limit": 101}),
        ("/search", {"limit": 1.5}),
        ("/search", {"cursor": "abc"}),
        ("/search", {"cursor": "../../etc/passwd"}),
        ("/search", {"since": "yesterday"}),
        ("/search", {"since": 0}),
        ("/search", {"since": "2026-02-30T00:00:00Z"}),
        ("/search", {"since": "2026-02-03"}),
        ("/search", {"kinds": ["note' OR '1'='1"]}),
        ("/search", {"tags": ["\u200b "]}),
        ("/recent", {"hours": None}),
        ("/recent", {"hours": 0}),
        ("/recent", {"hours": 721}),
        ("/recent", {"hours": "24"}),
        ("/recent", {"cursor": "g" * 32}),
        ("/init", {"surprise": 1}),
        ("/memories/0/forget", {}),
        ("/memories/9007199254740992/forget", {}),
        ("/memories/abc/restore", {}),
        ("/memories/1%20OR%201=1/forget", {}),
    ]:
        answer = client.post(path, body)
        assert answer.status_code == 400, (path, body)
        assert answer.json().keys() == {"error", "request_id"}, (path, body)


def test_an_erasure_of_nothing_is_answered_with_the_fields_and_no_options(client: TenantClient) -> None:
    answer = client.post("/erase", {})
    assert answer.status_code == 400
    assert "--" not in answer.text
    assert all(field in answer.text for field in ("ids", "matching", "source", "before"))
    given = client.http.get(f"{client.service.url}/openapi.json").json()["components"]["schemas"]["EraseRequest"]["properties"]
    assert all(field.get("description") for field in given.values())


@pytest.mark.parametrize("wrong", ["abc", 0, 1.5, True, None, 1 << 60, -1, 1e400])
def test_an_erasure_says_plainly_which_id_is_none(client: TenantClient, wrong: object) -> None:
    body = json.dumps({"ids": [1, wrong]})
    answer = client.http.post("/erase", content=body, headers=JSON)
    assert (answer.status_code, answer.json()["error"]) == (400, "ids.1: is not an id; give all its digits as a number")


def test_an_erasure_says_plainly_that_ids_are_a_list(client: TenantClient) -> None:
    assert client.post("/erase", {"ids": "12"}).json()["error"] == "ids: is not a list"
    assert client.post("/search", {"tags": "12"}).json()["error"] == "tags: is not a list"


def test_a_text_is_no_id_even_if_it_begins_one(client: TenantClient) -> None:
    old, new = client.store("Atlas runs on MongoDB."), client.store("Atlas runs on DuckDB.")
    first, long = str(new)[:-1], "9" * 10_000
    related = {"source_id": old, "target_id": new, "type": "LEADS_TO"}
    for text in (first, str(new), long):
        for answer, field in (
            (client.post(f"/memories/{old}/supersede", {"new_id": text}), "new_id"),
            (client.post("/relations", {**related, "source_id": text}), "source_id"),
            (client.post("/relations", {**related, "target_id": text}), "target_id"),
        ):
            assert (answer.status_code, answer.json()["error"]) == (
                400,
                f"{field}: is not an id; give all its digits as a number",
            )
    assert client.http.get("/conflicts", params={"memory_id": f"{first}x"}).status_code == 400
    assert client.http.get("/conflicts", params={"memory_id": long}).status_code == 400
    assert client.http.get("/conflicts", params={"memory_id": str(new)}).status_code == 200
    assert client.http.get(f"/memories/{old}").json()["state"] == "active"
    assert client.post(f"/memories/{old}/supersede", {"new_id": new}).status_code == 200


def test_what_needs_a_body_is_refused_without_one(client: TenantClient) -> None:
    for path in ["/search", "/memories/1/tags"]:
        assert client.http.post(path).status_code == 400, path


def test_a_memory_that_does_not_exist_is_not_found(client: TenantClient) -> None:
    for answer in (client.http.get("/memories/5"), client.post("/memories/5/forget"), client.http.get("/memories/5/relations")):
        assert answer.status_code == 404
        assert "5" in answer.json()["error"]


@pytest.mark.parametrize("announced", [True, False])
def test_a_body_of_ten_megabytes_is_refused_before_it_is_read(service: Service, client: TenantClient, announced: bool) -> None:
    address = urlsplit(service.url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=30)
    connection.putrequest("POST", f"/api/v1/{client.name}/store")
    connection.putheader("X-API-Key", client.key)
    connection.putheader("Content-Type", "application/json")
    if announced:
        connection.putheader("Content-Length", str(10 << 20))
        connection.endheaders()
    else:
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        chunk = b"10000\r\n" + b"x" * 65_536 + b"\r\n"
        for _ in range(6):
            connection.send(chunk)
    answer = connection.getresponse()
    assert answer.status == 413
    assert json.loads(answer.read()).keys() == {"error", "request_id"}
    assert answer.headers["X-Request-ID"]


def test_every_way_of_not_having_the_key_gets_the_same_answer(service: Service, client: TenantClient) -> None:
    other = service.new_tenant(f"{client.name}-other")
    store = KeyStore(client.tenant.state)
    known, revoked = store.create()
    store.revoke(known.id)
    cases: list[tuple[str, dict[str, str]]] = [
        (client.name, {}),
        (client.name, {"X-API-Key": ""}),
        (client.name, {"X-API-Key": "mk_000000000000_" + "A" * 43}),
        (client.name, {"X-API-Key": client.key[:-1] + ("A" if client.key[-1] != "A" else "B")}),
        (client.name, {"X-API-Key": client.key + "A"}),
        (client.name, {"X-API-Key": client.key.upper()}),
        (client.name, {"X-API-Key": other.key}),
        (client.name, {"X-API-Key": revoked}),
        (client.name, {"X-API-Key": "mk_../../../../etc_passwd"}),
        (client.name, {"Authorization": f"Bearer {client.key}"}),
        ("unknown", {"X-API-Key": client.key}),
        (other.name, {"X-API-Key": client.key}),
        (client.name.upper(), {"X-API-Key": client.key}),
        ("Health", {"X-API-Key": client.key}),
    ]
    answers = set()
    for tenant, headers in cases:
        for method, path, content in (("POST", "store", b'{"content": "x"}'), ("GET", "health", b""), ("POST", "store", b"{")):
            url = f"{service.url}/api/v1/{tenant}/{path}"
            answer = httpx.request(method, url, timeout=60, headers=headers | (JSON if content else {}), content=content)
            assert answer.status_code == 401, (tenant, headers)
            body = answer.json()
            assert body["request_id"] == answer.headers["X-Request-ID"]
            answers.add((body["error"], answer.headers["WWW-Authenticate"]))
    assert len(answers) == 1
    assert len(client.tenant.memories) == 0


@pytest.mark.parametrize(
    "tenant",
    [
        "..",
        "../{own}",
        "{own}/..",
        "{own}/../{own}",
        ".",
        "%2e%2e",
        "{own}%00",
        "{own}\n",
        "{own} ",
        "ｍain",
        "mаin",
        "con",
        "api",
        "a" * 64,
    ],
)
def test_a_tenant_name_that_plays_tricks_reaches_nothing(service: Service, client: TenantClient, tenant: str) -> None:
    name = tenant.format(own=client.name)
    address = urlsplit(service.url)
    with closing(http.client.HTTPConnection(str(address.hostname), address.port, timeout=30)) as connection:
        for path in (quote(name, safe=""), quote(name, safe="./")):
            connection.request("GET", f"/api/v1/{path}/memories/1", headers={"X-API-Key": client.key})
            answer = connection.getresponse()
            assert json.loads(answer.read()).keys() == {"error", "request_id"}
            assert answer.status in {401, 404}
    assert not (service.settings.data_dir / "..").joinpath("keys").exists()


@pytest.mark.parametrize("text", INJECTIONS)
def test_no_string_leaves_the_filter_that_it_is_put_into(client: TenantClient, text: str) -> None:
    kept = client.store("A memory that stays as it is.", tags=["plain"])
    hidden = client.store("A memory that is forgotten.", tags=["plain"])
    client.post(f"/memories/{hidden}/forget")
    number = client.store(f"It says {text} here.", tags=[text], project=text, session=text, author=text)
    for body in ({"query": text}, {"query": "memory", "tags": [text]}, {"tags": [text]}, {"query": text, "tags": ["plain"]}):
        answer = client.post("/search", body)
        assert answer.status_code == 200, answer.text
        assert hidden not in {memory["id"] for memory in answer.json()["memories"]}
    assert [memory["id"] for memory in client.post("/search", {"tags": [text]}).json()["memories"]] == [number]
    assert client.post("/recent", {"tags": [text]}).json()["count"] == 1
    first = client.post("/store", {"content": "Once."}, Idempotency_Key=text.replace(" ", "_")).json()["id"]
    assert client.post("/store", {"content": "Once."}, Idempotency_Key=text.replace(" ", "_")).json()["id"] == first
    assert {kept, hidden, number, first} == set(client.tenant.memories.scan(("id",))["id"].to_pylist())
    shown = client.http.get(f"/memories/{number}").json()
    assert (shown["content"], shown["project"], shown["session"], shown["author"]) == (f"It says {text} here.", text, text, text)
