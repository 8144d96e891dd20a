"""`MEMORY.md`: its own text is ingested by section, and its pointers become hooks of their files."""

from pathlib import Path
from urllib.parse import unquote

from hypothesis import given, settings
from hypothesis import strategies as st

from memory_assets.models import FileScan, Kind
from memory_assets.sources.claude_silos import scan
from memory_assets_tests.sources.conftest import CWD, SLUG, Write, line

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


@settings(max_examples=60)
@given(st.lists(st.sampled_from([*INDEX.split("\n"), "[[", "- ", "> [[x]]", "=====", "[a](b.md", "    code", "#", "***"])))
def test_no_line_of_an_index_is_lost(write: Write, tmp_path: Path, lines: list[str]) -> None:
    found = parsed_index(write, tmp_path, "start\n" + "\n".join(lines))
    said = "\n".join(item.body + "\n" + item.metadata["section"] + "\n" + item.title for item in found.items)
    for text in lines:
        if (words := text.strip(" #=*->")) and not any(hook.target.rpartition("/")[2] in unquote(text) for hook in found.hooks):
            assert words in said or text.startswith("#") or "```" in text
