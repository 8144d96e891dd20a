"""Who is logged in to the pages: sessions in the service's memory, opened with a key or a one-time link, and their CSRF tokens.

A visitor's browser holds one random token in a cookie. A session is what the service's processes remember of such a token, so logging out,
a restart of the service and a revoked key end it. The CSRF token is derived from the visitor's token, so it needs no place of its own.
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
_LONGEST_SECONDS = 7 * 24 * 3600
_MOST_SESSIONS = 1_000
"""Beyond that the one that was idle longest ends."""
_RECORD_BYTES = 32_768
_LONGEST_MESSAGE = 2_500
"""Characters; of the most that JSON makes of one, a record holds a message of so many."""
_VISIT = "visit.json"


@dataclass(frozen=True, slots=True)
class Message:
    """What the next page says once, and the memory whose last change it offers to undo, as it was right after the change."""

    text: str
    undo: int | None = None
    seen: str = ""
    """The `updated_at` of that memory."""


class _Record(NamedTuple):
    """What is remembered of a session."""

    tenant: str
    key: str
    last_visit: str
    """When an earlier session of the tenant began; empty if there was none."""
    began: float
    used: float
    messages: Sequence[Sequence[Any]] = ()

    def encoded(self) -> bytes:
        return json.dumps(self).encode()


class Session:
    """One browser that may read and change one tenant's memory."""

    def __init__(self, records: SharedRecords, number: str, record: _Record) -> None:
        self._records = records
        self._number = number
        self.tenant = record.tenant
        self.key = record.key
        """Id of the key that opened it; empty for a one-time link."""
        self.last_visit = datetime.fromisoformat(record.last_visit) if record.last_visit else None

    def say(self, message: Message) -> None:
        """Let the next page say something; what is too long for the session's record is cut."""

        def add(value: bytes) -> bytes:
            record = _Record(*json.loads(value))
            messages = [*record.messages, [message.text[:_LONGEST_MESSAGE], message.undo, message.seen]]
            while len(encoded := record._replace(messages=messages).encoded()) > self._records.most_bytes:
                del messages[0]
            return encoded

        self._records.change(self._number, lambda value: add(value) if value else value)

    def take_messages(self) -> list[Message]:
        """What was to be said; nobody else says it again."""
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
    """The sessions of one service, by the digest of the visitor's token, for all processes that are forked from this one."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._secret = secrets.token_bytes(32)
        self._open = SharedRecords(_MOST_SESSIONS, _RECORD_BYTES)

    def csrf_of(self, token: str) -> str:
        """What a form of this visitor carries to prove that this service rendered it."""
        return self._digest("csrf", token)

    def may_change(self, token: str, csrf: object) -> bool:
        """Whether a form's CSRF token is the visitor's."""
        return bool(token) and isinstance(csrf, str) and hmac.compare_digest(self.csrf_of(token).encode(), csrf.encode())

    def begin(self, tenant: str, key: str = "") -> str:
        """Open a session; returns the visitor's new token."""
        token, now = new_token(), time.monotonic()
        before = _note_visit(open_states(self._settings).open(tenant))
        record = _Record(tenant, key, before, now, now)
        self._open.change(self._digest("session", token), lambda _: record.encoded())
        return token

    def find(self, token: str) -> Session | None:
        """The open session of a visitor. It ends here if it is too old, if its key was revoked or if its tenant was deleted."""

        def use(value: bytes) -> bytes:
            if not value:
                return value
            record, now = _Record(*json.loads(value)), time.monotonic()
            tenant = Tenant(self._settings, record.tenant)
            is_fresh = now - record.used < _IDLE_SECONDS and now - record.began < _LONGEST_SECONDS
            if not is_fresh or not tenant.exists or (record.key and not KeyStore(tenant.state).is_active(record.key)):
                return b""
            return record._replace(used=now).encoded()

        number = self._digest("session", token)
        value = self._open.change(number, use)
        return Session(self._open, number, _Record(*json.loads(value))) if value else None

    def end(self, token: str) -> None:
        """Close a visitor's session."""
        self._open.change(self._digest("session", token), lambda _: b"")

    def _digest(self, use: str, token: str) -> str:
        return hmac.new(self._secret, f"{use}:{token}".encode(), "sha256").hexdigest()


def new_token() -> str:
    """A random token for a visitor."""
    return secrets.token_urlsafe(32)


def _note_visit(state: TenantState) -> str:
    """Note that a visit begins now. Returns when the one before began; empty if there was none, or its note is damaged."""
    before = ""
    with suppress(ValueError, TypeError, KeyError):
        before = datetime.fromisoformat(json.loads(state.get(_VISIT) or b"{}")["at"]).isoformat()
    state.put(_VISIT, json.dumps({"at": datetime.now(UTC).isoformat()}).encode())
    return before
