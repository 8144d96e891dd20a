"""The content of a logged error."""

import logging
import sys

import pytest

from memory_assets.api.logs import JsonFormatter, PrettyFormatter
from memory_assets.errors import StoreError, format_trace

SECRET = "Mira keeps the spare key below the third stone."


def failed() -> StoreError:
    """Return one of this project's errors, caused by a foreign error that quotes a text."""
    try:
        try:
            raise ValueError(SECRET)
        except ValueError as error:
            raise StoreError("The memories cannot be read.") from error
    except StoreError as error:
        return error


def test_where_it_arose_and_what_caused_it_and_no_foreign_message() -> None:
    told = format_trace(failed())
    assert "ValueError" in told and "The memories cannot be read." in told
    assert told.count("in failed") == 2
    assert SECRET not in told


@pytest.mark.parametrize("formatter", [JsonFormatter(), PrettyFormatter("%(message)s")])
def test_a_log_line_holds_no_foreign_message(formatter: logging.Formatter) -> None:
    try:
        raise failed()
    except StoreError:
        record = logging.LogRecord("memory", logging.ERROR, "", 0, "request failed", (), sys.exc_info())
    line = formatter.format(record)
    assert "ValueError" in line and "in failed" in line
    assert SECRET not in line
