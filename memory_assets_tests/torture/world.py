"""A campaign's own home with its `memory` command, and the campaign's report."""

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memory_assets_tests.torture.oracle import Seen
from memory_assets_tests.torture.zygote import ROOT, Command, Outcome, Zygote


@dataclass
class Report:
    """Attempts and failures of a campaign."""

    campaign: str
    seed: int = 0
    tried: int = 0
    kills: int = 0
    acknowledged: int = 0
    """Number of acknowledged commands and requests; the promise of each is compared with the store."""
    failures: list[str] = field(default_factory=list)

    def attempt(self, what: str, problem: str | None, history: Sequence[str] = ()) -> None:
        """Count one attempt; `problem` describes a failure, None is success; `history` reproduces it."""
        self.tried += 1
        if problem:
            self.failures.append(f"{what}: {problem}")
            print(f"{self.campaign}: FAILED {self.failures[-1]}\n  seed {self.seed}", flush=True)
            for line in history:
                print(f"    {line}", flush=True)


class World:
    """A folder with a home and a data folder; nothing outside it is changed."""

    def __init__(self, zygote: Zygote, folder: Path, **settings: str) -> None:
        self.zygote, self.folder, self.settings = zygote, folder, settings
        self.home, self.data = folder / "home", folder / "data"
        self.home.mkdir(parents=True, exist_ok=True)

    def environment(self, tenant: str = "main") -> dict[str, str]:
        """Return the environment of its commands."""
        left_out = ("MEMORY_", "DAGSTER_", "POND_", "TORTURE_", "OLLAMA_", "OPENAI_")
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith(left_out)},
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.home / ".config"),
            "XDG_DATA_HOME": str(self.home / ".local/share"),
            "MEMORY_DATA_DIR": str(self.data),
            "MEMORY_TENANT": tenant,
            "MEMORY_CLAUDE_PROJECTS_DIR": str(self.home / ".claude/projects"),
            "MEMORY_PAI_SEED": str(self.home / ".pai/seed.json"),
            "MEMORY_PAI_LEARNING_DIR": str(self.home / ".pai/MEMORY/LEARNING"),
            "DAGSTER_DISABLE_TELEMETRY": "1",
            "PYTHONPATH": str(ROOT),
            **self.settings,
        }

    def with_sample(self) -> "World":
        """Copy the sample home here."""
        shutil.copytree(ROOT / "data" / "sample", self.home, dirs_exist_ok=True)
        return self

    def copied(self, folder: Path) -> "World":
        """Copy the world to another folder."""
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.folder, folder, symlinks=True)
        return World(self.zygote, folder, **self.settings)

    def start(self, *arguments: str, tenant: str = "main", **options: Any) -> Command:
        """Fork a command with the options of `Zygote.start`."""
        return self.zygote.start(self.environment(tenant), *arguments, **options)

    def run(self, *arguments: str, tenant: str = "main", **options: Any) -> Outcome:
        """Run a command to its end."""
        return self.start(*arguments, tenant=tenant, **options).wait()

    def must(self, *arguments: str, **options: Any) -> Outcome:
        """Run a command that must succeed."""
        done = self.run(*arguments, **options)
        assert done.code == 0, f"{arguments}: {done.err}"
        return done

    def seen(self, tenant: str = "main") -> Seen:
        """Read a tenant's tables."""
        return Seen.of(self.data / tenant)

    def remember(self, count: int) -> None:
        """Store memories with ids 1 to `count` and one relation."""
        texts = [f"Note {number}: Alice moved part {number} of the billing export to DuckDB." for number in range(1, count + 1)]
        lines = "".join(json.dumps({"id": n, "content": t}) + "\n" for n, t in enumerate(texts, 1))
        self.must("import", "-", given=lines)
        self.must("relate", "1", "LEADS_TO", "2")


def secrets_on_disk(folder: Path, secrets: Sequence[str]) -> str | None:
    """Name a file that contains one of the secrets; None if there is none."""
    wanted = [secret.encode() for secret in secrets]
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            if any(secret in data for secret in wanted):
                return f"{path} contains a secret"
    return None


def same(before: Mapping[Any, Any], after: Mapping[Any, Any]) -> str | None:
    """Describe the difference between two mappings; None if they are equal."""
    wrong = [key for key in before.keys() | after.keys() if before.get(key) != after.get(key)]
    return f"{len(wrong)} differ, {wrong[0]} among them: {before.get(wrong[0])} became {after.get(wrong[0])}" if wrong else None
