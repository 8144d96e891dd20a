"""What a user can do, each thing once: the command line, HTTP, MCP and Dagster parse, call and print.

A module holds the operations on one subject. An answer has one JSON form (`model_dump_json`) and, if it is printed, one text form (`text`).
Parameters that programs may give are annotated with their bounds and meaning: HTTP makes its bodies of them.

Where an operation takes the id of a memory, text may be the first digits of it. If an operation raises an error, it has changed nothing,
unless its docstring says what stays:

    NotFoundError, ConflictError        nothing has that id or name; it is taken, comes from a file, or was changed at this moment
    InvalidInputError, SettingsError    a value that was given or set cannot be used
    ProcessingError, EmbedderError      a text cannot be analysed or embedded
    StoreError, TanaError               a store, or Tana, cannot be read or written

The faces write `operations.undo.undo(...)`: a module is imported when it is first used.
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
        given,
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
