"""A home of its own for a campaign: the sample's files, a data folder, and the `memory` command as a real process."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from memory_assets.settings import Settings
from memory_assets.sources.files import RefusedFileError, decode
from memory_assets.tenants import Tenant

ROOT = Path(__file__).parents[2]
_EACH = """
import json, sys
from memory_assets.cli.main import cli
for arguments in json.load(sys.stdin):
    cli(arguments, standalone_mode=False)
"""
MEMORY = [sys.executable, "-m", "memory_assets.cli"]


@dataclass
class Report:
    """What a campaign tried, and the sentences that say what did not survive."""

    campaign: str
    tried: int = 0
    failures: list[str] = field(default_factory=list)

    def attempt(self, what: str, problem: str | None) -> None:
        """Count one attempt; `problem` says what is wrong, None that nothing is."""
        self.tried += 1
        if problem:
            self.failures.append(f"{what}: {problem}")
            print(f"{self.campaign}: {self.failures[-1]}", flush=True)


class World:
    """One folder with a home and a data folder; nothing outside of it is touched."""

    def __init__(self, folder: Path, tana_url: str = "", tana_token: str = "") -> None:
        self.folder = folder
        self.home, self.data = folder / "home", folder / "data"
        self.home.mkdir(parents=True, exist_ok=True)
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("MEMORY_", "DAGSTER_", "POND_"))},
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.home / ".config"),
            "XDG_DATA_HOME": str(self.home / ".local/share"),
            "MEMORY_DATA_DIR": str(self.data),
            "MEMORY_CLAUDE_PROJECTS_DIR": str(self.home / ".claude/projects"),
            "MEMORY_PAI_SEED": str(self.home / ".pai/seed.json"),
            "MEMORY_PAI_LEARNING_DIR": str(self.home / ".pai/MEMORY/LEARNING"),
            "MEMORY_EMBEDDER": "wordllama",
            **({"MEMORY_TANA_URL": tana_url, "MEMORY_TANA_TOKEN": tana_token} if tana_url else {}),
            "PYTHONPATH": str(ROOT),
        }

    def with_sample(self) -> "World":
        """Copy the sample home here."""
        shutil.copytree(ROOT / "data" / "sample", self.home, dirs_exist_ok=True)
        return self

    def start(self, *arguments: str, given: str = "") -> "subprocess.Popen[str]":
        """Start `memory` with something on its standard input."""
        with tempfile.TemporaryFile() as source:
            source.write(given.encode())
            source.seek(0)
            return subprocess.Popen(
                [*MEMORY, *arguments],
                env=self.environment,
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )

    def run(self, *arguments: str, given: str = "") -> "subprocess.CompletedProcess[str]":
        """Run `memory` to its end."""
        return subprocess.run(
            [*MEMORY, *arguments], env=self.environment, input=given, capture_output=True, text=True, check=False
        )

    def prepare(self, *commands: Sequence[str]) -> None:
        """Do some commands in one process; raises where one of them fails."""
        subprocess.run(
            [sys.executable, "-c", _EACH],
            env=self.environment,
            input=json.dumps(commands),
            stdout=subprocess.DEVNULL,
            text=True,
            check=True,
        )

    def curated_texts(self) -> list[str]:
        """The last paragraph of every file in silos and homes."""
        found = [*self.home.glob(".claude/projects/*/memory/[!.]*.md"), *self.home.glob(".pai/MEMORY/LEARNING/[A-Z]*/[!.]*.md")]
        texts = [_text(path) for path in found if path.name != "MEMORY.md"]
        return [text.strip().rpartition("\n\n")[2] for text in texts]

    def curated(self) -> str:
        """All that silos and homes say."""
        found = [path for place in (".claude/projects", ".pai/MEMORY/LEARNING") for path in (self.home / place).rglob("[!.]*.md")]
        return "\n".join(map(_text, found))

    def tenant(self, name: str = "main") -> Tenant:
        """A tenant's stores, opened anew in this process."""
        return Tenant(Settings(data_dir=self.data, embedder="wordllama"), name)

    def contents(self) -> dict[int, tuple[str, str]]:
        """Id -> text and state of everything that is remembered."""
        rows = self.tenant().memories.scan(("id", "content", "state"))
        return {row["id"]: (row["content"], row["state"]) for row in rows.to_pylist()}

    def remember(self, count: int) -> None:
        """Store some memories with ids 1 to `count`, two relations and a tag among them."""
        lines = self.folder / "lines.jsonl"
        texts = [f"Note {number}: Alice moved part {number} of the billing export to DuckDB." for number in range(1, count + 1)]
        lines.write_text("".join(json.dumps({"id": n, "content": t}) + "\n" for n, t in enumerate(texts, 1)), encoding="utf-8")
        self.prepare(("import", str(lines)), ("relate", "1", "LEADS_TO", "2"))


def _text(path: Path) -> str:
    """What a file says; nothing where it is no text, which nothing takes for a memory."""
    try:
        return decode(path.read_bytes())[0].replace("\r\n", "\n")
    except RefusedFileError:
        return ""


def said_badly(done: "subprocess.CompletedProcess[str]") -> str | None:
    """What is wrong with how a command ended: a traceback, a failure without a sentence, or an end by a signal."""
    if "Traceback (most recent call last)" in done.stderr:
        return f"a traceback: {done.stderr.strip().splitlines()[-1]}"
    if done.returncode not in (0, 1, 2):
        return f"exit code {done.returncode}: {done.stderr.strip()[-200:]}"
    if done.returncode == 1 and not done.stderr.strip() and not done.stdout.strip():
        return "it failed and said nothing"
    return None
