"""Names, the timeline and the session brief over HTTP match the pages."""

from typing import Any

from memory_assets.graph.edges import refresh_graph
from memory_assets_tests.api.service import TenantClient


def test_names_are_listed_merged_split_and_that_is_undone(client: TenantClient) -> None:
    def do(path: str, body: Any = None) -> Any:
        answer = client.http.get(path) if body is None else client.post(path, body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    for text in ("Robert Miller told Carla Weber about the pump.", "Bob Miller said that Lyon is far."):
        client.store(text)
    tenant = client.tenant
    refresh_graph(tenant.catalog, tenant.memories, tenant.relations)
    ids = {each["name"]: each["id"] for each in do("/names?type=PERSON")["names"]}
    assert set(ids) == {"Robert Miller", "Carla Weber", "Bob Miller"}
    merged = do(f"/names/{ids['Bob Miller']}/merge", {"into": ids["Robert Miller"]})
    assert do(f"/names/{merged['name']}")["name"] == {**do("/names?like=bob")["names"][0]}
    split = do(f"/names/{merged['name']}/split", {"spelling": "Bob Miller"})
    assert len(do("/names/decisions")["decisions"]) == 2
    assert do(f"/names/decisions/{split['decision']['id']}/undo", {})["undone"]
    assert client.http.get("/names/1").status_code == 404
    assert client.http.get("/names?cursor=x").status_code == 400


def test_the_timeline_counts_and_says_what_held(client: TenantClient) -> None:
    number = client.store("The export runs at two.", tags=["night"])
    learned = client.post("/timeline", {}).json()
    assert [sum(each["sources"].values()) for each in learned["columns"]] == [1]
    today = learned["columns"][0]["begins"]
    held = client.post("/timeline", {"on": today, "tags": ["night"]}).json()
    assert [each["id"] for each in held["memories"]] == [number]
    assert client.post("/timeline", {"on": today, "tags": ["day"]}).json()["memories"] == []
    assert client.post("/timeline", {"on": "soon"}).status_code == 400
    begins = [
        client.post("/timeline", {"timezone": f"Etc/GMT{hours}"}).json()["columns"][0]["begins"] for hours in ("-14", "+12")
    ]
    assert begins[0] > begins[1]
    assert client.post("/timeline", {"timezone": "Nowhere"}).status_code == 400


def test_a_memory_is_kept_out_of_the_start_of_sessions(client: TenantClient) -> None:
    number = client.store("Prefers short answers.", kind="user")
    assert client.post(f"/memories/{number}/tell", {"told": False}).json()["told"] is False
    assert [each["id"] for each in client.http.get("/session").json()["switched_off"]] == [number]
    assert client.post("/memories/17/tell", {"told": True}).status_code == 404
