"""Report a tenant's health, and diagnose and mend configuration errors and damage."""

from typing import Any, Literal

from pydantic import ConfigDict, Field, SecretStr

from memory_assets.display import counted
from memory_assets.errors import NewerStoreError, StoreError
from memory_assets.language.embedders import EmbedderError, describe_choice
from memory_assets.operations.answers import Answer, Instant, LocalTime, View
from memory_assets.settings import origins
from memory_assets.stores.catalog import Catalog
from memory_assets.stores.files import disk_fault
from memory_assets.stores.filters import Filters
from memory_assets.tenants import Tenant

_CATALOG_SECONDS = 0.1


class Health(Answer):
    """Whether a tenant's memory works, and how much it holds."""

    status: Literal["healthy", "unhealthy"]
    tenant: str
    memory_count: int = Field(description="Number of active memories.")
    embedding_count: int = Field(description="Number of those that have a vector.")
    oldest_memory: Instant | None
    newest_memory: Instant | None
    store_healthy: bool
    embedding_provider: str
    embedding_healthy: bool
    faults: list[str] = Field(description="A sentence for each fault.")

    @property
    def is_failure(self) -> bool:
        return bool(self.faults)

    def text(self, local: LocalTime) -> str:
        span = ""
        if self.oldest_memory and self.newest_memory:
            span = f", from {local.age(self.oldest_memory)} to {local.age(self.newest_memory)}"
        works = "works" if self.status == "healthy" else "does not work"
        holds = f"{counted(self.memory_count)}{span}" if self.store_healthy else "its store does not work"
        lines = [f"The memory of {self.tenant} {works}: {holds}. Embedder: {self.embedding_provider}.", *self.faults]
        return "\n".join(lines)


def health(tenant: Tenant) -> Health:
    """Check the store, its disk and the embedder, which embeds a word."""
    count = embedded = 0
    oldest = newest = store_fault = embedder_fault = None
    try:
        count, embedded = tenant.memories.count(Filters()), tenant.memories.count_embedded()
        oldest = tenant.memories.oldest()
        newest = next((each.created_at for each in tenant.memories.recent(1, Filters())), None)
        _check_release(tenant.catalog)
        folder, has_tables = tenant.settings.data_dir, tenant.location.is_folder
        store_fault = disk_fault(folder, has_tables=has_tables)
    except StoreError as error:
        store_fault = str(error)
    try:
        tenant.embedder.embed(["health"])
    except EmbedderError as error:
        embedder_fault = str(error)
    faults = [fault for fault in (store_fault, embedder_fault) if fault]
    return Health(
        status="unhealthy" if faults else "healthy",
        tenant=tenant.name,
        memory_count=count,
        embedding_count=embedded,
        oldest_memory=oldest,
        newest_memory=newest,
        store_healthy=not store_fault,
        embedding_provider=describe_choice(tenant.settings.embedder).name,
        embedding_healthy=not embedder_fault,
        faults=faults,
    )


def _check_release(catalog: Catalog) -> None:
    """NewerStoreError: a newer release wrote the catalog. A catalog that cannot be read now is no fault here, as searches do without."""
    try:
        catalog.within(_CATALOG_SECONDS).waiting_migrations()
    except NewerStoreError:
        raise
    except StoreError:
        return


_MARKS = {"fault": "FAIL", "note": "note", "ok": "ok"}


class FindingView(View):
    """Result of one check."""

    level: Literal["fault", "note", "ok"]
    what: str
    mend: str = Field(description="How to mend it; empty if there is nothing to mend.")
    is_mendable: bool = Field(description="Whether `memory doctor --mend` mends it.")


class SettingView(View):
    """A setting's value and origin; of a secret only whether it is set."""

    model_config = ConfigDict(serialize_by_alias=True)

    value: str
    place: str = Field(serialization_alias="from", description="The environment, a file, the command line, or default.")


class Diagnosis(Answer):
    """Results of all checks, faults first."""

    findings: tuple[FindingView, ...]
    settings: dict[str, SettingView] = Field(description="Settings by name; empty unless asked for.")

    @property
    def is_failure(self) -> bool:
        return any(each.level == "fault" for each in self.findings)

    def text(self, local: LocalTime) -> str:
        lines: list[str] = []
        for each in self.findings:
            lines.append(f"{_MARKS[each.level]:<4}  {each.what}")
            mend = each.mend.replace("`memory ", f"`{local.program or 'memory '}")
            lines += [f"{'':6}mend: {mend}"] if mend else []
        width = max(map(len, self.settings), default=0)
        lines += [f"{name:<{width}}  {each.value or '-'}  ({each.place})" for name, each in self.settings.items()]
        return "\n".join(lines)


def diagnose(tenant: Tenant, *, mend: bool = False, with_settings: bool = False) -> Diagnosis:
    """Check a tenant's settings, sources, language pipeline and stores; `mend` first repairs what needs no decision of the user's."""
    from memory_assets.doctor import examine

    findings = examine(tenant)
    if mend and (repairs := [finding.repair for finding in findings if finding.repair]):
        for repair in repairs:
            repair()
        findings = examine(tenant)
    order = list(_MARKS)
    views = (FindingView.of(finding, is_mendable=finding.repair is not None) for finding in findings)
    in_order = sorted(views, key=lambda view: order.index(view.level))
    listed_settings = {
        origin.name: SettingView(value=_render_value(getattr(tenant.settings, field)), place=origin.place)
        for field, origin in (origins(tenant.settings).items() if with_settings else ())
    }
    return Diagnosis(findings=tuple(in_order), settings=listed_settings)


def _render_value(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return "set" if isinstance(value, SecretStr) else "" if value is None else str(value)
