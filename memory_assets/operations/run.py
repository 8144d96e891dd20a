"""What a run of the main job reports, whoever runs it: what each step did, and which checks failed."""

from typing import Any

from pydantic import BaseModel, Field

from memory_assets.operations.answers import Answer, LocalTime, listed

_SHOWN = {
    "silo_files": ("files_read", "files_unchanged", "files_vanished", "refused"),
    "seed_entries": ("files_read", "files_unchanged", "refused"),
    "learning_entries": ("files_read", "files_unchanged", "files_vanished", "refused"),
    "memory_entries": ("added", "changed", "removed"),
    "extracted_features": ("analysed", "failed"),
    "memories": ("added", "updated", "superseded", "vanished", "returned", "embedded_anew"),
    "graph_edges": ("memories", "entities", "written"),
    "relevance_scores": ("written", "below_archive_threshold", "woken_from_archive"),
}
"""Step -> the figures of it that a person wants to see; those that are zero are left out."""


class StepReport(Answer):
    """What one step did."""

    asset: str
    metadata: dict[str, Any]

    def text(self, local: LocalTime) -> str:  # noqa: ARG002
        """One line of figures, and one more where a chat model was away."""
        shown = _SHOWN.get(self.asset, ())
        figures = [f"{self.metadata[name]} {name.replace('_', ' ')}" for name in shown if self.metadata.get(name)]
        total, seconds = self.metadata.get("dagster/partition_row_count", 0), self.metadata.get("seconds", 0)
        lines = [f"{self.asset:<20}{total:>6} rows  {seconds:>7.2f} s  {', '.join(figures) or 'nothing new'}"]
        if failure := self.metadata.get("analyzer", {}).get("failure"):
            lines.append(f"{'chat model':<20}{failure} The next run asks again.")
        return listed(lines)


class FailedCheck(BaseModel):
    """An invariant that does not hold."""

    name: str
    asset: str
    faults: int
    mend: str

    def text(self) -> str:
        """What was found, and what mends it."""
        return f"The check {self.name} of {self.asset} found {self.faults} fault(s): {self.mend}"


class Ran(BaseModel):
    """A run that ended, for programs; people read each step's report as the step ends."""

    assets: dict[str, dict[str, Any]] = Field(description="Step, and what it reported, in the order in which they ended.")
    failed_checks: tuple[FailedCheck, ...]
