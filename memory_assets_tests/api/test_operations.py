"""Changes of memories over HTTP work as on the command line."""

import json
from typing import Any

from memory_assets_tests.api.service import TenantClient


def state(client: TenantClient, number: int) -> str:
    return client.http.get(f"/memories/{number}").json()["state"]


def test_a_memory_is_edited_tagged_superseded_and_each_is_taken_back(client: TenantClient) -> None:
    def change(number: int, name: str, body: Any = None) -> Any:
        answer = client.post(f"/memories/{number}/{name}", body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    old, new = client.store("Priya owns the billing export."), client.store("The garage has a new door.")
    edited = change(old, "edit", {"content": "Oona owns the billing export."})
    assert (edited["replaces"], edited["source"]) == (old, "http")
    refused = client.post(f"/memories/{old}/edit", {"content": "x"})
    assert (refused.status_code, str(edited["id"]) in refused.json()["error"]) == (409, True)
    assert change(edited["id"], "undo")["count"] == 2
    assert (state(client, old), state(client, edited["id"])) == ("active", "forgotten")
    assert "money" in change(old, "tags", {"add": ["Money"]})["tags"]
    assert change(old, "supersede", {"new_id": new})["superseded_by"] == new
    assert change(old, "undo")["count"] == 2
    assert change(old, "undo")["count"] == 0
    assert state(client, old) == "active"
    missing = [client.post("/memories/17/undo"), client.http.get("/memories/17"), client.http.get("/conflicts?memory_id=17")]
    for answer in missing:
        expected = {"error": "There is no memory 17; look at the newest (recent).", "request_id": answer.headers["x-request-id"]}
        assert (answer.status_code, answer.json()) == (404, expected)
    assert client.post(f"/memories/{old}/edit", {"content": " "}).status_code == 400


def test_an_undo_only_shows_what_it_would_change_if_that_is_asked(client: TenantClient) -> None:
    number = client.store("Priya owns the billing export.")
    shown = client.post(f"/memories/{number}/undo", {"dry_run": True}).json()
    assert (shown["dry_run"], shown["count"], state(client, number)) == (True, 1, "active")
    assert client.http.post(f"/memories/{number}/undo?dry_run=true").status_code == 400
    assert client.post(f"/memories/{number}/forget", {"dry_run": True}).status_code == 400
    assert state(client, number) == "active"
    assert client.http.post(f"/memories/{number}/undo").json()["count"] == 1
    assert state(client, number) == "forgotten"


def test_an_export_is_taken_in_by_another_tenant_and_bad_lines_are_named(client: TenantClient) -> None:
    number = client.store("Priya owns the billing export.", tags=["money"])
    exported = client.http.get("/export")
    assert json.loads(exported.text)["id"] == number
    other = client.service.new_tenant(f"{client.name}-copy")
    assert other.http.get("/export").text == ""
    assert other.http.post("/import", content=exported.content).json()["added"] == 1
    assert other.http.post("/import", content=exported.content).json()["unchanged"] == 1
    assert "money" in other.http.get(f"/memories/{number}").json()["tags"]
    refused = other.http.post("/import", content=b'{"content": "Alice sails."}\n{"content": 3}\n')
    assert (refused.status_code, "line 2, content" in refused.json()["error"]) == (400, True)
    assert other.http.post("/import?skip_invalid=true", content=b'{"content": "Alice sails."}\n{').json()["refused"] == 1
    stranger = {"X-API-Key": other.key}
    assert client.http.get("/export", headers=stranger).status_code == 401


def test_a_secret_in_an_edit_or_an_import_is_masked(client: TenantClient) -> None:
    key = "AKIA" + "Q3EGWTZ5YXMPLK7R"
    number = client.store("The deploy key is kept elsewhere.")
    newer = client.post(f"/memories/{number}/edit", {"content": f"The deploy key is {key}."}).json()
    client.http.post("/import", content=json.dumps({"content": f"The other key is {key}."}).encode())
    assert key not in newer["content"]
    assert newer["masked"] == ["aws access key"]
    assert key not in client.http.get("/export").text
