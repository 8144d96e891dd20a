"""What the last run left settled: where nothing has changed since, a step reports that again and opens nothing.

A run notes in which state of the world it looked: what it was given before it began, the tables before it compared them for the last
time, and what it has written itself. If all of that is as it was, no step would find anything to do. What one step alone is given,
a source or what was recalled, lets that one look and those after it. A run beside which somebody
else wrote, or that failed a check, notes nothing, and neither does one that asks a chat model, which may answer the next time. The
note holds counts and ids; losing it costs one look.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import wraps
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import dagster as dg

from memory_assets.ingest.stamps import SETTLED, disk_stamp, files_stamp, given_stamp, made_stamp, recalled_stamp
from memory_assets.models import Source
from memory_assets.stores.files import replace_file

if TYPE_CHECKING:
    from memory_assets.defs.resources import MemoryResource
    from memory_assets.settings import Settings
    from memory_assets.tenants import Tenant

    Step = Callable[[dg.AssetExecutionContext, MemoryResource], dg.MaterializeResult]

_DONE = frozenset(
    """
    files_read files_vanished added changed removed analysed failed texts_per_second updated superseded vanished returned
    embedded_anew memories_per_second changed_memories written woken_from_archive
    """.split()  # noqa: SIM905
)
"""Figures of what a run did: a run with nothing to do reports zeros."""


class Settling:
    """What one run finds settled, and what it leaves so."""

    def __init__(self, tenant: "Tenant", on_new_files: Callable[[], None] = lambda: None) -> None:
        """Compare the world with what the last run left.

        Args:
            tenant: whose world.
            on_new_files: called where the sources have changed since then, before anything is opened.

        Raises:
            StoreError: something has changed, and the tables cannot be made ready.
        """
        self._tenant = tenant
        self._reports: dict[str, Any] = {}
        self._checked: list[str] = []
        self._failed = False
        tenant.catalog.watch()
        sources = _source_stamps(tenant.settings)
        self._own = {**sources, "relevance_scores": recalled_stamp(tenant)}
        self._given = given_stamp(tenant)
        self._tables = disk_stamp(tenant.settings, tenant.name)
        last = _read(tenant.folder / SETTLED)
        self._last: Mapping[str, Any] = last if self._tables and last.get("stamp") == self._stamp() else {}
        self._looked = not self._last
        new_files = tenant.is_sources_tenant and not sources.items() <= last.get("own", {}).items()
        if new_files:
            on_new_files()
        if self._looked or new_files:
            tenant.memories.prepare()
            tenant.relations.prepare()
            self._tables = disk_stamp(tenant.settings, tenant.name)

    def report(self, step: str) -> dg.MaterializeResult | None:
        """What a step would report that found nothing to do; None where it has to look, and then all that follow have to."""
        told = None if self._looked else self._last["reports"].get(step)
        if told is None or self._own.get(step) != self._last["own"].get(step):
            self._looked = True
            return None
        self._reports[step] = told
        metadata = dg.deserialize_value(told["materialization"], dg.AssetMaterialization).metadata
        version = told["version"]
        return dg.MaterializeResult(metadata=metadata, data_version=dg.DataVersion(version) if version else None)

    def holds(self, check: str) -> bool:
        """Whether a check held, and nothing has changed since."""
        if self._looked or check not in self._last["checked"]:
            return False
        self._checked.append(check)
        return True

    def keep_report(self, step: str, result: dg.MaterializeResult) -> None:
        """Keep what a step reported that has looked. One that failed has no report, and looks the next time."""
        told = dg.AssetMaterialization(step, metadata=result.metadata)
        figures: dict[str, Any] = {name: each.value for name, each in told.metadata.items()}
        nothing_done: dict[str, Any] = dict.fromkeys(_DONE & figures.keys(), 0)
        if "files_read" in figures:
            nothing_done["files_unchanged"] = figures["files_read"] + figures["files_unchanged"]
        told = dg.AssetMaterialization(step, metadata={**told.metadata, **nothing_done})
        version = result.data_version.value if result.data_version else None
        self._reports[step] = {"version": version, "materialization": dg.serialize_value(told)}

    def keep_check(self, check: str, *, held: bool) -> None:
        """Keep what a check that has looked has found."""
        self._failed |= not held
        self._checked.append(check)

    def have_moved(self) -> bool:
        """Whether the tables have been written since this was asked last: then they are to be compared once more."""
        before, self._tables = self._tables, disk_stamp(self._tenant.settings, self._tenant.name)
        return before != self._tables

    def close(self) -> None:
        """Note what is settled at the end of a run that has looked."""
        tenant = self._tenant
        is_ours = self._tables == disk_stamp(tenant.settings, tenant.name) and tenant.catalog.is_undisturbed
        if self._looked and self._tables and is_ours and not (self._failed or tenant.settings.chat_model):
            note = {"stamp": self._stamp(), "own": self._own, "reports": self._reports, "checked": self._checked}
            with suppress(OSError):
                replace_file(tenant.folder / SETTLED, json.dumps(note))

    def _stamp(self) -> str:
        return f"{self._given} {self._tables} {made_stamp(self._tenant)}"


def unless_settled(step: "Step") -> "Step":
    """Let a step report again what it reported last, where it would find nothing to do."""

    @wraps(step)
    def look(context: dg.AssetExecutionContext, memory: "MemoryResource") -> dg.MaterializeResult:
        started = perf_counter()
        settling = memory.settling(memory.open(context.partition_key))
        if settled := settling.report(step.__name__):
            seconds = {"seconds": round(perf_counter() - started, 3)}
            return settled._replace(metadata={**(settled.metadata or {}), **seconds})
        result = step(context, memory)
        settling.keep_report(step.__name__, result)
        return result

    return look


def _source_stamps(settings: "Settings") -> dict[str, str]:
    """What each step that reads a source is given."""
    return {
        "silo_files": files_stamp(Source.CLAUDE_SILO, settings.claude_projects_dir),
        "seed_entries": files_stamp(Source.PAI_SEED, settings.pai_seed),
        "learning_entries": files_stamp(Source.PAI_LEARNING, settings.pai_learning_dir),
    }


def _read(note: Path) -> dict[str, Any]:
    try:
        found = json.loads(note.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
