"""The keys that open one tenant over HTTP: one small file each, so processes need no lock, and a service sees a change at once.

A key is `mk_<id>_<secret>`, kept in `keys/<id>.json` with the SHA-256 digest of its 256 random bits: a slow hash would gain nothing.
"""

import hmac
import json
import re
import secrets
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from memory_assets.errors import NotFoundError, StoreError
from memory_assets.stores.files import replace_file

_KEY = re.compile(r"mk_([0-9a-f]{12})_([A-Za-z0-9_-]{43})", re.ASCII)
_ID = re.compile(r"[0-9a-f]{12}", re.ASCII)
_NOBODYS_DIGEST = "0" * 64
"""Compared with where there is no such key, so that an unknown tenant, an unknown key and a wrong secret cost the same."""


@dataclass(frozen=True, slots=True)
class Key:
    """What is known of a key; never its secret."""

    id: str
    description: str
    created_at: datetime
    revoked_at: datetime | None

    @property
    def active(self) -> bool:
        """Whether it still opens its tenant."""
        return self.revoked_at is None


class KeyStore:
    """One tenant's keys."""

    def __init__(self, tenant_folder: Path) -> None:
        self.folder = tenant_folder / "keys"

    def create(self, description: str = "") -> tuple[Key, str]:
        """Make a key. Returns its record, and the key itself, which nobody can show again."""
        number, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        key = Key(number, description, datetime.now(UTC), None)
        self._write(key, _digest(secret))
        return key, f"mk_{number}_{secret}"

    def revoke(self, number: str) -> Key:
        """End a key; it stays listed. Revoking it again changes nothing; NotFoundError if there is no such key."""
        found = self._read(number) if _ID.fullmatch(number) else None
        if found is None:
            raise NotFoundError(f"There is no key {number!r}; `memory key list` shows the ids.")
        key, digest = found
        if not key.active:
            return key
        revoked = replace(key, revoked_at=datetime.now(UTC))
        self._write(revoked, digest)
        return revoked

    def list(self) -> list[Key]:
        """All keys, the oldest first, revoked ones too."""
        numbers = [file.stem for file in self.folder.glob("*.json") if _ID.fullmatch(file.stem)]
        return sorted((found[0] for number in numbers if (found := self._read(number))), key=lambda key: (key.created_at, key.id))

    def find(self, key: str) -> Key | None:
        """The active key that `key` is, compared in constant time; None where it opens nothing."""
        parts = _KEY.fullmatch(key)
        number, secret = parts.groups() if parts else ("0" * 12, "")
        known, digest = self._read(number) or (None, _NOBODYS_DIGEST)
        matches = hmac.compare_digest(_digest(secret), digest)
        return known if known and known.active and matches else None

    def _read(self, number: str) -> tuple[Key, str] | None:
        file = self.folder / f"{number}.json"
        try:
            fields = json.loads(file.read_text(encoding="utf-8"))
            created, revoked = datetime.fromisoformat(fields["created_at"]), fields["revoked_at"]
            key = Key(number, fields["description"], created, datetime.fromisoformat(revoked) if revoked else None)
            return key, fields["sha256"]
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(f"The key file {file} cannot be read ({error}); remove it and create a new key.") from error

    def _write(self, key: Key, digest: str) -> None:
        fields = {
            "description": key.description,
            "created_at": key.created_at.isoformat(),
            "revoked_at": key.revoked_at.isoformat() if key.revoked_at else None,
            "sha256": digest,
        }
        replace_file(self.folder / f"{key.id}.json", json.dumps(fields, ensure_ascii=False, indent=2) + "\n")


def _digest(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()
