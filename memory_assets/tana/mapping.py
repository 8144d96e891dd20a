"""Which Tana node stands for which entry of seed.json: the file of seed 000, FR-18, with exactly its keys."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from memory_assets.errors import StoreError
from memory_assets.sources.dating import utc_time
from memory_assets.stores.files import replace_file

VERSION = 1


@dataclass(slots=True)
class Mapping:
    """The mapping as it is on disk, or empty; what is changed is written by `save`."""

    path: Path
    workspace: str = ""
    """Name or id, as it was configured when it was first written."""
    last_sync: datetime | None = None
    nodes: dict[str, str] = field(default_factory=dict)
    """Seed entry id -> Tana node id."""

    @classmethod
    def load(cls, path: Path) -> "Mapping":
        """Read it.

        Raises:
            StoreError: it is there and not what seed 000 says.
        """
        try:
            said = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return cls(path)
        except (OSError, ValueError) as error:
            raise StoreError(
                f"{path} cannot be read ({error}); restore it, or move it away and run `memory pai sync`."
            ) from error
        nodes = said.get("mappings") if isinstance(said, dict) else None
        if not isinstance(nodes, dict) or not all(isinstance(node, str) for node in nodes.values()):
            raise StoreError(
                f"{path} has no `mappings` of texts to texts; restore it, or move it away and run `memory pai sync`."
            )
        if said.get("version") != VERSION:
            raise StoreError(f"{path} has `version` {said.get('version')!r}, and only {VERSION} is read; update memory_assets.")
        return cls(path, str(said.get("workspace") or ""), utc_time(str(said.get("lastSync") or "")), nodes)

    def save(self) -> None:
        """Replace the file in one step."""
        stamp = self.last_sync and self.last_sync.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        said = {"version": VERSION, "workspace": self.workspace, "lastSync": stamp, "mappings": self.nodes}
        replace_file(self.path, json.dumps(said, ensure_ascii=False, indent=2) + "\n")
