"""What is remembered and what is derived: LanceDB tables, the DuckDB catalog, small files."""
