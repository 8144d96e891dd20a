"""A text that the language pipeline or the embedder cannot take is named, and holds up no other."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import Mock

import pyarrow as pa
import pytest

from memory_assets.ingest.memories import write_accepted
from memory_assets.ingest.scans import refusals
from memory_assets.language.embedders import EmbedderError, remote
from memory_assets.language.embedders.protocol import EmbedderAwayError
from memory_assets.language.pipeline import Analyzer, Findings
from memory_assets.language.reading import Part
from memory_assets.models import State
from memory_assets.operations.status import status as tenant_status
from memory_assets.settings import Settings
from memory_assets.tenants import Tenant
from memory_assets_tests.conftest import WriteSilo
from memory_assets_tests.ingest.runs import by_title, changed, ingest
from memory_assets_tests.language.embedding_service import Answer, Asked, in_turn, ollama_answer, serve


def test_a_text_that_cannot_be_analysed_is_named_and_holds_up_no_other(
    tenant: Tenant, write_silo: WriteSilo, monkeypatch: pytest.MonkeyPatch
) -> None:
    culprit = write_silo("culprit", "This one breaks the parser.")
    for number in range(4):
        write_silo(f"note-{number}", f"Something about project {number}.")
    real, analysed = Analyzer._find, []

    def breaking(analyzer: Analyzer, parts: Sequence[Part]) -> list[Findings]:
        analysed.extend(parts)
        if any("breaks" in part.text for part in parts):
            raise RecursionError("too deep")
        return real(analyzer, parts)

    monkeypatch.setattr(Analyzer, "_find", breaking)
    assert ingest(tenant).added == 4
    (refusal,) = refusals(tenant.catalog)
    assert (refusal.path, refusal.passed_over) == (str(culprit), False)
    assert refusal.reason == "the text cannot be analysed: RecursionError: too deep"
    analysed.clear()
    assert changed(tenant) == 0
    assert analysed == []
    write_silo("culprit", "This one does not.")
    assert ingest(tenant).added == 1
    assert refusals(tenant.catalog) == ()
    write_silo("culprit", "This one breaks it again.")
    assert changed(tenant) == 0
    assert by_title(tenant)["culprit"].content.endswith("This one does not.")


@contextmanager
def embedded_by_a_service(settings: Settings, status: int, refused: list[str]) -> Iterator[Tenant]:
    """Open a tenant whose embedding service answers with `status` to every request with one of the words in `refused`."""

    def answer(asked: Asked) -> Answer:
        is_refused = any(word in text for text in asked.payload["input"] for word in refused)
        return Answer({}, status=status) if is_refused else ollama_answer(asked)

    with serve(answer) as server:
        yield Tenant(settings.model_copy(update={"embedder": "ollama:m", "ollama_url": server.url}))


@pytest.mark.parametrize("status", [400, 500])
def test_a_text_that_the_embedder_refuses_is_named_and_tried_again_and_holds_up_no_other(
    settings: Settings, write_silo: WriteSilo, status: int
) -> None:
    culprit = write_silo("culprit", "This one breaks the model.")
    for number in range(4):
        write_silo(f"note-{number}", f"Something about project {number}.")
    with embedded_by_a_service(settings, status, refused := ["breaks"]) as tenant:
        taken = ingest(tenant)
        assert (taken.added, taken.refused, tenant_status(tenant).unfinished) == (4, 1, 0)
        (refusal,) = refusals(tenant.catalog)
        assert (refusal.path, refusal.mend.split(",")[0]) == (str(culprit), "shorten it")
        assert refusal.reason.startswith("the text cannot be embedded: Embedder 'ollama:m': http")
        assert refusal.reason.endswith(f"answered with status {status}")
        assert changed(tenant) == 0
        assert len(refusals(tenant.catalog)) == 1
        refused.clear()
        assert ingest(tenant).added == 1
        assert refusals(tenant.catalog) == ()


def test_an_embedder_that_refuses_every_text_ends_the_run(settings: Settings, write_silo: WriteSilo) -> None:
    write_silo("owner", "Priya owns the billing export.")
    with embedded_by_a_service(settings, 400, [""]) as tenant, pytest.raises(EmbedderError, match="status 400"):
        ingest(tenant)


@pytest.mark.parametrize("failure", [Answer(None), Answer({}, trickling=1)])
def test_a_service_that_gives_no_answer_in_time_ends_the_run_and_refuses_no_text(
    settings: Settings, write_silo: WriteSilo, monkeypatch: pytest.MonkeyPatch, failure: Answer
) -> None:
    monkeypatch.setattr(remote, "_BACKOFF_SECONDS", 0.0)
    write_silo("owner", "Priya owns the billing export.")
    with serve(in_turn(failure, ollama_answer)) as server:
        tenant = Tenant(settings.model_copy(update={"embedder": "ollama:m", "ollama_url": server.url, "embedding_timeout": 0.5}))
        with pytest.raises(EmbedderAwayError):
            ingest(tenant)
        assert refusals(tenant.catalog) == ()
        assert ingest(tenant).added == 1


def test_the_service_is_checked_once_for_each_batch_with_a_refused_text() -> None:
    checked: list[Sequence[str]] = []

    def write(part: pa.RecordBatch) -> None:
        if {3, 5} & set(part["id"].to_pylist()):
            raise EmbedderError("Too long; shorten it.")

    embedder = Mock(embed=checked.append)
    refused = [
        (part["id"].to_pylist(), fault)
        for part, fault in write_accepted(pa.record_batch({"id": list(range(8))}), write, embedder)
    ]
    assert refused == [([3], "Too long"), ([5], "Too long")]
    assert checked == [["health"]]


def test_a_forgotten_memory_is_not_replaced_by_a_text_that_the_embedder_refuses(
    settings: Settings, write_silo: WriteSilo
) -> None:
    index = write_silo("owner", "Priya owns the billing export.").with_name("MEMORY.md")
    with embedded_by_a_service(settings, 400, ["breaks"]) as tenant:
        ingest(tenant)
        tenant.memories.transition([by_title(tenant)["owner"].id], State, State.FORGOTTEN)
        index.write_text("- [Owner](owner.md) — breaks the model\n")
        assert ingest(tenant).refused == 1
        assert by_title(tenant, State.FORGOTTEN)["owner"].superseded_by is None
