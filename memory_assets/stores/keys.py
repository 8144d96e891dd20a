"""API keys and one-time links of one tenant, one small value each. No process needs a lock, and a service sees a change at once.

A key is `mk_<id>_<secret>`. `keys/<id>.json` keeps the SHA-256 digest of its 256 random bits; a slow hash would add no security.
"""

import hmac
import re
import secrets
import time
from datetime import UTC, datetime
from hashlib import sha256

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import from_json

from memory_assets.errors import MENDS, NotFoundError, StoreError, safe_message
from memory_assets.stores.state import TenantState

_KEY = re.compile(r"mk_([0-9a-f]{12})_([A-Za-z0-9_-]{43})", re.ASCII)
_ID = re.compile(r"[0-9a-f]{12}", re.ASCII)
_LINK_LIFETIME_SECONDS = 300
_CLOCK_SLACK_SECONDS = 60
"""How far a link may be dated ahead, by another machine's clock."""
_MISSING_KEY_DIGEST = "0" * 64
"""Compared if there is no such key, so that an unknown tenant, an unknown key and a wrong secret take the same time."""


class Key(BaseModel):
    """A key's record, without its secret."""

    model_config = ConfigDict(frozen=True)

    id: str = Field(exclude=True)
    description: str
    created_at: datetime
    revoked_at: datetime | None
    sha256: str = Field(repr=False)

    @property
    def active(self) -> bool:
        return self.revoked_at is None


class KeyStore:
    """One tenant's keys."""

    def __init__(self, state: TenantState) -> None:
        self._state = state

    def create(self, description: str = "") -> tuple[Key, str]:
        """Create a key. Returns its record and the key itself, which cannot be shown again."""
        number, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        key = Key(id=number, description=description, created_at=datetime.now(UTC), revoked_at=None, sha256=_digest(secret))
        self._write(key)
        return key, f"mk_{number}_{secret}"

    def revoke(self, number: str) -> Key:
        """Revoke a key; it stays listed. Revoking it again changes nothing. NotFoundError if there is no such key."""
        found = self._read(number)
        if found is None:
            raise NotFoundError(f"There is no key {number!r}; `memory key list --tenant {self._state.tenant}` shows the ids.")
        if not found.active:
            return found
        revoked = found.model_copy(update={"revoked_at": datetime.now(UTC)})
        self._write(revoked)
        return revoked

    def describe(self, key: Key, description: str) -> None:
        """Replace a key's description; other concurrent changes are kept."""

        def change(held: bytes | None) -> bytes | None:
            return held and _to_bytes(Key.model_validate({**from_json(held), "id": key.id, "description": description}))

        self._state.update(f"keys/{key.id}.json", change)

    def list(self) -> list[Key]:
        numbers = (entry.name.removeprefix("keys/").removesuffix(".json") for entry in self._state.list("keys/"))
        return sorted(filter(None, map(self._read, numbers)), key=lambda key: (key.created_at, key.id))

    def find(self, key: str) -> Key | None:
        """Return the record of an active key, compared in constant time; None if the key is not valid."""
        parts = _KEY.fullmatch(key)
        number, secret = parts.groups() if parts else ("0" * 12, "")
        known = self._read(number)
        matches = hmac.compare_digest(_digest(secret), known.sha256 if known else _MISSING_KEY_DIGEST)
        return known if known and known.active and matches else None

    def is_active(self, number: str) -> bool:
        known = self._read(number)
        return known is not None and known.active

    def _read(self, number: str) -> Key | None:
        name = f"keys/{number}.json"
        try:
            held = self._state.get(name) if _ID.fullmatch(number) else None
            return None if held is None else Key.model_validate({**from_json(held), "id": number})
        except OSError as error:
            mend = MENDS.get(error.errno or 0, "remove it and create a new key")
            raise StoreError(f"The key file {self._state.where(name)} cannot be read ({error.strerror}); {mend}.") from error
        except (ValueError, TypeError) as error:
            raise StoreError(
                f"The key file {self._state.where(name)} cannot be read ({safe_message(error)}); remove it and create a new key."
            ) from error

    def _write(self, key: Key) -> None:
        self._state.put(f"keys/{key.id}.json", _to_bytes(key))


def create_link(state: TenantState) -> str:
    """Create a link that opens the tenant's pages once, and delete expired ones. Returns its token.

    The value is named by the token's digest and holds the time of creation.
    """
    for entry in state.list("links/"):
        if _is_expired(state.get(entry.name)):
            state.remove(entry.name)
    token = secrets.token_urlsafe(32)
    state.put(f"links/{_digest(token)}", str(time.time()).encode())
    return token


def use_link(state: TenantState, token: str) -> bool:
    """Consume a token; return whether it was valid. Of several attempts only one succeeds."""
    name = f"links/{_digest(token)}"
    created_at = state.get(name)
    return created_at is not None and state.put(name, None, created_at) and not _is_expired(created_at)


def _is_expired(created_at: bytes | None) -> bool:
    if created_at is None:  # used meanwhile
        return False
    try:
        return not -_CLOCK_SLACK_SECONDS <= time.time() - float(created_at) <= _LINK_LIFETIME_SECONDS
    except ValueError:
        return True


def _to_bytes(key: Key) -> bytes:
    return f"{key.model_dump_json(indent=2)}\n".encode()


def _digest(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()
