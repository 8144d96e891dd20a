"""Make a tenant of a backup."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from memory_assets.errors import NotFoundError
from memory_assets.operations.answers import Answer, LocalTime, counted, listed
from memory_assets.operations.backup import BackupView, open_repository, view_backup

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant


class RestoredBackup(Answer):
    """A tenant that was made of a backup."""

    tenant: str
    backup: BackupView
    memories: int = Field(description="That were written, each compared with what was backed up.")
    relations: int
    files: int
    erased: int = Field(description="Memories that stay out, because their text was erased since the backup.")
    damaged: list[str] = Field(description="What could not be read and was left out.")
    outside: list[Path] = Field(description="Files that were written outside of the data folder.")

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
        return listed([*lines, f"`memory run --tenant {self.tenant}` builds the graph and the scores again."])


def restore_backup(
    tenant: "Tenant",
    place: str | None = None,
    *,
    source: str | None = None,
    as_of: datetime | None = None,
    skip_damaged: bool = False,
    with_settings: bool = False,
) -> RestoredBackup:
    """Make a tenant of the newest backup of `source` at or before `as_of`, as `keeping.restoring` does it.

    Without `source`, the backup is the tenant's own, or that of the only tenant there.

    Raises:
        NotFoundError: there is no such backup.
        InvalidInputError: no place is named.
    """
    from memory_assets.keeping import restoring

    repository = open_repository(tenant.settings, place)
    there = repository.tenants()
    if not there:
        raise NotFoundError(f"{repository.target} holds no backups; `memory backup {repository.target}` takes one.")
    named = source or (tenant.name if tenant.name in there or len(there) > 1 else there[0])
    snapshot = repository.require(named, as_of)
    done = restoring.restore_backup(repository, snapshot, tenant, skip_damaged=skip_damaged, with_settings=with_settings)
    rows = {name: done.rows.get(name, 0) for name in ("memories", "relations")}
    return RestoredBackup.of(done, tenant=tenant.name, backup=view_backup(snapshot), **rows)
