"""Back up a tenant, list, verify and prune its backups, and restore one."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from shlex import quote

from pydantic import Field

from memory_assets.display import counted
from memory_assets.errors import DamagedError, InvalidInputError, MemoryAssetsError, NotFoundError, SettingsError
from memory_assets.keeping import restoring
from memory_assets.keeping.copying import PLACES, back_up, parse_places
from memory_assets.keeping.erasing import backups_holding
from memory_assets.keeping.repository import Repository, Snapshot
from memory_assets.keeping.restoring import find_damage
from memory_assets.operations.answers import Answer, Instant, LocalTime, View
from memory_assets.settings import Settings
from memory_assets.tenants import Tenant

_UNITS = ("B", "kB", "MB", "GB", "TB")


class BackupView(View):
    """One backup."""

    tenant: str
    taken_at: Instant
    memories: int
    relations: int
    files: int
    bytes: int = Field(description="Size in the repository, including objects that it shares with other backups.")
    added_bytes: int = Field(description="Size that this backup added to the repository.")

    def line(self, local: LocalTime) -> str:
        moment = self.taken_at.astimezone(local.zone)
        return f"{self.tenant}  {moment:%Y-%m-%d %H:%M:%S}  {counted(self.memories)}, {format_bytes(self.bytes)}"


class BackedUp(Answer):
    """A backup that was taken."""

    place: str
    backup: BackupView
    removed: list[Instant] = Field(description="Times of the backups that retention removed.")
    notes: list[str] = Field(description="Sentences about what could not be copied.")

    def text(self, local: LocalTime) -> str:
        added = f"{format_bytes(self.backup.added_bytes)} new" if self.backup.added_bytes else "nothing new"
        lines = [f"Backed up to {self.place}: {self.backup.line(local)} ({added})", *self.notes]
        if self.removed:
            lines.append(f"{counted(len(self.removed), 'old backup', 'old backups')} removed (MEMORY_BACKUP_KEEP).")
        return "\n".join(lines)


class Backups(Answer):
    """The backups in one place."""

    place: str
    backups: list[BackupView]

    def text(self, local: LocalTime) -> str:
        if not self.backups:
            return f"No backups in {self.place}; `memory backup {quote(self.place)}` takes one."
        return "\n".join(each.line(local) for each in self.backups)


class VerifiedBackup(View):
    """Whether a backup can be restored."""

    tenant: str
    backup: BackupView | None = Field(description="None if its manifest is damaged or needs another identity.")
    damage: list[str]
    notes: list[str] = Field(default=[], description="Sentences about what could not be copied when it was taken.")
    opened: bool = Field(description="Whether rows were compared; without the identity of an encrypted backup only bytes are.")

    def lines(self, local: LocalTime) -> list[str]:
        compared = "every row" if self.opened else "every stored byte; MEMORY_BACKUP_IDENTITY lets rows be read too"
        if self.backup and not self.damage:
            return [f"Whole: {self.backup.line(local)} (compared {compared})", *self.notes]
        return [f"{self.tenant}: {each}" for each in (*self.damage, *self.notes)]


class VerifiedBackups(Answer):
    """Whether the newest backups in a place can be restored."""

    place: str
    backups: list[VerifiedBackup]

    @property
    def is_failure(self) -> bool:
        return any(each.damage for each in self.backups)

    def text(self, local: LocalTime) -> str:
        return "\n".join(line for each in self.backups for line in each.lines(local))


def backup(tenant: Tenant, place: str | None = None) -> BackedUp:
    """Take a backup of a tenant, and remove the backups that retention does not keep."""
    repository = open_repository(tenant.settings, place)
    snapshot, gone = back_up(tenant, repository)
    return BackedUp(
        place=repository.target, backup=view_backup(snapshot), removed=[each.taken_at for each in gone], notes=snapshot.notes
    )


def list_backups(settings: Settings, place: str | None = None) -> Backups:
    """List the backups of all tenants in a place."""
    repository = open_repository(settings, place)
    return Backups(place=repository.target, backups=[view_backup(each) for each in repository.snapshots()])


def verify(settings: Settings, place: str | None, tenant: str | None, as_of: datetime | None = None) -> VerifiedBackups:
    """Compare every byte and row of the newest backup, at `as_of` or now, of a tenant, else of every tenant that has one in the place."""
    repository = open_repository(settings, place)
    found: list[VerifiedBackup] = []
    names = [tenant] if tenant else repository.tenants() or [settings.tenant]
    for name in names:
        try:
            found.append(_verify_newest(repository, name, as_of))
        except NotFoundError:
            if not found and name == names[-1]:
                raise
        except (DamagedError, SettingsError) as error:
            found.append(VerifiedBackup(tenant=name, backup=None, damage=[str(error)], opened=False))
    return VerifiedBackups(place=repository.target, backups=found)


def _verify_newest(repository: Repository, tenant: str, as_of: datetime | None) -> VerifiedBackup:
    snapshot = repository.require(tenant, as_of)
    opened = repository.can_decrypt(snapshot)
    damage = find_damage(repository, snapshot, decrypting=opened)
    return VerifiedBackup(tenant=tenant, backup=view_backup(snapshot), damage=damage, notes=snapshot.notes, opened=opened)


def open_repository(settings: Settings, place: str | None) -> Repository:
    """Open the repository in a place, by default the settings' place."""
    place = place or settings.backup_to
    if not place:
        raise InvalidInputError("Name the place of the backups, such as `memory backup /media/stick`, or set MEMORY_BACKUP_TO.")
    return Repository.of(settings, place)


def sources_of(tenant: Tenant) -> list[tuple[str, str]]:
    """Return all places of backups of this tenant, and the settings' place, each with the tenant that was backed up there."""
    recorded, here = parse_places(tenant.state.get(PLACES), tenant.name), tenant.settings.backup_to
    return list(dict.fromkeys([*recorded, *([(here, tenant.name)] if here else [])]))


def find_backups(tenant: Tenant, ids: Sequence[int], files: Sequence[str] = ()) -> list[str]:
    """Return the backups of `backups_holding`, and the places that could not be read."""
    found: list[str] = []
    for place, source in sources_of(tenant) if ids or files else ():
        try:
            repository = open_repository(tenant.settings, place)
            if source not in repository.tenants():
                found.append(f"{place}, perhaps: it cannot be found")
            found += [f"{place}/snapshots/{name}" for name in backups_holding(repository, source, ids, files)]
        except MemoryAssetsError as error:
            found.append(f"{place}, perhaps: {error}")
    return found


def places_of(tenant: Tenant) -> list[str]:
    """Return all places to which this tenant was ever backed up, or from which it was restored, and the settings' place."""
    return list(dict.fromkeys(place for place, _ in sources_of(tenant)))


def view_backup(snapshot: Snapshot) -> BackupView:
    """Make the view of a backup's manifest."""
    rows = {name: snapshot.tables[name].rows if name in snapshot.tables else 0 for name in ("memories", "relations")}
    return BackupView.of(snapshot, files=len(snapshot.files), bytes=snapshot.stored_bytes, **rows)


def format_bytes(number: int) -> str:
    """Render a size in bytes with a decimal unit."""
    power = min(len(_UNITS) - 1, (len(str(number)) - 1) // 3)
    return f"{number / 1000**power:.{min(power, 1)}f} {_UNITS[power]}"


class RestoredBackup(Answer):
    """A tenant that was restored from a backup."""

    tenant: str
    backup: BackupView
    memories: int = Field(description="Restored memories, each compared with the backup.")
    relations: int
    files: int
    erased: int = Field(description="Memories left out, because their text was erased since the backup.")
    damaged: list[str] = Field(description="Parts that could not be read and were left out.")
    outside: list[Path] = Field(description="Files that were written outside the data folder.")

    @property
    def is_failure(self) -> bool:
        return bool(self.damaged)

    def text(self, local: LocalTime) -> str:
        moment = self.backup.taken_at.astimezone(local.zone)
        contents = f"{counted(self.memories)}, {counted(self.relations, 'relation', 'relations')}, {counted(self.files, 'file', 'files')}"
        lines = [f"Restored the tenant {self.tenant} as of {moment:%Y-%m-%d %H:%M:%S}: {contents}; every row was compared."]
        if self.erased:
            lines.append(f"{counted(self.erased)} left out, erased since.")
        lines += [f"Left out: {each}" for each in self.damaged]
        lines += [f"Written: {path}" for path in self.outside]
        return "\n".join([*lines, f"`memory run --tenant {self.tenant}` builds the graph and the scores again."])


def restore_backup(
    tenant: Tenant,
    place: str | None = None,
    *,
    source: str | None = None,
    as_of: datetime | None = None,
    skip_damaged: bool = False,
    settings_file: Path | None = None,
) -> RestoredBackup:
    """Restore a tenant from the newest backup of the tenant `source` at or before `as_of`; see `keeping.restoring`.

    `source` defaults to the tenant itself, or to the only tenant in the repository.
    """
    repository = open_repository(tenant.settings, place)
    there = repository.tenants()
    if not there:
        raise NotFoundError(f"{repository.target} holds no backups; name the place to which `memory backup` wrote them.")
    named = source or (tenant.name if tenant.name in there or len(there) > 1 else there[0])
    snapshot = repository.require(named, as_of, skip_damaged=skip_damaged)
    done = restoring.restore_backup(repository, snapshot, tenant, skip_damaged=skip_damaged, settings_file=settings_file)
    rows = {name: done.rows.get(name, 0) for name in ("memories", "relations")}
    return RestoredBackup.of(done, tenant=tenant.name, backup=view_backup(snapshot), **rows)
