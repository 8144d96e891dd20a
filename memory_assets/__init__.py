"""The durable memory of an AI assistant, kept as Dagster data assets over LanceDB and DuckDB."""
