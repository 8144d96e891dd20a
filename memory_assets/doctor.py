"""Find configuration errors and damage, and say how to mend each. Changes nothing."""

import os
import shlex
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Literal

from memory_assets.display import counted
from memory_assets.errors import DamagedError, MemoryAssetsError, StoreError, describe_lack, first_line
from memory_assets.graph.analyzer import ChatModel, ChatModelError
from memory_assets.hook_settings import absolute_path, config_file, read_settings_file
from memory_assets.ingest.backfill import outdated
from memory_assets.install.claude_code import find_hooks_off, memory_directory, unread_projects
from memory_assets.invariants import INVARIANTS, Invariant
from memory_assets.keeping.encryption import Cipher
from memory_assets.language.embedders import EmbedderError, describe_choice, spec_in_use
from memory_assets.language.languages import ENGLISH, recognise
from memory_assets.language.tokens import count_tokens
from memory_assets.learn.brief import NAME as BRIEF
from memory_assets.learn.brief import is_of_another_release, parse_brief
from memory_assets.learn.briefing import renew_brief
from memory_assets.learn.noted import read_noted
from memory_assets.privacy import close_to_others, closed_to_us, open_to_others
from memory_assets.settings import unknown_names
from memory_assets.stores import lance
from memory_assets.stores.files import disk_fault, find_disk_error
from memory_assets.stores.filters import Filters
from memory_assets.stores.keys import KeyStore
from memory_assets.stores.layout import unlisted_files
from memory_assets.stores.records import explain_failure, find_damage, instance_home, set_aside_damaged
from memory_assets.stores.rows import find_altered
from memory_assets.stores.state import ID
from memory_assets.stores.tables import StoredTable
from memory_assets.stores.tombstones import Tombstones
from memory_assets.tana.client import TanaClient
from memory_assets.tana.config import in_use, integration
from memory_assets.tana.state import SyncRecord
from memory_assets.tenants import Tenant, open_states, own_paths, sweep_deleted

_TANA_PATIENCE_S = 1.0
_SERVICE_PATIENCE_S = 10.0
_OVERDUE = {"daily": timedelta(days=2), "weekly": timedelta(days=8)}
"""MEMORY_BACKUP_EVERY -> age from which the newest backup is overdue."""
_MOST_NAMED = 5
_SAMPLED, _SAMPLED_CHARACTERS, _LEAST_SAMPLED = 200, 400, 20
"""Memories of which the language is looked at, characters of each, and memories from which most count."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check."""

    level: Literal["ok", "note", "fault"]
    what: str
    mend: str = ""
    repair: Callable[[], object] | None = None
    """Carries out `mend` for `memory doctor --mend`; None if only a person can."""


def examine(tenant: Tenant) -> list[Finding]:
    """Check a tenant's data folder, sources, language pipeline and stores; return each finding once."""
    findings: dict[str, Finding] = {}
    for look in (
        _settings,
        _store_id,
        _data_folder,
        _permissions,
        _leftovers,
        _sources,
        _backups,
        _language,
        _tables,
        _embedder,
        _chat_model,
        _memories,
        _language_of_memories,
        _catalog,
        _migrations,
        _records,
        _brief,
        _keys,
        _tana,
    ):
        for found in _run_check(look, tenant):
            findings.setdefault(found.what, found)
    # Keep the catalog open: opening it takes longer than one check. `_catalog` has reported why it cannot be read.
    with suppress(MemoryAssetsError), tenant.catalog.interactive.read():
        for invariant in INVARIANTS if tenant.exists else ():
            looks = _run_check(partial(_invariant, invariant=invariant), tenant, invariant.name)
            for found in looks:
                findings.setdefault(found.what, found)
    return list(findings.values())


def _invariant(tenant: Tenant, invariant: Invariant) -> Iterator[Finding]:
    if found := invariant.find(tenant):
        more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
        yield Finding(
            "note" if invariant.is_warning else "fault",
            f"{invariant.broken or f'This rule is broken: {invariant.promise}'} ({', '.join(found[:_MOST_NAMED])}{more})",
            invariant.mend,
            partial(invariant.repair, tenant) if invariant.repair else None,
        )


def _run_check(look: Callable[[Tenant], Iterator[Finding]], tenant: Tenant, name: str = "") -> list[Finding]:
    found: list[Finding] = []
    try:
        found.extend(look(tenant))
    except MemoryAssetsError as error:
        found.append(_parse_fault(str(error)))
    except Exception as error:  # noqa: BLE001  damage may raise anything; the other checks still run
        name = name or look.__name__.strip("_")
        unknown = f"Checking {name} failed: {type(error).__name__}: {first_line(error)}."
        found.append(_parse_fault(lack) if (lack := describe_lack(error)) else Finding("fault", unknown))
    return found


def _parse_fault(sentence: str) -> Finding:
    """Make a finding of an error message: the fault, a semicolon, the mend."""
    what, _, mend = sentence.partition("; ")
    return Finding("fault", what, mend)


def _settings(tenant: Tenant) -> Iterator[Finding]:
    path = config_file()
    yield Finding("ok", f"settings file {path}{'' if path.exists() else ', which does not exist'}")
    yield from (replace(_parse_fault(sentence), level="note") for sentence in unknown_names(read_settings_file()))
    if "://" in (tenant.settings.vectors_uri or "") and not tenant.settings.state_uri:
        what = (
            "MEMORY_VECTORS_URI is set without MEMORY_STATE_URI, so no other machine finds the memories that this one keeps there"
        )
        yield Finding("note", what, "To share them, set MEMORY_STATE_URI and MEMORY_CATALOG_URI, too.")


def _data_folder(tenant: Tenant) -> Iterator[Finding]:
    folder = tenant.settings.data_dir
    if fault := disk_fault(folder, has_tables=tenant.location.is_folder):
        what, _, mend = fault.partition("; ")
        yield Finding("fault", f"The data folder {folder} cannot be written: {what[0].lower()}{what[1:]}.", mend)
    else:
        yield Finding("ok", f"data folder {folder}")


def _permissions(tenant: Tenant) -> Iterator[Finding]:
    folder, own = tenant.settings.data_dir, own_paths(tenant.settings)
    places = {each for each in (*own, tenant.folder, tenant.location.path) if each.exists()}
    places = {each for each in places if places.isdisjoint(each.parents)}
    if closed := sorted(path for each in places for path in closed_to_us(each)):
        user, where = os.geteuid(), shlex.join(map(str, sorted(places)))
        owners = set[int]()
        for path in closed:
            with suppress(OSError):
                owners.add(path.lstat().st_uid)
        more = f" and {len(closed) - _MOST_NAMED} more" if len(closed) > _MOST_NAMED else ""
        what = f"You may not read and write {', '.join(map(str, closed[:_MOST_NAMED]))}{more}"
        mend, end = f"chmod -R u+rwX {where}", "."
        if owners - {user}:
            mend, end = f"sudo chown -R {user} {where} && {mend}", ". Another user (perhaps root) wrote there."
        yield Finding("fault", f"{what}{end}", f"Run `{mend}`.")
    opened, close = [path for each in own for path in open_to_others(each)], partial(close_to_others, *own)
    if opened == [folder]:
        what = f"other users of this machine can list the names in {folder}, but read nothing"
        yield Finding("note", what, "Run `memory doctor --mend`.", close)
    elif opened:
        what = f"{len(opened)} folders and files in {folder} can be read by other users of this machine, {opened[0]} among them."
        yield Finding("fault", what, "Run `memory doctor --mend`.", close)


def _leftovers(tenant: Tenant) -> Iterator[Finding]:
    if left := [each for each in open_states(tenant.settings).deleted() if not each.is_swept]:
        what = f"Deleting a tenant was stopped midway and left {', '.join(each.where for each in left)}."
        yield Finding("fault", what, "Run `memory doctor --mend`.", lambda: sweep_deleted(tenant.settings))
    if Tombstones(tenant.state).unfinished:
        yield Finding("fault", "An erasure was stopped midway; some of the text may be left.", "Run `memory erase`.")
    if unlisted := unlisted_files(tenant.folder):
        what = f"{len(unlisted)} files in {tenant.folder} are not the program's, and no backup holds them: {', '.join(unlisted[:3])}."
        yield Finding("note", what, "Move them elsewhere.")


def _sources(tenant: Tenant) -> Iterator[Finding]:
    settings = tenant.settings
    for path, kind, what, variable in (
        (settings.claude_projects_dir, "folder", "Claude Code projects", "MEMORY_CLAUDE_PROJECTS_DIR"),
        (settings.pai_seed, "file", "seed.json", "MEMORY_PAI_SEED"),
        (settings.pai_learning_dir, "folder", "LEARNING store", "MEMORY_PAI_LEARNING_DIR"),
    ):
        why = f"is no {kind}" if path.exists() else "does not exist"
        missing = Finding("note", f"{what}: {path} {why}, so it is not read", f"If it is elsewhere, set {variable}.")
        yield Finding("ok", f"{what}: {path}") if (path.is_file() if kind == "file" else path.is_dir()) else missing
    if unread := unread_projects(settings.claude_projects_dir):
        what = f"Claude Code writes memory files below {unread} (CLAUDE_CONFIG_DIR), which is not read"
        yield Finding("note", what, "Set MEMORY_CLAUDE_PROJECTS_DIR to that folder in memory.toml.")
    moved = memory_directory()
    if moved and moved.value and not Path(absolute_path(moved.value)).is_relative_to(settings.claude_projects_dir):
        what = f"{moved.name} in {moved.path} moves Claude Code's memory files to {moved.value}, which is not read"
        yield Finding("note", what, f"{moved.mend}, so that each project has its own folder.")
    if off := find_hooks_off():
        what = f"Claude Code runs no hooks of the plugin, as {off.path} sets {off.name}: sessions are told nothing and leave no summary"
        yield Finding("note", what, f"{off.mend}.")


def _backups(tenant: Tenant) -> Iterator[Finding]:
    cipher = Cipher.of(tenant.settings)
    if cipher.recipient:
        cipher.check()
        yield Finding("ok", "backups are encrypted")
    if cipher.identity and not os.access(cipher.identity, os.R_OK):
        what = f"the age identity {cipher.identity} is missing or cannot be read, so no encrypted backup can be restored now"
        yield Finding("note", what, "If it is elsewhere, set MEMORY_BACKUP_IDENTITY.")
    if tenant.settings.backup_to and tenant.exists:
        yield _newest_backup(tenant, tenant.settings.backup_to)


def _newest_backup(tenant: Tenant, place: str) -> Finding:
    from memory_assets.keeping.repository import Repository

    repository = Repository.of(tenant.settings, place)
    if "://" not in place and (error := find_disk_error(Path(repository.target))):
        return Finding("fault", f"Backups cannot be kept in {place} ({error.strerror}).", "Mend it, or set MEMORY_BACKUP_TO.")
    if (newest := repository.newest(tenant.name)) is None:
        return Finding("note", f"{place} holds no backup of the tenant {tenant.name} yet", "Run `memory backup`.")
    age = datetime.now(UTC) - newest.taken_at
    if age > _OVERDUE[tenant.settings.backup_every]:
        what = f"The newest backup of the tenant {tenant.name} in {place} is {age.days} days old."
        return Finding("fault", what, "Run `memory backup`, which says why none can be taken, and keep `memory up` running.")
    return Finding("ok", f"newest backup in {place}: {newest.taken_at:%Y-%m-%d %H:%M} UTC")


def _language(tenant: Tenant) -> Iterator[Finding]:
    yield Finding("ok", f"language pipeline {tenant.analyzer.name}")
    count_tokens("tokens")
    yield Finding("ok", "token counting with tiktoken")


def _embedder(tenant: Tenant) -> Iterator[Finding]:
    choice = describe_choice(tenant.settings.embedder)
    if not choice.ready:
        yield Finding("fault", f"The embedder {choice.name} is not ready: {choice.reason}", choice.command or "")
    elif choice.offline:
        yield Finding("ok", f"embedder {choice.name}")
    else:
        yield _remote_embedder(tenant, choice.name)
    network = describe_choice("bge-small")
    if choice.name != network.name and not network.ready:
        what = f"The network that reads hits and compares texts is not ready: {network.reason}"
        yield Finding("fault", what, network.command or "")
    stored = tenant.memories.columns.embedder if tenant.exists else None
    if stored and stored != choice.name:
        is_shared = bool(tenant.settings.state_uri)
        spec_in_use(tenant.settings.embedder, stored, is_shared=is_shared)
        what = f"the memories are still embedded by {stored}, which answers until they are moved to {choice.name}"
        yield Finding("note", what, "Set the same MEMORY_EMBEDDER on all hosts." if is_shared else "Run `memory backfill`.")
    elif stored and tenant.memories.columns.outdated:
        what = "the vectors were made by an earlier release, so similar memories are not found when one is stored"
        yield Finding("note", what, "Run `memory run`.")


def _remote_embedder(tenant: Tenant, name: str) -> Finding:
    patience = min(tenant.settings.embedding_timeout, _SERVICE_PATIENCE_S)
    settings = tenant.settings.model_copy(update={"embedding_timeout": patience})
    try:
        Tenant(settings, tenant.name).open_embedder(settings.embedder).embed(["health"])
    except EmbedderError as error:
        return _parse_fault(str(error))
    return Finding("ok", f"embedder {name}, which answers")


def _chat_model(tenant: Tenant) -> Iterator[Finding]:
    if chosen := tenant.settings.chat_model:
        try:
            ChatModel(tenant.settings, chosen, _SERVICE_PATIENCE_S).check()
        except ChatModelError as error:
            yield _parse_fault(str(error))
        else:
            yield Finding("ok", f"chat model {chosen}, which is there")


def _tables(tenant: Tenant) -> Iterator[Finding]:
    for stored in (tenant.memories.stored, tenant.relations.stored):
        yield from _table(stored)


def _table(stored: StoredTable) -> Iterator[Finding]:
    where, mend = f"table {stored.definition.name!r} in {stored.uri}", "Run `memory doctor --mend`"
    try:
        with stored.explaining_errors():
            if loss := stored.find_loss():
                yield replace(_parse_fault(loss), repair=stored.accept_loss)
                return
            if not stored.exists:
                return
            if indices := stored.lost_indices():
                what = f"Indices of the {where} are lost ({', '.join(indices)})."
                yield Finding("fault", what, f"{mend}, which builds them anew.", stored.rebuild_indices)
            if orphans := stored.find_orphans():
                what = f"Writes to the {where} that failed or were killed left {counted(len(orphans), 'file', 'files')} that nothing uses."
                yield Finding("note", what, f"{mend}.", partial(stored.find_orphans, remove=True))
            altered: list[int] = []
            for batch in lance.scan(stored.reading).to_batches():
                altered += find_altered(batch) if "content_hash" in batch.schema.names else []
            if altered:
                named = f"{', '.join(map(str, altered[:_MOST_NAMED]))}{' …' if len(altered) > _MOST_NAMED else ''}"
                what = f"The {where} is damaged: the texts of {counted(len(altered))} are not those that were stored ({named})."
                yield Finding("fault", what, "Correct them with `memory edit`, or restore them from a backup.")
    except StoreError as error:
        yield _parse_fault(str(error))


def _memories(tenant: Tenant) -> Iterator[Finding]:
    if not tenant.exists:
        yield Finding("note", f"tenant {tenant.name} has no memories yet", "Run `memory run` or `memory store TEXT`.")
        return
    with tenant.memories.stored.explaining_errors():
        older = tenant.memories.table.count_rows(outdated(tenant.analyzer))
    yield Finding("ok", f"{len(tenant.memories)} memories in {tenant.memories.uri}")
    if older:
        what = f"{older} memories were analysed by another language pipeline than {tenant.analyzer.name}"
        yield Finding("note", what, "Run `memory backfill`.")
    if tenant.memories.upkeep.is_due():
        yield Finding("note", "the memories' table has gathered small files", "Run `memory run`, which merges them.")


def _language_of_memories(tenant: Tenant) -> Iterator[Finding]:
    """Name the embedder for other languages if at least half of the memories are not in English."""
    if not tenant.exists or describe_choice(tenant.settings.embedder).name != describe_choice("bge-small").name:
        return
    texts = tenant.memories.scan(("content",), Filters().sql(), _SAMPLED)["content"].to_pylist()
    foreign = sum(recognise(text[:_SAMPLED_CHARACTERS]) not in (None, ENGLISH) for text in texts)
    if len(texts) >= _LEAST_SAMPLED and 2 * foreign >= len(texts):
        command = describe_choice("e5-multilingual").command
        what = (
            f"{foreign} of {len(texts)} memories are not in English, the language of the embedder; use `e5-multilingual` for them"
        )
        install = f"Run `{command}`, set" if command else "Set"
        yield Finding("note", what, f"{install} MEMORY_EMBEDDER=e5-multilingual, and run `memory backfill`.")


def _catalog(tenant: Tenant) -> Iterator[Finding]:
    if not tenant.catalog.exists:
        yield Finding("note", "nothing is derived yet", "Run `memory run`.")
        return
    catalog = tenant.catalog.interactive
    if damage := catalog.find_damage():
        mend = "Run `memory doctor --mend`, then `memory run`, which derives it anew."
        yield Finding("fault", f"{catalog.where} is damaged ({damage}).", mend, catalog.set_aside)
        return
    ((entries,),) = catalog.fetch("SELECT count(*) FROM memory_entries")
    yield Finding("ok", f"{catalog.where.removeprefix('The ')} with {entries} entries from files")


def _migrations(tenant: Tenant) -> Iterator[Finding]:
    if names := tenant.catalog.interactive.waiting_migrations():
        wait = counted(len(names), "migration", "migrations")
        yield Finding("note", f"{wait} of the catalog to be made: {', '.join(names)}", "Run `memory run`.")


def _records(tenant: Tenant) -> Iterator[Finding]:
    home = instance_home(tenant.settings)
    try:
        damages = find_damage(home, thorough=True)
    except sqlite3.OperationalError as error:
        yield _parse_fault(explain_failure(home, error))
        return
    for name, damage in damages.items():
        what = f"Dagster's records in {home / name} are damaged ({damage}); no memory needs them."
        set_aside = partial(set_aside_damaged, home, thorough=True)
        yield Finding("fault", what, "Run `memory doctor --mend`, which sets them aside.", set_aside)


def _brief(tenant: Tenant) -> Iterator[Finding]:
    brief = tenant.state.get(BRIEF)
    renew, where = partial(renew_brief, tenant), tenant.state.where(BRIEF)
    if brief is not None and is_of_another_release(brief):
        what = f"{where} is of another release; until it is written anew sessions are told nothing at their start"
        yield Finding("note", what, "Run `memory run`.", renew)
    elif brief is not None and parse_brief(brief) is None:
        what = f"{where} cannot be read, so sessions are told nothing at their start."
        yield Finding("fault", what, "Run `memory doctor --mend`, which writes it anew.", renew)
    read_noted(tenant.folder)


def _keys(tenant: Tenant) -> Iterator[Finding]:
    if keys := KeyStore(tenant.state).list():
        yield Finding("ok", f"{counted(len(keys), 'key', 'keys')} over HTTP")


def _store_id(tenant: Tenant) -> Iterator[Finding]:
    """Check the store's id, before the checks that fail with it. In object storage it is part of the tables' path."""
    try:
        tenant.state.look()
    except DamagedError as error:
        what = str(error).partition("; ")[0]
        if tenant.location.is_folder:
            mend = "Run `memory doctor --mend`, which removes it; the next writing makes another."
            yield Finding("fault", what, mend, partial(tenant.state.remove, ID))
        else:
            mend = f'Write {{"id": "ID"}} into it: the folder of the tables is {tenant.location.base}-ID.'
            yield Finding("fault", what, mend)


def _tana(tenant: Tenant) -> Iterator[Finding]:
    waiting = len(SyncRecord.load(tenant.folder).queue)
    if integration(tenant.settings).enabled is False or not (waiting or in_use(tenant.settings)):
        return
    if waiting:
        yield Finding("note", f"{counted(waiting, 'change waits', 'changes wait')} for Tana", "Run `memory pai sync`.")
    client = TanaClient.open(tenant.settings)
    client.health(timeout=_TANA_PATIENCE_S)
    yield Finding("ok", f"Tana: {client.url}, {counted(len(client.workspaces()), 'workspace', 'workspaces')}")
