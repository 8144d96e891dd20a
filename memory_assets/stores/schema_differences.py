"""Differences between a tenant's tables and the registry of schemas, told in sentences."""

from typing import TYPE_CHECKING

from memory_assets.stores.schema import CATALOG_TABLES, Table, is_lake

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duckdb import DuckDBPyConnection


def duplicate_keys(connection: "DuckDBPyConnection") -> list[str]:
    """Return the keys that occur twice in a table of a catalog, a sentence each."""
    found = []
    for each in CATALOG_TABLES:
        if each.key:
            key = ", ".join(f'"{name}"' for name in each.key)
            rows = connection.execute(f"SELECT {key} FROM {each.name} GROUP BY {key} HAVING count(*) > 1 LIMIT 3").fetchall()
            found += [f"{each.name} has the key {', '.join(map(str, row))} twice." for row in rows]
    return found


def differences(expected: Table, columns: "Mapping[str, str]") -> list[str]:
    """Return how a table differs from the registry, a sentence each; empty if it does not.

    `columns` maps the actual columns to their types, as DuckDB or Arrow names them; LanceDB's vector columns may be among them.
    """
    if not columns:
        return [f"The table {expected.name} is missing."]
    named = {
        column.name: str(column.type.arrow()) if expected.store == "LanceDB" else column.type.value.replace('"type"', "type")
        for column in expected.columns
    }
    missing = [f"{expected.name}.{name} is missing." for name in named if name not in columns]
    other = [
        f"{expected.name}.{name} is {columns[name]} and not {kind}."
        for name, kind in named.items()
        if name in columns and columns[name].replace('"', "") != kind.replace('"', "")
    ]
    known = ("embedding_", "meaning_") if expected.store == "LanceDB" else ()
    unknown = [
        f"{expected.name}.{name} is not registered." for name in columns if name not in named and not name.startswith(known)
    ]
    return missing + other + unknown


def list_tables(connection: "DuckDBPyConnection") -> list[str]:
    """Return the names of a catalog's tables. In DuckLake, `duckdb_tables()` fails if another attached catalog was removed."""
    own = (
        "ducklake_table_info(current_database())"
        if is_lake(connection)
        else "duckdb_tables() WHERE database_name = current_database()"
    )
    return [name for (name,) in connection.execute(f"SELECT table_name FROM {own}").fetchall()]


def catalog_differences(connection: "DuckDBPyConnection") -> list[str]:
    """Return how the tables of a catalog differ from the registry, a sentence each; in DuckLake also keys that occur twice."""
    in_lake = is_lake(connection)
    if in_lake:  # where duckdb_columns() can fail like duckdb_tables()
        tables = list_tables(connection)
        rows = [(name, *column[:2]) for name in tables for column in connection.execute(f'DESCRIBE "{name}"').fetchall()]
    else:
        own = "NOT internal AND database_name = current_database()"
        rows = connection.execute(f"SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE {own}").fetchall()
    found: dict[str, dict[str, str]] = {}
    for name, column, kind in rows:
        found.setdefault(name, {})[column] = kind.replace("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ")
    differing = [each for expected in CATALOG_TABLES for each in differences(expected, found.get(expected.name, {}))]
    return differing or (duplicate_keys(connection) if in_lake else [])
