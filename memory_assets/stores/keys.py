"""The keys and one-time links that open one tenant over HTTP: one small file each.

So processes need no lock, and a service sees a change at once.

A key is `mk_<id>_<secret>`, kept in `keys/<id>.json` with the SHA-256 digest of its 256 random bits: a slow hash would gain nothing.
"""

import hmac
import re
import secrets
import time
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import from_json

from memory_assets.errors import NotFoundError, StoreError, said
from memory_assets.stores.files import replace_file

_KEY = re.compile(r"mk_([0-9a-f]{12})_([A-Za-z0-9_-]{43})", re.ASCII)
_ID = re.compile(r"[0-9a-f]{12}", re.ASCII)
_LINK_SECONDS = 300
"""How long a one-time link may wait for its use."""
_NOBODYS_DIGEST = "0" * 64
"""Compared with where there is no such key, so that an unknown tenant, an unknown key and a wrong secret cost the same."""


class Key(BaseModel):
    """What is known of a key; never its secret."""

    model_config = ConfigDict(frozen=True)

    id: str = Field(exclude=True)
    description: str
    created_at: datetime
    revoked_at: datetime | None
    sha256: str = Field(repr=False)
    """Digest of the secret."""

    @property
    def active(self) -> bool:
        return self.revoked_at is None


class KeyStore:
    """One tenant's keys."""

    def __init__(self, tenant_folder: Path) -> None:
        self.folder = tenant_folder / "keys"

    def create(self, description: str = "") -> tuple[Key, str]:
        """Make a key. Returns its record, and the key itself, which nobody can show again."""
        number, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        key = Key(id=number, description=description, created_at=datetime.now(UTC), revoked_at=None, sha256=_digest(secret))
        self._write(key)
        return key, f"mk_{number}_{secret}"

    def revoke(self, number: str) -> Key:
        """End a key; it stays listed. Revoking it again changes nothing; NotFoundError if there is no such key."""
        found = self._read(number) if _ID.fullmatch(number) else None
        if found is None:
            raise NotFoundError(f"There is no key {number!r}; `memory key list` shows the ids.")
        if not found.active:
            return found
        revoked = found.model_copy(update={"revoked_at": datetime.now(UTC)})
        self._write(revoked)
        return revoked

    def list(self) -> list[Key]:
        numbers = [file.stem for file in self.folder.glob("*.json") if _ID.fullmatch(file.stem)]
        return sorted(filter(None, map(self._read, numbers)), key=lambda key: (key.created_at, key.id))

    def find(self, key: str) -> Key | None:
        """The active key that `key` is, compared in constant time; None where it opens nothing."""
        parts = _KEY.fullmatch(key)
        number, secret = parts.groups() if parts else ("0" * 12, "")
        known = self._read(number)
        matches = hmac.compare_digest(_digest(secret), known.sha256 if known else _NOBODYS_DIGEST)
        return known if known and known.active and matches else None

    def is_active(self, number: str) -> bool:
        """Whether there is a key of this id that is not revoked."""
        known = self._read(number) if _ID.fullmatch(number) else None
        return known is not None and known.active

    def _read(self, number: str) -> Key | None:
        file = self.folder / f"{number}.json"
        try:
            return Key.model_validate({**from_json(file.read_bytes()), "id": number})
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, TypeError) as error:
            raise StoreError(f"The key file {file} cannot be read ({said(error)}); remove it and create a new key.") from error

    def _write(self, key: Key) -> None:
        replace_file(self.folder / f"{key.id}.json", key.model_dump_json(indent=2) + "\n")


class OneTimeLinks:
    """Links that open one tenant's pages once: a file for each, named by the digest of its token, and removed by its use."""

    def __init__(self, tenant_folder: Path) -> None:
        self.folder = tenant_folder / "links"

    def create(self) -> str:
        """Make a link, and remove those that nobody used in time; returns its token."""
        for file in self.folder.glob("*"):
            with suppress(FileNotFoundError):
                if time.time() - file.stat().st_mtime > _LINK_SECONDS:
                    file.unlink()
        token = secrets.token_urlsafe(32)
        replace_file(self.folder / _digest(token), "")
        return token

    def use(self, token: str) -> bool:
        """Whether the token opens the pages now. Of several attempts one succeeds; an old link opens nothing."""
        file = self.folder / _digest(token)
        try:
            age = time.time() - file.stat().st_mtime
            file.unlink()
        except (FileNotFoundError, NotADirectoryError):
            return False
        return age < _LINK_SECONDS


def _digest(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()
