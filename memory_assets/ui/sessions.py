"""Who is logged in to the pages: sessions in this process's memory, opened with a key or a one-time link, and their CSRF tokens.

A visitor's browser holds one random token in a cookie. A session is what this process remembers of such a token, so logging out, a
restart of the service and a revoked key end it. The CSRF token is derived from the visitor's token, so it needs no place of its own.
"""

import hmac
import json
import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from memory_assets.stores.files import replace_file
from memory_assets.stores.keys import KeyStore

if TYPE_CHECKING:
    from pathlib import Path

    from memory_assets.settings import Settings

_IDLE_SECONDS = 12 * 3600
_LONGEST_SECONDS = 7 * 24 * 3600
_MOST_SESSIONS = 1_000
"""Beyond that the one that was idle longest ends."""
_VISIT = "visit.json"


@dataclass(slots=True)
class Message:
    """What the next page says once, and the memory whose last change it offers to undo, as it was right after the change."""

    text: str
    undo: int | None = None
    seen: str = ""
    """The `updated_at` of that memory."""


@dataclass(slots=True)
class Session:
    """One browser that may read and change one tenant's memory."""

    tenant: str
    key: str
    """Id of the key that opened it; empty for a one-time link."""
    last_visit: datetime | None
    """When an earlier session of the tenant began."""
    began: float = field(default_factory=time.monotonic)
    used: float = field(default_factory=time.monotonic)
    messages: list[Message] = field(default_factory=list)


class Sessions:
    """The sessions of one service, by the digest of the visitor's token."""

    def __init__(self, settings: "Settings") -> None:
        self._settings = settings
        self._secret = secrets.token_bytes(32)
        self._open: OrderedDict[str, Session] = OrderedDict()

    def csrf_of(self, token: str) -> str:
        """What a form of this visitor carries to prove that this service rendered it."""
        return self._digest("csrf", token)

    def may_change(self, token: str, csrf: object) -> bool:
        """Whether a form's CSRF token is the visitor's."""
        return bool(token) and isinstance(csrf, str) and hmac.compare_digest(self.csrf_of(token).encode(), csrf.encode())

    def begin(self, tenant: str, key: str = "") -> str:
        """Open a session; returns the visitor's new token."""
        token = new_token()
        self._open[self._digest("session", token)] = Session(tenant, key, _note_visit(self._settings.tenant_dir(tenant)))
        while len(self._open) > _MOST_SESSIONS:
            self._open.popitem(last=False)
        return token

    def find(self, token: str) -> Session | None:
        """The open session of a visitor. It ends here if it is too old, if its key was revoked or if its tenant was deleted."""
        number = self._digest("session", token)
        session, now = self._open.get(number), time.monotonic()
        if session is None:
            return None
        folder = self._settings.tenant_dir(session.tenant)
        is_fresh = now - session.used < _IDLE_SECONDS and now - session.began < _LONGEST_SECONDS
        if not is_fresh or not folder.is_dir() or (session.key and not KeyStore(folder).is_active(session.key)):
            del self._open[number]
            return None
        session.used = now
        self._open.move_to_end(number)
        return session

    def end(self, token: str) -> None:
        """Close a visitor's session."""
        self._open.pop(self._digest("session", token), None)

    def _digest(self, use: str, token: str) -> str:
        return hmac.new(self._secret, f"{use}:{token}".encode(), "sha256").hexdigest()


def new_token() -> str:
    """A random token for a visitor."""
    return secrets.token_urlsafe(32)


def _note_visit(folder: "Path") -> datetime | None:
    """Note that a visit begins now. Returns when the one before began, None if there was none."""
    path = folder / _VISIT
    try:
        before = datetime.fromisoformat(json.loads(path.read_text(encoding="utf-8"))["at"])
    except (OSError, ValueError, TypeError, KeyError):
        before = None
    replace_file(path, json.dumps({"at": datetime.now(UTC).isoformat()}))
    return before
