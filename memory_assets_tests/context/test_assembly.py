"""Context over real stores: resolve, walk, score and render."""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from fastapi.testclient import TestClient

from memory_assets.api.app import create_app
from memory_assets.cli.main import cli
from memory_assets.context.assembly import Request, assemble
from memory_assets.context.store import StoreReader
from memory_assets.errors import InvalidInputError, SettingsError
from memory_assets.graph.edges import refresh_graph
from memory_assets.mcp.tools import Session, tana_context
from memory_assets.models import Kind, NewMemory, Source, State
from memory_assets.operations.context import context
from memory_assets.operations.show import look_up
from memory_assets.operations.store import store
from memory_assets.settings import Settings, load_settings
from memory_assets.stores.keys import KeyStore
from memory_assets.tenants import Tenant
from memory_assets_tests.recall.conftest import Remember


def told(tenant: Tenant, *topics: str, **asked) -> dict:
    return json.loads(context(tenant, topics, form="json", **asked).document)


def scores(found: dict) -> dict[str, float]:
    return {node["id"]: node["score"] for node in found["nodes"]}


def test_the_walk_goes_as_deep_as_it_is_told_and_ends_in_circles(tenant: Tenant, remember: Remember, connect: Callable):
    woods = ["oak", "elm", "fir", "ash", "yew", "box"]
    remember.all([f"Step {n} of the tannery's {wood} ledger." for n, wood in enumerate(woods, start=1)])
    connect(
        *[(n, n + 1, "LEADS_TO", 0.9, f"reason {n}") for n in range(1, 6)],
        (6, 1, "LEADS_TO", 0.9, ""),
        (1, 1, "RELATES_TO", 1, ""),
    )
    reached = {depth: {node["id"]: node["distance"] for node in told(tenant, "1", depth=depth)["nodes"]} for depth in (1, 2, 5)}
    assert reached[1] == {"1": 0, "2": 1, "6": 1}
    assert reached[2] == {"1": 0, "2": 1, "6": 1, "3": 2, "5": 2}
    assert set(reached[5]) == {"1", "2", "3", "4", "5", "6"}
    found = {node["id"]: node for node in told(tenant, "1")["nodes"]}
    assert found["3"]["path"] == [
        {"nodeId": "1", "type": "LEADS_TO", "direction": "out", "reason": "reason 1"},
        {"nodeId": "2", "type": "LEADS_TO", "direction": "out", "reason": "reason 2"},
    ]
    assert found["5"]["path"][-1]["direction"] == "in"
    assert "LEADS_TO this" in context(tenant, ["1"]).document


def test_a_memory_without_a_vector_is_told_like_the_others(tenant: Tenant, remember: Remember, connect: Callable):
    remember("The tannery dyes its leather in oak tubs.", title="tannery")
    remember("Sealing wax arrives on Mondays.")
    remember("Twine is bought by the mile.")
    connect((1, 2, "LEADS_TO", 0.9, ""), (1, 3, "LEADS_TO", 0.9, ""))
    column = tenant.memories.columns.live or ""
    tenant.memories.table.update(where="id = 2", values={column: None})
    found = scores(told(tenant, "tannery"))
    assert {"1", "2", "3"} <= found.keys()


def test_only_what_holds_now_is_told_and_its_history_on_demand(tenant: Tenant, remember: Remember, connect: Callable):
    old = remember("The cutover is on Tuesday.", state=State.SUPERSEDED, superseded_by=2)
    remember("The cutover is on Friday.")
    remember("The cutover was cancelled.", state=State.FORGOTTEN)
    connect((1, 2, "EVOLVED_INTO", 1.0, ""), origin="supersession")
    document = context(tenant, ["when is the cutover"]).document
    assert "Friday" in document
    assert "Tuesday" not in document
    assert "cancelled" not in document
    assert "Tuesday" in context(tenant, ["when is the cutover"], history=True).document
    by_old_id = told(tenant, str(old.id))
    assert [node["id"] for node in by_old_id["nodes"]] == ["2"]
    assert "was superseded" in by_old_id["meta"]["warnings"][0]


def test_what_contradicts_stands_beside_what_it_contradicts(tenant: Tenant, remember: Remember, connect: Callable):
    remember("Settlement totals come from the cache.", title="cache-on")
    remember("The settlement cache was switched off.", title="cache-off")
    connect((1, 2, "INVALIDATED_BY", 0.8, "no longer"), (1, 2, "CONTRADICTS", 0.9, "a decided contradiction"))
    document = context(tenant, ["settlement cache"]).document
    assert "no longer holds, see cache-off\n" in document
    assert "contradicted by" not in document
    assert "(id 2)" not in document


def test_of_a_node_with_very_many_neighbours_the_most_relevant_are_told(tenant: Tenant, remember: Remember, mention: Callable):
    hub = remember.all([f"Ledger line {n}." if n != 377 else "The harbour audit is due in May." for n in range(520)])
    mention(9_000, "Harbourmaster", *(memory.id for memory in hub))
    found = told(tenant, "Harbourmaster", max_tokens=1_500)
    assert found["nodes"][0]["name"] == "Harbourmaster"
    assert any("520 neighbours of 'Harbourmaster'" in warning for warning in found["meta"]["warnings"])
    audit = told(tenant, "Harbourmaster", "harbour audit", max_tokens=1_500)
    assert "The harbour audit is due in May." in [node["content"] for node in audit["nodes"]][:3]


def test_why_a_memory_is_linked_is_told_once_and_a_guessed_time_is_no_date(tenant: Tenant, remember: Remember, mention: Callable):
    remember("The ledger of the tannery is kept by Wanda.", title="tannery ledger")
    remember("Wanda sings on Fridays.", metadata={"guessed": ["created_at"], "session_id": "94e0"})
    mention(9_000, "Wanda", 1, 2)
    document = context(tenant, ["1"]).document
    assert "tannery ledger and this mention Wanda\n> Wanda sings" in document
    found = {node["id"]: node for node in told(tenant, "1")["nodes"]}
    assert found["2"]["created"] is None
    assert found["1"]["created"]


def test_a_person_in_a_question_is_named_and_one_that_is_the_topic_told(tenant: Tenant, remember: Remember, mention: Callable):
    remember("The ledger of the tannery is kept by Wanda.")
    mention(9_000, "Wanda", 1)
    asked, topic = context(tenant, ["which ledger does Wanda keep"]), context(tenant, ["Wanda"])
    assert [node.told for node in asked.found if node.name == "Wanda"] == ["name"]
    assert [node.told for node in topic.found if node.name == "Wanda"] == ["text"]


def test_a_memory_that_holds_a_known_name_is_linked_although_nothing_has_linked_it(
    tenant: Tenant, remember: Remember, mention: Callable
):
    remember("Sunniva helps with the greenhouse.")
    remember("Sunniva must not eat walnuts.")
    remember("Casper sent a card.")
    mention(9_000, "Sunniva", 3)
    found = {node["id"]: node for node in told(tenant, "1")["nodes"]}
    assert [link["type"] for link in found["2"]["path"]] == ["MENTIONS", "MENTIONS"]
    assert "id 1 and this mention Sunniva" in context(tenant, ["1"]).document


def test_topics_blend_and_what_joins_them_leads(tenant: Tenant, remember: Remember, mention: Callable):
    remember("Wanda repairs the organ.")
    remember("The quay is closed in March.")
    remember("Wanda inspects the quay on Monday.")
    mention(9_000, "Wanda", 1, 3)
    mention(9_001, "quay", 2, 3)
    found = told(tenant, "Wanda", "quay")
    memories = [node["id"] for node in found["nodes"] if node["category"] == "memory"]
    assert memories[0] == "3"
    assert set(memories) == {"1", "2", "3"}


def test_lenses_change_what_leads_and_a_user_adds_one(
    tenant: Tenant, remember: Remember, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    remember("The ferry schedule has a deadline in June and a launch in July.", kind=Kind.PROJECT)
    remember("The ferry texts keep a dry tone and short headlines.", kind=Kind.FEEDBACK)
    documents = {lens: context(tenant, ["ferry"], lens=lens).document for lens in ("general", "planning", "writing")}
    assert "## Goals, dates and dependencies\n\nid 1 ·" in documents["planning"]
    assert "## Texts and style\n\nid 2 ·" in documents["writing"]
    assert len(set(documents.values())) == 3
    monkeypatch.setenv("MEMORY_CONFIG", str(tmp_path / "memory.toml"))
    (tmp_path / "memory.toml").touch()
    own = tmp_path / "lenses.toml"
    own.write_text('[tone]\nfocus = "How it sounds"\nwords = ["tone"]\ntypes = ["feedback"]\n')
    assert "## How it sounds\n\nid 2 ·" in context(tenant, ["ferry"], lens="tone").document
    own.write_text('[tone]\nfollows = ["LOVES"]\n')
    with pytest.raises(SettingsError, match=r"lens 'tone' in .*follows.*LOVES is no relation"):
        context(tenant, ["ferry"], lens="tone")
    own.unlink()
    with pytest.raises(InvalidInputError, match="There is no lens 'tone'; use one of general"):
        context(tenant, ["ferry"], lens="tone")


def test_fields_are_told_unless_they_are_not_wanted(tenant: Tenant, remember: Remember):
    remember("The kiln fires on Mondays.", author="Ada", project="/home/ada/pottery", metadata={"path": "/x", "glaze": "celadon"})
    assert "· Ada\nproject: pottery; glaze: celadon\n" in context(tenant, ["kiln"]).document
    assert "celadon" not in context(tenant, ["kiln"], include_fields=False).document


def test_without_embeddings_distance_and_recency_decide_and_it_is_said(tenant: Tenant, remember: Remember):
    class Away:
        name, dimension = "hashed-words", 64

        def embed(self, texts: Sequence[str], role: str = "document"):
            from memory_assets.language.embedders.protocol import EmbedderAwayError

            raise EmbedderAwayError("The embedder is away.")

    made = datetime.now(UTC) - timedelta(days=30)
    remember("The kiln fires on Mondays.", created_at=made)
    tenant.__dict__["embedder"] = Away()
    found = told(tenant, "kiln")
    assert not found["meta"]["embeddingsAvailable"]
    assert any("away" in warning for warning in found["meta"]["warnings"])
    assert found["nodes"][0]["score"] == pytest.approx(0.6 + 0.4 * 0.3679, abs=0.002)


def test_every_face_answers_the_same_bytes(settings: Settings):
    tenant = Tenant(settings)
    store(tenant, NewMemory("Ada moved the billing export to Friday, because of the audit.\n# not a heading", Source.CLI))
    store(tenant, NewMemory("The audit of the billing export ends in June.", Source.CLI))
    key = {"X-API-Key": KeyStore(tenant.state).create("test")[1]}
    with TestClient(create_app(settings), base_url="http://127.0.0.1") as http:
        for form in ("markdown", "json"):
            run = CliRunner().invoke(cli, ["context", "the billing export", "--max-tokens", "700", "--format", form])
            assert not run.exit_code, run.output
            body = {"topics": ["the billing export"], "max_tokens": 700, "format": form}
            answer = http.post("/api/v1/main/context", json=body, headers=key)
            assert answer.status_code == 200, answer.text
            assert answer.text == run.stdout
            asked = tana_context.arguments.model_validate({"query": "the billing export", "maxTokens": 700, "format": form})
            assert tana_context.function(Session(tenant, None), **dict(asked)) == run.stdout
        assert http.post("/api/v1/main/context", json={"topics": ["x"], "lens": "rose"}, headers=key).status_code == 400


def test_nothing_found_is_an_empty_context_and_no_error(settings: Settings):
    for stored in (False, True):
        if stored:
            store(Tenant(settings), NewMemory("Ada moved the billing export to Friday.", Source.CLI))
        run = CliRunner().invoke(cli, ["context", "zxqv flurbish"])
        assert (run.exit_code, "no matching nodes found" in run.stdout) == (0, True), run.output
        run = CliRunner().invoke(cli, ["context", "zxqv flurbish", "--json"])
        assert json.loads(run.stdout)["nodes"] == []
    assert CliRunner().invoke(cli, ["context", "export", "--max-tokens", "0"]).exit_code == 2
    small = CliRunner().invoke(cli, ["context", "export", "--max-tokens", "40"])
    assert "A budget of 40 tokens is below 500" in small.stderr
    assert load_settings().data_dir == settings.data_dir


def test_what_search_finds_first_leads_however_old_it_is(tenant: Tenant, remember: Remember):
    made = datetime.now(UTC)
    remember("A cover letter names one project and its result.", created_at=made - timedelta(days=400))
    for n in range(12):
        remember(f"Newsletter scraper run {n}: the letter index was read.", created_at=made - timedelta(hours=n))
    found = told(tenant, "cover letter", max_tokens=600)["nodes"]
    assert found[0]["content"].startswith("A cover letter")
    assert [node["id"] for node in found] == sorted(
        (node["id"] for node in found), key=lambda node: -scores({"nodes": found})[node]
    )


def test_a_direct_neighbour_scores_by_the_seeds_formula(tenant: Tenant, remember: Remember, connect: Callable):
    old = datetime.now(UTC) - timedelta(days=4_000)
    remember("The tannery dyes leather.", created_at=old)
    remember("Sealing wax arrives on Mondays.", created_at=old)
    remember("Twine is bought by the mile.", created_at=old)
    connect((1, 2, "LEADS_TO", 0.9, ""), (2, 3, "LEADS_TO", 0.9, ""))
    found = {node["id"]: node for node in told(tenant, "1")["nodes"]}
    for node, distance in (("2", 1), ("3", 2)):
        assert found[node]["score"] == pytest.approx(0.4 / distance + 0.35 * found[node]["similarity"], abs=0.002)


def test_two_texts_have_nothing_in_common_by_a_name_that_everybody_says(tenant: Tenant, remember: Remember, mention: Callable):
    remember("The organ is tuned on Windows.")
    others = remember.all([f"Invoice {n} was paid from the harbour branch." for n in range(30)])
    mention(9_000, "Windows", 1, *(memory.id for memory in others))
    assert [node["id"] for node in told(tenant, "1")["nodes"] if node["category"] == "memory"] == ["1"]


def test_a_name_that_much_of_a_small_home_says_joins_no_texts(settings: Settings):
    tenant = Tenant(settings)
    texts = (
        *("Heron Gateway answers within 200 ms on Windows.", "Heron Gateway is deployed on Fridays by Ada Lovelace."),
        *("Printer drivers on Windows need a reboot.", "The games PC has Windows too.", "Windows updates come on Tuesdays."),
        "Ada Lovelace sails in the summer.",
    )
    for text in texts:
        store(tenant, NewMemory(text, Source.CLI))
    refresh_graph(tenant.catalog, tenant.memories, tenant.relations)
    document = context(tenant, ["Heron Gateway"]).document
    assert "Windows)" not in document
    assert [text for text in texts if text in document and "Heron" not in text] == [texts[-1]]


def test_the_answer_says_what_is_told_where_and_what_is_left_out(tenant: Tenant, remember: Remember, connect: Callable):
    remember.all([f"Ferry {n} leaves the {n * 7}th quay at {n} o'clock for island {n * 3}." for n in range(60)])
    connect((1, 2, "LEADS_TO", 0.9, ""))
    found = context(tenant, ["ferry"], max_tokens=500, explain=True)
    assert {node.section for node in found.found} == {"What is known"}
    assert len(found.found) == 60
    assert {node.told for node in found.found} >= {"text", "not"}
    for node in found.found:
        assert (f"Ferry {int(node.id) - 1} leaves" in found.document) == (node.told == "text")
        assert bool(node.reason) == (node.told != "text")
    assert {node.id: (node.section, node.why) for node in context(tenant, ["1"]).found}["2"] == (
        "What is linked",
        ("id 1 LEADS_TO this",),
    )


def test_a_task_names_a_memory_by_all_words_of_its_title(settings: Settings):
    tenant = Tenant(settings)
    for title in ("Catalogue day", "Catalogue print"):
        store(tenant, NewMemory(f"{title}: nobody deploys.", Source.CLI, title=title))
    refresh_graph(tenant.catalog, tenant.memories, tenant.relations)
    found = assemble(StoreReader(tenant), Request(("plan the catalogue day",))).nodes
    assert {each.node.name for each in found if each.is_topic} == {"Catalogue day"}


def test_ids_are_short_and_known_to_show(settings: Settings):
    tenant = Tenant(settings)
    stored = store(tenant, NewMemory("Ada Lovelace moved the billing export to Friday.", Source.CLI))
    refresh_graph(tenant.catalog, tenant.memories, tenant.relations)
    document = context(tenant, ["the billing export"]).document
    assert f"id {str(stored.id)[:6]} ·" in document
    assert str(stored.id) not in document
    for form in ("{:.6}", "id {:.6}", "(id {})", "#{}", "memory://{}"):
        assert look_up(tenant, form.format(str(stored.id))).id == stored.id
        assert stored.content in context(tenant, [form.format(str(stored.id))]).document
    things = told(tenant, "Ada Lovelace")["nodes"]
    thing = next(node for node in things if node["category"] == "entity")
    run = CliRunner().invoke(cli, ["show", thing["id"]])
    text = run.stdout
    assert text, (run.output, run.exception)
    assert text.startswith("Ada Lovelace · ")
    assert "moved the billing export to Friday" in text
    assert CliRunner().invoke(cli, ["show", "4444"]).exit_code == 1
