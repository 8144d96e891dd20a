"""Create, list and delete tenants; create, list and revoke their keys for HTTP."""

from contextlib import suppress

from pydantic import Field

from memory_assets.display import counted
from memory_assets.errors import StoreError
from memory_assets.language.guard import guard_text
from memory_assets.operations.answers import Answer, Instant, LocalTime, View
from memory_assets.settings import Settings
from memory_assets.stores.keys import KeyStore
from memory_assets.stores.layout import unlisted_files
from memory_assets.tenants import Tenant, create_tenant, delete_tenant, tenant_names


class CreatedTenant(Answer):
    """A new tenant, and its first key."""

    tenant: str
    key: str | None = Field(description="Shown only now; null if none was asked for.")

    def text(self, local: LocalTime) -> str:
        return f"Created tenant {self.tenant}" + (f"\nIts key, which is shown only now: {self.key}" if self.key else "")


class TenantView(View):
    """A tenant and its counts."""

    tenant: str
    memories: int | None = Field(description="Number of memories in any state; null if they cannot be read.")
    keys: int = Field(description="Number of active keys.")
    others: list[str] = Field(description="Foreign files in its folder; `memory tenant delete` removes them too.")
    fault: str = Field(description="Why its memories cannot be read; empty if they can.")

    def text(self) -> str:
        holds = self.fault if self.memories is None else counted(self.memories)
        others = f", {counted(len(self.others), 'file', 'files')} of others ({', '.join(self.others[:3])})" if self.others else ""
        return f"{self.tenant:<24} {holds}, {counted(self.keys, 'key', 'keys')}{others}"


class Tenants(Answer):
    """All tenants, by name."""

    tenants: tuple[TenantView, ...]

    def text(self, local: LocalTime) -> str:
        return "\n".join(each.text() for each in self.tenants) or "No tenant exists yet; `memory tenant create main` makes one."


class DeletedTenant(Answer):
    """A deleted tenant."""

    tenant: str
    deleted_memories: int | None = Field(description="Null if they could not be counted.")
    records_fault: str = Field(description="Why Dagster's records of it could not be deleted; empty if they could be reached.")

    def text(self, local: LocalTime) -> str:
        contents = "" if self.deleted_memories is None else f" with {counted(self.deleted_memories)}"
        left = f". Housekeeping will delete Dagster's records of it: {self.records_fault}" if self.records_fault else ""
        return f"Deleted tenant {self.tenant}{contents}{left}"


def create(tenant: Tenant, *, with_key: bool = False) -> CreatedTenant:
    """Create a tenant, and a first key if `with_key` is set."""
    create_tenant(tenant)
    return CreatedTenant(tenant=tenant.name, key=KeyStore(tenant.state).create("first key")[1] if with_key else None)


def list_tenants(settings: Settings) -> Tenants:
    """List all tenants, damaged ones too."""
    return Tenants(tenants=tuple(view_tenant(Tenant(settings, name)) for name in tenant_names(settings)))


def view_tenant(tenant: Tenant) -> TenantView:
    """Count a tenant's memories, keys and foreign files."""
    try:
        memories, fault = len(tenant.memories), ""
    except StoreError as error:
        memories, fault = None, str(error)
    keys = sum(key.active for key in KeyStore(tenant.state).list())
    return TenantView(tenant=tenant.name, memories=memories, keys=keys, others=unlisted_files(tenant.folder), fault=fault)


def delete(tenant: Tenant) -> DeletedTenant:
    """Delete a tenant, even a damaged one, with its memories, keys and Dagster's records. Only a backup brings it back.

    If Dagster's records cannot be reached, the tenant is deleted all the same, and housekeeping deletes them later.
    """
    from memory_assets.defs.runner import forget_everywhere

    memories = view_tenant(tenant).memories
    with suppress(StoreError):  # the second call tells it
        forget_everywhere(tenant.settings, tenant.name)  # a run that begins must not make the tenant again
    delete_tenant(tenant)
    try:
        forget_everywhere(tenant.settings, tenant.name)
        fault = ""
    except StoreError as error:
        fault = str(error).partition("; ")[0]  # no command needs to be repeated
    return DeletedTenant(tenant=tenant.name, deleted_memories=memories, records_fault=fault)


class KeyView(Answer):
    """A key without its secret."""

    id: str
    description: str
    created_at: Instant
    revoked_at: Instant | None
    active: bool = Field(description="Whether it still opens its tenant.")

    def text(self, local: LocalTime) -> str:
        state = f"revoked {local.day(self.revoked_at)}" if self.revoked_at else "active"
        return f"{self.id}  {local.day(self.created_at)}  {state:<18}  {self.description}"


class CreatedKey(Answer):
    """A new key."""

    id: str
    tenant: str
    key: str = Field(description="Shown only now; the store keeps only its digest.")
    description: str

    def text(self, local: LocalTime) -> str:
        return self.key


class RevokedKey(KeyView):
    """A revoked key."""

    def text(self, local: LocalTime) -> str:
        return f"Revoked key {self.id}"


class Keys(Answer):
    """A tenant's keys, the oldest first."""

    tenant: str
    keys: tuple[KeyView, ...]

    def text(self, local: LocalTime) -> str:
        none = f"Tenant {self.tenant} has no key; `memory key create --tenant {self.tenant}` makes one."
        return "\n".join(key.text(local) for key in self.keys) or none


def create_key(tenant: Tenant, description: str = "") -> CreatedKey:
    """Create a key for a tenant."""
    tenant.must_exist()
    known, key = KeyStore(tenant.state).create(guard_text(description, tenant.settings.secrets, "description"))
    return CreatedKey.of(known, tenant=tenant.name, key=key)


def list_keys(tenant: Tenant) -> Keys:
    """List a tenant's keys, revoked ones too."""
    tenant.must_exist()
    return Keys(tenant=tenant.name, keys=tuple(KeyView.model_validate(key) for key in KeyStore(tenant.state).list()))


def revoke_key(tenant: Tenant, number: str) -> RevokedKey:
    """Revoke a key; a running service refuses it from the next request on."""
    tenant.must_exist()
    return RevokedKey.model_validate(KeyStore(tenant.state).revoke(number))
