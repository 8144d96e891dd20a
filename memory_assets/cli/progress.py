"""Progress on stderr, if it is a terminal: the current step, how much is done, and the time left."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

import click

from memory_assets.display import visible

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_COUNTED = re.compile(r"(\d+) of (\d+)")


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int], None]]:
    """Yield a function that shows (label, done, total) as a bar; silent with `--json` or if stderr is no terminal."""
    with StepProgress(shown=not click.get_current_context().params.get("as_json")) as progress:
        yield lambda label, done, total: progress.tell(label, f"{done} of {total}")


class StepProgress:
    """A line with a step's last message, and a bar with the time left if the step counts ("embedded 512 of 2000 memories").

    Silent if `shown` is False or stderr is no terminal. Rich is imported with the first message.
    """

    def __init__(self, *, shown: bool) -> None:
        self._shown = shown
        self._step = ""
        self._task: TaskID | None = None

    @cached_property
    def _progress(self) -> "Progress":
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        console, label = Console(stderr=True), TextColumn("{task.description}", markup=False)
        layout = (SpinnerColumn(), label, BarColumn(bar_width=20), TimeElapsedColumn(), TimeRemainingColumn())
        return Progress(*layout, console=console, transient=True, disable=not self._shown or not console.is_terminal)

    def __enter__(self) -> "StepProgress":
        return self

    def __exit__(self, *_: object) -> None:
        if self._task is not None:
            self._progress.stop()

    def tell(self, step: str, message: str) -> None:
        if self._task is None:
            self._progress.start()
        if self._task is None or step != self._step:
            if self._task is not None:
                self._progress.remove_task(self._task)
            self._step, self._task = step, self._progress.add_task("", total=None)
        counted = _COUNTED.search(message)
        done, total = map(int, counted.groups()) if counted else (None, None)
        self._progress.update(self._task, description=visible(f"{step}: {message}"), completed=done, total=total)

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Hide the line while something else is printed."""
        if self._task is not None:
            self._progress.stop()
        yield
        if self._task is not None:
            self._progress.start()
