"""Who may do what: a key opens its tenant alone, and so often a minute.

Without a valid key nobody learns whether a tenant exists: an unknown tenant, a name that cannot be one, an unknown key, another
tenant's key and a revoked key take the same way and get the same answer.
"""

import time
from http import HTTPStatus
from ipaddress import ip_address
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException

from memory_assets.errors import InvalidInputError
from memory_assets.privacy import refuse_link
from memory_assets.stores.keys import KeyStore
from memory_assets.tenants import validate_tenant

if TYPE_CHECKING:
    from memory_assets.settings import Settings
    from memory_assets.stores.keys import Key

KEY_HEADER = "X-API-Key"
_NOBODY = "-"
"""No tenant's name."""


def authorised(settings: "Settings", tenant: str, key: str) -> "Key":
    """The key that `key` is, if it opens `tenant`.

    Raises:
        HTTPException: 401, it does not.
        StoreError: the key's file cannot be read, or the tenant's folder is a link.
    """
    try:
        name = validate_tenant(tenant)
    except InvalidInputError:
        name = _NOBODY
    folder = settings.tenant_dir(name)
    refuse_link(folder)
    found = KeyStore(folder).find(key)
    if found is None:
        raise HTTPException(
            HTTPStatus.UNAUTHORIZED,
            f"Unauthorized: send a key of this tenant in the header {KEY_HEADER}.",
            {"WWW-Authenticate": "ApiKey"},
        )
    return found


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach an IP address."""
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False


class RateLimit:
    """So many requests a minute for each key, in a bucket that fills steadily; in memory, for this process alone."""

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, key: "Key") -> None:
        """Count one request.

        Raises:
            HTTPException: 429, the key has used up its requests.
        """
        if not self._per_minute:
            return
        now = time.monotonic()
        left, filled_at = self._buckets.get(key.id, (float(self._per_minute), now))
        left = min(self._per_minute, left + (now - filled_at) * self._per_minute / 60)
        if left < 1:
            seconds = int((1 - left) * 60 / self._per_minute) + 1
            raise HTTPException(
                HTTPStatus.TOO_MANY_REQUESTS,
                f"This key may make {self._per_minute} requests a minute; try again in {seconds} s.",
                {"Retry-After": str(seconds)},
            )
        self._buckets[key.id] = left - 1, now
