"""Errors of the Tana integration, each with a one-sentence message for a person."""

from memory_assets.errors import MemoryAssetsError


class TanaError(MemoryAssetsError):
    """A request to Tana failed."""


class TanaAwayError(TanaError):
    """Tana does not answer, or asks for a longer pause than the client waits. Nothing was changed there."""


class TanaUncertainError(TanaAwayError):
    """The answer to a change was lost. The caller must check whether Tana made the change before it retries."""


class TanaTokenError(TanaError):
    """The token is missing, or Tana rejects it."""


class NoTokenError(TanaTokenError):
    """No token is configured."""


class TanaRefusedError(TanaError):
    """Tana rejects the request."""


class TanaNotFoundError(TanaRefusedError):
    """Tana has no such node."""


class TanaFaultError(TanaError):
    """Tana failed while it answered, and would fail again on a retry (a "poison node")."""
