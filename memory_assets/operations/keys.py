"""Make, list and end the keys that open one tenant over HTTP."""

from typing import TYPE_CHECKING

from pydantic import Field

from memory_assets.operations.answers import Answer, Instant, LocalTime, listed
from memory_assets.stores.keys import KeyStore

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant


class KeyView(Answer):
    """What is known of a key; never its secret."""

    id: str
    description: str
    created_at: Instant
    revoked_at: Instant | None
    active: bool = Field(description="Whether it still opens its tenant.")

    def text(self, local: LocalTime) -> str:
        return f"{self.id}  {_day(self.created_at, local)}  {self._state(local):<18}  {self.description}"

    def _state(self, local: LocalTime) -> str:
        return f"revoked {_day(self.revoked_at, local)}" if self.revoked_at else "active"


class CreatedKey(Answer):
    """A key that was made."""

    id: str
    tenant: str
    key: str = Field(description="Shown only now: only a digest of it is kept.")
    description: str

    def text(self, local: LocalTime) -> str:
        return self.key


class RevokedKey(KeyView):
    """A key that opens nothing any more."""

    def text(self, local: LocalTime) -> str:
        return f"Revoked key {self.id}"


class Keys(Answer):
    """A tenant's keys, the oldest first."""

    tenant: str
    keys: tuple[KeyView, ...]

    def text(self, local: LocalTime) -> str:
        none = f"Tenant {self.tenant} has no key; `memory key create --tenant {self.tenant}` makes one."
        return listed(key.text(local) for key in self.keys) or none


def create(tenant: "Tenant", description: str = "") -> CreatedKey:
    """Make a key that opens the tenant.

    Raises:
        NotFoundError: there is no such tenant.
    """
    tenant.must_exist()
    known, key = KeyStore(tenant.folder).create(description)
    return CreatedKey.of(known, tenant=tenant.name, key=key)


def list_keys(tenant: "Tenant") -> Keys:
    """The tenant's keys, revoked ones too.

    Raises:
        NotFoundError: there is no such tenant.
        StoreError: a key's file cannot be read.
    """
    tenant.must_exist()
    return Keys(tenant=tenant.name, keys=tuple(KeyView.model_validate(key) for key in KeyStore(tenant.folder).list()))


def revoke(tenant: "Tenant", number: str) -> RevokedKey:
    """End a key; a running service refuses it from its next request on.

    Raises:
        NotFoundError: there is no such tenant, or no such key of it.
        StoreError: the key's file cannot be read.
    """
    tenant.must_exist()
    return RevokedKey.model_validate(KeyStore(tenant.folder).revoke(number))


def _day(moment: Instant, local: LocalTime) -> str:
    return moment.astimezone(local.zone).date().isoformat()
