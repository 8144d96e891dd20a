"""A table written anew, so that no file of it keeps what its rows do not say any more.

LanceDB never changes a file: what was updated or deleted stays in the old one as long as another row of it is in use, and in the
versions before.
"""

import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pyarrow as pa

from memory_assets.errors import StoreError
from memory_assets.stores import lance
from memory_assets.stores.locks import exclusive_lock
from memory_assets.stores.tables import StoredTable


def rewrite(stored: StoredTable, change: Callable[[pa.Table], pa.Table]) -> None:
    """Put other rows in place of a table's rows, build its indices anew and drop every older version.

    Nobody commits meanwhile; who is reading an older version has to read again. It takes as long as copying the table.

    Args:
        stored: the table.
        change: all rows, in all columns -> the same ids with what they shall say.

    Raises:
        StoreError: it could not be done; either the old rows or the new ones are there, and doing it again ends it.
    """
    table = stored.writing
    with exclusive_lock(Path(stored.uri)):
        try:
            table.checkout_latest()
            rows = lance.aligned(change(table.to_arrow()), table.schema)
            table.merge_insert("id").when_matched_update_all().execute(rows, on_bad_vectors="null")
            for column, index in stored.definition.indices().items():
                table.create_index(column, config=index, replace=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # that others may be reading older versions: see above
                table.optimize(cleanup_older_than=timedelta(0), delete_unverified=True)
        except (RuntimeError, OSError, ValueError) as error:
            raise StoreError(
                f"The table {stored.definition.name!r} in {stored.uri} cannot be written anew ({lance.first_line(error)}); "
                "run the command again."
            ) from error
