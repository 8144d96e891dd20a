"""Encryption of backups with age, by the optional package pyrage."""

from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

from memory_assets.errors import SettingsError
from memory_assets.settings import Settings


@dataclass(frozen=True)
class Cipher:
    """Encryption for one recipient, and decryption with one identity."""

    recipient: str = ""
    """Public key `age1...`; empty for no encryption."""
    identity: Path | None = None
    """File of the secret key, needed only for reading."""

    @classmethod
    def of(cls, settings: Settings) -> "Cipher":
        return cls(settings.backup_recipient or "", settings.backup_identity)

    @property
    def suffix(self) -> str:
        """Suffix of object names, different for every recipient."""
        return f".{blake2b(self.recipient.encode(), digest_size=4).hexdigest()}.age" if self.recipient else ""

    def check(self) -> None:
        """Raise SettingsError if the recipient cannot be used, or if the identity's keys can be read and do not open its backups.

        Keys may be out of reach: on another machine, of another user, behind a passphrase, or in a pipe, which can be read once.
        """
        sealed = self.encrypt(b"")
        try:
            has_keys = self.identity is not None and self.identity.is_file() and bool(_key_lines(self.identity))
        except (OSError, ValueError):
            has_keys = False
        if self.recipient and has_keys:
            try:
                _age().decrypt(sealed, self._identities)
            except _age().DecryptError as error:
                raise SettingsError(
                    f"{self.identity} does not open backups for MEMORY_BACKUP_RECIPIENT; add the identity of that key to the file, or "
                    "correct MEMORY_BACKUP_IDENTITY."
                ) from error

    def encrypt(self, data: bytes) -> bytes:
        """Return `data` encrypted for the recipient; unchanged if there is none."""
        if not self.recipient:
            return data
        age = _age()
        try:
            return age.encrypt(data, [age.x25519.Recipient.from_str(self.recipient)])
        except (age.RecipientError, age.EncryptError) as error:
            raise SettingsError(
                f"MEMORY_BACKUP_RECIPIENT cannot be used ({error}); give the line that begins with age1."
            ) from error

    def decrypt(self, data: bytes) -> bytes:
        age = _age()
        try:
            return age.decrypt(data, self._identities)
        except age.DecryptError as error:
            raise SettingsError(f"{self.identity} does not decrypt this backup ({error}); name its own identity.") from error

    @cached_property
    def _identities(self) -> list[Any]:
        """The keys of the identity file, which is read once because it may be a pipe."""
        age = _age()
        if self.identity is None:
            raise SettingsError("The backup is encrypted; set MEMORY_BACKUP_IDENTITY to the file with its age identity.")
        try:
            return [age.x25519.Identity.from_str(line.strip()) for line in _key_lines(self.identity)]
        except (OSError, ValueError, age.IdentityError) as error:
            raise SettingsError(
                f"The age identity {self.identity} cannot be read ({error}); give the file of age-keygen."
            ) from error


def _key_lines(identity: Path) -> list[str]:
    return [line for line in identity.read_text(encoding="utf-8").splitlines() if line.startswith("AGE-SECRET-KEY-")]


def _age() -> Any:
    try:
        import pyrage
    except ModuleNotFoundError as error:
        raise SettingsError(
            "Encrypted backups need the package pyrage: run `pip install pyrage`, or unset MEMORY_BACKUP_RECIPIENT."
        ) from error
    return pyrage
