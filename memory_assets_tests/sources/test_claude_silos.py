"""Claude Code's silos: every variant in the wild is classified or refused with a reason."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory_assets.ingest.scans import vanished_paths
from memory_assets.models import FileScan, Kind, Source, SourceItem
from memory_assets.sources.claude_silos import scan
from memory_assets.sources.projects import slug_of
from memory_assets_tests.sources.conftest import Write, items_of, refusals_of, stamps_of

SLUG = "-home-mira-src-app"
CWD = "/home/mira/src/app"
PLAIN = "---\nname: {name}\ndescription: about {name}\ntype: user\n---\n\nBody of {name}.\n"


def one(write: Write, tmp_path: Path, content: str | bytes, name: str = "note.md") -> SourceItem:
    write(f"{SLUG}/memory/{name}", content)
    result = scan(tmp_path / "root", {})
    assert refusals_of(result) == []
    (item,) = items_of(result).values()
    return item


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


@pytest.mark.parametrize("kind", [Kind.USER, Kind.FEEDBACK, Kind.PROJECT, Kind.REFERENCE])
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
@pytest.mark.parametrize("description", ["plain", "'quoted: yes'", "broken: by colons: twice", ">\n  folded\n  lines"])
def test_the_four_types_are_classified_in_every_form(
    write: Write, tmp_path: Path, kind: Kind, block: str, form: str, description: str
) -> None:
    text = f"---\nname: n\ndescription: {description}\n{block.format(kind=kind)}\n---\nbody\n"
    item = one(write, tmp_path, text)
    assert (item.kind, item.metadata["type_form"], item.title) == (kind, form, "n")
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
        ("---\nname: n\ntype: report\n---\nbody", "unrecognised: its type is `report`"),
        (
            "---\ntype: user\nmetadata:\n  type: project\n---\nx",
            "unrecognised: `type` says `user` and `metadata.type`",
        ),
        ("---\ntype: [user]\n---\nbody", "unrecognised: its type is"),
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
        ("team.md", "---\ndescription: who is who\n---\nMira, Jonas", Kind.USER),
    ],
)
def test_a_file_that_names_no_type_is_taken_in_with_a_guessed_kind(
    write: Write, tmp_path: Path, name: str, content: str, kind: Kind
) -> None:
    item = one(write, tmp_path, content, name)
    assert (item.kind, item.metadata["guessed"]) == (kind, ["kind"])
    assert "type_form" not in item.metadata


INDEX = """\
# Memory

- [Deploy](deploy.md) — Mondays only
- **[Odd name](odd%20name.md)**: spaces

---
## Gotchas
- Tests need `REDIS_URL`, else they hang
- [Hosts](hosts.md)
  - never restart heron

```bash
# not a heading
```

## Links
1. `debugging.md` - how the flaky test was found
Grafana lives at https://grafana.example, see [boards](boards.md).

### Gotchas
Always log in twice.
"""


def parsed_index(write: Write, tmp_path: Path, content: str) -> FileScan:
    path = write(f"{SLUG}/memory/MEMORY.md", content)
    return next(file for file in scan(tmp_path / "root", {}).changed if file.path == str(path))


def test_what_the_index_says_itself_is_taken_in_by_section_and_its_pointers_are_hooks(write: Write, tmp_path: Path) -> None:
    write(f"{SLUG}/9.jsonl", line(CWD))
    found = parsed_index(write, tmp_path, INDEX)
    prefix = f"claude_silo:{SLUG}/"
    assert [(item.key.removeprefix(prefix), item.title, item.kind, item.body) for item in found.items] == [
        (
            "MEMORY.md#gotchas",
            "Gotchas",
            Kind.FEEDBACK,
            "- Tests need `REDIS_URL`, else they hang\n  - never restart heron\n\n```bash\n# not a heading\n```",
        ),
        (
            "MEMORY.md#links",
            "Links",
            Kind.REFERENCE,
            "Grafana lives at https://grafana.example, see [boards](boards.md).",
        ),
        ("MEMORY.md#gotchas~2", "Links: Gotchas", Kind.FEEDBACK, "Always log in twice."),
    ]
    assert {(item.project, *item.metadata["guessed"]) for item in found.items} == {(CWD, "kind")}
    assert [(hook.target.removeprefix(prefix), hook.text) for hook in found.hooks] == [
        ("deploy.md", "Mondays only"),
        ("odd name.md", "spaces"),
        ("hosts.md", ""),
        ("debugging.md", "how the flaky test was found"),
    ]


def test_an_index_of_pointers_alone_holds_no_memory_and_one_of_prose_is_one(write: Write, tmp_path: Path) -> None:
    pointers = parsed_index(write, tmp_path, "# Memory\n" + "- [Title](file.md) - hook\n" * 249)
    assert (pointers.items, len(pointers.hooks)) == ((), 249)
    assert [refusal.passed_over for refusal in pointers.refusals] == [True]
    prose = parsed_index(write, tmp_path, "Uses pnpm.\n\nNode 22.")
    assert [(item.key, item.title, item.body) for item in prose.items] == [
        (f"claude_silo:{SLUG}/MEMORY.md#", "", "Uses pnpm.\n\nNode 22.")
    ]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from([*INDEX.split("\n"), "[[", "- ", "> [[x]]", "=====", "[a](b.md", "    code", "#", "***"])))
def test_no_line_of_an_index_is_lost(write: Write, tmp_path: Path, lines: list[str]) -> None:
    found = parsed_index(write, tmp_path, "start\n" + "\n".join(lines))
    said = "\n".join(item.body + "\n" + item.metadata["section"] + "\n" + item.title for item in found.items)
    for text in lines:
        if (words := text.strip(" #=*->")) and not any(hook.target.rpartition("/")[2] in unquote(text) for hook in found.hooks):
            assert words in said or text.startswith("#") or "```" in text


def test_a_subfolder_is_refused_once(write: Write, tmp_path: Path) -> None:
    write(f"{SLUG}/memory/old/a.md", PLAIN.format(name="a"))
    write(f"{SLUG}/memory/old/deep/b.md", PLAIN.format(name="b"))
    result = scan(tmp_path / "root", {})
    (refusal,) = refusals_of(result)
    assert refusal.path == str(tmp_path / "root" / SLUG / "memory" / "old")
    assert refusal.reason.startswith("unrecognised: ")
    assert refusal.key is None
    assert items_of(result) == {}


def test_only_memory_folders_of_projects_are_read(write: Write, tmp_path: Path) -> None:
    write("stray.md", PLAIN)
    write(f"{SLUG}/note.md", PLAIN)
    write("-no-memory-here/session.jsonl", "{}")
    assert scan(tmp_path / "root", {}).changed == ()


def test_a_missing_folder_is_an_empty_source_and_one_sentence(tmp_path: Path) -> None:
    result = scan(tmp_path / "nowhere", {})
    assert result.changed == ()
    (note,) = result.notes
    assert str(tmp_path / "nowhere") in note
    assert "MEMORY_CLAUDE_PROJECTS_DIR" in note


@pytest.mark.parametrize("lost", ["", "-a"])
@pytest.mark.parametrize("unmounted", [False, True])
def test_a_folder_that_is_gone_after_it_was_there_lets_nothing_vanish(
    write: Write, tmp_path: Path, lost: str, unmounted: bool
) -> None:
    for slug in ("-a", "-b"):
        write(f"{slug}/memory/note.md", PLAIN.format(name="note"))
    known = stamps_of(scan(tmp_path / "root", {}))
    gone = tmp_path / "root" / lost
    gone.rename(tmp_path / "away")
    if unmounted and not lost:
        gone.mkdir()
    result = scan(tmp_path / "root", known)
    assert vanished_paths(result, known) == []
    (refusal,) = refusals_of(result)
    assert (refusal.path, result.notes) == (str(gone), ())
    assert f"memory run --gone {gone}" in refusal.mend
    known |= stamps_of(result)
    again = scan(tmp_path / "root", known)
    assert (again.changed, vanished_paths(again, known)) == ((), [])
    if unmounted and not lost:
        gone.rmdir()
    (tmp_path / "away").rename(gone)
    back = scan(tmp_path / "root", known)
    assert (back.changed, vanished_paths(back, known)) == ((), [str(gone)])


def test_what_is_known_from_another_folder_stays_while_the_new_one_is_absent(write: Write, tmp_path: Path) -> None:
    write("-a/memory/note.md", PLAIN.format(name="note"))
    known = stamps_of(scan(tmp_path / "root", {}))
    assert vanished_paths(scan(tmp_path / "nowhere", known), known) == []
    (tmp_path / "elsewhere").mkdir()
    assert vanished_paths(scan(tmp_path / "elsewhere", known), known) == list(known)


def test_files_deleted_one_by_one_vanish_and_a_silo_whose_link_is_broken_does_not(write: Write, tmp_path: Path) -> None:
    deleted = write("-a/memory/note.md", PLAIN.format(name="note"))
    write("-real/memory/note.md", PLAIN.format(name="note"))
    (tmp_path / "root" / "-linked").symlink_to("-real")
    known = stamps_of(scan(tmp_path / "root", {}))
    assert len(known) == 3
    deleted.unlink()
    (tmp_path / "root" / "-linked").unlink()
    (tmp_path / "root" / "-linked").symlink_to("-nowhere")
    assert vanished_paths(scan(tmp_path / "root", known), known) == [str(deleted)]


def test_one_bad_file_does_not_keep_the_others_out(write: Write, tmp_path: Path) -> None:
    for name in ("a", "c"):
        write(f"{SLUG}/memory/{name}.md", PLAIN.format(name=name))
    write(f"{SLUG}/memory/b.md", b"\x00")
    result = scan(tmp_path / "root", {})
    assert [item.title for item in items_of(result).values()] == ["a", "c"]
    assert len(refusals_of(result)) == 1


def test_a_file_with_the_known_stamp_is_not_opened(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        write(f"{SLUG}/memory/{name}.md", PLAIN.format(name=name))
    write(f"{SLUG}/memory/bad.md", "---\nnever closed")
    write(f"{SLUG}/memory/MEMORY.md", "- [a](a.md)\n- a fact\n")
    write(f"{SLUG}/memory/empty.md", "")
    write(f"{SLUG}/memory/sub/x.md", PLAIN)
    first = scan(tmp_path / "root", {})
    assert len(first.changed) == 6
    opened: list[str] = []
    real_open = os.open

    def recording_open(path: str, *rest: int) -> int:
        opened.append(path)
        return real_open(path, *rest)

    monkeypatch.setattr(os, "open", recording_open)
    second = scan(tmp_path / "root", stamps_of(first))
    assert second.changed == ()
    assert second.unchanged == tuple(file.path for file in first.changed)
    assert opened == []


def test_a_changed_file_is_read_again_and_a_removed_one_is_left_out(write: Write, tmp_path: Path) -> None:
    changed = write(f"{SLUG}/memory/a.md", PLAIN.format(name="a"))
    removed = write(f"{SLUG}/memory/b.md", PLAIN.format(name="b"))
    stamps = stamps_of(scan(tmp_path / "root", {}))
    changed.write_text(PLAIN.format(name="new"), encoding="utf-8")
    removed.unlink()
    result = scan(tmp_path / "root", stamps)
    assert [item.title for item in items_of(result).values()] == ["new"]
    assert result.unchanged == ()


def test_two_scans_of_the_same_files_are_equal(write: Write, tmp_path: Path) -> None:
    for name in ("b", "a", "Z", "ä"):
        write(f"{SLUG}/memory/{name}.md", PLAIN.format(name=name))
        write(f"-other/memory/{name}.md", PLAIN.format(name=name))
    result = scan(tmp_path / "root", {})
    assert scan(tmp_path / "root", {}) == result
    assert [file.path for file in result.changed] == sorted(file.path for file in result.changed)


def test_a_file_that_vanishes_after_it_was_listed_is_left_out(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(f"{SLUG}/memory/a.md", PLAIN.format(name="a"))
    gone = write(f"{SLUG}/memory/b.md", PLAIN.format(name="b"))
    real_open = os.open

    def open_after_removal(path: str, *rest: int) -> int:
        gone.unlink(missing_ok=True)
        return real_open(path, *rest)

    monkeypatch.setattr(os, "open", open_after_removal)
    result = scan(tmp_path / "root", {})
    assert [item.title for item in items_of(result).values()] == ["a"]
    assert refusals_of(result) == []


def test_links_are_followed_inside_the_projects_and_refused_outside(write: Write, tmp_path: Path) -> None:
    target = write("-other/memory/a.md", PLAIN.format(name="shared"))
    (tmp_path / "secret.md").write_text(PLAIN.format(name="secret"), encoding="utf-8")
    memory = write(f"{SLUG}/memory/MEMORY.md", "").parent
    (memory / "in.md").symlink_to(target)
    (memory / "out.md").symlink_to(tmp_path / "secret.md")
    (memory / "loop.md").symlink_to("loop.md")
    result = scan(tmp_path / "root", {})
    assert sorted(items_of(result)) == ["claude_silo:-home-mira-src-app/in.md", "claude_silo:-other/a.md"]
    assert {Path(r.path).name for r in refusals_of(result) if not r.passed_over} == {"out.md", "loop.md"}
    assert len(scan(tmp_path / "root", stamps_of(result)).unchanged) == 5


def test_a_silo_that_is_a_link_out_of_the_projects_is_refused(write: Write, tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "memory").mkdir(parents=True)
    (tmp_path / "elsewhere" / "memory" / "a.md").write_text(PLAIN, encoding="utf-8")
    write("-real/memory/MEMORY.md", "")
    (tmp_path / "root" / "-linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "root" / "-half").mkdir()
    (tmp_path / "root" / "-half" / "memory").symlink_to(tmp_path / "elsewhere" / "memory")
    result = scan(tmp_path / "root", {})
    assert items_of(result) == {}
    assert [refusal.path for refusal in refusals_of(result) if not refusal.passed_over] == [
        str(tmp_path / "root" / "-half" / "memory"),
        str(tmp_path / "root" / "-linked"),
    ]


@pytest.mark.timeout(10)
def test_pipes_and_huge_files_are_refused_and_not_waited_for(write: Write, tmp_path: Path) -> None:
    memory = write(f"{SLUG}/memory/a.md", PLAIN.format(name="a")).parent
    os.mkfifo(memory / "pipe.md")
    with (memory / "huge.md").open("wb") as file:
        file.truncate(50 << 20)
    result = scan(tmp_path / "root", {})
    assert [item.title for item in items_of(result).values()] == ["a"]
    assert [refusal.reason.split(":")[0] for refusal in refusals_of(result)] == [
        "the file is too large",
        "it is a named pipe, not a regular file",
    ]


def test_a_name_that_is_not_utf_8_is_refused(write: Write, tmp_path: Path) -> None:
    memory = write(f"{SLUG}/memory/a.md", PLAIN.format(name="a")).parent
    try:
        (memory / os.fsdecode(b"\xe9.md")).write_text(PLAIN, encoding="utf-8")
    except OSError:
        pytest.skip("the file system wants UTF-8")
    (memory / "two\nlines.md").write_text(PLAIN, encoding="utf-8")
    result = scan(tmp_path / "root", {})
    assert [refusal.reason for refusal in refusals_of(result)] == [
        "its name holds control characters or bytes that are not UTF-8"
    ] * 2
    for refusal in refusals_of(result):
        f"{refusal.path} {refusal.key}".encode()
    assert len(scan(tmp_path / "root", stamps_of(result)).unchanged) == 3


@pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not bind root")
def test_what_may_not_be_read_is_refused_until_it_may(write: Write, tmp_path: Path) -> None:
    file = write(f"{SLUG}/memory/a.md", PLAIN.format(name="a"))
    closed = write("-closed/memory/b.md", PLAIN.format(name="b")).parent
    file.chmod(0)
    closed.chmod(0)
    first = scan(tmp_path / "root", {})
    assert len(refusals_of(first)) == 2
    assert first.unreadable == (str(closed),)
    still = scan(tmp_path / "root", stamps_of(first))
    assert still.changed == ()
    assert still.unreadable == (str(closed),)
    file.chmod(0o600)
    closed.chmod(0o700)
    after = scan(tmp_path / "root", stamps_of(first))
    assert sorted(item.title for item in items_of(after).values()) == ["a", "b"]
    assert after.unreadable == ()


def test_a_folder_that_cannot_be_listed_is_unreadable_and_refused(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("-a/memory/a.md", PLAIN.format(name="a"))
    closed = write("-b/memory/b.md", PLAIN.format(name="b")).parent
    real_scandir = os.scandir

    def scandir(path: str) -> object:
        if str(path) == str(closed):
            raise PermissionError(13, "Permission denied")
        return real_scandir(path)

    monkeypatch.setattr(os, "scandir", scandir)
    result = scan(tmp_path / "root", {})
    assert result.unreadable == (str(closed),)
    (refusal,) = refusals_of(result)
    assert (refusal.path, refusal.key) == (str(closed), None)
    assert "Permission denied" in refusal.reason
    assert [item.title for item in items_of(result).values()] == ["a"]
    again = scan(tmp_path / "root", stamps_of(result))
    assert (again.changed, again.unreadable) == ((), (str(closed),))


@pytest.mark.parametrize(
    ("directory", "slug"),
    [
        ("/home/mira/.x", "-home-mira--x"),
        ("C:\\Users\\Mira", "C--Users-Mira"),
        ("/a/v2_rs.Größe", "-a-v2-rs-Gr--e"),
        ("/a/\U0001f600", "-a---"),
    ],
)
def test_a_directory_has_the_slug_that_claude_code_gives_it(directory: str, slug: str) -> None:
    assert slug_of(directory) == slug


def line(cwd: object) -> str:
    return json.dumps({"type": "user", "cwd": cwd, "sessionId": "s"}) + "\n"


@pytest.mark.parametrize(
    ("transcript", "project"),
    [
        (line(CWD), CWD),
        ('{"type":"summary"}\n' + line(CWD), CWD),
        ('{"broken\n\n[1]\n' + line(7) + line("/home/mira/elsewhere") + line(CWD), CWD),
        (line("/home/mira/src.app"), "/home/mira/src.app"),
        (line("/home/mira/elsewhere"), SLUG),
        (line(CWD)[:-5], SLUG),
        ('{"cwd":' + "[" * 5000, SLUG),
        ('{"pad":"' + "x" * 70_000 + '"}\n' + line(CWD), SLUG),
        ("", SLUG),
    ],
)
def test_the_project_is_the_directory_that_transcripts_name_or_the_slug(
    write: Write, tmp_path: Path, transcript: str, project: str
) -> None:
    write(f"{SLUG}/1.jsonl", transcript)
    assert one(write, tmp_path, PLAIN.format(name="a")).project == project


def test_the_newest_transcripts_are_asked_first(write: Write, tmp_path: Path) -> None:
    for name, cwd, mtime in (("old", "/home/mira/src.app", 1), ("new", CWD, 3), ("none", "/else", 4)):
        os.utime(write(f"{SLUG}/{name}.jsonl", line(cwd)), (mtime, mtime))
    assert one(write, tmp_path, PLAIN.format(name="a")).project == CWD


@pytest.mark.timeout(10)
def test_a_transcript_that_is_no_file_does_no_harm(write: Write, tmp_path: Path) -> None:
    os.utime(write(f"{SLUG}/old.jsonl", line(CWD)), (1, 1))
    os.mkfifo(tmp_path / "root" / SLUG / "pipe.jsonl")
    (tmp_path / "root" / SLUG / "link.jsonl").symlink_to("/etc/passwd")
    (tmp_path / "root" / SLUG / "folder.jsonl").mkdir()
    assert one(write, tmp_path, PLAIN.format(name="a")).project == CWD


def test_transcripts_are_read_once_a_silo_and_only_if_something_changed(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(f"{SLUG}/1.jsonl", line(CWD))
    for name in ("a", "b", "c"):
        write(f"{SLUG}/memory/{name}.md", PLAIN.format(name=name))
    opened: list[str] = []
    real_open = os.open

    def recording_open(path: str, *rest: int) -> int:
        opened.append(Path(path).name)
        return real_open(path, *rest)

    monkeypatch.setattr(os, "open", recording_open)
    first = scan(tmp_path / "root", {})
    assert opened.count("1.jsonl") == 1
    opened.clear()
    scan(tmp_path / "root", stamps_of(first))
    assert opened == []


def test_scanning_changes_nothing(write: Write, tmp_path: Path) -> None:
    write(f"{SLUG}/memory/a.md", PLAIN.format(name="a"))
    write(f"{SLUG}/memory/bad.md", "bad")
    before = {path: path.stat() for path in (tmp_path / "root").rglob("*")}
    scan(tmp_path / "root", {})
    after = {path: path.stat() for path in (tmp_path / "root").rglob("*")}
    assert {p: (s.st_mtime_ns, s.st_size) for p, s in before.items()} == {p: (s.st_mtime_ns, s.st_size) for p, s in after.items()}
