"""Claude Code's silo files: every known variant is classified or refused with a reason."""

import json
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import pytest

from memory_assets.models import Kind, Source, SourceItem
from memory_assets.sources.claude_silos import scan
from memory_assets_tests.sources.conftest import PLAIN, SLUG, Write, items_of, one, refusals_of


def reason(write: Write, tmp_path: Path, content: str | bytes, name: str = "note.md") -> str:
    path = write(f"{SLUG}/memory/{name}", content)
    result = scan(tmp_path / "root", {})
    assert items_of(result) == {}
    (refusal,) = refusals_of(result)
    assert refusal.path == str(path)
    assert refusal.key is None
    assert refusal.mend or refusal.passed_over
    return refusal.reason


def test_a_memory_is_taken_in_with_all_that_its_owner_said(write: Write, tmp_path: Path) -> None:
    text = (
        "---\nname: deploy-rule\ndescription: When to deploy\ntype: feedback\noriginSessionId: 7f-1\n"
        "modified: 2026-03-01T10:00:00+02:00\ntags: [deploy, ops]\npriority: high\n---\n\n"
        "Deploy on Mondays.\n\n**Why:** see [[incident]].\n"
    )
    item = one(write, tmp_path, text)
    assert item == SourceItem(
        source=Source.CLAUDE_SILO,
        key=f"claude_silo:{SLUG}/note.md",
        kind=Kind.FEEDBACK,
        body="Deploy on Mondays.\n\n**Why:** see [[incident]].",
        title="deploy-rule",
        description="When to deploy",
        created_at=datetime(2026, 3, 1, 8, tzinfo=UTC),
        tags=("deploy", "ops"),
        links=("incident",),
        project=SLUG,
        session="7f-1",
        metadata={
            "path": str(tmp_path / "root" / SLUG / "memory" / "note.md"),
            "slug": SLUG,
            "type_form": "top-level",
            "frontmatter": {"modified": "2026-03-01T10:00:00+02:00", "priority": "high"},
        },
    )
    json.dumps(item.metadata)


@pytest.mark.parametrize(
    ("block", "form"),
    [
        ("type: {kind}", "top-level"),
        ("type: {kind}\noriginSessionId: s", "top-level"),
        ("metadata: \n  node_type: memory\n  type: {kind}\n  originSessionId: s", "nested"),
        ("metadata:\n  type: {kind}", "nested"),
        ("type: {kind}\nmetadata:\n  type: {kind}", "top-level"),
        ("type: '{kind} '", "top-level"),
    ],
)
def test_the_four_types_are_classified_in_every_form(write: Write, tmp_path: Path, block: str, form: str) -> None:
    descriptions = ("plain", "'quoted: yes'", "broken: by colons: twice", ">\n  folded\n  lines")
    for kind, description in product((Kind.USER, Kind.FEEDBACK, Kind.PROJECT, Kind.REFERENCE), descriptions):
        text = f"---\nname: n\ndescription: {description}\n{block.format(kind=kind)}\n---\nbody\n"
        item = one(write, tmp_path, text)
        assert (item.kind, item.metadata["type_form"], item.title) == (kind, form, "n"), text
        assert item.session == ("s" if "originSessionId" in block else "")
        assert item.description.replace("'", "").split()[0] in ("plain", "quoted:", "broken:", "folded")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_encodings_and_line_ends_give_the_same_memory(write: Write, tmp_path: Path, encoding: str, line_end: str) -> None:
    text = "---\nname: größe\ntype: user\n---\n\nZwölf „Boxen“\nauf Deck\n".replace("\n", line_end)
    item = one(write, tmp_path, text.encode(encoding))
    assert (item.title, item.body) == ("größe", "Zwölf „Boxen“\nauf Deck")
    assert ("decoding" in item.metadata) == (encoding == "cp1252")


def test_a_memory_without_a_name_is_called_by_its_file(write: Write, tmp_path: Path) -> None:
    assert one(write, tmp_path, "---\ntype: user\n---\nbody", "user_role.md").title == "user_role"


def test_a_memory_without_a_body_is_its_description(write: Write, tmp_path: Path) -> None:
    item = one(write, tmp_path, "---\ntype: user\ndescription: Likes tea\n---\n \n")
    assert (item.body, item.description) == ("Likes tea", "Likes tea")


@pytest.mark.parametrize(
    ("fields", "moment"),
    [
        ("modified: 2026-02-03", datetime(2026, 2, 3, tzinfo=UTC)),
        ("created: 2026-01-01\nmodified: '2026-02-03T04:05:06Z'", datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)),
        ("date: 2026-01-01 12:00", datetime(2026, 1, 1, 12, tzinfo=UTC)),
        ("modified: last Tuesday\ncreated: 2026-01-01", datetime(2026, 1, 1, tzinfo=UTC)),
        ("metadata:\n  modified: 2026-01-01", datetime(2026, 1, 1, tzinfo=UTC)),
        ("modified: 0001-01-01T00:00:00+14:00", None),
        ("modified: 1767600000", None),
        ("modified: [2026-01-01]", None),
        ("x: y", None),
    ],
)
def test_the_time_is_what_the_owner_says_or_unknown(write: Write, tmp_path: Path, fields: str, moment: datetime | None) -> None:
    assert one(write, tmp_path, f"---\ntype: user\n{fields}\n---\nbody").created_at == moment


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("---\ntype: user\nname:\n  a: b\n---\nbody", "unrecognised: `name` is not text"),
        ("---\nname: n\ntype: user\nbody", "unrecognised: the frontmatter is opened but never closed"),
        (
            "---\nprose and prose\n---\nbody",
            "unrecognised: the frontmatter has a line that belongs to no key",
        ),
        ("---\ntype: user\n---\n\n", "unrecognised: it has neither a body nor a description"),
        ("", "the file is empty"),
        (" \r\n\n", "the file is empty"),
        (b"\xef\xbb\xbf", "the file is empty"),
        (b"---\ntype: user\n---\nbo\x00dy", "the file holds a NUL byte"),
        (b"---\ntype: user\n---\nbo\x07dy", "line 4 holds the control character U+0007"),
    ],
)
def test_what_is_no_memory_is_refused_with_the_reason(write: Write, tmp_path: Path, content: str | bytes, why: str) -> None:
    assert reason(write, tmp_path, content).startswith(why)


@pytest.mark.parametrize("name", ["data.json", "README"])
def test_a_file_that_is_not_markdown_is_refused(write: Write, tmp_path: Path, name: str) -> None:
    assert reason(write, tmp_path, PLAIN, name) == "unrecognised: it is not a .md file"


@pytest.mark.parametrize("name", [".DS_Store", "note.md.swp", ".note.md", "note.md~", "#note.md#", "note.md.tmp"])
def test_a_hidden_or_temporary_file_is_passed_over_and_said(write: Write, tmp_path: Path, name: str) -> None:
    assert reason(write, tmp_path, PLAIN, name) == "it is a hidden or temporary file"


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("debugging.md", "# Debugging\n\nThe flaky test hangs on Redis.", Kind.PROJECT),
        ("user_prefs.md", "Likes tea.", Kind.USER),
        ("conventions.md", "Two spaces.", Kind.FEEDBACK),
        ("notes.md", "# Where things are\nBoards are at Grafana.", Kind.REFERENCE),
        ("notes.md", "- Never force-push\n- Always run `make check`\n- Tea is fine", Kind.FEEDBACK),
        ("notes.md", "- logs: /var/log/app\n- https://grafana.example/d/1", Kind.REFERENCE),
        ("notes.md", "---\nname: n\nmetadata:\n  node_type: memory\n---\nbody", Kind.PROJECT),
        ("who.md", "# About the user\n\nMira sails.", Kind.USER),
        ("contact-form.md", "---\ndescription: which file handles it\n---\nIt is contact.ts.", Kind.PROJECT),
        ("user_login.md", "# User login\n\nSessions last a day.", Kind.PROJECT),
    ],
)
def test_a_file_without_a_type_is_taken_in_with_a_guessed_kind(
    write: Write, tmp_path: Path, name: str, content: str, kind: Kind
) -> None:
    item = one(write, tmp_path, content, name)
    assert (item.kind, item.metadata["guessed"]) == (kind, ["kind"])
    assert "type_form" not in item.metadata


@pytest.mark.parametrize(
    ("block", "left"),
    [
        ("type: decisions", {"type": "decisions"}),
        ("type: [user]", {"type": ["user"]}),
        ("metadata:\n  type: feature", {"metadata": {"type": "feature"}}),
        ("type: user\nmetadata:\n  type: project", {"type": "user", "metadata": {"type": "project"}}),
    ],
)
def test_a_file_of_another_type_or_of_two_is_taken_in_with_a_guessed_kind_and_keeps_what_is_written(
    write: Write, tmp_path: Path, block: str, left: dict[str, object]
) -> None:
    item = one(write, tmp_path, f"---\nname: n\n{block}\n---\nNever squash.")
    assert (item.kind, item.metadata["guessed"], item.metadata["frontmatter"]) == (Kind.FEEDBACK, ["kind"], left)


def test_of_two_types_the_one_that_is_known_is_taken(write: Write, tmp_path: Path) -> None:
    item = one(write, tmp_path, "---\nname: n\ntype: architecture\nmetadata:\n  type: reference\n---\nNever squash.")
    assert (item.kind, item.metadata["type_form"], item.metadata["frontmatter"]) == (
        Kind.REFERENCE,
        "nested",
        {"type": "architecture"},
    )
    assert "guessed" not in item.metadata
