"""Setup and opening of the Dagster instance, and the protection of its folder.

`memory_assets.defs.upkeep` has the retention of its records, `memory_assets.stores.records` its files.
"""

import logging
import os
import re
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import md5
from importlib.resources import files
from pathlib import Path

import dagster as dg
from dagster_shared.check import CheckError
from sqlalchemy.exc import DBAPIError
from yaml import YAMLError

from memory_assets.defs.partitions import adopt_partitions
from memory_assets.defs.upkeep import wipe_future_ticks
from memory_assets.errors import MemoryAssetsError, StoreError, first_line
from memory_assets.privacy import close_to_others, keep_private
from memory_assets.settings import Settings, load_settings
from memory_assets.stores.files import replace_file
from memory_assets.stores.records import OURS, explain_failure, instance_home
from memory_assets.tenants import tenant_names

_log = logging.getLogger(__name__)
_CONFIG = files("memory_assets.defs").joinpath("dagster.yaml")
_OF_0_1_0 = "de52527f1a3777797a4585878be39c83"
"""MD5 of the configuration of 0.1.0, which is replaced if unedited."""
_UNSET_VARIABLE = re.compile(r'environment variable "(\w+)" which is not set')


@contextmanager
def open_instance(settings: Settings) -> Iterator[dg.DagsterInstance]:
    """Yield the instance in `instance_home`, set up at its first use and closed to others regardless of the umask.

    StoreError: its folder cannot be created, its configuration is invalid, or its records cannot be read or written.
    """
    home = instance_home(settings)
    named = os.environ.get("DAGSTER_HOME")
    if named and Path(named) != home:
        _log.warning(
            "memory: DAGSTER_HOME=%s is not used (%s); Dagster's records are in %s.",
            named,
            f"its dagster.yaml does not begin with {OURS!r}" if Path(named).is_absolute() else "the path is not absolute",
            home,
        )
    config = home / "dagster.yaml"
    if not config.exists() or md5(config.read_bytes(), usedforsecurity=False).hexdigest() == _OF_0_1_0:
        try:
            home.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace_file(config, _CONFIG.read_bytes())
        except OSError as error:
            raise StoreError(
                f"Dagster's folder {home} cannot be made ({error.strerror}); let DAGSTER_HOME name another."
            ) from error
    close_to_others(home)
    with explaining_failures(home):
        os.environ["DAGSTER_HOME"] = str(home)  # its configuration refers to it
        try:
            opened = dg.DagsterInstance.from_config(str(home))
        except (dg.DagsterError, CheckError, YAMLError, UnicodeDecodeError) as error:
            if _UNSET_VARIABLE.search(str(error)):
                raise
            what = f"Dagster's configuration {config} cannot be used ({first_line(error)})"
            raise StoreError(f"{what}; mend it, or move it away, and the next run writes another.") from error
        finally:
            os.environ.pop("DAGSTER_HOME")
            if named:
                os.environ["DAGSTER_HOME"] = named
        with opened as instance:
            yield instance


@contextmanager
def explaining_failures(home: Path) -> Iterator[None]:
    """Turn errors of Dagster's records, of Redis and of an unset variable into a StoreError; `home` is the instance's folder."""
    try:
        yield
    except dg.DagsterInvalidConfigError as error:  # Dagster loads the launcher at its first use
        if not (unset := _UNSET_VARIABLE.search(str(error))):
            raise
        config = home / "dagster.yaml"
        raise StoreError(f"Dagster's configuration {config} needs {unset[1]}, which is not set; set it.") from error
    except (DBAPIError, sqlite3.Error, *_server_errors()) as error:
        raise StoreError(_explain(home, error)) from error


def _server_errors() -> tuple[type[Exception], ...]:
    """Return the errors of PostgreSQL and Redis, whose packages only a cluster imports."""
    names = {"dagster_postgres.utils": "DagsterPostgresException", "redis.exceptions": "RedisError"}
    return tuple(getattr(sys.modules[module], name) for module, name in names.items() if module in sys.modules)


def _explain(home: Path, error: BaseException) -> str:
    cause = error if isinstance(error, DBAPIError | sqlite3.Error) else error.__cause__ or error
    cause = cause.orig or cause if isinstance(cause, DBAPIError) else cause
    if isinstance(cause, sqlite3.Error):
        return explain_failure(home, cause)
    if type(error).__module__ == "redis.exceptions":
        return f"Redis does not answer ({first_line(cause)}); check Redis and DAGSTER_BROKER_URL."
    return f"Dagster's records in PostgreSQL cannot be used ({first_line(cause)}); check PostgreSQL and DAGSTER_POSTGRES_URL."


def is_set_up(settings: Settings) -> bool:
    """Whether there is an instance. Creates none."""
    return (instance_home(settings) / "dagster.yaml").exists()


def main() -> None:
    """Set the instance up for the webserver and the daemon, and print the folder that `DAGSTER_HOME` must name for them."""
    keep_private()
    try:
        settings = load_settings()
        with open_instance(settings) as instance:
            with suppress(StoreError):  # PostgreSQL may start later; schedules and sensors adopt them too
                adopt_partitions(instance, tenant_names(settings))
            if moment := wipe_future_ticks(instance):
                _log.warning(
                    "memory: Sensors and schedules last ran on %s, in the future; their records are deleted, so that they run again.",
                    f"{moment:%Y-%m-%d}",
                )
            sys.stdout.flush()
            sys.stdout.buffer.write(os.fsencode(f"{instance.root_directory}\n"))  # a path has one encoding in every locale
    except MemoryAssetsError as error:
        sys.exit(f"memory: {error}")


if __name__ == "__main__":
    main()
