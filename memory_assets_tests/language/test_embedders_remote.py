import gzip
import logging
import socket
import threading
import time
import traceback
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import numpy as np
import pytest

from memory_assets.http import HttpAnswer, Service, UnreachableError
from memory_assets.language.embedders import EmbedderError, describe_choice, open_embedder
from memory_assets.language.embedders.protocol import EmbedderAwayError
from memory_assets_tests.language.embedding_service import (
    KEY,
    Answer,
    Asked,
    Waits,
    in_turn,
    ollama_answer,
    openai_answer,
    openai_embedder,
    serve,
    vector_of,
)

SHAPE = "did not answer with JSON that holds one vector of finite numbers"


def assert_vectors_of(texts: list[str], rows: np.ndarray) -> None:
    expected = np.array([vector_of(text) for text in texts])
    np.testing.assert_allclose(rows, expected / np.linalg.norm(expected, axis=1, keepdims=True), rtol=1e-6)


@pytest.fixture
def refused_url() -> Iterator[str]:
    """The address of a port that is bound, so that no other process can listen there, but on which nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture
def open_ollama(tmp_path):
    return lambda url, spec="ollama", **more: open_embedder(spec, ollama_url=url, **more)


def test_ollama_is_asked_for_batches_and_keeps_the_order(open_ollama):
    texts = ["x" * length for length in range(1, 71)]
    with serve(ollama_answer) as server:
        embedder = open_ollama(server.url)
        assert_vectors_of([f"search_document: {text}" for text in texts], embedder.embed(texts))
    assert [len(asked.payload["input"]) for asked in server.asked] == [32, 32, 6]
    assert {asked.path for asked in server.asked} == {"/api/embed"}
    assert {asked.payload["model"] for asked in server.asked} == {"nomic-embed-text"}


@pytest.mark.parametrize(
    ("model", "question", "document"),
    [
        ("nomic-embed-text:v1.5", "search_query: why", "search_document: why"),
        ("jeffh/intfloat-multilingual-e5-small:f16", "query: why", "passage: why"),
        ("mxbai-embed-large", "Represent this sentence for searching relevant passages: why", "why"),
        ("snowflake-arctic-embed2:568m", "query: why", "why"),
        ("snowflake-arctic-embed:s", "Represent this sentence for searching relevant passages: why", "why"),
        ("embeddinggemma", "task: search result | query: why", "title: none | text: why"),
        ("bge-m3", "why", "why"),
        ("all-minilm", "why", "why"),
    ],
)
def test_a_model_gets_what_it_was_trained_to_read_before_questions_and_documents(open_ollama, model, question, document):
    with serve(ollama_answer) as server:
        embedder = open_ollama(server.url, f"ollama:{model}")
        embedder.embed(["why"], "query")
        embedder.embed(["why"])
    assert [asked.payload["input"] for asked in server.asked] == [[question], [document]]
    assert embedder.name == describe_choice(f"ollama:{model}").name
    assert (document.removesuffix("why") in embedder.name) and (" with prefix " in embedder.name) == (document != "why")


def test_a_remote_embedder_asks_nothing_before_it_is_used(open_ollama, tmp_path):
    with serve(ollama_answer) as server:
        open_ollama(server.url)
        open_embedder("openai:m", openai_url=server.url)
        assert server.asked == []


def test_the_dimension_costs_one_request_or_none_after_the_first_vectors(open_ollama):
    with serve(ollama_answer) as server:
        embedder = open_ollama(server.url)
        assert embedder.embed([]).shape == (0, 3)
        assert embedder.dimension == 3
        assert len(server.asked) == 1


def test_the_model_in_the_setting_is_asked_for_and_named(open_ollama):
    with serve(ollama_answer) as server:
        embedder = open_ollama(server.url, "ollama:mxbai-embed-large:335m")
        embedder.embed(["a"])
    assert embedder.name == "ollama:mxbai-embed-large:335m"
    assert server.asked[0].payload["model"] == "mxbai-embed-large:335m"


def test_a_model_that_is_not_pulled_is_named_with_the_command_that_pulls_it(open_ollama):
    missing = Answer({"error": 'model "nomic-embed-text" not found, try pulling it first'}, status=404)
    with (
        serve(in_turn(missing)) as server,
        pytest.raises(EmbedderError, match="`ollama pull nomic-embed-text`, or update Ollama"),
    ):
        open_ollama(server.url).embed(["a"])
    assert len(server.asked) == 1


def test_ollama_that_is_away_is_reported_with_what_starts_it(open_ollama, refused_url):
    with pytest.raises(EmbedderError, match=rf"does not answer at {refused_url}; run `ollama serve`"):
        open_ollama(refused_url).embed(["a"])


def test_ollama_that_breaks_the_connection_is_reported_as_away(open_ollama):
    with serve(in_turn(Answer(None))) as server, pytest.raises(EmbedderError, match="does not answer"):
        open_ollama(server.url).embed(["a"])


def test_an_answer_that_takes_too_long_names_the_setting(open_ollama):
    def slow(asked: Asked) -> Answer:
        time.sleep(0.6)
        return ollama_answer(asked)

    with serve(slow) as server, pytest.raises(EmbedderError, match=r"within 0.2 s; .* EMBEDDING_TIMEOUT"):
        open_ollama(server.url, timeout=0.2).embed(["a"])


@pytest.mark.parametrize("opened", ["ollama", "openai"])
def test_an_answer_that_trickles_is_bounded_as_a_whole(open_ollama, opened):
    def trickle(asked: Asked) -> Answer:
        return replace(ollama_answer(asked) if opened == "ollama" else openai_answer(asked), trickling=0.1)

    with serve(trickle) as server:
        embedder = open_ollama(server.url, timeout=0.4) if opened == "ollama" else openai_embedder(server.url, timeout=0.4)
        with pytest.raises(EmbedderError, match=r"within 0.4 s; .* EMBEDDING_TIMEOUT"):
            embedder.embed(["a"])


def test_a_compressed_answer_is_not_asked_for_unpacked_or_tried_again():
    compressed = Answer(gzip.compress(b'{"embeddings": [[1.0]]}'), headers={"Content-Encoding": "gzip"})
    with serve(in_turn(compressed)) as server, pytest.raises(EmbedderAwayError, match="sends a compressed answer"):
        openai_embedder(server.url).embed(["a"])
    assert [asked.headers["Accept-Encoding"] for asked in server.asked] == ["identity"]


def test_a_service_that_hangs_lets_one_request_wait_and_not_all_in_a_row(open_ollama):
    released = threading.Event()

    def hang(asked: Asked) -> Answer:
        released.wait(30)
        return ollama_answer(asked)

    with serve(hang) as server:
        embedder = open_ollama(server.url, timeout=0.2)
        for _ in range(16):
            with pytest.raises(EmbedderError, match=r"within 0.2 s"):
                embedder.embed(["a"])
        released.set()
        assert len(server.asked) == 1


def test_a_service_that_cannot_be_reached_in_time_is_not_tried_by_all_in_a_row(open_ollama, refused_url, monkeypatch):
    tries: list[str] = []

    def unreachable(_service: Service, method: str, path: str, **_: object) -> HttpAnswer:
        tries.append(path)
        raise UnreachableError("no route", timed_out=True)

    monkeypatch.setattr(Service, "send", unreachable)
    for embedder in (open_ollama(refused_url), openai_embedder(refused_url)):
        for _ in range(2):
            with pytest.raises(EmbedderAwayError, match="did not answer"):
                embedder.embed(["a"])
    assert tries == ["/api/embed", "/embeddings"]


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.1", "2130706433", "0", "localhost", "localhost.", "[::ffff:127.0.0.1]", socket.gethostname()]
)
def test_no_proxy_gets_a_text_for_this_machine_however_its_name_is_spelled(open_ollama, monkeypatch, refused_url, host):
    with serve(ollama_answer) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("ALL_PROXY", proxy.url)
        with pytest.raises(EmbedderAwayError):
            open_ollama(refused_url.replace("127.0.0.1", host)).embed(["a"])
    assert proxy.asked == []


def test_no_name_is_looked_up_before_the_first_text(open_ollama, monkeypatch):
    looked: list[str] = []
    real = socket.getaddrinfo

    def look_up(host, port, family=0, type=0, proto=0, flags=0):  # noqa: A002 - the socket module names it so
        if not flags & socket.AI_NUMERICHOST:
            looked.append(host)
        return real(host, port, family, type, proto, socket.AI_NUMERICHOST)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    open_ollama("http://embedder.invalid")
    assert looked == []


@pytest.mark.parametrize("given", ["ALL_PROXY=socks5://h:1", "ALL_PROXY=socks4://h:1", "NO_PROXY=[::1]", "HTTP_PROXY=http://h:x"])
def test_a_proxy_setting_that_cannot_be_used_is_named(open_ollama, monkeypatch, given):
    monkeypatch.setenv("HTTP_PROXY", "http://h:1")
    monkeypatch.setenv(*given.split("=", 1))
    with pytest.raises(EmbedderError, match=r"HTTP_PROXY, HTTPS_PROXY, ALL_PROXY or NO_PROXY .*; correct the setting"):
        open_ollama("http://embedder.invalid").embed(["a"])


@pytest.mark.parametrize("url", ["", "localhost:11434", "ftp://localhost", "http://", "http://[::1", "http://127.0.0.1:65536"])
def test_an_unusable_url_is_refused_when_the_embedder_is_opened(open_ollama, url):
    with pytest.raises(EmbedderError, match="URL is not an http or https address"):
        open_ollama(url)


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (Answer(b"<html>hello</html>"), SHAPE),
        (Answer(b"\xff\xfe\x00"), SHAPE),
        (Answer([1, 2]), SHAPE),
        (Answer({"error": "surprise"}), SHAPE),
        (Answer({"embeddings": "AAAA"}), SHAPE),
        (Answer({"embeddings": [[1.0, 2.0]]}), "1 vectors for 2 texts"),
        (Answer({"embeddings": [[1.0, 2.0], [1.0]]}), "not rows of numbers"),
        (Answer({"embeddings": [[1.0, 2.0], [0.0, 0.0]]}), "zero vector"),
        (Answer(b'{"embeddings": [[1.0, NaN], [1.0, 1.0]]}'), SHAPE),
        (Answer(b'{"embeddings": [[1.0, Infinity], [1.0, 1.0]]}'), SHAPE),
        (Answer(b'{"embeddings": [[1.0, 1e999], [1.0, 1.0]]}'), SHAPE),
        (Answer({"embeddings": [[True, False], [True, True]]}), SHAPE),
        (Answer({"embeddings": [["1", "2"], ["1", "2"]]}), SHAPE),
        (Answer({"embeddings": [[1.0] * 200_000] * 2}), SHAPE),
        (Answer(b"[" * 200_000), SHAPE),
        (Answer(b"null"), SHAPE),
        (Answer({"error": "oops"}, status=500), "status 500"),
        (Answer({"error": "no embeddings"}, status=400), "status 400"),
        (Answer(b"", status=302, headers={"Location": "http://127.0.0.1:1/"}), "status 302; .*another address: correct the URL"),
    ],
)
def test_an_unusable_answer_of_ollama_is_an_error_that_names_the_embedder(open_ollama, answer, complaint):
    with serve(in_turn(answer)) as server, pytest.raises(EmbedderError, match=complaint) as caught:
        open_ollama(server.url).embed(["a", "b"])
    assert "ollama:nomic-embed-text" in str(caught.value)


def test_a_dimension_that_changes_between_batches_is_refused(open_ollama):
    with serve(in_turn(ollama_answer, Answer({"embeddings": [[1.0, 2.0]]}))) as server:
        embedder = open_ollama(server.url)
        embedder.embed(["a"])
        with pytest.raises(EmbedderError, match="2 values where 3 are expected"):
            embedder.embed(["b"])


def test_an_openai_endpoint_gets_the_key_without_its_line_end_and_its_answers_are_put_in_order():
    texts = ["x" * length for length in range(1, 101)]
    with serve(openai_answer) as server:
        embedder = openai_embedder(f"{server.url}/v1/", key=f"{KEY}\n")
        assert_vectors_of(texts, embedder.embed(texts))
    assert embedder.name == "openai:m-3"
    assert [len(asked.payload["input"]) for asked in server.asked] == [64, 36]
    assert {asked.path for asked in server.asked} == {"/v1/embeddings"}
    assert {asked.headers["Authorization"] for asked in server.asked} == {f"Bearer {KEY}"}


def test_an_endpoint_without_a_key_gets_no_authorization(tmp_path):
    with serve(openai_answer) as server:
        open_embedder("openai:m", openai_url=server.url).embed(["a"])
    assert "Authorization" not in server.asked[0].headers


def test_openai_itself_is_not_asked_without_a_key(tmp_path):
    with pytest.raises(EmbedderError, match="set OPENAI_API_KEY"):
        open_embedder("openai:m")


@pytest.mark.parametrize("transient", [Answer({}, status=429), Answer({}, status=500), Answer({}, status=503), Answer(None)])
def test_a_passing_failure_is_tried_again(transient):
    waits = Waits()
    with serve(in_turn(transient, transient, openai_answer)) as server:
        assert_vectors_of(["a"], openai_embedder(server.url, waits).embed(["a"]))
    assert len(server.asked) == 3
    assert len(waits) == 2
    assert all(0 <= wait <= 1 for wait in waits)


@pytest.mark.parametrize(("failure", "complaint"), [(Answer({}, status=502), "status 502"), (Answer(None), "breaks them off")])
def test_attempts_are_bounded_and_their_waits_grow(failure, complaint):
    waits = Waits()
    with serve(in_turn(failure)) as server:
        embedder = openai_embedder(server.url, waits)
        with pytest.raises(EmbedderError, match=complaint):
            embedder.embed(["a"])
        assert len(server.asked) == 5
        for _ in range(16 if failure.status == 502 else 0):
            with pytest.raises(EmbedderAwayError, match=complaint):
                embedder.embed(["a"])
        assert len(server.asked) == 5, "what gave up on a service lets it rest, and the others with it"
    assert all(wait <= longest for wait, longest in zip(waits, (0.5, 1, 2, 4), strict=True))


def test_the_wait_is_what_the_service_asks_for():
    waits = Waits()
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=20), usegmt=True)
    by_seconds = Answer({}, status=429, headers={"Retry-After": "7"})
    by_date = Answer({}, status=503, headers={"Retry-After": soon})
    unreadable = Answer({}, status=503, headers={"Retry-After": "soon"})
    with serve(in_turn(by_seconds, by_date, unreadable, openai_answer)) as server:
        openai_embedder(server.url, waits, timeout=60).embed(["a"])
    assert waits[0] == 7
    assert 10 < waits[1] <= 20
    assert waits[2] <= 2


@pytest.mark.parametrize(("seconds", "timeout"), [(31, 60), (15, 5)])
def test_a_service_that_asks_for_a_wait_longer_than_the_timeout_or_30_s_is_not_waited_for(seconds, timeout):
    waits = Waits()
    busy = Answer({}, status=429, headers={"Retry-After": str(seconds)})
    with serve(in_turn(busy)) as server, pytest.raises(EmbedderError, match=f"asks to wait {seconds} s"):
        openai_embedder(server.url, waits, timeout=timeout).embed(["a"])
    assert waits == []


def test_the_timeout_bounds_all_tries_of_a_call():
    with serve(in_turn(Answer({}, status=502), Answer({}, trickling=1))) as server:
        with pytest.raises(EmbedderError, match=r"within 1 s"):
            openai_embedder(server.url, timeout=1).embed(["a"])
        assert len(server.asked) == 2


@pytest.mark.parametrize(("failure", "complaint"), [(Answer({}, status=503), "status 503"), (Answer(None), "breaks them off")])
def test_the_last_failure_is_reported_if_the_next_wait_would_pass_the_deadline(monkeypatch, failure, complaint):
    monkeypatch.setattr("random.uniform", lambda _least, longest: longest)
    waits = Waits()
    with serve(in_turn(failure)) as server, pytest.raises(EmbedderAwayError, match=complaint):
        openai_embedder(server.url, waits, timeout=1.5).embed(["a"])
    assert waits == [0.5, 1]


@pytest.mark.parametrize(("status", "hint"), [(401, "check the API key"), (404, "check the model's name"), (400, "context")])
def test_a_refusal_is_not_tried_again_and_says_what_to_check(status, hint):
    with serve(in_turn(Answer({}, status=status))) as server, pytest.raises(EmbedderError, match=f"{status}; .*{hint}"):
        openai_embedder(server.url).embed(["a"])
    assert len(server.asked) == 1


def test_a_refused_connection_is_reported_at_once(refused_url):
    waits = Waits()
    with pytest.raises(EmbedderError, match="does not accept connections"):
        openai_embedder(refused_url, waits).embed(["a"])
    assert waits == []


@pytest.mark.parametrize(
    "data",
    [
        None,
        "text",
        [],
        [{"index": 0, "embedding": [1.0]}],
        [{"index": 0, "embedding": [1.0]}, {"index": 0, "embedding": [2.0]}],
        [{"index": 0, "embedding": [1.0]}, {"index": 2, "embedding": [2.0]}],
        [{"index": [], "embedding": [1.0]}, {"embedding": [2.0]}],
        [{"index": 0, "embedding": [1.0]}, 7],
    ],
)
def test_an_answer_without_one_vector_for_each_text_is_refused(data):
    with (
        serve(in_turn(Answer({"data": data}))) as server,
        pytest.raises(EmbedderError, match=r"one (indexed )?vector .*for each"),
    ):
        openai_embedder(server.url).embed(["a", "b"])


@pytest.mark.parametrize(
    "answer",
    [
        Answer({"error": {"message": f"Incorrect API key provided: {KEY}"}}, status=401),
        Answer({"error": f"no quota for {KEY}"}, status=429, headers={"Retry-After": "3600"}),
        Answer({"error": KEY}, status=500),
        Answer(f"<html>{KEY}</html>".encode()),
        Answer(None),
        Answer({"data": KEY}),
    ],
)
def test_the_key_is_in_no_message_traceback_log_or_repr(caplog, answer):
    caplog.set_level(logging.DEBUG)
    with serve(in_turn(answer)) as server:
        embedder = openai_embedder(server.url)
        with pytest.raises(EmbedderError) as caught:
            embedder.embed(["a"])
    shown = [str(caught.value), repr(caught.value), repr(embedder), caplog.text, *traceback.format_exception(caught.value)]
    assert caplog.records
    assert not [text for text in shown if KEY in text]


@pytest.mark.parametrize("key", ["", "  ", "sk-ünsafe", "sk-two\nlines", "sk-with blank"])
def test_a_key_that_no_header_can_carry_is_refused_without_being_shown(key):
    with pytest.raises(EmbedderError, match=r"OPENAI_API_KEY is empty or .*; set it to the key alone\.") as caught:
        openai_embedder("http://127.0.0.1:1", key=key)
    assert not key.strip() or key not in str(caught.value)


def test_a_password_in_the_url_is_used_and_never_shown(open_ollama, caplog):
    caplog.set_level(logging.DEBUG)
    with serve(in_turn(ollama_answer, Answer({}, status=500))) as server:
        embedder = open_ollama(server.url.replace("//", "//bram:pa55word@"))
        embedder.embed(["a"])
        with pytest.raises(EmbedderError) as caught:
            embedder.embed(["a"])
    assert server.asked[0].headers["Authorization"].startswith("Basic ")
    assert "pa55word" not in f"{caught.value}{embedder!r}{caplog.text}"
