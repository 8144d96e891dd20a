"""The content of a logged error, and which errors a replaced program causes."""

import logging
import os
import shutil
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from dagster import Failure

from memory_assets import errors
from memory_assets.api.logs import JsonFormatter, PrettyFormatter
from memory_assets.defs.failures import translate_errors
from memory_assets.errors import StoreError, describe_lack, format_trace

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


def test_an_error_after_the_program_was_installed_anew_is_the_replaced_programs(tmp_path: Path) -> None:
    program, fresh = tmp_path / "errors.py", tmp_path / "fresh.py"
    shutil.copy(errors.__file__, program)
    spec = spec_from_file_location("loaded", program)
    assert spec and spec.loader
    loaded = module_from_spec(spec)
    spec.loader.exec_module(loaded)
    assert not loaded.is_program_missing(AttributeError())
    shutil.copy2(program, fresh)
    fresh.replace(program)  # the same file with another inode, as some file systems show it
    assert not loaded.is_program_missing(AttributeError())
    os.utime(program, (1, 1))
    assert loaded.is_program_missing(AttributeError())
    assert not loaded.is_program_missing(loaded.StoreError())
    program.unlink()
    assert loaded.is_program_missing(AttributeError())


@pytest.mark.parametrize("formatter", [JsonFormatter(), PrettyFormatter("%(message)s")])
def test_a_log_line_holds_no_foreign_message(formatter: logging.Formatter) -> None:
    try:
        raise failed()
    except StoreError:
        record = logging.LogRecord("memory", logging.ERROR, "", 0, "request failed", (), sys.exc_info())
    line = formatter.format(record)
    assert "ValueError" in line and "in failed" in line
    assert SECRET not in line


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (OSError(24, "Too many open files", "/data/x"), "/data/x cannot be used (Too many open files); close other programs, or"),
        (OSError(24, "Too many open files"), "No more files can be opened (Too many open files); close other programs, or raise"),
        (OSError(13, "Permission denied", "/data/x"), "/data/x cannot be used (Permission denied); give yourself read and write"),
        (OSError(28, "No space left on device"), "The disk does not take what is to be written (No space left on device); make"),
        (ImportError("x.so: failed to map segment from shared object"), "There is not enough memory for this; close other"),
    ],
)
def test_what_the_machine_lacks_is_one_sentence_in_a_command_and_in_a_step(error: Exception, sentence: str) -> None:
    @translate_errors
    def step() -> None:
        raise error

    assert (describe_lack(error) or "").startswith(sentence)
    with pytest.raises(Failure) as told:
        step()
    assert (told.value.description or "").startswith(sentence)


def test_an_error_with_another_cause_lacks_nothing() -> None:
    assert not any(map(describe_lack, (ValueError("x"), FileNotFoundError(2, "No such file or directory", "/x"))))
