"""A small home for every action of an apply: moved, merged, superseded, accepted, rejected and untouched files, and an odd index."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from memory_assets.learn import curation as curation_module
from memory_assets.learn.curation import Curation
from memory_assets.learn.journal import Status
from memory_assets.learn.memory_files import MemoryFiles, read_homes
from memory_assets.learn.reports import Decided
from memory_assets.settings import load_settings
from memory_assets.tenants import Tenant

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
ATLAS, LAB = "-home-ada-atlas", "-home-ada-lab"
INDEX = (
    b"\xef\xbb\xbf# Memory\r\n\r\n- [Port](port.md) \xe2\x80\x94 asked for twice\r\n- [Role](role.md)\n\n## Rules\r\n"
    b"- [Plan first](plan-first.md) - always\r\n- [Tabs](tabs.md) - no\r\nThe staging host is heron.\r\n- [Gone](gone.md)"
)
MARKERS = (
    "8931",
    "keeper of the lighthouse",
    "captain since May",
    "grafana.example",
    "show the plan",
    "quiet mornings",
    "tabs are",
)
"""One distinctive phrase of each memory of the home."""


def write(path: Path, name: str, body: str, kind: str, modified: str = "2026-05-01T10:00:00Z") -> None:
    """Write a valid memory file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f"---\nname: {name}\ndescription: about {name}\nmetadata: \n  node_type: memory\n  type: {kind}\n"
        f"  modified: {modified}\n---\n\n{body}\n",
        encoding="utf-8",
    )


@pytest.fixture
def atlas(tmp_path: Path) -> Path:
    (tmp_path / "atlas" / ".git").mkdir(parents=True)
    return tmp_path / "atlas"


@pytest.fixture
def curated_home(tmp_path: Path) -> Path:
    """Make the home with silos and a LEARNING store; return its folder."""
    home = tmp_path / "home"
    atlas, lab = (home / ".claude/projects" / slug / "memory" for slug in (ATLAS, LAB))
    write(atlas / "port.md", "port", "The service listens on 8931.", "project")
    write(atlas / "role.md", "role", "Ada is the keeper of the lighthouse.", "user", "2026-03-01T10:00:00Z")
    write(lab / "role2.md", "role", "Ada is captain since May.", "user", "2026-05-02T10:00:00Z")
    write(atlas / "graf.md", "graf", "Dashboards: https://grafana.example", "reference")
    write(atlas / "plan-first.md", "plan-first", "Always show the plan first.", "feedback")
    write(lab / "mornings.md", "mornings", "Ada likes quiet mornings.", "feedback")
    write(atlas / "tabs.md", "tabs", "In makefiles tabs are needed.", "feedback")
    (atlas / "plain.md").write_text("no frontmatter")
    (atlas / "MEMORY.md").write_bytes(INDEX)
    (lab / "MEMORY.md").write_text("- [Role](role2.md)\n- [Mornings](mornings.md)\n")
    homes = home / ".pai/MEMORY/LEARNING"
    write(homes / "REFERENCE" / "reference_graf.md", "graf", "Dashboards: https://grafana.example", "reference")
    return home


OpenCuration = Callable[[], Curation]


@pytest.fixture
def open_curation(monkeypatch: pytest.MonkeyPatch) -> OpenCuration:
    """Return a function that opens a curation at a fixed time with reloaded settings; texts embedded together have orthogonal vectors."""

    class Embedder:
        name = "none"

        def embed(self, texts: Sequence[str]) -> np.ndarray:
            return np.eye(len(texts), dtype=np.float32)

    monkeypatch.setattr(Tenant, "embedder", Embedder())
    monkeypatch.setattr(curation_module, "keep_history", lambda _tenant, outdone: len(tuple(outdone)))
    return lambda: Curation(Tenant(load_settings()), NOW)


def decide(curation: Curation, **chosen: Status) -> None:
    """Decide on proposals by name, with dashes written as underscores."""
    by_name = {proposal.name.replace("-", "_"): proposal.id for proposal in curation.decisions().proposals}
    curation.decide([Decided(by_name[name], status) for name, status in chosen.items()])


def tree(*folders: Path) -> dict[str, tuple[int, bytes]]:
    """Return mode and content of every file below some folders, without the catalog, which is derived."""
    return {
        str(path): (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if not path.name.startswith("catalog.duckdb")
    }


def homes_of(curation: Curation) -> MemoryFiles:
    """Read the canonical homes."""
    curation.refresh()
    return read_homes(curation.tenant)
