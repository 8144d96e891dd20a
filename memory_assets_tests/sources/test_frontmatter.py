"""Frontmatter in all its real forms is read safely."""

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from memory_assets.sources.files import RefusedFileError
from memory_assets.sources.frontmatter import MAX_CHARACTERS, parse


def front(block: str) -> dict[str, object]:
    return parse(f"---\n{block}\n---\nbody\n")[0]


def test_mapping_and_body_are_told_apart() -> None:
    assert parse("---\nname: a\n---\n\nbody\n---\nmore\n") == ({"name": "a"}, "\nbody\n---\nmore\n")


@pytest.mark.parametrize("text", ["", "body", "# Title\n---\nname: a\n---\n", "--- a\nname: b\n---\n", "----\n"])
def test_a_text_without_frontmatter_is_all_body(text: str) -> None:
    assert parse(text) == ({}, text)


def test_blank_lines_before_and_spaces_behind_the_dashes_do_not_matter() -> None:
    assert parse("\n \n---  \nname: a\n---\t\nbody") == ({"name": "a"}, "body")
    assert parse("---\nname: a\n...\nbody") == ({"name": "a"}, "body")
    assert parse("---\n---\nbody") == ({}, "body")
    assert parse("---\nname: a\n---") == ({"name": "a"}, "")


def test_scalars_stay_as_they_are_written() -> None:
    assert front("a: 2026-01-05\nb: 010\nc: yes\nd: 1:30\ne: 12e3\nf: ~\ng:\nh: '~'") == {
        "a": "2026-01-05",
        "b": "010",
        "c": "yes",
        "d": "1:30",
        "e": "12e3",
        "f": "",
        "g": "",
        "h": "~",
    }


@pytest.mark.parametrize(
    ("block", "description"),
    [
        ('description: "quoted: with colon"', "quoted: with colon"),
        ("description: 'it''s quoted'", "it's quoted"),
        ("description: Deploys: never on Fridays", "Deploys: never on Fridays"),
        (
            "description: see https://a.example:8080/x: the dashboard",
            "see https://a.example:8080/x: the dashboard",
        ),
        ("description: `cargo test` first: always", "`cargo test` first: always"),
        ("description: `cargo test` first", "`cargo test` first"),
        ("description: **Never** mock: use the real one", "**Never** mock: use the real one"),
        ("description: *loud* words", "*loud* words"),
        ("description: !important rule", "!important rule"),
        ("description: @mira wants it", "@mira wants it"),
        ("description: 100% sure", "100% sure"),
        ("description: {{placeholder}}", "{{placeholder}}"),
        ("description: see PR #42 for more", "see PR #42 for more"),
        ('description: "path C:\\Users\\mira"', "path C:\\Users\\mira"),
        ('description: "unclosed', '"unclosed'),
        ('description: "one" and "two"', '"one" and "two"'),
        ("description: first line\n  second line", "first line second line"),
        ("description: first: line\n  second: line", "first: line second: line"),
        ("description: first: line\nand on without a key", "first: line and on without a key"),
        ("description: first: paragraph\n\nand another", "first: paragraph and another"),
        ("description: |\n  line: one\n  line two", "line: one\nline two"),
        ("description: >-\n  line: one\n  line two", "line: one line two"),
        ("description:\n  on its own line", "on its own line"),
    ],
)
def test_descriptions_of_every_kind_are_read(block: str, description: str) -> None:
    before_and_after = front(f"name: n\n{block}\ntype: user")
    assert before_and_after.pop("name") == "n"
    assert before_and_after.pop("type") == "user"
    assert str(before_and_after["description"]).strip() == description
    beside_broken = front(f"other: not: yaml\n{block}\ntype: user")
    assert str(beside_broken["description"]).strip() == description
    assert beside_broken["other"] == "not: yaml"


@pytest.mark.parametrize("space", ["", " ", "\t"])
@pytest.mark.parametrize("description", ["plain", "not: yaml"])
def test_nested_metadata_is_read_whether_or_not_the_rest_is_yaml(space: str, description: str) -> None:
    nested = "  node_type: memory\n  type: user\n  modified: 2026-03-01T10:00:00Z"
    block = f"name: n\ndescription: {description}\nmetadata:{space}\n{nested}"
    assert front(block)["metadata"] == {
        "node_type": "memory",
        "type": "user",
        "modified": "2026-03-01T10:00:00Z",
    }


def test_nested_metadata_with_a_line_that_is_not_yaml_is_read() -> None:
    assert front("metadata: \n  type: user\n  why: because: reasons")["metadata"] == {
        "type": "user",
        "why": "because: reasons",
    }


def test_lists_are_read_beside_lines_that_are_not_yaml() -> None:
    assert front("a: b: c\ntags: [x, y]\nmore:\n- one\n- two\nodd:\n  - a: b: c\n  - 'q'") == {
        "a": "b: c",
        "tags": ["x", "y"],
        "more": ["one", "two"],
        "odd": ["a: b: c", "q"],
    }


@pytest.mark.parametrize("tags", ["\n\n- a\n- b", " [a,\n\nb]"])
def test_a_blank_line_in_a_value_that_is_yaml_begins_no_body(tags: str) -> None:
    assert front(f"name: see PR #42\ntags:{tags}") == {"name": "see PR #42", "tags": ["a", "b"]}


def test_comments_are_not_keys() -> None:
    assert front("# note: this\ntype: user # the kind\nx: y: z\n# more") == {"type": "user", "x": "y: z"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("---\nname: a\nbody", "never closed"),
        ("---\n", "never closed"),
        ("---\nname: a\ntype: user\n\nBody.\n\n---\n\nMore.", "not closed before the line `Body.`"),
        ("---\nname: a\ntype: user\n\n# Title\nBody.\n\nNote: this\n\n---\n", "not closed before the line `Body.`"),
        ("---\nname: a\ntype: user\n# Title\nBody at once.\n---\nMore.", "not closed before the line `Body at once.`"),
        ("---\nname: a\ntype: user\n- first\n---\nMore.", "not closed before the line `- first`"),
        ("---\nname: a\ntag: b\n* first\n---\nMore.", "not closed before the line `* first`"),
        ("---\njust prose here\nand more\n---\n", "belongs to no key: `just prose here`"),
        ("---\n- a\n- b\n---\n", "belongs to no key"),
        ("---\na: &x [1]\nb: *x\n---\n", "anchor"),
        ("---\na: &x [1]\nb: *x\nc: d: e\n---\n", "anchor"),
        ("---\na: 1\na: 2\n---\n", "key `a` twice"),
        ("---\na: x: y\na: 2\n---\n", "key `a` twice"),
        ("---\na: " + "[" * 500 + "]" * 500 + "\n---\n", "nested deeper"),
        ('---\nname: "a\\0b"\n---\n', "control character"),
        ("---\na: " + "x" * MAX_CHARACTERS + "\n---\n", "longer than"),
    ],
)
def test_what_cannot_be_read_is_refused_with_reason_and_mend(text: str, reason: str) -> None:
    with pytest.raises(RefusedFileError) as caught:
        parse(text)
    assert caught.value.reason.startswith("unrecognised: ")
    assert reason in caught.value.reason
    assert caught.value.mend
    assert caught.value.location == "frontmatter"


@pytest.mark.timeout(20)
def test_a_yaml_bomb_is_refused_at_once() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    with pytest.raises(RefusedFileError, match="anchor"):
        front("\n".join(lines))


def test_indentation_without_end_is_refused() -> None:
    block = "\n".join("  " * depth + "a:" for depth in range(40)) + " x: y: z"
    with pytest.raises(RefusedFileError, match="nested deeper"):
        front(block)


def only_text_lists_and_mappings(value: object) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and only_text_lists_and_mappings(inner) for key, inner in value.items())
    if isinstance(value, list):
        return all(map(only_text_lists_and_mappings, value))
    return isinstance(value, str)


yaml_pieces = st.lists(
    st.sampled_from(
        [
            *"\n\n\n\n   :::-?&*!|>'\"%@`{}[],#~\t",
            "a: ",
            "type: user",
            "metadata: \n",
            "  b: c",
            "- x",
            "---",
            "<<: ",
            "é",
        ]
    )
    | st.text(max_size=5),
    max_size=40,
).map("".join)


@given(yaml_pieces)
@example("a: \ud800")
@example("? [a]\n: b")
@example("a: b\n\x1f")
def test_nothing_but_a_refusal_is_ever_raised(block: str) -> None:
    try:
        mapping, _ = parse(f"---\n{block}\n---\nbody")
    except RefusedFileError as error:
        assert error.reason.startswith("unrecognised: ")
        return
    assert only_text_lists_and_mappings(mapping)


printable = st.text(st.characters(exclude_categories=("Cc", "Cs", "Co", "Cn"), exclude_characters="\u2028\u2029\ufeff"))


@given(
    st.dictionaries(
        st.from_regex(r"[a-z][a-z_]{0,10}", fullmatch=True),
        st.recursive(
            printable,
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
            max_leaves=5,
        ),
        min_size=1,
        max_size=5,
    ),
    printable,
)
def test_what_a_yaml_writer_writes_is_read_back(mapping: dict[str, object], body: str) -> None:
    text = f"---\n{yaml.safe_dump(mapping, allow_unicode=True)}---\n{body}"
    assert parse(text) == (mapping, body)


@given(st.from_regex(r"[A-Za-z][^\r\n\x00-\x1f\x7f-\x9f]{0,60}", fullmatch=True).map(str.strip))
def test_a_description_of_one_plain_line_is_read_as_it_stands(line: str) -> None:
    assert front(f"description: {line}\nx: not: yaml")["description"] == line
