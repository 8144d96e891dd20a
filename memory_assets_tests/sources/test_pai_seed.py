"""pai-seed's seed.json: entries are independent, and no content can stop a scan."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_assets.ingest.scans import vanished_paths
from memory_assets.models import FileStamp, Kind, Scan, Source, SourceItem
from memory_assets.sources.pai_seed import scan
from memory_assets_tests.sources.conftest import items_of, refusals_of, stamps_of


def learning(entry_id: str = "pat_1", **changes: Any) -> dict[str, Any]:
    return {
        "id": entry_id,
        "content": f"Content of {entry_id}",
        "source": "session-0141",
        "extractedAt": "2026-01-10T09:12:00Z",
        "confirmed": True,
        "confirmedAt": "2026-01-11T08:00:00Z",
        "tags": ["testing"],
        **changes,
    }


def proposal(entry_id: str = "prop_1", **changes: Any) -> dict[str, Any]:
    return {
        "id": entry_id,
        "type": "insight",
        "content": f"Content of {entry_id}",
        "source": "session-0150",
        "extractedAt": "2026-01-20T17:00:00Z",
        "status": "pending",
        "method": "acr",
        "confidence": 0.82,
        **changes,
    }


def seed(**changes: Any) -> dict[str, Any]:
    return {
        "version": "1.0.0",
        "identity": {"principalName": "Ada"},
        "learned": {"patterns": [], "insights": [], "selfKnowledge": []},
        "state": {"proposals": [], "activeProjects": []},
        **changes,
    }


def with_entries(*proposals: object, patterns: object = (), insights: object = ()) -> dict[str, Any]:
    learned = {"patterns": patterns, "insights": insights, "selfKnowledge": []}
    return seed(learned=learned, state={"proposals": list(proposals)})


@pytest.fixture
def scanned(tmp_path: Path) -> Callable[[object], Scan]:
    def write_and_scan(content: object) -> Scan:
        text = content if isinstance(content, str) else json.dumps(content)
        (tmp_path / "seed.json").write_text(text, encoding="utf-8")
        return scan(tmp_path / "seed.json", {})

    return write_and_scan


Scanned = Callable[[object], Scan]


def faults(result: Scan) -> list[tuple[str, str | None]]:
    return [(refusal.location, refusal.key) for refusal in refusals_of(result)]


def test_a_confirmed_learning_is_taken_in_with_its_unknown_keys(scanned: Scanned, tmp_path: Path) -> None:
    result = scanned(with_entries(patterns=[learning(mood="good", nested={"a": [1]})]))
    assert items_of(result)["pai_seed:pat_1"] == SourceItem(
        source=Source.PAI_SEED,
        key="pai_seed:pat_1",
        kind=Kind.PATTERN,
        body="Content of pat_1",
        created_at=datetime(2026, 1, 11, 8, tzinfo=UTC),
        tags=("testing",),
        session="session-0141",
        confidence=1.0,
        metadata={
            "path": str(tmp_path / "seed.json"),
            "origin": "session-0141",
            "confirmed": True,
            "extracted_at": "2026-01-10T09:12:00+00:00",
            "extra": {"mood": "good", "nested": {"a": [1]}},
        },
    )
    assert refusals_of(result) == []
    assert result.notes == ()


def test_the_array_says_what_kind_a_learning_is(scanned: Scanned) -> None:
    arrays = {"patterns": [learning("a")], "insights": [learning("b")], "selfKnowledge": [learning("c")]}
    kinds = [item.kind for item in items_of(scanned(seed(learned=arrays))).values()]
    assert kinds == [Kind.PATTERN, Kind.INSIGHT, Kind.SELF_KNOWLEDGE]


def test_an_unconfirmed_learning_counts_half_and_dates_from_its_extraction(scanned: Scanned) -> None:
    entry = learning(confirmed=False, confirmedAt=None, tags=None, source="manual")
    item = items_of(scanned(with_entries(patterns=[entry])))["pai_seed:pat_1"]
    assert (item.confidence, item.remember, item.tags, item.session) == (0.5, True, (), "")
    assert item.created_at == datetime(2026, 1, 10, 9, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("changes", "kind", "remember", "confidence"),
    [
        ({}, Kind.PROPOSAL, False, 0.82),
        ({"confidence": None, "method": None}, Kind.PROPOSAL, False, 0.5),
        ({"status": "rejected", "decidedAt": "2026-02-01T00:00:00Z"}, Kind.PROPOSAL, False, 0.82),
        ({"status": "accepted", "decidedAt": "2026-02-01T00:00:00Z"}, Kind.INSIGHT, True, 0.82),
        ({"status": "accepted", "type": "self_knowledge"}, Kind.SELF_KNOWLEDGE, True, 0.82),
    ],
)
def test_proposals_are_listed_and_remembered_only_if_accepted(
    scanned: Scanned, changes: dict[str, Any], kind: Kind, remember: bool, confidence: float
) -> None:
    result = scanned(with_entries(proposal(**changes)))
    item = items_of(result)["pai_seed:prop_1"]
    assert (item.kind, item.remember, item.confidence) == (kind, remember, confidence)
    assert item.metadata["status"] == changes.get("status", "pending")
    decided = remember and "decidedAt" in changes
    assert item.created_at == (datetime(2026, 2, 1, tzinfo=UTC) if decided else datetime(2026, 1, 20, 17, tzinfo=UTC))


def test_an_accepted_proposal_adds_nothing_to_its_learning(scanned: Scanned) -> None:
    result = scanned(with_entries(proposal("x", status="accepted"), patterns=[learning("x")]))
    assert items_of(result)["pai_seed:x"].kind is Kind.PATTERN
    assert refusals_of(result) == []


def test_an_accepted_proposal_stands_in_for_a_broken_learning(scanned: Scanned) -> None:
    result = scanned(with_entries(proposal("x", status="accepted"), patterns=[learning("x", content="")]))
    assert items_of(result)["pai_seed:x"].kind is Kind.INSIGHT
    assert faults(result) == [("$.learned.patterns[0].content", "pai_seed:x")]


def test_an_id_that_was_used_is_refused_from_the_second_on(scanned: Scanned) -> None:
    entries = with_entries(proposal("a"), patterns=[learning("a"), learning("a")], insights=[learning("a")])
    result = scanned(entries)
    assert list(items_of(result)) == ["pai_seed:a"]
    assert faults(result) == [
        ("$.learned.patterns[1].id", "pai_seed:a"),
        ("$.learned.insights[0].id", "pai_seed:a"),
        ("$.state.proposals[0].id", "pai_seed:a"),
    ]
    assert "$.learned.patterns[0]" in refusals_of(result)[0].reason


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"content": None}, "content"),
        ({"content": "  "}, "content"),
        ({"content": 7}, "content"),
        ({"content": "a\u0000b"}, "content"),
        ({"source": None}, "source"),
        ({"extractedAt": "yesterday"}, "extractedAt"),
        ({"extractedAt": None}, "extractedAt"),
        ({"confirmed": "yes"}, "confirmed"),
        ({"confirmed": None}, "confirmed"),
        ({"confirmedAt": "soon"}, "confirmedAt"),
        ({"tags": "a, b"}, "tags"),
        ({"tags": ["a", 1]}, "tags[1]"),
        ({"more": {"odd key": float("nan")}}, 'more["odd key"]'),
        ({"more": float("inf")}, "more"),
    ],
)
def test_a_broken_entry_is_refused_by_path_and_key_and_the_others_go_on(
    scanned: Scanned, changes: dict[str, Any], field: str
) -> None:
    result = scanned(with_entries(patterns=[learning("a"), learning("b", **changes), learning("c")]))
    assert list(items_of(result)) == ["pai_seed:a", "pai_seed:c"]
    assert faults(result) == [(f"$.learned.patterns[1].{field}", "pai_seed:b")]
    assert refusals_of(result)[0].mend


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"type": "selfKnowledge"}, "type"),
        ({"status": "maybe"}, "status"),
        ({"confidence": 1.5}, "confidence"),
        ({"confidence": True}, "confidence"),
        ({"confidence": "0.8"}, "confidence"),
        ({"decidedAt": "soon"}, "decidedAt"),
        ({"method": 1}, "method"),
    ],
)
def test_a_broken_proposal_is_refused_by_path_and_key(scanned: Scanned, changes: dict[str, Any], field: str) -> None:
    result = scanned(with_entries(proposal("a", **changes), proposal("b")))
    assert list(items_of(result)) == ["pai_seed:b"]
    assert faults(result) == [(f"$.state.proposals[0].{field}", "pai_seed:a")]


@pytest.mark.parametrize("entry", [None, 1, "x", [], [learning()]])
def test_an_entry_that_is_no_object_is_refused_by_its_path(scanned: Scanned, entry: object) -> None:
    result = scanned(with_entries(patterns=[entry, learning("b")]))
    assert list(items_of(result)) == ["pai_seed:b"]
    assert faults(result) == [("$.learned.patterns[0]", None)]


def test_an_entry_without_an_id_is_refused_without_a_key(scanned: Scanned) -> None:
    result = scanned(with_entries(patterns=[learning(None), learning(7), learning(" ")]))  # type: ignore[arg-type]
    assert faults(result) == [(f"$.learned.patterns[{index}].id", None) for index in range(3)]


def test_a_key_that_stands_twice_breaks_its_entry_alone(scanned: Scanned) -> None:
    text = json.dumps(with_entries(patterns=[learning("a"), learning("b")]))
    text = text.replace('"id": "b"', '"id": "b", "id": "c"')
    result = scanned(text)
    assert list(items_of(result)) == ["pai_seed:a"]
    assert faults(result) == [("$.learned.patterns[1]", None)]
    assert 'the key "id" twice' in refusals_of(result)[0].reason


@pytest.mark.parametrize(
    ("changes", "location"),
    [
        ({"learned": None}, "$.learned"),
        ({"learned": []}, "$.learned"),
        ({"learned": {"insights": {}}}, "$.learned.insights"),
        ({"state": "x"}, "$.state"),
        ({"state": {"proposals": {}}}, "$.state.proposals"),
    ],
)
def test_a_part_of_the_wrong_shape_is_refused_by_its_path(scanned: Scanned, changes: dict[str, Any], location: str) -> None:
    assert faults(scanned(seed(**changes))) == [(location, None)]


def test_missing_arrays_and_a_missing_state_are_empty(scanned: Scanned) -> None:
    result = scanned({"version": "1.2.3", "learned": {"insights": [learning()]}})
    assert [item.kind for item in items_of(result).values()] == [Kind.INSIGHT]
    assert refusals_of(result) == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "it is not valid JSON"),
        ('{"version": "1.0.0"', "it is not valid JSON"),
        ("[" * 100_000, "it is nested too deeply"),
        ("[]", "it is an array, not an object"),
        ("null", "it is null, not an object"),
        ("NaN", "NaN is not a JSON number"),
        ('{"version": "1.0.0", "version": "1.0.0"}', 'the object has the key "version" twice'),
        ({"version": "2.0.0"}, "its schema has major version 2"),
        ({"version": "0.9"}, "its schema has major version 0"),
        ({"version": "10.0.0"}, "its schema has major version 10"),
        ({"version": "x"}, "`version` is not a version"),
        ({"version": 1}, "`version` is not a version"),
        ({"version": ["1.0.0"]}, "`version` is not a version"),
    ],
)
def test_a_file_that_is_no_seed_of_a_known_version_is_one_refusal(scanned: Scanned, content: object, reason: str) -> None:
    result = scanned(content)
    assert items_of(result) == {}
    (refusal,) = refusals_of(result)
    assert refusal.reason.startswith(reason)
    assert refusal.key is None
    assert refusal.mend


def test_a_missing_version_is_accepted_and_noted(scanned: Scanned) -> None:
    result = scanned({"learned": {"patterns": [learning()]}})
    assert list(items_of(result)) == ["pai_seed:pat_1"]
    (note,) = result.notes
    assert "has no version" in note


def test_parts_that_are_not_known_are_noted(scanned: Scanned) -> None:
    learned = {"patterns": [], "preferences": [1]}
    (note,) = scanned(seed(learned=learned, voices={}, tanaIntegration={})).notes
    assert "$.voices, $.learned.preferences" in note
    assert "tanaIntegration" not in note


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252"])
def test_odd_encodings_are_read(tmp_path: Path, encoding: str) -> None:
    text = json.dumps(with_entries(patterns=[learning(content="Größe")]), ensure_ascii=False)
    (tmp_path / "seed.json").write_bytes(text.encode(encoding))
    item = items_of(scan(tmp_path / "seed.json", {}))["pai_seed:pat_1"]
    assert item.body == "Größe"
    assert ("decoding" in item.metadata) == (encoding == "cp1252")


def test_a_missing_file_is_an_empty_source_and_one_sentence(tmp_path: Path) -> None:
    result = scan(tmp_path / "no" / "seed.json", {})
    assert result.changed == ()
    (note,) = result.notes
    assert str(tmp_path / "no" / "seed.json") in note
    assert "MEMORY_PAI_SEED" in note


def test_a_file_that_is_gone_after_it_was_there_lets_nothing_vanish(tmp_path: Path) -> None:
    path = tmp_path / "seed.json"
    known = {str(path): FileStamp(10, 1, 1)}
    result = scan(path, known)
    assert vanished_paths(result, known) == []
    (refusal,) = refusals_of(result)
    assert (refusal.path, refusal.key, result.notes) == (str(path), None, ())
    assert "gone" in refusal.reason


def test_a_file_with_the_known_stamp_is_not_read_again(scanned: Scanned, tmp_path: Path) -> None:
    first = scanned(with_entries(patterns=[learning()]))
    second = scan(tmp_path / "seed.json", stamps_of(first))
    assert (second.changed, second.unchanged) == ((), (str(tmp_path / "seed.json"),))


def test_a_folder_a_link_out_and_a_huge_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "seed.json").mkdir()
    assert "a folder" in refusals_of(scan(tmp_path / "seed.json", {}))[0].reason
    (tmp_path / "in").mkdir()
    (tmp_path / "out.json").write_text("{}")
    (tmp_path / "in" / "seed.json").symlink_to(tmp_path / "out.json")
    assert "leaves" in refusals_of(scan(tmp_path / "in" / "seed.json", {}))[0].reason
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(50 << 20)
    assert "too large" in refusals_of(scan(tmp_path / "huge.json", {}))[0].reason


any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "content", "patterns", "version", "x"]) | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=8,
)
entry_places = st.sampled_from(
    [
        *(("learned", "patterns", 0, name) for name in learning()),
        *(("state", "proposals", 0, name) for name in proposal()),
        ("learned", "patterns", 0),
        ("state", "proposals", 0),
        ("learned", "insights"),
        ("state",),
        ("state", "proposals"),
        ("identity",),
        ("new",),
        ("learned", "new"),
        ("learned", "patterns", 0, "new"),
    ]
)


@given(entry_places, any_json)
def test_any_json_in_any_place_leaves_the_valid_entries_beside_it(
    scanned: Scanned, place: tuple[str | int, ...], value: object
) -> None:
    content: Any = with_entries(proposal("broken"), patterns=[learning("changed"), learning("valid")])
    target = content
    for step in place[:-1]:
        target = target[step]
    target[place[-1]] = value
    result = scanned(content)
    assert items_of(result)["pai_seed:valid"].body == "Content of valid"
    json.dumps([item.metadata for item in items_of(result).values()], allow_nan=False)
    for refusal in refusals_of(result):
        f"{refusal.reason}{refusal.mend}{refusal.location}{refusal.key}".encode()


@given(any_json | st.fixed_dictionaries({}, optional={"version": any_json, "learned": any_json, "state": any_json}))
def test_any_json_as_the_file_is_read_or_refused(scanned: Scanned, value: object) -> None:
    result = scanned(value)
    assert len(result.changed) == 1
