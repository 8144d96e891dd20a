"""Sessions of the pages, kept in the service's memory and opened with a key or a one-time link, and their CSRF tokens.

A visitor's browser stores one random token in a cookie; the service's processes store the session of the token. Logout, a restart of
the service and the revocation of the key therefore end a session. The CSRF token is derived from the visitor's token, not stored.
"""

import hmac
import json
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from memory_assets.api.shared import SharedRecords
from memory_assets.settings import Settings
from memory_assets.stores.keys import KeyStore
from memory_assets.stores.state import TenantState
from memory_assets.tenants import Tenant, open_states

_IDLE_SECONDS = 12 * 3600
_MAX_SECONDS = 7 * 24 * 3600
_MAX_SESSIONS = 1_000
"""Open sessions; beyond that the longest idle one ends."""
_RECORD_BYTES = 32_768
_MAX_MESSAGE_CHARACTERS = 2_500
"""Characters of a message that fit a record even if JSON escapes all of them."""
_VISIT = "visit.json"


@dataclass(frozen=True, slots=True)
class Message:
    """A message that the next page shows once, and the memory whose last change it offers to undo, as of that change."""

    text: str
    undo: int | None = None
    seen: str = ""
    """The `updated_at` of that memory."""


class _Record(NamedTuple):
    """Stored state of a session."""

    tenant: str
    key: str
    last_visit: str
    """When the previous session of the tenant began; empty if there was none."""
    began: float
    used: float
    messages: Sequence[Sequence[Any]] = ()

    def encoded(self) -> bytes:
        return json.dumps(self).encode()


class Session:
    """Session of a browser that may read and change one tenant's memory."""

    def __init__(self, records: SharedRecords, number: str, record: _Record) -> None:
        self._records = records
        self._number = number
        self.tenant = record.tenant
        self.key = record.key
        """Id of the key that opened it; empty for a one-time link."""
        self.last_visit = datetime.fromisoformat(record.last_visit) if record.last_visit else None

    def add_message(self, message: Message) -> None:
        """Add a message for the next page. A long message is truncated; if the record is full, the oldest messages are dropped."""

        def add(value: bytes) -> bytes:
            record = _Record(*json.loads(value))
            messages = [*record.messages, [message.text[:_MAX_MESSAGE_CHARACTERS], message.undo, message.seen]]
            while len(encoded := record._replace(messages=messages).encoded()) > self._records.most_bytes:
                del messages[0]
            return encoded

        self._records.change(self._number, lambda value: add(value) if value else value)

    def take_messages(self) -> list[Message]:
        """Return the messages for the next page and remove them."""
        taken: list[Message] = []

        def take(value: bytes) -> bytes:
            record = _Record(*json.loads(value)) if value else None
            if record is None or not record.messages:
                return value
            taken.extend(Message(*each) for each in record.messages)
            return record._replace(messages=()).encoded()

        self._records.change(self._number, take)
        return taken


class Sessions:
    """Sessions of one service by digest of the visitor's token, shared by all processes forked from this one."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._secret = secrets.token_bytes(32)
        self._open = SharedRecords(_MAX_SESSIONS, _RECORD_BYTES)

    def csrf_of(self, token: str) -> str:
        """Return the token with which a visitor's form proves that this service rendered it."""
        return self._digest("csrf", token)

    def may_change(self, token: str, csrf: object) -> bool:
        """Whether a form's CSRF token belongs to the visitor."""
        return bool(token) and isinstance(csrf, str) and hmac.compare_digest(self.csrf_of(token).encode(), csrf.encode())

    def begin(self, tenant: str, key: str = "") -> str:
        token, now = new_token(), time.monotonic()
        before = _record_visit(open_states(self._settings).open(tenant))
        record = _Record(tenant, key, before, now, now)
        self._open.change(self._digest("session", token), lambda _: record.encoded())
        return token

    def find(self, token: str) -> Session | None:
        """Return a visitor's open session; end it if it is too old, its key was revoked or its tenant was deleted."""

        def use(value: bytes) -> bytes:
            if not value:
                return value
            record, now = _Record(*json.loads(value)), time.monotonic()
            tenant = Tenant(self._settings, record.tenant)
            is_fresh = now - record.used < _IDLE_SECONDS and now - record.began < _MAX_SECONDS
            if not is_fresh or not tenant.exists or (record.key and not KeyStore(tenant.state).is_active(record.key)):
                return b""
            return record._replace(used=now).encoded()

        number = self._digest("session", token)
        value = self._open.change(number, use)
        return Session(self._open, number, _Record(*json.loads(value))) if value else None

    def end(self, token: str) -> None:
        self._open.change(self._digest("session", token), lambda _: b"")

    def _digest(self, use: str, token: str) -> str:
        return hmac.new(self._secret, f"{use}:{token}".encode(), "sha256").hexdigest()


def new_token() -> str:
    return secrets.token_urlsafe(32)


def _record_visit(state: TenantState) -> str:
    """Record the start of a visit. Return the start of the previous one, or "" if there was none or its record is damaged."""
    before = ""
    with suppress(ValueError, TypeError, KeyError):
        before = datetime.fromisoformat(json.loads(state.get(_VISIT) or b"{}")["at"]).isoformat()
    state.put(_VISIT, json.dumps({"at": datetime.now(UTC).isoformat()}).encode())
    return before
