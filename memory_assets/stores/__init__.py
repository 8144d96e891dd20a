"""Storage: LanceDB tables, the DuckDB catalog, small files."""
