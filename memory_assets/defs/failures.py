"""How a step fails: what can pass is tried again a few times, what cannot is told in one sentence and not tried again.

The process that dies is another matter: the instance's `run_retries` take up its run (`dagster.yaml`). No message of a foreign
exception is recorded, because it may quote what it choked on: a row, a text, a value.
"""

import traceback
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import dagster as dg

from memory_assets.errors import MemoryAssetsError, StoreBusyError

_RETRIES = 3
_PAUSE_SECONDS = 10.0

Given = ParamSpec("Given")
Result = TypeVar("Result")


def told(step: Callable[Given, Result]) -> Callable[Given, Result]:
    """Sort what `step` raises.

    Raises:
        dagster.RetryRequested: another process holds a lock longer than the bounded wait, or the embedder does not answer.
        dagster.Failure: anything else; its description is the sentence for a person.
    """

    @wraps(step)
    def sorted_out(*given: Given.args, **named: Given.kwargs) -> Result:
        try:
            return step(*given, **named)
        except MemoryAssetsError as error:
            if _can_pass(error):
                raise dg.RetryRequested(_RETRIES, _PAUSE_SECONDS) from error
            raise dg.Failure(str(error), allow_retries=False) from None
        except Exception as error:  # noqa: BLE001 - whatever it is, its message is not recorded
            frames = "".join(traceback.format_tb(error.__traceback__))
            raise dg.Failure(
                f"{type(error).__name__} in {step.__name__}, which is a fault of memory_assets; please report where it happened.",
                metadata={"where": dg.MarkdownMetadataValue(f"```\n{frames}```")},
                allow_retries=False,
            ) from None

    return sorted_out


def _can_pass(error: MemoryAssetsError) -> bool:
    from memory_assets.language.embedders.protocol import EmbedderAwayError

    return isinstance(error, StoreBusyError | EmbedderAwayError)
