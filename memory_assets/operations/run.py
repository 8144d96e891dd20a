"""Run the pipeline from the sources to scored memories, and recompute memories after a change of embedder or language pipeline."""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import Field

from memory_assets.display import counted
from memory_assets.ingest.stamps import FINGERPRINT_FILE, RunFingerprint
from memory_assets.learn.session_queue import has_queued
from memory_assets.operations.answers import Answer, Instant, LocalTime, View
from memory_assets.tenants import Tenant, sweep_deleted

_SHOWN = {
    "silo_files": ("files_read", "files_unchanged", "files_vanished", "refused"),
    "seed_entries": ("files_read", "files_unchanged", "refused"),
    "learning_entries": ("files_read", "files_unchanged", "files_vanished", "refused"),
    "memory_entries": ("added", "changed", "removed"),
    "extracted_features": ("analysed", "failed"),
    "memories": ("added", "updated", "superseded", "vanished", "returned", "embedded_anew", "not_embedded"),
    "graph_edges": ("memories", "entities", "written"),
    "relevance_scores": ("written", "below_archive_threshold", "woken_from_archive"),
}
"""Step -> figures that the text form shows unless they are zero."""


class StepReport(Answer):
    """Report of one step."""

    asset: str
    metadata: dict[str, Any]

    def text(self, local: LocalTime) -> str:
        shown = _SHOWN.get(self.asset, ())
        figures = [f"{self.metadata[name]} {name.replace('_', ' ')}" for name in shown if self.metadata.get(name)]
        total, seconds = self.metadata.get("dagster/partition_row_count", 0), self.metadata.get("seconds", 0)
        lines = [f"{self.asset:<20}{total:>6} rows  {seconds:>7.2f} s  {', '.join(figures) or 'nothing new'}"]
        if failure := self.metadata.get("analyzer", {}).get("failure"):
            lines.append(f"{'chat model':<20}{failure} The next run asks again.")
        if self.metadata.get("not_embedded"):
            lines.append(f"{'':<20}{local.command('status --refused')} names what the embedder refuses.")
        return "\n".join(lines)


class FailedCheck(View):
    """A broken invariant."""

    name: str
    asset: str
    faults: int
    rows: str = Field(description="The rows that break it.")
    mend: str

    def text(self) -> str:
        return f"The check {self.name} of {self.asset} found {self.faults} fault(s) ({self.rows}): {self.mend}"


class Ran(Answer):
    """Result of a run."""

    unchanged_since: Instant | None = Field(description="End of the last run, if nothing changed since; then no step ran.")
    assets: dict[str, dict[str, Any]] = Field(description="Step -> its report, in the order in which the steps ended.")
    failed_checks: tuple[FailedCheck, ...]

    @property
    def is_empty(self) -> bool:
        return self.assets.get("memories", {}).get("dagster/partition_row_count") == 0

    def text(self, local: LocalTime) -> str:
        if self.unchanged_since:
            return f"Nothing changed since the last run ({local.age(self.unchanged_since)})."
        if self.is_empty:
            return (
                "There is nothing to remember yet: no memory file of Claude Code, no seed.json, no LEARNING store "
                "(`memory doctor --settings` prints their paths). `memory store 'a text'` stores a text."
            )
        return ""


def run(
    tenant: Tenant, on_message: Callable[[str, str], None], on_report: Callable[[StepReport], None], gone: Sequence[Path] = ()
) -> Ran:
    """Run the steps that are due: none if nothing changed, the scores if memories were only recalled, else all steps.

    `on_message` gets (step, message) while steps work, `on_report` each step's report as it ends. `gone` names sources that were removed
    for good: their memories leave recall.
    """
    sweep_deleted(tenant.settings)
    if gone:
        from memory_assets.ingest.scans import drop_path

        for path in gone:
            drop_path(tenant.catalog, path)
    if has_queued(tenant.folder):
        from memory_assets.learn.sessions import remember_sessions

        remember_sessions(tenant)
    left, ended_at = _read_note(tenant)
    before = RunFingerprint.take(tenant)
    if before == left:
        return Ran(unchanged_since=ended_at, assets={}, failed_checks=())
    on_message("Dagster", "starting")
    from memory_assets.defs.runner import run_job

    reports: dict[str, dict[str, Any]] = {}

    def keep(asset: str, metadata: dict[str, Any]) -> None:
        reports[asset] = metadata
        on_report(StepReport(asset=asset, metadata=metadata))

    only_recalled = left and before == replace(left, recalled=before.recalled)
    tenant.catalog.watch()
    versions = tenant.memories.version, tenant.relations.version
    evaluations = run_job(tenant, "decay" if only_recalled else "remember", on_message, keep)
    failed = tuple(
        FailedCheck(
            name=each.check_name,
            asset=each.asset_key.to_user_string(),
            faults=int(str(each.metadata["faults"].value)),
            rows=str(each.metadata["rows"].value),
            mend=each.description or "",
        )
        for each in evaluations
        if not each.passed and each.severity.value == "ERROR" and "rows" in each.metadata
    )
    after = RunFingerprint.take(tenant)
    if before.given == after.given and not failed and _is_settled(tenant, reports, versions):
        note = {"world": asdict(replace(after, recalled=before.recalled)), "ended_at": datetime.now(UTC).isoformat()}
        with suppress(OSError):
            tenant.state.put(FINGERPRINT_FILE, json.dumps(note).encode())
    return Ran(unchanged_since=None, assets=reports, failed_checks=failed)


def _is_settled(tenant: Tenant, reports: dict[str, dict[str, Any]], before: tuple[int, int]) -> bool:
    """Return whether another run would do nothing: no process wrote since the versions `before`, and the models took every text."""
    if not tenant.catalog.is_undisturbed:
        return False
    graph, (memories, relations) = reports.get("graph_edges"), (tenant.memories.version, tenant.relations.version)
    if graph is None:
        return not reports["relevance_scores"]["woken_from_archive"] and (memories, relations) == before
    compared, not_embedded = (reports["memories"][name] for name in ("lance_version", "not_embedded"))
    asked_again = not_embedded or graph["analyzer"].get("failed") or graph["analyzer"].get("failure")
    return not asked_again and (compared, graph["lance_version"], graph["relations_version"]) == (memories, memories, relations)


def _read_note(tenant: Tenant) -> tuple[RunFingerprint | None, datetime | None]:
    try:
        note = json.loads(tenant.state.get(FINGERPRINT_FILE) or b"{}")
        return RunFingerprint(**note["world"]), datetime.fromisoformat(note["ended_at"])
    except (OSError, ValueError, TypeError, KeyError):
        return None, None


class Backfilled(Answer):
    """Counts of recomputed memories, and what recomputed them."""

    pipeline: str
    analysed: int
    embedder: str
    embedded: int

    def text(self, local: LocalTime) -> str:
        return f"{counted(self.analysed)} analysed by {self.pipeline}, {self.embedded} embedded by {self.embedder}."


def backfill(tenant: Tenant, analysing: Callable[[int, int], None], embedding: Callable[[int, int], None]) -> Backfilled:
    """Analyse and embed again the memories that another pipeline or embedder processed; search uses the old vectors meanwhile.

    Both callbacks get (done, total). If the embedder fails, finished batches stay, and the old vectors stay live.
    """
    from memory_assets.ingest.backfill import reanalyse, reembed

    analysed = reanalyse(tenant.memories, tenant.analyzer, analysing)
    embedder = tenant.open_embedder(tenant.settings.embedder)
    embedded = reembed(tenant.memories, embedder, embedding)
    return Backfilled(pipeline=tenant.analyzer.name, analysed=analysed, embedder=embedder.name, embedded=embedded)
