"""The errors a person may meet: each message is one sentence that says what is wrong and what mends it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError


class MemoryAssetsError(Exception):
    """Base of every error that is shown to a person as it is, without a traceback."""


class InvalidInputError(MemoryAssetsError):
    """What was given cannot be accepted; the message names the field and the mend."""


class NotFoundError(MemoryAssetsError):
    """The memory, tenant or file that was named does not exist."""


class ConflictError(MemoryAssetsError):
    """What was asked for contradicts what is already there; nothing was changed."""


class ChangedMeanwhileError(ConflictError):
    """Somebody else changed the memory after it was read; nothing was changed."""


class StoreError(MemoryAssetsError):
    """A store cannot be opened, read or written; nothing was written in part."""


class DamagedError(StoreError):
    """Files of a store are gone or damaged."""


class StoreBusyError(StoreError):
    """Another process holds the store's lock longer than the bounded wait."""


class SettingsError(MemoryAssetsError):
    """A setting has a value that cannot be used; the message names the setting and where it came from."""


def trace(error: BaseException) -> str:
    """Where an error arose, and the errors that caused it, for a log.

    Of foreign errors without their messages: those may quote what they choked on, and a log outlives the deletion of a text.
    """
    import traceback

    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    frames = "".join(traceback.format_tb(error.__traceback__))
    before = f"{trace(cause)}\n" if cause else ""
    return f"{before}{frames}{said(error)}"


def first_line(error: BaseException) -> str:
    """What a library says of an error, without the traces and the places in its Rust sources that it adds."""
    import re

    found = re.sub(r",? /\S+\.rs:\d+:\d+", "", str(error).strip())
    return found.splitlines()[0][:300] if found else type(error).__name__


def first_fault(error: "ValidationError", whole: str = "it") -> str:
    """Place and message of the first thing that pydantic does not accept; `whole` names what has no place."""
    first = error.errors(include_input=False, include_url=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or whole}: {first['msg']}"


def said(error: BaseException) -> str:
    """The sentence of one of this project's errors, of a foreign one its kind alone."""
    return str(error) if isinstance(error, MemoryAssetsError) else type(error).__name__
