"""Tenants: separate memories in one data folder. A tenant is a folder there, so its name must be a safe folder name."""

import logging
import re
from collections.abc import Callable
from contextlib import suppress
from difflib import get_close_matches
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from memory_assets.errors import DamagedError, InvalidInputError, NotFoundError, StoreBusyError, StoreError, UnansweredError
from memory_assets.models import TENANT_PATTERN
from memory_assets.privacy import refuse_link
from memory_assets.stores.layout import FOLDERS, read_known_names
from memory_assets.stores.state import PARTS, FileStates

if TYPE_CHECKING:
    from memory_assets.language.embedders import Embedder
    from memory_assets.language.pipeline import Analyzer
    from memory_assets.models import NewMemory
    from memory_assets.operations.store import StoredMemory
    from memory_assets.settings import Settings
    from memory_assets.stores.catalog import Catalog
    from memory_assets.stores.group_commit import GroupCommit
    from memory_assets.stores.location import Location
    from memory_assets.stores.memories import MemoryStore
    from memory_assets.stores.relations import RelationStore
    from memory_assets.stores.state import TenantState, TenantStates

_log = logging.getLogger(__name__)
Result = TypeVar("Result")

RESERVED_TENANTS = frozenset({"api", "con", "aux", "nul", "prn", "com1", "lpt1", "health", "dagster", "cache", "keys", "tmp"})

_MARKS = ("vectors/*.lance", "catalog.duckdb", "keys/[0-9a-f]*.json", "dagster.yaml")
"""Files by which a tenant's or Dagster's folder is recognised."""
_WORKING_FOLDERS = frozenset({"cache", "tmp", "dagster"})
"""Other folders that this program makes in the data folder."""
_LOOK_SECONDS = 0.25
"""How long a search that found nothing waits for the catalog."""


def validate_tenant(name: str) -> str:
    """Return `name`, or raise InvalidInputError if it is malformed or reserved."""
    if not re.fullmatch(TENANT_PATTERN, name) or name.endswith("\n"):
        raise InvalidInputError(
            f"The tenant name {name!r} cannot be used: begin with a letter a-z and use only a-z, 0-9, '-' and '_' "
            "(at most 63, not ending in '-' or '_')."
        )
    if name in RESERVED_TENANTS:
        raise InvalidInputError(f"The tenant name {name!r} is reserved; choose another.")
    return name


class Tenant:
    """One tenant's stores and language tools, each opened on first use."""

    def __init__(
        self,
        settings: "Settings",
        name: str | None = None,
        *,
        freshness: float = 0.0,
        embedders: "dict[str, Embedder] | None" = None,
    ) -> None:
        """Take `name` or the settings' tenant, and open nothing yet. InvalidInputError: the name is malformed or reserved.

        `freshness` is the number of seconds within which an open store sees other processes' commits (0: at every call), `embedders` are
        the open embedders by their setting, shared by all tenants of a process.
        """
        self.settings = settings
        self.name = validate_tenant(settings.tenant if name is None else name)
        self.on_commit: Callable[[int], object] | None = None
        """Called with the number of stored memories, by a service that does the upkeep itself."""
        self._freshness = freshness
        self._embedders = {} if embedders is None else embedders
        for path in (self.folder, *(self.folder / part for part in (*PARTS, *FOLDERS))):
            refuse_link(path)

    @property
    def folder(self) -> Path:
        return self.settings.tenant_dir(self.name)

    @property
    def exists(self) -> bool:
        """Whether the tenant has any store, in whatever place, even if its store's id is unreadable."""
        with suppress(DamagedError):
            self.state.look()
        return self.state.exists or self.name in _stored_elsewhere(self.settings)

    def reopened(self) -> "Tenant | None":
        """Return the tenant that was created or restored under this name since this one was deleted; None if there is none."""
        found = Tenant(self.settings, self.name, freshness=self._freshness, embedders=self._embedders)
        return found if found.exists else None

    @property
    def is_sources_tenant(self) -> bool:
        """Whether silos, seed.json, LEARNING and Tana belong to this tenant: only the settings' tenant has them."""
        return self.name == self.settings.tenant

    def must_own_sources(self) -> None:
        """Raise InvalidInputError unless the source files belong to this tenant."""
        if not self.is_sources_tenant:
            raise InvalidInputError(
                f"The source files belong to the tenant {self.settings.tenant!r}; leave --tenant out, or set MEMORY_TENANT."
            )

    def must_exist(self) -> None:
        """Raise NotFoundError if the tenant does not exist; its message suggests the closest name."""
        if self.exists:
            return
        close = get_close_matches(self.name, tenant_names(self.settings), n=1)
        meant = f" Did you mean {close[0]!r}?" if close else ""
        mend = f"`memory tenant list` shows all, `memory tenant create {self.name}` makes it"
        raise NotFoundError(f"There is no tenant {self.name!r}; {mend}.{meant}")

    @cached_property
    def state(self) -> "TenantState":
        """The tenant's small values, its logs and its store's id."""
        return open_states(self.settings).open(self.name)

    @cached_property
    def location(self) -> "Location":
        """Folder or bucket of the tenant's tables."""
        from memory_assets.stores.location import Location

        return Location(self.settings.tenant_vectors_uri(self.name), self.settings.storage_options(), self.state)

    @cached_property
    def catalog(self) -> "Catalog":
        return _open_catalog(self.settings, self.name, self.state)

    @cached_property
    def memories(self) -> "MemoryStore":
        from memory_assets.stores.catalog import count_known_memories
        from memory_assets.stores.memories import MemoryStore

        store = MemoryStore(self.location, self._freshness, self.settings.data_dir)
        store.stored.known_rows = partial(count_known_memories, self.catalog)
        return store

    def raise_if_gone(self) -> None:
        """Raise DamagedError if the table of memories is gone that the catalog knows; a locked catalog is not waited for."""
        from memory_assets.stores.catalog import count_known_memories

        with suppress(StoreBusyError):
            if not self.memories.stored.exists and count_known_memories(self.catalog.within(_LOOK_SECONDS)):
                self.memories.stored.raise_if_lost()

    @cached_property
    def commits(self) -> "GroupCommit[NewMemory, StoredMemory]":
        """The queue that commits concurrent `store` calls together."""
        from memory_assets.stores.group_commit import GroupCommit

        return GroupCommit()

    @cached_property
    def relations(self) -> "RelationStore":
        from memory_assets.stores.relations import RelationStore

        return RelationStore(self.location, self._freshness, self.settings.data_dir)

    @cached_property
    def embedder(self) -> "Embedder":
        """The embedder that made the stored vectors; before there are any, the settings' embedder."""
        from memory_assets.language.embedders import spec_in_use

        is_shared = bool(self.settings.state_uri)
        return self.open_embedder(spec_in_use(self.settings.embedder, self.memories.columns.embedder, is_shared=is_shared))

    def open_embedder(self, spec: str) -> "Embedder":
        from memory_assets.language.embedders import open_embedder

        if spec not in self._embedders:
            self._embedders[spec] = open_embedder(
                spec,
                ollama_url=self.settings.ollama_url,
                openai_url=self.settings.openai_url,
                openai_api_key=self.settings.openai_api_key,
                timeout=self.settings.embedding_timeout,
            )
        return self._embedders[spec]

    def with_embedder(self, work: Callable[["Embedder"], Result]) -> Result:
        """Call `work`; retry once with the new embedder if another process has just re-embedded the memories."""
        embedder = self.embedder
        try:
            return work(embedder)
        except StoreError as error:
            if isinstance(error, UnansweredError) or self.memories.columns.newest_embedder() == embedder.name:
                raise
            self.__dict__.pop("embedder", None)  # another thread may have removed it
            return work(self.embedder)

    @cached_property
    def analyzer(self) -> "Analyzer":
        from memory_assets.language.pipeline import open_analyzer

        return open_analyzer(
            self.settings.spacy_model, gazetteer_paths=[self.folder / "gazetteer.toml"], known_names=read_known_names(self.state)
        )


def open_states(settings: "Settings") -> "TenantStates":
    """Open the tenants' state: PostgreSQL if `state_uri` is set, else files in the data folder."""
    if not settings.state_uri:
        return FileStates(settings.data_dir)
    from memory_assets.stores.location import Location
    from memory_assets.stores.postgres import Database, PostgresStates

    place = Location(settings.vectors_uri or str(settings.data_dir), settings.storage_options())
    return PostgresStates(Database(settings.state_uri, settings.lock_timeout, place=place), place.base)


def _open_catalog(settings: "Settings", name: str, state: "TenantState", store_id: str | None = None) -> "Catalog":
    uri, patience = settings.tenant_catalog_uri(name), settings.lock_timeout
    if not uri.startswith("ducklake:"):
        from memory_assets.stores.catalog import Catalog

        return Catalog(uri, patience, state)
    from memory_assets.stores.lake import LakeCatalog

    data = settings.vectors_uri or str(settings.data_dir)
    return LakeCatalog(uri, data, settings.storage_options(), name, state, patience, settings.data_dir / "tmp", store_id)


def tenant_names(settings: "Settings") -> list[str]:
    """Return the names of all tenants, sorted."""
    return sorted({*open_states(settings).names(), *_stored_elsewhere(settings)})


def _stored_elsewhere(settings: "Settings") -> set[str]:
    """Return the tenants whose vectors are in another folder than the data folder."""
    if not settings.vectors_uri or "://" in settings.vectors_uri:
        return set()
    found = Path(settings.vectors_uri).glob("*/vectors")
    return {path.parent.name for path in found if re.fullmatch(TENANT_PATTERN, path.parent.name)}


def create_tenant(tenant: Tenant) -> None:
    """Make a tenant's folder and stores. If several processes do so at once, all but one get ConflictError.

    A folder that an interrupted creation leaves without a store does not count as a tenant.
    """
    with tenant.state.creating():
        if tenant.name in _stored_elsewhere(tenant.settings):
            raise tenant.state.already_exists()
        tenant.memories.prepare()
        tenant.relations.prepare()


def delete_tenant(tenant: Tenant) -> None:
    """Delete a tenant and all its data. Its keys become invalid at once, in a running service too.

    Commits under way finish first or are refused; later ones fail, because a commit checks that the store is still the tenant's. After
    an interruption the tenant can be deleted again, or `sweep_deleted` removes the rest.

    Raises:
        NotFoundError: The tenant does not exist.
        DamagedError: The store's id, which sweeping needs, cannot be read.
        StoreError: Files on this machine cannot be removed. Remains in object storage and DuckLake wait for the next sweep.
    """
    tenant.state.read_id()
    with tenant.state.closed_to_writers(), tenant.location.closed_to_writers():
        if not tenant.exists:
            raise NotFoundError(f"There is no tenant {tenant.name!r}; `memory tenant list` shows those that exist.")
        if tenant.catalog.path.is_file() and not tenant.catalog.is_in(tenant.folder):
            tenant.catalog.remove()
        tenant.state.delete()
        if tenant.location.is_folder and tenant.location.path.exists():
            tenant.location.remove()
    if error := sweep_deleted(tenant.settings).get(tenant.name):
        raise error


def own_paths(settings: "Settings") -> list[Path]:
    """Return this program's paths in the data folder; the folder itself if it holds nothing else."""
    entries = list(settings.data_dir.iterdir()) if settings.data_dir.is_dir() else []
    deleted = {left.where for left in open_states(settings).deleted()}
    own = [
        path
        for path in entries
        if not path.is_symlink()
        and (str(path) in deleted or path.name == "hooks.log" or any(any(path.glob(mark)) for mark in _MARKS))
    ]
    foreign = {path.name for path in entries} - {path.name for path in own} - _WORKING_FOLDERS
    return own if foreign or not own else [settings.data_dir]


def sweep_deleted(settings: "Settings") -> "dict[str, StoreError]":
    """Remove the remains of deleted tenants, in object storage too. Several processes may run it at once.

    What cannot be removed is logged, and left for the next sweep. Returns tenant -> the error, if its state cannot be removed.
    """
    from memory_assets.stores.location import Location

    states, failed = open_states(settings), dict[str, StoreError]()
    waiting = "Remains of the deleted tenant %r wait for the next `memory run`: %s"
    for left in states.deleted():
        location = Location(settings.tenant_vectors_uri(left.tenant), settings.storage_options())
        try:
            if left.store_id and not location.is_folder:
                location.of_store(left.store_id).remove()
            if left.store_id and settings.tenant_catalog_uri(left.tenant).startswith("ducklake:"):
                _open_catalog(settings, left.tenant, states.open(left.tenant), left.store_id).remove()
        except StoreError as error:
            _log.warning(waiting, left.tenant, error)
            continue
        try:
            states.sweep(left)
        except StoreError as error:
            _log.warning(waiting, left.tenant, error)
            failed[left.tenant] = error
    return failed
