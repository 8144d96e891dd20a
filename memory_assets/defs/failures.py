"""Errors of a step: a transient one is retried a few times; any other becomes one sentence and is not retried.

If the process dies, run monitoring resumes the run (`memory_assets.defs.launcher`). The message of a foreign exception is not
recorded, because it may quote a row, a text or a value.
"""

import traceback
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import dagster as dg

from memory_assets.errors import MemoryAssetsError, StoreBusyError, describe_lack
from memory_assets.language.embedders.protocol import EmbedderAwayError

_RETRIES = 3
_PAUSE_SECONDS = 10.0

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def translate_errors(step: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Turn the exceptions of `step`, except a signal's, into Dagster's.

    RetryRequested: another process holds a lock beyond the timeout, or the embedder does not answer. Failure: anything else; its
    description is the sentence for a person.
    """

    @wraps(step)
    def translated(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        try:
            return step(*args, **kwargs)
        except (StoreBusyError, EmbedderAwayError) as error:
            raise dg.RetryRequested(_RETRIES, _PAUSE_SECONDS) from error
        except MemoryAssetsError as error:
            raise dg.Failure(str(error), allow_retries=False) from None
        except Exception as error:  # noqa: BLE001 - its message must not be recorded
            if isinstance(error.__cause__, dg.DagsterExecutionInterruptedError | KeyboardInterrupt):  # DuckDB wraps it
                raise error.__cause__ from None
            if lack := describe_lack(error):
                raise dg.Failure(lack, allow_retries=False) from None
            frames = "".join(traceback.format_tb(error.__traceback__))
            raise dg.Failure(
                f"{type(error).__name__} in {step.__name__}, which is a fault of memory_assets; please report where it happened.",
                metadata={"where": dg.MarkdownMetadataValue(f"```\n{frames}```")},
                allow_retries=False,
            ) from None

    return translated
