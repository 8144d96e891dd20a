"""What is remembered and what is derived: LanceDB tables, the DuckDB catalog, small files."""

from memory_assets.stores.deferred import put_off

put_off()
