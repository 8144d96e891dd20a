"""Put hostile files into every source: the run must end, ingest the good files and account for each of the others."""

import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path

from memory_assets.stores.deferred import import_lancedb
from memory_assets_tests.torture.world import Report, World
from memory_assets_tests.torture.zygote import Zygote

_PATIENCE_SECONDS = 600.0
_FRONT = b"---\nname: x\ndescription: d\ntype: project\n---\n"
FILES: dict[str, bytes] = {
    "empty.md": b"",
    "nothing-but-front.md": _FRONT,
    "brackets.md": _FRONT + b"(" * 50_000,
    "links.md": _FRONT + b"[[" * 50_000,
    "closed-links.md": _FRONT + b"[[a]]" * 20_000,
    "ellipses.md": _FRONT + "…".encode() * 30_000,
    "emoji.md": _FRONT + "🙂".encode() * 20_000,
    "combining.md": _FRONT + b"e" + "\u0301".encode() * 30_000,
    "one-line.md": _FRONT + b"word " * 10_000,
    "no-space.md": _FRONT + b"x" * 800_000,
    "newlines.md": _FRONT + b"\n" * 400_000 + b"end",
    "emphasis.md": _FRONT + b"**a" * 40_000,
    "quotes.md": _FRONT + b"> " * 40_000 + b"deep",
    "list.md": _FRONT + b"".join(b" " * n + b"- a\n" for n in range(500)),
    "null-bytes.md": _FRONT + b"a\x00b\x00c",
    "control.md": _FRONT + b"\x1b[31mred\x1b[0m \x07 bell \x9b",
    "bidi.md": _FRONT + "safe \u202egnp.exe \u2066 x".encode(),
    "latin-1.md": _FRONT + "Über den Wolken".encode("latin-1"),
    "utf-16.md": "\ufeffhello".encode("utf-16"),
    "surrogates.md": _FRONT + b"\xed\xa0\x80 lone",
    "yaml-bomb.md": b"---\na: &a [x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c]\n---\ntext",
    "yaml-tag.md": b"---\nname: !!python/object/apply:os.system ['true']\n---\ntext",
    "yaml-open.md": b"---\nname: [\n---\ntext",
    "front-without-end.md": b"---\nname: x\n" + b"k: v\n" * 5_000,
    "wide-table.md": _FRONT + b"|" * 60_000,
    "html.md": _FRONT + b"<script>" * 10_000,
    "long-name.md": b"---\nname: " + b"n" * 100_000 + b"\ntype: project\n---\ntext",
    "a name with spaces & ünïcode.md": _FRONT + b"fine",
    "regex.md": _FRONT + b"a" * 30_000 + b"!" + b"=" * 30_000,
    "numbers.md": _FRONT + b"9" * 200_000,
    "base64.md": _FRONT + b"QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo" * 8_000,
}
QUICK = ("empty.md", "null-bytes.md", "latin-1.md", "surrogates.md", "yaml-tag.md", "yaml-open.md", "bidi.md")
"""Hostile files that are read in a moment."""
SEEDS: dict[str, bytes] = {
    "not json": b"{",
    "deep": b"[" * 200_000,
    "wrong shapes": json.dumps({"version": "1.0.0", "learned": {"patterns": "x", "insights": [1, None, {"id": []}]}}).encode(),
    "huge number": b'{"version": "1.0.0", "learned": {"patterns": [{"id": "a", "content": "x", "confirmedAt": '
    + b"9" * 5_000
    + b"}]}}",
    "twice": b'{"version": "1.0.0", "version": "9"}',
    "empty": b"",
}


LINKED = {"pipe": "fifo", "endless": "/dev/zero", "folder": "."}
"""Replacements of seed.json: a pipe without a writer, an endless file, a folder."""


def campaign(
    zygote: Zygote, folder: Path, names: Sequence[str] = tuple(FILES), seeds: Sequence[str] = (*SEEDS, *LINKED)
) -> Report:
    """Run with all hostile files next to a good one at once, then with each hostile seed.json."""
    report = Report("hostile files")
    world = World(zygote, folder)
    silo = world.home / ".claude/projects/-home-ada-atlas/memory"
    silo.mkdir(parents=True)
    (world.home / ".pai").mkdir()
    good = "---\nname: good\ndescription: a good file\ntype: project\n---\nThe quokka export runs at noon.\n"
    (silo / "good.md").write_text(good, encoding="utf-8")
    for name in names:
        (silo / name).write_bytes(FILES[name])
    (silo / "link.md").symlink_to("/etc/hostname")
    os.mkfifo(silo / "pipe.md")
    (silo / "folder.md").mkdir()
    for seed in ("", *seeds):
        _plant(world.home / ".pai/seed.json", seed)
        for line in ("run", "doctor", "pai sync --dry-run"):
            done = world.start(*line.split()).wait(_PATIENCE_SECONDS)
            hung = f"it did not end in {_PATIENCE_SECONDS:.0f} s" if done.code == -signal.SIGABRT else None
            failed = done.err.strip()[-200:] if line == "run" and done.code else None
            report.attempt(f"{line} with {seed or 'hostile silo files'}", hung or done.problem or failed)
        found = world.run("search", "quokka export", "--json")
        best = json.loads(found.out)["memories"][:1] if found.code == 0 else []
        report.attempt("the good file beside them", None if best and "quokka" in best[0]["content"] else "it is not found")
    told = world.run("status", "--refused", "--json")
    report.attempt("status", told.problem)
    memories = import_lancedb().connect(world.data / "main/vectors").open_table("memories")
    known = {
        Path(key.partition(":")[2]).name for key in memories.search().select(["source_key"]).to_arrow()["source_key"].to_pylist()
    }
    for name in (*names, "link.md", "pipe.md", "folder.md"):
        accounted = name in known or name in told.out or json.dumps(name)[1:-1] in told.out
        report.attempt(name, None if accounted else "it is neither taken in nor named by status")
    shown = world.run("recent", "-n", "100").out
    report.attempt("what is shown", "raw control characters" if any(sign in shown for sign in "\x1b\x07\x9b\u202e") else None)
    return report


def _plant(path: Path, seed: str) -> None:
    path.unlink(missing_ok=True)
    if LINKED.get(seed) == "fifo":
        os.mkfifo(path)
    elif seed in LINKED:
        path.symlink_to(LINKED[seed])
    elif seed:
        path.write_bytes(SEEDS[seed])
