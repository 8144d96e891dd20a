"""PAI's LEARNING store: homes, ratings and reflections, one memory per file or line."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_assets.ingest.scans import vanished_paths
from memory_assets.models import Kind, Source, SourceItem
from memory_assets.sources.pai_learning import scan
from memory_assets_tests.sources.conftest import Write, items_of, refusals_of, stamps_of

RATINGS = "SIGNALS/ratings.jsonl"
REFLECTIONS = "REFLECTIONS/algorithm-reflections.jsonl"


def rating(**changes: Any) -> dict[str, Any]:
    return {
        "timestamp": "2026-03-01T10:00:00Z",
        "rating": 9,
        "session_id": "s1",
        "source": "explicit",
        "sentiment_summary": "Quick and right",
        "confidence": 0.7,
        **changes,
    }


def reflection(**changes: Any) -> dict[str, Any]:
    return {
        "timestamp": "2026-03-02T10:00:00Z",
        "effort_level": "high",
        "task_description": "Move the export",
        "criteria_count": 4,
        "criteria_passed": 3,
        "criteria_failed": 1,
        "prd_id": "p",
        "implied_sentiment": 3,
        "reflection_q1": "Ask earlier",
        "reflection_q2": "Read the log first.",
        "reflection_q3": "",
        "within_budget": False,
        **changes,
    }


def lines(*values: object) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


@pytest.mark.parametrize("home", ["FEEDBACK", "USER", "PROJECT", "REFERENCE"])
@pytest.mark.parametrize("type_line", ["", "type: {home}\n", "type: other\n"])
def test_a_home_says_what_kind_its_memories_are(write: Write, tmp_path: Path, home: str, type_line: str) -> None:
    path = write(
        f"{home}/note.md",
        f"---\nname: n\ndescription: d\n{type_line.format(home=home.lower())}source_cwd: /home/mira/app\n"
        "ingested_at: 2026-04-01T00:00:00Z\noriginal_path: /home/mira/x.md\nkept: yes\n---\nbody [[x]]\n",
    )
    result = scan(tmp_path / "root", {})
    frontmatter = {"kept": "yes"} | ({"type": "other"} if "other" in type_line else {})
    assert items_of(result) == {
        f"pai_learning:{home}/note.md": SourceItem(
            source=Source.PAI_LEARNING,
            key=f"pai_learning:{home}/note.md",
            kind=Kind(home.lower()),
            body="body [[x]]",
            title="n",
            description="d",
            created_at=datetime(2026, 4, 1, tzinfo=UTC),
            links=("x",),
            project="/home/mira/app",
            metadata={
                "path": str(path),
                "source_cwd": "/home/mira/app",
                "ingested_at": "2026-04-01T00:00:00Z",
                "original_path": "/home/mira/x.md",
                "frontmatter": frontmatter,
            },
        )
    }
    assert refusals_of(result) == []


def test_a_home_says_the_kind_of_a_bare_text_and_what_is_no_memory_is_refused(write: Write, tmp_path: Path) -> None:
    write("FEEDBACK/bare.md", "no frontmatter")
    write("FEEDBACK/data.json", "{}")
    write("FEEDBACK/sub/a.md", "---\nname: a\n---\nx")
    write("OTHER/ignored.md", "---\nname: a\n---\nx")
    write("ignored.md", "---\nname: a\n---\nx")
    result = scan(tmp_path / "root", {})
    assert [(item.title, item.kind) for item in items_of(result).values()] == [("bare", Kind.FEEDBACK)]
    assert [(Path(r.path).name, r.reason.startswith("unrecognised: ")) for r in refusals_of(result)] == [
        ("data.json", True),
        ("sub", True),
    ]


def test_an_explicit_rating_is_certain_and_a_sentence(write: Write, tmp_path: Path) -> None:
    path = write(RATINGS, lines(rating(comment="Nice")))
    item = items_of(scan(tmp_path / "root", {}))["pai_learning:SIGNALS/ratings.jsonl#2026-03-01T10:00:00Z"]
    assert item.kind is Kind.RATING
    assert item.body == "Explicit rating of 9 out of 10: Quick and right. Nice."
    assert (item.confidence, item.session) == (1.0, "s1")
    assert item.created_at == datetime(2026, 3, 1, 10, tzinfo=UTC)
    assert item.metadata == {"path": str(path), "line": 1, "fields": rating(comment="Nice")}


@pytest.mark.parametrize(
    ("changes", "confidence"),
    [
        ({"source": "implicit"}, 0.7),
        ({"source": "implicit", "confidence": None}, 0.5),
        ({"source": None, "confidence": 0}, 0.0),
        ({"source": "guess"}, 0.7),
    ],
)
def test_an_inferred_rating_is_a_guess_with_its_own_confidence(
    write: Write, tmp_path: Path, changes: dict[str, Any], confidence: float
) -> None:
    write(RATINGS, lines(rating(**changes)))
    (item,) = items_of(scan(tmp_path / "root", {})).values()
    assert item.confidence == confidence
    assert item.body.startswith("Inferred rating of 9 out of 10")


def test_extreme_ratings_matter_more_than_middling_ones(write: Write, tmp_path: Path) -> None:
    write(RATINGS, lines(*(rating(rating=n, timestamp=f"2026-03-{n:02}") for n in range(1, 11))))
    importance = [item.importance for item in items_of(scan(tmp_path / "root", {})).values()]
    assert importance == importance[::-1]
    assert importance[:5] == sorted(importance[:5], reverse=True)
    assert (importance[0], importance[4]) == (0.9, 0.367)


def test_a_rating_without_words_is_still_a_sentence(write: Write, tmp_path: Path) -> None:
    write(RATINGS, lines({"rating": 7.5}))
    (item,) = items_of(scan(tmp_path / "root", {})).values()
    assert item.body == "Inferred rating of 7.5 out of 10."
    assert item.created_at is None
    assert item.key.startswith("pai_learning:SIGNALS/ratings.jsonl#")


def test_a_reflection_is_its_task_outcome_and_answers(write: Write, tmp_path: Path) -> None:
    write(REFLECTIONS, lines(reflection()))
    (item,) = items_of(scan(tmp_path / "root", {})).values()
    assert item.kind is Kind.REFLECTION
    assert item.body == (
        "Reflection on Move the export (3 of 4 criteria passed, over budget).\nAsk earlier.\nRead the log first."
    )
    assert (item.title, item.confidence, item.importance) == ("Move the export", 1.0, 0.633)
    assert item.metadata["fields"] == reflection()


def test_a_reflection_needs_only_something_that_was_said(write: Write, tmp_path: Path) -> None:
    write(REFLECTIONS, lines({"reflection_q2": "Less is more"}, {"effort_level": "low"}))
    result = scan(tmp_path / "root", {})
    assert [item.body for item in items_of(result).values()] == ["Reflection on a task.\nLess is more."]
    assert [refusal.location for refusal in refusals_of(result)] == ["line 2"]


@pytest.mark.parametrize("folder", ["", "SIGNALS/", "ANYWHERE/", "FEEDBACK/"])
def test_the_line_files_are_found_at_the_root_and_one_level_below(write: Write, tmp_path: Path, folder: str) -> None:
    write(f"{folder}ratings.jsonl", lines(rating()))
    write(f"{folder}algorithm-reflections.jsonl", lines(reflection()))
    write("deeper/still/ratings.jsonl", lines(rating()))
    result = scan(tmp_path / "root", {})
    assert sorted(items_of(result)) == [
        f"pai_learning:{folder}algorithm-reflections.jsonl#2026-03-02T10:00:00Z",
        f"pai_learning:{folder}ratings.jsonl#2026-03-01T10:00:00Z",
    ]
    assert refusals_of(result) == []


@pytest.mark.parametrize(
    ("broken", "location"),
    [
        ("{", "line 2"),
        ("[1]", "line 2"),
        ('"text"', "line 2"),
        ("[" * 5000, "line 2"),
        (json.dumps(rating(rating=11)), "line 2 $.rating"),
        (json.dumps(rating(rating=0)), "line 2 $.rating"),
        (json.dumps(rating(rating=None)), "line 2 $.rating"),
        (json.dumps(rating(rating="9")), "line 2 $.rating"),
        (json.dumps(rating(rating=True)), "line 2 $.rating"),
        (json.dumps(rating(confidence=7)), "line 2 $.confidence"),
        (json.dumps(rating(timestamp="today")), "line 2 $.timestamp"),
        (json.dumps(rating(timestamp=5)), "line 2 $.timestamp"),
        (json.dumps(rating(comment="\x1b[31m")), "line 2 $.comment"),
        (json.dumps(rating(extra=float("nan"))), "line 2 $.extra"),
        ('{"rating": 1, "rating": 2}', "line 2"),
        ('{"rating": 1\x07}', "line 2"),
    ],
)
def test_a_broken_line_is_refused_by_number_and_the_others_go_on(
    write: Write, tmp_path: Path, broken: str, location: str
) -> None:
    other = json.dumps(rating(timestamp="2026-03-03T00:00:00Z"))
    write(RATINGS, f"{json.dumps(rating())}\n{broken}\n\n{other}")
    result = scan(tmp_path / "root", {})
    assert [item.metadata["line"] for item in items_of(result).values()] == [1, 4]
    (refusal,) = refusals_of(result)
    assert refusal.location == location
    assert refusal.key is None
    assert refusal.mend


def test_lines_of_one_moment_have_keys_of_their_own_and_repetitions_are_refused(write: Write, tmp_path: Path) -> None:
    write(RATINGS, lines(rating(), rating(rating=2), rating()))
    result = scan(tmp_path / "root", {})
    first, second = items_of(result)
    assert second.startswith(f"{first}~")
    (refusal,) = refusals_of(result)
    assert (refusal.location, refusal.reason) == ("line 3", "it repeats line 1")


def test_appending_a_line_leaves_the_keys_of_the_others(write: Write, tmp_path: Path) -> None:
    before = [rating(), rating(rating=2), {"rating": 3}]
    write(RATINGS, lines(*before))
    keys = list(items_of(scan(tmp_path / "root", {})))
    write(RATINGS, lines(*before, rating(rating=4)))
    assert list(items_of(scan(tmp_path / "root", {})))[:3] == keys


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_line_files_with_byte_order_marks_are_read(write: Write, tmp_path: Path, encoding: str) -> None:
    text = json.dumps(rating(comment="Größe"), ensure_ascii=False) + "\r\n"
    write(RATINGS, (text + "{bad\r\n").encode(encoding))
    result = scan(tmp_path / "root", {})
    assert [item.body for item in items_of(result).values()] == ["Explicit rating of 9 out of 10: Quick and right. Größe."]
    assert [refusal.location for refusal in refusals_of(result)] == ["line 2"]


def test_one_line_in_another_encoding_does_not_garble_the_rest(write: Write, tmp_path: Path) -> None:
    utf8 = json.dumps(rating(comment="Größe"), ensure_ascii=False).encode()
    cp1252 = json.dumps(rating(comment="Maß", rating=1), ensure_ascii=False).encode("cp1252")
    write(RATINGS, utf8 + b"\n" + cp1252 + b"\n" + b'{"rating": 5, "comment": "\x81"}')
    result = scan(tmp_path / "root", {})
    assert [item.metadata["fields"]["comment"] for item in items_of(result).values()] == ["Größe", "Maß", "\ufffd"]
    assert ["decoding" in item.metadata for item in items_of(result).values()] == [False, True, True]


def test_a_missing_folder_is_an_empty_source_and_one_sentence(tmp_path: Path) -> None:
    result = scan(tmp_path / "nowhere", {})
    assert result.changed == ()
    (note,) = result.notes
    assert str(tmp_path / "nowhere") in note
    assert "MEMORY_PAI_LEARNING_DIR" in note


@pytest.mark.parametrize("lost", ["", "USER", "SIGNALS"])
def test_a_folder_that_is_gone_after_it_was_there_lets_nothing_vanish(write: Write, tmp_path: Path, lost: str) -> None:
    write("USER/a.md", "---\nname: a\n---\nbody")
    write("FEEDBACK/a.md", "---\nname: a\n---\nbody")
    write("SIGNALS/ratings.jsonl", '{"rating": 9, "timestamp": "2026-01-01T00:00:00Z"}\n')
    known = stamps_of(scan(tmp_path / "root", {}))
    (tmp_path / "root" / lost).rename(tmp_path / "away")
    result = scan(tmp_path / "root", known)
    assert vanished_paths(result, known) == []
    assert [refusal.path for refusal in refusals_of(result)] == [str(tmp_path / "root" / lost)]


def test_a_root_that_is_a_file_is_refused_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    result = scan(tmp_path / "file", {})
    assert [refusal.reason for refusal in refusals_of(result)] == ["it is a file, not a folder"]


@pytest.mark.timeout(10)
def test_links_out_pipes_nul_bytes_and_huge_files_are_refused(write: Write, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "ratings.jsonl").write_text(lines(rating()))
    (outside / "a.md").write_text("---\nname: a\n---\nx")
    root = write("FEEDBACK/good.md", "---\nname: a\n---\nx").parent.parent
    (root / "SIGNALS").symlink_to(outside)
    (root / "USER").symlink_to(outside)
    os.mkfifo(root / "ratings.jsonl")
    write("A/ratings.jsonl", b"\x00")
    with write("B/ratings.jsonl", "").open("wb") as file:
        file.truncate(50 << 20)
    result = scan(root, {})
    assert list(items_of(result)) == ["pai_learning:FEEDBACK/good.md"]
    assert {str(Path(refusal.path).relative_to(root)) for refusal in refusals_of(result)} == {
        "SIGNALS/ratings.jsonl",
        "USER",
        "USER/ratings.jsonl",
        "ratings.jsonl",
        "A/ratings.jsonl",
        "B/ratings.jsonl",
    }


def test_files_with_known_stamps_are_not_read_again(write: Write, tmp_path: Path) -> None:
    write(RATINGS, lines(rating()) + "{")
    write("USER/a.md", "---\nname: a\n---\nx")
    first = scan(tmp_path / "root", {})
    second = scan(tmp_path / "root", stamps_of(first))
    assert (second.changed, len(second.unchanged)) == ((), 2)


def test_a_folder_that_may_not_be_entered_is_unreadable(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = write(RATINGS, lines(rating())).parent
    write("USER/a.md", "---\nname: a\n---\nx")
    real_lstat = os.lstat

    def lstat(path: str) -> os.stat_result:
        if str(path).startswith(f"{closed}/"):
            raise PermissionError(13, "Permission denied")
        return real_lstat(path)

    monkeypatch.setattr(os, "lstat", lstat)
    result = scan(tmp_path / "root", {})
    assert result.unreadable == (str(closed),)
    assert [refusal.path for refusal in refusals_of(result)] == [str(closed)]
    assert list(items_of(result)) == ["pai_learning:USER/a.md"]


@given(st.lists(st.binary(max_size=60) | st.text(max_size=60).map(str.encode), max_size=5))
def test_any_bytes_in_a_line_leave_the_others(write: Write, tmp_path: Path, broken: list[bytes]) -> None:
    broken = [line.replace(b"\x00", b"").replace(b"\n", b"") for line in broken]
    good = json.dumps(rating()).encode()
    write(RATINGS, b"\n".join([good, *broken]))
    result = scan(tmp_path / "root", {})
    assert "pai_learning:SIGNALS/ratings.jsonl#2026-03-01T10:00:00Z" in items_of(result)
