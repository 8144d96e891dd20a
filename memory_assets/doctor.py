"""What is misconfigured or broken, and the one act that mends it. Looks, and changes nothing but what opening a store creates."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from memory_assets.errors import DamagedError, MemoryAssetsError
from memory_assets.privacy import close_to_others, open_to_others
from memory_assets.stores.keys import KeyStore
from memory_assets.stores.lance import first_line, is_lances
from memory_assets.stores.tables import StoredTable
from memory_assets.tenants import Tenant, deleted_folders, sweep_deleted

_TANA_PATIENCE_S = 1.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    level: Literal["ok", "note", "fault"]
    what: str
    mend: str = ""
    repair: Callable[[], None] | None = None
    """Does what `mend` says, where the program can; `memory doctor --mend` calls it."""


def examine(tenant: Tenant) -> list[Finding]:
    """Look at the data folder, the sources, the language room and the stores of a tenant; what several looks find is told once."""
    findings: dict[str, Finding] = {}
    for look in (
        _data_folder,
        _permissions,
        _deleted,
        _sources,
        _pipeline,
        _tables,
        _embedder,
        _tokens,
        _memories,
        _catalog,
        _keys,
        _tana,
    ):
        findings |= {found.what: found for found in _faults_caught(look, tenant)}
    return list(findings.values())


def _faults_caught(look: Callable[[Tenant], Iterator[Finding]], tenant: Tenant) -> list[Finding]:
    try:
        return list(look(tenant))
    except MemoryAssetsError as error:
        what, _, mend = str(error).partition("; ")
        return [Finding("fault", what, mend)]
    except Exception as error:  # noqa: BLE001  what is broken may break in any way; the other findings are told all the same
        return [Finding("fault", f"Looking at {look.__name__.strip('_')} failed: {type(error).__name__}: {first_line(error)}.")]


def _data_folder(tenant: Tenant) -> Iterator[Finding]:
    folder = tenant.settings.data_dir
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not os.access(existing, os.W_OK):
        yield Finding("fault", f"The data folder {folder} cannot be written.", f"Give yourself write access to {existing}.")
    else:
        yield Finding("ok", f"data folder {folder}")


def _permissions(tenant: Tenant) -> Iterator[Finding]:
    folder = tenant.settings.data_dir
    if opened := open_to_others(folder):
        what = f"{len(opened)} folders and files in {folder} can be read by other users of this machine, {opened[0]} among them."
        yield Finding("fault", what, "Run `memory doctor --mend`.", lambda: close_to_others(folder))


def _deleted(tenant: Tenant) -> Iterator[Finding]:
    if left := deleted_folders(tenant.settings):
        what = f"Deleting a tenant was stopped midway and left {', '.join(map(str, left))}."
        yield Finding("fault", what, "Run `memory doctor --mend`.", lambda: sweep_deleted(tenant.settings))


def _sources(tenant: Tenant) -> Iterator[Finding]:
    settings = tenant.settings
    for path, what, variable in (
        (settings.claude_projects_dir, "Claude Code projects", "MEMORY_CLAUDE_PROJECTS_DIR"),
        (settings.pai_seed, "seed.json", "MEMORY_PAI_SEED"),
        (settings.pai_learning_dir, "LEARNING store", "MEMORY_PAI_LEARNING_DIR"),
    ):
        if path.exists():
            yield Finding("ok", f"{what}: {path}")
        else:
            yield Finding(
                "note",
                f"{what}: {path} does not exist, so nothing comes from it",
                f"If it lies elsewhere, set {variable}.",
            )


def _pipeline(tenant: Tenant) -> Iterator[Finding]:
    yield Finding("ok", f"language pipeline {tenant.analyzer.name}")


def _embedder(tenant: Tenant) -> Iterator[Finding]:
    from memory_assets.language.embedders import describe_choice, spec_in_use

    choice = describe_choice(tenant.settings.embedder)
    if not choice.ready:
        yield Finding("fault", f"The embedder {choice.name} is not ready: {choice.reason}", choice.command or "")
    elif choice.reason:
        yield Finding("note", f"embedder {choice.name}, a fallback: {choice.reason}", choice.command or "")
    else:
        yield Finding("ok", f"embedder {choice.name}{'' if choice.offline else ', which was not asked; `memory health` asks it'}")
    stored = tenant.memories.columns.embedder if tenant.exists else None
    if stored and stored != choice.name:
        spec_in_use(tenant.settings.embedder, stored)
        yield Finding(
            "note",
            f"the memories are still embedded by {stored}, which answers until they are moved to {choice.name}",
            "Run `memory backfill`.",
        )
    elif stored and tenant.memories.columns.outdated:
        yield Finding(
            "note", "the vectors were made by an earlier release: nothing calls alike memories to mind", "Run `memory run`."
        )


def _tokens(_tenant: Tenant) -> Iterator[Finding]:
    from memory_assets.language.tokens import count_tokens

    count_tokens("tokens")
    yield Finding("ok", "token counting with tiktoken")


def _tables(tenant: Tenant) -> Iterator[Finding]:
    if tenant.exists:
        for stored in (tenant.memories.stored, tenant.relations.stored):
            if stored.exists:
                yield from _table(stored)


def _table(stored: StoredTable) -> Iterator[Finding]:
    where, mend = f"table {stored.definition.name!r} in {stored.uri}", "Run `memory doctor --mend`"
    try:
        if lost := stored.lost_versions():
            what = f"The last commits to the {where} are lost: it ends at version {lost[0]} of {lost[1]}."
            yield Finding("fault", what, f"Restore it from a backup. {mend} to go on without them.", stored.accept_lost_versions)
            return
        if indices := stored.lost_indices():
            what = f"Indices of the {where} are lost ({', '.join(indices)})."
            yield Finding("fault", what, f"{mend}, which builds them anew.", stored.rebuild_indices)
        for _ in stored.reading.search().to_batches():
            pass
    except Exception as error:
        if not is_lances(error):
            raise
        yield Finding("fault", f"Rows of the {where} cannot be read ({first_line(error)}).", "Restore it from a backup.")


def _memories(tenant: Tenant) -> Iterator[Finding]:
    if not tenant.exists:
        yield Finding("note", f"tenant {tenant.name} has no memories yet", "Run `memory run` or `memory store TEXT`.")
        return
    from memory_assets.ingest.backfill import outdated

    yield Finding("ok", f"{len(tenant.memories)} memories in {tenant.memories.uri}")
    older = tenant.memories.table.count_rows(outdated(tenant.analyzer))
    if older:
        what = f"{older} memories were analysed by another language pipeline than {tenant.analyzer.name}"
        yield Finding("note", what, "Run `memory backfill`.")
    if tenant.memories.upkeep.is_due():
        yield Finding("note", "the memories' table has gathered small files", "Run `memory run`, which merges them.")


def _catalog(tenant: Tenant) -> Iterator[Finding]:
    if not tenant.catalog.exists:
        yield Finding("note", "nothing is derived yet", "Run `memory run`.")
        return
    try:
        with tenant.catalog.read() as connection:
            (entries,) = connection.execute("SELECT count(*) FROM memory_entries").fetchone() or (0,)
    except DamagedError as error:
        what, mend = str(error).partition(";")[0], "Run `memory doctor --mend`, then `memory run`, which derives it anew."
        yield Finding("fault", what, mend, tenant.catalog.set_aside)
        return
    yield Finding("ok", f"catalog {tenant.catalog.path} with {entries} entries from files")


def _keys(tenant: Tenant) -> Iterator[Finding]:
    if held := KeyStore(tenant.folder).list():
        yield Finding("ok", f"{len(held)} keys over HTTP")


def _tana(tenant: Tenant) -> Iterator[Finding]:
    """Only for those who use it: whether Tana answers, and what waits for it."""
    from memory_assets.tana.client import TanaClient
    from memory_assets.tana.config import in_use, integration
    from memory_assets.tana.ledger import Ledger

    waiting = len(Ledger(tenant.folder).queued())
    if integration(tenant.settings).enabled is False or not (waiting or in_use(tenant.settings)):
        return
    client = TanaClient.open(tenant.settings)
    client.health(timeout=_TANA_PATIENCE_S)
    yield Finding("ok", f"Tana: {client.url}, {len(client.workspaces())} workspaces")
    if waiting:
        yield Finding("note", f"{waiting} changes wait for Tana", "Run `memory pai sync`.")
