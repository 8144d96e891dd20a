"""Time `memory learn` over many silo files: check, dry run, apply and undo, each a cold process.

    python benchmarks/learn.py [--files 2000] [--json]

The files are invented: forty silos with indexes that list every file; a quarter of the files are feedback, each worded differently.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

KINDS = ("feedback", "project", "user", "reference")
THINGS = ("export", "ledger", "parser", "deploy", "schema", "queue", "cache", "index", "report", "login", "invoice", "backup")
ACTS = ("test", "rename", "review", "split", "explain", "measure", "document", "roll back", "announce", "lock", "trace", "merge")
REASONS = (
    "it broke on Friday",
    "the review took a week",
    "nobody could read it",
    "the numbers were wrong",
    "Ada asked for it twice",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=2_000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        write_home(home, given.files)
        environment = os.environ | {
            "HOME": folder,
            "MEMORY_DATA_DIR": f"{folder}/data",
            "MEMORY_CLAUDE_PROJECTS_DIR": f"{folder}/.claude/projects",
            "MEMORY_PAI_SEED": f"{folder}/.pai/seed.json",
            "MEMORY_PAI_LEARNING_DIR": f"{folder}/.pai/MEMORY/LEARNING",
        }
        figures = {"files": given.files}
        for name, *arguments in (("check",), ("check again", "check"), ("dry run", "apply", "--dry-run"), ("apply",), ("undo",)):
            started = time.perf_counter()
            before = os.times()
            command = [sys.executable, "-m", "memory_assets.cli", "learn", *(arguments or [name]), "--json"]
            subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
            after = os.times()
            figures[f"{name}, s"] = round(time.perf_counter() - started, 2)
            processor = after.children_user + after.children_system - before.children_user - before.children_system
            figures[f"{name}, processor s"] = round(processor, 2)
    if given.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:<26}{value:>10,}")


def write_home(home: Path, files: int) -> None:
    """Write silos with their indexes, identical at every call."""
    chance = random.Random(7)
    for silo in range(40):
        folder = home / ".claude/projects" / f"-home-ada-work-project-{silo}" / "memory"
        folder.mkdir(parents=True)
        lines = ["# Memory", ""]
        for number in range(silo, files, 40):
            kind = KINDS[number // 40 % 4]
            rule = f"Always {chance.choice(ACTS)} the {chance.choice(THINGS)} before you {chance.choice(ACTS)} the {chance.choice(THINGS)}"
            text = (
                f"{rule} of team {number}.\n\n**Why:** {chance.choice(REASONS)}.\n**How to apply:** see [[note-{number // 2}]].\n"
            )
            (folder / f"note-{number}.md").write_text(
                f"---\nname: note-{number}\ndescription: {rule}\nmetadata: \n  node_type: memory\n  type: {kind}\n---\n\n{text}"
            )
            lines.append(f"- [Note {number}](note-{number}.md) — {rule.lower()}")
        (folder / "MEMORY.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
