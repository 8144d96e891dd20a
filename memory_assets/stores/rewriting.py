"""Writes a table anew, so that none of its files keeps what its rows no longer say.

LanceDB never changes a file: an updated or deleted row stays in the old one while another row of it is in use, and in older versions.
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
    """Put `change` of all rows, in all columns, in place of a table's rows, build its indices anew and drop every older version.

    Nobody commits meanwhile; readers of an older version have to read again. It takes as long as copying the table. After a failure
    either the old rows or the new ones are there; doing it again ends it.
    """
    table = stored.writing
    with exclusive_lock(Path(stored.uri)):
        try:
            table.checkout_latest()
            rows = lance.aligned(change(table.to_arrow()), table.schema)
            if rows.num_rows:
                merge = table.merge_insert("id").when_matched_update_all().when_not_matched_by_source_delete()
                merge.execute(rows, on_bad_vectors="null")
            else:
                table.delete("true")
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
