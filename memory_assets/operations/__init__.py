"""The user's operations, shared by the command line, HTTP, MCP, the pages and Dagster, which only parse arguments and print answers.

A module holds the operations on one subject. An answer has one JSON form (`model_dump_json`) and one text form (`text`). Parameters
of programs are annotated with bounds and meaning; HTTP derives its request bodies from them.

A parameter that takes a memory's id also takes the id's first digits as text. An operation that raises has changed nothing, unless
its docstring says otherwise; one that works through many memories keeps what it finished, and goes on when run again. Errors:

    NotFoundError, ConflictError        the id or name does not exist, is taken, comes from a file, or has just been changed
    InvalidInputError, SettingsError    an argument or a setting is invalid
    ProcessingError, EmbedderError      a text cannot be analysed or embedded
    StoreError, TanaError, OSError      a store, Tana or a file cannot be read or written

Callers write `operations.undo.undo(...)`: a module is imported on first use.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    from memory_assets.operations import (
        answers,
        backup,
        changes,
        conflicts,
        consolidate,
        context,
        erase,
        exchange,
        graph,
        health,
        install,
        learn,
        names,
        noted,
        pai,
        pai_context,
        prompt,
        relate,
        run,
        scan,
        search,
        session,
        show,
        status,
        store,
        take_in,
        tenants,
        timeline,
        undo,
    )


def __getattr__(name: str) -> "ModuleType":
    if find_spec(f"{__name__}.{name}") is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")
