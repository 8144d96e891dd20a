"""Faults planted on purpose, in the forked command alone, to check that the campaign finds them."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from memory_assets_tests.torture.history import History
from memory_assets_tests.torture.world import Report
from memory_assets_tests.torture.zygote import Zygote, shared

Arguments = Sequence[str]


def _everywhere(name: str, made: Callable[[Any], Any]) -> None:
    """Replace a function of the program in every module that imported it."""
    found = [module for key, module in list(sys.modules.items()) if key.startswith("memory_assets.") and hasattr(module, name)]
    assert found, f"there is no {name} in which a fault could be planted"
    for module in found:
        setattr(module, name, made(getattr(module, name)))


def _afterwards(arguments: Arguments, command: str, work: Callable[[Any], None]) -> None:
    """Corrupt the table at the end of a command."""
    if arguments[0] == command:
        import atexit
        import os

        import lancedb

        folder = Path(os.environ["MEMORY_DATA_DIR"], os.environ["MEMORY_TENANT"], "vectors")

        def spoil() -> None:
            if (folder / "memories.lance").exists():
                work(lancedb.connect(folder).open_table("memories"))

        atexit.register(spoil)


def _commit_nothing(_: Arguments) -> None:
    from lancedb.table import LanceTable

    LanceTable.add = lambda self, *_, **__: SimpleNamespace(version=self.version)  # type: ignore[assignment, return-value]


def _forget_the_wrong(arguments: Arguments) -> None:
    _afterwards(arguments, "undo", lambda table: table.update(where=f"id != {arguments[1]}", values={"state": "forgotten"}))


def _miss_a_change(_: Arguments) -> None:
    def made(really: Any) -> Any:
        def read_changes(table: Any, since: Any, *rest: Any) -> Any:
            changes = really(table, since, *rest)
            return changes if since is None else replace(changes, rows=changes.rows.slice(1))

        return read_changes

    _everywhere("read_changes", made)


def _keep_the_time(arguments: Arguments) -> None:
    _afterwards(
        arguments, "forget", lambda table: table.update(where=f"id = {arguments[1]}", values_sql={"updated_at": "created_at"})
    )


def _take_no_lock(_: Arguments) -> None:
    import fcntl

    fcntl.flock = lambda *_: None


def _mask_nothing(_: Arguments) -> None:
    _everywhere("without_secrets", lambda _: lambda given, _known=None: given)


def _make_a_circle(arguments: Arguments) -> None:
    _afterwards(
        arguments,
        "supersede",
        lambda table: table.update(
            where=f"id = {arguments[2]}", values={"state": "superseded", "superseded_by": int(arguments[1])}
        ),
    )


def _revive(arguments: Arguments) -> None:
    _afterwards(arguments, "import", lambda table: table.update(where="state = 'forgotten'", values={"state": "active"}))


def _keep_the_old(arguments: Arguments) -> None:
    _afterwards(arguments, "edit", lambda table: table.update(where=f"id = {arguments[1]}", values={"state": "active"}))


def _bind_others(arguments: Arguments) -> None:
    _afterwards(arguments, "edit", lambda table: table.update(where="state = 'active'", values={"superseded_by": 7}))


def _leave_the_tenant(arguments: Arguments) -> None:
    if list(arguments[:2]) == ["tenant", "delete"]:
        _everywhere("delete_tenant", lambda _: lambda tenant: None)


def _read_another(_: Arguments) -> None:
    from memory_assets.settings import Settings

    really = Settings.tenant_vectors_uri
    Settings.tenant_vectors_uri = lambda self, name: really(self, "one" if name == "two" else name)  # type: ignore[method-assign]


def _back_up_less(arguments: Arguments) -> None:
    if arguments[0] == "backup":
        from memory_assets.stores.tables import StoredTable

        really = StoredTable.exists.fget
        assert really
        StoredTable.exists = property(lambda self: self.definition.name != "relations" and really(self))  # type: ignore[method-assign, assignment]


def _fail_aloud(arguments: Arguments) -> None:
    if arguments[0] == "tag":
        raise SystemExit(print("memory: a fault of memory_assets", file=sys.stderr) or 1)


MUTANTS: dict[str, tuple[str, Callable[[Arguments], None]]] = {
    "a store that commits nothing": ("store", _commit_nothing),
    "an undo that forgets the wrong one": ("undo", _forget_the_wrong),
    "a feed that misses a change": ("store", _miss_a_change),
    "a writer that keeps the old time": ("forget", _keep_the_time),
    "a lock that is not taken": ("store", _take_no_lock),
    "a secret left unmasked": ("secret", _mask_nothing),
    "a supersede that makes a circle": ("supersede", _make_a_circle),
    "an import that revives": ("import", _revive),
    "an edit that leaves the old one active": ("edit", _keep_the_old),
    "an edit that changes others": ("edit", _bind_others),
    "a deletion that leaves the tenant": ("store", _leave_the_tenant),
    "a backup that misses a table": ("store", _back_up_less),
    "two tenants in one store": ("store", _read_another),
    "a fault told as a refusal": ("tag", _fail_aloud),
}
"""Name -> the operation that shows the fault soonest, and the function that plants it."""


def plant(name: str, arguments: Arguments) -> None:
    """Plant a fault in this process."""
    MUTANTS[name][1](arguments)


def campaign(folder: Path, seconds: float, seed: int, names: Sequence[str] = tuple(MUTANTS)) -> Report:
    """Run a history with each fault planted until the fault is found or `seconds` are over."""
    report = Report("mutants", seed)
    for place, name in enumerate(names):
        found = _quietly(shared().planting(name), folder / str(place), seconds, seed, MUTANTS[name][0])
        print(f"mutant: {name}: {'caught: ' + found[:150] if found else 'NOT CAUGHT'}", flush=True)
        report.attempt(name, None if found else "the campaign does not find it")
    return report


def _quietly(zygote: Zygote, folder: Path, seconds: float, seed: int, favoured: str) -> str:
    import contextlib
    import io

    with contextlib.redirect_stdout(io.StringIO()):
        try:
            history = History(zygote, folder, seed, cold=0)
            history.author.favoured = favoured
            failures = history.report.failures or history.go(seconds, stop_at=1).failures
        except AssertionError as error:
            return str(error)
    return failures[0] if failures else ""
